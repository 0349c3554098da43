"""`pk topics describe` of a topic whose closed segments are in a store."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import run_command
from confluent_kafka import Producer

import pk.testing

RECORDS = 100
TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "0",
    "retention.ms": "-1",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pk.testing.Broker]:
    store = tmp_path_factory.mktemp("store")
    config = {
        "remote.log.storage.system.enable": "true",
        "remote.log.manager.task.interval.ms": "100",
        "log.retention.check.interval.ms": "100",
        "pk.remote.url": f"file://{store}",
        "pk.remote.metadata.replication.factor": "1",
        "pk.remote.metadata.partitions": "1",
    }
    with pk.testing.broker(config) as one:
        yield one


def produce(broker: pk.testing.Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.url, "batch.size": 65536})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def describe(broker: pk.testing.Broker, topic: str, folder: Path, form: str = "json") -> Any:
    done = run_command(["topics", "describe", topic, "-b", broker.url, "-f", form], folder)
    assert done.code == 0, done.err
    return done.json[0] if form == "json" else done.text


def test_a_topic_that_is_not_tiered_has_no_tiers(broker: pk.testing.Broker, tmp_path: Path) -> None:
    broker.create_topic("plain", 1)
    assert "tiers" not in describe(broker, "plain", tmp_path)
    assert "REMOTE-START" not in describe(broker, "plain", tmp_path, "table")


def test_nothing_is_copied_of_the_active_segment(broker: pk.testing.Broker, tmp_path: Path) -> None:
    broker.create_topic("new", 2, TOPIC)
    produce(broker, "new", b"x")
    nothing = {"remote_start": None, "remote_last": None, "local_start": 0, "error": None}
    assert describe(broker, "new", tmp_path)["tiers"] == [
        {"partition": 0, **nothing, "local_end": 1},
        {"partition": 1, **nothing, "local_end": 0},
    ]


def test_both_tiers_of_a_copied_topic(broker: pk.testing.Broker, tmp_path: Path) -> None:
    broker.create_topic("t", 1, TOPIC)
    produce(broker, "t", *[bytes(50_000)] * RECORDS)
    deadline = time.monotonic() + 60
    while True:
        (found,) = describe(broker, "t", tmp_path)["tiers"]
        if found["local_start"] and found["local_start"] == (found["remote_last"] or 0) + 1:
            break
        assert time.monotonic() < deadline, found
    assert found["remote_start"] == 0
    assert 0 < found["local_start"] < found["local_end"] == RECORDS
    table = describe(broker, "t", tmp_path, "table")
    assert "REMOTE-START  REMOTE-LAST  LOCAL-START  LOCAL-END" in table
