"""The stream reader as Spark drives it, without Spark: offsets asked for, ranges planned, ranges
read."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from clients import topics
from clients.fixtures import Kafka
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.connection import TRACE_HOOK
from pk.spark.connections import THREAD
from pk.spark.errors import DataLost, OptionError
from pk.spark.read.options import parse_options
from pk.spark.stream.arrivals import DISCOVERY_MS, POLL_MS, WAIT_MS
from pk.spark.stream.reader import KafkaStreamReader

Fresh = Callable[[str], str]
WAIT_S = 60


def reader(kafka: Kafka, **options: object) -> KafkaStreamReader:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    given |= {"kafka.bootstrap.servers": kafka.bootstrap}
    return KafkaStreamReader(parse_options(given, stream=True))


class Query:
    """Uses a reader as Spark does: it keeps offsets as text, and copies of the reader read."""

    def __init__(self, source: KafkaStreamReader) -> None:
        self.source = source
        self.at = json.dumps(source.initialOffset())

    def batch(self) -> list[tuple[int, int, bytes]]:
        """The records of the next batch, which may be none: partition, offset and value."""
        start = self.at
        limit = self.source.getDefaultReadLimit()
        assert json.dumps(self.source.initialOffset()) == "{}", "asked again and again"
        self.at = json.dumps(self.source.latestOffset(json.loads(start), limit))
        return self.replay(start, self.at)

    def replay(self, start: str, end: str) -> list[tuple[int, int, bytes]]:
        planned = self.source.partitions(json.loads(start), json.loads(end))
        copy = pickle.loads(pickle.dumps(self.source))
        return [
            (row["partition"], row["offset"], row["value"])
            for partition in planned
            for rows in copy.read(partition)
            for row in rows.to_pylist()
        ]

    def until(self, count: int) -> list[tuple[int, int, bytes]]:
        """The records of as many batches as `count` records take."""
        found: list[tuple[int, int, bytes]] = []
        topics.wait_until(f"{count} records", lambda: len(self._more(found)) >= count)
        return found

    def _more(self, found: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
        found += self.batch()
        return found


def positions(at: str) -> dict[str, Any]:
    return {name: value for name, value in json.loads(at).items() if not name.startswith("@")}


def test_batches_of_a_limited_size_hold_each_record_once(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 3)
    topics.produce(kafka, topic, 3, 100)
    query = Query(
        reader(kafka, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=70)
    )
    found: list[tuple[int, int, bytes]] = []
    while batch := query.batch():
        assert len(batch) <= 72
        found += batch
    assert sorted(p * 100 + o for p, o, _ in found) == list(range(300))
    before = query.at
    assert query.batch() == [] and query.at == before, "nothing new is the same text"


def test_latest_is_where_the_first_batch_says_also_after_a_restart(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 2)
    topics.produce(kafka, topic, 2, 10)
    query = Query(reader(kafka, subscribe=topic))
    assert query.batch() == [] and positions(query.at) == {topic: {"0": 10, "1": 10}}
    first = query.at
    topics.produce(kafka, topic, 2, 5)
    # The driver dies inside batch 0, whose end is in the log: another process plans it again.
    again = Query(reader(kafka, subscribe=topic))
    assert again.replay("{}", first) == []
    again.at = first
    assert [o for _, o, _ in sorted(again.until(10))] == [*range(10, 15), *range(10, 15)]


def test_a_first_batch_is_planned_again_from_the_start_that_it_had(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    topics.produce(kafka, topic, 1, 10)
    start = json.dumps({topic: {"0": 4}})
    query = Query(reader(kafka, subscribe=topic, startingOffsets=start, maxOffsetsPerTrigger=3))
    first = query.batch()
    assert [o for _, o, _ in first] == [4, 5, 6]
    other = Query(reader(kafka, subscribe=topic, startingOffsets="latest"))
    assert other.replay("{}", query.at) == first


def test_a_new_record_is_seen_without_waiting_for_the_next_question(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 2)
    query = Query(reader(kafka, subscribe=topic))
    for number in range(3):
        assert query.batch() == [] and query.batch() == []
        timer = threading.Timer(0.1, topics.produce, (kafka, topic, 2, 1))
        timer.start()
        assert sorted(o for _, o, _ in query.until(2)) == [number, number]
        timer.join()


def test_an_idle_stream_asks_for_news_every_three_seconds(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 5)
    query = Query(reader(kafka, subscribe=topic))
    assert query.batch() == [] and query.batch() == []
    asked: list[str] = []
    reset = TRACE_HOOK.set(lambda request: asked.append(request.api_name))
    began = time.monotonic()
    try:
        for _ in range(4):
            assert query.batch() == []
    finally:
        TRACE_HOOK.reset(reset)
    # A Fetch outlives the questions; beside it there is a look for new partitions every five
    # seconds.
    passed_ms = (time.monotonic() - began) * 1000
    assert asked.count("Fetch") <= 1 + passed_ms // POLL_MS
    # The end of a Fetch ends a batch's wait, whenever that is: of two waits in a row one is whole.
    assert passed_ms >= 2 * WAIT_MS - 300
    looks = 1 + (time.monotonic() - began) // (DISCOVERY_MS / 1000)
    assert len(asked) - asked.count("Fetch") <= 3 * looks


def test_added_partitions_begin_at_0(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    query = Query(reader(kafka, subscribe=topic))
    assert query.batch() == []
    topics.admin(kafka).create_partitions([NewPartitions(topic, 2)])[topic].result(WAIT_S)
    topics.wait_until(
        "the new partition",
        lambda: len(topics.admin(kafka).list_topics(topic).topics[topic].partitions) == 2,
    )
    topics.produce(kafka, topic, 2, 3)
    assert sorted((p, o) for p, o, _ in query.until(6)) == [
        (p, o) for p in (0, 1) for o in range(3)
    ]


def test_a_pattern_finds_topics_that_come_later(kafka: Kafka, fresh: Fresh) -> None:
    name = fresh("pattern")
    topics.create_topic(kafka, f"{name}-a")
    query = Query(reader(kafka, subscribePattern=f"{name}-.*"))
    assert query.batch() == []
    topics.create_topic(kafka, f"{name}-b")
    topics.produce(kafka, f"{name}-b", 1, 4)
    assert [o for _, o, _ in query.until(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("again", [False, True])
def test_a_deleted_topic_is_an_error_also_if_it_was_created_again(
    kafka: Kafka, fresh: Fresh, again: bool
) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    topics.produce(kafka, topic, 1, 5)
    strict = Query(reader(kafka, subscribe=topic, startingOffsets="earliest"))
    lenient = Query(
        reader(kafka, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    )
    assert len(strict.batch()) == len(lenient.batch()) == 5
    topics.admin(kafka).delete_topics([topic])[topic].result(WAIT_S)
    topics.wait_until("the deletion", lambda: topic not in topics.admin(kafka).list_topics().topics)
    if again:
        topics.create_topic(kafka, topic)
        topics.produce(kafka, topic, 1, 9)
        assert [o for _, o, _ in lenient.until(9)] == list(range(9))
    with pytest.raises(DataLost, match="created again" if again else "no longer exists"):
        while True:
            strict.batch()


def test_a_task_whose_topic_was_deleted_and_created_again_fails(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    topics.produce(kafka, topic, 1, 5)
    query = Query(reader(kafka, subscribe=topic, startingOffsets="earliest"))
    assert len(query.batch()) == 5
    topics.admin(kafka).delete_topics([topic])[topic].result(WAIT_S)
    topics.wait_until("the deletion", lambda: topic not in topics.admin(kafka).list_topics().topics)
    topics.create_topic(kafka, topic)
    topics.produce(kafka, topic, 1, 5)
    with pytest.raises(DataLost, match="created again"):
        query.replay("{}", query.at)


def test_a_stream_of_a_missing_topic_is_refused(kafka: Kafka, fresh: Fresh) -> None:
    with pytest.raises(KafkaError) as raised:
        Query(reader(kafka, subscribe=fresh("missing"))).batch()
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_starts_by_timestamp_and_by_partition(kafka: Kafka, fresh: Fresh) -> None:
    # Kept for ever, or retention would come upon records this old in the middle of the test.
    topic = topics.create_topic(kafka, fresh("stream"), 2, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    for second in range(10):
        for partition in (0, 1):
            producer.produce(
                topic, b"x", partition=partition, timestamp=1_790_000_000_000 + second * 1000
            )
    assert producer.flush(WAIT_S) == 0
    since = Query(reader(kafka, subscribe=topic, startingTimestamp=1_790_000_007_000))
    assert sorted((p, o) for p, o, _ in since.batch()) == [
        (p, o) for p in (0, 1) for o in (7, 8, 9)
    ]
    each = Query(
        reader(kafka, subscribe=topic, startingOffsets=json.dumps({topic: {"0": -1, "1": 8}}))
    )
    assert [(p, o) for p, o, _ in each.batch()] == [(1, 8), (1, 9)]
    partly = Query(reader(kafka, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 1}})))
    with pytest.raises(OptionError, match=f"missing {topic}-1"):
        partly.batch()
    late = Query(reader(kafka, subscribe=topic, startingTimestamp=1_890_000_000_000))
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy=latest"):
        late.batch()


def test_available_now_stops_at_what_was_there(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 2)
    topics.produce(kafka, topic, 2, 10)
    source = reader(
        kafka,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=8,
        minOffsetsPerTrigger=8,
    )
    source.prepareForTriggerAvailableNow()
    topics.produce(kafka, topic, 2, 10)
    query = Query(source)
    found: list[tuple[int, int, bytes]] = []
    while batch := query.batch():
        found += batch
    assert positions(query.at) == {topic: {"0": 10, "1": 10}} and len(found) == 20
    assert [source.latestOffset(json.loads(query.at), ReadMaxRows(8))] == [json.loads(query.at)]


def test_a_batch_waits_for_its_least_size(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    source = reader(kafka, subscribe=topic, minOffsetsPerTrigger=10)
    assert source.getDefaultReadLimit() == ReadMinRows(10)
    query = Query(source)
    assert query.batch() == []
    topics.produce(kafka, topic, 1, 10)
    assert len(query.until(10)) == 10
    topics.produce(kafka, topic, 1, 9)
    assert [query.batch() for _ in range(3)] == [[], [], []]
    everything = source.latestOffset(json.loads(query.at), ReadAllAvailable())
    assert positions(json.dumps(everything)) == {topic: {"0": 19}}, "the trigger Once takes all"
    topics.produce(kafka, topic, 1, 1)
    assert len(query.until(10)) == 10


def test_a_query_that_begins_to_read_committed_records_has_lost_none(
    kafka: Kafka, fresh: Fresh
) -> None:
    """Its checkpoint is behind the last stable offset, which is no loss."""
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": fresh("tx"), "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"0")
    assert producer.flush(WAIT_S) == 0
    everything = {"kafka__isolation__level": "read_uncommitted", "startingOffsets": "earliest"}
    before = Query(reader(kafka, subscribe=topic, **everything))
    assert [v for _, _, v in before.until(1)] == [b"0"]
    after = Query(reader(kafka, subscribe=topic))
    after.at = before.at
    assert after.batch() == [] and positions(after.at) == {topic: {"0": 1}}
    producer.produce(topic, b"1")
    producer.commit_transaction(WAIT_S)
    assert [v for _, _, v in after.until(1)] == [b"1"]


def test_only_committed_records_are_read_unless_told_otherwise(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": fresh("tx"), "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    query = Query(reader(kafka, subscribe=topic))
    assert query.batch() == []
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        assert producer.flush(WAIT_S) == 0
        assert query.batch() == [], "the transaction is open"
        if commit:
            producer.commit_transaction(WAIT_S)
            assert [v for _, _, v in query.until(1)] == [b"%d" % number]
        else:
            producer.abort_transaction(WAIT_S)


def test_each_process_has_one_loop_for_all_reads(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 4)
    topics.produce(kafka, topic, 4, 50)
    query = Query(reader(kafka, subscribe=topic, startingOffsets="earliest", minPartitions=9))
    assert len(query.batch()) == 200
    assert [t.name for t in threading.enumerate()].count(THREAD) == 1


def test_the_latest_known_end_is_reported(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    topics.produce(kafka, topic, 1, 20)
    source = reader(kafka, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    assert source.reportLatestOffset() is None
    query = Query(source)
    assert len(query.batch()) == 5
    assert positions(json.dumps(source.reportLatestOffset())) == {topic: {"0": 20}}


def test_records_that_retention_deleted_are_an_error(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("stream"), 1)
    topics.produce(kafka, topic, 1, 10)
    strict = Query(
        reader(kafka, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2)
    )
    lenient = Query(
        reader(
            kafka,
            subscribe=topic,
            startingOffsets="earliest",
            maxOffsetsPerTrigger=2,
            failOnDataLoss="false",
        )
    )
    assert len(strict.batch()) == len(lenient.batch()) == 2
    gone = [TopicPartition(topic, 0, 7)]
    for answer in topics.librdkafka.AdminClient.delete_records(topics.admin(kafka), gone).values():
        answer.result(WAIT_S)
    with pytest.raises(DataLost, match="now begins at 7"):
        strict.batch()
    assert [o for _, o, _ in lenient.until(3)] == [7, 8, 9]
