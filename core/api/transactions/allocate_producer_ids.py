"""AllocateProducerIds (67), version 0: a broker requests a block of producer ids to assign
(KIP-730)."""

from pk.core.api.controller.decide import active_controller
from pk.core.broker.requests.context import Context
from pk.core.meta.producer_ids import allocate_producer_ids
from pk.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(
    context: Context, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Allocate the next block. Raises KafkaError: NOT_CONTROLLER, STALE_BROKER_EPOCH."""
    node, epoch = request.broker_id, request.broker_epoch
    block = await active_controller(context).submit(
        lambda image: allocate_producer_ids(image, node, epoch)
    )
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.count)
