"""Runs of produces with acks=all are answered in order when the replicas have them, and as on the
general path if they do not."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from api.produce_pairs import A_SECOND, Client, Side, held, two_sides
from broker.followers import follower_fetches
from nodes import Cluster, caller_of, running_cluster, trio_test

from pk.core.broker.replication.follower_state import NO_BROKER_EPOCH, Follower
from pk.core.broker.replication.partition import Partition
from pk.core.errors import ErrorCode
from pk.core.meta.image import MetadataImage
from pk.core.record.build import build_batch
from pk.core.wire.header import frame_request
from pk.core.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pk.core.wire.messages.metadata import MetadataRequest

NOW_MS = 1_700_000_000_000
FAST, GENERAL = "fast", "slow"
"""A topic for each way, with names of one length."""


def batch(value: bytes) -> bytes:
    return bytes(build_batch([(NOW_MS, None, value, ())]))


def burst(side: Side, topic: str, count: int, version: int = 9, timeout_ms: int = 60_000) -> bytes:
    return b"".join(
        side.frame(version, [(topic, [(n % 2, batch(b"%d" % n))])], n, timeout_ms=timeout_ms)
        for n in range(count)
    )


async def make_replicated(cluster: Cluster) -> None:
    """Both topics, of two partitions, led by broker 1 and followed by the others."""
    async with caller_of(cluster.nodes[1]) as caller:
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=n, broker_ids=[1, 2, 3])
                        for n in range(2)
                    ],
                    configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
                )
                for name in (FAST, GENERAL)
            ],
            timeout_ms=60_000,
        )
        answer = await caller.call(request, 7)
        assert not any(topic.error_code for topic in answer.topics), answer
    for node_id in (1, 2, 3):
        replicas = cluster.nodes[node_id].broker.data.replicas
        assert await cluster.nodes[node_id].broker.purgatory.until(
            lambda replicas=replicas: (
                replicas.find(GENERAL, 1) is not None and replicas.find(FAST, 1) is not None
            ),
            (MetadataImage,),
            trio.current_time() + 60,
        )


def sides_of(cluster: Cluster) -> list[tuple[Side, str]]:
    sides = [Side(cluster.nodes[1], fast=True), Side(cluster.nodes[1], fast=False)]
    return list(zip(sides, (FAST, GENERAL), strict=True))


def without_port(side: Side, answer: bytes) -> bytes:
    port = side.node.listeners[0].advertised.port
    return answer.replace(port.to_bytes(4, "big"), b"PORT")


@pytest.mark.parametrize("version", [3, 9, 12])
def test_a_run_is_answered_when_replicas_have_it(version: int) -> None:
    @trio_test
    async def run() -> None:
        async with running_cluster() as cluster:
            await make_replicated(cluster)
            answers: list[bytes] = []
            for side, topic in sides_of(cluster):
                found = b""
                async with side.connected() as client:
                    for _ in range(3):
                        found += await client.exchange(burst(side, topic, 150, version))
                for n in range(2):
                    partition = cluster.nodes[1].broker.data.replicas.partition(topic, n)
                    assert partition.high_watermark == partition.log.state.log_end_offset == 225
                answers.append(found.replace(topic.encode(), b"TOPIC"))
                assert side.accepted == (450 if side.fast else 0)
            assert answers[0] == answers[1]

    run()


# --- a follower whose fetches the test makes ---

FOLLOWER = 2


def follow(side: Side, topic: str) -> list[Partition]:
    """Give both partitions of a topic a follower that is in sync and fetches nothing."""
    partitions = [side.broker.data.replicas.partition(topic, n) for n in range(2)]
    for partition in partitions:
        follower = Follower(FOLLOWER)
        follower.log_end_offset = 0
        partition.followers = {FOLLOWER: follower}
        partition.isr = (1, FOLLOWER)
        partition._maximal = frozenset(partition.isr)
        partition.partition_epoch = 1 << 30  # so that no later image says otherwise
    return partitions


def fetches(partition: Partition, offset: int) -> None:
    """The follower has everything below `offset`."""
    follower_fetches(partition, FOLLOWER, NO_BROKER_EPOCH, offset)


async def keep_up(partitions: list[Partition]) -> None:
    """The follower fetches everything that is appended."""
    while True:
        for partition in partitions:
            fetches(partition, partition.log.state.log_end_offset)
        await trio.testing.wait_all_tasks_blocked()


@trio_test
async def test_what_no_replica_fetches_times_out_alike() -> None:
    async with two_sides() as sides:
        for version in (3, 9, 13):
            answers: list[bytes] = []
            for side in sides:
                await side.make_topic(f"t{version}", 2)
                follow(side, f"t{version}")
                async with side.connected() as client:
                    frames = burst(side, f"t{version}", 10, version, timeout_ms=20)
                    answers.append(await client.exchange(frames))
            assert answers[0] == answers[1]
            assert answers[0].count(ErrorCode.REQUEST_TIMED_OUT.to_bytes(2, "big")) >= 10
        assert sides[0].accepted == 30


class Answers:
    """The answers to a client, one by one."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._data = b""

    async def receive(self) -> bytes:
        """The next answer."""
        while len(self._data) < 4 or len(self._data) < 4 + self._size():
            self._data += await self._client.stream.receive_some()
        end = 4 + self._size()
        answer, self._data = self._data[:end], self._data[end:]
        return answer

    def _size(self) -> int:
        return int.from_bytes(self._data[:4], "big")


@trio_test
async def test_leadership_lost_while_a_run_waits() -> None:
    """Records that the replicas have are acknowledged at once. For the others, the client has to
    find the new leader."""
    async with two_sides() as sides:
        answers: list[list[bytes]] = []
        for side in sides:
            await side.make_topic("t", 2)
            partitions = follow(side, "t")
            async with side.connected() as client:
                waiting = Answers(client)
                await client.stream.send_all(burst(side, "t", 6))
                await trio.testing.wait_all_tasks_blocked()
                assert all(p.log.state.log_end_offset == 3 for p in partitions)
                fetches(partitions[0], 2)  # requests 0 and 2; 1 stands between them
                found = [await waiting.receive()]
                fetches(partitions[1], 1)
                found += [await waiting.receive(), await waiting.receive()]
                for partition in partitions:
                    partition.stop()
                found += [await waiting.receive() for _ in range(3)]
                answers.append([without_port(side, answer) for answer in found])
        assert answers[0] == answers[1]
        lost = ErrorCode.NOT_LEADER_OR_FOLLOWER.to_bytes(2, "big")
        assert [lost in answer for answer in answers[0]] == [False] * 3 + [True] * 3
        assert sides[0].accepted == 6


@pytest.mark.parametrize("version", range(3, 14))
def test_too_few_replicas_while_a_run_waits_and_before(version: int) -> None:
    @trio_test
    async def run() -> None:
        async with two_sides() as sides:
            answers: list[bytes] = []
            for side in sides:
                await side.make_topic("t", 2, min__insync__replicas="2")
                partitions = follow(side, "t")
                async with side.connected() as client:
                    waiting = Answers(client)
                    await client.stream.send_all(burst(side, "t", 4, version))
                    await trio.testing.wait_all_tasks_blocked()
                    fetches(partitions[0], 1)
                    found = await waiting.receive()
                    for partition in partitions:
                        partition.isr = (1,)
                        partition._wake_all()
                    for _ in range(3):
                        found += await waiting.receive()
                    found = found.replace(side.topic_ids["t"], b"<t>")
                    answers.append(found + await client.exchange(burst(side, "t", 5, version)))
            assert answers[0] == answers[1]
            after = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND.to_bytes(2, "big")
            assert answers[0].count(after) >= 3
            assert answers[0].count(ErrorCode.NOT_ENOUGH_REPLICAS.to_bytes(2, "big")) >= 5
            assert held(sides[0]) == held(sides[1])

    run()


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_client_above_its_quota_whose_run_waits(version: int) -> None:
    """Its answer tells it to wait, whether or not the replicas get the batch."""

    @trio_test
    async def run() -> None:
        async with two_sides(**A_SECOND) as sides:
            answers: list[bytes] = []
            for side in sides:
                await side.make_topic("t", 2, min__insync__replicas="2")
                partitions = follow(side, "t")
                requests = burst(side, "t", 2, version)
                async with side.connected() as client:
                    waiting, found = Answers(client), b""
                    for gets in (True, False):
                        await trio.sleep_until(client.connection._throttle.muted_until)
                        wait_ms = await side.limit(requests)
                        await client.stream.send_all(requests)
                        await trio.testing.wait_all_tasks_blocked()
                        for partition in partitions:
                            if gets:
                                fetches(partition, partition.log.state.log_end_offset)
                            else:
                                partition.stop()
                        await waiting.receive()
                        last = await waiting.receive()
                        assert wait_ms > 0 and wait_ms.to_bytes(4, "big") in last
                        found += without_port(side, last).replace(side.topic_ids["t"], b"<t>")
                    answers.append(found)
            assert answers[0] == answers[1]
            assert held(sides[0]) == held(sides[1])
            assert sides[0].accepted == 4

    run()


@trio_test
async def test_no_more_requests_wait_than_may() -> None:
    async with two_sides() as sides:
        for side in sides:
            await side.make_topic("t", 2)
            partitions = follow(side, "t")
            async with side.connected(parked_max=5) as client:
                waiting = Answers(client)
                await client.stream.send_all(burst(side, "t", 12))
                await trio.testing.wait_all_tasks_blocked()
                assert [p.log.state.log_end_offset for p in partitions] == [3, 2]
                assert len(client.connection._parked) == 5
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(keep_up, partitions)
                    for n in range(12):
                        answer = await waiting.receive()
                        assert int.from_bytes(answer[4:8], "big") == n
                    nursery.cancel_scope.cancel()
                assert not client.connection._parked
        assert sides[0].accepted == 12


@trio_test
async def test_answers_behind_a_run_that_waits_keep_their_order() -> None:
    """Requests that need not wait, of the fast path and others, come after those that do."""
    async with two_sides() as sides:
        answers: list[list[bytes]] = []
        for side in sides:
            await side.make_topic("t", 2)
            await side.make_topic("alone")
            partitions = follow(side, "t")
            metadata = frame_request(MetadataRequest(topics=[]), 9, 77, "test")
            alone = side.frame(9, [("alone", [(0, batch(b"a"))])], 78)
            async with side.connected() as client:
                waiting = Answers(client)
                await client.stream.send_all(
                    burst(side, "t", 4) + alone + metadata + alone + burst(side, "t", 2)
                )
                await trio.testing.wait_all_tasks_blocked()
                assert len(client.connection._parked) == 9
                for partition in partitions:
                    fetches(partition, 3)
                found = [await waiting.receive() for _ in range(9)]
                answers.append([a for a in found if a[4:8] != b"\0\0\0\x4d"])
                order = [int.from_bytes(answer[4:8], "big") for answer in found]
                assert order == [0, 1, 2, 3, 78, 77, 78, 0, 1]
        assert answers[0] == answers[1]
