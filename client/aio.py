"""The client for programs on asyncio: the classes of `pk.client`, with the same methods.

    async with open_producer("localhost:9092") as producer:
        metadata = await (await producer.send("orders", b"one", key=b"42"))

Trio runs as a guest of the program's event loop (guest.py). Most of each class is inherited: code
that does not wait, and coroutines that wait only by a few methods. This module replaces those few
with methods that wait for a trio task. A client belongs to the event loop on which it was opened.

A call that is cancelled loses no records. The call ends when its trio task has ended, so an
`asyncio.timeout` may take a little longer than its limit.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from pk.client.guest import bridged, on_asyncio, opened
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client import admin, consumer, delivery, producer, share_consumer, typed
from pk.net.client.connection import OnRequest
from pk.net.client.consumer import Rebalanced
from pk.net.client.delivery import BatchDelivered, OnSend
from pk.net.client.partitioner import Partitioner
from pk.net.client.share_consumer import OnShareRecords
from pk.net.client.subscription import OnRecords

__all__ = [
    "Admin",
    "Consumer",
    "Deliveries",
    "Delivery",
    "Producer",
    "ShareConsumer",
    "TypedConsumer",
    "TypedProducer",
    "TypedShareConsumer",
    "open_admin",
    "open_consumer",
    "open_producer",
    "open_share_consumer",
]

K = TypeVar("K")
V = TypeVar("V")


class Delivery(delivery.Delivery):
    """A record in flight; see `pk.client.Delivery`."""

    __slots__ = ()
    _settle_on_trio = bridged(delivery.Delivery._settle)

    async def _settle(self) -> None:
        if not self.done:
            await self._settle_on_trio()


class Deliveries(delivery.Deliveries):
    """The records of one `send_many` in flight; see `pk.client.Deliveries`."""

    __slots__ = ()
    _settle = bridged(delivery.Deliveries._settle)


class Producer(producer.Producer):
    """A producer; see `pk.client.Producer`."""

    _delivery = Delivery
    _deliveries = Deliveries

    _topic = bridged(producer.Producer._topic)
    _room = bridged(producer.Producer._room)
    _abort_quickly = bridged(producer.Producer._abort_quickly)
    flush = bridged(producer.Producer.flush)
    begin_transaction = bridged(producer.Producer.begin_transaction)
    commit_transaction = bridged(producer.Producer.commit_transaction)
    abort_transaction = bridged(producer.Producer.abort_transaction)
    send_offsets = bridged(producer.Producer.send_offsets)

    async def _checkpoint(self, records: int) -> None:
        self._sent_without_waiting += records
        if self._sent_without_waiting >= producer.SENDS_MAX:
            self._sent_without_waiting = 0
            await asyncio.sleep(0)


class Consumer(consumer.Consumer):
    """A consumer; see `pk.client.Consumer`."""

    _arrived = bridged(consumer.Consumer._arrived)
    unsubscribe = bridged(consumer.Consumer.unsubscribe)
    position = bridged(consumer.Consumer.position)
    beginning_offsets = bridged(consumer.Consumer.beginning_offsets)
    end_offsets = bridged(consumer.Consumer.end_offsets)
    offsets_for_times = bridged(consumer.Consumer.offsets_for_times)
    partitions = bridged(consumer.Consumer.partitions)
    committed = bridged(consumer.Consumer.committed)
    commit = bridged(consumer.Consumer.commit)
    close = bridged(consumer.Consumer.close)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_revoked: Rebalanced | None = None,
        on_assigned: Rebalanced | None = None,
        on_lost: Rebalanced | None = None,
    ) -> None:
        """See `pk.client.Consumer.subscribe`. The callbacks run as asyncio tasks."""
        super().subscribe(
            topics,
            pattern=pattern,
            on_revoked=on_revoked and on_asyncio(on_revoked),
            on_assigned=on_assigned and on_asyncio(on_assigned),
            on_lost=on_lost and on_asyncio(on_lost),
        )


class ShareConsumer(share_consumer.ShareConsumer):
    """A share consumer; see `pk.client.ShareConsumer`."""

    _fill = bridged(share_consumer.ShareConsumer._fill)
    unsubscribe = bridged(share_consumer.ShareConsumer.unsubscribe)
    commit = bridged(share_consumer.ShareConsumer.commit)
    close = bridged(share_consumer.ShareConsumer.close)


class TypedProducer(typed.TypedProducer[K, V]):
    """A producer of typed records; see `pk.client.TypedProducer`."""

    _load = bridged(typed.TypedProducer[K, V]._load)


class TypedConsumer(typed.TypedConsumer[K, V]):
    """A consumer of typed records; see `pk.client.TypedConsumer`."""

    _load = bridged(typed.TypedConsumer[K, V]._load)


class TypedShareConsumer(typed.TypedShareConsumer[K, V]):
    """A share consumer of typed records; see `pk.client.TypedShareConsumer`."""

    _load = bridged(typed.TypedShareConsumer[K, V]._load)


class Admin(admin.Admin):
    """An admin client; see `pk.client.Admin`."""


for _name, _method in inspect.getmembers(admin.Admin, inspect.iscoroutinefunction):
    if not _name.startswith("_"):
        setattr(Admin, _name, bridged(_method))


@asynccontextmanager
async def open_producer(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    partitioner: Partitioner | None = None,
    on_delivery: Callable[[BatchDelivered], None] | None = None,
    on_refusal: Callable[[TopicPartition, KafkaError], None] | None = None,
    on_request: OnRequest | None = None,
    on_send: OnSend | None = None,
) -> AsyncGenerator[Producer]:
    """See `pk.client.open_producer`."""
    manager = Producer.open(
        bootstrap,
        config,
        partitioner=partitioner,
        on_delivery=on_delivery,
        on_refusal=on_refusal,
        on_request=on_request,
        on_send=on_send,
    )
    async with opened(manager) as client:
        yield client


@asynccontextmanager
async def open_consumer(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    on_request: OnRequest | None = None,
    on_records: OnRecords | None = None,
) -> AsyncGenerator[Consumer]:
    """See `pk.client.open_consumer`."""
    manager = Consumer.open(bootstrap, config, on_request=on_request, on_records=on_records)
    async with opened(manager) as client:
        yield client


@asynccontextmanager
async def open_share_consumer(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    on_request: OnRequest | None = None,
    on_records: OnShareRecords | None = None,
) -> AsyncGenerator[ShareConsumer]:
    """See `pk.client.open_share_consumer`."""
    manager = ShareConsumer.open(bootstrap, config, on_request=on_request, on_records=on_records)
    async with opened(manager) as client:
        yield client


@asynccontextmanager
async def open_admin(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    on_request: OnRequest | None = None,
) -> AsyncGenerator[Admin]:
    """See `pk.client.open_admin`."""
    async with opened(Admin.open(bootstrap, config, on_request=on_request)) as client:
        yield client
