"""The state machine for the remote segments of a partition."""

from collections.abc import Sequence

import msgspec
import pytest

from pk.core.log.epochs import EpochStart
from pk.core.log.remote.metadata import (
    PartitionDelete,
    PartitionDeleteState,
    RemotePartition,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
)
from pk.core.log.remote.segments import (
    RemoteSegments,
    copied_to,
    highest_copied,
    in_lineage,
    is_within,
    range_at,
)

PARTITION = RemotePartition("t", bytes(range(16)), 0)
COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = SegmentState
Epochs = Sequence[tuple[int, int]]


def lineage(*entries: tuple[int, int]) -> list[EpochStart]:
    return [EpochStart(*entry) for entry in entries]


def segment(number: int, start: int, end: int, epochs: Epochs) -> RemoteSegment:
    return RemoteSegment(
        PARTITION, bytes([number]) * 16, start, end, 1, 1000 + end, 5,
        tuple(lineage(*epochs)), 10 * (end - start + 1), COPY_STARTED,
    )  # fmt: skip


def become(segments: RemoteSegments, number: int, *states: SegmentState) -> None:
    for state in states:
        segments.replay(SegmentUpdate(PARTITION, bytes([number]) * 16, 1, 6, state))


def copied(*those: RemoteSegment) -> RemoteSegments:
    segments = RemoteSegments(PARTITION)
    for one in those:
        segments.replay(one)
        become(segments, one.id[0], COPY_FINISHED)
    return segments


def number_of(found: RemoteSegment | None) -> int | None:
    return None if found is None else found.id[0]


def test_a_segment_is_found_from_the_end_of_its_copy_to_the_begin_of_its_deletion() -> None:
    segments = RemoteSegments(PARTITION)
    segments.replay(segment(1, 0, 9, [(0, 0)]))
    assert segments.find(0, 5) is None
    assert segments.last_offset(0) == -1
    become(segments, 1, COPY_FINISHED)
    assert [number_of(segments.find(0, offset)) for offset in (0, 9, 10)] == [1, 1, None]
    assert segments.find(1, 5) is None
    become(segments, 1, DELETE_STARTED)
    assert segments.find(0, 5) is None
    assert segments.last_offset(0) == -1
    assert len(segments) == 1
    become(segments, 1, DELETE_FINISHED)
    assert len(segments) == 0


def test_a_segment_is_found_only_by_the_epochs_that_it_has() -> None:
    segments = copied(segment(1, 0, 9, [(0, 0), (2, 6)]), segment(2, 10, 19, [(2, 10)]))
    assert [number_of(segments.find(0, offset)) for offset in (0, 5, 6, 9)] == [1, 1, None, None]
    assert [number_of(segments.find(2, offset)) for offset in (5, 6, 9, 10)] == [None, 1, 1, 2]


@pytest.mark.parametrize(
    ("states", "left"),
    [
        ((COPY_FINISHED, COPY_FINISHED), COPY_FINISHED),
        ((DELETE_STARTED, COPY_FINISHED), DELETE_STARTED),
        ((COPY_FINISHED, DELETE_FINISHED), COPY_FINISHED),
        ((DELETE_FINISHED,), COPY_STARTED),
        ((COPY_FINISHED, COPY_STARTED), COPY_FINISHED),
    ],
)
def test_a_state_that_cannot_follow_is_ignored(
    states: tuple[SegmentState, ...], left: SegmentState
) -> None:
    segments = RemoteSegments(PARTITION)
    segments.replay(segment(1, 0, 9, [(0, 0)]))
    become(segments, 1, *states)
    assert [one.state for one in segments] == [left]


def test_a_larger_copy_replaces_those_that_it_contains() -> None:
    segments = copied(
        segment(1, 0, 9, [(0, 0)]), segment(2, 10, 19, [(0, 10)]), segment(3, 0, 29, [(0, 0)])
    )
    assert [number_of(segments.find(0, offset)) for offset in (0, 15, 29)] == [3, 3, 3]
    assert [segments.is_readable(one) for one in segments] == [False, False, True]


@pytest.mark.parametrize(("start", "end"), [(0, 9), (10, 19), (0, 19), (20, 29)])
def test_a_late_smaller_copy_hides_nothing(start: int, end: int) -> None:
    segments = copied(segment(1, 0, 29, [(0, 0)]), segment(2, start, end, [(0, start)]))
    assert {number_of(segments.find(0, offset)) for offset in range(30)} == {1}
    late = segments.get(b"\2" * 16)
    assert late is not None and not segments.is_readable(late)


def test_the_same_offsets_copied_again_replace_the_first_copy() -> None:
    segments = copied(segment(1, 0, 9, [(0, 0)]), segment(2, 0, 9, [(0, 0)]))
    assert number_of(segments.find(0, 4)) == 2
    become(segments, 1, DELETE_STARTED, DELETE_FINISHED)
    assert number_of(segments.find(0, 4)) == 2


def test_the_last_copied_offset_of_a_log() -> None:
    segments = copied(segment(1, 0, 9, [(0, 0)]), segment(2, 10, 19, [(0, 10), (1, 15)]))
    assert highest_copied(segments, lineage((0, 0), (1, 15)), 30) == (19, 1)
    assert highest_copied(segments, lineage((0, 0), (1, 15), (2, 25)), 30) == (19, 1)
    assert highest_copied(segments, lineage((0, 0), (3, 12)), 30) == (11, 0), "an unclean leader"
    assert highest_copied(segments, lineage((5, 0)), 30) == (-1, -1)
    assert highest_copied(segments, [], 30) == (-1, -1)
    assert highest_copied(segments, lineage((0, 0), (1, 15)), 17) == (16, 1), (
        "the log was truncated"
    )


def test_a_segment_that_is_missing_before_others_was_not_copied() -> None:
    ours = lineage((0, 0))
    segments = copied(*(segment(n, 10 * n, 10 * n + 9, [(0, 10 * n)]) for n in range(4)))
    assert copied_to(segments, ours, 0, 50) == 39
    become(segments, 1, DELETE_STARTED)
    assert copied_to(segments, ours, 0, 50) == 9
    assert copied_to(segments, ours, 10, 50) == 9
    assert copied_to(segments, ours, 20, 50) == 39
    assert highest_copied(segments, ours, 50) == (39, 0)


def test_a_log_that_ends_within_a_segment_has_only_a_part_of_it() -> None:
    """A follower that is far behind; the search must end there."""
    segments = copied(segment(1, 0, 9, [(0, 0)]))
    assert copied_to(segments, lineage((0, 0)), 0, 5) == 4
    assert copied_to(segments, lineage((0, 0)), 5, 5) == 4
    assert copied_to(segments, lineage((0, 0), (1, 5)), 0, 5) == 4
    assert range_at(segments, lineage((0, 0)), 5, 5) is None


def test_what_belongs_to_a_log_after_an_unclean_election() -> None:
    one, two = segment(1, 0, 9, [(0, 0)]), segment(2, 10, 19, [(0, 10), (1, 15)])
    ours = lineage((0, 0), (1, 15), (2, 20))
    assert is_within(one, ours, 30) and is_within(two, ours, 30)
    others = lineage((0, 0), (2, 12))
    assert is_within(one, others, 30) and not is_within(two, others, 30)
    assert not is_within(two, ours, 19), "the log ends in it"
    assert not is_within(one, [], 30)
    trimmed = lineage((1, 17), (2, 20))
    assert is_within(two, trimmed, 30), "the start of the log moved into it"
    assert is_within(one, trimmed, 30), "and behind this one"


def test_a_reader_goes_through_the_segments_of_its_epochs() -> None:
    segments = copied(
        segment(1, 0, 9, [(0, 0)]),
        segment(2, 10, 19, [(0, 10), (1, 15)]),
        segment(3, 10, 24, [(0, 10), (2, 12)]),
        segment(4, 25, 29, [(2, 25)]),
    )

    def read(epochs: list[EpochStart], offset: int) -> list[tuple[int, int, int]]:
        ranges = in_lineage(segments, epochs, offset, 40)
        return [(r.segment.id[0], r.start_offset, r.end_offset) for r in ranges]

    ours, others = lineage((0, 0), (1, 15)), lineage((0, 0), (2, 12))
    assert read(others, 0) == [(1, 0, 9), (2, 10, 11), (3, 12, 24), (4, 25, 29)]
    assert read(others, 14) == [(3, 14, 24), (4, 25, 29)]
    assert read(ours, 3) == [(1, 3, 9), (2, 10, 14), (2, 15, 19)]
    assert read(lineage((9, 0)), 0) == []
    assert read([], 0) == []


def test_the_deletion_of_a_partition_only_goes_on() -> None:
    segments = RemoteSegments(PARTITION)
    marked, started, finished = PartitionDeleteState
    for state in (marked, finished, started):
        segments.replay(PartitionDelete(PARTITION, 1, 5, state))
    assert segments.delete_state is finished


def test_all_segments_share_one_partition() -> None:
    """A hundred thousand of them are kept in memory."""
    segments = copied(msgspec.structs.replace(segment(1, 0, 9, [(0, 0)])))
    assert all(one.partition is segments.partition for one in segments)
