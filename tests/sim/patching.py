"""Replaces parts of the product for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any


@contextmanager
def patched(owner: Any, **changes: Any) -> Iterator[None]:
    """Replace attributes of `owner` by those of `changes` for a while. Raises TypeError if a
    replacement does not accept the same call as the original, an error that every seed would
    "find"."""
    before = {name: owner.__dict__[name] for name in changes}
    for name, value in changes.items():
        _bind_like(before[name], value)
    for name, value in changes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def _bind_like(original: Any, change: Any) -> None:
    parameters = signature(original).parameters.values()
    by_name = [one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY]
    by_place = [one for one in parameters if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    signature(change).bind(*by_place, **dict.fromkeys(by_name))
