"""Durations and sizes as config values: `retention.ms=7d`, `segment.bytes=1GiB`,
`log.retention.hours=7d`.

The end of a key's name is its unit. A value in another unit is converted here, before the request:
brokers and clients accept only plain numbers. Plain numbers, and values that do not look like
numbers, are left unchanged.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from pk.cli.exits import Unusable
from pk.core.durations import ratio_ms

_SIZES: Final = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_KEY_UNITS_MS: Final = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000}
_KEY_UNIT_NAMES: Final = {"ms": "milliseconds", "bytes": "bytes"}
_NUMBER: Final = re.compile(r"[+-]?\d+")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_WITH_UNIT: Final = re.compile(r"[+-]?\d+(?:\.\d+)?\s*[a-zA-Z][a-zA-Z0-9.\s]*")

_TIME_SHOWN: Final = (
    (86_400_000, "day", "days"),
    (3_600_000, "hour", "hours"),
    (60_000, "min", "min"),
    (1000, "s", "s"),
    (1, "ms", "ms"),
)
_FALLBACKS: Final = {
    "default": "the default",
    "static_broker": "from the broker's file",
    "dynamic_broker": "the default of this broker",
    "dynamic_default_broker": "the default of all brokers",
}
"""The layer whose value applies once a config is deleted, in words."""
_SIZE_SHOWN: Final = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def _unit_of(key: str) -> str:
    """The unit of a config key, from its last word; empty if unknown."""
    last = key.rpartition(".")[2]
    return last if last == "bytes" or last in _KEY_UNITS_MS else ""


def plain_value(key: str, value: str) -> str:
    """Convert `value` to the unit of the config key `key`: `7d` becomes `604800000` for
    retention.ms, `168` for log.retention.hours.

    Raises ValueError, with a sentence, if the unit of the value does not fit the key.
    """
    unit, text = _unit_of(key), value.strip()
    if not unit or _NUMBER.fullmatch(text) or not _WITH_UNIT.fullmatch(text):
        return value
    if text[0] in "+-":
        raise ValueError(
            f"{key}={value}: a value with a unit cannot have a sign; {_example(key, unit)}"
        )
    total = size_of(text) if unit == "bytes" else _span_ms(text)
    if total is None:
        raise ValueError(f"{key}={value}: {_example(key, unit)}")
    found = total / _KEY_UNITS_MS.get(unit, 1)
    if found.denominator != 1:
        name = _KEY_UNIT_NAMES.get(unit, unit)
        raise ValueError(f"{key}={value}: the key takes whole {name}, not {float(found):g}")
    return str(found.numerator)


def config_value(key: str, value: str) -> str:
    """Convert a command-line value like `plain_value`. Raises Unusable."""
    try:
        return plain_value(key, value)
    except ValueError as e:
        raise Unusable(f"{e}.") from None


def _example(key: str, unit: str) -> str:
    name = _KEY_UNIT_NAMES.get(unit, unit)
    if unit == "bytes":
        return f"{key} is a size: give {name}, or a value such as 512KiB, 100MB or 1GiB"
    return f"{key} is a duration: give {name}, or a value such as 90s, 15m, 1h30m or 7d"


def _span_ms(text: str) -> Fraction | None:
    try:
        return Fraction(*ratio_ms(text))
    except ValueError:
        return None


def size_of(text: str) -> Fraction | None:
    """The bytes that a number with a unit means: `100MB`, `1.5 GiB`; None if the text is not such a
    number."""
    found = _SIZE.fullmatch(text)
    unit = _SIZES.get(found[2].lower()) if found else None
    return Fraction(found[1]) * unit if found and unit else None


def in_words(key: str, value: str | None) -> str | None:
    """A plain number in common units (`7 days`, `1 GiB`, `1 min 40 s`); None if that adds nothing,
    or the key has no unit."""
    unit = _unit_of(key)
    if not unit or value is None or not re.fullmatch(r"\d{1,18}", value):
        return None
    number = int(value)
    if unit == "bytes":
        for size, name in _SIZE_SHOWN:
            if number >= size and number % size == 0:
                return f"{number // size} {name}"
        return None
    said = exact_span(number * _KEY_UNITS_MS[unit])
    own = {"ms": "ms", "seconds": "s", "minutes": "min", "hours": "hours"}[unit]
    return None if said in (f"{number} {own}", f"{number} {own.removesuffix('s')}") else said


def exact_span(ms: int) -> str:
    """An exact duration: `7 days`, `1 hour 30 min`, `1 min 40 s`."""
    parts: list[str] = []
    left = ms
    for size, one, many in _TIME_SHOWN:
        n, left = divmod(left, size)
        if n:
            parts.append(f"{n} {one if n == 1 else many}")
    return " ".join(parts) or "0 ms"


def both_ways(key: str, value: str | None) -> str:
    """A value in plain form, with its equivalent: `604800000 (7 days)`."""
    words = in_words(key, value)
    if words is not None:
        return f"{value} ({words})"
    return "(none)" if value is None else value or "(empty)"


def shown_value(row: Mapping[str, Any], at: str) -> str:
    """The value before (`from`) or after (`to`) a config change, for people: `604800000 (7 days)`.

    `row` has the config's key (`name`) and both values. If the key is deleted, the value after the
    change names the layer that supplies it: `604800000 (7 days), the default`.
    """
    layer = row.get("to_source") if at == "to" else None
    fallback = _FALLBACKS.get(layer, "") if layer else ""
    if row[at] is None:
        return f"({fallback.removeprefix('the ')})" if fallback else "-"
    said = both_ways(str(row["name"]), row[at])
    return f"{said}, {fallback}" if fallback else said
