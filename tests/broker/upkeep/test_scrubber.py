"""Scrubbing: damage in closed segments is found before a reader meets it, told, and replaced by
what another replica has."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from broker.cluster import Cluster, running_cluster
from group.brokers import simulated

from pk.core.errors import ErrorCode
from pk.core.log.cleaned_segment import CleanedSegment
from pk.core.log.log import Log
from pk.core.log.segment import LOG, Part, file_name
from pk.core.record.batch import iter_headers
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

NONE = ErrorCode.NONE
ROUND = 3
"""Batches in each closed segment."""


@asynccontextmanager
async def scrubbed(*replicas: int, **keys: str) -> AsyncIterator[Cluster]:
    """A topic on these brokers with three closed segments of `ROUND` batches, one replicated record
    each, and one more."""
    async with running_cluster(brokers=max(replicas), **keys) as cluster:
        await cluster.create(*replicas)
        await fill(cluster, replicas)
        yield cluster


async def fill(cluster: Cluster, replicas: tuple[int, ...]) -> None:
    for number in range(3 * ROUND):
        assert await cluster.produce(replicas[0], b"%d" % number * 20) == NONE
        if number % ROUND == ROUND - 1:
            await cluster.settled(*replicas)
            for node in replicas:
                cluster.partition(node).log.segments.roll(cluster.broker(node).clock.now_ms())
    assert await cluster.produce(replicas[0], b"last") == NONE
    await cluster.settled(*replicas)


def path_of(cluster: Cluster, node: int, base: int) -> str:
    return f"{cluster.partition(node).log.state.directory}/{file_name(base, LOG)}"


def flip(cluster: Cluster, node: int, base: int = ROUND, at: int = 80, batch: int = 1) -> None:
    """Flip a bit of a batch in a segment."""
    file = cluster.disk(node).open(path_of(cluster, node, base))
    data = file.pread(file.size(), 0)
    position = [p for p, _ in iter_headers(data)][batch] + at
    file.pwrite(bytes([data[position] ^ 1]), position)


def whole(cluster: Cluster, node: int) -> Callable[[], bool]:
    """Whether every batch of a replica's closed segments has its bytes as another one's."""
    others = [n for n in cluster.image.topics["t"].partitions[0].replicas if n != node]
    return lambda: cluster.content(node) == cluster.content(others[0])


async def fetch_code(cluster: Cluster, node: int, offset: int) -> int:
    """The error code in the answer to a consumer."""
    wish = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic_id = cluster.image.topics["t"].topic_id
    request = FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=[wish])])
    answer = await cluster.ask(node, request, 18)
    return answer.responses[0].partitions[0].error_code


def told(cluster: Cluster, node: int) -> list[int]:
    """How many damaged segments the broker has reported, each time."""
    return [
        log.damaged_segments
        for request in cluster.reported
        if request.broker_id == node
        for topic in request.topics
        for log in topic.partitions
    ]


PLACES = {"base offset": 7, "length": 10, "leader epoch": 15, "attributes": 22, "records": 80}


class TestAFollower:
    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("batch", range(ROUND))
    @simulated
    async def test_fetches_a_damaged_segment_from_its_leader(
        self, place: str, batch: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with scrubbed(1, 2) as cluster:
            flip(cluster, 2, at=PLACES[place], batch=batch)
            log = cluster.partition(2).log
            damaged = log.state.segments[1]
            scrubber = cluster.scrubber(2)
            await scrubber.check()
            assert list(log.damaged_segments) == [ROUND]
            await cluster.until(lambda: not log.damaged_segments)
            assert whole(cluster, 2)()
            await cluster.until(lambda: told(cluster, 2)[-1:] == [0])
            assert told(cluster, 2)[0] == 1
            assert log.state.segments[1] is not damaged and len(log.state.segments) == 4
            assert cluster.isr() == (1, 2), "its end was whole all the time"
            assert any(
                r.levelno == logging.ERROR and "is damaged at position" in r.message
                for r in caplog.records
            )
            assert (
                log.state.disk.list(log.state.directory)
                .keys()
                .isdisjoint({file_name(ROUND, LOG) + ".swap"})
            )
            await scrubber.check()
            assert not log.damaged_segments

    @simulated
    async def test_replaces_a_file_that_was_cut_or_is_gone(self) -> None:
        async with scrubbed(1, 2) as cluster:
            disk = cluster.disk(2)
            disk.open(path_of(cluster, 2, 0)).truncate(70)
            log = cluster.partition(2).log
            for file in log.state.segments[1].files:
                file.close()
            disk.remove(path_of(cluster, 2, ROUND))
            await cluster.scrubber(2).check()
            assert list(log.damaged_segments) == [0, ROUND]
            await cluster.until(lambda: not log.damaged_segments)
            assert whole(cluster, 2)()

    @simulated
    async def test_keeps_it_over_a_crash_right_after(self) -> None:
        async with scrubbed(1, 2) as cluster:
            flip(cluster, 2)
            log = cluster.partition(2).log
            await cluster.scrubber(2).check()
            await cluster.until(lambda: not log.damaged_segments)
            await cluster.crash(2)
            await cluster.start(2)
            await cluster.settled(1, 2)

    @simulated
    async def test_keeps_the_index_of_aborted_transactions(self) -> None:
        async with running_cluster(brokers=2) as cluster:
            await cluster.create(1, 2)
            partition = cluster.partition(1)
            now_ms = cluster.broker(1).clock.now_ms()
            for batch in (
                build_batch([(now_ms, None, b"undone", ())], 0, -1, 7, 0, 0, transactional=True),
                end_transaction_batch(False, 0, 7, 0, now_ms),
            ):
                partition.append(bytearray(batch), now_ms=now_ms)
            await cluster.settled(1, 2)
            log = cluster.partition(2).log
            for node in (1, 2):
                cluster.partition(node).log.segments.roll(now_ms)
            before = log.state.segments[0].txn_index.all()
            assert len(before) == 1
            flip(cluster, 2, base=0, batch=0)
            await cluster.scrubber(2).check()
            assert log.damaged_segments
            await cluster.until(lambda: not log.damaged_segments)
            assert log.state.segments[0].txn_index.all() == before
            assert whole(cluster, 2)()

    @simulated
    async def test_takes_what_compaction_left_at_the_leader(self) -> None:
        async with scrubbed(1, 2) as cluster:
            await cluster.configure("t", "cleanup.policy", "compact")
            leader = cluster.partition(1).log
            cut_out(leader, base=ROUND, batch=1)
            flip(cluster, 2, batch=0)
            log = cluster.partition(2).log
            await cluster.scrubber(2).check()
            await cluster.until(lambda: not log.damaged_segments)
            assert whole(cluster, 2)()

    @simulated
    async def test_does_not_take_a_hole_in_the_leaders_log(self) -> None:
        async with scrubbed(1, 2) as cluster:
            cut_out(cluster.partition(1).log, base=ROUND, batch=1)
            flip(cluster, 2, batch=0)
            before = cluster.content(2)
            log = cluster.partition(2).log
            await cluster.scrubber(2).check()
            await trio.sleep(10)
            assert list(log.damaged_segments) == [ROUND]
            assert cluster.content(2) == before
            assert not [
                name for name in log.state.disk.list(log.state.directory) if ".cleaned" in name
            ]

    @simulated
    async def test_waits_where_the_leader_cannot_read_it_either(self) -> None:
        async with scrubbed(1, 2) as cluster:
            for node in (1, 2):
                flip(cluster, node)
                segment = cluster.partition(node).log.state.segments[1]
                segment.checked.forget(0, segment.size)
            before = cluster.content(2)
            log = cluster.partition(2).log
            await cluster.scrubber(2).check()
            await trio.sleep(10)
            assert list(log.damaged_segments) == [ROUND]
            assert cluster.content(2) == before

    @pytest.mark.parametrize("what", ["deleted", "cut", "compacted"])
    @simulated
    async def test_gives_up_when_the_log_changes_meanwhile(self, what: str) -> None:
        async with scrubbed(1, 2) as cluster:
            log, partition = cluster.partition(2).log, cluster.partition(2)
            flip(cluster, 2)

            async def meanwhile() -> None:
                if what == "deleted":
                    for node in (1, 2):
                        cluster.partition(node).delete_before(2 * ROUND)
                elif what == "cut":
                    log.segments.truncate_to(ROUND + 1)
                else:
                    cut_out(log, base=ROUND, batch=2)

            once(cluster, meanwhile)
            await cluster.scrubber(2).check()
            if what == "deleted":
                await cluster.until(lambda: not log.damaged_segments)
                assert partition.log.state.log_start_offset == 2 * ROUND
            if what == "compacted":
                await cluster.until(whole(cluster, 2))
            else:
                await trio.sleep(2)
                assert cluster.broker(2).metrics.replaced_segments.value == 0
            assert not [
                name for name in log.state.disk.list(log.state.directory) if ".cleaned" in name
            ]

    @simulated
    async def test_reads_what_a_consumer_could_not_at_once(self) -> None:
        async with scrubbed(1, 2, pk__log__scrub__interval__ms="0") as cluster:
            flip(cluster, 2)
            partition = cluster.partition(2)
            segment = partition.log.state.segments[1]
            segment.checked.forget(0, segment.size)
            scrubber = cluster.scrubber(2)
            await scrubber.check()
            assert not partition.log.damaged_segments, "it is off"
            assert await fetch_code(cluster, 2, ROUND + 1) == ErrorCode.CORRUPT_MESSAGE
            await cluster.until(lambda: cluster.broker(2).metrics.replaced_segments.value == 1)
            assert await fetch_code(cluster, 2, ROUND + 1) == NONE


class TestALeader:
    @simulated
    async def test_hands_over_and_follows(self) -> None:
        async with scrubbed(1, 2, 3) as cluster:
            flip(cluster, 1)
            log = cluster.partition(1).log
            await cluster.scrubber(1).check()
            await cluster.until(lambda: cluster.partition(2).leads)
            await cluster.until(lambda: not log.damaged_segments)
            assert whole(cluster, 1)()
            assert cluster.isr() == (1, 2, 3)
            assert await cluster.produce(2, b"on") == NONE

    @simulated
    async def test_stays_where_it_has_the_only_replica(self) -> None:
        async with running_cluster(brokers=1) as cluster:
            await cluster.create(1)
            await fill(cluster, (1,))
            flip(cluster, 1)
            before = cluster.content(1)
            log = cluster.partition(1).log
            await cluster.scrubber(1).check()
            await trio.sleep(10)
            assert cluster.partition(1).leads and list(log.damaged_segments) == [ROUND]
            assert set(told(cluster, 1)) == {1}
            assert cluster.content(1) == before


class TestWhen:
    @simulated
    async def test_once_an_interval_and_over_restarts(self) -> None:
        async with scrubbed(1, 2, pk__log__scrub__interval__ms="20000") as cluster:
            scrubber = cluster.scrubber(2)
            counted = cluster.broker(2).metrics.scrubbed_bytes
            await scrubber.check()
            once_read = counted.value
            log = cluster.partition(2).log
            assert once_read == sum(s.size for s in log.state.segments[:-1])
            await scrubber.check()
            assert counted.value == once_read
            await cluster.stop(2)
            await cluster.start(2)
            scrubber, counted = cluster.scrubber(2), cluster.broker(2).metrics.scrubbed_bytes
            await scrubber.check()
            assert counted.value == 0
            await cluster.until(lambda: counted.value == once_read)

    @simulated
    async def test_damage_that_is_left_is_found_first_after_a_restart(self) -> None:
        async with running_cluster(brokers=1) as cluster:
            await cluster.create(1)
            await fill(cluster, (1,))
            flip(cluster, 1)
            await cluster.scrubber(1).check()
            assert cluster.partition(1).log.damaged_segments
            await cluster.stop(1)
            await cluster.start(1)
            await cluster.scrubber(1).check()
            assert list(cluster.partition(1).log.damaged_segments) == [ROUND]

    @simulated
    async def test_no_faster_than_it_may(self) -> None:
        async with scrubbed(1, 2, pk__log__scrub__bytes__per__second="10") as cluster:
            scrubber = cluster.scrubber(2)
            size = sum(s.size for s in cluster.partition(2).log.state.segments[:-1])
            began = trio.current_time()
            await scrubber.check()
            assert trio.current_time() - began > size / 10 - 1


def cut_out(log: Log, base: int, batch: int) -> None:
    """Have a log lack a batch, as after compaction."""
    segment = next(s for s in log.state.segments if s.base_offset == base)
    data = segment.file.pread(segment.size, 0)
    writer = CleanedSegment(log.state.disk, log.state.directory, base, 0, 4096, 1 << 16)
    for n, (position, header) in enumerate(iter_headers(data)):
        if n != batch:
            writer.add(data[position : position + header.size])
    sizes = writer.finish()
    writer.close()
    assert log.segments.swap_in(base, [Part(base, segment.size, 0, 0)], sizes)
    while log.segments.step_swap():
        pass


def once(cluster: Cluster, act: Callable[[], Awaitable[None]]) -> None:
    """Do something when the first fetch for a repair is under way."""
    done: list[bool] = []

    async def before(asker: int, asked: int, request: Any) -> None:
        if (
            isinstance(request, FetchRequest)
            and request.replica_state.replica_id == -2
            and not done
        ):
            done.append(True)
            await act()

    cluster.before = before
