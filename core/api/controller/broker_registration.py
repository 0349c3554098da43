"""BrokerRegistration (62), versions 0–4: a broker registers at its start (KIP-631). v1 is for
migrations from ZooKeeper (KIP-866), v2 has log directories (KIP-858), v3 the epoch of the last
clean shutdown (KIP-966), v4 allows features with minimum level 0.

The response has the broker epoch, which identifies this incarnation in all its requests.
"""

from pk.core.api.controller.decide import active_controller
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
    """Register the broker as fenced. Raises KafkaError(NOT_CONTROLLER)."""
    if request.is_migrating_zk_broker:
        # pk has no brokers to migrate from ZooKeeper.
        return BrokerRegistrationResponse(error_code=ErrorCode.INVALID_REQUEST)
    controller, config = active_controller(context), context.broker.config

    def prepare() -> Decide[BrokerRegistrationResponse]:
        # The session is read when the decision is made, since it may have ended in the meantime.
        alive = controller.heartbeats.is_alive(request.broker_id)
        return lambda image: register_broker(image, request, config, alive=alive)

    return await controller.submit(OffLoopDecision(prepare))
