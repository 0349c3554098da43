"""Faults from a seed: a store that fails before or after an operation, notes that get lost, leaders
that change in between. Every record is readable at all times, and in the end nothing is left over.
Planted bugs show that the test would find errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
import trio
from broker.remote.tiered import Tiered, tiered
from group.brokers import simulated
from msgspec.structs import replace

from pk.core.broker.remote.deleted_topics import DELETION_DELAY_S
from pk.core.broker.remote.metadata_topic import RemoteLogMetadataTopic
from pk.core.broker.remote.segment_deleter import SegmentDeleter
from pk.core.broker.replication import remote_log
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.epochs import EpochStart
from pk.core.log.remote import segments as remote_segments
from pk.core.log.remote.metadata import Record, RemoteSegment, SegmentState
from pk.core.log.remote.segment_object import format_tail, parse_tail
from pk.core.log.remote.segments import RemoteSegments
from pk.core.log.remote.storage import RemoteStorageError, SegmentName
from pk.core.meta.events import TopicDeleted

STEPS = 14
SEEDS = range(12)


class Faults:
    """Random failures."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.on = False

    def store(self, operation: str, done: bool) -> bool:
        share = {"put": 0.3, "delete": 0.4}.get(operation, 0)
        return self.on and self.random.random() < share

    def note(self) -> bool:
        return self.on and self.random.random() < 0.15


async def play(seed: int, patch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    faults = Faults(random)
    write = RemoteLogMetadataTopic.write

    async def lossy(topic: RemoteLogMetadataTopic, record: Record) -> None:
        if faults.note():
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        await write(topic, record)
        if faults.note():
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    patch.setattr(RemoteLogMetadataTopic, "write", lossy)
    async with tiered(2) as t:
        await t.create(1, 2)
        t.storage.fail = faults.store
        leader = 1
        for _ in range(STEPS):
            match random.choice(("produce", "produce", "turn", "turn", "retain", "lead")):
                case "produce":
                    await t.produce(random.randint(1, 2), node=leader, each=2)
                case "turn":
                    await fail_or_not(t, leader, faults)
                case "retain":
                    await t.retain(1, 2)
                case _:
                    await t.cluster.until(lambda: t.ends() == {t.starts(leader)[2]})  # noqa: B023
                    leader = 3 - leader
                    await t.cluster.change("t", 0, leader=leader)
            await check(t, leader)
        for _ in range(3):
            await t.turn(leader)
        await t.retain(1, 2)
        await check(t, leader)
        known = {
            str(SegmentName("test", t.partition, s.start_offset, s.id)) for s in t.segments(leader)
        }
        assert {s.state for s in t.segments(leader)} <= {SegmentState.COPY_FINISHED}
        assert set(t.storage.objects) == known, "nothing is left over"


async def fail_or_not(t: Tiered, leader: int, faults: Faults) -> None:
    faults.on = True
    try:
        await t.turn(leader)
    except (KafkaError, RemoteStorageError):
        pass
    finally:
        faults.on = False


async def check(t: Tiered, leader: int) -> None:
    """Every record that was acknowledged is read from the leader."""
    manager, partition = t.manager(leader), t.cluster.partition(leader)
    await t.cluster.until(lambda: manager.is_idle)
    end = partition.log.state.log_end_offset
    await t.cluster.until(lambda: partition.high_watermark == end)
    assert await t.read(leader) == t.sent


@simulated
async def test_an_object_that_is_no_segment_is_deleted_by_the_next_leader() -> None:
    """A cut-off leader's upload ends after the next leader gave the copy up."""
    async with tiered(2) as t:
        await t.create(1, 2)
        await t.produce(2)
        await t.turn()
        known = dict(t.storage.objects)
        name = min(known)
        orphan = str(SegmentName.parse(name)._replace(id=b"o" * 16))
        other = f"{name.rpartition('/')[0]}/notes.txt"
        t.storage.objects |= {orphan: known[name], other: b"ours"}
        await t.turn()
        assert orphan in t.storage.objects, "within a leadership it is not looked for again"
        await t.cluster.until(lambda: t.ends() == {t.starts(1)[2]})
        await t.cluster.change("t", 0, leader=2)
        await t.turn(2)
        assert t.storage.objects == known | {other: b"ours"}


@simulated
async def test_an_object_that_is_the_only_copy_stays() -> None:
    """Without its metadata the object is never read, but it may be the only copy."""
    async with tiered(2) as t:
        await t.create(1, 2)
        await t.produce(2)
        await t.turn()
        known = dict(t.storage.objects)
        longest = t.segments()[-1]
        far = tail_until(known[max(known)], longest.end_offset + 1000)
        orphan = str(SegmentName.parse(max(known))._replace(id=b"o" * 16))
        t.storage.objects[orphan] = far
        await t.cluster.until(lambda: t.ends() == {t.starts(1)[2]})
        await t.cluster.change("t", 0, leader=2)
        await t.turn(2)
        assert t.storage.objects == known | {orphan: far}
        assert t.manager(2).orphans == {("t", 0): [orphan]}


def tail_until(content: bytes, end_offset: int) -> bytes:
    """An object whose segment ends at another offset."""
    tail = parse_tail("", content)
    return content[: tail.size] + format_tail(replace(tail, end_offset=end_offset))


@simulated
async def test_what_a_deleted_topic_left_is_deleted_with_it() -> None:
    async with tiered() as t:
        await t.create(1)
        await t.produce(2)
        await t.turn()
        name = min(t.storage.objects)
        t.storage.objects[str(SegmentName.parse(name)._replace(id=b"o" * 16))] = b"part of one"
        await t.cluster.decide(TopicDeleted(t.topic_id))
        manager = t.manager(1)
        await manager.check()
        await trio.sleep(DELETION_DELAY_S + 1)
        await manager.check()
        await t.cluster.until(lambda: manager.is_idle)
        assert not t.storage.objects


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_nothing_left_over(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    @simulated
    async def run() -> None:
        await play(seed, monkeypatch)

    run()


def _copied_once_is_copied(patch: pytest.MonkeyPatch) -> None:
    """Deleted copies count as copies."""

    def wrong(segments: RemoteSegments, lineage: Sequence[EpochStart], start: int, end: int) -> int:
        known = [s.end_offset for s in segments]
        return max([*known, start - 1])

    patch.setattr(remote_log, "copied_to", wrong)


def _late_note_wins(patch: pytest.MonkeyPatch) -> None:
    """A segment whose deletion has begun is taken for copied again."""
    following = dict(remote_segments.NEXT)
    following[SegmentState.DELETE_STARTED] = frozenset(SegmentState)
    following[SegmentState.COPY_STARTED] = frozenset(
        {SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED}
    )
    patch.setattr(remote_segments, "NEXT", following)
    replay = RemoteSegments.replay

    def wrong(segments: RemoteSegments, record: Record) -> None:
        replay(segments, record)
        if isinstance(record, RemoteSegment):
            segments._make_readable(record)

    patch.setattr(RemoteSegments, "replay", wrong)


def _failed_copy_stays(patch: pytest.MonkeyPatch) -> None:
    """The remains of a failed copy are forgotten."""
    delete = SegmentDeleter.delete

    async def wrong(deleter: SegmentDeleter, segment: RemoteSegment) -> None:
        if segment.state is SegmentState.COPY_STARTED:
            await deleter._tasks.topic.set_state(segment, SegmentState.DELETE_STARTED)
            await deleter._tasks.topic.set_state(segment, SegmentState.DELETE_FINISHED)
        else:
            await delete(deleter, segment)

    patch.setattr(SegmentDeleter, "delete", wrong)


def _deletes_by_note_only(patch: pytest.MonkeyPatch) -> None:
    """A deletion is noted as done although the store failed."""
    delete = SegmentDeleter.delete

    async def wrong(deleter: SegmentDeleter, segment: RemoteSegment) -> None:
        try:
            await delete(deleter, segment)
        except RemoteStorageError:
            await deleter._tasks.topic.set_state(segment, SegmentState.DELETE_FINISHED)

    patch.setattr(SegmentDeleter, "delete", wrong)


def _noted_before_stored(patch: pytest.MonkeyPatch) -> None:
    """A copy is marked as finished before the store has the object."""
    write = RemoteLogMetadataTopic.write

    async def wrong(topic: RemoteLogMetadataTopic, record: Record) -> None:
        await write(topic, record)
        if isinstance(record, RemoteSegment):
            topic.segments(record.partition)._make_readable(record)

    patch.setattr(RemoteLogMetadataTopic, "write", wrong)


@pytest.mark.parametrize(
    ("plant", "finder"),
    [
        (_copied_once_is_copied, 1),
        (_late_note_wins, 2),
        (_failed_copy_stays, 5),
        (_deletes_by_note_only, 29),
        (_noted_before_stored, 2),
    ],
)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], finder: int) -> None:
    """`finder` is the first seed that found it when this was written; it is tried first."""
    found = False
    for seed in (finder, *range(60)):
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)

            @simulated
            async def run(seed: int = seed, patch: pytest.MonkeyPatch = patch) -> None:
                await play(seed, patch)

            try:
                run()
            except* AssertionError:
                found = True
        if found:
            return
    pytest.fail("no seed finds it")
