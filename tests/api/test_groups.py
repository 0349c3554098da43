"""The group APIs: whole conversations, the same with our broker as with Apache Kafka.

The golden text is what both said; to write it anew: PK_WRITE_GOLDEN=1 pytest -m peer tests/api/test_groups.py
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
import trio
from clients.fixtures import SETTINGS, Kafka
from group.brokers import APIS, TestBroker, running, simulated
from group.consumer.conversations import SCRIPTS as CONSUMER_SCRIPTS
from group.conversation import SCRIPTS as CLASSIC_SCRIPTS
from group.conversation import Script, hold

from pk.core.broker.coordinator.coordinator import State
from pk.core.errors import ErrorCode
from pk.core.record.batch import iter_headers, records
from pk.core.values import OFFSETS_TOPIC, coordinator_partition
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.delete_groups import DeleteGroupsRequest
from pk.core.wire.messages.describe_groups import DescribeGroupsRequest
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pk.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pk.core.wire.messages.list_groups import ListGroupsRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_delete import OffsetDeleteRequest
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SCRIPTS = [*CLASSIC_SCRIPTS, *CONSUMER_SCRIPTS]
GOLDEN = Path(__file__).parents[1] / "golden" / "groups"

Pair = tuple[bytes | None, bytes | None]


def pairs(data: bytes | memoryview) -> list[Pair]:
    view = memoryview(data)
    return [
        (record.key, record.value)
        for position, header in iter_headers(data)
        for record in records(view[position : position + header.size], header)
    ]


class Ours:
    """Our broker, called without a socket."""

    def __init__(self, test: TestBroker) -> None:
        self._test = test

    async def ask(self, request: Any, version: int, who: str = "c") -> Any:
        return await self._test.ask(request, version, client_id=who)

    async def records(self, group_id: str) -> list[Pair]:
        coordinator = self._test.broker.coordinators.coordinator(group_id)
        log = coordinator.partition.log
        return pairs(log.read(0, 1 << 30, log.log_end_offset).slice.read())


class Theirs:
    """A broker behind sockets: one connection for each who speaks."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._partitions = 0
        self._streams: dict[str, trio.SocketStream] = {}

    async def ask(self, request: Any, version: int, who: str = "c") -> Any:
        if who not in self._streams:
            self._streams[who] = await trio.open_tcp_stream(*self._address)
        stream = self._streams[who]
        await stream.send_all(frame_request(request, version, 1, who))
        (size,) = struct.unpack(">i", await self._exactly(stream, 4))
        body = await self._exactly(stream, size)
        key = request.API_KEY
        _, position = parse_response_header(body, key, version)
        return decode_whole(MESSAGES[key].response, body, version, position)

    @staticmethod
    async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            some = await stream.receive_some(count - len(data))
            assert some, "the broker closed the connection"
            data += some
        return bytes(data)

    async def until_it_coordinates(self, group_id: str) -> None:
        """Until the offsets topic is there and the group's partition is loaded."""
        await self.ask(FindCoordinatorRequest(coordinator_keys=[group_id]), 6)
        while True:
            described = await self.ask(DescribeGroupsRequest(groups=[group_id]), 0)
            if described.groups[0].error_code == 0:
                break
            await trio.sleep(0.1)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
        self._partitions = len((await self.ask(asked, 8)).topics[0].partitions)

    async def records(self, group_id: str) -> list[Pair]:
        number = coordinator_partition(group_id, self._partitions)
        partition = FetchPartition(partition=number, partition_max_bytes=1 << 30)
        request = FetchRequest(
            max_bytes=1 << 30,
            min_bytes=0,
            topics=[FetchTopic(topic=OFFSETS_TOPIC, partitions=[partition])],
        )
        answer = await self.ask(request, 12)
        return pairs(answer.responses[0].partitions[0].records or b"")

    async def close(self) -> None:
        for stream in self._streams.values():
            await stream.aclose()


def golden(script: Script) -> Path:
    return GOLDEN / f"{script.__name__}.txt"


@pytest.mark.parametrize("script", SCRIPTS)
@simulated
async def test_our_side_of_the_conversation(script: Script) -> None:
    same = {k.replace(".", "_"): v for k, v in SETTINGS.items() if k.startswith("group.consumer.")}
    async with running(auto_create_topics_enable="false", **same) as test:
        await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        await test.loaded()
        assert await hold(script, Ours(test), "") == golden(script).read_text().splitlines()


def _requests(version: int) -> dict[int, Any]:
    """A request of each API that a group's coordinator answers, as version `version` has it."""
    offsets = [
        OffsetCommitRequestTopic(
            name="t", partitions=[OffsetCommitRequestPartition(partition_index=0)]
        )
    ]
    if version < 8:
        fetch = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        )
    else:
        topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    members = [MemberIdentity(member_id="m")]
    sync = SyncGroupRequest(group_id="g", member_id="m")
    if version >= 5:
        sync.protocol_type, sync.protocol_name = "consumer", "range"
    return {
        8: OffsetCommitRequest(group_id="g", topics=offsets),
        9: fetch,
        11: JoinGroupRequest(group_id="g", session_timeout_ms=10_000, member_id="m"),
        12: HeartbeatRequest(group_id="g", member_id="m"),
        13: LeaveGroupRequest(group_id="g", members=members)
        if version >= 3
        else LeaveGroupRequest(group_id="g", member_id="m"),
        14: sync,
        15: DescribeGroupsRequest(groups=["g"]),
        42: DeleteGroupsRequest(groups_names=["g"]),
        47: OffsetDeleteRequest(group_id="g"),
    }


VERSIONS = [
    (key, version)
    for key in _requests(0)
    for version in range(APIS[key].versions[0], APIS[key].versions[1] + 1)
]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@simulated
async def test_every_version_can_say_that_the_coordinator_is_elsewhere(
    key: int, version: int
) -> None:
    async with running() as test:
        await test.create_topics("t")
        request = _requests(version)[key]
        if (key, version) == (8, 10):
            request.topics[0].topic_id = test.broker.image.topics["t"].topic_id
        answer = await test.ask(request, version)
        assert f"error_code={ErrorCode.NOT_COORDINATOR.value}" in repr(answer)


@pytest.mark.parametrize("version", range(10))
@simulated
async def test_every_version_of_join_and_sync_makes_a_generation(version: int) -> None:
    async with running(offsets_topic_num_partitions="1") as test:
        await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        await test.loaded()
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0")],
        )
        joined = await test.ask(request, version)
        if version >= 4:
            assert (joined.error_code, joined.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
            request.member_id = joined.member_id
            joined = await test.ask(request, version)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
        assert joined.protocol_name == "range"
        assert [m.member_id for m in joined.members] == [joined.member_id]
        sync = SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
            ],
        )
        if version >= 5:
            sync.protocol_type, sync.protocol_name = "consumer", "range"
        assert (await test.ask(sync, min(version, 5))).assignment == b"mine"


@simulated
async def test_groups_are_listed_across_partitions_and_found_again() -> None:
    async with running() as test:
        await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        await test.create_topics("t")
        names = [f"group-{i}" for i in range(9)]
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        for name in names:
            topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
            await test.ask(OffsetCommitRequest(group_id=name, topics=[topic]), 9)
        for version in range(6):
            listed = await test.ask(ListGroupsRequest(), version)
            assert sorted(g.group_id for g in listed.groups) == names
            assert {g.group_state for g in listed.groups} == {"Empty" if version >= 4 else ""}
            assert {g.group_type for g in listed.groups} == {"classic" if version >= 5 else ""}
        for coordinator in test.broker.coordinators:
            coordinator.state = State.LOADING
        loading = await test.ask(ListGroupsRequest(), 5)
        assert loading.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("key", [9, 15, 16, 42])
@simulated
async def test_what_asks_several_coordinators_waits_for_all(key: int) -> None:
    async with running(log_flush_interval_messages="1") as test:
        await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        await test.create_topics("t")
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        names = ["group-1", "group-2", "group-3"]
        for name in names:
            with pytest.raises(AssertionError, match="the handler waits"):
                test.ask_now(OffsetCommitRequest(group_id=name, topics=[topic]), 9)
        request = {
            9: OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=g, topics=None) for g in names]
            ),
            15: DescribeGroupsRequest(groups=names),
            16: ListGroupsRequest(),
            42: DeleteGroupsRequest(groups_names=names),
        }[key]
        answer = await test.ask(request, 9 if key == 9 else None)
        text = repr(answer)
        assert all(name in text for name in names)
        assert "error_code" not in text
        for coordinator in test.broker.coordinators:
            partition_ = coordinator.partition
            assert partition_.high_watermark == partition_.log.log_end_offset


@pytest.mark.peer
@pytest.mark.parametrize("script", SCRIPTS)
def test_their_side_of_the_conversation(script: Script, apache: Kafka) -> None:
    async def main() -> list[str]:
        mark = f"-{os.getpid()}"
        peer = Theirs(apache.host, apache.port)
        try:
            with trio.fail_after(60):
                await peer.until_it_coordinates(f"g{mark}-{script.__name__}")
                return await hold(script, peer, mark)
        finally:
            await peer.close()

    lines = trio.run(main)
    if os.environ.get("PK_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True, parents=True)
        golden(script).write_text("\n".join(lines) + "\n")
    assert lines == golden(script).read_text().splitlines()
