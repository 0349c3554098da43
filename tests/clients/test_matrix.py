"""Each client reads what each client wrote: every compression, keys, headers, nulls, binary."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from clients.drivers import CODECS, DRIVERS, RECORDS, Driver
from clients.fixtures import Kafka, fresh_name
from clients.topics import create_topic


def _params() -> list[object]:
    peers = ("apache-console",)
    return [
        pytest.param(each, id=each.name, marks=[pytest.mark.peer] if each.name in peers else [])
        for each in DRIVERS
    ]


def _need(driver: Driver) -> None:
    reason = driver.missing()
    if reason is not None:
        pytest.skip(reason)


@functools.cache
def _written(kafka: Kafka, writer: Driver) -> dict[str, str]:
    """A topic a codec, all holding what the writer can express of RECORDS."""
    topics = {}
    for codec in CODECS:
        topics[codec] = create_topic(kafka, fresh_name(f"matrix-{writer.name}-{codec}"))
        records = [each for each in RECORDS if writer.can_write(each)]
        writer.write(kafka.bootstrap, topics[codec], records, codec)
    return topics


@pytest.mark.parametrize("reader", _params())
@pytest.mark.parametrize("writer", _params())
def test_reads_what_was_written(kafka: Kafka, writer: Driver, reader: Driver) -> None:
    _need(writer)
    _need(reader)
    topics = _written(kafka, writer)
    expected = [reader.view(each) for each in RECORDS if writer.can_write(each)]
    found = reader.read(kafka.bootstrap, dict.fromkeys(topics.values(), len(expected)))
    for codec, topic in topics.items():
        assert found[topic] == expected, codec


@pytest.mark.parametrize("writer", _params())
def test_broker_keeps_the_batches_as_sent(kafka: Kafka, writer: Driver) -> None:
    """Compression stays the producer's, and every record has a sequence from its idempotent producer."""
    _need(writer)
    for codec, topic in _written(kafka, writer).items():
        batches = _batches(kafka.log_dir, topic)
        assert sum(count for _, _, count in batches) == sum(map(writer.can_write, RECORDS))
        codecs = {attributes & 7 for attributes, _, _ in batches}
        # librdkafka sends a batch plain where compression would make it larger.
        assert CODECS.index(codec) in codecs and codecs <= {0, CODECS.index(codec)}, codec
        assert all(producer_id >= 0 for _, producer_id, _ in batches)


def _batches(log_dir: Path, topic: str) -> list[tuple[int, int, int]]:
    """(attributes, producer id, record count) of each batch in the first segment of partition 0."""
    [segment] = log_dir.rglob(f"{topic}-0/00000000000000000000.log")
    data = segment.read_bytes()
    found = []
    position = 0
    # The file may be followed by zeros, where a broker allocates it ahead.
    while position + 61 <= len(data) and data[position + 16] == 2:
        size = int.from_bytes(data[position + 8 : position + 12], "big")
        attributes = int.from_bytes(data[position + 21 : position + 23], "big")
        producer_id = int.from_bytes(data[position + 43 : position + 51], "big", signed=True)
        count = int.from_bytes(data[position + 57 : position + 61], "big")
        found.append((attributes, producer_id, count))
        position += 12 + size
    return found
