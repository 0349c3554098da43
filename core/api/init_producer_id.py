"""InitProducerId (22), versions 0–5: an id for an idempotent producer (KIP-98, KIP-360, KIP-890).

Ids come from blocks that the controller hands to brokers, so that no two producers of a cluster ever share one.
"""

from pk.core.api.registry import Api, Operation
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A fresh id with epoch 0; with a transactional id: there is no coordinator for it. Raises INVALID_REQUEST for half
    of what a producer had: its id without its epoch, or the epoch alone."""
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    producer_id = await context.broker.producer_ids.next()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _error_response(
    request: InitProducerIdRequest, error: KafkaError, version: int
) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


API = Api(
    key=22,
    versions=(0, 5),
    handle=handle,
    operation=Operation.IDEMPOTENT_WRITE,
    error_response=_error_response,
)
