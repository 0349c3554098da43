"""kill -9 at random moments under load: what was acknowledged is there, once, in order.

One idempotent producer (acks=all) lives through all the kills, as a service of a user's would: it sends
again what it has no answer for, and only the broker's memory of its sequences keeps that from doubling.
A kill keeps the page cache; what the disk may lose besides is test_torn_tail.py's.
"""

from __future__ import annotations

import random
import threading
from typing import Self

import confluent_kafka
import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from clients.readers import consumer_of, read_all
from clients.topics import COORDINATOR_ON_ITS_WAY, TIMEOUT_S, create_topic, wait_until
from confluent_kafka.admin import AdminClient

PARTITIONS = 3
TOPIC = "orders"
GROUP = "readers"


class Load:
    """Produces numbered records, round robin over the partitions, until told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[list[tuple[int, int]]] = [[] for _ in range(PARTITIONS)]
        self.failed: list[str] = []
        self.sent = 0
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
        """Waits until so many records more than now are acknowledged."""
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
        while not self._stop.is_set():
            partition = self.sent % PARTITIONS
            try:
                self._producer.produce(
                    TOPIC, b"%d" % self.sent, partition=partition, on_delivery=self._delivered
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
                where.append((message.offset() or 0, int(message.value() or b"")))
            self._more.notify_all()


def _commit(bootstrap: str, offset: int) -> None:
    with consumer_of(bootstrap, GROUP) as consumer:
        positions = [confluent_kafka.TopicPartition(TOPIC, p, offset) for p in range(PARTITIONS)]

        def commit() -> bool:
            try:
                consumer.commit(offsets=positions, asynchronous=False)
            except confluent_kafka.KafkaException as error:
                on_its_way = (*COORDINATOR_ON_ITS_WAY, confluent_kafka.KafkaError._TRANSPORT)
                if error.args[0].code() in on_its_way:
                    return False
                raise
            return True

        wait_until("a commit", commit)


def _committed(bootstrap: str) -> list[int]:
    with consumer_of(bootstrap, GROUP) as consumer:
        asked = [confluent_kafka.TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        return [p.offset for p in consumer.committed(asked, timeout=TIMEOUT_S)]


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_what_was_acknowledged_outlives_kills(kills: int) -> None:
    chance = random.Random(kills)  # the moments are the machine's to choose; how far apart, ours
    with PkBroker() as broker:
        assert broker.directory is not None
        kafka = Kafka("pk", broker.bootstrap, broker.directory)
        create_topic(kafka, TOPIC, PARTITIONS)
        made = []
        with Load(broker.bootstrap) as load:
            for number in range(kills):
                load.wait_for(chance.randrange(100, 3_000))
                _commit(broker.bootstrap, number * 7)
                made.append(create_topic(kafka, f"made-{number}"))
                load.wait_for(chance.randrange(1, 1_000))
                broker.kill()
                broker.start()
                assert _committed(broker.bootstrap) == [number * 7] * PARTITIONS
            load.wait_for(500)
            load.finish()
        topics = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(
            timeout=TIMEOUT_S
        )
        assert set(made) <= set(topics.topics)
        for partition in range(PARTITIONS):
            found = read_all(broker.bootstrap, TOPIC, partition)
            # Everything sent was acknowledged in the end: each number once, in the order sent.
            assert [int(value) for _, value in found] == list(
                range(partition, load.sent, PARTITIONS)
            )
            where = dict(found)
            told = load.acknowledged[partition]
            assert all(where[offset] == b"%d" % number for offset, number in told)
        assert broker.stop() == 0, broker.log_text[-5000:]
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
