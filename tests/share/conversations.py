"""Conversations with share coordinators, for tests/api/test_share_groups.py."""

from __future__ import annotations

from typing import Any

import trio
from group import conversation
from group.conversation import Conversation, Script

from pk.core.errors import ErrorCode
from pk.core.group.records import decode_record
from pk.core.record.batch import iter_headers
from pk.core.record.build import build_batch
from pk.core.values import Uuid, uuid_text
from pk.core.wire.messages import alter_share_group_offsets as altering
from pk.core.wire.messages import delete_share_group_offsets as removing
from pk.core.wire.messages import delete_share_group_state as deleting
from pk.core.wire.messages import describe_share_group_offsets as describing
from pk.core.wire.messages import initialize_share_group_state as initializing
from pk.core.wire.messages import produce as producing
from pk.core.wire.messages import read_share_group_state as reading
from pk.core.wire.messages import read_share_group_state_summary as summarizing
from pk.core.wire.messages import share_acknowledge as acknowledging
from pk.core.wire.messages import share_fetch as fetching
from pk.core.wire.messages import write_share_group_state as writing
from pk.core.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pk.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pk.core.wire.messages.delete_groups import DeleteGroupsRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.list_groups import ListGroupsRequest
from pk.core.wire.messages.offsets_topic_share import (
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)
from pk.core.wire.messages.share_group_describe import ShareGroupDescribeRequest
from pk.core.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

UNKNOWN_TOPIC = bytes(15) + b"\1"
BUSY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


async def create_topic(c: Conversation, name: str, partitions: int) -> Uuid:
    """A topic, whose id is a name in the text."""
    topic_id = await conversation.create_topic(c, name, partitions)
    c.call(topic_id, f"id-of-{name.removesuffix(c.mark)}")
    return topic_id


async def state(c: Conversation) -> None:
    """The five requests of share partitions' state."""
    topic_id = await create_topic(c, c.topic, 2)

    def initialize(partition: int = 0, epoch: int = 0, offset: int = 0, **more: Any) -> Any:
        data = initializing.PartitionData(
            partition=partition, state_epoch=epoch, start_offset=offset
        )
        topic = initializing.InitializeStateData(
            topic_id=more.get("topic_id", topic_id), partitions=[data]
        )
        return initializing.InitializeShareGroupStateRequest(
            group_id=more.get("group", c.group), topics=[topic]
        )

    def read(partition: int = 0, leader_epoch: int = 0, **more: Any) -> Any:
        data = reading.PartitionData(partition=partition, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=more.get("topic_id", topic_id), partitions=[data])
        return reading.ReadShareGroupStateRequest(
            group_id=more.get("group", c.group), topics=[topic]
        )

    def write(*batches: tuple[int, int, int, int], **more: Any) -> Any:
        data = writing.PartitionData(
            partition=more.get("partition", 0),
            state_epoch=more.get("epoch", 0),
            leader_epoch=more.get("leader_epoch", 0),
            start_offset=more.get("offset", -1),
            delivery_complete_count=more.get("count", 0),
            state_batches=[
                writing.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=kind, delivery_count=count
                )
                for first, last, kind, count in batches
            ],
        )
        topic = writing.WriteStateData(topic_id=more.get("topic_id", topic_id), partitions=[data])
        return writing.WriteShareGroupStateRequest(
            group_id=more.get("group", c.group), topics=[topic]
        )

    def summary(partition: int = 0, leader_epoch: int = -1, **more: Any) -> Any:
        data = summarizing.PartitionData(partition=partition, leader_epoch=leader_epoch)
        topic = summarizing.ReadStateSummaryData(
            topic_id=more.get("topic_id", topic_id), partitions=[data]
        )
        return summarizing.ReadShareGroupStateSummaryRequest(
            group_id=more.get("group", c.group), topics=[topic]
        )

    def delete(partition: int = 0, **more: Any) -> Any:
        topic = deleting.DeleteStateData(
            topic_id=more.get("topic_id", topic_id),
            partitions=[deleting.PartitionData(partition=partition)],
        )
        return deleting.DeleteShareGroupStateRequest(
            group_id=more.get("group", c.group), topics=[topic]
        )

    async def final_answer(request: Any, version: int, busy: set[ErrorCode] = BUSY) -> Any:
        """The first answer without one of the errors `busy`."""
        while True:
            answer = await c.peer.ask(request, version)
            partitions = [p for topic in answer.results for p in topic.partitions]
            if not any(partition.error_code in busy for partition in partitions):
                return answer
            await trio.sleep(0.05)

    async def ask(request: Any, version: int) -> None:
        """Ask until the coordinator is there."""
        c.note(request, version, "c", await final_answer(request, version))

    key = f"{c.group}:{uuid_text(topic_id)}:0"
    await c.peer.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6)
    # Apache's coordinator may learn of a new topic after CreateTopics was answered.
    await final_answer(summary(), 0, BUSY | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    for odd in ("", "g", "g:x:0", f"g:{uuid_text(topic_id)}", f"g:{uuid_text(topic_id)}:x"):
        await c.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[odd]), 6)
    for version in (4, 5):
        await c.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), version)

    for version in (0, 1):
        await ask(summary(), version)
    await ask(read(), 0)
    await ask(write((0, 3, 2, 1)), 1)
    await ask(delete(), 0)
    for make in (initialize, read, write, summary, delete):
        version = 1 if make in (write, summary) else 0
        await ask(make(topic_id=UNKNOWN_TOPIC), version)
        await ask(make(topic_id=bytes(16)), version)
        await ask(make(partition=-1), version)
        await ask(make(partition=7), version)
        await ask(make(group=""), version)
        empty = make()
        empty.topics = []
        await ask(empty, version)
        unasked = make()
        unasked.topics[0].partitions = []
        await ask(unasked, version)

    await ask(initialize(epoch=3, offset=-1), 0)
    await ask(summary(), 1)
    await ask(initialize(epoch=2), 0)
    await ask(initialize(epoch=4, offset=10), 0)
    await ask(read(leader_epoch=-1), 0)
    await ask(read(leader_epoch=2), 0)
    await ask(read(leader_epoch=1), 0)
    await ask(write((10, 12, 2, 1), (13, 13, 0, 1), epoch=4, leader_epoch=2, count=3), 1)
    await ask(write((13, 13, 4, 2), (14, 20, 2, 1), epoch=4, leader_epoch=2, offset=13), 0)
    await ask(write((21, 21, 2, 1), epoch=3, leader_epoch=2), 1)
    await ask(write((21, 21, 2, 1), epoch=4, leader_epoch=1), 1)
    await ask(read(leader_epoch=2), 0)
    for version in (0, 1):
        await ask(summary(), version)
    await ask(delete(), 0)
    await ask(read(leader_epoch=2), 0)
    await ask(summary(), 1)


class Members:
    """The members of a share group, who say what the script has them say."""

    def __init__(self, c: Conversation) -> None:
        self.c = c
        self.epochs: dict[str, int] = {}

    async def say(self, name: str, epoch: int | None = None, **fields: Any) -> Any:
        """A heartbeat."""
        request = ShareGroupHeartbeatRequest(
            group_id=fields.pop("group_id", self.c.group),
            member_id=fields.pop("member_id", name),
            member_epoch=self.epochs.get(name, 0) if epoch is None else epoch,
            **fields,
        )
        answer = await self.c.peer.ask(request, 1, name)
        if answer.assignment is not None:
            answer.assignment.topic_partitions.sort(key=lambda one: self.c.called(one.topic_id))
        self.c.note(request, 1, name, answer)
        if answer.error_code == 0:
            self.epochs[name] = answer.member_epoch
        return answer

    async def join(self, name: str, *topics: str, **fields: Any) -> Any:
        return await self.say(
            name, 0, subscribed_topic_names=list(topics) or [self.c.topic], **fields
        )

    async def describe(self, *groups: str) -> None:
        request = ShareGroupDescribeRequest(
            group_ids=list(groups) or [self.c.group], include_authorized_operations=True
        )
        answer = await self.c.peer.ask(request, 1, "watch")
        answer.groups.sort(key=lambda group: group.group_id)
        for group in answer.groups:
            group.members.sort(key=lambda member: member.member_id)
            for member in group.members:
                member.subscribed_topic_names.sort()
                member.assignment.topic_partitions.sort(key=lambda topic: topic.topic_name)
        self.c.note(request, 1, "watch", answer)

    async def until_initialized(self, *topics: Uuid) -> None:
        """Until the share partitions of these topics, and of no others, have a beginning."""
        wanted = ShareGroupStatePartitionMetadataKey(group_id=self.c.group)
        while True:
            latest = None
            for key, value in await self.c.peer.records(self.c.group):
                record = decode_record(key or b"", value)
                if record is not None and record.key == wanted:
                    latest = record.value
            if isinstance(latest, ShareGroupStatePartitionMetadataValue):
                found = {topic.topic_id for topic in latest.initialized_topics}
                if found == set(topics) and not latest.initializing_topics:
                    return
            await trio.sleep(0.05)

    async def offsets(self, *topics: str | None, partitions: int = 2) -> None:
        """DescribeShareGroupOffsets."""
        asked = [
            describing.DescribeShareGroupOffsetsRequestTopic(
                topic_name=topic, partitions=list(range(partitions))
            )
            for topic in topics
            if topic is not None
        ]
        group = describing.DescribeShareGroupOffsetsRequestGroup(
            group_id=self.c.group, topics=None if None in topics else asked
        )
        for version in (0, 1):
            request = describing.DescribeShareGroupOffsetsRequest(groups=[group])
            answer = await self.c.peer.ask(request, version, "watch")
            for found in answer.groups:
                found.topics.sort(key=lambda topic: topic.topic_name)
                for topic in found.topics:
                    topic.partitions.sort(key=lambda partition: partition.partition_index)
            self.c.note(request, version, "watch", answer)

    async def alter(self, *offsets: tuple[str, int, int], group: str | None = None) -> None:
        """AlterShareGroupOffsets: (topic, partition, offset)."""
        topics = [
            altering.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    altering.AlterShareGroupOffsetsRequestPartition(
                        partition_index=partition, start_offset=offset
                    )
                ],
            )
            for topic, partition, offset in offsets
        ]
        request = altering.AlterShareGroupOffsetsRequest(
            group_id=self.c.group if group is None else group, topics=topics
        )
        answer = await self.c.peer.ask(request, 0)
        answer.responses.sort(key=lambda topic: topic.topic_name)
        self.c.note(request, 0, "c", answer)

    async def delete_offsets(self, *topics: str, group: str | None = None) -> None:
        """DeleteShareGroupOffsets."""
        request = removing.DeleteShareGroupOffsetsRequest(
            group_id=self.c.group if group is None else group,
            topics=[
                removing.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics
            ],
        )
        await self.c.ask(request, 0)


async def members(c: Conversation) -> None:
    """Members come and go; what they are assigned."""
    topic_id = await create_topic(c, c.topic, 1)
    other_id = await create_topic(c, f"u{c.mark}", 1)
    m = Members(c)
    await m.join("a")
    await m.describe()
    await m.until_initialized(topic_id)
    await m.say("a")
    await m.say("a")
    await m.describe()
    await m.join("b")
    await m.say("a")
    await m.say("b")
    await m.say("b", subscribed_topic_names=[c.topic, f"u{c.mark}"])
    await m.until_initialized(topic_id, other_id)
    await m.say("b")
    await m.say("a", rack_id="r")
    await m.say("a")
    await m.join("c", "missing")
    await m.say("a", subscribed_topic_names=[c.topic])
    await m.describe()
    await m.offsets(c.topic, "missing", partitions=1)
    await m.offsets(f"u{c.mark}", partitions=1)
    await m.offsets(None)
    await m.join("a")
    await m.say("a", m.epochs["a"] - 1)
    await m.say("a", m.epochs["a"] + 1)
    await m.say("b", -1)
    await m.say("b", -1)
    await m.say("b")
    await m.say("a")
    await m.say("c", -1)
    await m.say("a")
    await c.ask(DeleteGroupsRequest(groups_names=[c.group]), 2)
    await m.say("a", -1)
    await m.describe()
    await m.join("d")
    await m.say("d")
    await m.say("d", -1)
    await c.log()
    await c.ask(DeleteGroupsRequest(groups_names=[c.group]), 2)
    await m.describe()


async def offsets(c: Conversation) -> None:
    """Offsets of a share group are described, altered and deleted."""
    topic_id = await create_topic(c, c.topic, 2)
    await create_topic(c, f"u{c.mark}", 1)
    m = Members(c)
    await m.offsets(c.topic)
    await m.alter((c.topic, 0, 0))
    await m.delete_offsets(c.topic)
    await m.join("a")
    await m.until_initialized(topic_id)
    await m.offsets(c.topic)
    await m.alter((c.topic, 0, 0))
    await m.delete_offsets(c.topic)
    await m.say("a", -1)
    await m.alter((c.topic, 0, 0), ("missing", 0, 0), (f"u{c.mark}", 0, 5))
    await m.offsets(f"u{c.mark}", partitions=1)
    await m.offsets(c.topic)
    await m.offsets(None)
    await m.alter((c.topic, 1, -5))
    await m.alter()
    await m.offsets(None)
    await m.delete_offsets(c.topic, "missing")
    await m.offsets(None)
    await m.offsets(c.topic)
    await c.log()
    # Apache writes here again what it has already written.
    await m.alter((c.topic, 9, 0))
    await m.delete_offsets(c.topic)
    await m.delete_offsets()
    for group in ("", f"unknown{c.mark}"):
        await m.alter((c.topic, 0, 0), group=group)
        await m.delete_offsets(c.topic, group=group)
    await c.ask(DeleteGroupsRequest(groups_names=[f"unknown{c.mark}"]), 2)


async def strangers(c: Conversation) -> None:
    """Refused requests, and the answers to requests of other group types."""
    topic_id = await create_topic(c, c.topic, 1)
    m = Members(c)
    await m.say("a", 0)
    await m.say("a", 5)
    await m.say("a", -1)
    await m.say("a", -2)
    await m.join("a", member_id="")
    await m.join("a", group_id="")
    await m.say("a", 0, subscribed_topic_names=[])
    await m.join("a", rack_id="")
    await m.describe(c.group, "", f"unknown{c.mark}")
    await m.join("a")
    await m.until_initialized(topic_id)
    await m.say("a")
    await m.say("a", subscribed_topic_names=[])
    await m.say("nobody", 1)
    await m.say("nobody", -1)
    await c.ask(c.commit(), 9)
    await c.ask(c.fetch(9), 9)
    await c.ask(c.delete(c.topic), 0)
    await c.describe()
    await c.ask(ConsumerGroupDescribeRequest(group_ids=[c.group]), 1)
    await c.ask(c.join(), 9)
    await c.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=c.group,
            member_id="x",
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[c.topic],
            topic_partitions=[],
        ),
        1,
    )
    await c.ask(c.sync("a", 1), 5)
    await c.ask(c.beat("a", 1), 4)
    await c.ask(c.leave(("a", None)), 5)
    for types in (["share"], ["Share"], ["classic"], ["consumer"]):
        answer = await c.peer.ask(ListGroupsRequest(types_filter=types), 5)
        answer.groups = [g for g in answer.groups if g.group_id == c.group]
        c.note(ListGroupsRequest(), 5, "watch", answer)
    for states in (["stable"], ["Empty"]):
        answer = await c.peer.ask(ListGroupsRequest(states_filter=states), 4)
        answer.groups = [g for g in answer.groups if g.group_id == c.group]
        c.note(ListGroupsRequest(), 4, "watch", answer)
    classic = f"classic{c.mark}"
    await c.ask(c.commit(group=classic), 9)
    await m.describe(classic)
    await m.join("a", group_id=classic)
    await m.say("a", -1, group_id=classic)
    await m.say("a", -1)
    await c.ask(c.join(), 9)
    await c.log()


class Fetcher:
    """One member that fetches from one partition."""

    def __init__(self, c: Conversation, topic_id: Uuid, member_id: str) -> None:
        self.c = c
        self.topic_id = topic_id
        self.member_id = member_id

    async def fetch(
        self,
        epoch: int,
        *acknowledgements: tuple[int, int, list[int]],
        version: int = 2,
        names: bool = True,
        forgets: bool = False,
        partition: int = 0,
        until_some: bool = False,
        **fields: Any,
    ) -> Any:
        """Send a ShareFetch. With `until_some` the session begins again until there are records,
        since Apache first loads the share partition's state, and that may take a while."""
        topic_id = fields.pop("topic_id", self.topic_id)
        batches = [
            fetching.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            for first, last, types in acknowledgements
        ]
        partitions = [
            fetching.FetchPartition(partition_index=partition, acknowledgement_batches=batches)
        ]
        request = fetching.ShareFetchRequest(
            group_id=fields.pop("group_id", self.c.group),
            member_id=fields.pop("member_id", self.member_id),
            share_session_epoch=epoch,
            topics=[fetching.FetchTopic(topic_id=topic_id, partitions=partitions)] if names else [],
            forgotten_topics_data=[fetching.ForgottenTopic(topic_id=topic_id, partitions=[0])]
            if forgets
            else [],
            **{"max_wait_ms": 500, "min_bytes": 1, "max_records": 100, "batch_size": 100, **fields},
        )
        while True:
            answer = await self.c.peer.ask(request, version, self.member_id)
            if not until_some or any(p.records for t in answer.responses for p in t.partitions):
                break
        for topic in answer.responses:
            for found in topic.partitions:
                found.records = _ranges(found.records)
                if found.acknowledge_error_code == ErrorCode.INVALID_RECORD_STATE:
                    found.acknowledge_error_message = "SAID IN OTHER WORDS"
        self.c.note(request, version, self.member_id, answer)
        return answer

    async def acknowledge(
        self,
        epoch: int,
        *acknowledgements: tuple[int, int, list[int]],
        version: int = 2,
        partition: int = 0,
        **fields: Any,
    ) -> Any:
        """ShareAcknowledge."""
        topic_id = fields.pop("topic_id", self.topic_id)
        batches = [
            acknowledging.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            for first, last, types in acknowledgements
        ]
        named = acknowledging.AcknowledgePartition(
            partition_index=partition, acknowledgement_batches=batches
        )
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=fields.pop("group_id", self.c.group),
            member_id=fields.pop("member_id", self.member_id),
            share_session_epoch=epoch,
            topics=[acknowledging.AcknowledgeTopic(topic_id=topic_id, partitions=[named])]
            if acknowledgements
            else [],
            **fields,
        )
        answer = await self.c.peer.ask(request, version, self.member_id)
        for topic in answer.responses:
            for found in topic.partitions:
                if found.error_code == ErrorCode.INVALID_RECORD_STATE:
                    found.error_message = "SAID IN OTHER WORDS"
        self.c.note(request, version, self.member_id, answer)
        return answer


def _ranges(data: Any) -> list[tuple[int, int]] | None:
    """The offsets of each batch."""
    if data is None:
        return None
    return [(header.base_offset, header.last_offset) for _, header in iter_headers(bytes(data))]


async def produce(c: Conversation, *counts: int) -> None:
    """Produce one batch per count, each with that many records."""
    for count in counts:
        rows = [(1_700_000_000_000 + i, None, b"v%d" % i, []) for i in range(count)]
        batch = producing.PartitionProduceData(index=0, records=build_batch(rows))
        topic = producing.TopicProduceData(name=c.topic, partition_data=[batch])
        request = producing.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[topic])
        while True:
            answer = await c.peer.ask(request, 12, "producer")
            if answer.responses[0].partition_responses[0].error_code == 0:
                break
            await trio.sleep(0.05)


async def configure(c: Conversation, **configs: str) -> None:
    """Set keys of the group, _ for the dots."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=32,
                resource_name=c.group,
                configs=[
                    AlterableConfig(name=key.replace("_", "."), value=value)
                    for key, value in configs.items()
                ],
            )
        ]
    )
    answer = await c.peer.ask(request, 1)
    assert answer.responses[0].error_code == 0, answer


async def begin(c: Conversation, *counts: int) -> tuple[Fetcher, Fetcher]:
    """A topic with records, and a group of two members that reads it from its beginning."""
    await configure(c, share_auto_offset_reset="earliest")
    topic_id = await create_topic(c, c.topic, 1)
    await produce(c, *counts)
    m = Members(c)
    await m.join("a")
    await m.until_initialized(topic_id)
    await m.say("a")
    await m.join("b")
    return Fetcher(c, topic_id, "a"), Fetcher(c, topic_id, "b")


async def deliveries(c: Conversation) -> None:
    """Records are acquired, accepted, released and rejected."""
    a, b = await begin(c, 3, 4, 5)
    m = Members(c)
    await a.fetch(0, max_records=5, until_some=True)
    await b.fetch(0)
    await b.fetch(1, names=False)
    await a.fetch(1, (0, 1, [1]), (2, 2, [2]), names=True)
    await a.fetch(2, (3, 6, [1, 2, 3, 1]))
    await m.offsets(None)
    await a.fetch(3, names=False)
    await b.fetch(2, (7, 11, [1]))
    await b.fetch(3, (7, 7, [1]))
    await a.acknowledge(4, (2, 2, [1]), (4, 4, [2]))
    await a.acknowledge(5, (2, 2, [1]))
    await b.fetch(4, names=False)
    await a.acknowledge(6)
    await a.acknowledge(7, (4, 4, [1]), version=1)
    await b.acknowledge(5, (4, 4, [1]))
    await m.offsets(None)
    await produce(c, 3)
    await a.fetch(8, names=False, max_records=2, share_acquire_mode=1)
    await b.fetch(6, names=False)
    await a.fetch(
        9, (12, 13, [4]), is_renew_ack=True, max_records=0, min_bytes=0, max_bytes=0, max_wait_ms=0
    )
    await a.acknowledge(10, (12, 12, [4]), is_renew_ack=True)
    await a.acknowledge(11, (12, 12, [4]))
    await a.acknowledge(12, (12, 12, [4]), version=1)
    await a.fetch(13, (12, 12, [4]), is_renew_ack=True)
    await a.fetch(14, (12, 12, [4]))
    await a.fetch(-1, (12, 12, [1]))
    await a.fetch(15, names=False)
    await b.fetch(7, names=False)
    await b.acknowledge(-1, (13, 13, [1]), (14, 14, [2]))
    await b.acknowledge(-1)
    await b.fetch(0)
    await b.fetch(1, names=False, forgets=True)
    await b.fetch(2, names=False)
    await b.acknowledge(3, (14, 14, [1]))
    await m.offsets(None)


async def sessions(c: Conversation) -> None:
    """Errors of share sessions, acknowledgements and partitions."""
    a, b = await begin(c, 3)
    await a.fetch(1)
    await a.fetch(-1)
    await a.acknowledge(0, (0, 0, [1]))
    await a.acknowledge(1, (0, 0, [1]))
    await a.fetch(0, (0, 0, [1]))
    await a.fetch(0, names=False, max_wait_ms=0)
    await a.fetch(0, partition=7, max_wait_ms=0)
    await a.fetch(0, group_id=None, max_wait_ms=0)
    await a.fetch(0, member_id=None, max_wait_ms=0)
    await a.fetch(0, member_id="", max_wait_ms=0)
    await b.fetch(3, max_wait_ms=0)
    await a.fetch(0, until_some=True)
    await a.fetch(9, max_wait_ms=0)
    for odd in (
        [(0, 0, [9])],
        [(0, 1, [1, 1, 1])],
        [(1, 1, [1]), (0, 0, [1])],
        [(1, 0, [1])],
        [(0, 0, [])],
        [(5, 6, [1])],
    ):
        session = await a.fetch(0, names=False, max_wait_ms=0)
        assert session.error_code == 0
        await a.acknowledge(1, *odd)
        await a.fetch(2, *odd, max_wait_ms=0)
    await a.acknowledge(3, (0, 0, [1]), partition=7)
    await a.acknowledge(4, (0, 0, [1]), topic_id=UNKNOWN_TOPIC)
    await a.fetch(5, (0, 0, [1]), partition=7, max_wait_ms=0)


SCRIPTS: list[Script] = [state, members, offsets, strangers, deliveries, sessions]
