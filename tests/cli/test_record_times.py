"""The times when records were produced, without a group: `Admin.record_times`."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import confluent_kafka
import pytest
import trio
from clients.fixtures import Kafka, fresh_name
from clients.topics import create_topic, wait_for_marks

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.admin_operations import records

FIRST_MS = 1_700_000_000_000


def times(
    kafka: Kafka, places: Iterable[tuple[TopicPartition, int]], *, within_ms: int = 0
) -> dict[tuple[TopicPartition, int], Any]:
    async def ask() -> dict[tuple[TopicPartition, int], Any]:
        async with open_admin(kafka.bootstrap) as admin:
            answers = await admin.record_times(places, within_ms=within_ms)
            return {**answers.ok, **answers.errors}

    return trio.run(ask)


def produce(
    kafka: Kafka, topic: str, times_ms: Iterable[int], partition: int = 0, **config: Any
) -> None:
    """Writes records with these times and flushes them as one batch."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "linger.ms": 60_000, "log_level": 0, **config}
    )
    for time_ms in times_ms:
        producer.produce(topic, b"v" * 100, partition=partition, timestamp=time_ms)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    """Partition 0: three batches of 40 records, a second apart; 1: one such batch, compressed; 2:
    nothing."""
    name = create_topic(kafka, fresh_name("times"), 3, {"retention.ms": "-1"})
    for batch in range(3):
        produce(kafka, name, (FIRST_MS + (batch * 40 + i) * 1000 for i in range(40)))
    produce(kafka, name, (FIRST_MS + i for i in range(40)), 1, **{"compression.type": "lz4"})
    return name


def test_every_offset_has_its_own_time(kafka: Kafka, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    found = times(kafka, [(tp, offset) for offset in range(120)])
    assert found == {(tp, offset): FIRST_MS + offset * 1000 for offset in range(120)}


def test_a_compressed_batch_is_looked_into(kafka: Kafka, topic: str) -> None:
    tp = TopicPartition(topic, 1)
    assert times(kafka, [(tp, 7), (tp, 39)]) == {(tp, 7): FIRST_MS + 7, (tp, 39): FIRST_MS + 39}


def test_a_time_may_be_off_where_that_was_allowed(kafka: Kafka, topic: str) -> None:
    near, far = TopicPartition(topic, 1), TopicPartition(topic, 0)
    found = times(kafka, [(near, 7), (far, 7)], within_ms=100)
    assert abs(found[near, 7] - FIRST_MS - 7) <= 100
    assert found[far, 7] == FIRST_MS + 7000  # its batch spans more than that


def test_where_there_is_no_record_there_is_no_time(kafka: Kafka, topic: str) -> None:
    full, empty = TopicPartition(topic, 0), TopicPartition(topic, 2)
    found = times(kafka, [(full, 120), (full, 119), (empty, 0), (full, 500)])
    assert (found[full, 120], found[full, 119], found[empty, 0]) == (None, FIRST_MS + 119_000, None)
    assert isinstance(found[full, 500], KafkaError)
    assert found[full, 500].code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_does_not_exist_is_an_error_of_its_own(kafka: Kafka, topic: str) -> None:
    there, gone = (TopicPartition(topic, 0), 5), (TopicPartition(fresh_name("none"), 0), 0)
    found = times(kafka, [there, gone])
    assert found[there] == FIRST_MS + 5000
    assert isinstance(found[gone], KafkaError)


def test_batches_too_large_for_company_are_asked_for_alone(
    kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_PARTITION_BYTES", 1)
    places = [(TopicPartition(topic, p), o) for p, o in itertools.product((0, 1), (0, 3, 39))]
    found = times(kafka, places)
    assert found == {
        (tp, offset): FIRST_MS + offset * (1 if tp.partition else 1000) for tp, offset in places
    }


@pytest.mark.peer
def test_markers_of_transactions_are_passed_over(
    apache: Kafka, fresh: Callable[[str], str]
) -> None:
    name = create_topic(apache, fresh("markers"), 1, {"retention.ms": "-1"})
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": apache.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions()
    for i in range(2):
        producer.begin_transaction()
        producer.produce(name, b"x", partition=0, timestamp=FIRST_MS + i)
        producer.commit_transaction()
    wait_for_marks(apache, name, 4)
    tp = TopicPartition(name, 0)
    # 0: a record, 1: its marker, 2: a record, 3: its marker, 4: the end.
    found = times(apache, [(tp, offset) for offset in range(5)])
    assert [found[tp, offset] for offset in range(5)] == [
        FIRST_MS,
        FIRST_MS + 1,
        FIRST_MS + 1,
        None,
        None,
    ]
