"""The group APIs: whole conversations, the same with our broker as with Apache Kafka.

The golden text is what both said; to write it again: PK_WRITE_GOLDEN=1 pytest -m peer
tests/api/test_groups.py
"""

from __future__ import annotations

from typing import Any

import pytest
from clients.fixtures import Kafka
from group.brokers import APIS, running, simulated
from group.consumer.conversations import SCRIPTS as CONSUMER_SCRIPTS
from group.conversation import SCRIPTS as CLASSIC_SCRIPTS
from group.conversation import Script
from group.golden import GoldenConversations

from pk.core.broker.coordinator.coordinator_shard import State
from pk.core.errors import ErrorCode
from pk.core.wire.messages.delete_groups import DeleteGroupsRequest
from pk.core.wire.messages.describe_groups import DescribeGroupsRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pk.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pk.core.wire.messages.list_groups import ListGroupsRequest
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
CONVERSATIONS = GoldenConversations("groups", "group.consumer.")


@pytest.mark.parametrize("script", SCRIPTS)
@simulated
async def test_our_side_of_the_conversation(script: Script) -> None:
    await CONVERSATIONS.compare_ours(script)


def _requests(version: int) -> dict[int, Any]:
    """A request of each API that a group's coordinator answers, in version `version`."""
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
        for coordinator in test.broker.groups.coordinators:
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
        for coordinator in test.broker.groups.coordinators:
            partition_ = coordinator.partition
            assert partition_.high_watermark == partition_.log.state.log_end_offset


@simulated
async def test_an_unknown_group_is_dead_and_an_error_since_version_6() -> None:
    async with running() as test:
        await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        await test.create_topics("t")
        request = DescribeGroupsRequest(groups=["g"])
        (new,) = (await test.ask(request, 6)).groups
        (old,) = (await test.ask(request, 5)).groups
        assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        assert new.error_message == "Group g not found."
        assert (old.error_code, old.group_state) == (ErrorCode.NONE, "Dead")


@pytest.mark.peer
@pytest.mark.parametrize("script", SCRIPTS)
def test_their_side_of_the_conversation(script: Script, apache: Kafka) -> None:
    CONVERSATIONS.compare_theirs(script, apache)
