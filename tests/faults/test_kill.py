"""kill -9 at random moments under load: what was acknowledged is there, once, in order.

One idempotent producer (acks=all) lives through all the kills, as a service of a user's would: it
sends again what it has no answer for, and only the broker's memory of its sequences keeps that from
doubling. A kill keeps the page cache; what the disk may lose besides is test_torn_tail.py's.
"""

from __future__ import annotations

import random

import confluent_kafka
import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from clients.readers import consumer_of, read_all
from clients.topics import COORDINATOR_ON_ITS_WAY, TIMEOUT_S, create_topic, wait_until
from confluent_kafka.admin import AdminClient
from faults.load import Load

PARTITIONS = 3
TOPIC = "orders"
GROUP = "readers"


def _commit(bootstrap: str, offset: int) -> None:
    with consumer_of(bootstrap, GROUP) as consumer:
        positions = [confluent_kafka.TopicPartition(TOPIC, p, offset) for p in range(PARTITIONS)]

        def commit() -> bool:
            try:
                consumer.commit(offsets=positions, asynchronous=False)
            except confluent_kafka.KafkaException as error:
                on_its_way = (*COORDINATOR_ON_ITS_WAY, confluent_kafka.KafkaError._TRANSPORT)
                if error.args[0].code() in on_its_way:
                    return False
                raise
            return True

        wait_until("a commit", commit)


def _committed(bootstrap: str) -> list[int]:
    with consumer_of(bootstrap, GROUP) as consumer:
        asked = [confluent_kafka.TopicPartition(TOPIC, p) for p in range(PARTITIONS)]
        return [p.offset for p in consumer.committed(asked, timeout=TIMEOUT_S)]


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_what_was_acknowledged_outlives_kills(kills: int) -> None:
    chance = random.Random(kills)  # the moments are the machine's to choose; how far apart, ours
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
            # Everything sent was acknowledged in the end: each number once, in the order sent.
            assert [int(value) for _, value in found] == list(
                range(partition, load.sent, PARTITIONS)
            )
            where = dict(found)
            reported = load.acknowledged[partition]
            assert all(where[offset] == b"%d" % number for offset, number in reported)
        assert broker.stop() == 0, broker.log_text[-5000:]
        assert "Traceback" not in broker.log_text, broker.log_text[-5000:]
