"""Transactions of franz-go (`franz/main.go`), against pk and Apache Kafka: what commits is seen
whole, and once.

Slow: `scripts/test -m slow tests/clients/test_franz_go.py`, which builds the program with Go.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from clients.fixtures import Kafka
from clients.franz_go import build_franz
from clients.test_transactions import batch, committed, read
from clients.topics import TIMEOUT_S, create_topic

pytestmark = pytest.mark.slow

RUN_S = 300.0
RECORDS = 2_000
Fresh = Callable[[str], str]


@pytest.fixture(scope="module")
def franz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_franz(tmp_path_factory.mktemp("franz"))


def run(program: Path, *words: str) -> str:
    ran = subprocess.run(
        [str(program), *words], capture_output=True, text=True, check=False, timeout=RUN_S
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_transactions(kafka: Kafka, fresh: Fresh, franz: Path) -> None:
    topic = create_topic(kafka, fresh("franz"), 2)
    run(franz, "transactions", kafka.bootstrap, fresh("tx"), topic)
    assert read(kafka, topic) == sorted(batch("a") + batch("c") + batch("e"))
    seen = set(read(kafka, topic, "read_uncommitted"))
    assert seen >= {value for name in "abcde" for value in batch(name)}


def test_read_process_write(kafka: Kafka, fresh: Fresh, franz: Path) -> None:
    source, sink = create_topic(kafka, fresh("source"), 1), create_topic(kafka, fresh("sink"), 1)
    group = fresh("copier")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    values = [b"%d" % n for n in range(RECORDS)]
    for value in values:
        producer.produce(source, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    reported = run(franz, "copy", kafka.bootstrap, fresh("tx"), source, sink, group, str(RECORDS))
    assert reported == f"{RECORDS}\n"
    assert read(kafka, sink) == sorted(values)
    assert committed(kafka, group, source) == RECORDS
    assert len(read(kafka, sink, "read_uncommitted")) > RECORDS, "nothing was aborted"
