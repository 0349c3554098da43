"""The judge of a run: it compares the records that librdkafka reads with
isolation.level=read_committed with the queries' checkpoints.

Each value names its query, and the partition and offset of its input record. The output must have
each offset once, from the first one in the query's checkpoint on. Whenever no transaction is
undecided, all records of a batch are there, or none.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from spark_faults.work import PARTITIONS, label

POLL_S = 60.0
READY_S = 300.0
AGAIN_S = 0.2

Origin = tuple[int, int]
"""Partition and offset of an input record."""


@dataclass
class Outcome:
    """The findings of a run. It is a pass if nothing is missing or duplicated, and no batch was
    seen in part."""

    kills: Counter[str] = field(default_factory=Counter)
    queries: int = 0
    records: int = 0
    batches: int = 0
    missing: int = 0
    twice: int = 0
    unknown: int = 0
    split: int = 0

    @property
    def exact(self) -> bool:
        wrong = self.missing or self.twice or self.unknown or self.split
        return self.records > 0 and not wrong

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kills.items()))
        return (
            f"{self.records} records in {self.batches} batches of {self.queries} queries: "
            f"{self.missing} missing, {self.twice} more than once, {self.unknown} unknown, "
            f"{self.split} batches in part; faults: {kills or 'none'}"
        )


def logged(checkpoint: Path) -> list[int]:
    """The numbers of the batches that a query planned, in order."""
    offsets = checkpoint / "offsets"
    if not offsets.exists():
        return []
    return sorted(int(path.name) for path in offsets.iterdir() if path.name.isdecimal())


def batches(checkpoint: Path, source: str) -> list[set[Origin]]:
    """The input records of each batch that a query planned, by its checkpoint."""
    found: list[set[Origin]] = []
    before: dict[str, int] = {}
    for number in logged(checkpoint):
        text = (checkpoint / "offsets" / str(number)).read_text()
        after = json.loads(text.splitlines()[-1])
        ends: dict[str, int] = after[source]
        if not found:  # Spark's own source does not log its start
            before = after.get("@start", {}).get(source, {})
        found.append(
            {
                (int(partition), offset)
                for partition, end in ends.items()
                for offset in range(before.get(partition, 0), end)
            }
        )
        before = ends
    return found


class Judge:
    """Reads the topics of the queries, continuing from its last position each time."""

    def __init__(self, bootstrap: str, source: str, topics: list[str]) -> None:
        self._source = source
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._next = {(topic, p): 0 for topic in topics for p in range(PARTITIONS)}
        self._found: dict[str, Counter[Origin]] = {}
        self._whole: Counter[str] = Counter()

    def close(self) -> None:
        self._consumer.close()

    @property
    def twice(self) -> int:
        """The number of input records that the output has more than once."""
        return sum(count > 1 for found in self._found.values() for count in found.values())

    def sees(self, folder: Path, query: int) -> bool:
        """Whether records of a query were read."""
        return label(folder, query) in self._found

    def read(self) -> None:
        """Reads the new committed records. Raises TimeoutError."""
        for topic, partition in self._next:
            self._wait_for_end(topic, partition)
        self._consumer.assign([TopicPartition(*tp, offset) for tp, offset in self._next.items()])
        ends: set[tuple[str, int]] = set()
        while len(ends) < len(self._next):
            message = self._consumer.poll(POLL_S)
            if message is None:
                raise TimeoutError("the output cannot be read to its end")
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None and partition is not None and offset is not None
            error = message.error()
            if error is not None:
                if error.code() == error._PARTITION_EOF:
                    ends.add((topic, partition))
                continue
            value = message.value()
            assert isinstance(value, bytes)
            query, source, at, _ = value.decode().split(":")
            self._found.setdefault(query, Counter())[int(source), int(at)] += 1
            self._next[topic, partition] = offset + 1
        self._consumer.unassign()

    def _wait_for_end(self, topic: str, partition: int) -> None:
        """Waits until the partition's leader knows its end: a new leader learns from its followers
        how far they have replicated, and answers with an error until then (KIP-207)."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self._consumer.get_watermark_offsets(TopicPartition(topic, partition), POLL_S)
            except KafkaException as e:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}/{partition} has no end") from e
                time.sleep(AGAIN_S)
            else:
                return

    def split(self, folder: Path, queries: int) -> int:
        """The number of batches of a folder's queries of which the output has only some records."""
        count = 0
        for query in range(queries):
            name = label(folder, query)
            found = self._found.get(name, Counter())
            for batch in batches(folder / f"query-{query}", self._source)[self._whole[name] :]:
                there = sum(origin in found for origin in batch)
                if there < len(batch):
                    count += there > 0
                    break
                self._whole[name] += 1
        return count

    def verdict(self, folder: Path, queries: int, outcome: Outcome) -> None:
        """Adds what a folder's queries wrote to the outcome. They must have ended."""
        for query in range(queries):
            planned = batches(folder / f"query-{query}", self._source)
            wanted: set[Origin] = set().union(*planned)
            found = self._found.pop(label(folder, query), Counter())
            outcome.queries += 1
            outcome.batches += len(planned)
            outcome.records += len(wanted)
            outcome.missing += len(wanted - set(found))
            outcome.twice += sum(count > 1 for count in found.values())
            outcome.unknown += len(set(found) - wanted)
