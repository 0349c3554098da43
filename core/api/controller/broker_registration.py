"""BrokerRegistration (62), versions 0–4: a broker comes, or comes back (KIP-631). v1 is for
migrations from ZooKeeper (KIP-866), v2 names log directories (KIP-858), v3 the epoch of the last
clean shutdown (KIP-966), v4 allows features whose lowest level is 0.

The answer has the broker epoch: it names this incarnation in everything that it asks for.
"""

from pk.core.api.controller.decide import the_controller
from pk.core.broker.controller.active_controller import Decide, OffLoopDecision
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.meta.brokers import register_broker
from pk.core.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)


async def handle(
    context: Context, request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    """Register it, fenced. Raises KafkaError(NOT_CONTROLLER)."""
    if request.is_migrating_zk_broker:
        # There never was a cluster of brokers in ZooKeeper to migrate.
        return BrokerRegistrationResponse(error_code=ErrorCode.INVALID_REQUEST)
    controller, config = the_controller(context), context.broker.config

    def ask() -> Decide:
        # Asked when the decision is made: the session may have ended while this waited.
        alive = controller.heartbeats.alive(request.broker_id)
        return lambda image: register_broker(image, request, config, alive=alive)

    return await controller.submit(OffLoopDecision(ask))
