"""The state of a broker: its ids, its configuration, and the image of the cluster that is in force
here.

The parts of a broker share one of these instead of knowing each other. Only `Broker.publish` sets
the image and the configuration; registering sets the broker epoch.
"""

from __future__ import annotations

from pk.core.broker.broker_metrics import BrokerMetrics
from pk.core.config import BrokerConfig
from pk.core.meta.events import Endpoint
from pk.core.meta.image import MetadataImage

ClientEndpoint = tuple[str, int, str | None]
"""(host, port, rack)."""


class BrokerState:
    """See the top of this file. One for each process, even for one that is only a controller."""

    def __init__(self, config: BrokerConfig, *, node_id: int, cluster_id: str) -> None:
        """`config` is the static one; `cluster_id` is "" if the cluster is not known yet."""
        self.config = config
        """The configuration, with the dynamic keys of the image in force."""
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.broker_epoch = -1
        """The epoch of this registration with the controller; -1 before it, and in a process that
        is only a controller."""
        self.image = MetadataImage(cluster_id=cluster_id)
        self.metrics = BrokerMetrics()

    def endpoint(self, node_id: int, listener: str) -> ClientEndpoint | None:
        """The address of a node for clients that connected to `listener`; None if it has no such
        listener."""
        node = self.image.brokers.get(node_id)
        endpoint = node.endpoint(listener) if node is not None else None
        if node is None or endpoint is None:
            return None
        return endpoint.host, endpoint.port, node.rack

    def inter_broker_endpoint(self, node_id: int) -> Endpoint | None:
        """The address of a node for other brokers (`inter.broker.listener.name`); None if it is
        unknown or has no such listener."""
        node = self.image.brokers.get(node_id)
        return None if node is None else node.endpoint(self.config.inter_broker_listener_name)

    def leader_of(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(leader, leader epoch) of a partition, None if there is no such partition."""
        found = self.image.partition(topic, partition)
        return (found.leader, found.leader_epoch) if found is not None else None
