"""Producer ids: the controller allocates blocks of them to brokers (KIP-730)."""

from typing import Final

from msgspec import Struct

from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import Event, ProducerIdsAllocated
from pk.core.meta.image import MetadataImage

PRODUCER_IDS_PER_BLOCK: Final = 1000


class ProducerIdBlock(Struct, frozen=True):
    """A block of producer ids that one broker may assign: `count` of them from `first`."""

    first: int
    count: int


def allocate_producer_ids(
    image: MetadataImage, broker_id: int, broker_epoch: int
) -> Decision[Event, ProducerIdBlock]:
    """Allocate the next block of producer ids to a broker; the reply is a `ProducerIdBlock`.

    Raises KafkaError(STALE_BROKER_EPOCH), also if no such broker is registered.
    """
    if image.is_stale(broker_id, broker_epoch):
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"{broker_epoch} is not the epoch of a registered broker {broker_id}",
        )
    first = image.producer_id_next
    after = first + PRODUCER_IDS_PER_BLOCK
    return Decision(
        [ProducerIdsAllocated(broker_id, broker_epoch, after)],
        reply=ProducerIdBlock(first, PRODUCER_IDS_PER_BLOCK),
    )
