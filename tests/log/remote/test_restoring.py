"""The part of a partition that a new cluster restores from the objects of a lost one."""

import pytest
from log.remote.copies import PARTITION, a_log, copy_all

from pk.core.log.epochs import EpochStart
from pk.core.log.remote.checking import checked_objects
from pk.core.log.remote.copying import epochs_between
from pk.core.log.remote.memory_storage import MemoryStorage
from pk.core.log.remote.metadata import RemoteSegment, SegmentState
from pk.core.log.remote.restoring import NOTHING, FoundSegment, found_topics, plan_partition
from pk.core.log.remote.segment_object import Tail, TopicState, format_tail, parse_tail
from pk.core.log.remote.segments import RemoteSegments, in_lineage

Lineage = list[tuple[int, int]]

OLD: Lineage = [(0, 0), (2, 50)]
UNCLEAN: Lineage = [(0, 0), (2, 50), (5, 70)]


def segment(number: int, start: int, end: int, lineage: Lineage) -> FoundSegment:
    epochs = tuple(EpochStart(*one) for one in lineage if one[1] <= end)
    copied = RemoteSegment(
        partition=PARTITION,
        id=bytes([number]) * 16,
        start_offset=start,
        end_offset=end,
        broker_id=1,
        max_timestamp=0,
        event_ms=0,
        epochs=epochs_between(epochs, start, end),
        size=1,
        state=SegmentState.COPY_FINISHED,
    )
    return FoundSegment(copied, epochs)


@pytest.mark.parametrize(
    ("segments", "start", "end", "taken"),
    [
        ([(0, 29, OLD), (30, 59, OLD), (60, 89, OLD)], 0, 89, [0, 1, 2]),
        # The log began at 10 when the last one was copied.
        ([(0, 29, OLD), (30, 59, [(0, 10), (2, 50)])], 10, 59, [0, 1]),
        # Segments before a gap are not restored.
        ([(0, 29, OLD), (60, 89, OLD)], 60, 89, [1]),
        # The leader of epoch 5 began at 70, and did not have the records that were copied before
        # from 70 on.
        ([(0, 59, OLD), (60, 89, OLD), (70, 79, UNCLEAN)], 0, 79, [0, 1, 2]),
        # The records from 60 to 69 are in the segment of the old leader alone, and that is gone.
        ([(0, 59, OLD), (70, 79, UNCLEAN)], 70, 79, [1]),
        # Copied twice, in other pieces.
        ([(0, 29, OLD), (0, 59, OLD), (30, 59, OLD)], 0, 59, [0, 1, 2]),
        # They overlap.
        ([(0, 39, OLD), (30, 59, OLD)], 0, 59, [0, 1]),
    ],
)
def test_the_log_that_counts(
    segments: list[tuple[int, int, Lineage]], start: int, end: int, taken: list[int]
) -> None:
    found = [segment(number, *one) for number, one in enumerate(segments)]
    plan = plan_partition(PARTITION, found)
    assert (plan.start_offset, plan.end_offset) == (start, end)
    assert sorted(one.id[0] for one in plan.segments) == taken
    known = RemoteSegments(PARTITION)
    for one in plan.segments:
        known.replay(one)
    ranges = list(in_lineage(known, plan.lineage, start, end + 1))
    assert ranges[0].start_offset == start and ranges[-1].end_offset == end


def test_nothing_was_copied() -> None:
    assert plan_partition(PARTITION, []) == NOTHING


def test_a_store_says_what_its_topics_were() -> None:
    storage = MemoryStorage()
    copied = copy_all(a_log(), storage)
    (topic,) = found_topics(checked_objects(storage, records=False, at_once=4), "c")
    assert (topic.name, topic.state, topic.cluster_ids) == (PARTITION.topic, None, ("c",))
    assert len(topic.partitions) == PARTITION.partition + 1
    plan = topic.partitions[PARTITION.partition].plan
    assert [one.id for one in plan.segments] == [one.id for one in copied]
    assert (plan.start_offset, plan.end_offset) == (0, copied[-1].end_offset)
    assert {one.custom_metadata for one in plan.segments} == {None}


def test_a_tail_has_the_topic_and_one_of_the_first_version_has_not() -> None:
    state = TopicState(3, 2, {"retention.ms": "1"}, 5)
    epochs = (EpochStart(0, 0),)
    tail = Tail(0, 9, 0, 100, b"head", b"", b"", b"", b"", epochs, state)
    assert parse_tail("x", format_tail(tail)) == tail
    from pk.core import cbor
    from pk.core.log.remote.segment_object import FOOTER, KIND, MAGIC
    from pk.core.record.batch import crc_of

    old = cbor.dumps(KIND, 0, [0, 9, 0, 100, b"head", b"", b"", b"", b"", [[0, 0]]])
    data = old + FOOTER.pack(len(old), crc_of(old), MAGIC)
    parsed = parse_tail("x", data)
    assert (parsed.epochs, parsed.topic) == (epochs, None)
