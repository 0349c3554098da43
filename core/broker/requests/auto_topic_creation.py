"""Topics that are made because somebody asked for them: by name in Metadata, or a coordinator's own.

The controller makes them, wherever it is; here is waited for until this broker knows them too. Whether a first request for
them was lost on its way does not matter: a topic that is there already is what was wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import trio

from pk.core.errors import ErrorCode, error_name
from pk.core.meta.controller import internal_topic
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from pk.core.broker.broker import Broker

TIMEOUT_MS: Final = 10_000
"""Whoever asked asks again after that."""

Refused = dict[str, tuple[int, str]]
"""Name → error code and message."""


async def create_missing(broker: Broker, names: Iterable[str]) -> Refused:
    """Have topics made, those that are internal as Kafka makes them, the others with the brokers' defaults; those that could
    not be. Returns when this broker has the others, too. Raises KafkaError where there is no controller."""
    deadline = trio.current_time() + TIMEOUT_MS / 1000
    missing = [name for name in dict.fromkeys(names) if name not in broker.image.topics]
    if not missing:
        return {}
    request = CreateTopicsRequest(
        topics=[
            internal_topic(name, broker.config)
            or CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
            for name in missing
        ],
        timeout_ms=TIMEOUT_MS,
    )
    answer: CreateTopicsResponse = await broker.link.request(request, timeout_ms=TIMEOUT_MS)
    refused = {
        topic.name: (topic.error_code, topic.error_message or error_name(topic.error_code))
        for topic in answer.topics
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    }
    made = [name for name in missing if name not in refused]
    await broker.purgatory.until(
        lambda: all(name in broker.image.topics for name in made), (MetadataImage,), deadline
    )
    return refused
