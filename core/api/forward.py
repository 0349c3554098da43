"""What brokers pass on to the controller (KIP-590).

A request that is the controller's goes to whoever is that, in this process or in another (`ControllerLink.forward`, which
looks for it as long as nothing can have happened). If the controller is lost between its decision and its answer, nobody can
say what became of the request: the client gets REQUEST_TIMED_OUT, as from Apache Kafka, and finds out by looking. It is not
sent again: the second answer would be about what the first try left behind.

What a client has had done it finds done when it asks this broker again: the answer waits until the image here shows it, at
most `SHOWN_MS_MAX`, for it has happened all the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import trio

from pk.core.api.registry import AnyApi
from pk.core.broker.broker import Broker
from pk.core.broker.requests.context import Context
from pk.core.meta.image import MetadataImage
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from pk.core.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

TIMEOUT_MS: Final = 30_000
"""For requests that say none; Kafka's brokers wait as long for their controller."""

TIMEOUT_MS_MIN: Final = 5_000
"""What the way to the controller may take, however little time the request leaves it."""

SHOWN_MS_MAX: Final = 5_000


def through(api: AnyApi) -> AnyApi:
    """`api` as brokers serve it to clients."""

    async def handle(context: Context, request: Any) -> Any:
        return await pass_on(context, request)

    return replace(api, handle=handle)


async def pass_on(context: Context, request: Any) -> Any:
    """The active controller's answer to a client's request. Raises KafkaError: REQUEST_TIMED_OUT where no controller was
    found in time or none answered, and what the envelope met."""
    timeout_ms = max(getattr(request, "timeout_ms", TIMEOUT_MS), TIMEOUT_MS_MIN)
    response = await context.broker.link.forward(context, request, timeout_ms=timeout_ms)
    await _wait_until_shown(context.broker, request, response)
    return response


async def _wait_until_shown(broker: Broker, request: Any, response: Any) -> None:
    """Wait for an image that shows what was done, not for ever."""
    # What this process's controller decided is in its image by now; another one's is known by what it makes.
    decided = broker.controller.image.offset if broker.controller is not None else 0

    def is_shown() -> bool:
        image = broker.image
        return image.offset >= decided and shows(request, response, image)

    deadline = trio.current_time() + SHOWN_MS_MAX / 1000
    await broker.purgatory.until(is_shown, (MetadataImage,), deadline)


def shows(request: object, response: object, image: MetadataImage) -> bool:
    """Whether `image` shows the topics and partitions that were made, and no more those that were deleted."""
    match request, response:
        case CreateTopicsRequest(), CreateTopicsResponse():
            return request.validate_only or all(
                topic.error_code or topic.name in image.topics for topic in response.topics
            )
        case DeleteTopicsRequest(), DeleteTopicsResponse():
            return not any(
                not gone.error_code and _is_there(image, gone.name, gone.topic_id)
                for gone in response.responses
            )
        case CreatePartitionsRequest(), CreatePartitionsResponse():
            wanted = {topic.name: topic.count for topic in request.topics}
            return request.validate_only or all(
                grown.error_code or _count(image, grown.name) >= wanted.get(grown.name, 0)
                for grown in response.results
            )
    return True


def _is_there(image: MetadataImage, name: str | None, topic_id: bytes) -> bool:
    if topic_id != ZERO_UUID:
        return topic_id in image.topics_by_id
    return name in image.topics


def _count(image: MetadataImage, name: str) -> int:
    topic = image.topics.get(name)
    return len(topic.partitions) if topic is not None else 0
