"""The facts outside a partition that decide its leadership: the brokers that may lead, and the
topics' `min.insync.replicas` and `unclean.leader.election.enable`."""

from typing import Final

from pk.core.config import BrokerConfig
from pk.core.meta.directory_id import UNASSIGNED, UNKNOWN_DIRECTORIES
from pk.core.meta.image import MetadataImage, PartitionImage
from pk.core.values import NO_OFFSET, Uuid

MIN_ISR: Final = "min.insync.replicas"


class PartitionRules:
    """The rules for leadership in one image, built once for a decision about many partitions."""

    def __init__(self, image: MetadataImage, config: BrokerConfig) -> None:
        """Build the rules. Configs that the cluster sets for all brokers override the controller's
        `config`."""
        self.image = image
        self._config = effective(image, config)
        self.strategy = self._config.unclean_recovery_strategy
        self._topics: dict[str, tuple[int, bool]] = {}
        self._alive = {b.broker_id: b.log_dirs for b in image.brokers.values() if b.may_lead}

    def may_lead(self, node: int, directory: Uuid = UNASSIGNED) -> bool:
        """Whether `node` is alive and not shutting down, and its replica's directory works."""
        log_dirs = self._alive.get(node)
        return log_dirs is not None and (directory in UNKNOWN_DIRECTORIES or directory in log_dirs)

    def leader_has_applied_isr(self, partition: PartitionImage) -> bool:
        """Whether the partition's leader is known to have applied the current ISR. Replicas that
        left the ISR may then lack records that were acknowledged since."""
        brokers = self.image.brokers
        leader = brokers.get(partition.leader)
        if leader is None:
            return False
        left = (n for n in partition.replicas if n not in partition.isr and n in brokers)
        out = (brokers[n].out_offset for n in left)
        return leader.known_offset >= max(out, default=NO_OFFSET)

    def of(self, topic: str) -> tuple[int, bool]:
        """Return `min.insync.replicas` and `unclean.leader.election.enable` of a topic."""
        known = self._topics.get(topic)
        if known is None:
            config = self._config.topic(self.image.topic_configs(topic))
            known = (config.min_insync_replicas, config.unclean_leader_election_enable)
            self._topics[topic] = known
        return known


def effective(image: MetadataImage, config: BrokerConfig) -> BrokerConfig:
    """Return the controller's configuration, overridden by the cluster's configs for all
    brokers."""
    cluster = image.broker_configs(None)
    if not config.dynamic and config.dynamic_default == cluster:
        return config
    return config.with_dynamic(cluster, {})
