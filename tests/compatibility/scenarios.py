"""The tasks of each client, and the state that the broker must have afterwards.

A client's program is run as `PROGRAM SCENARIO BOOTSTRAP NAME [WORD]`. It must end with 0, having
checked what it read itself. What it wrote, committed and configured is then read by librdkafka,
checksums on, so that a client that reads its own mistakes does not pass. The scenarios:

- `records`: write the records of `python/expected.py` to partition 0 of topic NAME, compressed by
  WORD, and read them back: keys, values, headers, times, tombstones;
- `group`: topic NAME has four partitions with a hundred records each. A member of group NAME (its
  protocol is WORD) gets all, reads all and commits; a second joins, and each has two; "more 0" to
  "more 3" are written to the partitions and read, and both commit; the second leaves, and the first
  has all again; it leaves; "last" is written to partition 0; a third member reads nothing else, and
  commits;
- `transactions`: five records are aborted, five committed, by transactional id NAME, in partition 0
  of topic NAME; with read_committed only the latter are seen;
- `admin`: create topics NAME and NAME-gone with three partitions and cleanup.policy=compact,
  describe NAME and its configs, set retention.ms to 123456, delete NAME-gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import confluent_kafka
from clients.fixtures import Kafka
from clients.readers import read_records
from clients.topics import TIMEOUT_S, admin, committed, create_topic, librdkafka, wait_until
from compatibility.python import expected
from confluent_kafka import Consumer, Producer, TopicPartition

from pk.core.record.compress import Codec

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


class Case(NamedTuple):
    """One run of a scenario."""

    kafka: Kafka
    topic: str
    word: str
    sets_times: bool
    """Whether the client can say what time a record has."""


Check = Callable[[Case], None]
"""Raises AssertionError."""


class Scenario(NamedTuple):
    """One column of the table."""

    name: str
    title: str
    action: str
    """The action that the program is asked for."""

    word: str
    prepare: Check
    check: Check


def one_partition(case: Case) -> None:
    # The records have timestamps of 2023.
    create_topic(case.kafka, case.topic, 1, {"retention.ms": "-1"})


def four_partitions(case: Case) -> None:
    create_topic(case.kafka, case.topic, expected.PARTITIONS)
    producer = Producer({"bootstrap.servers": case.kafka.bootstrap})
    for n in range(expected.IN_GROUP):
        producer.produce(case.topic, b"%d" % n, partition=n % expected.PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0


def nothing(case: Case) -> None:
    pass


def written(case: Case) -> None:
    found = [
        expected.Row(m.key(), m.value(), header(m), m.timestamp()[1])
        for m in read_records(case.kafka.bootstrap, case.topic, end_min=expected.COUNT)
    ]
    if not case.sets_times:
        found = [
            row._replace(timestamp_ms=wanted.timestamp_ms)
            for row, wanted in zip(found, expected.ROWS, strict=True)
        ]
    expected.check("what librdkafka reads", found, expected.ROWS)
    # librdkafka leaves a batch as it is that compression would not make smaller.
    kept = codecs(case.kafka, case.topic)
    expected.check("codecs of the log", kept - {"none"} or kept, {case.word})


def header(message: confluent_kafka.Message) -> bytes:
    """The value of its header `n`."""
    found = dict(message.headers() or [])["n"]
    assert isinstance(found, bytes), found
    return found


def codecs(kafka: Kafka, topic: str) -> set[str]:
    """The compression of each batch in the log of partition 0, from its files."""
    found = set[str]()
    for segment in sorted(kafka.log_dir.glob(f"{topic}-0/*.log")):
        data = segment.read_bytes()
        at = 0
        while at + 23 <= len(data) and (size := int.from_bytes(data[at + 8 : at + 12])):
            found.add(Codec(data[at + 22] & 7).name.lower())
            at += 12 + size
    return found


def all_committed(case: Case) -> None:
    wanted = {0: 102, 1: 101, 2: 101, 3: 101}
    expected.check("committed offsets", committed(case.kafka, case.topic), wanted)


def only_committed(case: Case) -> None:
    def values(isolation: str) -> list[bytes]:
        return list(_values(case.kafka, case.topic, isolation))

    five = [b"committed %d" % n for n in range(5)]
    expected.check("read_committed", values("read_committed"), five)
    both = [b"aborted %d" % n for n in range(5)] + five
    expected.check("read_uncommitted", values("read_uncommitted"), both)


def _values(kafka: Kafka, topic: str, isolation: str) -> Iterator[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "librdkafka read nothing"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return
            yield message.value() or b""
    finally:
        consumer.close()


def configured(case: Case) -> None:
    kafka, topic = case.kafka, case.topic

    def seen() -> bool:
        topics = admin(kafka).list_topics(timeout=TIMEOUT_S).topics
        return topic in topics and topic + "-gone" not in topics

    wait_until("the topics", seen)
    found = admin(kafka).list_topics(topic, TIMEOUT_S).topics[topic]
    expected.check("partitions", len(found.partitions), 3)
    resource = librdkafka.ConfigResource(librdkafka.ResourceType.TOPIC, topic)
    [future] = admin(kafka).describe_configs([resource]).values()
    configs = future.result(TIMEOUT_S)
    expected.check("cleanup.policy", configs["cleanup.policy"].value, "compact")
    expected.check("retention.ms", configs["retention.ms"].value, "123456")


SCENARIOS: Final = (
    Scenario("records", "records", "records", "none", one_partition, written),
    *(Scenario(codec, codec, "records", codec, one_partition, written) for codec in CODECS[1:]),
    Scenario("group", "group", "group", "classic", four_partitions, all_committed),
    Scenario("kip-848", "KIP-848 group", "group", "consumer", four_partitions, all_committed),
    Scenario("transactions", "transactions", "transactions", "", one_partition, only_committed),
    Scenario("admin", "admin", "admin", "", nothing, configured),
)
"""The columns, in order."""
