"""What a broker is and what it knows: its ids, its configuration, and the image of the cluster that
is in force here.

The parts of a broker share one of these instead of knowing each other. `Broker.publish` alone sets
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
    """See the top of this file. One for each process, also for one that is a controller only."""

    def __init__(self, config: BrokerConfig, *, node_id: int, cluster_id: str) -> None:
        """`config` is the static one; `cluster_id` is "" where the cluster is not known yet."""
        self.config = config
        """With the dynamic keys of the image in force."""
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.broker_epoch = -1
        """Of this registration with the controller; -1 before it, and in a process that is a
        controller only."""
        self.image = MetadataImage(cluster_id=cluster_id)
        self.metrics = BrokerMetrics()

    def endpoint(self, node_id: int, listener: str) -> ClientEndpoint | None:
        """Where clients that came through `listener` reach a node; None where it has no such
        listener."""
        node = self.image.brokers.get(node_id)
        endpoint = node.endpoint(listener) if node is not None else None
        if node is None or endpoint is None:
            return None
        return endpoint.host, endpoint.port, node.rack

    def inter_broker_endpoint(self, node_id: int) -> Endpoint | None:
        """Where other brokers reach a node (`inter.broker.listener.name`); None where it is unknown
        or has no such listener."""
        node = self.image.brokers.get(node_id)
        return None if node is None else node.endpoint(self.config.inter_broker_listener_name)

    def leader_of(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(leader, leader epoch) of a partition, None where there is no such partition."""
        found = self.image.partition(topic, partition)
        return (found.leader, found.leader_epoch) if found is not None else None
