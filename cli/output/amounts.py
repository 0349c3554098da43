"""Shows counts, bytes and rates to people. Row types import this when pk starts, so it must import
little."""

from typing import Literal


def show_count(number: int) -> str:
    """Show a number of things: `1,003`."""
    return f"{number:,}"


def show_bytes(number: float | None) -> str:
    """Show bytes: `812 B`, `3.1 GB`; `-` if unknown."""
    if number is None or number < 0:
        return "-"
    value = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def show_ms(ms: float) -> str:
    """Show milliseconds with three significant digits, without the unit: `0.123`, `1.23`,
    `1,234`."""
    digits = 3 if ms < 1 else 2 if ms < 10 else 1 if ms < 100 else 0
    return f"{ms:,.{digits}f}"


def show_rate(rate: float | None, of: Literal["records", "bytes"] = "records") -> str:
    """Show a rate per second; `-` if unknown.

    Rates of records are plain numbers, `0`, `0.4`, `812`, `12.4k`, `1.3M`, since the title of the
    column or the sentence gives the unit. Rates of bytes are `3.1 MB/s`.
    """
    if rate is None:
        return "-"
    if of == "bytes":
        return f"{show_bytes(rate)}/s"
    if rate < 9.95:
        return f"{rate:.1f}" if rate >= 0.05 else "0"
    for unit, size in (("", 1), ("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if rate / size < 999.5:
            number = rate / size
            return f"{number:.0f}{unit}" if number >= 99.95 or not unit else f"{number:.1f}{unit}"
    return f"{rate / 1e9:.0f}G"
