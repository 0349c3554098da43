"""ControllerRegistration (70), version 0: a node that may become the controller registers its
endpoints (KIP-919)."""

from pk.core.api.controller.decide import active_controller
from pk.core.broker.requests.context import Context
from pk.core.meta import brokers
from pk.core.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


async def handle(
    context: Context, request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    """Record the registration. Raises KafkaError(NOT_CONTROLLER)."""
    return await active_controller(context).submit(
        lambda image: brokers.register_controller(image, request)
    )
