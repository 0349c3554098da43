"""Cutting offset ranges into even tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.spark.read.ranges import OffsetRange, split, total_offsets

ranges = st.lists(
    st.builds(
        lambda begin, length, topic_id: (begin, length, topic_id),
        st.integers(0, 2**40),
        st.integers(0, 10_000),
        st.binary(min_size=16, max_size=16),
    ),
    max_size=8,
).map(
    lambda drawn: [
        OffsetRange("t", partition, begin, begin + length, topic_id)
        for partition, (begin, length, topic_id) in enumerate(drawn)
    ]
)


@given(ranges, st.integers(1, 64), st.integers(1, 5_000))
def test_pieces_lie_end_to_end_and_cover_the_ranges(
    whole: list[OffsetRange], min_ranges: int, offsets_max: int
) -> None:
    pieces = split(whole, min_ranges=min_ranges, offsets_max=offsets_max)
    for r in whole:
        at = r.begin
        for piece in (p for p in pieces if p.partition == r.partition):
            assert piece.begin == at and piece.topic_id == r.topic_id
            assert 0 < piece.offsets <= offsets_max
            at = piece.end
        assert at == r.end
    assert len(pieces) >= min(min_ranges, total_offsets(whole))


@given(ranges, st.integers(1, 5_000))
def test_no_more_pieces_than_needed(whole: list[OffsetRange], offsets_max: int) -> None:
    pieces = split(whole, offsets_max=offsets_max)
    assert len(pieces) == sum(-(-r.offsets // offsets_max) for r in whole)


def test_pieces_of_a_range_are_even() -> None:
    pieces = split([OffsetRange("t", 0, 10, 10_010)], min_ranges=3)
    assert [(p.begin, p.end) for p in pieces] == [(10, 3343), (3343, 6676), (6676, 10_010)]


def test_large_partitions_get_the_tasks() -> None:
    pieces = split([OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 0, 900_000)], min_ranges=4)
    assert [p.partition for p in pieces] == [0, 1, 1, 1, 1]


def test_a_plan_wants_at_least_one_range() -> None:
    with pytest.raises(ValueError, match="at least one"):
        split([], min_ranges=0)
