"""Each client reads what each client wrote: every compression, keys, headers, nulls, binary."""

from __future__ import annotations

import functools

import pytest

from clients.drivers import CODECS, DRIVERS, RECORDS, Driver
from clients.fixtures import Kafka, clients_of_others, fresh_name
from clients.segments import batches, segments
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


@clients_of_others
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


@clients_of_others
@pytest.mark.parametrize("writer", _params())
def test_broker_keeps_the_batches_as_sent(kafka: Kafka, writer: Driver) -> None:
    """Compression stays the producer's, and every record has a sequence from its idempotent
    producer."""
    _need(writer)
    for codec, topic in _written(kafka, writer).items():
        [segment] = segments(kafka.log_dir, topic)
        found = batches(segment)
        assert sum(batch.records for batch in found) == sum(map(writer.can_write, RECORDS))
        codecs = {batch.attributes & 7 for batch in found}
        # librdkafka sends a batch plain where compression would make it larger.
        assert CODECS.index(codec) in codecs and codecs <= {0, CODECS.index(codec)}, codec
        assert all(batch.producer_id >= 0 for batch in found)
