"""UnregisterBroker (64), version 0: removes a broker that will not come back (KIP-631). Its
replicas remain assigned to it, until a reassignment moves them."""

from pk.core.api.controller.decide import submit_decision
from pk.core.broker.requests.context import Context
from pk.core.meta import brokers
from pk.core.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


async def handle(context: Context, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Unregister the broker. Raises KafkaError(NOT_CONTROLLER)."""
    config = context.broker.config
    return await submit_decision(
        context,
        lambda image: brokers.unregister_broker(image, request, config),
        request,
    )
