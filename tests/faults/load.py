"""A service that produces while things go wrong: numbered records, sent again until each is
acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Self

import confluent_kafka
from clients.topics import TIMEOUT_S


class Load:
    """Produces numbered records, round robin over the partitions, until told to stop."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        value_bytes: int = 0,
        security: Mapping[str, str] | None = None,
    ) -> None:
        """Values are the numbers, filled up with blanks to `value_bytes`. `security` are
        librdkafka's keys."""
        self.acknowledged: list[list[tuple[int, int]]] = [[] for _ in range(partitions)]
        """(offset, number), by partition; an offset of -1 was not told (librdkafka takes a record
        for written whose successor was acknowledged)."""
        self.failed: list[str] = []
        self.sent = 0
        self._topic = topic
        self._value_bytes = value_bytes
        self._more = threading.Condition()
        self._stop = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 50,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "queue.buffering.max.messages": 5_000,
                "log_level": 0,
                **(security or {}),
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)

    def total(self) -> int:
        return sum(map(len, self.acknowledged))

    def wait_for(self, count: int) -> None:
        """Wait until this many more records are acknowledged."""
        with self._more:
            goal = self.total() + count
            ok = self._more.wait_for(lambda: self.total() >= goal or self.failed, 60)
        assert ok and not self.failed, self.failed or f"{self.total()} of {goal} acknowledged"

    def finish(self) -> None:
        """Stops and waits until everything that was sent is acknowledged."""
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        assert self._producer.flush(60) == 0
        assert not self.failed, self.failed
        assert self.total() == self.sent

    def _run(self) -> None:
        partitions = len(self.acknowledged)
        while not self._stop.is_set():
            value = (b"%d" % self.sent).ljust(self._value_bytes)
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    partition=self.sent % partitions,
                    on_delivery=self._delivered,
                )
                self.sent += 1
            except BufferError:
                self._producer.poll(0.05)
            self._producer.poll(0)

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        with self._more:
            if error is not None:
                self.failed.append(str(error))
            else:
                where = self.acknowledged[message.partition() or 0]
                offset = message.offset()  # None if it was not told
                where.append((-1 if offset is None else offset, int(message.value() or b"")))
            self._more.notify_all()
