"""Submits decisions to the controller for its APIs."""

from functools import partial

import trio

from pk.core.api.controller.forward import TIMEOUT_MS
from pk.core.broker.controller.active_controller import Decide, OffLoopDecision, Reply
from pk.core.broker.controller.controller import Controller
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.elements import has_many
from pk.core.wire.schema import Struct

LARGE_ELEMENTS = 1000
"""A request with more elements is decided in a thread."""


async def submit_decision(
    context: Context,
    decide: Decide[Reply],
    request: Struct,
    timeout_ms: int = TIMEOUT_MS,
    *,
    in_thread: bool = False,
) -> Reply:
    """Submit a decision about `request`, and return its reply once its events are safe. `context`
    gets the offset of the image that contains them. `decide` depends only on the image and the
    request. `in_thread`: the decision takes many milliseconds for any request.

    Raises KafkaError(REQUEST_TIMED_OUT) if the request times out first; the decision still takes
    effect, as in Kafka. Raises the errors of `Controller.submit`.
    """
    if in_thread or has_many(request, LARGE_ELEMENTS):
        decide = OffLoopDecision(partial(_return, decide), large=True)
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        committed = await active_controller(context).submit_with_offset(decide)
        context.image_offset = max(context.image_offset, committed.image_offset)
        return committed.reply
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the request timed out")


def _return(decide: Decide[Reply]) -> Decide[Reply]:
    return decide


def active_controller(context: Context) -> Controller:
    """Return this process's controller, if it is the active one. Raises
    KafkaError(NOT_CONTROLLER)."""
    controller = context.broker.cluster.controller
    if controller is None or not controller.active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the controller")
    return controller
