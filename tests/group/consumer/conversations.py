"""Conversations with the coordinator of consumer groups (KIP-848), for test_groups.py."""

from __future__ import annotations

from typing import Any

from group.conversation import Conversation, Script, create_topic

from pk.core.group.consumer_protocol import Subscription, encode_assignment, encode_subscription
from pk.core.values import TopicPartition, Uuid
from pk.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pk.core.wire.messages.delete_groups import DeleteGroupsRequest
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

PARTITIONS = 4


class Members:
    """The members of one group, who say what the script has them say."""

    def __init__(self, c: Conversation, topic_id: Uuid) -> None:
        self.c = c
        self.topic_id = topic_id
        self.epochs: dict[str, int] = {}

    async def join(self, name: str, version: int = 1, **fields: Any) -> Any:
        said: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": [self.c.topic],
            "topic_partitions": [],
        }
        return await self.say(name, 0, version, **(said | fields))

    async def say(
        self, name: str, epoch: int | None = None, version: int = 1, **fields: Any
    ) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.c.group),
            member_id=name,
            member_epoch=self.epochs.get(name, 0) if epoch is None else epoch,
            **fields,
        )
        answer = await self.c.ask(request, version, name)
        if answer.error_code == 0:
            self.epochs[name] = answer.member_epoch
        return answer

    async def hold(self, name: str, *partitions: int, **fields: Any) -> Any:
        held = [TopicPartitions(topic_id=self.topic_id, partitions=list(partitions))]
        return await self.say(name, topic_partitions=held if partitions else [], **fields)

    async def describe(self, version: int = 1) -> None:
        request = ConsumerGroupDescribeRequest(
            group_ids=[self.c.group], include_authorized_operations=True
        )
        answer = await self.c.peer.ask(request, version, "watch")
        for group in answer.groups:
            group.members.sort(key=lambda m: self.c.called_member(m.member_id))
        self.c.note(request, version, "watch", answer)

    def classic(
        self,
        member_id: str = "",
        *owned: int,
        names: str = "range",
        instance_id: str | None = None,
    ) -> JoinGroupRequest:
        held = tuple(TopicPartition(self.c.topic, p) for p in owned)
        said = encode_subscription(Subscription((self.c.topic,), owned=held))
        return JoinGroupRequest(
            group_id=self.c.group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=n, metadata=said) for n in names.split()],
        )

    async def restart(self, instance_id: str) -> Any:
        """A static member of the classic protocol joins again, and is given another member id."""
        request = self.classic(instance_id=instance_id)
        answer = await self.c.peer.ask(request, 9, "a")
        self.c.call_member(answer.member_id, "restarted")
        self.c.note(request, 9, "a", answer)
        return answer

    def fetch(self, member_id: str | None, epoch: int) -> OffsetFetchRequest:
        topic = OffsetFetchRequestTopics(name=self.c.topic, partition_indexes=[0])
        group = OffsetFetchRequestGroup(
            group_id=self.c.group, member_id=member_id, member_epoch=epoch, topics=[topic]
        )
        return OffsetFetchRequest(groups=[group])


async def _begin(c: Conversation) -> Members:
    topic_id = await create_topic(c, c.topic, PARTITIONS)
    c.call(topic_id, "topic-id")
    return Members(c, topic_id)


async def consumer_members(c: Conversation) -> None:
    """Members of the consumer protocol: joining, giving up, epochs, commits, leaving."""
    m = await _begin(c)
    await m.join("a")
    await m.describe()
    await m.hold("a", 0, 1, 2, 3)
    await m.join("b", server_assignor="range", rack_id="r1")
    await m.describe(0)
    await m.say("b")
    await m.hold("a", 0, 1, 2, 3)
    await m.hold("a", 0, 1, 2, 3)
    await m.say("a", 9)
    await m.hold("a", 0, 1)
    await m.hold("b")
    await m.hold("b", 2, 3)
    await m.describe()
    await m.say("a", 2)
    await c.ask(c.commit("a", 3, partitions=2), 9, "a")
    await c.ask(c.commit("a", 2, partitions=2), 9, "a")
    await c.ask(c.commit("a", 2, partitions=3), 9, "a")
    await c.ask(c.commit("b", 2, partitions=1), 9, "b")
    await c.ask(c.commit("a", 4), 9, "a")
    await c.ask(c.commit("a", 3), 8, "a")
    await c.ask(c.commit("nobody", 3), 9, "a")
    await c.ask(c.commit(), 9, "a")
    await c.ask(m.fetch("a", 3), 9, "a")
    await c.ask(m.fetch("a", 2), 9, "a")
    await c.ask(m.fetch("nobody", 2), 9, "a")
    await c.ask(m.fetch(None, -1), 9, "a")
    await c.describe()
    await c.describe(5)
    await c.ask(DeleteGroupsRequest(groups_names=[c.group]), 2)
    await c.ask(c.delete(c.topic), 0)
    await m.say("b", subscribed_topic_names=["elsewhere"], topic_partitions=None)
    await m.hold("b", 2, 3)
    await m.hold("b")
    await m.hold("a", 0, 1)
    await m.say("b", -1)
    await m.hold("a", 0, 1, 2, 3)
    await m.describe()
    await m.say("a", -1)
    await m.say("a", -1)
    await m.describe()
    await c.ask(c.commit(), 9, "a")
    await c.log()
    await c.ask(DeleteGroupsRequest(groups_names=[c.group]), 2)
    await m.describe()


async def consumer_statics(c: Conversation) -> None:
    """Static members of the consumer protocol."""
    m = await _begin(c)
    await m.join("a", instance_id="A")
    await m.join("b", instance_id="B")
    await m.hold("a", 0, 1, 2, 3, instance_id="A")
    await m.hold("a", 0, 1, instance_id="A")
    await m.hold("b", instance_id="B")
    await m.join("b2", instance_id="B")
    await m.say("b", -2, instance_id="B")
    await m.describe()
    await m.join("b2", instance_id="B")
    await m.describe()
    await m.say("b", 3, instance_id="B")
    await m.say("b2", instance_id="C")
    await m.say("b", -1, instance_id="B")
    await m.say("b2", -1, instance_id="B")
    await m.say("a", -2, instance_id="A")
    await m.say("a", -2)
    await c.log()
    await c.ask(c.leave(("", "A"), ("", "Z"), ("nobody", None)), 5)
    await m.describe()


async def consumer_refusals(c: Conversation) -> None:
    """Requests that are refused at once."""
    m = await _begin(c)
    for version in (0, 1):
        for name, value in (
            ("rebalance_timeout_ms", -1),
            ("topic_partitions", None),
            ("topic_partitions", [TopicPartitions()]),
            ("subscribed_topic_names", None),
            ("server_assignor", "nonsense"),
            ("instance_id", ""),
            ("rack_id", ""),
            ("group_id", ""),
        ):
            await m.join("a", version, **{name: value})
    await m.join("", 1)
    for epoch in (-3, -2, -1, 1):
        await m.say("a", epoch)
        await m.say("", epoch, 0)
    await m.describe()
    await c.ask(ConsumerGroupDescribeRequest(group_ids=["", f"unknown{c.mark}"]), 1)
    await c.log()


async def consumer_upgrade(c: Conversation) -> None:
    """A classic group goes over with its members, and comes back with those of its old protocol."""
    m = await _begin(c)
    c.hide_bytes = True
    a = (await c.ask(m.classic(), 9, "a")).member_id
    await c.ask(m.classic(a), 9, "a")
    given = encode_assignment([TopicPartition(c.topic, p) for p in range(PARTITIONS)])
    await c.ask(c.sync(a, 1, {a: given}), 5, "a")
    await m.join("new")
    await m.describe()
    await c.ask(c.beat(a, 1), 4, "a")
    await c.ask(c.sync(a, 1), 5, "a")
    await c.ask(m.classic(a, 0, 1, 2, 3), 9, "a")
    await c.ask(c.sync(a, 1), 5, "a")
    await c.ask(c.beat(a, 1), 4, "a")
    rejoined = await c.ask(m.classic(a, 0, 1), 9, "a")
    epoch = rejoined.generation_id
    await c.ask(c.sync(a, epoch, protocol_name="sticky"), 5, "a")
    await c.ask(c.sync(a, epoch), 5, "a")
    await c.ask(c.beat(a, epoch), 4, "a")
    await m.hold("new")
    await m.describe()
    await c.ask(c.beat("new", epoch), 4, "a")
    await c.ask(c.beat("nobody", epoch), 4, "a")
    await c.ask(c.beat(a, 9), 4, "a")
    await c.ask(c.commit(a, epoch), 9, "a")
    await c.ask(c.commit(a, 9), 9, "a")
    await c.ask(m.classic(names="sticky"), 9, "b")
    await m.say("new", -1)
    await c.until("PreparingRebalance", 1)
    await c.ask(c.beat(a, epoch), 4, "a")
    await c.describe()
    await c.log(as_hashed=True)


async def consumer_upgrade_static(c: Conversation) -> None:
    """A static member of the classic protocol goes over with its group, restarts there, and comes
    back with it."""
    m = await _begin(c)
    c.hide_bytes = True
    a = (await c.ask(m.classic(instance_id="A"), 9, "a")).member_id
    given = encode_assignment([TopicPartition(c.topic, p) for p in range(PARTITIONS)])
    await c.ask(c.sync(a, 1, {a: given}, group_instance_id="A"), 5, "a")
    await m.join("new")
    await c.ask(c.beat(a, 1, "A"), 4, "a")
    await c.ask(m.classic(a, 0, 1, 2, 3, instance_id="A"), 9, "a")
    await c.ask(c.sync(a, 1, group_instance_id="A"), 5, "a")
    rejoined = await c.ask(m.classic(a, 0, 1, instance_id="A"), 9, "a")
    epoch = rejoined.generation_id
    await c.ask(c.sync(a, epoch, group_instance_id="A"), 5, "a")
    await c.ask(c.beat(a, epoch, "A"), 4, "a")
    await m.hold("new")
    await m.describe()
    restarted = await m.restart("A")
    b, epoch = restarted.member_id, restarted.generation_id
    await c.ask(c.sync(b, epoch, group_instance_id="A"), 5, "a")
    await c.ask(c.beat(b, epoch, "A"), 4, "a")
    await c.ask(c.beat(a, epoch, "A"), 4, "a")
    await m.hold("new", 2, 3)
    await m.describe()
    await m.say("new", -1)
    await c.until("PreparingRebalance", 1)
    await c.ask(c.beat(b, epoch, "A"), 4, "a")
    await c.describe()
    await c.log(as_hashed=True)


async def consumer_downgrade_static(c: Conversation) -> None:
    """The only member of the consumer protocol, a static one, comes back with the classic
    protocol."""
    m = await _begin(c)
    c.hide_bytes = True
    await m.join("a", instance_id="A")
    await m.hold("a", 0, 1, 2, 3, instance_id="A")
    await m.say("a", -2, instance_id="A")
    joined = await m.restart("A")
    b, epoch = joined.member_id, joined.generation_id
    await c.until("Stable", 1)
    await c.describe()
    await m.describe()
    await c.ask(c.sync(b, epoch, group_instance_id="A"), 5, "a")
    await c.ask(c.beat(b, epoch, "A"), 4, "a")
    rejoined = await c.ask(m.classic(b, instance_id="A"), 9, "a")
    given = encode_assignment([TopicPartition(c.topic, p) for p in range(PARTITIONS)])
    epoch = rejoined.generation_id
    await c.ask(c.sync(b, epoch, {b: given}, group_instance_id="A"), 5, "a")
    await c.ask(c.beat(b, epoch, "A"), 4, "a")
    restarted = await c.ask(m.classic(instance_id="A"), 9, "a")
    await c.ask(c.beat(restarted.member_id, restarted.generation_id, "A"), 4, "a")
    await c.describe()
    await c.log(as_hashed=True)


SCRIPTS: list[Script] = [
    consumer_members,
    consumer_statics,
    consumer_refusals,
    consumer_upgrade,
    consumer_upgrade_static,
    consumer_downgrade_static,
]
