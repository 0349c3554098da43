"""Ranges read from a broker: exactly their records, regardless of the log's layout in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import islice

import pyarrow as pa
import pytest
from clients import topics
from clients.fixtures import Kafka
from confluent_kafka import Producer, TopicPartition
from spark_records import CODECS, Made, produce, records

from pk.core.errors import ErrorCode, KafkaError
from pk.spark.connections import connections
from pk.spark.errors import DataLost
from pk.spark.read.ranges import OffsetRange, split
from pk.spark.read.read_options import ReadOptions
from pk.spark.read.reader import read

Fresh = Callable[[str], str]


def rows(wanted: OffsetRange, kafka: Kafka, **options: object) -> list[dict[str, object]]:
    given = ReadOptions(kafka.bootstrap, **{"headers": True, **options})  # type: ignore[arg-type]
    return [row for batch in read(wanted, given) for row in batch.to_pylist()]


def expected(
    made: list[Made], topic: str, partition: int, first: int = 0
) -> Iterator[tuple[object, ...]]:
    for offset, record in enumerate(made, first):
        headers = [{"key": k, "value": v} for k, v in record.headers] or None
        yield (topic, partition, offset, record.timestamp, 0, record.key, record.value, headers)


def plain(row: dict[str, object]) -> tuple[object, ...]:
    time = row["timestamp"]
    assert hasattr(time, "timestamp")
    return (
        row["topic"],
        row["partition"],
        row["offset"],
        round(time.timestamp() * 1000),  # type: ignore[attr-defined]
        row["timestampType"],
        row["key"],
        row["value"],
        row["headers"],
    )


@pytest.mark.parametrize("codec", CODECS)
def test_reads_what_was_produced(kafka: Kafka, fresh: Fresh, codec: str) -> None:
    topic = topics.create_topic(kafka, fresh("read"), 2)
    got = produce(kafka, topic, records(3_000, 2, seed=len(codec)), codec)
    for partition, made in got.items():
        whole = OffsetRange(topic, partition, 0, len(made))
        assert [plain(r) for r in rows(whole, kafka)] == list(expected(made, topic, partition))


def test_pieces_cut_batches_anywhere(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("read"))
    made = produce(kafka, topic, records(2_000, 1), "lz4")[0]
    pieces = split([OffsetRange(topic, 0, 0, 2_000)], min_ranges=37)
    assert len(pieces) == 37
    for piece in pieces[::6]:
        wanted = list(expected(made, topic, 0))[piece.begin : piece.end]
        assert [plain(r) for r in rows(piece, kafka)] == wanted


def test_small_fetches_bring_the_same(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("read"))
    made = produce(kafka, topic, records(2_000, 1), batch_bytes=5_000)[0]
    client = {"max.partition.fetch.bytes": "3000", "fetch.max.bytes": "3000"}
    found = rows(OffsetRange(topic, 0, 100, 1_900), kafka, client=client)
    assert [plain(r) for r in found] == list(expected(made, topic, 0))[100:1_900]


def test_deleted_records_are_data_loss_unless_told_not_to(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("read"))
    made = produce(kafka, topic, records(500, 1))[0]
    at = [TopicPartition(topic, 0, 120)]
    for future in topics.admin(kafka).delete_records(at).values():
        future.result(topics.TIMEOUT_S)
    whole = OffsetRange(topic, 0, 50, 500)
    with pytest.raises(DataLost, match="now begins at 120"):
        rows(whole, kafka)
    left = rows(whole, kafka, fail_on_data_loss=False)
    assert [plain(r) for r in left] == list(expected(made, topic, 0))[120:]


def test_what_is_beyond_the_end_is_data_loss(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("read"))
    produce(kafka, topic, records(10, 1))
    with pytest.raises(DataLost, match="ends at 10"):
        rows(OffsetRange(topic, 0, 12, 20), kafka)
    with pytest.raises(DataLost, match="no records arrived from offset 10 on"):
        rows(OffsetRange(topic, 0, 0, 20), kafka, wait_ms=300)
    assert (
        len(rows(OffsetRange(topic, 0, 0, 20), kafka, wait_ms=300, fail_on_data_loss=False)) == 10
    )


def test_a_topic_made_again_is_not_the_one_that_was_planned(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("read"))
    produce(kafka, topic, records(10, 1))
    with pytest.raises(DataLost, match="deleted and created again"):
        rows(OffsetRange(topic, 0, 0, 10, bytes(range(16))), kafka)


def test_a_missing_topic(kafka: Kafka, fresh: Fresh) -> None:
    with pytest.raises(KafkaError) as raised:
        rows(
            OffsetRange(fresh("none"), 0, 0, 1),
            kafka,
            client={"default.api.timeout.ms": "5000"},
            wait_ms=500,
        )
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_reader_that_is_closed_early_ends_its_fetching(
    kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pk.spark.read.reader.ROWS_BYTES", 10_000)
    topic = topics.create_topic(kafka, fresh("read"))
    produce(kafka, topic, records(5_000, 1), batch_bytes=5_000)
    client = {"max.partition.fetch.bytes": "5000"}
    reading = read(OffsetRange(topic, 0, 0, 5_000), ReadOptions(kafka.bootstrap, client))
    kept = connections()  # starts the thread that all reads of this process share
    before = threading.active_count()
    taken = list(islice(reading, 1))
    assert isinstance(taken[0], pa.RecordBatch)
    assert len(kept.jobs) == 1
    reading.close()  # type: ignore[attr-defined]
    assert not kept.jobs
    assert threading.active_count() <= before


@pytest.mark.peer
def test_aborted_transactions_and_markers_are_left_out(apache: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(apache, fresh("read"))
    producer = Producer(
        {"bootstrap.servers": apache.bootstrap, "transactional.id": fresh("tx"), "log_level": 0}
    )
    producer.init_transactions(topics.TIMEOUT_S)
    for number in range(6):
        producer.begin_transaction()
        for _ in range(50):
            producer.produce(topic, b"%d" % number, partition=0)
        if number % 2:
            producer.flush()
            producer.abort_transaction(topics.TIMEOUT_S)
        else:
            producer.commit_transaction(topics.TIMEOUT_S)
    end = 6 * 51
    committed = rows(OffsetRange(topic, 0, 0, end), apache)
    assert [r["value"] for r in committed] == [b"%d" % n for n in (0, 2, 4) for _ in range(50)]
    uncommitted = {"isolation.level": "read_uncommitted"}
    everything = rows(OffsetRange(topic, 0, 0, end), apache, client=uncommitted)
    assert [r["value"] for r in everything] == [b"%d" % n for n in range(6) for _ in range(50)]
    assert [r["offset"] for r in everything] == [n * 51 + i for n in range(6) for i in range(50)]
    inside = rows(OffsetRange(topic, 0, 70, 130), apache)
    assert [r["offset"] for r in inside] == list(range(102, 130))
