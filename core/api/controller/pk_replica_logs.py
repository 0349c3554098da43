"""PkReplicaLogs (10001), version 0: a broker reports the ends of its logs. (KIP-966's
GetReplicaLogInfo carries the same, but at the controller's request; see
core/meta/unclean_recovery.py.)"""

from pk.core.api.controller.decide import active_controller
from pk.core.broker.requests.context import Context
from pk.core.meta import unclean_recovery
from pk.core.wire.messages.pk_replica_logs import PkReplicaLogsRequest, PkReplicaLogsResponse


async def handle(context: Context, request: PkReplicaLogsRequest) -> PkReplicaLogsResponse:
    """Process a report. Raises KafkaError(NOT_CONTROLLER)."""
    controller, config = active_controller(context), context.broker.config
    response = await controller.submit(
        lambda image: unclean_recovery.report(
            image, request, config, controller.unclean_recovery.reports()
        )
    )
    controller.unclean_recovery.add_reports(request, response)
    return response
