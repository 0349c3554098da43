"""Durations: one grammar."""

from fractions import Fraction

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.core.durations import UNITS_MS, duration_ms, iso_ms, ratio_ms, signed_ms


@for_each(
    ("text", "expected"),
    [
        ("500ms", 500),
        ("1.5m", 90_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        ("7 days", 604_800_000),
        ("1 hour 30 min", 5_400_000),
        ("30", 30_000),
        ("0.25", 250),
        (".5", 500),
        ("0", 0),
        ("0.0004", 0),
        ("0.0005", 1),
    ],
)
def test_a_duration(text: str, expected: int) -> None:
    assert duration_ms(text) == expected
    assert signed_ms(text) == expected and signed_ms(f"-{text}") == -expected


@for_each(
    "text", ["", " ", "s", "-5s", "5y", "5s6", "6 5s", "1e3", "inf", "nan", "٣s", "5s!", "1h-30m"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration_ms(text)


@pytest.mark.parametrize("text", ["9" * 400 + "d", "9" * 20 + "w", "106751991168d"])
def test_a_duration_beyond_the_end_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        duration_ms(text)


@given(
    st.lists(
        st.tuples(st.decimals(0, 10**6, places=3), st.sampled_from(sorted(UNITS_MS))), min_size=1
    )
)
def test_parts_add_up_exactly(parts: list[tuple[object, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    total = sum(Fraction(str(number)) * UNITS_MS[unit] for number, unit in parts)
    assert Fraction(*ratio_ms(text)) == total


def test_a_number_alone_is_in_the_unit_of_whoever_asks() -> None:
    assert duration_ms("5000", bare="ms") == duration_ms("5s", bare="ms") == 5000
    assert duration_ms("2", bare="m") == 120_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", 86_400_000),
        ("PT90M", 5_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("-PT1H", -3_600_000),
    ],
)
def test_an_iso_duration(text: str, expected: int) -> None:
    assert iso_ms(text) == expected


@pytest.mark.parametrize("text", ["P", "1D", "PT", "P1H", ""])
def test_what_is_no_iso_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        iso_ms(text)
