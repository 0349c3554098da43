"""A group machine with topics, and members of consumer groups that behave as clients do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from group.scenario import Scenario
from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.group.consumer import records
from pk.core.group.consumer.group import ConsumerGroup
from pk.core.group.consumer.member import MemberState
from pk.core.group.records import Record
from pk.core.group.settings import Client, ConsumerGroupSettings, GroupSettings
from pk.core.machine import Compute, Decision
from pk.core.meta.events import (
    BROKER,
    GROUP,
    ConfigChanged,
    PartitionCreated,
    TopicCreated,
    TopicDeleted,
)
from pk.core.meta.image import Changes, MetadataImage, changes
from pk.core.values import Uuid
from pk.core.wire.messages.consumer_group_describe import DescribedGroup
from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pk.core.wire.messages.list_groups import ListedGroup
from pk.core.wire.messages.offset_fetch import OffsetFetchRequestGroup

AT_ONCE = GroupSettings(
    initial_rebalance_delay_ms=3000, consumer=ConsumerGroupSettings(assignment_interval_ms=0)
)


class World(Scenario):
    """One machine, its log, its clock, its topics."""

    def __init__(self, settings: GroupSettings = AT_ONCE, topics: dict[str, int] | None = None):
        self.image = MetadataImage()
        self.computing: list[Compute] = []
        """Computations to do off the loop that are not done yet."""
        self._topic_ids = 0
        super().__init__(settings)
        for name, count in (topics or {"t": 6}).items():
            self.create(name, count)

    def _start(self) -> None:
        super()._start()
        self.computing.clear()
        self.machine.follow(self.image, Changes(), self.now_ms)

    def take(self, decision: Decision[Record, Any]) -> Any:
        refused = self.refuse is not None and bool(decision.records)
        reply = super().take(decision)
        if not refused:
            self.computing += [one for one in decision.effects if isinstance(one, Compute)]
        return reply

    def compute(self) -> None:
        """Do the computations that a coordinator would do off the loop."""
        while self.computing:
            effect = self.computing.pop(0)
            self.take(effect.then(self.machine, effect.work(), self.now_ms))

    # Topics

    def create(self, name: str, partitions: int) -> Uuid:
        """A topic more."""
        self._topic_ids += 1
        topic_id = self._topic_ids.to_bytes(16)
        self._apply([TopicCreated(name, topic_id), *self._partitions(topic_id, 0, partitions)])
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        """A topic gets more partitions."""
        topic = self.image.topics[name]
        self._apply(self._partitions(topic.topic_id, len(topic.partitions), partitions))

    def delete(self, name: str) -> None:
        """A topic less."""
        self._apply([TopicDeleted(self.image.topics[name].topic_id)])

    @staticmethod
    def _partitions(topic_id: Uuid, first: int, end: int) -> list[Any]:
        return [
            PartitionCreated(topic_id=topic_id, partition=p, replicas=(1,), isr=(1,), leader=1)
            for p in range(first, end)
        ]

    def _apply(self, events: Iterable[Any]) -> None:
        old, self.image = self.image, self.image.apply(events)
        self.take(self.machine.follow(self.image, changes(old, self.image), self.now_ms))

    # Clients' requests

    def beat(self, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse | ErrorCode:
        """ConsumerGroupHeartbeat: the answer, or the error."""
        request = ConsumerGroupHeartbeatRequest(group_id=fields.pop("group", "g"), **fields)
        client = Client("c", "/1.2.3.4")
        try:
            return self.take(self.machine.consumer_heartbeat(request, version, client, self.now_ms))
        except KafkaError as e:
            return ErrorCode(e.code)

    def member(self, member_id: str, topics: Iterable[str] = ("t",), **fields: Any) -> Member:
        """A new client that joins, and at once gets the partitions that it may read."""
        member = Member(self, member_id, topics, **fields)
        member.join()
        return member

    def described(self, group: str = "g") -> DescribedGroup:
        """The description of a consumer group. Raises KafkaError."""
        return self.take(self.machine.describe(GroupType.CONSUMER, group, self.now_ms))

    def listed(self) -> list[ListedGroup]:
        """The groups in the answer to ListGroups."""
        return self.take(self.machine.list_groups([], [], self.now_ms))

    def delete_group(self) -> int:
        """DeleteGroups of `g`: the error code."""
        return self.take(self.machine.delete_group("g", self.now_ms)).error_code

    def fetch_as(self, member_id: str | None, member_epoch: int) -> int:
        """OffsetFetch of `g` in a member's name: the error code."""
        request = OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=member_epoch, topics=None
        )
        try:
            return self.take(
                self.machine.fetch(request, self.now_ms, require_stable=False)
            ).error_code
        except KafkaError as e:
            return e.code

    def configure(self, group: str, configs: dict[str, str]) -> None:
        """Give a group configs of its own."""
        self._apply([ConfigChanged(GROUP, group, k, v) for k, v in configs.items()])

    def configure_cluster(self, configs: dict[str, str]) -> None:
        """Set dynamic configs of all brokers."""
        self._apply([ConfigChanged(BROKER, "", k, v) for k, v in configs.items()])

    def lose_state(self, member_id: str) -> None:
        """A record says that a member is in a state that this version does not know."""
        lost = replace(self.group.members[member_id], state=MemberState.UNKNOWN)
        self.take(Decision([records.current_assignment("g", lost)]))

    @property
    def group(self) -> ConsumerGroup:
        """Group `g`."""
        group = self.machine.groups.get_of(ConsumerGroup, "g")
        assert group is not None
        return group

    def settle(self, *members: Member, rounds: int = 10) -> None:
        """Let the members beat until nothing changes."""
        for _ in range(rounds):
            for member in members:
                member.beat()
            self.compute()


class Member:
    """One client: it does as the coordinator says, at once."""

    def __init__(
        self,
        world: World,
        member_id: str,
        topics: Iterable[str] | None = ("t",),
        *,
        group: str = "g",
        **fields: Any,
    ) -> None:
        self.world = world
        self.group = group
        self.member_id = member_id
        self.topics = None if topics is None else list(topics)
        self.fields = fields
        self.epoch = 0
        self.holds: dict[Uuid, list[int]] = {}
        self.obeys = True
        """False for a member that keeps partitions it should give up."""
        self.missed = False
        """Whether it has not acted on an assignment: it says everything again when it obeys, as a
        client does that has lost an answer, and hears of the assignment again."""
        self.error: ErrorCode | None = None

    def join(self) -> None:
        """Join with every field set, holding no partitions."""
        self.epoch, self.holds = 0, {}
        self._send(
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=self.topics,
            topic_partitions=[],
            **self.fields,
        )

    def beat(self, **fields: Any) -> None:
        """Send a heartbeat with the held partitions."""
        instance_id = self.fields.get("instance_id")
        self.topics = fields.get("subscribed_topic_names", self.topics)
        if "subscribed_topic_regex" in fields:
            self.fields["subscribed_topic_regex"] = fields["subscribed_topic_regex"]
        if self.missed and self.obeys:
            everything: dict[str, Any] = {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": self.topics,
            }
            if "subscribed_topic_regex" in self.fields:
                everything["subscribed_topic_regex"] = self.fields["subscribed_topic_regex"]
            fields = everything | fields
        self._send(
            topic_partitions=[
                TopicPartitions(topic_id=t, partitions=list(ps)) for t, ps in self.holds.items()
            ],
            instance_id=instance_id,
            **fields,
        )

    def subscribe(self, *topics: str) -> None:
        """Subscribe to other topics."""
        self.topics = list(topics)
        self.beat(subscribed_topic_names=self.topics)

    def leave(self, epoch: int = -1) -> None:
        """Leave for good, or with epoch -2 for a while."""
        self.holds = {}
        self._send(member_epoch=epoch, instance_id=self.fields.get("instance_id"))

    def _send(self, member_epoch: int | None = None, **fields: Any) -> None:
        answer = self.world.beat(
            group=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch if member_epoch is None else member_epoch,
            **fields,
        )
        if isinstance(answer, ErrorCode):
            self.error = answer
            if answer == ErrorCode.FENCED_MEMBER_EPOCH:
                self.holds = {}
            return
        self.error = None
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.missed = not self.obeys
        if answer.assignment is not None and self.obeys:
            self.holds = {
                t.topic_id: list(t.partitions) for t in answer.assignment.topic_partitions
            }

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The held partitions, by topic name."""
        by_id = self.world.image.topics_by_id
        return sorted(
            (by_id[t].name if t in by_id else t.hex(), p)
            for t, partitions in self.holds.items()
            for p in partitions
        )
