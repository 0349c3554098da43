"""PkFaults (10000), version 0: injects faults for tests, if `pk.faults.enable` is true."""

from typing import Final

from pk.core.api_keys import API_KEYS
from pk.core.broker.faults import actions
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.pk_faults import FaultInForce, PkFaultsRequest, PkFaultsResponse

OFF: Final = "this broker injects no faults: set pk.faults.enable=true in its config"


async def handle(context: Context, request: PkFaultsRequest) -> PkFaultsResponse:
    """Do the requested action. Raises KafkaError."""
    faults = context.broker.faults
    if faults is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, OFF)
    response = PkFaultsResponse()
    match request.action:
        case "list":
            response.faults = [
                FaultInForce(
                    fault_id=fault.fault_id,
                    kind=fault.kind,
                    request_key=fault.api_key,
                    fault_code=fault.error_code,
                    delay_ms=fault.delay_ms,
                    times=fault.times,
                    met=fault.met,
                    client_id=fault.client_id,
                )
                for fault in faults
            ]
        case "add":
            if request.request_key not in API_KEYS or request.request_key == request.API_KEY:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"no request has api key {request.request_key}"
                )
            response.count = faults.add(
                request.kind,
                request.request_key,
                error_code=request.fault_code,
                delay_ms=request.delay_ms,
                times=request.times,
                client_id=request.client_id,
            )
        case "clear":
            response.count = faults.clear(request.fault_id)
        case "disconnect":
            response.count = faults.disconnect(request.client_id, except_for=context.connection_id)
        case "move-leader":
            response.count = await actions.move_leader(
                context.broker, request.topic, request.partition, request.delay_ms
            )
        case "rebalance":
            await actions.rebalance(context.broker, request.group)
        case "set-clock":
            await faults.set_clock(request.shift_ms)
        case other:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"PkFaults has no action {other[:40]!r}")
    response.shift_ms = faults.shift_ms
    return response
