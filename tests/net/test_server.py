"""The server on loopback: broken frames, limits, idle connections, order of answers, and the
end."""

import logging
import socket
import struct
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing
from nodes import (
    Caller,
    caller_of,
    config_of,
    controller_of,
    make_topic,
    running_node,
    trio_test,
)
from stream_transport import feed

from pk.core.api.index import APIS
from pk.core.api.records import produce
from pk.core.api.records.fetch_request import Fetch
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.log.memory_disk import MemoryDisk
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.wire.codec import decode_in_steps
from pk.core.wire.emit import ELEMENTS_IN_A_STEP
from pk.core.wire.header import frame_request
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pk.core.wire.messages.describe_groups import DescribeGroupsRequest
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pk.core.wire.types import Part
from pk.net.connection import connection
from pk.net.connection.connection import Connection, Limits
from pk.net.frames import FrameBuffer, RequestMemory
from pk.net.node import Node

CLIENT = ApiVersionsRequest(client_software_name="test", client_software_version="1")
API_VERSIONS = 18
PRODUCE, FETCH, METADATA, CREATE_TOPICS = 0, 1, 3, 19


def head(api_key: int, version: int, correlation_id: int = 1, client_id: bytes = b"test") -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, len(client_id)) + client_id


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def produce_request(value: bytes, topic: str = "t", acks: int = -1) -> ProduceRequest:
    data = build_batch([(int(time.time() * 1000), None, value, ())])
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=data)]
            )
        ],
    )


def fetch_request(
    offset: int = 0, wait_ms: int = 0, topic: str = "t", bytes_max: int = 1 << 20
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
                ],
            )
        ],
    )


@asynccontextmanager
async def two_callers(node: Node) -> AsyncIterator[tuple[Caller, Caller]]:
    async with caller_of(node) as one, caller_of(node) as other:
        yield one, other


async def is_served(caller: Caller) -> bool:
    answer = await caller.call(CLIENT, 3)
    return answer.error_code == 0


MALFORMED = {
    "a negative size": struct.pack(">i", -1),
    "a size beyond the limit": struct.pack(">i", (1 << 31) - 1),
    "an empty frame": struct.pack(">i", 0),
    "a header cut off": framed(b"\x00\x12\x00"),
    "an unknown key": framed(head(999, 0)),
    "a negative key": framed(head(-1, 0)),
    "a version beyond": framed(head(METADATA, 99)),
    "a negative version": framed(head(METADATA, -1)),
    "a body cut off": framed(head(METADATA, 1) + b"\x00\x00"),
    "a count beyond the bytes": framed(head(METADATA, 1) + struct.pack(">i", (1 << 31) - 1)),
    "a string that is no UTF-8": framed(head(METADATA, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe"),
    "a varint without end": framed(head(METADATA, 9) + b"\x00" + b"\xff" * 12),
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_frame_closes_its_connection_only(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    @trio_test
    async def run() -> None:
        async with running_node() as node, two_callers(node) as (one, other):
            assert await is_served(one)
            assert await is_served(other)
            caplog.clear()
            await one.stream.send_all(MALFORMED[name])
            assert await one.at_end()
            assert await is_served(other)
            host, port = one.stream.socket.getsockname()
            said = [record for record in caplog.records if record.name == "pk.server"]
            assert [f"{host}:{port}" in record.getMessage() for record in said] == [True]
            assert not said[0].exc_info

    run()


@trio_test
async def test_what_came_before_a_malformed_frame_is_answered() -> None:
    async with running_node() as node, caller_of(node) as caller:
        good = frame_request(CLIENT, 3, 7, "test")
        await caller.stream.send_all(good + MALFORMED["an unknown key"])
        answer = await caller.receive(API_VERSIONS, 3)
        assert (answer.error_code, caller.last_correlation_id) == (0, 7)
        assert await caller.at_end()


@trio_test
async def test_what_waits_when_a_malformed_frame_comes_is_answered() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        waiting = frame_request(fetch_request(wait_ms=20), 11, 7, "test")
        await caller.stream.send_all(waiting + MALFORMED["a version beyond"])
        await caller.receive(FETCH, 11)
        assert caller.last_correlation_id == 7
        assert await caller.at_end()


@trio_test
async def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await caller.stream.send_all(framed(head(API_VERSIONS, 99, 5) + b"\x00anything at all"))
        answer = await caller.receive(API_VERSIONS, 0)
        assert (caller.last_correlation_id, answer.error_code) == (
            5,
            ErrorCode.UNSUPPORTED_VERSION,
        )
        served = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert served[API_VERSIONS] == (0, 4)
        assert await is_served(caller)


@trio_test
async def test_frames_may_come_a_byte_at_a_time() -> None:
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        frames = frame_request(produce_request(b"slowly"), 9, 1, "test")
        frames += frame_request(fetch_request(), 11, 2, "test")
        for byte in frames:
            await caller.stream.send_all(bytes([byte]))
        produced = await caller.receive(PRODUCE, 9)
        assert produced.responses[0].partition_responses[0].error_code == 0
        fetched = await caller.receive(FETCH, 11)
        assert b"slowly" in bytes(fetched.responses[0].partitions[0].records)


@trio_test
async def test_bytes_behind_a_message_are_not_read() -> None:
    """librdkafka ends a Metadata request for all topics with three bytes too many; Kafka does not
    look."""
    async with running_node() as node, caller_of(node) as caller:
        body = frame_request(MetadataRequest(topics=None), 1, 3, "test")[4:]
        await caller.stream.send_all(framed(body + b"\x00\x00\x00"))
        answer = await caller.receive(METADATA, 1)
        assert (caller.last_correlation_id, len(answer.brokers)) == (3, 1)
        assert await is_served(caller)


def test_large_requests_are_decoded_in_steps_one_at_a_time_and_answered_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str] = []
    rests, under_way = 0, 0

    async def watched(cls, buffer, version, position, rest, *bound):  # type: ignore[no-untyped-def]
        nonlocal under_way
        decoded.append(cls.__name__)
        under_way += 1
        assert under_way == 1, "their objects take many times their bytes"

        async def counted() -> None:
            nonlocal rests
            rests += 1
            await trio.lowlevel.checkpoint()

        try:
            return await decode_in_steps(cls, buffer, version, position, counted, *bound)
        finally:
            under_way -= 1

    @trio_test
    async def run() -> None:
        topics = [MetadataRequestTopic(name=f"t{i}") for i in range(40_000)]
        large = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        async with running_node() as node, two_callers(node) as (caller, other):
            await make_topic(caller, "t")
            monkeypatch.setattr(connection, "decode_in_steps", watched)
            await caller.send(produce_request(b"v" * connection.LARGE_BYTES), 9)
            for one in (caller, other):
                await one.send(large, 9)
            small = MetadataRequest(topics=topics[:1], allow_auto_topic_creation=False)
            await caller.send(small, 9)
            produced = await caller.receive(PRODUCE, 9)
            assert produced.responses[0].partition_responses[0].error_code == 0
            for one in (caller, other):
                assert len((await one.receive(METADATA, 9)).topics) == len(topics)
            assert len((await caller.receive(METADATA, 9)).topics) == 1
            as_many = b"\0\xc1\xb8\x02"  # no tags, 40,000 topics
            await caller.stream.send_all(framed(head(METADATA, 9) + as_many + b"\xff" * 100_000))
            assert await caller.at_end(), "what is malformed closes the connection all the same"
        assert decoded == ["MetadataRequest"] * 3
        assert rests >= 2 * len(topics) // ELEMENTS_IN_A_STEP

    run()


@trio_test
async def test_a_request_that_names_more_than_one_may_is_refused_and_the_log_names_the_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def naming(count: int) -> MetadataRequest:
        topics = [MetadataRequestTopic(name="some-topic") for _ in range(count)]
        return MetadataRequest(topics=topics, allow_auto_topic_creation=False)

    async with (
        running_node(pk__request__elements__max="3000") as node,
        two_callers(node) as (caller, other),
    ):
        assert len((await caller.call(naming(3000), 9)).topics) == 1
        await caller.send(naming(3001), 9)
        assert await caller.at_end()
        assert await is_served(other)
    assert "MetadataRequest has more than 3,000 elements (pk.request.elements.max)" in caplog.text


def test_whether_a_request_is_decoded_in_steps_depends_on_what_it_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not on its bytes alone: a quarter of a megabyte may hold as many empty names."""
    in_steps: list[str] = []

    def watched(cls, *args):  # type: ignore[no-untyped-def]
        in_steps.append(cls.__name__)
        return decode_in_steps(cls, *args)

    @trio_test
    async def run() -> None:
        monkeypatch.setattr(connection, "decode_in_steps", watched)
        async with running_node() as node, caller_of(node) as caller:
            names = DescribeGroupsRequest(groups=[""] * (connection.LARGE_BYTES + 1))
            assert len((await caller.call(names, 5)).groups) == 1  # all have the same name
            assert in_steps == ["DescribeGroupsRequest"]
            usual = fetch_request()
            usual.topics[0].partitions = [FetchPartition(partition=i) for i in range(1000)]
            fetched = await caller.call(usual, 11)
            assert len(fetched.responses[0].partitions) == 1000
            sync = SyncGroupRequest(
                group_id="g",
                assignments=[SyncGroupRequestAssignment(member_id="m", assignment=bytes(1 << 20))],
            )
            assert (await caller.call(sync, 5)).error_code
            assert in_steps == ["DescribeGroupsRequest"]

    run()


@trio_test
async def test_answers_keep_the_order_of_requests() -> None:
    """A long poll, and behind it produces that wake it and are handled while it waits."""
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await caller.send(fetch_request(wait_ms=30_000), 11)
        await caller.send(produce_request(b"a"), 9)
        await caller.send(MetadataRequest(topics=None), 9)
        fetched = await caller.receive(FETCH, 11)
        assert b"a" in bytes(fetched.responses[0].partitions[0].records)
        produced = await caller.receive(PRODUCE, 9)
        assert produced.responses[0].partition_responses[0].base_offset == 0
        await caller.receive(METADATA, 9)


@trio_test
async def test_no_more_than_so_many_requests_are_parked() -> None:
    async with running_node(pk__connection__max__parked="3") as node, two_callers(node) as (a, b):
        await make_topic(a, "t")
        for _ in range(5):
            await a.send(fetch_request(wait_ms=30_000), 11)
        await a.send(produce_request(b"behind"), 9)
        # Three are parked and nothing behind them is read, so the produce is not: only another
        # client wakes them.
        partition = node.broker.data.replicas.partition("t", 0)
        while len(next(iter(_connections(node, 3)), ())) < 3:
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert partition.log.state.log_end_offset == 0
        await b.call(produce_request(b"wakes"), 9)
        for _ in range(5):
            fetched = await a.receive(FETCH, 11)
            assert b"wakes" in bytes(fetched.responses[0].partitions[0].records)
        assert (await a.receive(PRODUCE, 9)).responses[0].partition_responses[0].base_offset == 1


@trio_test
async def test_a_fetch_that_waits_is_answered_before_its_connection_ends() -> None:
    async with running_node() as node, two_callers(node) as (waiting, other):
        await make_topic(other, "t")
        await waiting.send(fetch_request(wait_ms=30_000), 11)
        connection = await _that_delays(node)
        connection.stop_reading()
        await trio.testing.wait_all_tasks_blocked()
        await other.call(produce_request(b"wakes"), 9)
        fetched = await waiting.receive(FETCH, 11)
        assert b"wakes" in bytes(fetched.responses[0].partitions[0].records)
        assert await waiting.at_end()


@trio_test
async def test_a_fetch_that_waits_goes_with_its_client() -> None:
    async with running_node() as node, caller_of(node) as other:
        await make_topic(other, "t")
        async with caller_of(node) as waiting:
            await waiting.send(fetch_request(wait_ms=30_000), 11)
            await _that_delays(node)
        with trio.fail_after(60):
            while node.server.connections > 1:
                await trio.testing.wait_all_tasks_blocked()
        assert node.broker.purgatory.size == 0
        await other.call(produce_request(b"to nobody"), 9)


@trio_test
async def test_a_fault_in_a_fetch_that_waited_is_not_the_producers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node() as node, two_callers(node) as (waiting, other):
        await make_topic(other, "t")
        await waiting.send(fetch_request(wait_ms=30_000), 11)
        await _that_delays(node)

        def fail(fetch: Fetch) -> bool:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(Fetch, "read", fail)
            produced = await other.call(produce_request(b"a"), 9)
        assert produced.responses[0].partition_responses[0].error_code == 0
        answer = await waiting.receive(FETCH, 11)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "ZeroDivisionError" in caplog.text
        assert (await waiting.call(fetch_request(), 11)).error_code == 0


@trio_test
async def test_an_answer_that_breaks_its_connection_breaks_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_node() as node, two_callers(node) as (waiting, other):
        await make_topic(other, "t")
        await waiting.send(fetch_request(wait_ms=30_000), 11)
        connection = await _that_delays(node)

        def broken(parts: Sequence[Part]) -> list[Part]:
            raise trio.BrokenResourceError

        monkeypatch.setattr(connection._transport, "send_at_once", broken)
        produced = await other.call(produce_request(b"a"), 9)
        assert produced.responses[0].partition_responses[0].error_code == 0
        assert await waiting.at_end()
        assert await is_served(other)


async def _that_delays(node: Node) -> Connection:
    """The connection with a fetch that waits, once there is one."""
    with trio.fail_after(60):
        while True:
            for connection in node.server._connections:
                if connection._delayed:
                    return connection
            await trio.testing.wait_all_tasks_blocked()


def _connections(node: Node, parked: int) -> list[list[object]]:
    """The parked requests of the node's connections, of those that have `parked` of them."""
    server = node.server
    return [list(c._parked) for c in server._connections if len(c._parked) == parked]


@trio_test
async def test_max_connections() -> None:
    async with (
        running_node(max__connections="2") as node,
        two_callers(node) as (one, other),
        caller_of(node) as third,
    ):
        assert await is_served(one)
        assert await is_served(other)
        assert await third.at_end()
        await one.stream.aclose()
        with trio.fail_after(60):
            while node.server.connections > 1:
                await trio.testing.wait_all_tasks_blocked()
        async with caller_of(node) as fourth:
            assert await is_served(fourth)


@pytest.mark.parametrize("resets", [False, True])
@trio_test
async def test_of_many_that_leave_at_once_so_many_end_in_a_turn_of_the_loop(resets: bool) -> None:
    async with running_node() as node:
        advertised = node.listeners[0].advertised
        with trio.fail_after(60):
            peers = [
                await trio.open_tcp_stream(advertised.host, advertised.port)
                for _ in range(6 * connection.CLOSING_AT_ONCE)
            ]
            while node.server.connections < len(peers):
                await trio.testing.wait_all_tasks_blocked()
            for peer in peers:
                if resets:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.socket.close()
            seen = [node.server.connections]
            while seen[-1]:
                await trio.lowlevel.checkpoint()
                seen.append(node.server.connections)
    # Between two looks there may be those of two turns: the end of one and the beginning of the
    # next.
    assert max(before - after for before, after in pairwise(seen)) <= 2 * connection.CLOSING_AT_ONCE


@trio_test
async def test_a_fault_of_ours_at_a_connections_end_is_not_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_node() as node, caller_of(node) as other:
        over = trio.Event()

        def fail(connection_id: int) -> None:
            over.set()
            raise ZeroDivisionError

        node.broker.disconnected.append(fail)
        async with caller_of(node) as caller:
            assert await is_served(caller)
        await over.wait()
        assert await is_served(other)
        node.broker.disconnected.remove(fail)
        async with caller_of(node) as third:
            assert await is_served(third)
    assert "a connection could not be served" in caplog.text


@trio_test
async def test_an_answer_that_cannot_be_written_is_a_fault_and_the_connection_lives() -> None:
    """A list may grow, entry by entry, beyond what a string of the protocol holds."""
    throttled = "leader.replication.throttled.replicas"
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        for first in (1_000, 5_000):
            value = ",".join(f"{partition}:1" for partition in range(first, first + 4_000))
            change = AlterableConfig(name=throttled, config_operation=2, value=value)
            resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
            answer = await caller.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert answer.responses[0].error_code == 0
        asked = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=2, resource_name="t", configuration_keys=[throttled]
                )
            ]
        )
        for version in (3, 4):
            (found,) = (await caller.call(asked, version)).results
            assert found.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await is_served(caller)


@trio_test
async def test_max_connections_per_ip() -> None:
    keys = {
        "max__connections__per__ip": "1",
        "max__connections__per__ip__overrides": "127.0.0.2:2",
    }
    async with running_node(None, **keys) as node, two_callers(node) as (one, other):
        assert await is_served(one)
        assert await other.at_end()
        port = node.listeners[0].advertised.port
        held: list[Caller] = []
        for _ in range(2):
            stream = await trio.open_tcp_stream("127.0.0.1", port, local_address="127.0.0.2")
            held.append(Caller(stream))
        for caller in held:
            assert await is_served(caller)
        stream = await trio.open_tcp_stream("127.0.0.1", port, local_address="127.0.0.2")
        assert await Caller(stream).at_end()
        await stream.aclose()
        for caller in held:
            await caller.stream.aclose()


@trio_test
async def test_a_descriptor_is_left_for_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may not take the descriptors that logs need: without them a produce would fail its
    directory."""
    monkeypatch.setattr("pk.net.server.descriptors_for_connections", lambda: 2)
    async with running_node() as node, two_callers(node) as (one, other):
        assert await is_served(one)
        assert await is_served(other)
        async with caller_of(node) as third:
            assert await third.at_end()


@trio_test
async def test_idle_connections_are_closed_but_not_those_that_wait() -> None:
    async with running_node(connections__max__idle__ms="2000") as node:
        async with caller_of(node) as caller:
            await make_topic(caller, "t")
        async with two_callers(node) as (silent, waiting):
            await waiting.send(fetch_request(wait_ms=4000), 11)
            assert await silent.at_end()
            fetched = await waiting.receive(FETCH, 11)
            assert fetched.error_code == 0


@trio_test
async def test_a_client_that_never_reads_is_closed_when_idle() -> None:
    disk = MemoryDisk()
    async with running_node(disk) as node, caller_of(node) as caller:
        await make_topic(caller, "t")
        await caller.call(produce_request(bytes(900_000)), 9)
    async with (
        running_node(disk, connections__max__idle__ms="400") as node,
        caller_of(node) as deaf,
    ):
        # All at once: it could be closed between one and the next.
        await deaf.stream.send_all(frame_request(fetch_request(), 11, 3, "test") * 40)
        with trio.fail_after(60):
            while not node.server._ids or node.server.connections:  # it came, and is gone
                await trio.testing.wait_all_tasks_blocked(0.05)


@trio_test
async def test_request_memory_is_bounded_and_comes_back() -> None:
    """One holds all the memory for requests with half a frame: another's large request waits until
    it is gone."""
    async with (
        running_node(pk__request__bytes__max=str(1 << 20)) as node,
        two_callers(node) as (greedy, other),
        trio.open_nursery() as nursery,
    ):
        await make_topic(other, "t")
        large = frame_request(produce_request(bytes(900_000)), 9, 1, "test")
        await greedy.stream.send_all(large[:-1])
        memory = node.server._limits.memory
        with trio.fail_after(60):
            while memory.used < 1 << 19:
                await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(other.stream.send_all, large)
        with trio.move_on_after(0.3) as waited:
            await other.receive(PRODUCE, 9)
        assert waited.cancelled_caught
        assert memory.used <= memory.limit
        await greedy.stream.aclose()
        produced = await other.receive(PRODUCE, 9)
        assert produced.responses[0].partition_responses[0].error_code == 0


class Hasty:
    """A peer whose next bytes are always there, of a frame that does not end; it leaves when others
    had the loop, or after 20 MB."""

    def __init__(self, others: trio.Nursery) -> None:
        self.last_sent = self.waited_at = float("-inf")
        self.others_ran = False
        self._others = others
        self._received = 0

    async def receive(self, buffer: FrameBuffer) -> int | None:
        if self.others_ran or self._received > 20_000_000:
            return 0
        data = bytes(1000)
        if not self._received:
            self._others.start_soon(self._run)
            data = (90_000_000).to_bytes(4, "big")
        assert feed(buffer, data)
        self._received += len(data)
        return len(data)

    async def _run(self) -> None:
        self.others_ran = True

    @property
    def others_ran_first(self) -> bool:
        """Whether they had the loop before all was received."""
        return self._received <= 20_000_000

    async def send(self, parts: Sequence[Part]) -> None:
        """There is nothing to answer."""

    def send_at_once(self, parts: Sequence[Part]) -> list[Part]:
        return []

    async def finish(self) -> None:
        """It knows."""

    async def aclose(self) -> None:
        """Nothing is open."""


@trio_test
async def test_a_peer_that_always_has_more_to_say_does_not_keep_the_loop() -> None:
    async with running_node() as node, trio.open_nursery() as nursery:
        peer = Hasty(nursery)
        await Connection(
            peer,
            {api.key: api for api in APIS},
            Limits(RequestMemory(200_000_000), 100_000_000, parked_max=10, slice_s=0.005),
            Context(node.broker, client_host="/test"),
            "test",
        ).serve()
        assert peer.others_ran_first


@trio_test
async def test_buffers_at_rest_give_way() -> None:
    """Connections that are silent keep large buffers only until somebody needs the memory."""
    async with (
        running_node(pk__request__bytes__max=str(4 << 20)) as node,
        two_callers(node) as (one, other),
    ):
        await make_topic(one, "t")
        for caller in (one, other, one, other):
            for _ in range(3):
                answer = await caller.call(produce_request(bytes(900_000)), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
        async with caller_of(node) as third, caller_of(node) as fourth:
            for caller in (third, fourth, one):
                with trio.fail_after(60):
                    answer = await caller.call(produce_request(bytes(1_000_000)), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0


@trio_test
async def test_many_small_batches_in_one_request_do_not_keep_the_loop() -> None:
    """Each may be looked at on the loop, all together may not: others come between."""
    async with running_node() as node, caller_of(node) as caller:
        await make_topic(caller, "t", 8)
        now_ms = int(time.time() * 1000)
        data = bytes(build_batch([(now_ms, None, b"v", ())] * 2000))
        partitions = [PartitionProduceData(index=n, records=bytearray(data)) for n in range(8)]
        request = produce_request(b"")
        request.topic_data[0].partition_data = partitions
        answer = await caller.call(request, 9)
        answers = answer.responses[0].partition_responses
        assert [(one.index, one.error_code) for one in answers] == [(n, 0) for n in range(8)]
        context = Context(node.broker, api_key=PRODUCE, api_version=9)
        for one in partitions:
            one.records = memoryview(bytearray(data))
        held = produce.handle(context, request)
        assert isawaitable(held)
        held_answer: Any = await held
        assert held_answer.responses[0].partition_responses[7].base_offset == 2000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_what_inflates_far_does_not_keep_the_loop(codec: Codec) -> None:
    """A few kilobytes that become megabytes are looked at in a thread, and taken."""

    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as caller:
            await make_topic(caller, "t")
            now_ms = int(time.time() * 1000)
            rows = [(now_ms, None, b"v" * (500 << 10), ())]
            data = build_batch(rows, codec=codec)
            assert len(data) < 40_000
            request = produce_request(b"")
            context = Context(node.broker, api_key=PRODUCE, api_version=9)
            [one] = request.topic_data[0].partition_data
            one.records = memoryview(bytearray(data))
            held = produce.handle(context, request)
            assert isawaitable(held)
            await held
            one.records = data
            answer = await caller.call(request, 9)
            assert answer.responses[0].partition_responses[0].base_offset == 1

    run()


# --- the end ---


@trio_test
async def test_what_is_handled_is_answered_before_the_end() -> None:
    """The reader is in the middle of a long answer when the end begins: it goes out whole, and so
    do those behind."""
    disk = MemoryDisk()
    node = Node(config_of(), disk=disk)
    async with trio.open_nursery() as nursery:
        ready = trio.Event()
        nursery.start_soon(node.run, lambda _: ready.set())
        await ready.wait()
        async with caller_of(node) as caller:
            await make_topic(caller, "t")
            value = bytes(900_000)
            for _ in range(4):
                await caller.call(produce_request(value), 9)
            for _ in range(12):
                await caller.send(fetch_request(bytes_max=4 << 20), 11)
            await caller.receive(FETCH, 11)
            with trio.fail_after(60):
                while not any(c._answers.sending for c in node.server._connections):
                    await trio.testing.wait_all_tasks_blocked()
            node.stop()
            await trio.testing.wait_all_tasks_blocked()
            handled = 1
            try:
                while True:
                    answer = await caller.receive(FETCH, 11)
                    assert len(answer.responses[0].partitions[0].records) > 3_000_000
                    handled += 1
            except EOFError:
                pass
            assert not caller._data, "an answer was cut off"
            assert handled > 1


@trio_test
async def test_a_topic_under_way_is_made_and_answered_before_the_end() -> None:
    disk = MemoryDisk()
    node = Node(config_of(), disk=disk)
    async with trio.open_nursery() as nursery:
        ready = trio.Event()
        nursery.start_soon(node.run, lambda _: ready.set())
        await ready.wait()
        async with caller_of(node) as caller:
            topic = CreatableTopic(name="t", num_partitions=600, replication_factor=1)
            await caller.send(CreateTopicsRequest(topics=[topic]), 7)
            with trio.fail_after(60):
                while "t" not in controller_of(node.broker).image.topics:
                    await trio.lowlevel.checkpoint()
            assert node.broker.data.replicas.find("t", 599) is None, "too late to be a test"
            node.stop()
            answer = await caller.receive(CREATE_TOPICS, 7)
            assert answer.topics[0].error_code == 0
    async with running_node(disk) as again, caller_of(again) as caller:
        assert again.broker.data.replicas.find("t", 599) is not None
        produced = await caller.call(produce_request(b"x"), 9)
        assert produced.responses[0].partition_responses[0].error_code == 0


@trio_test
async def test_a_client_that_never_reads_does_not_hold_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pk.core.broker.node_lifecycle.DRAIN_S", 0.5)
    disk = MemoryDisk()
    node = Node(config_of(), disk=disk)
    async with trio.open_nursery() as nursery:
        ready, ended = trio.Event(), trio.Event()

        async def run() -> None:
            await node.run(lambda _: ready.set())
            ended.set()

        nursery.start_soon(run)
        await ready.wait()
        async with caller_of(node) as deaf:
            await make_topic(deaf, "t")
            await deaf.call(produce_request(bytes(900_000)), 9)
            for _ in range(40):
                await deaf.send(fetch_request(), 11)
            with trio.fail_after(60):
                while not any(c._answers.sending for c in node.server._connections):
                    await trio.testing.wait_all_tasks_blocked()
            node.stop()
            with trio.fail_after(60):
                await ended.wait()
    assert disk.exists("/data/.kafka_cleanshutdown")
