"""Forwards requests from brokers to the controller (KIP-590).

A request for the controller goes to the active one, in this process or another.
(`ControllerClient.forward` looks for it as long as the request cannot have taken effect.) If the
controller is lost between its decision and its response, the outcome is unknown: the client gets
REQUEST_TIMED_OUT, as from Apache Kafka, and must check. The request is not sent again, because the
second response would depend on the effects of the first try.

A client must see its changes in its next request to this broker. Therefore the controller returns
their offset in the metadata log, and the broker does not respond until its image has reached that
offset. It waits at most `IMAGE_WAIT_MS_MAX`, since the changes have taken effect in any case.
"""

from __future__ import annotations

from typing import Any, Final

import trio

from pk.core.broker.broker import Broker
from pk.core.broker.requests.context import Context
from pk.core.meta.image import MetadataImage

TIMEOUT_MS: Final = 30_000
"""The timeout of requests without one, in ms; Kafka's brokers wait as long for their controller."""

TIMEOUT_MS_MIN: Final = 5_000
"""The minimum timeout for reaching the controller, in ms, even if the request times out earlier."""

IMAGE_WAIT_MS_MAX: Final = 5_000


async def forward_to_controller(context: Context, request: Any) -> Any:
    """Forward a client's request to the active controller, and return its response. Raises
    KafkaError: REQUEST_TIMED_OUT if no controller was found in time or none answered, and the
    errors of the envelope."""
    timeout_ms = max(getattr(request, "timeout_ms", TIMEOUT_MS), TIMEOUT_MS_MIN)
    forwarded = await context.broker.cluster.controller_client.forward(
        context, request, timeout_ms=timeout_ms
    )
    await _wait_for_image(context.broker, forwarded.image_offset)
    return forwarded.response


async def _wait_for_image(broker: Broker, offset: int) -> None:
    """Wait until this broker's image contains the events before `offset`."""
    deadline = trio.current_time() + IMAGE_WAIT_MS_MAX / 1000
    await broker.purgatory.until(lambda: broker.image.offset >= offset, (MetadataImage,), deadline)
