"""Limits how long one task may keep the event loop from all others.

Code that goes through thousands of items calls `let_others_run` once for each:

    for topic in request.topics:
        await let_others_run()
        response.topics.append(...)

The data it reads may change at each of these calls. A decision that must be atomic is a plain
function, such as a decision of a state machine: it takes a microsecond or two for each item, and a
request names at most `pk.request.elements.max` items.
"""

from typing import Final

import trio

BUDGET_MS: Final = 2
"""How long a task runs before the others get a turn."""

_time_is_up: trio.lowlevel.RunVar[float] = trio.lowlevel.RunVar("time_is_up", 0.0)
"""When the time of the task that runs is up, by trio's clock."""


def begin_to_run() -> None:
    """This task begins something: the others ran until now."""
    _time_is_up.set(trio.current_time() + BUDGET_MS / 1000)


async def let_others_run() -> None:
    """Let the other tasks run, if the time of this one is up.

    The task is not cancelled here: it finishes the work it has begun.
    """
    if trio.current_time() >= _time_is_up.get():
        await trio.lowlevel.cancel_shielded_checkpoint()
        begin_to_run()
