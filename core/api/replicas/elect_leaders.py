"""ElectLeaders (43), versions 0–2: elects preferred replicas (KIP-183), or, from v1 on, any live
replica (KIP-460).

Before v1, a response has no error for the whole request, so each requested partition has the error.
"""

from typing import Final

from pk.core.api.controller.decide import active_controller, submit_decision
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.meta import elections
from pk.core.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

_VERSION_ERROR: Final = 1


async def handle(context: Context, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect a leader of each partition separately. Raises KafkaError(NOT_CONTROLLER)."""
    config = context.broker.config
    reports = active_controller(context).unclean_recovery.reports()
    response = await submit_decision(
        context,
        lambda image: elections.elect_leaders(image, request, config, reports),
        request,
        request.timeout_ms,
    )
    if response.error_code and context.api_version < _VERSION_ERROR:
        raise KafkaError(response.error_code)
    return response


def error_response(
    request: ElectLeadersRequest, error: KafkaError, version: int
) -> ElectLeadersResponse:
    """Return the error for the whole request, and for each requested partition."""
    return ElectLeadersResponse(
        error_code=error.code if version >= _VERSION_ERROR else 0,
        replica_election_results=elections.refused(request, error),
    )
