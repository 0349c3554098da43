"""A copy by aiokafka, exactly once, with aborts at random: BOOTSTRAP SOURCE SINK. It ends with the
first error.

aiokafka commits a group's offsets without its generation (it has no KIP-447), so two members of one
group cannot fence each other. So this consumer is no member: it reads its partition by assignment,
from the committed offset, and asks for that offset only when its producer has taken the
transactional id, which ends what an earlier copier left open.
"""

from __future__ import annotations

import asyncio
import random
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

ABORTS = 0.15
RECORDS_MAX = 50
TRANSACTION_MS = 15_000


async def copy(bootstrap: str, source: str, sink: str) -> None:
    """Copy without end. Raises aiokafka's errors."""
    partition = TopicPartition(source, 0)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=sink,
        transaction_timeout_ms=TRANSACTION_MS,
    )
    await producer.start()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=sink,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    consumer.assign([partition])
    while (position := await consumer.committed(partition)) is None:  # noqa: ASYNC110
        await asyncio.sleep(0.5)  # the group has an offset: aiokafka hides a coordinator's error
    consumer.seek(partition, position)
    while True:
        found = await consumer.getmany(partition, timeout_ms=500, max_records=RECORDS_MAX)
        records = found.get(partition, [])
        if not records:
            continue
        await producer.begin_transaction()
        sent = [await producer.send(sink, record.value, partition=0) for record in records]
        await asyncio.gather(*sent)  # aiokafka commits a transaction whose batches were refused
        after = records[-1].offset + 1
        await producer.send_offsets_to_transaction({partition: after}, sink)
        if random.random() < ABORTS:
            await producer.abort_transaction()
            consumer.seek(partition, position)
        else:
            await producer.commit_transaction()
            position = after


asyncio.run(copy(*sys.argv[1:]))
