"""Finds the replica nearest to a consumer (KIP-392, `replica.selector.class`).

This is Kafka's RackAwareReplicaSelector. Of the in-sync replicas in the consumer's rack that have
the offset, it selects the leader if it is one of them, else the one with the highest log end; if
there is none, the leader.
"""

from pk.core.broker.replication.partition import Partition
from pk.core.meta.image import MetadataImage


def nearest_replica(
    partition: Partition, image: MetadataImage, rack: str, listener: str, offset: int
) -> int:
    """Return the follower from which a consumer in `rack`, connected to `listener`, should read
    `offset`; -1 for the leader, which is this broker."""
    this_broker = image.brokers.get(partition.node_id)
    if this_broker is not None and this_broker.rack == rack:
        return -1
    best: tuple[int, float, int] | None = None
    for node, follower in partition.followers.items():
        broker = image.brokers.get(node)
        if (
            broker is not None
            and broker.rack == rack
            and not broker.fenced
            and broker.endpoint(listener) is not None
            and node in partition.isr
            and follower.log_start_offset <= offset <= follower.log_end_offset
        ):
            candidate = (follower.log_end_offset, follower.caught_up_at, -node)
            best = candidate if best is None else max(best, candidate)
    return -1 if best is None else -best[2]
