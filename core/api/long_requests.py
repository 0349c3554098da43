"""Requests that name 200,000 things, answered without keeping the loop from everybody else.

A handler goes through what is named in turns (core/turns.py). `begin` runs its work up to the first
pause. Most requests are done by then, and are answered without a checkpoint; the others go on turn
by turn, while their connection waits. A handler that awaits anyway uses `in_turns`.

While a request pauses, the image, leaderships and groups may change: what is said of an element is
true when it is said, as if each had come in a request of its own. What must be decided as one is
the coordinator's (core/broker/coordinator).
"""

from collections.abc import Awaitable
from typing import Any

from pk.core.api.registry import Holding, Outcome
from pk.core.broker.pauses import finish, in_turns, pause
from pk.core.turns import Turns

__all__ = ["begin", "in_turns"]


def begin(work: Turns[Any]) -> Any:
    """What `work` comes to, where it does not pause; else what the connection must wait for. It may
    come to a response, or to an awaitable of one."""
    try:
        next(work)
    except StopIteration as done:
        return done.value
    return Holding(_go_on(work))


async def _go_on(work: Turns[Any]) -> Outcome[Any] | Awaitable[Outcome[Any]]:
    await pause()
    result = await finish(work)
    return result
