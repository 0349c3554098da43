"""A long conversation with a group coordinator, as text: the same lines must come from our broker
and from Apache Kafka."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import trio

from pk.core.group.records import decode_record
from pk.core.values import Uuid, coordinator_partition, uuid_text
from pk.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pk.core.wire.messages.delete_groups import DeleteGroupsRequest
from pk.core.wire.messages.describe_groups import DescribeGroupsRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pk.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pk.core.wire.messages.list_groups import ListGroupsRequest
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pk.core.wire.messages.offsets_topic import GroupMetadataValue
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

OFFSETS_PARTITIONS = 50
SUBSCRIPTION = b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# repr() takes the other quotes where bytes hold an apostrophe: the length of a name can be one
_BYTES = re.compile(
    r"""(metadata|assignment|subscription)=b(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
)
_HASH = re.compile(r"(metadata_hash=)-?\d+")  # topic ids are in it
_TIME = re.compile(r"(timestamp=)\d{13}")


class Peer(Protocol):
    """Whom to talk to. `who` is a connection; requests of one connection are answered in order."""

    async def ask(self, request: Any, version: int, who: str = "c") -> Any: ...
    async def records(self, group_id: str) -> list[tuple[bytes | None, bytes | None]]: ...


class Conversation:
    """The lines of a conversation so far. Random ids are replaced by names, in the order of their
    first appearance."""

    def __init__(self, peer: Peer, nursery: trio.Nursery, mark: str) -> None:
        """`mark` makes the names of topics and groups this conversation's own; it is left out of
        the text."""
        self.lines: list[str] = []
        self.mark = mark
        self.group = f"g{mark}"
        self.topic = f"t{mark}"
        self.hide_bytes = False
        """Whether to leave out what members write themselves: the topic's name is in it, whose
        length the mark changes."""
        self.peer = peer
        self._nursery = nursery
        self._names: dict[str, str] = {}
        self._waiting: dict[str, trio.Event] = {}
        self._answers: dict[str, Any] = {}

    def call(self, topic_id: Uuid, name: str) -> None:
        """Have the text name a topic's id."""
        self._names[repr(topic_id)] = name
        self._names[uuid_text(topic_id)] = name

    def call_member(self, member_id: str, name: str) -> None:
        """Have the text name a member id that chance made."""
        self._names[member_id] = name

    def called_member(self, member_id: str) -> str:
        """A member's name in the text."""
        return self._names.get(member_id, member_id)

    def called(self, topic_id: Uuid) -> str:
        """The name of a topic's id in the text."""
        return self._names.get(repr(topic_id), "")

    def say(self, text: str) -> None:
        """Note a line."""

        def name(found: re.Match[str]) -> str:
            return self._names.setdefault(found[0], f"id{len(self._names) + 1}")

        if self.hide_bytes:
            text = _BYTES.sub(r"\1=BYTES", text)
        text = _HASH.sub(r"\1H", _TIME.sub(r"\1T", _UUID.sub(name, text.replace(self.mark, ""))))
        for value, named in self._names.items():
            text = text.replace(value, named)
        self.lines.append(text)

    async def ask(self, request: Any, version: int, who: str = "c") -> Any:
        """Ask, and note the answer."""
        answer = await self.peer.ask(request, version, who)
        self.note(request, version, who, answer)
        return answer

    def note(self, request: Any, version: int, who: str, answer: Any) -> None:
        """Note an answer."""
        kind = type(request).__name__.removesuffix("Request")
        if isinstance(answer, JoinGroupResponse):
            answer.members.sort(key=self._order)
        self.say(f"{who}: {kind} v{version}: {answer!r}")

    @staticmethod
    def _order(member: Any) -> tuple[str, str]:
        """Members come in the order of a hash map: put them in one that does not depend on
        chance."""
        instance_id = getattr(member, "group_instance_id", None)
        return (instance_id or "", member.member_id.partition("-")[0])

    async def begin(self, request: Any, version: int, who: str) -> None:
        """Ask something that has to wait for others."""
        done = self._waiting[who] = trio.Event()

        async def wait() -> None:
            self._answers[who] = (request, version, await self.peer.ask(request, version, who))
            done.set()

        self._nursery.start_soon(wait)
        self.say(f"{who}: {type(request).__name__.removesuffix('Request')} waits")

    async def end(self, who: str) -> Any:
        """Wait for the answer to what `who` began, and note it."""
        await self._waiting.pop(who).wait()
        request, version, answer = self._answers.pop(who)
        self.note(request, version, who, answer)
        return answer

    async def until(self, state: str, members: int) -> None:
        """Wait until the group is in `state` with this number of members."""
        request = DescribeGroupsRequest(groups=[self.group])
        while True:
            group = (await self.peer.ask(request, 0, "watch")).groups[0]
            if (group.group_state, len(group.members)) == (state, members):
                return
            await trio.sleep(0.01)

    async def describe(self, version: int = 6) -> None:
        """Note what DescribeGroups says."""
        request = DescribeGroupsRequest(
            groups=[self.group], include_authorized_operations=version >= 3
        )
        answer = await self.peer.ask(request, version, "watch")
        for group in answer.groups:
            group.members.sort(key=self._order)
        self.note(request, version, "watch", answer)

    async def log(self, *, as_hashed: bool = False) -> None:
        """Note the records that the group has left in the offsets topic.

        With `as_hashed`, successive records of one type are sorted, since Apache walks members in
        the order of a hash map of random ids.
        """
        first = len(self.lines)
        for key, value in await self.peer.records(self.group):
            assert key is not None
            record = decode_record(key, value)
            assert record is not None
            if isinstance(record.value, GroupMetadataValue):
                record.value.members.sort(key=self._order)
            for topics in lists_of_topics(record.value):
                topics.sort(key=lambda topic: self.called(topic.topic_id))
            key_of = record.key
            if self.group in (getattr(key_of, "group_id", ""), getattr(key_of, "group", "")):
                version = None if value is None else value[1]
                self.say(f"log: {key[1]} {record.key!r} = v{version} {record.value!r}")
        if as_hashed:
            runs = itertools.groupby(self.lines[first:], key=lambda line: line.split()[1])
            self.lines[first:] = [line for _, run in runs for line in sorted(run)]

    # Requests

    def join(
        self, member_id: str = "", instance_id: str | None = None, protocols: str = "range"
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=p, metadata=SUBSCRIPTION) for p in protocols.split()
            ],
        )

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        **more: Any,
    ) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=a)
                for m, a in (assignments or {}).items()
            ],
            **{"protocol_type": "consumer", "protocol_name": "range", **more},
        )

    def beat(
        self, member_id: str, generation: int, instance_id: str | None = None
    ) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )

    def commit(
        self, member_id: str = "", generation: int = -1, partitions: int = 1, **more: Any
    ) -> OffsetCommitRequest:
        topic = more.pop("topic", self.topic)
        metadata = more.pop("metadata", None)
        return OffsetCommitRequest(
            group_id=more.pop("group", self.group),
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=more.pop("topic_id", bytes(16)),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=p,
                            committed_offset=p + 10,
                            committed_leader_epoch=p,
                            committed_metadata=metadata,
                        )
                        for p in range(partitions)
                    ],
                )
            ],
            **more,
        )

    def fetch(self, version: int, topics: bool = True, **more: Any) -> OffsetFetchRequest:
        if version < 8:
            return OffsetFetchRequest(
                group_id=self.group,
                topics=[OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0, 1])]
                if topics
                else None,
            )
        asked = OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0, 1], **more)
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(group_id=g, topics=[asked] if topics else None)
                for g in (self.group, f"unknown{self.mark}")
            ]
        )

    def delete(self, *topics: str) -> OffsetDeleteRequest:
        return OffsetDeleteRequest(
            group_id=self.group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=t, partitions=[OffsetDeleteRequestPartition(partition_index=1)]
                )
                for t in topics
            ],
        )

    def leave(self, *members: tuple[str, str | None]) -> LeaveGroupRequest:
        return LeaveGroupRequest(
            group_id=self.group,
            members=[MemberIdentity(member_id=m, group_instance_id=i) for m, i in members],
        )


async def create_topic(c: Conversation, name: str, partitions: int) -> Uuid:
    """A topic that the group's coordinator knows; its id."""
    # Kept for ever, or retention would come upon records of old in the middle of a conversation.
    kept = [CreatableTopicConfig(name="retention.ms", value="-1")]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=kept)
    created = await c.peer.ask(CreateTopicsRequest(topics=[topic]), 7)
    assert created.topics[0].error_code == 0, created
    await until_known(c, name)
    return created.topics[0].topic_id


async def until_known(c: Conversation, topic: str) -> None:
    """Wait until the group's coordinator knows a topic: Apache's coordinator learns of it after the
    client does.

    Another group of the same coordinator asks for the topic. Earlier changes, such as the configs
    of a group, are known then too, since brokers apply changes in order.
    """
    where = coordinator_partition(c.group, OFFSETS_PARTITIONS)
    probe = next(
        name
        for name in (f"probe{i}{c.mark}" for i in itertools.count())
        if coordinator_partition(name, OFFSETS_PARTITIONS) == where
    )

    async def beat(epoch: int, **fields: Any) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=probe, member_id="probe", member_epoch=epoch, **fields
        )
        answer = await c.peer.ask(request, 1, "probe")
        assert answer.error_code == 0, answer
        return answer

    while True:
        joined = await beat(
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        await beat(-1)
        await c.peer.ask(DeleteGroupsRequest(groups_names=[probe]), 2)
        if joined.assignment is not None and joined.assignment.topic_partitions:
            return
        await trio.sleep(0.05)


async def simple_consumer(c: Conversation) -> None:
    """Offsets without a group."""
    topic_id = await create_topic(c, c.topic, 2)
    c.call(topic_id, "topic-id")
    await c.ask(c.commit(partitions=3, group=c.group), 9)
    for version in (2, 5, 10):
        await c.ask(c.commit(partitions=3, metadata=f"v{version}", topic_id=topic_id), version)
    await c.ask(c.commit(partitions=1, topic_id=bytes(15) + b"\1"), 10)
    await c.ask(c.commit(partitions=1, retention_time_ms=3_600_000), 3)
    await c.ask(c.commit(partitions=1, metadata="x" * 5000), 9)
    await c.ask(c.commit("m", 3, group=f"unknown{c.mark}"), 8)
    await c.ask(c.commit("m", 3, group=f"unknown{c.mark}"), 9)
    await c.ask(c.commit("m", 3), 9)
    for version in (1, 2, 5, 7, 8, 9):
        await c.ask(c.fetch(version), version)
        if version >= 2:
            await c.ask(c.fetch(version, topics=False), version)
    await c.ask(c.fetch(10, topic_id=topic_id), 10)
    await c.ask(c.fetch(10, topics=False), 10)
    await c.ask(c.fetch(10, topic_id=bytes(15) + b"\1"), 10)
    await c.describe()
    await c.ask(c.delete(c.topic, "missing"), 0)
    await c.log()


async def generations(c: Conversation) -> None:
    """Two dynamic members: joining, rebalancing, leaving."""
    required = await c.ask(c.join(), 9, "a")
    a = required.member_id
    # Apache answers before the group's first record is committed, and describes only committed
    # state.
    await c.until("Empty", 0)
    await c.describe()
    await c.ask(c.join("nobody"), 9, "a")
    joined = await c.ask(c.join(a), 9, "a")
    await c.describe()
    await c.ask(c.commit(a, 1), 9, "a")
    await c.ask(c.sync(a, 2), 5, "a")
    await c.ask(c.sync(a, 1, protocol_name="sticky"), 5, "a")
    await c.ask(c.sync(a, 1, protocol_type=None), 5, "a")
    await c.ask(c.sync(a, 1, {a: b"first"}), 5, "a")
    assert joined.leader == a
    await c.ask(c.join(protocols="sticky"), 9, "b")
    await c.ask(c.beat(a, 1), 4, "a")
    await c.ask(c.beat(a, 0), 4, "a")
    await c.ask(c.beat("nobody", 1), 4, "a")
    await c.ask(c.commit(a, 1), 9, "a")
    await c.ask(c.commit(), 9, "a")
    await c.ask(c.delete(c.topic), 0)
    await c.describe()
    b = (await c.ask(c.join(), 4, "b")).member_id
    await c.begin(c.join(b), 4, "b")
    await c.until("PreparingRebalance", 2)
    await c.ask(c.beat(a, 1), 4, "a")
    await c.ask(c.sync(a, 1), 5, "a")
    await c.ask(c.join(a), 9, "a")
    await c.end("b")
    await c.begin(c.sync(b, 2, protocol_type=None, protocol_name=None), 3, "b")
    await trio.sleep(0.1)
    await c.ask(c.sync(a, 2, {a: b"A", b: b"B"}), 5, "a")
    await c.end("b")
    await c.ask(c.join(b), 9, "b")
    await c.ask(ListGroupsRequest(types_filter=["nonsense"]), 5)
    for group in (c.group, f"unknown{c.mark}", ""):
        await c.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    await c.ask(c.leave((b, None), ("nobody", None), ("", "x")), 5, "b")
    await c.ask(c.beat(a, 2), 4, "a")
    await c.ask(LeaveGroupRequest(group_id=c.group, member_id="nobody"), 2, "a")
    await c.ask(LeaveGroupRequest(group_id=c.group, member_id=a), 2, "a")
    await c.ask(c.leave(("m", None)), 5, "a")
    await c.describe()
    await c.log()
    await c.ask(DeleteGroupsRequest(groups_names=[c.group]), 2)
    await c.describe(5)


async def static_members(c: Conversation) -> None:
    """Static members: they come back, and the old ones are fenced."""
    a = (await c.ask(c.join(instance_id="A"), 9, "a")).member_id
    await c.ask(c.sync(a, 1, {a: b"first"}, group_instance_id="A"), 5, "a")
    back = await c.ask(c.join(instance_id="A"), 9, "a")
    await c.ask(c.beat(a, 1, "A"), 4, "a")
    await c.ask(c.join(a, instance_id="A"), 9, "a")
    await c.ask(c.leave((a, "A")), 5, "a")
    await c.ask(c.sync(back.member_id, 1, group_instance_id="A"), 5, "a")
    older = await c.ask(c.join(instance_id="A"), 8, "a")
    await c.ask(c.beat(older.member_id, 1, "A"), 4, "a")
    await c.ask(c.beat(older.member_id, 1, "B"), 4, "a")
    await c.begin(c.join(instance_id="B"), 9, "b")
    await c.until("PreparingRebalance", 2)
    await c.begin(c.join(older.member_id, instance_id="A"), 9, "a")
    await c.end("a")
    b = (await c.end("b")).member_id
    await c.begin(c.sync(b, 2, group_instance_id="B"), 5, "b")
    await trio.sleep(0.1)
    await c.begin(c.join(instance_id="A"), 9, "a")
    await c.end("b")
    await c.ask(c.join(b, instance_id="B"), 9, "b")
    again = (await c.end("a")).member_id
    await c.ask(c.sync(again, 3, {again: b"A", b: b"B"}, group_instance_id="A"), 5, "a")
    await c.describe()
    await c.ask(c.leave(("", "A"), ("", "B"), ("", "C")), 5)
    await c.describe()
    await c.log()


async def refusals(c: Conversation) -> None:
    """Requests that are refused at once."""
    await c.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[c.group]), 5)
    join = c.join()
    for change in ({"group_id": ""}, {"session_timeout_ms": 10}, {"protocols": []}):
        for name, value in change.items():
            was = getattr(join, name)
            setattr(join, name, value)
            await c.ask(join, 9)
            await c.ask(join, 5)
            setattr(join, name, was)
    await c.until("Empty", 0)
    await c.describe()
    unknown = c.join("m")
    unknown.group_id = f"unknown{c.mark}"
    await c.ask(unknown, 9)
    await c.ask(c.sync("m", 1), 5)
    await c.ask(c.sync("m", 1, group_instance_id="i"), 3)
    await c.ask(c.beat("m", 1), 0)
    for group_id in ("", f"unknown{c.mark}"):
        await c.ask(SyncGroupRequest(group_id=group_id, protocol_name="", protocol_type=""), 5)
        await c.ask(HeartbeatRequest(group_id=group_id), 4)
        await c.ask(LeaveGroupRequest(group_id=group_id, members=[MemberIdentity()]), 5)
        await c.ask(LeaveGroupRequest(group_id=group_id), 1)
        await c.ask(OffsetDeleteRequest(group_id=group_id), 0)
    await c.log()


def lists_of_topics(value: Any) -> list[list[Any]]:
    """The lists of topics in a share group's record: Apache has them in the order of a hash map of
    ids that chance made."""
    if not type(value).__name__.startswith("ShareGroup"):
        return []
    return [
        found
        for name in (
            "topic_partitions",
            "assigned_partitions",
            "initializing_topics",
            "initialized_topics",
            "deleting_topics",
        )
        if (found := getattr(value, name, None)) is not None
    ]


Script = Callable[[Conversation], Coroutine[Any, Any, None]]

SCRIPTS: list[Script] = [simple_consumer, generations, static_members, refusals]


async def hold(script: Script, peer: Peer, mark: str) -> list[str]:
    """The lines of one conversation."""
    async with trio.open_nursery() as nursery:
        conversation = Conversation(peer, nursery, f"{mark}-{script.__name__}")
        await script(conversation)
    return conversation.lines
