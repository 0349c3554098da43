"""Reads and shows times as people type them: epoch numbers, ISO dates, durations before now,
`today`, `yesterday 14:00`.

A time without a zone is local. Pure: the current time and the zone are arguments.
"""

from datetime import UTC, datetime, timedelta, tzinfo

from pk.core.durations import duration_ms

MILLISECONDS_FROM = 100_000_000_000
"""A bare number from this one up is in milliseconds, below it in seconds (in seconds, this is the
year 5138)."""

TIME_MAX_MS = (1 << 63) - 1
"""The last time that a record can have."""

_DAYS = {"today": 0, "yesterday": -1, "tomorrow": 1}


def time_ms(text: str, now_ms: int, zone: tzinfo | None = None) -> int:
    """The epoch milliseconds of `text`. With `zone` None, the zone is the machine's. Raises
    ValueError."""
    word = text.strip()
    if not word:
        raise ValueError("a time is missing")
    if word == "now":
        return now_ms
    if word.isascii() and word.isdigit():
        if len(word) > 19 or int(word) > TIME_MAX_MS:
            raise ValueError(f"not a time: {word[:40]!r} is too large for a time in milliseconds")
        number = int(word)
        return number if number >= MILLISECONDS_FROM else number * 1000
    if word[0] in "+-":
        moment = now_ms + (1 if word[0] == "+" else -1) * duration_ms(word[1:])
        if moment > TIME_MAX_MS:
            raise ValueError(f"not a time: {word!r} is too far in the future")
        return moment
    day, _, clock = word.partition(" ")
    if day in _DAYS:
        return _relative_day(_DAYS[day], clock.strip(), now_ms, zone)
    return _iso_ms(word, zone, word)


def _relative_day(days: int, clock: str, now_ms: int, zone: tzinfo | None) -> int:
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    day = (now.date() + timedelta(days=days)).isoformat()
    return _iso_ms(f"{day}T{clock}" if clock else day, zone, clock or day)


def _iso_ms(word: str, zone: tzinfo | None, shown: str) -> int:
    try:
        moment = datetime.fromisoformat(word)
        if moment.tzinfo is None and zone is not None:
            moment = moment.replace(tzinfo=zone)
        since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"not a time: {shown!r} (such as 2026-01-31, 2026-01-31T14:00, -90m, 'yesterday "
            "14:00', 1767225600)"
        ) from None
    return since // timedelta(milliseconds=1)


def show_time(ms: int, zone: tzinfo | None = None) -> str:
    """Show `ms` as an ISO time with milliseconds and zone. Empty if there is no time (-1); a bare
    number if the time is beyond the calendar, since some producers write microseconds."""
    if ms < 0:
        return ""
    try:
        moment = datetime.fromtimestamp(ms / 1000, zone)
        if moment.tzinfo is None:
            moment = moment.astimezone()
    except (ValueError, OverflowError, OSError):
        return str(ms)
    return moment.isoformat(timespec="milliseconds")


def show_clock(time: str) -> str:
    """Show an ISO time to people, to the second and without a zone: `2026-01-31 14:00:00`."""
    return time[:19].replace("T", " ")


def show_span(ms: float) -> str:
    """Show a duration in its two largest units: `4 ms`, `1.3 s`, `2 s`, `1 min 30 s`, `3 h 20 min`,
    `2 d 4 h`."""
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 9950:
        return f"{f'{ms / 1000:.1f}'.removesuffix('.0')} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    while not parts[0][0]:
        del parts[0]
    return " ".join(f"{number} {unit}" for number, unit in parts[:2] if number)
