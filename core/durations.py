"""Parses durations: as people type them (`90s`, `1h30m`), and in ISO 8601, which some of Kafka's
configs use (`PT90M`).

Imports nothing slow, because the command line parses its options with this.
"""

import re
from typing import Final, NamedTuple

UNITS_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_WORDS: Final = {
    "millisecond": "ms",
    "second": "s",
    "sec": "s",
    "minute": "min",
    "hour": "h",
    "day": "d",
    "week": "w",
}
_MAX_MS: Final = (1 << 63) - 1
_BARE: Final = re.compile(r"\d+(?:\.\d+)?|\.\d+", re.ASCII)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([a-zA-Z]+)\s*", re.ASCII)
_ISO: Final = re.compile(
    r"([+-])?P(?:([+-]?\d+)D)?"
    r"(?:T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)


class Duration(NamedTuple):
    """A length of time as the value of an option."""

    ms: int

    @property
    def s(self) -> float:
        """The length in seconds."""
        return self.ms / 1000


def ratio_ms(text: str, bare: str = "s") -> tuple[int, int]:
    """Return the milliseconds of a duration, exactly, as numerator and denominator.

    A duration is a number with a unit (`500ms`, `1.5m`, `7 days`), or several of them (`1h30m`). A
    number without a unit is in the unit `bare`. Raises ValueError.
    """
    text = text.strip()
    if _BARE.fullmatch(text):
        return _product(text, UNITS_MS[bare])
    total, scale, position = 0, 1, 0
    for part in _PART.finditer(text):
        word = part[2].lower()
        word = _WORDS.get(word.removesuffix("s"), word)
        if part.start() != position or word not in UNITS_MS:
            break
        number, own = _product(part[1], UNITS_MS[word])
        total, scale = total * own + number * scale, scale * own
        position = part.end()
    if position != len(text) or not text:
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise ValueError(f"not a duration: {shown!r} (such as 500ms, 90s, 15m, 1h30m, 2d)")
    return total, scale


def _product(number: str, unit_ms: int) -> tuple[int, int]:
    whole, _, fraction = number.partition(".")
    if len(whole) > 30 or len(fraction) > 30:
        raise ValueError(f"too long: {number[:40]!r}…")
    return int(whole + fraction) * unit_ms, 10 ** len(fraction)


def duration_ms(text: str, bare: str = "s") -> int:
    """Return the milliseconds of a duration, rounded (see `ratio_ms`). Raises ValueError."""
    total, scale = ratio_ms(text, bare)
    found = (2 * total + scale) // (2 * scale)
    if found > _MAX_MS:
        raise ValueError(f"too long: {text!r}")
    return found


def signed_ms(text: str) -> int:
    """Parse like `duration_ms`, but accept a sign. Raises ValueError."""
    found = duration_ms(text.removeprefix("-").removeprefix("+"))
    return -found if text.startswith("-") else found


def iso_ms(text: str) -> int:
    """Return the milliseconds of an ISO 8601 duration `PnDTnHnMn.nS`, parsed as Java's
    `Duration.parse` does. Raises ValueError."""
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise ValueError(f"not a duration: {text!r} (such as P1D, PT90M, P1DT2H)")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups()[1:])
    total = ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000
    return round(-total if found[1] == "-" else total)
