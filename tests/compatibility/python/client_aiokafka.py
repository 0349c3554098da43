"""The scenarios through aiokafka: `client_aiokafka.py SCENARIO BOOTSTRAP NAME [WORD]`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import expected
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType


async def read(
    bootstrap: str, topic: str, count: int, isolation: str = "read_committed"
) -> list[Any]:
    consumer: Any = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
    where = TopicPartition(topic, 0)
    consumer.assign([where])
    await consumer.start()
    consumer.seek(where, 0)
    found: list[Any] = []
    limit = time.monotonic() + expected.WAIT_S
    while len(found) < count and time.monotonic() < limit:
        for batch in (await consumer.getmany(timeout_ms=1000)).values():
            found += batch
    await consumer.stop()
    return found


async def records(bootstrap: str, topic: str, codec: str) -> None:
    producer: Any = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=100,
    )
    await producer.start()
    sent = [
        await producer.send(
            topic,
            row.value,
            row.key,
            partition=0,
            timestamp_ms=row.timestamp_ms,
            headers=[("n", row.header)],
        )
        for row in expected.ROWS
    ]
    await asyncio.gather(*sent)
    await producer.stop()
    found = [
        expected.Row(r.key, r.value, dict(r.headers)["n"], r.timestamp)
        for r in await read(bootstrap, topic, expected.COUNT)
    ]
    expected.check("records", found, expected.ROWS)


async def group(bootstrap: str, topic: str, protocol: str) -> None:
    assert protocol == "classic"

    async def member() -> Any:
        consumer: Any = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
        )
        await consumer.start()
        return consumer

    values: set[bytes] = set()

    async def until(what: str, done: Callable[[], bool], *members: Any) -> None:
        limit = time.monotonic() + expected.WAIT_S
        while not done():
            assert time.monotonic() < limit, f"{what}: not within {expected.WAIT_S:.0f} s"
            for each in members:
                for batch in (await each.getmany(timeout_ms=100)).values():
                    values.update(record.value for record in batch)

    def held(consumer: Any) -> int:
        return len(consumer.assignment())

    first = await member()
    await until(
        "all partitions, all records",
        lambda: held(first) == expected.PARTITIONS and expected.all_read(values),
        first,
    )
    await first.commit()
    second = await member()
    await until("two partitions each", lambda: held(first) == held(second) == 2, first, second)
    values.clear()
    producer: Any = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    for n, value in enumerate(expected.MORE):
        await producer.send_and_wait(topic, value, partition=n)
    await until("more records", lambda: values == set(expected.MORE), first, second)
    await first.commit()
    await second.commit()
    await second.stop()
    await until("all partitions again", lambda: held(first) == expected.PARTITIONS, first)
    await first.stop()
    await producer.send_and_wait(topic, b"last", partition=0)
    await producer.stop()
    values.clear()
    third = await member()
    await until("the last record", lambda: bool(values), third)
    expected.check("after the commit", values, {b"last"})
    await third.commit()
    await third.stop()


async def transactions(bootstrap: str, topic: str) -> None:
    producer: Any = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await producer.start()
    for word, end in (
        ("aborted", producer.abort_transaction),
        ("committed", producer.commit_transaction),
    ):
        await producer.begin_transaction()
        for n in range(5):
            await producer.send_and_wait(topic, f"{word} {n}".encode(), partition=0)
        await end()
    await producer.stop()
    found = [record.value for record in await read(bootstrap, topic, 5)]
    expected.check("committed", found, [b"committed %d" % n for n in range(5)])
    expected.check("uncommitted", len(await read(bootstrap, topic, 10, "read_uncommitted")), 10)


async def admin(bootstrap: str, topic: str) -> None:
    client: Any = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    config = {"cleanup.policy": "compact"}
    names = [topic, topic + "-gone"]
    created = await client.create_topics([NewTopic(n, 3, 1, topic_configs=config) for n in names])
    expected.check("created", [error[1] for error in created.topic_errors], [0, 0])
    [found] = await client.describe_topics([topic])
    expected.check("partitions", len(found["partitions"]), 3)

    async def value(name: str) -> str | None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        [answer] = await client.describe_configs([resource])
        return {entry[0]: entry[1] for entry in answer.resources[0][4]}[name]

    expected.check("cleanup.policy", await value("cleanup.policy"), "compact")
    # alter_configs replaces all of a topic's configs: version 0.14 knows no incremental change.
    changed = {"retention.ms": "123456", **config}
    await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changed)])
    expected.check("retention.ms", await value("retention.ms"), "123456")
    await client.delete_topics([topic + "-gone"])
    await client.close()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
