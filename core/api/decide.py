"""How an API that is the controller's has it decide."""

from typing import Any

import trio

from pk.core.broker.controller.active_controller import Decide
from pk.core.broker.controller.controller import Controller
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError


async def decided(context: Context, decide: Decide, timeout_ms: int) -> Any:
    """The reply of a decision, once it is safe.

    Raises KafkaError(REQUEST_TIMED_OUT) when the request's time is over first; what was decided
    happens all the same, as in Kafka. Raises what `Controller.submit` does.
    """
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        return await the_controller(context).submit(decide)
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the time that the request allows is over")


def the_controller(context: Context) -> Controller:
    """This process's, while it is the active one. Raises KafkaError(NOT_CONTROLLER)."""
    controller = context.broker.controller
    if controller is None or not controller.active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the controller")
    return controller
