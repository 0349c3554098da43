"""Automatic creation of topics: those that Metadata requests name, and those of coordinators.

The controller creates them, and `AutoTopicCreation.create` waits until this broker knows them too.
A coordinator waits for its topic. Metadata does not wait: it responds that the topic is unknown,
and the client retries (`OnDemand`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

import trio

from pk.core.broker.controller.controller_client import NodeToController
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.meta.controller import internal_topic
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

logger = logging.getLogger("pk.broker")

TIMEOUT_MS: Final = 10_000
"""The timeout of a creation, in ms, after which the client retries."""

MAX_IN_FLIGHT: Final = 1_000
"""The maximum number of topics that Metadata is creating at one time. Clients that request more
retry anyway."""

Refused = dict[str, tuple[int, str]]
"""Name → error code and message."""


class AutoTopicCreation:
    """Creates topics. One for each broker."""

    def __init__(
        self, state: BrokerState, controller_client: NodeToController, purgatory: Purgatory
    ) -> None:
        self._state = state
        self._controller_client = controller_client
        self._purgatory = purgatory

    async def create(self, names: Iterable[str]) -> Refused:
        """Create topics: internal ones as in Kafka, the others with the brokers' defaults. Waits
        until this broker has the created ones, for at most `TIMEOUT_MS`, and returns the errors of
        the others. Raises KafkaError if there is no controller."""
        return await self.create_as(
            internal_topic(name, self._state.config)
            or CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
            for name in dict.fromkeys(names)
        )

    async def create_as(self, topics: Iterable[CreatableTopic]) -> Refused:
        """Like `create`, with the topics' own settings."""
        deadline = trio.current_time() + TIMEOUT_MS / 1000
        new = [topic for topic in topics if topic.name not in self._state.image.topics]
        if not new:
            return {}
        request = CreateTopicsRequest(topics=new, timeout_ms=TIMEOUT_MS)
        answer: CreateTopicsResponse = await self._controller_client.request(
            request, timeout_ms=TIMEOUT_MS
        )
        refused = {
            topic.name: (topic.error_code, topic.error_message or error_name(topic.error_code))
            for topic in answer.topics
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        }
        created = [topic.name for topic in new if topic.name not in refused]
        await self._purgatory.until(
            lambda: all(name in self._state.image.topics for name in created),
            (MetadataImage,),
            deadline,
        )
        return refused


class OnDemand:
    """Creates the topics that clients request with Metadata, after the responses, as in Apache
    Kafka."""

    def __init__(self, creation: AutoTopicCreation, start_soon: Callable[..., None]) -> None:
        """`start_soon` starts a background task."""
        self._creation = creation
        self._start_soon = start_soon
        self.in_flight: set[str] = set()
        """The topics that are being created."""
        self._last_refusal = ""

    def create(self, names: Iterable[str]) -> None:
        """Begin to create these topics, except those that are being created. Does not wait."""
        new: list[str] = []
        for name in names:
            if len(self.in_flight) >= MAX_IN_FLIGHT:
                break
            if name not in self.in_flight:
                self.in_flight.add(name)
                new.append(name)
        if new:
            self._start_soon(self._create, new)

    async def _create(self, names: list[str]) -> None:
        try:
            refused = await self._creation.create(names)
        except KafkaError as e:
            # There is no controller at the moment. The client retries.
            logger.info("%s: not created: %s", ", ".join(names[:10]), e)
            return
        finally:
            self.in_flight.difference_update(names)
        for name, (_, message) in refused.items():
            # Clients retry several times a second, so the same refusal is logged once.
            if message != self._last_refusal:
                self._last_refusal = message
                logger.warning("%s was not created: %s", name, message)
