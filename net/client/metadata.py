"""A client's cache of the cluster: brokers, topics, leaders. It is filled from Metadata responses
and sends no requests itself."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pk.core.values import NO_EPOCH, NO_LEADER, ZERO_UUID, TopicPartition, Uuid
from pk.net.client.node import Node


class PartitionInfo(Struct, frozen=True):
    """A partition according to the last response about it."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: int


class TopicInfo(Struct, frozen=True):
    """A topic according to the last response about it; `partitions` is indexed by number, without
    gaps."""

    name: str
    topic_id: Uuid
    internal: bool
    partitions: tuple[PartitionInfo, ...]
    error_code: int
    fetched_at: float


class Metadata:
    """The cache: `brokers` by id, `topics` by name, `names` by topic id."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Node] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.names: dict[Uuid, str] = {}
        self.all_topics_at = float("-inf")
        """When all topics were last requested."""

    def leader(self, partition: TopicPartition) -> tuple[int, int]:
        """Return (leader id, leader epoch) of a partition; (-1, -1) if it has no known leader."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return NO_LEADER, NO_EPOCH
        info = topic.partitions[partition.partition]
        return info.leader_id, info.leader_epoch

    def topic_id(self, name: str) -> Uuid:
        """Return the id of a topic; zero if unknown."""
        topic = self.topics.get(name)
        return topic.topic_id if topic else ZERO_UUID

    def apply(self, response: Any, now: float, *, all_topics: bool) -> None:
        """Store a MetadataResponse. With `all_topics`, topics that the response lacks are
        removed."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        if response.brokers:
            self.brokers = {
                b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers
            }
        if all_topics:
            named = {topic.name for topic in response.topics}
            for name in [name for name in self.topics if name not in named]:
                self.forget(name)
            self.all_topics_at = now
        for topic in response.topics:
            if topic.name is not None:
                self._apply_topic(topic, now)

    def _apply_topic(self, topic: Any, now: float) -> None:
        known = self.topics.get(topic.name)
        if known is not None and (topic.topic_id == ZERO_UUID or known.topic_id != topic.topic_id):
            self.names.pop(known.topic_id, None)
            known = None if topic.topic_id != ZERO_UUID else known
        count = max((p.partition_index for p in topic.partitions), default=-1) + 1
        absent = PartitionInfo(NO_LEADER, NO_EPOCH, (), (), (), 0)
        partitions = [absent] * count
        for p in topic.partitions:
            info = PartitionInfo(
                p.leader_id,
                p.leader_epoch,
                tuple(p.replica_nodes),
                tuple(p.isr_nodes),
                tuple(p.offline_replicas),
                p.error_code,
            )
            # A broker that lags behind may name a former leader, so an older epoch is ignored
            # (KIP-320).
            index: int = p.partition_index
            if known is not None and index < len(known.partitions):
                before = known.partitions[index]
                if NO_EPOCH < info.leader_epoch < before.leader_epoch:
                    info = replace(
                        info, leader_id=before.leader_id, leader_epoch=before.leader_epoch
                    )
            partitions[index] = info
        self.topics[topic.name] = TopicInfo(
            topic.name, topic.topic_id, topic.is_internal, tuple(partitions), topic.error_code, now
        )
        if topic.topic_id != ZERO_UUID:
            self.names[topic.topic_id] = topic.name

    def forget(self, name: str) -> None:
        """Remove a topic from the cache."""
        known = self.topics.pop(name, None)
        if known is not None:
            self.names.pop(known.topic_id, None)

    def note_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        """Store the leader that a response named (KIP-951). Returns whether it was new."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return False
        before = topic.partitions[partition.partition]
        if leader_id < 0 or leader_epoch <= before.leader_epoch or leader_id not in self.brokers:
            return False
        partitions = list(topic.partitions)
        partitions[partition.partition] = replace(
            before, leader_id=leader_id, leader_epoch=leader_epoch
        )
        self.topics[partition.topic] = replace(topic, partitions=tuple(partitions))
        return True

    def note_endpoints(self, endpoints: list[Any]) -> None:
        """Store the brokers that a response named (KIP-951)."""
        for e in endpoints:
            self.brokers[e.node_id] = Node(e.node_id, e.host, e.port, e.rack)
