"""AssignReplicasToDirs (73), version 0: a broker reports the log directories of its replicas
(KIP-858)."""

from pk.core.api.controller.decide import active_controller
from pk.core.broker.requests.context import Context
from pk.core.meta import directories
from pk.core.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


async def handle(
    context: Context, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    """Record each replica separately. Raises KafkaError(NOT_CONTROLLER)."""
    config = context.broker.config
    return await active_controller(context).submit(
        lambda image: directories.assign_directories(image, request, config)
    )
