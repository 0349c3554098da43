"""Requests that name 200,000 things, answered without keeping the loop from everybody else.

A handler goes through what is named in turns (core/turns.py). `begin` runs its work up to the first
pause. Most requests are done by then, and are answered without a checkpoint; the others go on turn
by turn, while their connection waits. A handler that awaits anyway uses `in_turns`.

While a request pauses, the image, leaderships and groups may change: what is said of an element is
true when it is said, as if each had come in a request of its own. What must be decided as one is
the coordinator's (core/broker/coordinator).

Requests that are large are decoded in turns, and so are large answers encoded (net/connection). A
small request may have a large answer too, about all that exists: one that is at hand is awaited for
that (`if_many_later`). Freeing 200,000 objects takes as long as making them: `let_go` of
core/broker/pauses.py does that in turns too.
"""

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any, TypeVar

from pk.core.api.registry import Holding, Large, Outcome
from pk.core.broker.pauses import finish, in_turns, pause
from pk.core.turns import AT_ONCE, Turns
from pk.core.wire.elements import has_many
from pk.core.wire.schema import Message

__all__ = ["begin", "if_many_later", "in_turns", "large_or_not"]

R = TypeVar("R", bound=Message)


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
    return result if isawaitable(result) else Large(result)


def large_or_not(response: R) -> R | Large[R]:
    """`response`, as a large one where it has many elements."""
    return Large(response) if has_many(response, AT_ONCE) else response


def if_many_later(response: R) -> R | Awaitable[Large[R]]:
    """`response`, or an awaitable of it where it has many elements: only that is framed in
    turns."""
    return _later(response) if has_many(response, AT_ONCE) else response


async def _later(response: R) -> Large[R]:
    return Large(response)
