"""Metrics of clients, as Prometheus reads them."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import trio
from clients.fixtures import Kafka
from prometheus_client import CollectorRegistry, generate_latest

from pk.client import NewTopic, TopicPartition, blocking, open_consumer, open_producer
from pk.client.prometheus import ClientMetrics

Fresh = Callable[[str], str]


def test_a_producer_and_a_consumer_in_one_registry(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("metrics")
    with blocking.open_admin(kafka.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1)]).value(topic)
    registry = CollectorRegistry()
    metrics = ClientMetrics(registry)

    def scrape() -> list[str]:
        return generate_latest(registry).decode().splitlines()

    with blocking.open_producer(kafka.bootstrap) as first, metrics.of(first, "first"):
        with blocking.open_producer(kafka.bootstrap) as second, metrics.of(second, "second"):
            first.send_many(topic, [(None, b"1")] * 3).result()
            text = scrape()
            assert 'kafka_producer_record_send_total{client="first"} 3.0' in text
            assert 'kafka_producer_record_send_total{client="second"} 0.0' in text
            assert "# TYPE kafka_producer_record_send_total counter" in text
            assert "# TYPE kafka_producer_requests_in_flight gauge" in text
            again = metrics.of(second, "first")
            with (
                pytest.raises(ValueError, match="another producer already has the name 'first'"),
                again,
            ):
                pass
        assert not any("second" in line for line in scrape())

        async def main() -> None:
            async with (
                open_producer(kafka.bootstrap) as producer,
                open_consumer(kafka.bootstrap, {"auto.offset.reset": "earliest"}) as consumer,
            ):
                consumer.assign([TopicPartition(topic, 0)])
                with metrics.of(producer, "trio"), metrics.of(consumer, "trio"):
                    await consumer.poll(records_max=1)
                    text = await trio.to_thread.run_sync(scrape)
                    assert 'kafka_consumer_records_consumed_total{client="trio"} 1.0' in text
                    assert 'kafka_consumer_records_lag_max{client="trio"} 2.0' in text
                    assert 'kafka_producer_record_send_total{client="trio"} 0.0' in text

        trio.run(main)
    assert scrape() == []


def test_the_program_of_the_page(kafka: Kafka) -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    page = (docs / "client-metrics.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n([^`]*ClientMetrics[^`]*)```", page)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/metrics"
    program = program.replace("start_http_server(8000)", f"served = start_http_server({port})")
    program = program.replace("localhost:9092", kafka.bootstrap)
    program = program.replace("    ...", f"    text = urlopen({url!r}).read().decode()")
    names: dict[str, Any] = {"urlopen": urlopen}
    exec(program, names)  # noqa: S102 - the program of our own page
    server, thread = names["served"]
    server.shutdown()
    server.server_close()
    thread.join()
    assert 'kafka_producer_record_send_total{client="orders"} 0.0' in names["text"]
