"""Writes records to a broker or a cluster for a test, and reads them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pk.net.client.delivery import RecordMetadata
    from pk.net.client.subscription import ConsumerRecord

READ_S: Final = 60.0


class Records:
    """The methods for records that `Broker` and `Cluster` share. They block, so async code must
    call them in a thread."""

    @property
    def url(self) -> str:
        """The brokers' addresses, for `bootstrap.servers`."""
        raise NotImplementedError

    def produce(
        self,
        topic: str,
        *values: str | bytes | None,
        key: str | bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> list[RecordMetadata]:
        """Write a record for each of `values`, in order, and return their partitions and offsets.
        Strings are encoded as UTF-8. Raises KafkaError or ClientError."""
        from pk.client.blocking import open_producer

        with open_producer(self.url) as producer:
            sent = [
                producer.send(
                    topic, _bytes(value), key=_bytes(key), headers=headers, partition=partition
                )
                for value in values
            ]
            return [delivery.result() for delivery in sent]

    def records(
        self, topic: str, count: int | None = None, *, timeout_s: float = READ_S
    ) -> list[ConsumerRecord]:
        """Return the records of a topic by partition and offset: the current ones, or with `count`
        as soon as there are that many. Records of open and aborted transactions are left out.

        Raises TimeoutError if there are fewer after `timeout_s` seconds, and KafkaError.
        """
        from pk.client.blocking import open_consumer

        config = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        end = time.monotonic() + timeout_s
        found: list[ConsumerRecord] = []
        with open_consumer(self.url, config) as consumer:
            partitions = consumer.partitions(topic)
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            while time.monotonic() < end:
                if count is not None:
                    done = len(found) >= count
                else:
                    done = all(consumer.position(p) >= ends.value(p).offset for p in partitions)
                if done:
                    return sorted(found, key=lambda record: (record.partition, record.offset))
                left_ms = max(0.0, end - time.monotonic()) * 1000
                found += consumer.poll(timeout_ms=left_ms if count is not None else 50)
        wanted = "" if count is None else f" of {count}"
        raise TimeoutError(
            f"{len(found)}{wanted} records of {topic} arrived within {timeout_s:g} s"
        )


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
