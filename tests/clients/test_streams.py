"""Kafka Streams applications on pk and on Apache Kafka, with groups of either protocol, exactly
once.

Each application is killed (kill -9) in the middle and started again, on the same directory of
state. A word count must then have written every count of every word once, in order; a windowed join
every pair once.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from clients.fixtures import Kafka, clients_of_others, fresh_name
from clients.streams.application import Application
from clients.topics import configure_group, create_topic

pytestmark = pytest.mark.peer

TIMEOUT_S = 300.0
PARTITIONS = 2
WORDS = ("one", "two", "three", "four", "five", "six", "seven")

Record = tuple[str, str]


def configs(kafka: Kafka, application: str, protocol: str, directory: Path) -> list[str]:
    own = ["session.timeout.ms=6000"] if protocol == "classic" else []
    return [
        f"application.id={application}",
        f"bootstrap.servers={kafka.bootstrap}",
        f"group.protocol={protocol}",
        f"state.dir={directory}",
        "processing.guarantee=exactly_once_v2",
        "commit.interval.ms=100",
        "num.stream.threads=2",
        "replication.factor=1",
        "statestore.cache.max.bytes=0",
        "auto.offset.reset=earliest",
        *own,
    ]


def send(kafka: Kafka, records: dict[str, list[Record]]) -> None:
    """Write records, by topic."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 5})
    for topic, pairs in records.items():
        for key, value in pairs:
            producer.produce(topic, value.encode(), key.encode())
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


class Reader:
    """Reads a topic's committed records from its beginning."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": fresh_name("reader"),
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        self.records: list[Record] = []

    def until(self, count: int, application: Application) -> None:
        """Read until there are this many."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.records) < count:
            assert time.monotonic() < deadline, (len(self.records), application.text[-5000:])
            self._take(1.0)

    def rest(self) -> None:
        """Read on for as long as there is more: there must be none."""
        while self._take(1.0):
            pass

    def _take(self, timeout_s: float) -> bool:
        messages: Any = self._consumer.consume(500, timeout_s)
        for message in messages:
            assert not message.error(), message.error()
            self.records.append((message.key().decode(), message.value().decode()))
        return bool(messages)

    def close(self) -> None:
        self._consumer.close()


def run(
    kafka: Kafka,
    protocol: str,
    topology: str,
    directory: Path,
    batches: list[dict[str, list[Record]]],
    results: list[int],
    output: str,
) -> list[Record]:
    """Run an application that is killed after each batch but the last. `results` says how many
    records there are once each batch has been read; the kill comes when some of a batch's are
    there. Return its output records."""
    application = fresh_name(topology)
    prefix = f"{application}-"
    for topic in {*batches[0], output}:
        create_topic(kafka, prefix + topic, PARTITIONS)
    if protocol == "streams":
        configure_group(kafka, application, {"streams.session.timeout.ms": "3000"})
    own = configs(kafka, application, protocol, directory)
    reader = Reader(kafka, prefix + output)
    for batch, before, after in zip(batches, [0, *results], results, strict=False):
        with Application(topology, prefix, own) as running:
            running.until("STATE RUNNING")
            send(kafka, {prefix + topic: pairs for topic, pairs in batch.items()})
            if batch is batches[-1]:
                reader.until(after, running)
                running.close()
            else:
                reader.until(before + (after - before) // 10, running)
                running.kill()
    reader.rest()
    reader.close()
    return reader.records


def count_words(kafka: Kafka, protocol: str, directory: Path, kills: int, lines: int) -> None:
    text = itertools.cycle(WORDS)
    batches: list[dict[str, list[Record]]] = []
    totals: Counter[str] = Counter()
    results: list[int] = []
    for _ in range(kills + 1):
        batch = [" ".join(itertools.islice(text, 5)) for _ in range(lines)]
        totals.update(word for line in batch for word in line.split())
        results.append(totals.total())
        batches.append({"lines": [(str(n), line) for n, line in enumerate(batch)]})
    written = run(kafka, protocol, "word-count", directory, batches, results, "counts")
    counts: dict[str, list[int]] = defaultdict(list)
    for word, count in written:
        counts[word].append(int(count))
    assert counts == {word: list(range(1, total + 1)) for word, total in totals.items()}


def join_windows(kafka: Kafka, protocol: str, directory: Path, kills: int, keys: int) -> None:
    batches: list[dict[str, list[Record]]] = []
    expected: Counter[Record] = Counter()
    results: list[int] = []
    for round_ in range(kills + 1):
        names = [f"k{round_}-{n}" for n in range(keys)]
        left = [(name, f"l{n}") for n in range(2) for name in names]
        right = [(name, f"r{n}") for n in range(2) for name in names]
        expected.update((name, f"l{i} r{j}") for name in names for i in range(2) for j in range(2))
        results.append(expected.total())
        batches.append({"left": left, "right": right})
    written = run(kafka, protocol, "windowed-join", directory, batches, results, "pairs")
    assert Counter(written) == expected


@clients_of_others
@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_a_word_count_that_is_killed_counts_every_word_once(
    kafka: Kafka, protocol: str, tmp_path: Path
) -> None:
    count_words(kafka, protocol, tmp_path, kills=1, lines=400)


@clients_of_others
@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_a_windowed_join_that_is_killed_joins_every_pair_once(
    kafka: Kafka, protocol: str, tmp_path: Path
) -> None:
    join_windows(kafka, protocol, tmp_path, kills=1, keys=200)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_applications_that_are_killed_again_and_again(
    kafka: Kafka, protocol: str, tmp_path: Path
) -> None:
    count_words(kafka, protocol, tmp_path / "count", kills=3, lines=400)
    join_windows(kafka, protocol, tmp_path / "join", kills=3, keys=200)
