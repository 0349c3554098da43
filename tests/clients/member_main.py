"""One member of a consumer group in a process of its own, so that a test may kill it.

    python member_main.py LIBRARY '{"bootstrap": ..., "topic": ..., "group": ..., ...}'

Writes one JSON line an event: {"assigned": [0, 1]}, {"revoked": [0]}, {"records": [[partition,
offset], ...]}. Commits after every batch of records, before it polls again. SIGTERM makes it leave
in order.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import sys
from collections.abc import Iterable
from typing import Any

POLL_MS = 100
LONG_POLL_MS = 3_000


@dataclasses.dataclass(frozen=True)
class Options:
    bootstrap: str
    topic: str
    group: str
    session_ms: int
    assignor: str
    instance: str | None = None


class Stop:
    """Becomes true on SIGTERM."""

    def __init__(self) -> None:
        self.now = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, *_: object) -> None:
        self.now = True


def say(kind: str, what: Iterable[object]) -> None:
    print(json.dumps({kind: list(what)}), flush=True)


def run_confluent(options: Options, stop: Stop) -> None:
    import confluent_kafka

    config: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if options.assignor == "consumer":
        config["group.protocol"] = "consumer"
    else:
        config |= {
            "session.timeout.ms": options.session_ms,
            "heartbeat.interval.ms": 300,
            "partition.assignment.strategy": options.assignor,
        }
    if options.instance:
        config["group.instance.id"] = options.instance
    consumer = confluent_kafka.Consumer(config)
    consumer.subscribe(
        [options.topic],
        on_assign=lambda _, partitions: say("assigned", (p.partition for p in partitions)),
        on_revoke=lambda _, partitions: say("revoked", (p.partition for p in partitions)),
    )
    while not stop.now:
        messages = consumer.consume(100, POLL_MS / 1000)
        for message in messages:
            error = message.error()
            if error:
                raise confluent_kafka.KafkaException(error)
        if messages:
            consumer.commit(asynchronous=False)
            say("records", ((m.partition(), m.offset()) for m in messages))
    consumer.close()


def run_kafka_python(options: Options, stop: Stop) -> None:
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            say("assigned", sorted(p.partition for p in assigned))

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            say("revoked", sorted(p.partition for p in revoked))

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=options.bootstrap,
        group_id=options.group,
        group_instance_id=options.instance,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=options.session_ms,
        heartbeat_interval_ms=300,
        partition_assignment_strategy=(assignors[options.assignor],),
    )
    consumer.subscribe([options.topic], listener=Listener())
    # kafka-python 3.0.12 forgets a join that ends between two polls: the next one joins again, or,
    # where new metadata had begun that join, nobody does (need_rejoin() is false by then), and
    # there is neither an assignment nor a heartbeat. So it knows the topic before it joins, and its
    # polls outlast a join.
    while not stop.now and not consumer.partitions_for_topic(options.topic):
        pass
    while not stop.now:
        batches = consumer.poll(LONG_POLL_MS)
        if batches:
            consumer.commit()
            say("records", ((r.partition, r.offset) for each in batches.values() for r in each))
    consumer.close()


def run_aiokafka(options: Options, stop: Stop) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}

    class Listener(aiokafka.ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            say("assigned", sorted(p.partition for p in assigned))

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            say("revoked", sorted(p.partition for p in revoked))

    async def run() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=options.bootstrap,
            group_id=options.group,
            group_instance_id=options.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=options.session_ms,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=(assignors[options.assignor],),
        )
        consumer.subscribe([options.topic], listener=Listener())
        await consumer.start()
        while not stop.now:
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            if batches:
                await consumer.commit()
                say("records", ((r.partition, r.offset) for each in batches.values() for r in each))
        await consumer.stop()

    asyncio.run(run())


def run_pk(options: Options, stop: Stop) -> None:
    import trio

    from pk.core.values import TopicPartition
    from pk.net.client.consumer import open_consumer

    config: dict[str, object] = {
        "group.id": options.group,
        "group.instance.id": options.instance,
        "group.protocol": options.assignor,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "metadata.max.age.ms": 300,
    }

    async def assigned(partitions: tuple[TopicPartition, ...]) -> None:
        say("assigned", sorted(p.partition for p in partitions))

    async def revoked(partitions: tuple[TopicPartition, ...]) -> None:
        say("revoked", sorted(p.partition for p in partitions))

    async def run() -> None:
        async with open_consumer(options.bootstrap, config) as consumer:
            consumer.subscribe([options.topic], on_assigned=assigned, on_revoked=revoked)
            while not stop.now:
                records = await consumer.poll(timeout_ms=POLL_MS)
                if records:
                    await consumer.commit()
                    say("records", ((r.partition, r.offset) for r in records))

    trio.run(run)


RUNNERS = {
    "pk": run_pk,
    "confluent-kafka": run_confluent,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}

if __name__ == "__main__":
    RUNNERS[sys.argv[1]](Options(**json.loads(sys.argv[2])), Stop())
