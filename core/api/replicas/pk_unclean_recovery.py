"""PkUncleanRecovery (10002), version 0: the controller's knowledge of the logs of partitions that
wait for a leader, and manual election."""

from pk.core.api.authorization import allows_cluster, refusal
from pk.core.api.controller.decide import active_controller, submit_decision
from pk.core.broker.requests.context import Context
from pk.core.meta import unclean_recovery
from pk.core.needs import Operation, ResourceType
from pk.core.wire.messages.pk_unclean_recovery import (
    PkUncleanRecoveryRequest,
    PkUncleanRecoveryResponse,
)


async def handle(context: Context, request: PkUncleanRecoveryRequest) -> PkUncleanRecoveryResponse:
    """Return the logs, and elect a leader if the request names one. Raises KafkaError:
    NOT_CONTROLLER, CLUSTER_AUTHORIZATION_FAILED."""
    if not request.changes_nothing() and not allows_cluster(context, Operation.ALTER):
        raise refusal(ResourceType.CLUSTER)
    config, known = context.broker.config, active_controller(context).unclean_recovery
    reports, late = known.reports(), known.timed_out()
    return await submit_decision(
        context,
        lambda image: unclean_recovery.describe(image, reports, request, config, late),
        request,
        request.timeout_ms,
    )
