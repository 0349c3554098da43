"""Clients of the days of 0.9 to 0.11: kafka-python 2.0.6, told by `api_version` which requests to
speak.

The formats are message v0 with (0, 9), v1 with (0, 10) and (0, 10, 1), v2 with (0, 11).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from clients.fixtures import Kafka, fresh_name
from clients.old_clients import OldClient
from clients.topics import TIMEOUT_S, committed, create_topic

VERSIONS = ((0, 9), (0, 10), (0, 10, 1), (0, 11))
CODECS = (None, "gzip", "snappy", "lz4")
NOW_MS = int(time.time() * 1000)

Sent = tuple[int, bytes | None, bytes | None]
ROWS: list[Sent] = [
    (NOW_MS + 5, b"key", b"value"),
    (NOW_MS + 1, None, b"no key"),
    (NOW_MS + 2, b"tombstone", None),
    (NOW_MS + 3, b"", b""),
    *((NOW_MS + n, b"k%d" % (n % 7), b"bulk %05d " % n * 20) for n in range(300)),
]


@pytest.fixture(scope="module")
def old() -> Iterator[OldClient]:
    try:
        client = OldClient()
    except RuntimeError as e:
        pytest.skip(f"no kafka-python 2.0.6: {e}")
    with client:
        assert client.call("version") == "2.0.6"
        yield client


def times_kept(api: tuple[int, ...]) -> bool:
    return api >= (0, 10)


def expected(api: tuple[int, ...], rows: list[Sent] = ROWS) -> list[tuple[int, int, Sent]]:
    """(partition, offset, the record sent), without the times in message format v0."""
    return [(0, n, row if times_kept(api) else (-1, *row[1:])) for n, row in enumerate(rows)]


def seen(
    rows: tuple[tuple[int, int, int | None, bytes, bytes], ...],
) -> list[tuple[int, int, Sent]]:
    return [(p, o, (-1 if t is None else t, key, value)) for p, o, t, key, value in rows]


def read_today(kafka: Kafka, topic: str, count: int) -> list[tuple[int, int, Sent]]:
    """The records that librdkafka reads with current request versions."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": fresh_name("today"),
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count, 0.2):
            assert not message.error(), message.error()
            kind, timestamp = message.timestamp()
            row = (timestamp if kind else -1, message.key(), message.value())
            found.append((message.partition(), message.offset(), row))
    consumer.close()
    return found


def write_today(kafka: Kafka, topic: str, codec: str) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 20}
    )
    for timestamp, key, value in ROWS:
        producer.produce(
            topic, value, key, partition=0, timestamp=timestamp, headers=[("dropped", b"h")]
        )
    assert producer.flush(TIMEOUT_S) == 0


def round_trip(
    kafka: Kafka,
    old: OldClient,
    api: tuple[int, ...],
    codec: str | None,
    readers: list[tuple[int, ...]],
) -> None:
    """The old client writes; it, others of its age and today's read the same."""
    topic = create_topic(kafka, fresh_name("old"))
    reported = old.call("produce", kafka.bootstrap, api, topic, codec, ROWS)
    assert [offset for offset, _ in reported] == list(range(len(ROWS)))
    assert read_today(kafka, topic, len(ROWS)) == expected(api)
    for reader in readers:
        rows = old.call("consume", kafka.bootstrap, reader, topic, len(ROWS), None, 0)
        assert seen(rows) == expected(min(api, reader)), reader


@pytest.mark.parametrize("api", [(0, 9), (0, 10)], ids=str)
def test_what_an_old_client_writes_all_read(
    pk_kafka: Kafka, old: OldClient, api: tuple[int, ...]
) -> None:
    round_trip(pk_kafka, old, api, "lz4", [api])


def test_an_old_client_finds_out_for_itself_what_to_speak(pk_kafka: Kafka, old: OldClient) -> None:
    topic = create_topic(pk_kafka, fresh_name("asks"))
    assert len(old.call("produce", pk_kafka.bootstrap, None, topic, "gzip", ROWS)) == len(ROWS)
    rows = old.call("consume", pk_kafka.bootstrap, None, topic, len(ROWS), fresh_name("asks"), None)
    assert seen(rows) == expected((0, 11))


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("api", VERSIONS, ids=str)
def test_every_codec_of_every_age(
    pk_kafka: Kafka, old: OldClient, api: tuple[int, ...], codec: str | None
) -> None:
    round_trip(pk_kafka, old, api, codec, list(VERSIONS))


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("api", VERSIONS, ids=str)
def test_an_old_client_reads_what_is_written_today(
    pk_kafka: Kafka, old: OldClient, api: tuple[int, ...], codec: str
) -> None:
    topic = create_topic(pk_kafka, fresh_name("today"))
    write_today(pk_kafka, topic, codec)
    rows = old.call("consume", pk_kafka.bootstrap, api, topic, len(ROWS), None, 0)
    assert seen(rows) == expected(api)
    middle = old.call("consume", pk_kafka.bootstrap, api, topic, len(ROWS) - 150, None, 150)
    assert seen(middle) == expected(api)[150:]


@pytest.mark.parametrize(
    "api",
    [pytest.param(v, marks=() if v == (0, 9) else pytest.mark.slow) for v in VERSIONS],
    ids=str,
)
def test_a_group_commits_and_goes_on(pk_kafka: Kafka, old: OldClient, api: tuple[int, ...]) -> None:
    topic, group = create_topic(pk_kafka, fresh_name("group")), fresh_name("old-group")
    write_today(pk_kafka, topic, "none")
    first = old.call("consume", pk_kafka.bootstrap, api, topic, 100, group, None)
    assert seen(first) == expected(api)[:100]
    at = old.call("committed", pk_kafka.bootstrap, api, topic, group)
    assert at == 100
    assert committed(pk_kafka, group) == {0: at}
    rest = old.call("consume", pk_kafka.bootstrap, api, topic, len(ROWS) - at, group, None)
    assert seen(rest) == expected(api)[at:]


@pytest.mark.parametrize("api", VERSIONS, ids=str)
def test_offsets_at_the_ends_and_by_time(
    pk_kafka: Kafka, old: OldClient, api: tuple[int, ...]
) -> None:
    topic = create_topic(pk_kafka, fresh_name("ends"))
    write_today(pk_kafka, topic, "none")
    by_time = api >= (0, 10, 1)
    times = [NOW_MS + 2, NOW_MS + 9999] if by_time else []
    first, last, found = old.call("ends", pk_kafka.bootstrap, api, topic, times)
    assert (first, last) == (0, len(ROWS))
    if by_time:
        assert found == ((0, NOW_MS + 5), None)
