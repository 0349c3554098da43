"""BrokerHeartbeat (63), versions 0–2: a broker reports that it is alive, and asks to be unfenced,
to be fenced, or to shut down (KIP-631). v1 has failed log directories (KIP-858), v2 cordoned ones.

`CordonedLogDirs` (v2) is ignored. Apache's controllers use it to choose directories for replicas;
pk's controller leaves that choice to the brokers.
"""

from pk.core.api.controller.decide import active_controller
from pk.core.broker.controller.active_controller import Decide, OffLoopDecision
from pk.core.broker.requests.context import Context
from pk.core.meta import brokers
from pk.core.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


async def handle(context: Context, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    """Process a heartbeat. Raises KafkaError(NOT_CONTROLLER)."""
    controller, config = active_controller(context), context.broker.config
    heartbeats, node = controller.heartbeats, request.broker_id

    def prepare() -> Decide[BrokerHeartbeatResponse]:
        may_go = heartbeats.may_shut_down(node)
        return lambda image: brokers.heartbeat(image, request, config, may_shut_down=may_go)

    if _is_current(context, request):
        # Note the heartbeat before the decision, so that brokers whose decisions queue behind a
        # slow append count as alive.
        heartbeats.record_heartbeat(node, request.broker_epoch, context.connection_id)
    return await controller.submit(OffLoopDecision(prepare))


def _is_current(context: Context, request: BrokerHeartbeatRequest) -> bool:
    broker = active_controller(context).image.brokers.get(request.broker_id)
    return broker is not None and broker.broker_epoch == request.broker_epoch
