"""The state of a broker: its ids, its configuration, and the current image of the cluster.

The parts of a broker share this object instead of referring to each other. Only `Broker.publish`
sets the image and the configuration; a registration sets the broker epoch.
"""

from __future__ import annotations

from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.config import BrokerConfig
from pk.core.meta.events import Endpoint
from pk.core.meta.image import MetadataImage

ClientEndpoint = tuple[str, int, str | None]
"""(host, port, rack)."""


class BrokerState:
    """The state of a broker. One for each process, even for one that is only a controller."""

    def __init__(self, config: BrokerConfig, *, node_id: int, cluster_id: str) -> None:
        """`config` is the static configuration; `cluster_id` is "" if the cluster is not known
        yet."""
        self.config = config
        """The configuration, with the dynamic keys of the current image."""
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.broker_epoch = -1
        """The epoch of this registration with the controller; -1 before it, and in a process that
        is only a controller."""
        self.image = MetadataImage(cluster_id=cluster_id)
        self.metrics = BrokerMetrics()

    def endpoint(self, node_id: int, listener: str) -> ClientEndpoint | None:
        """Return the address of a node for clients that connected to `listener`, or None if it has
        no such listener."""
        node = self.image.brokers.get(node_id)
        endpoint = node.endpoint(listener) if node is not None else None
        if node is None or endpoint is None:
            return None
        return endpoint.host, endpoint.port, node.rack

    def inter_broker_endpoint(self, node_id: int) -> Endpoint | None:
        """Return the address of a node for other brokers (`inter.broker.listener.name`), or None if
        it is unknown or has no such listener."""
        node = self.image.brokers.get(node_id)
        return None if node is None else node.endpoint(self.config.inter_broker_listener_name)

    def leader_of(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Return (leader, leader epoch) of a partition, or None if the partition does not exist."""
        found = self.image.partition(topic, partition)
        return (found.leader, found.leader_epoch) if found is not None else None
