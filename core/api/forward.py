"""What brokers pass on to the controller (KIP-590), and how a client is spared what may happen on the way.

A request that is the controller's goes to whoever is that, in this process or in another (`ControllerLink.forward`). If the
controller dies between its decision and its answer, nobody can say what became of the request. The client should not have to
care, so it is asked again, of the next controller; and because the next controller's log tells the truth, its answer does.
Only one thing would be wrong in it: what our own first try did may make the second fail, as when the topic is there already.
Such an error is taken for what it is (core/api/asked_again.py): what was missing before we asked first, and is now there as
it was asked for, is success. If somebody else made the very same at that moment, two are told that they did.

What a client has had done it finds done when it asks this broker again: the answer waits until the image here shows it, at
most `SHOWN_MS_MAX`, for it has happened all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import trio

from pk.core.api.asked_again import shows, suspects
from pk.core.api.registry import Api
from pk.core.broker.controller.controller_link import FateUnknown
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.image import MetadataImage

TIMEOUT_MS: Final = 30_000
"""For requests that say none; Kafka's brokers wait as long for their controller."""

TIMEOUT_MS_MIN: Final = 5_000
"""What the way to the controller may take, however little time the request leaves it."""

SHOWN_MS_MAX: Final = 5_000

PAUSE_S: Final = 0.05
"""Before it is asked again."""


def through(api: Api) -> Api:
    """`api` as brokers serve it to clients."""

    async def handle(context: Context, request: Any) -> Any:
        return await pass_on(context, request)

    return replace(api, handle=handle)


async def pass_on(context: Context, request: Any) -> Any:
    """The active controller's answer to a client's request. Raises KafkaError: REQUEST_TIMED_OUT where none was to be had in
    time, and what the envelope met."""
    broker = context.broker
    given = getattr(request, "timeout_ms", TIMEOUT_MS)
    timeout_ms = max(given, TIMEOUT_MS_MIN)
    deadline = trio.current_time() + timeout_ms / 1000
    before, again = broker.image, False
    while True:
        left_ms = (deadline - trio.current_time()) * 1000
        if left_ms <= 0:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the controller gave no answer in {timeout_ms} ms; it may have happened",
            )
        try:
            response = await broker.link.forward(context, request, timeout_ms=left_ms)
            break
        except FateUnknown as e:
            if given < TIMEOUT_MS_MIN:
                # A client that leaves no time is told so, and not that it took more.
                raise KafkaError(e.code, e.message) from e
            again = True
            await trio.sleep(PAUSE_S)
    for suspect in suspects(request, response, before, broker.config) if again else ():
        await _until(context, suspect.explained)
        if suspect.explained(broker.image):
            suspect.mend(broker.image)
    await _until(context, lambda image: shows(request, response, image))
    return response


async def _until(context: Context, shown: Callable[[MetadataImage], bool]) -> None:
    """Wait for an image that shows it, not for ever."""
    broker = context.broker
    if not shown(broker.image):
        await broker.purgatory.until(
            lambda: shown(broker.image),
            (MetadataImage,),
            trio.current_time() + SHOWN_MS_MAX / 1000,
        )
