"""kill -9 at random moments under load: acknowledged records are in the log, once, in order.

One idempotent producer (acks=all) runs through all the kills, as a user's service does. It sends
requests without an answer again, and only the sequences that the broker remembers prevent
duplicates. A kill keeps the page cache; test_torn_tail.py has the tests of a disk that loses data.
"""

from __future__ import annotations

import random

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from clients.readers import consumer_of, read_all
from clients.topics import COORDINATOR_ON_ITS_WAY, TIMEOUT_S, commit, create_topic, wait_until
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from faults.load import Load

PARTITIONS = 3
TOPIC = "orders"
GROUP = "readers"


def _commit(bootstrap: str, offset: int) -> None:
    with consumer_of(bootstrap, GROUP) as consumer:
        commit(consumer, [TopicPartition(TOPIC, p, offset) for p in range(PARTITIONS)])


def _committed(bootstrap: str) -> list[int]:
    """Committed offsets by partition. A consumer asks for them, because librdkafka's admin client
    (2.16) soon gives up if the coordinator is not known yet."""
    with consumer_of(bootstrap, GROUP) as consumer:
        asked = [TopicPartition(TOPIC, p) for p in range(PARTITIONS)]

        def ask() -> list[TopicPartition] | None:
            try:
                return consumer.committed(asked, timeout=TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() in (*COORDINATOR_ON_ITS_WAY, KafkaError._TRANSPORT):
                    return None
                raise

        return [p.offset for p in wait_until("its offsets", ask)]


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_what_was_acknowledged_outlives_kills(kills: int) -> None:
    chance = random.Random(kills)  # for the distances; the moments depend on the machine
    with PkBroker() as broker:
        assert broker.directory is not None
        kafka = Kafka("pk", broker.bootstrap, broker.directory)
        create_topic(kafka, TOPIC, PARTITIONS)
        made = []
        with Load(broker.bootstrap, TOPIC, PARTITIONS) as load:
            for number in range(kills):
                load.wait_for(chance.randrange(100, 3_000))
                _commit(broker.bootstrap, number * 7)
                made.append(create_topic(kafka, f"made-{number}"))
                load.wait_for(chance.randrange(1, 1_000))
                broker.kill()
                broker.start()
                assert _committed(broker.bootstrap) == [number * 7] * PARTITIONS
            load.wait_for(500)
            load.finish()
        topics = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(
            timeout=TIMEOUT_S
        )
        assert set(made) <= set(topics.topics)
        for partition in range(PARTITIONS):
            found = read_all(broker.bootstrap, TOPIC, partition)
            # All records were acknowledged in the end: each number is there once, in order.
            assert [int(value) for _, value in found] == list(
                range(partition, load.sent, PARTITIONS)
            )
            where = dict(found)
            reported = load.acknowledged[partition]
            known = [(offset, number) for offset, number in reported if offset >= 0]
            assert known and all(where[offset] == b"%d" % number for offset, number in known)
        assert broker.stop() == 0, broker.log_text[-5000:]
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
