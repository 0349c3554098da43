"""The one grammar for positions, and times as users type them."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.cli.positions.grammar import (
    COMMITTED,
    END,
    OFFSET_MAX,
    START,
    Anchor,
    Position,
    Positions,
    Range,
    parse_position,
    parse_positions,
    parse_range,
)
from pk.cli.positions.times import show_span, show_time, time_ms

NOW = int(datetime(2026, 3, 10, 15, 30, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000
EAST = timezone(timedelta(hours=2))


def ms(*parts: int, zone: timezone = UTC) -> int:
    return int(datetime(*parts, tzinfo=zone).timestamp() * 1000)  # pyright: ignore[reportArgumentType]


@for_each(
    ("text", "expected"),
    [
        ("start", START),
        ("earliest", START),
        ("end", END),
        ("latest", END),
        ("0", Position(Anchor.OFFSET, 0)),
        ("42", Position(Anchor.OFFSET, 42)),
        ("-10", Position(Anchor.END, -10)),
        ("+10", Position(Anchor.START, 10)),
        ("committed", COMMITTED),
        ("committed-5", Position(Anchor.COMMITTED, -5)),
        ("committed+5", Position(Anchor.COMMITTED, 5)),
        ("@1767225600", Position(Anchor.TIME, 1767225600000)),
        ("@1767225600000", Position(Anchor.TIME, 1767225600000)),
        ("@-1h", Position(Anchor.TIME, NOW - HOUR)),
        ("@now", Position(Anchor.TIME, NOW)),
        ("@2026-01-01", Position(Anchor.TIME, ms(2026, 1, 1))),
    ],
)
def test_a_position(text: str, expected: Position) -> None:
    assert parse_position(text, NOW, UTC) == expected


@for_each(
    ("text", "begin", "end"),
    [
        ("5", Position(Anchor.OFFSET, 5), None),
        ("start..end", START, END),
        ("-10..end", Position(Anchor.END, -10), END),
        ("..100", START, Position(Anchor.OFFSET, 100)),
        ("100..", Position(Anchor.OFFSET, 100), None),
        ("5:9", Position(Anchor.OFFSET, 5), Position(Anchor.OFFSET, 9)),
        (":end", START, END),
        ("@-1h..end", Position(Anchor.TIME, NOW - HOUR), END),
        (
            "@2026-01-01T10:00..@2026-01-01T11:00",
            Position(Anchor.TIME, ms(2026, 1, 1, 10)),
            Position(Anchor.TIME, ms(2026, 1, 1, 11)),
        ),
        (
            "@yesterday 14:00..@today",
            Position(Anchor.TIME, ms(2026, 3, 9, 14)),
            Position(Anchor.TIME, ms(2026, 3, 10)),
        ),
        ("committed..end", COMMITTED, END),
    ],
)
def test_a_range(text: str, begin: Position, end: Position | None) -> None:
    assert parse_range(text, NOW, UTC) == Range(begin, end)


def test_positions_by_partition() -> None:
    found = parse_positions("0=5,1=9..end,12=@2026-01-01..", NOW, UTC)
    assert found == Positions(
        None,
        {
            0: Range(Position(Anchor.OFFSET, 5)),
            1: Range(Position(Anchor.OFFSET, 9), END),
            12: Range(Position(Anchor.TIME, ms(2026, 1, 1))),
        },
    )
    assert found.of(1) == Range(Position(Anchor.OFFSET, 9), END)
    assert found.of(2) is None
    assert not found.bounded
    assert parse_positions("start..end", NOW).bounded


def test_ranges_without_an_end_get_the_current_one() -> None:
    assert str(parse_positions("-5", NOW).ended()) == "-5..end"
    assert str(parse_positions("0=5,1=2..9", NOW).ended()) == "0=5..end,1=2..9"


@for_each(
    "text",
    [
        "",
        "x",
        "10x",
        "--5",
        "@",
        "@x",
        "..",
        ":",
        "9..5",
        "@-1h..@-2h",
        "end..start",
        "end..5",
        "end..@now",
        "-5..start",
        "@-1h..start",
        "committed..start",
        "0=end..start",
        "1=2,1=3",
        "0=,1=2",
        "committed*2",
        "5:6:7",
        "²",
        "1" * 30,
    ],
)
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_positions(text, NOW, UTC)


positions = st.one_of(
    st.sampled_from([START, END, COMMITTED]),
    st.builds(Position, st.just(Anchor.OFFSET), st.integers(0, OFFSET_MAX)),
    st.builds(Position, st.just(Anchor.START), st.integers(1, OFFSET_MAX)),
    st.builds(Position, st.just(Anchor.END), st.integers(-OFFSET_MAX, -1)),
    st.builds(Position, st.just(Anchor.COMMITTED), st.integers(-(10**15), 10**15)),
    st.builds(Position, st.just(Anchor.TIME), st.integers(0, 4 * 10**12)),
)


@given(positions, st.one_of(st.none(), positions))
def test_what_a_range_prints_reads_as_itself(begin: Position, end: Position | None) -> None:
    if end is not None and (begin.anchor is end.anchor and begin.value > end.value):
        begin, end = end, begin
    if end is not None and begin.anchor is not end.anchor and (begin == END or end == START):
        begin, end = end, begin
    made = Range(begin, end)
    assert parse_range(str(made), NOW) == made


@given(st.text(max_size=40))
def test_any_text_is_a_position_or_a_sentence(text: str) -> None:
    try:
        parse_positions(text, NOW, UTC)
    except ValueError as e:
        assert str(e)


@for_each(
    ("text", "zone", "expected"),
    [
        ("0", UTC, 0),
        ("99999999999", UTC, 99999999999000),
        ("100000000000", UTC, 100000000000),
        ("2026-01-31", UTC, ms(2026, 1, 31)),
        ("2026-01-31", EAST, ms(2026, 1, 31, zone=EAST)),
        ("2026-01-31T14:00", EAST, ms(2026, 1, 31, 12)),
        ("2026-01-31 14:00:30", UTC, ms(2026, 1, 31, 14, 0, 30)),
        ("2026-01-31T14:00Z", EAST, ms(2026, 1, 31, 14)),
        ("2026-01-31T14:00:00.250+02:00", UTC, ms(2026, 1, 31, 12) + 250),
        ("today", UTC, ms(2026, 3, 10)),
        ("today 09:15", EAST, ms(2026, 3, 10, 7, 15)),
        ("yesterday 14:00", UTC, ms(2026, 3, 9, 14)),
        ("-90m", UTC, NOW - 90 * 60_000),
        ("-1h30m", UTC, NOW - 90 * 60_000),
        ("-1.5s", UTC, NOW - 1500),
        ("+2d", UTC, NOW + 48 * HOUR),
    ],
)
def test_a_time(text: str, zone: timezone, expected: int) -> None:
    assert time_ms(text, NOW, zone) == expected


@pytest.mark.parametrize("text", ["yesterday", "-90m", "2026-01-31", "-1h..end"])
def test_a_time_without_its_sign_is_understood_as_a_mistake(text: str) -> None:
    with pytest.raises(ValueError, match="write a time as @" + text.partition("..")[0]):
        parse_positions(text, NOW, UTC)


def test_a_format_is_understood_as_a_mistake() -> None:
    with pytest.raises(ValueError, match="not a position: 'json'; for a format, write -f json"):
        parse_positions("json", NOW, UTC)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("@-1h:end", "@-1h..end"),
        ("@-1h:", "@-1h.."),
        ("0=@2026-01-01T10:00:@now", "@2026-01-01T10:00..@now"),
    ],
)
def test_a_range_with_a_time_is_shown_how_it_is_written(text: str, written: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"write a range with times as {written}")):
        parse_positions(text, NOW, UTC)


@pytest.mark.parametrize(
    "text", ["start..end", "5..5", "end..end", "start..start", "-5..+3", "-2..5", "end.."]
)
def test_a_range_that_may_hold_something_or_says_that_it_does_not(text: str) -> None:
    assert parse_range(text, NOW, UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "today x", "-", "-5x", "2026-13-01", "2026-01-01T25:00"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        time_ms(text, NOW, UTC)


@given(st.integers(0, 10**13))
def test_a_shown_time_reads_as_itself(moment: int) -> None:
    assert time_ms(show_time(moment, UTC), NOW, EAST) == moment


def test_times_beyond_the_calendar() -> None:
    assert show_time(1_795_253_464_328_000) == "1795253464328000"
    assert show_time(2**63 - 1, UTC) == str(2**63 - 1)
    for text in ("9" * 19, "9" * 5000, "+106751991167d", f"-{'9' * 400}d", f"-{'9' * 30}d"):
        with pytest.raises(ValueError, match=r"not a time|too long"):
            time_ms(text, NOW)


def test_shown_spans() -> None:
    spans = [show_span(n) for n in (0, 4, 999, 1300, 9949, 9951, 42_000)]
    assert spans == ["0 ms", "4 ms", "999 ms", "1.3 s", "9.9 s", "10 s", "42 s"]
    spans = [show_span(n) for n in (59_600, 90_000, 720_000, 12_000_000, 86_430_000, 604_800_000)]
    assert spans == ["1 min", "1 min 30 s", "12 min", "3 h 20 min", "1 d", "7 d"]
    spans = [show_span(n) for n in (4, 1300, 720_000, 12_000_000, 187_200_000)]
    assert spans == ["4 ms", "1.3 s", "12 min", "3 h 20 min", "2 d 4 h"]
