"""Asking a broker in memory administrative things; requests and answers pass through the codec both
ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any

from group.brokers import running
from nodes import decide

from pk.core.api.index import APIS as ALL_APIS
from pk.core.api.index import CONTROLLER_APIS
from pk.core.broker.broker import Broker
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import Event
from pk.core.wire.codec import decode_whole, encode
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

APIS = {api.key: api for api in ALL_APIS}
AT_CONTROLLER = {api.key: api for api in CONTROLLER_APIS}


class Admin:
    """A client of one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def ask(
        self,
        request: Any,
        version: int | None = None,
        listener: str = "PLAINTEXT",
        *,
        at_controller: bool = False,
    ) -> Any:
        """Return the answer as a client of that version reads it; with `at_controller`, as a client
        of the controller's listener does."""
        api = (AT_CONTROLLER if at_controller else APIS)[request.API_KEY]
        version = api.versions[1] if version is None else version
        received = decode_whole(type(request), encode(request, version), version)
        context = Context(self.broker, api.key, version, client_id="c", listener=listener)
        try:
            answer: Any = api.handle(context, received)
            while isawaitable(answer):
                answer = await answer
        except KafkaError as e:
            answer = api.error_response(received, e, version)
        return decode_whole(type(answer), encode(answer, version), version)

    async def create(self, name: str, partitions: int = 1) -> None:
        """A topic with defaults."""
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        answer = await self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))
        assert answer.topics[0].error_code == 0, answer

    async def decide(self, *events: Event) -> None:
        """Have the controller commit these events as they are."""
        await decide(self.broker, lambda image: Decision(list(events)))


@asynccontextmanager
async def asking(**config: str) -> AsyncIterator[Admin]:
    """A client of a new broker; keys of `config` with _ for the dots."""
    async with running(**config) as test:
        yield Admin(test.broker)
