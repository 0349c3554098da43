"""Quotas with other people's clients: the throttle times they get, the quotas their tools set, and
rates that hold for a minute."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from meta.test_against_kafka import Asking
from meta.test_client_quotas import altering, entry

from clients import apache_kafka
from clients.fixtures import Kafka, fresh_name
from pk.core.quota.entity import CLIENT_ID

CONFIGS = "kafka.admin.ConfigCommand"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
MINUTE_S = 60.0
TOLERANCE = 0.1
RECORD_BYTES = 12
"""About what a record takes beside its value."""

needs_java = pytest.mark.skipif(apache_kafka.available() is not None, reason="needs java and mvn")

Limit = Callable[[str, float], str]


@pytest.fixture
def limit(kafka: Kafka) -> Iterator[Limit]:
    """Sets a quota for a fresh client id, and returns that."""
    left: list[tuple[str, str]] = []

    def set_quota(key: str, value: float) -> str:
        client = fresh_name("client")
        with Asking(kafka) as asking:
            answer = asking.ask(altering(entry({CLIENT_ID: client}, (key, value))))
            assert answer.entries[0].error_code == 0
        left.append((client, key))
        return client

    yield set_quota
    for client, key in left:
        with Asking(kafka) as asking:
            asking.ask(altering(entry({CLIENT_ID: client}, (key, None))))


def test_librdkafka_reports_that_it_is_throttled(kafka: Kafka, limit: Limit) -> None:
    from confluent_kafka import Producer

    told, client = threading.Event(), limit("producer_byte_rate", 50_000)

    def stats(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        if any(broker["throttle"]["max"] > 0 for broker in brokers):
            told.set()

    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "client.id": client,
            "statistics.interval.ms": 100,
            "stats_cb": stats,
            "linger.ms": 0,
        }
    )
    topic, deadline = fresh_name("throttled"), time.monotonic() + 60
    while not told.is_set():
        assert time.monotonic() < deadline, "no throttle in librdkafka's statistics"
        if len(producer) < 100:
            producer.produce(topic, bytes(10_000))
        producer.poll(0.05)
    producer.purge()


def test_kafka_python_reports_that_it_is_throttled(kafka: Kafka, limit: Limit) -> None:
    from kafka import KafkaProducer

    client = limit("producer_byte_rate", 50_000)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, client_id=client)
    topic, deadline = fresh_name("throttled"), time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline, "no throttle in kafka-python's metrics"
        producer.send(topic, bytes(10_000)).get(60)
        metrics: Any = producer.metrics()
        if metrics["producer-metrics"]["throttle-time-max"] > 0:
            break
    producer.close(timeout=0)


@pytest.mark.peer
@needs_java
def test_kafka_configs_sets_a_quota_that_pk_lists(pk_kafka: Kafka) -> None:
    user = fresh_name("user")
    words = ("--bootstrap-server", pk_kafka.bootstrap, "--entity-type", "users")
    named = (*words, "--entity-name", user)
    ran = apache_kafka.run_tool(
        CONFIGS, *named, "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50"
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ran = apache_kafka.run_tool(CONFIGS, *named, "--describe")
    assert "producer_byte_rate=1024.0" in ran.stdout, ran.stdout + ran.stderr
    assert "request_percentage=50.0" in ran.stdout
    ran = apache_kafka.run_tool(
        CONFIGS, *named, "--alter", "--delete-config", "producer_byte_rate,request_percentage"
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    ran = apache_kafka.run_tool(CONFIGS, *named, "--describe")
    assert "producer_byte_rate" not in ran.stdout


@pytest.mark.slow
def test_a_producer_keeps_its_rate_for_a_minute(kafka: Kafka, limit: Limit) -> None:
    from confluent_kafka import Producer

    rate, size, taken = 1_000_000, 1000, 0
    client = limit("producer_byte_rate", rate)

    def delivered(error: object, message: object) -> None:
        nonlocal taken
        assert error is None, error
        taken += size

    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "client.id": client,
            "linger.ms": 5,
            "batch.size": 20_000,
            "queue.buffering.max.kbytes": 1000,
        }
    )
    topic, measured = fresh_name("kept"), Measured()
    while not measured.done(taken):
        try:
            producer.produce(topic, bytes(size), on_delivery=delivered)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    producer.purge()
    print(f"{kafka.kind}: produced {measured.rate:,.0f} B/s of {rate:,}")
    assert measured.rate == pytest.approx(rate, rel=TOLERANCE)


@pytest.mark.slow
def test_a_consumer_keeps_its_rate_for_a_minute(kafka: Kafka, limit: Limit) -> None:
    from confluent_kafka import Consumer, Producer

    rate, size, taken = 1_000_000, 1000, 0
    topic = fresh_name("kept")
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "linger.ms": 5, "batch.size": 20_000}
    )
    for number in range(100_000):
        producer.produce(topic, bytes(size), partition=0)
        if not number % 1000:
            producer.flush()
    producer.flush()
    client = limit("consumer_byte_rate", rate)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "client.id": client,
            "group.id": fresh_name("group"),
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 1000,
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(60) is not None
    measured = Measured()
    while not measured.done(taken):
        taken += (size + RECORD_BYTES) * len(consumer.consume(100, 0.1))
    consumer.close()
    print(f"{kafka.kind}: fetched {measured.rate:,.0f} B/s of {rate:,}")
    # A fetch is as large as the quota of a second, so the window of eleven samples has room for
    # ten. A client gets about nine tenths of the rate, from Apache Kafka and from pk.
    assert (1 - 2 * TOLERANCE) * rate < measured.rate < (1 + TOLERANCE) * rate


@pytest.mark.slow
def test_changes_of_topics_keep_their_rate_for_a_minute(kafka: Kafka, limit: Limit) -> None:
    from api.test_client_quotas import Client, create

    rate, taken = 5, 0
    client_id = limit("controller_mutation_rate", rate)
    measured = Measured()
    while not measured.done(taken):
        with Client(kafka, client_id) as client:
            answer = client.call(create(fresh_name("kept")), 7)
        taken += answer.topics[0].error_code == 0
        if answer.topics[0].error_code:
            time.sleep(answer.throttle_time_ms / 1000)
    print(f"{kafka.kind}: created {measured.rate:.2f} partitions/s of {rate}")
    assert measured.rate == pytest.approx(rate, rel=TOLERANCE)


class Measured:
    """A rate over a minute, measured after the initial allowance is used up."""

    WARM_UP_S = 25.0

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: tuple[float, int] | None = None
        self.rate = 0.0

    def done(self, taken: int) -> bool:
        """Whether the minute is over; `taken` is how much came so far."""
        now = time.monotonic()
        if self._first is None:
            if now - self._began >= self.WARM_UP_S:
                self._first = now, taken
            return False
        began, before = self._first
        if now - began < MINUTE_S:
            return False
        self.rate = (taken - before) / (now - began)
        return True


@pytest.mark.slow
@pytest.mark.peer
@needs_java
def test_kafka_producer_perf_keeps_to_its_quota(pk_kafka: Kafka) -> None:
    client, topic = fresh_name("perf"), fresh_name("perf")
    with Asking(pk_kafka) as asking:
        asking.ask(altering(entry({CLIENT_ID: client}, ("producer_byte_rate", 1_000_000))))
        ran = apache_kafka.run_tool(
            PRODUCER_PERF,
            *("--topic", topic, "--num-records", "120000", "--record-size", "1000"),
            *("--throughput", "-1", "--bootstrap-server", pk_kafka.bootstrap),
            *("--command-property", f"client.id={client}"),
            timeout=600,
        )
        asking.ask(altering(entry({CLIENT_ID: client}, ("producer_byte_rate", None))))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    last = ran.stdout.strip().splitlines()[-1]
    print(last)
    # 120 MB at 1 MB/s: the allowance at the beginning, or the wait at the end, is at most a window,
    # which is 11 s.
    assert 900 < float(last.split("records sent, ")[1].split()[0]) < 1110, last
