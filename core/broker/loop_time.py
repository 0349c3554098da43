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
"""The time for which a task runs before it lets other tasks run, in ms."""

_time_is_up: trio.lowlevel.RunVar[float] = trio.lowlevel.RunVar("time_is_up", 0.0)
"""The time of trio's clock at which the running task must let other tasks run."""


def reset_budget() -> None:
    """Give the current task a whole budget, because other tasks have run until now."""
    _time_is_up.set(trio.current_time() + BUDGET_MS / 1000)


async def let_others_run() -> None:
    """Let other tasks run, if this one has used up its budget.

    The task cannot be cancelled here: it finishes the work that it has begun.
    """
    if trio.current_time() >= _time_is_up.get():
        await trio.lowlevel.cancel_shielded_checkpoint()
        reset_budget()
