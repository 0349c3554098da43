"""How an administrative API has the controller decide: within the time that its request allows."""

from typing import Any

import trio

from pk.core.broker.context import Context
from pk.core.broker.controller import Decide
from pk.core.errors import ErrorCode, KafkaError


async def decided(context: Context, decide: Decide, timeout_ms: int) -> Any:
    """The reply of a decision, once it is safe and acted upon.

    Raises KafkaError(REQUEST_TIMED_OUT) when the request's time is over first; what was decided
    happens all the same, as in Kafka. Raises what `Controller.submit` does.
    """
    with trio.move_on_after(max(timeout_ms, 0) / 1000):
        return await context.broker.controller.submit(decide)
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the time that the request allows is over")
