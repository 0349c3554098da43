"""How an API that is the controller's has it decide."""

from functools import partial
from typing import Any

import trio

from pk.core.api.controller.forward import TIMEOUT_MS
from pk.core.broker.controller.active_controller import Decide, OffLoopDecision
from pk.core.broker.controller.controller import Controller
from pk.core.broker.pauses import in_turns
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.elements import arrays_of, has_many
from pk.core.wire.schema import Struct

LARGE_ELEMENTS = 1000
"""What looks at more is done in a thread, unless it is done in turns."""


async def decided(
    context: Context,
    decide: Decide,
    request: Struct,
    timeout_ms: int = TIMEOUT_MS,
    *,
    in_thread: bool = False,
) -> Any:
    """The reply of a decision about `request`, once it is safe. `decide` looks at nothing but the
    image and the request. `in_thread`: it takes many milliseconds, and cannot be made in turns.

    Raises KafkaError(REQUEST_TIMED_OUT) when the request's time is over first; what was decided
    happens all the same, as in Kafka. Raises what `Controller.submit` does.
    """
    if in_thread or await _has_large_element(request):
        decide = OffLoopDecision(partial(_same, decide), large=True)
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        return await the_controller(context).submit(decide, about=request)
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the time that the request allows is over")


async def _has_large_element(request: Struct) -> bool:
    """Whether one element of an array has so many of its own that no pause between elements
    helps."""
    for name, holds_arrays in arrays_of(type(request)):
        if holds_arrays:
            async for element in in_turns(getattr(request, name) or ()):
                if has_many(element, LARGE_ELEMENTS):
                    return True
    return False


def _same(decide: Decide) -> Decide:
    return decide


def the_controller(context: Context) -> Controller:
    """This process's, while it is the active one. Raises KafkaError(NOT_CONTROLLER)."""
    controller = context.broker.controller
    if controller is None or not controller.active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the controller")
    return controller
