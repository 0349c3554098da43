"""The client for programs that block."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import trio
from clients.fixtures import Kafka
from clients.topics import configure_group

from pk.client import Closed, KafkaError, NewTopic, TopicPartition
from pk.client.blocking import (
    open_admin,
    open_consumer,
    open_producer,
    open_share_consumer,
)

Fresh = Callable[[str], str]

EARLIEST = {"auto.offset.reset": "earliest"}


def create(kafka: Kafka, topic: str, partitions: int = 1) -> None:
    with open_admin(kafka.bootstrap) as admin:
        answers = admin.create_topics([NewTopic(topic, partitions)])
        assert topic in answers.ok, answers


def values_of(kafka: Kafka, topic: str, count: int) -> list[bytes | None]:
    config = EARLIEST | {"isolation.level": "read_committed"}
    with open_consumer(kafka.bootstrap, config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[bytes | None] = []
        for record in consumer:
            found.append(record.value)
            if len(found) == count:
                break
        return found


def test_records_arrive_in_the_order_of_their_sends(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("blocking")
    create(kafka, topic)
    values = [b"%d" % n for n in range(5000)]
    with open_producer(kafka.bootstrap) as producer:
        deliveries = [producer.send(topic, value) for value in values]
        assert deliveries[-1].result().offset == 4999
        assert [delivery.result().offset for delivery in deliveries] == list(range(5000))
        runs = producer.send_many(topic, [(None, b"many")] * 3).result()
        assert sum(run.count for run in runs) == 3
    assert values_of(kafka, topic, 5003) == values + [b"many"] * 3


def test_threads_share_a_producer(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("blocking")
    create(kafka, topic)
    with open_producer(kafka.bootstrap, {"buffer.memory": 100_000}) as producer:

        def send(prefix: bytes) -> None:
            for n in range(500):
                producer.send(topic, prefix + b"%d " % n + b"x" * 1000)

        threads = [threading.Thread(target=send, args=(name,)) for name in (b"a", b"b", b"c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
    found = [value.split()[0] for value in values_of(kafka, topic, 1500) if value is not None]
    for name in (b"a", b"b", b"c"):
        assert [v for v in found if v.startswith(name)] == [name + b"%d" % n for n in range(500)]


def test_a_group_commits_what_was_read(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("blocking"), fresh("group")
    create(kafka, topic, 2)
    told: list[tuple[str, int]] = []
    with open_producer(kafka.bootstrap) as producer:
        producer.send(topic, b"one", partition=0)
    with open_consumer(kafka.bootstrap, EARLIEST | {"group.id": group}) as consumer:

        def revoked(partitions: tuple[TopicPartition, ...]) -> None:
            consumer.commit()
            told.append(("revoked", len(partitions)))

        consumer.subscribe(
            [topic],
            on_assigned=lambda partitions: told.append(("assigned", len(partitions))),
            on_revoked=revoked,
        )
        assert next(iter(consumer)).value == b"one"
        assert consumer.group_metadata.group_id == group
    with open_admin(kafka.bootstrap) as admin:
        stored = admin.list_group_offsets(group).value(TopicPartition(topic, 0))
        assert stored is not None and stored.offset == 1
    assert told == [("assigned", 2), ("revoked", 2)]


def committed(kafka: Kafka, group: str, topic: str, partition: int = 0) -> int | None:
    with open_admin(kafka.bootstrap) as admin:
        stored = admin.list_group_offsets(group).value(TopicPartition(topic, partition))
    return None if stored is None else stored.offset


def test_what_a_loop_has_not_yielded_is_not_committed(kafka: Kafka, fresh: Fresh) -> None:
    """Neither by `commit` nor by the end of the block; and it is not skipped."""
    topic, group = fresh("blocking"), fresh("group")
    create(kafka, topic, 2)
    with open_producer(kafka.bootstrap) as producer:
        for partition in range(2):
            producer.send_many(topic, [(None, b"%d" % n) for n in range(10)], partition=partition)
    with open_consumer(kafka.bootstrap, EARLIEST | {"group.id": group}) as consumer:
        consumer.subscribe([topic])
        found: dict[int, list[int]] = {0: [], 1: []}
        for record in consumer:
            found[record.partition].append(record.offset)
            if sum(map(len, found.values())) == 5:
                consumer.commit()
                for partition, offsets in found.items():
                    assert (committed(kafka, group, topic, partition) or 0) == len(offsets)
            if sum(map(len, found.values())) == 7:
                break
        following = next(iter(consumer))
        found[following.partition].append(following.offset)
        (polled,) = consumer.poll(records_max=1)
        found[polled.partition].append(polled.offset)
        for partition, offsets in found.items():
            assert consumer.position(TopicPartition(topic, partition)) == len(offsets)
        for record in consumer:
            found[record.partition].append(record.offset)
            break
    for partition, offsets in found.items():
        assert offsets == list(range(len(offsets)))
        assert (committed(kafka, group, topic, partition) or 0) == len(offsets)


def test_a_loop_goes_on_where_the_program_seeks(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("blocking")
    create(kafka, topic)
    here = TopicPartition(topic, 0)
    with open_producer(kafka.bootstrap) as producer:
        producer.send_many(topic, [(None, b"%d" % n) for n in range(10)]).result()
    with open_consumer(kafka.bootstrap, EARLIEST) as consumer:
        consumer.assign([here])
        found: list[int] = []
        for record in consumer:
            found.append(record.offset)
            if len(found) == 3:
                consumer.seek(here, 8)
            if record.offset == 9:
                break
    assert found == [0, 1, 2, 8, 9]


def test_a_loop_over_a_share_consumer_releases_what_it_has_not_yielded(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic, group = fresh("blocking"), fresh("group")
    create(kafka, topic)
    configure_group(kafka, group, {"share.auto.offset.reset": "earliest"})
    with open_producer(kafka.bootstrap) as producer:
        producer.send_many(topic, [(None, b"%d" % n) for n in range(6)]).result()
    seen: list[tuple[int, int]] = []
    for count in (2, 4):
        with open_share_consumer(kafka.bootstrap, {"group.id": group}) as consumer:
            consumer.subscribe([topic])
            for taken, record in enumerate(consumer, 1):
                seen.append((record.offset, record.delivery_count))
                if taken == 1:
                    consumer.commit()
                if taken == count:
                    break
    assert [offset for offset, _ in seen] == [0, 1, 2, 3, 4, 5]
    assert [again for offset, again in seen if offset < 2] == [1, 1]


def test_transactions_commit_and_abort(kafka: Kafka, fresh: Fresh) -> None:
    topic, name = fresh("blocking"), fresh("id")
    create(kafka, topic)
    with open_producer(kafka.bootstrap, {"transactional.id": name}) as producer:
        with producer.transaction():
            producer.send(topic, b"in a block")
        with pytest.raises(ValueError), producer.transaction():
            producer.send(topic, b"aborted")
            raise ValueError
        producer.begin_transaction()
        producer.send(topic, b"by hand")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"aborted by hand")
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"last")
    assert values_of(kafka, topic, 3) == [b"in a block", b"by hand", b"last"]


def test_a_transaction_with_a_record_that_is_refused_is_aborted(kafka: Kafka, fresh: Fresh) -> None:
    """The error is raised at the end of the block, even if nobody asked for the delivery."""
    topic, name = fresh("blocking"), fresh("id")
    create(kafka, topic)
    config = {"transactional.id": name, "max.request.size": 1000}
    with open_producer(kafka.bootstrap, config) as producer:
        with pytest.raises(KafkaError, match=r"max\.request\.size"), producer.transaction():
            producer.send(topic, b"small")
            producer.send(topic, b"x" * 2000)
        with producer.transaction():
            producer.send(topic, b"next")
    assert values_of(kafka, topic, 1) == [b"next"]


def test_share_consumers_take_records(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("blocking"), fresh("group")
    create(kafka, topic)
    configure_group(kafka, group, {"share.auto.offset.reset": "earliest"})
    with open_producer(kafka.bootstrap) as producer:
        producer.send(topic, b"job")
    with open_share_consumer(kafka.bootstrap, {"group.id": group}) as consumer:
        consumer.subscribe([topic])
        found = []
        while not found:
            found = consumer.poll(timeout_ms=1000)
        assert [record.value for record in found] == [b"job"]
        assert consumer.commit() == {TopicPartition(topic, 0): None}


def test_errors_are_raised_by_the_delivery(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("blocking")
    create(kafka, topic)
    with open_producer(kafka.bootstrap, {"max.request.size": 1000}) as producer:
        delivery = producer.send(topic, b"x" * 2000)
        for _ in range(2):
            with pytest.raises(KafkaError, match=r"max\.request\.size is 1000"):
                delivery.result()
        with pytest.raises(KafkaError, match="partition 7"):
            producer.send(topic, b"x", partition=7).result()
    with pytest.raises(Closed):
        producer.send(topic, b"late")


def test_a_delivery_can_be_awaited_for_a_while(fresh: Fresh) -> None:
    """Nothing listens there; the record stays in the buffer until the block raises."""
    with (
        pytest.raises(trio.TooSlowError),
        open_producer("127.0.0.1:1", {"max.block.ms": 60_000}) as producer,
    ):
        producer.send(fresh("nowhere"), b"x").result(timeout_ms=100)


def test_the_client_leaves_no_thread(kafka: Kafka) -> None:
    with open_admin(kafka.bootstrap) as one, open_admin(kafka.bootstrap) as two:
        assert one.describe_cluster().cluster_id == two.describe_cluster().cluster_id
        assert [t.name for t in threading.enumerate()].count("pk client") == 1
    assert "pk client" not in [thread.name for thread in threading.enumerate()]


def test_ctrl_c_interrupts_a_poll(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("blocking")
    create(kafka, topic)
    code = f"""
from pk.client import TopicPartition
from pk.client.blocking import open_consumer
try:
    with open_consumer({kafka.bootstrap!r}) as consumer:
        consumer.assign([TopicPartition({topic!r}, 0)])
        print("polling", flush=True)
        consumer.poll()
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"polling\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == b"interrupted\n"
        assert process.returncode == 0
