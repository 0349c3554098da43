"""Values of the library Faker, for `{{faker PROVIDER}}` in a template of `--fake`.

Faker is optional (`pip install 'pk-broker[faker]'`). It has hundreds of providers in many
languages, and a name or a city takes it twenty times as long as pk's own functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from pk.cli.exits import Unusable
from pk.core.nearest import did_you_mean

LOCALE = "locale"


def faker_value(args: Sequence[str]) -> Callable[[Random], str]:
    """A function that makes values of the provider in `args`, such as `city locale=de_DE` or `pyint
    max_value=9`, from given random numbers.

    A value stays within a line and a JSON string: line ends become spaces, and double quotes become
    single ones. Raises ValueError for arguments that make no value, and Unusable without the
    library.
    """
    try:
        from faker import Factory
    except ImportError:
        raise Unusable(
            "--fake: {{faker}} needs the library Faker: pip install 'pk-broker[faker]'."
        ) from None
    if not args:
        raise ValueError("takes PROVIDER [KEY=VALUE…]")
    provider, *pairs = args
    options = dict(_pair(pair) for pair in pairs)
    locale = options.pop(LOCALE, "en_US")
    try:
        generator = Factory.create(locale)
    except AttributeError:
        raise ValueError(f"has no locale {locale!r}") from None
    if provider.startswith("_") or not callable(getattr(generator, provider, None)):
        names = [name for name in dir(generator) if not name.startswith("_")]
        hint = did_you_mean(provider, names, "; https://faker.readthedocs.io lists them.")
        raise ValueError(f"has no provider {provider!r}{hint}")

    def value(random: Random) -> str:
        generator.random = random
        made = getattr(generator, provider)(**options)
        return " ".join(str(made).splitlines()).replace("\\", "/").replace('"', "'")

    try:
        value(Random(0))
    except Exception as e:  # noqa: BLE001 (a provider may raise anything)
        raise ValueError(f"cannot make {' '.join(args)}: {e}") from None
    return value


def _pair(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE; the value is JSON, or otherwise text."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ValueError(f"needs KEY=VALUE, not {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
