"""Transactions of the producer against a real broker, by both protocols: seen whole or not at all,
and exactly once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka
from net_client.support import eventually, trio_test

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.core.wire.messages.end_txn import EndTxnRequest
from pk.net.client.admin import open_admin
from pk.net.client.config import ConfigError
from pk.net.client.connection import REQUEST_GUARD, Connection
from pk.net.client.consumer import open_consumer
from pk.net.client.delivery import Delivery
from pk.net.client.errors import NoTransaction
from pk.net.client.producer import open_producer
from pk.net.client.results import GroupMetadata, NewTopic, OffsetAndMetadata
from pk.net.client.transaction import Aborted

Fresh = Callable[[str], str]

_FIRST_PROTOCOL = {24: 3, 25: 3, 26: 4, 28: 4}
"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit as clients before KIP-890 know
them."""


@pytest.fixture(params=[1, 2], ids=["tv1", "tv2"], autouse=True)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The `transaction.version` by which the producer goes."""
    if request.param == 1:
        agree = Connection.negotiate_versions

        async def agree_as_then(self: Connection) -> None:
            await agree(self)
            for key, newest in _FIRST_PROTOCOL.items():
                low, high = self.api_versions[key]
                self.api_versions[key] = (low, min(high, newest))

        monkeypatch.setattr(Connection, "negotiate_versions", agree_as_then)
    return request.param


async def create(kafka: Kafka, name: str, partitions: int = 1) -> None:
    async with open_admin(kafka.bootstrap) as admin:
        answers = await admin.create_topics([NewTopic(name, partitions, 1)])
        assert name in answers.ok, answers


async def committed(kafka: Kafka, topic: str, partitions: int = 1) -> list[bytes | None]:
    """The values that read_committed sees."""
    return await values(kafka, topic, partitions, "read_committed")


async def seen(kafka: Kafka, topic: str, expected: list[bytes], partitions: int = 1) -> None:
    """The records that read_committed sees once the markers are written, which is after the answer
    to the commit."""

    async def look() -> list[bytes]:
        return sorted(value or b"" for value in await committed(kafka, topic, partitions))

    await eventually(look, expected)


async def values(kafka: Kafka, topic: str, partitions: int, isolation: str) -> list[bytes | None]:
    config = {"auto.offset.reset": "earliest", "isolation.level": isolation}
    found: list[bytes | None] = []
    async with open_consumer(kafka.bootstrap, config) as consumer:
        assigned = [TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(assigned)
        ends = await consumer.end_offsets(assigned)
        wanted = {p: ends.ok[p].offset if p in ends.ok else 0 for p in ends}
        # A position may pass this end, because a transaction may end in between.
        while any([await consumer.position(p) < wanted[p] for p in assigned]):
            found += [record.value for record in await consumer.poll(timeout_ms=200)]
    return found


def test_a_transaction_is_seen_whole_or_not_at_all(kafka: Kafka, fresh: Fresh) -> None:
    topic, name = fresh("whole"), fresh("txn")

    @trio_test
    async def main() -> None:
        await create(kafka, topic, 3)
        config = {"transactional.id": name, "linger.ms": 0}
        async with open_producer(kafka.bootstrap, config) as producer:
            async with producer.transaction():
                for p in range(3):
                    await producer.send(topic, b"first-%d" % p, partition=p)
                await producer.flush()
                assert await committed(kafka, topic, 3) == []
            await seen(kafka, topic, [b"first-0", b"first-1", b"first-2"], 3)
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send(topic, b"never", partition=1)
                    await producer.flush()
                    raise ZeroDivisionError
            for number in range(5):
                async with producer.transaction():
                    await producer.send(topic, b"later-%d" % number, partition=number % 3)
            async with producer.transaction():
                pass  # of nothing
        later = [b"later-%d" % number for number in range(5)]
        await seen(kafka, topic, [b"first-0", b"first-1", b"first-2", *later], 3)
        everything = await values(kafka, topic, 3, "read_uncommitted")
        assert len(everything) == 9 and b"never" in everything

    main()


def test_a_newer_producer_fences_the_older_one(kafka: Kafka, fresh: Fresh) -> None:
    topic, name = fresh("fenced"), fresh("txn")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        config = {"transactional.id": name, "linger.ms": 0}
        async with (
            open_producer(kafka.bootstrap, config) as older,
            open_producer(kafka.bootstrap, config) as newer,
        ):
            with pytest.raises(KafkaError) as failed:
                async with older.transaction():
                    await older.send(topic, b"old")
                    await older.flush()
                    async with newer.transaction():  # aborts what the other one has open
                        await newer.send(topic, b"new")
            fences = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
            assert failed.value.code in fences
            with pytest.raises(KafkaError):
                async with older.transaction():
                    pass
        await seen(kafka, topic, [b"new"])

    main()


def test_a_record_that_is_refused_makes_the_transaction_abort(kafka: Kafka, fresh: Fresh) -> None:
    topic, small, name = fresh("refused"), fresh("small"), fresh("txn")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        async with open_admin(kafka.bootstrap) as admin:
            tiny = NewTopic(small, 1, 1, configs={"max.message.bytes": "200"})
            (await admin.create_topics([tiny])).value(small)
        config = {"transactional.id": name, "linger.ms": 0}
        async with open_producer(kafka.bootstrap, config) as producer:
            with pytest.raises(KafkaError) as failed:
                async with producer.transaction():
                    await producer.send(topic, b"with it")
                    await producer.send(small, bytes(1000))
            assert failed.value.code == ErrorCode.MESSAGE_TOO_LARGE
            async with producer.transaction():
                await producer.send(topic, b"next")
                await producer.send(small, b"fits")
        await seen(kafka, topic, [b"next"])
        await seen(kafka, small, [b"fits"])

    main()


def test_records_belong_into_a_transaction(kafka: Kafka, fresh: Fresh) -> None:
    topic, name = fresh("belong"), fresh("txn")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        async with open_producer(kafka.bootstrap, {"transactional.id": name}) as producer:
            with pytest.raises(NoTransaction):
                await producer.send(topic, b"outside")
            async with producer.transaction():
                with pytest.raises(NoTransaction):
                    async with producer.transaction():
                        pass
                await producer.send(topic, b"inside")
        async with open_producer(kafka.bootstrap) as plain:
            with pytest.raises(NoTransaction):
                async with plain.transaction():
                    pass
        await seen(kafka, topic, [b"inside"])
        with pytest.raises(ConfigError, match="acks must be all"):
            async with open_producer(kafka.bootstrap, {"transactional.id": name, "acks": 1}):
                pass

    main()


def test_a_cancelled_block_aborts(kafka: Kafka, fresh: Fresh) -> None:
    topic, name = fresh("cancelled"), fresh("txn")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        config = {"transactional.id": name, "linger.ms": 5000}
        async with open_producer(kafka.bootstrap, config) as producer:
            deliveries: list[Delivery] = []
            with trio.CancelScope() as scope:
                async with producer.transaction():
                    deliveries.append(await producer.send(topic, b"never"))
                    await producer.flush()
                    deliveries.append(await producer.send(topic, b"not even sent"))
                    scope.cancel()
                    await trio.sleep_forever()
            assert scope.cancelled_caught
            assert (await deliveries[0]).offset == 0
            with pytest.raises(Aborted):
                await deliveries[1]
            async with producer.transaction():
                await producer.send(topic, b"after")
        await seen(kafka, topic, [b"after"])

    main()


def test_a_block_that_is_cancelled_while_it_commits_leaves_the_producer_usable(
    kafka: Kafka, fresh: Fresh
) -> None:
    topic, name = fresh("committing"), fresh("txn")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        config = {"transactional.id": name, "linger.ms": 0}
        async with open_producer(kafka.bootstrap, config) as producer:
            scope = trio.CancelScope()

            def cancel_at_commit(request: Any) -> None:
                if isinstance(request, EndTxnRequest):
                    scope.cancel()  # it is sent all the same, and its answer is not waited for

            token = REQUEST_GUARD.set(cancel_at_commit)
            with scope:
                async with producer.transaction():
                    await producer.send(topic, b"first")
            REQUEST_GUARD.reset(token)
            assert scope.cancelled_caught
            async with producer.transaction():
                await producer.send(topic, b"second")
        await seen(kafka, topic, [b"first", b"second"])

    main()


def test_read_process_write_counts_each_input_once(kafka: Kafka, fresh: Fresh) -> None:
    source, target = fresh("source"), fresh("target")
    group, name = fresh("group"), fresh("txn")

    @trio_test
    async def main() -> None:
        await create(kafka, source, 2)
        await create(kafka, target, 2)
        async with open_producer(kafka.bootstrap) as producer:
            pairs = [(b"%d" % n, b"%d" % n) for n in range(200)]
            await (await producer.send_many(source, pairs)).wait()
        for crash_after in (37, 90, 10_000):
            await work(kafka, source, target, group, name, crash_after)
        async with open_admin(kafka.bootstrap) as admin:

            async def worked() -> int:
                offsets = await admin.list_group_offsets(group)
                return sum(commit.offset for commit in offsets.ok.values() if commit is not None)

            await eventually(worked, 200)
        await seen(kafka, target, sorted(b"%d" % n for n in range(200)), 2)

    main()


class Crash(Exception):
    pass


async def work(
    kafka: Kafka, source: str, target: str, group: str, name: str, crash_after: int
) -> None:
    """Copy records until all 200 are copied, or crash in the middle of a transaction after this
    many."""
    reading = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "max.poll.records": 20,
    }
    done = 0
    partitions = [TopicPartition(source, 0), TopicPartition(source, 1)]
    async with (
        open_consumer(kafka.bootstrap, reading) as consumer,
        open_producer(kafka.bootstrap, {"transactional.id": name, "linger.ms": 0}) as producer,
    ):
        consumer.assign(partitions)
        try:
            while True:
                async with producer.transaction():
                    records = await consumer.poll(timeout_ms=500)
                    for record in records:
                        await producer.send(target, record.value, key=record.key)
                        done += 1
                        if done == crash_after:
                            await producer.flush()
                            raise Crash
                    metadata = consumer.group_metadata
                    positions = {
                        p: OffsetAndMetadata(await consumer.position(p)) for p in partitions
                    }
                    await producer.send_offsets(positions, metadata)
                if sum(position.offset for position in positions.values()) == 200:
                    break
        except Crash:
            pass


def test_offsets_of_an_aborted_transaction_stay_where_they_were(kafka: Kafka, fresh: Fresh) -> None:
    topic, group, name = fresh("offsets"), fresh("group"), fresh("txn")

    @trio_test
    async def main() -> None:
        await create(kafka, topic)
        here = TopicPartition(topic, 0)
        outside = GroupMetadata(group)
        async with (
            open_producer(kafka.bootstrap, {"transactional.id": name}) as producer,
            open_admin(kafka.bootstrap) as admin,
        ):
            async with producer.transaction():
                await producer.send_offsets({here: OffsetAndMetadata(5)}, outside)
            with pytest.raises(Crash):
                async with producer.transaction():
                    await producer.send_offsets({here: OffsetAndMetadata(9)}, outside)
                    raise Crash

            async def offset() -> int | None:
                commit = (await admin.list_group_offsets(group)).ok.get(here)
                return None if commit is None else commit.offset

            await eventually(offset, 5)
            stranger = GroupMetadata(group, "nobody", 7)
            with pytest.raises(KafkaError) as failed:
                async with producer.transaction():
                    await producer.send_offsets({here: OffsetAndMetadata(1)}, stranger)
            refused = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
            assert failed.value.code in refused

    main()
