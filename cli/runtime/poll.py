"""Polls until a condition holds, and repeats requests to a cluster that does not answer."""

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from pk.cli.runtime.context import Context
from pk.core.errors import KafkaError
from pk.net.client.errors import ClientError

Answer = TypeVar("Answer")

_GROWS = 1.5
_LOST_S = 1.0


async def poll_until(
    shown: Callable[[], Awaitable[bool]],
    *,
    every_s: float,
    within_s: float = math.inf,
    most_s: float | None = None,
) -> bool:
    """Whether `shown` holds within `within_s` seconds; with 0, it is called once, however long that
    takes.

    `shown` is called every `every_s` seconds; if `most_s` is given, the pauses grow up to that.
    Raises what `shown` raises.
    """
    if not within_s:
        return await shown()
    with trio.move_on_after(within_s):
        while not await shown():
            await trio.sleep(every_s)
            every_s = min(every_s * _GROWS, most_s or every_s)
        return True
    return False


async def until_answered(context: Context, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The result of `ask`. While no broker answers, or the error may be temporary, `ask` is called
    again every second, and the user is told so once. Raises other errors."""
    from pk.cli.runtime.failures import phrase

    is_said = False
    while True:
        try:
            return await ask()
        except (ClientError, KafkaError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            if not is_said:
                why = phrase(error) if isinstance(error, KafkaError) else "no broker answers"
                context.say(f"{why[:1].upper()}{why[1:]}; still watching.")
            is_said = True
            await trio.sleep(_LOST_S)
