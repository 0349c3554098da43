"""The cluster's topics, as groups of every type need them."""

from __future__ import annotations

from pk.core.group.metadata_hash import group_hash, topic_hash
from pk.core.meta.image import MetadataImage, TopicImage
from pk.core.values import TopicIdPartition, Uuid


class Topics:
    """A view of the cluster's topics, updated with each image."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.new_topics_at = -1
        """The offset of the newest image that added a topic."""
        self._hashes: dict[str, tuple[TopicImage, int]] = {}

    def use(self, image: MetadataImage, *, has_new_topics: bool) -> None:
        """Adopt a new image."""
        self.image = image
        if has_new_topics or self.new_topics_at < 0:
            self.new_topics_at = image.offset
        if has_new_topics:
            self._hashes = {n: h for n, h in self._hashes.items() if n in image.topics}

    def hash_of(self, names: set[str]) -> int:
        """Return the hash of those topics among `names` that exist (metadata_hash.py)."""
        hashes: dict[str, int] = {}
        for name in names:
            topic = self.image.topics.get(name)
            if topic is not None:
                hashes[name] = self._hash(topic)
        return group_hash(hashes)

    def _hash(self, topic: TopicImage) -> int:
        known = self._hashes.get(topic.name)
        if known is not None and known[0] is topic:
            return known[1]
        racks: list[list[str]] = [[]] * len(topic.partitions)
        if any(broker.rack is not None for broker in self.image.brokers.values()):
            racks = [self._racks(p.replicas) for p in topic.partitions]
        value = topic_hash(topic.name, topic.topic_id, racks)
        self._hashes[topic.name] = (topic, value)
        return value

    def _racks(self, replicas: tuple[int, ...]) -> list[str]:
        brokers = self.image.brokers
        named = (brokers[r].rack for r in replicas if r in brokers)
        return [rack for rack in named if rack is not None]

    def ids(self, names: frozenset[str]) -> frozenset[Uuid]:
        """Return the ids of the topics that exist."""
        topics = self.image.topics
        return frozenset(topics[name].topic_id for name in names if name in topics)

    def name(self, topic_id: Uuid) -> str | None:
        """Return the name of a topic, or None if it was deleted."""
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_racks(self, topics: set[Uuid]) -> dict[TopicIdPartition, frozenset[str]]:
        """Return the racks of the replicas of every partition."""
        return {
            TopicIdPartition(topic_id, p.partition): frozenset(self._racks(p.replicas))
            for topic_id in topics
            for p in self.image.topics_by_id[topic_id].partitions
        }
