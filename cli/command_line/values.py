"""Parsers of option values.

An option's annotation selects its parser: `int`, `float`, `str`, `Pair` or a `Literal`; `count`,
`seconds`, `pause` and `config_pair` are stricter and are given as typer's `parser`. Each raises
ValueError with a message that continues the option's name.
"""

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_PAUSE_MIN_S: Final = 0.1
"""A repeated command must not keep a cluster busy."""

_DAY_S: Final = 86_400


class Pair(NamedTuple):
    """The value of an option that takes KEY=VALUE."""

    key: str
    value: str


def whole(text: str) -> int:
    """An integer."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"needs a whole number, not {text!r}") from None


def count(text: str) -> int:
    """An integer above 0."""
    number = whole(text)
    if number < 1:
        raise ValueError(f"needs a number above 0, not {text}")
    return number


def finite(text: str) -> float:
    """A number; neither infinity nor NaN."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"needs a number, not {text!r}")
    return number


def seconds_in(text: str) -> float | None:
    """The seconds in `2`, `0.5` or `2s`; None if the text is not a time."""
    number = text.removesuffix("s")
    if not number.replace(".", "", 1).isdecimal() or not number.isascii():
        return None
    return float(number)


def seconds(text: str) -> float:
    """A time above 0, at most a day, in seconds."""
    found = seconds_in(text)
    if not found or found > _DAY_S:
        raise ValueError(f"needs seconds above 0 such as 2 or 0.5, not {text!r}")
    return found


def pause(text: str) -> float:
    """An interval in seconds: a tenth or more."""
    found = seconds_in(text)
    if found is None or not _PAUSE_MIN_S <= found <= _DAY_S:
        limits = f"from {_PAUSE_MIN_S} to {_DAY_S}"
        raise ValueError(f"needs seconds {limits}, such as 2 or 0.5, not {text!r}")
    return found


def pair(text: str) -> Pair:
    """KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"needs KEY=VALUE, not {text!r}")
    return Pair(key.strip(), value)


class ConfigValueError(ValueError):
    """An invalid config value; the message is about the config, not the option."""


def config_pair(text: str) -> Pair:
    """KEY=VALUE of a config, whose value may have a unit: `retention.ms=7d`."""
    key, value = pair(text)
    if value[-1:].isdecimal():  # spares most commands an import
        return Pair(key, value)
    from pk.cli.config_keys.units import plain_value

    try:
        return Pair(key, plain_value(key, value))
    except ValueError as e:
        raise ConfigValueError(str(e)) from None


READERS: Final[dict[Any, Callable[[str], Any]]] = {
    str: str,
    int: whole,
    float: finite,
    Pair: pair,
}
"""What reads a value, by its type."""
