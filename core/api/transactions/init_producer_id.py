"""InitProducerId (22), versions 0–5: an id and an epoch for a producer (KIP-98, KIP-360, KIP-890).

Ids come from blocks that the controller assigns to brokers, so no two producers of a cluster ever
share one. For a transactional id, its coordinator assigns the producer id (core/txn/machine.py),
and fences earlier producers of that transactional id.
"""

from typing import Final

from pk.core.api.authorization import check
from pk.core.api.transactions.producer_fenced import error_in_version
from pk.core.auth.acls import CLUSTER_NAME, Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PRODUCER_FENCED_SINCE: Final = 4


async def handle(context: Context, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Return a new id with epoch 0, or the coordinator's decision. Raises INVALID_REQUEST if the
    producer sends its id without its epoch, or only the epoch; and the errors of
    `TransactionMachine.init_producer_id`."""
    transactional_id = request.transactional_id
    if transactional_id is not None:
        check(context, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    elif not context.broker.authorization.allows_any(context, Operation.WRITE, ResourceType.TOPIC):
        check(context, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    if transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if transactional_id is None:
        producer_id = await context.broker.groups.producer_ids.next()
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return await context.broker.groups.transactions.submit_with_id(
        transactional_id,
        lambda machine, fresh_id, now_ms: machine.init_producer_id(request, fresh_id, now_ms),
    )


def error_response(
    request: InitProducerIdRequest, error: KafkaError, version: int
) -> InitProducerIdResponse:
    code = error_in_version(error.code, version, PRODUCER_FENCED_SINCE)
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
