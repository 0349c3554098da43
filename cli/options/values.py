"""Parsers of option values.

An option's annotation selects its parser: `int`, `float`, `str`, `Pair`, `Duration` or a `Literal`;
`count`, `span`, `pause`, `config_pair` and others are stricter and are given as typer's `parser`.
Each raises ValueError with a message that continues the option's name.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from pk.core.durations import Duration, duration_ms, signed_ms

_PAUSE_MIN_MS: Final = 100
"""A repeated command must not keep a cluster busy."""

_DAY_MS: Final = 86_400_000


class Pair(NamedTuple):
    """The value of an option that takes KEY=VALUE."""

    key: str
    value: str


def whole(text: str) -> int:
    """Parse an integer."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"needs a whole number, not {text!r}") from None


def count(text: str) -> int:
    """Parse an integer above 0."""
    number = whole(text)
    if number < 1:
        raise ValueError(f"needs a number above 0, not {text}")
    return number


def size(text: str) -> int:
    """Parse a number of bytes above 0, plain or with a unit."""
    from pk.cli.config_keys.units import plain_value

    try:
        found = int(plain_value("size.bytes", text))
    except ValueError:
        found = 0
    if found < 1:
        raise ValueError(f"needs a size above 0, such as 64MB or 1GiB, not {text!r}")
    return found


def finite(text: str) -> float:
    """Parse a number other than infinity and NaN."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"needs a number, not {text!r}")
    return number


def duration(text: str) -> Duration:
    """Parse a duration: a number with a unit, or a number of seconds."""
    return Duration(_milliseconds(text, duration_ms))


def span(text: str) -> Duration:
    """Parse a duration above 0."""
    found = duration(text)
    if found.ms < 1:
        raise ValueError(f"needs a duration above 0, such as 500ms or 2s, not {text!r}")
    return found


def signed(text: str) -> Duration:
    """Parse a duration that may be negative."""
    return Duration(_milliseconds(text, signed_ms))


def pause(text: str) -> Duration:
    """Parse the time between two rounds of a repeated command: at least a tenth of a second."""
    found = duration(text)
    if not _PAUSE_MIN_MS <= found.ms <= _DAY_MS:
        raise ValueError(f"needs a duration from {_PAUSE_MIN_MS}ms to 1d, not {text!r}")
    return found


def is_duration(text: str) -> bool:
    """Whether the text is a duration."""
    try:
        duration_ms(text)
    except ValueError:
        return False
    return True


def apache_ms(text: str) -> int:
    """Parse the value of an option of Apache's tools: milliseconds, which may be negative, or a
    duration with a unit."""
    if text.removeprefix("-").isdecimal():
        return whole(text)
    return _milliseconds(text, duration_ms)


def apache_minutes(text: str) -> Duration:
    """Parse the value of an option of Apache's tools: minutes, above 0, or a duration with a
    unit."""
    found = _milliseconds(text, partial(duration_ms, bare="m"))
    if found < 1:
        raise ValueError(f"needs a duration above 0, not {text!r}")
    return Duration(found)


def _milliseconds(text: str, read: Callable[[str], int]) -> int:
    try:
        return read(text)
    except ValueError:
        example = "such as 500ms, 90s, 15m, 1h30m or 2d"
        raise ValueError(f"needs a duration {example}, not {text!r}") from None


def pair(text: str) -> Pair:
    """Parse KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"needs KEY=VALUE, not {text!r}")
    return Pair(key.strip(), value)


class ConfigValueError(ValueError):
    """An invalid config value; the message is about the config, not the option."""


def config_pair(text: str) -> Pair:
    """Parse KEY=VALUE of a config, whose value may have a unit: `retention.ms=7d`."""
    key, value = pair(text)
    if value[-1:].isdecimal():  # most commands do not need this import
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
    Duration: duration,
}
"""The function that parses a value, by its type."""
