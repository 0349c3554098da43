"""The driver's commit without Spark: a batch is published once, regardless of which driver asks,
how often, and of earlier crashes."""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import trio
from clients import topics
from clients.fixtures import Kafka
from confluent_kafka import Producer

from pk.core.errors import ErrorCode, KafkaError
from pk.spark.connections import connections
from pk.spark.sink import commit, marker
from pk.spark.sink.commit import (
    CheckpointTooOld,
    open_publisher,
    publish_batch,
    publish_job,
    publish_sealed,
)
from pk.spark.sink.messages import SealedMessage
from pk.spark.sink.options import SinkOptions, parse_sink_options
from pk.spark.sink.seal import Sealed, seal

Fresh = Callable[[str], str]
WAIT_S = 60


def sink(kafka: Kafka, **options: object) -> SinkOptions:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    return parse_sink_options({"kafka.bootstrap.servers": kafka.bootstrap, **given})


def sealed(topic: str, values: list[bytes], partitions: int, options: SinkOptions) -> list[Sealed]:
    rows = pa.RecordBatch.from_pydict(
        {"key": pa.array(values, pa.binary()), "value": pa.array(values, pa.binary())}
    )
    config = options.config
    return list(seal([rows], topic=topic, config=config, partitions_of=lambda _: partitions))


def messages(
    topic: str, values: list[bytes], partitions: int, options: SinkOptions
) -> list[SealedMessage]:
    parts = sealed(topic, values, partitions, options)
    return [SealedMessage.of(part, "query") for part in parts]


def read(kafka: Kafka, topic: str, partitions: int) -> Counter[Any]:
    """The committed values, once no transaction is open."""
    topics.wait_until_none_is_open(kafka, topic, partitions)
    messages = topics.committed_messages(kafka, topic, partitions)
    return Counter(message.value() for message in messages)


def values(batch: int, count: int = 200) -> list[bytes]:
    return [b"%d-%d" % (batch, n) for n in range(count)]


def test_a_batch_that_is_committed_again_is_published_once(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("sink"), 3)
    options, query = sink(kafka, kafka__batch__size=2_000), str(uuid.uuid4())
    kept = connections()
    for batch in range(3):
        made = messages(topic, values(batch), 3, options)
        assert kept.run(publish_batch, options, query, batch, made)
        # The driver died; the batch comes again, with other rows in other tasks.
        again = messages(topic, values(batch)[::-1] + [b"another"], 2, options)
        assert not kept.run(publish_batch, options, query, batch, again)
    assert read(kafka, topic, 3) == Counter(v for batch in range(3) for v in values(batch))
    with pytest.raises(CheckpointTooOld, match="has published batch 2"):
        kept.run(publish_batch, options, query, 1, messages(topic, values(1), 3, options))


def test_queries_do_not_mind_each_other(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("sink"), 1)
    options = sink(kafka)
    queries = [str(uuid.uuid4()) for _ in range(40)]
    kept = connections()
    for number, query in enumerate(queries):
        made = messages(topic, [b"%d" % number], 1, options)
        assert kept.run(publish_batch, options, query, 5, made)
    for query in queries:
        made = messages(topic, [b"again"], 1, options)
        assert not kept.run(publish_batch, options, query, 5, made)
    assert read(kafka, topic, 1) == Counter(b"%d" % n for n in range(40))


def test_a_driver_that_died_inside_its_transaction_leaves_nothing(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic = topics.create_topic(kafka, fresh("sink"), 2)
    options, query = sink(kafka), str(uuid.uuid4())
    died = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "transactional.id": f"pk-spark-{query}",
            "log_level": 0,
        }
    )
    died.init_transactions(WAIT_S)
    died.begin_transaction()
    died.produce(topic, b"torn", partition=0)
    assert died.flush(WAIT_S) == 0
    made = messages(topic, values(0), 2, options)
    assert connections().run(publish_batch, options, query, 0, made)
    assert read(kafka, topic, 2) == Counter(values(0))
    died.produce(topic, b"zombie", partition=0)
    with pytest.raises(Exception, match="fenced|epoch|FENCED|EPOCH"):
        died.commit_transaction(WAIT_S)
    assert read(kafka, topic, 2) == Counter(values(0))


def test_a_second_driver_of_the_query_is_fenced(
    kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zombie has read the marker and stands still; the new driver publishes; the zombie
    continues."""
    topic = topics.create_topic(kafka, fresh("sink"), 1)
    options, query = sink(kafka), str(uuid.uuid4())
    kept = connections()
    stopped, go_on = threading.Event(), threading.Event()
    last = marker.Markers.last

    async def slow(self: Any, partition: Any) -> Any:
        found = await last(self, partition)
        if not stopped.is_set():
            stopped.set()
            await trio.to_thread.run_sync(go_on.wait, WAIT_S)
        return found

    monkeypatch.setattr(marker.Markers, "last", slow)
    errors: list[KafkaError] = []

    def zombie() -> None:
        try:
            kept.run(publish_batch, options, query, 0, messages(topic, [b"zombie"], 1, options))
        except KafkaError as e:
            errors.append(e)

    thread = threading.Thread(target=zombie)
    thread.start()
    assert stopped.wait(WAIT_S)
    assert kept.run(publish_batch, options, query, 0, messages(topic, [b"new"], 1, options))
    go_on.set()
    thread.join(WAIT_S)
    [error] = errors
    assert error.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert read(kafka, topic, 1) == Counter([b"new"])


def test_a_commit_whose_outcome_is_unknown_is_decided_by_the_marker(
    kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pk.net.client.errors import TransactionOutcomeUnknown
    from pk.net.client.transaction import Transactions

    topic = topics.create_topic(kafka, fresh("sink"), 1)
    options, query = sink(kafka), str(uuid.uuid4())
    end = Transactions.end
    lost: list[bool] = []

    async def unanswered(self: Transactions, *, commit: bool) -> None:
        await end(self, commit=commit)
        if commit and not lost:
            lost.append(True)
            raise TransactionOutcomeUnknown("id", commit=True, cause=TimeoutError("lost"))

    monkeypatch.setattr(Transactions, "end", unanswered)
    made = messages(topic, values(0), 1, options)
    assert not connections().run(publish_batch, options, query, 0, made), "it had taken place"
    assert lost and read(kafka, topic, 1) == Counter(values(0))


def test_the_marker_is_found_behind_many_others(
    kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker, "_TAIL", 3)
    topic = topics.create_topic(kafka, fresh("sink"), 1)
    options, kept = sink(kafka), connections()
    query = str(uuid.uuid4())
    assert kept.run(publish_batch, options, query, 7, messages(topic, [b"x"], 1, options))
    partition = kept.run(_marker_partition, options, query)
    others = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": fresh("tx"), "log_level": 0}
    )
    others.init_transactions(WAIT_S)
    for number in range(30):
        others.begin_transaction()
        for key, batch in ((b"other", number), (query.encode(), 100 + number)):
            value = json.dumps({"batch": batch, "records": 1}).encode()
            if key == b"other" or number % 2:
                others.produce(partition.topic, value, key, partition=partition.partition)
        if number % 2:
            others.flush()
            others.abort_transaction(WAIT_S)  # its marker of our query must not count
        else:
            others.commit_transaction(WAIT_S)
    assert not kept.run(publish_batch, options, query, 7, messages(topic, [b"x"], 1, options))
    assert kept.run(publish_batch, options, query, 8, messages(topic, [b"y"], 1, options))


async def _marker_partition(options: SinkOptions, query: str) -> Any:
    cluster = await connections().cluster(options.bootstrap, options.config)
    return await marker.Markers(cluster, options, query).partition()


def test_a_job_is_published_whole(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("sink"), 4)
    options = sink(kafka, kafka__batch__size=1_000, kafka__compression__type="lz4")
    made = messages(topic, values(0, 5_000), 4, options)
    connections().run(publish_job, options, str(uuid.uuid4()), made)
    assert read(kafka, topic, 4) == Counter(values(0, 5_000))


def test_a_job_that_fails_leaves_nothing(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("sink"), 1)
    narrow = topics.create_topic(kafka, fresh("narrow"), 1, {"max.message.bytes": "1000"})
    options = sink(kafka)
    made = messages(topic, values(0), 1, options) + messages(narrow, [b"x" * 5_000], 1, options)
    with pytest.raises(KafkaError, match=r"lower kafka\.batch\.size") as raised:
        connections().run(publish_job, options, str(uuid.uuid4()), made)
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert read(kafka, topic, 1) == Counter()


def test_tasks_that_may_repeat_publish_by_themselves(kafka: Kafka, fresh: Fresh) -> None:
    topic = topics.create_topic(kafka, fresh("sink"), 3)
    options, kept = sink(kafka, delivery="at-least-once"), connections()
    publisher = kept.run(open_publisher, options)
    for batch in range(3):
        for part in sealed(topic, values(batch), 3, options):
            kept.run(publish_sealed, publisher, part)
    assert read(kafka, topic, 3) == Counter(v for batch in range(3) for v in values(batch))


def test_without_the_marker_check_a_batch_is_published_twice(
    kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks of this file's tests must be able to fail."""

    async def blind(self: Any, partition: Any) -> None:
        return None

    monkeypatch.setattr(commit.Markers, "last", blind)
    topic = topics.create_topic(kafka, fresh("sink"), 1)
    options, query = sink(kafka), str(uuid.uuid4())
    for _ in range(2):
        made = messages(topic, [b"x"], 1, options)
        assert connections().run(publish_batch, options, query, 0, made)
    assert read(kafka, topic, 1) == Counter({b"x": 2})
