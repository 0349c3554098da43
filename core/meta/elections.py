"""Who leads when brokers come and go.

A broker that goes leaves the ISR of its partitions, except where it is the last one there: the last
in-sync replica holds what was committed, so it stays, the partition has no leader, and waits for
it. `unclean.leader.election.enable` lets another replica lead instead, at the price of what only
the lost one had.
"""

from collections.abc import Callable, Iterator

from pk.core.meta.events import PartitionChanged
from pk.core.meta.image import MetadataImage, PartitionImage
from pk.core.values import NO_LEADER, Uuid

Unclean = Callable[[str], bool]
"""Topic name → whether one may lead that is not in sync."""


def broker_gone(
    image: MetadataImage, broker_id: int, unclean: Unclean
) -> Iterator[PartitionChanged]:
    """What changes when `broker_id` may lead nothing any more: fenced, shutting down, or
    unregistered."""

    def alive(node: int) -> bool:
        broker = image.brokers.get(node)
        return node != broker_id and broker is not None and broker.may_lead

    for name, topic in image.topics.items():
        for partition in topic.partitions:
            if broker_id in partition.isr or partition.leader == broker_id:
                isr = tuple(n for n in partition.isr if n != broker_id) or partition.isr
                change = elect(topic.topic_id, partition, isr, alive, unclean(name))
                if change is not None:
                    yield change


def broker_came(
    image: MetadataImage, broker_id: int, unclean: Unclean
) -> Iterator[PartitionChanged]:
    """What changes when `broker_id` may lead again: partitions that have no leader take it, where
    they may."""

    def alive(node: int) -> bool:
        broker = image.brokers.get(node)
        return node == broker_id or (broker is not None and broker.may_lead)

    for name, topic in image.topics.items():
        for partition in topic.partitions:
            if partition.leader == NO_LEADER and broker_id in partition.replicas:
                change = elect(topic.topic_id, partition, partition.isr, alive, unclean(name))
                if change is not None:
                    yield change


def broker_returned(
    image: MetadataImage, broker_id: int, unclean: Unclean
) -> Iterator[PartitionChanged]:
    """A new incarnation of a broker that nobody had seen go, unfenced at once: leadership it keeps
    begins a new epoch, so that nothing of the old incarnation's is taken for the new one's."""
    for topic in image.topics.values():
        for partition in topic.partitions:
            if partition.leader == broker_id:
                yield PartitionChanged(topic.topic_id, partition.partition, leader=broker_id)
    yield from broker_came(image, broker_id, unclean)


def elect(
    topic_id: Uuid,
    partition: PartitionImage,
    isr: tuple[int, ...],
    alive: Callable[[int], bool],
    unclean: bool,
) -> PartitionChanged | None:
    """The change by which `partition` gets this ISR and a leader that fits it; None where nothing
    changes.

    The leader stays while it may; else it is the first replica in sync that is alive; else, if
    `unclean`, the first replica alive, alone in the ISR; else nobody.
    """
    if partition.leader in isr and alive(partition.leader):
        leader = partition.leader
    else:
        leader = next((n for n in partition.replicas if n in isr and alive(n)), NO_LEADER)
        if leader == NO_LEADER and unclean:
            leader = next((n for n in partition.replicas if alive(n)), NO_LEADER)
            if leader != NO_LEADER:
                isr = (leader,)
    if leader == partition.leader and isr == partition.isr:
        return None
    return PartitionChanged(
        topic_id,
        partition.partition,
        leader=None if leader == partition.leader else leader,
        isr=None if isr == partition.isr else isr,
    )
