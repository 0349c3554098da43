"""The topic `_schemas`, which every instance reads from its beginning and only the leader writes.

The leader writes in transactions with one transactional id for the registry's group. So a new
leader fences the old one, which then cannot write even if it does not know that it was replaced.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from pk.core.errors import ErrorCode, KafkaError
from pk.core.schemas.registry import records
from pk.core.schemas.registry.records import Record
from pk.core.schemas.registry.state import State
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.consumer import open_consumer
from pk.net.client.producer import Producer, open_producer
from pk.net.client.results import NewTopic

logger = logging.getLogger("pk.schemas")

TOPIC: Final = "_schemas"
REPLICATION_FACTOR: Final = 3


class LogError(Exception):
    """The topic cannot be used as a registry's log."""


async def prepare(
    bootstrap: str, config: Mapping[str, object], topic: str, replication_factor: int
) -> None:
    """Create the topic if it is missing. Raises LogError if it is not a registry's topic."""
    async with open_admin(bootstrap, config) as admin:
        found = await admin.describe_topics([topic])
        error = found.errors.get(topic)
        if isinstance(error, KafkaError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            brokers = len((await admin.describe_cluster()).brokers)
            new = NewTopic(
                topic,
                partitions=1,
                replication_factor=max(1, min(replication_factor, brokers)),
                configs={"cleanup.policy": "compact"},
            )
            made = await admin.create_topics([new])
            refused = made.errors.get(topic)
            exists = ErrorCode.TOPIC_ALREADY_EXISTS
            if not (isinstance(refused, KafkaError) and refused.code == exists):
                made.value(topic)
        elif (count := len(found.value(topic).partitions)) != 1:
            raise LogError(f"topic {topic} has {count} partitions, but must have one")


class Log:
    """The registry's log, as one instance reads and writes it."""

    def __init__(
        self, bootstrap: str, config: Mapping[str, object], topic: str, transactional_id: str
    ) -> None:
        self.state = State()
        self.topic = topic
        self._bootstrap = bootstrap
        self._config = dict(config)
        self._transactional_id = transactional_id
        self._replayed = -1
        self._changed = trio.Event()

    async def follow(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Replay the topic until cancelled. Calls `started` once the existing records have been
        replayed."""
        config = {
            **self._config,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": 500,
        }
        partition = TopicPartition(self.topic, 0)
        async with open_consumer(self._bootstrap, config) as consumer:
            consumer.assign([partition])
            consumer.seek_to_beginning([partition])
            ends = await consumer.end_offsets([partition])
            end, started = ends.value(partition).offset, False
            while True:
                if not started and await consumer.position(partition) >= end:
                    started = True
                    task_status.started()
                for each in await consumer.poll(timeout_ms=None if started else 100):
                    record = records.read(each.key, each.value)
                    if record is not None:
                        self.state.replay(record)
                    self._replayed = each.offset
                while self.state.problems:
                    logger.warning(
                        "a record of %s is ignored: %s", self.topic, self.state.problems.pop()
                    )
                event, self._changed = self._changed, trio.Event()
                event.set()

    async def wait_for(self, offset: int) -> None:
        """Wait until the record at an offset has been replayed."""
        while self._replayed < offset:
            await self._changed.wait()

    @property
    def replayed(self) -> int:
        """The offset of the last replayed record."""
        return self._replayed

    @asynccontextmanager
    async def writer(self) -> AsyncGenerator[Writer]:
        """Open a writer for the time that this instance leads. Fences the previous leader."""
        config = {**self._config, "transactional.id": self._transactional_id, "linger.ms": 0}
        async with open_producer(self._bootstrap, config) as producer:
            yield Writer(self, producer)


class Writer:
    """Appends records."""

    def __init__(self, log: Log, producer: Producer) -> None:
        self._log = log
        self._producer = producer

    async def append(self, written: Sequence[Record]) -> int:
        """Write all records or none, and wait until they are replayed. Returns the offset of the
        last record.

        Raises KafkaError or ClientError; PRODUCER_FENCED means that another instance leads.
        """
        async with self._producer.transaction():
            deliveries = [
                await self._producer.send(
                    self._log.topic, each.value_bytes, key=each.key_bytes, partition=0
                )
                for each in written
            ]
        offset = max([(await each.wait()).offset for each in deliveries])
        await self._log.wait_for(offset)
        return offset
