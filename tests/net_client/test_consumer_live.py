"""The consumer against a real broker: positions, prefetch, commits; at most once and at least
once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from clients.fixtures import Kafka
from net_client.support import Cutter, eventually, trio_test

from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from pk.net.client.connection import RequestTrace
from pk.net.client.consumer import open_consumer
from pk.net.client.errors import NoOffset
from pk.net.client.producer import open_producer
from pk.net.client.results import NewTopic, OffsetAndMetadata
from pk.net.client.subscription import ConsumerRecord

Fresh = Callable[[str], str]
EARLIEST = {"auto.offset.reset": "earliest"}


async def fill(kafka: Kafka, topic: str, count: int, partitions: int = 1) -> None:
    """A topic with `count` records a partition: value = number, timestamp = 1000 + number.

    They are kept for ever, or retention would come upon records this old in the middle of a test.
    """
    async with open_admin(kafka.bootstrap) as admin:
        new = NewTopic(topic, partitions, 1, configs={"retention.ms": "-1"})
        answers = await admin.create_topics([new])
        assert topic in answers.ok, answers
    async with open_producer(kafka.bootstrap, {"batch.size": 1000}) as producer:
        for partition in range(partitions):
            for number in range(count):
                await producer.send(
                    topic, b"%d" % number, partition=partition, timestamp_ms=1000 + number
                )


def values(records: list[ConsumerRecord]) -> list[int]:
    return [int(record.value or b"-1") for record in records]


def test_seeking_to_wherever(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("seek")
    tp = TopicPartition(topic, 0)

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 100)
        async with open_consumer(kafka.bootstrap) as consumer:
            consumer.assign([tp])
            assert await consumer.position(tp) == 100  # auto.offset.reset is latest
            assert await consumer.poll(timeout_ms=50) == []
            consumer.seek(tp, 37)
            assert values(await consumer.poll(records_max=3)) == [37, 38, 39]
            assert await consumer.position(tp) == 40
            assert consumer.lag(tp) == 60
            consumer.seek_to_beginning()
            assert values(await consumer.poll(records_max=1)) == [0]
            consumer.seek_to_time(1050)
            assert values(await consumer.poll(records_max=1)) == [50]
            consumer.seek_to_time(99_999)
            assert await consumer.position(tp) == 100
            consumer.seek_to_end([tp])
            assert await consumer.poll(timeout_ms=50) == []
            assert consumer.high_watermark(tp) == 100
            with pytest.raises(KeyError):
                consumer.seek(TopicPartition(topic, 1), 0)
            found = await consumer.offsets_for_times({tp: 1099})
            assert found.value(tp).offset == 99

    main()


def test_reset_policies(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("reset")
    tp = TopicPartition(topic, 0)

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 10)
        for policy, expected in (("earliest", 0), ("latest", 10), ("by_duration:P1D", 10)):
            config = {"auto.offset.reset": policy}
            async with open_consumer(kafka.bootstrap, config) as consumer:
                consumer.assign([tp])
                assert await consumer.position(tp) == expected
                consumer.seek(tp, 500)  # out of range: the policy again
                while await consumer.position(tp) != 10:
                    await consumer.poll(timeout_ms=50)
        async with open_consumer(kafka.bootstrap, {"auto.offset.reset": "none"}) as consumer:
            consumer.assign([tp])
            with pytest.raises(NoOffset, match="no committed offset"):
                await consumer.poll()
            consumer.seek(tp, 500)
            with pytest.raises(NoOffset, match="out of range"):
                await consumer.poll()
            consumer.seek(tp, 8)
            assert values(await consumer.poll()) == [8, 9]

    main()


def test_pausing_keeps_what_was_fetched(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("pause")
    first, second = (TopicPartition(topic, p) for p in range(2))

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 20, 2)
        async with open_consumer(kafka.bootstrap, EARLIEST) as consumer:
            consumer.assign([first, second])
            got = await consumer.poll(records_max=5)
            held = TopicPartition(topic, got[0].partition)
            consumer.pause([held])
            assert consumer.paused == {held}
            rest: list[ConsumerRecord] = []
            while len(rest) < 20:
                rest += await consumer.poll()
            assert {r.partition for r in rest} == {1 - held.partition}
            assert await consumer.poll(timeout_ms=50) == []
            consumer.resume([held])
            while len(got) < 20:
                got += await consumer.poll()
            assert values(got) == list(range(20))

    main()


def test_whole_batches_and_records_may_alternate(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("batches")
    tp = TopicPartition(topic, 0)

    @trio_test
    async def main() -> None:
        from pk.core.record.batch import records

        await fill(kafka, topic, 500)
        async with open_consumer(kafka.bootstrap, EARLIEST) as consumer:
            consumer.assign([tp])
            got = values(await consumer.poll(records_max=7))
            while len(got) < 500:
                for batch in await consumer.poll_batches(bytes_max=1):
                    read = [r for r in records(batch.data) if r.offset >= batch.start_offset]
                    got += [int(r.value or b"-1") for r in read]
                got += values(await consumer.poll(records_max=3, timeout_ms=0))
            assert got == list(range(500))

    main()


def test_fetches_in_a_session_name_only_what_changed(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("session")
    count = 40

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 1, count)
        traces: list[RequestTrace] = []
        config = EARLIEST | {"fetch.max.wait.ms": 50}
        async with open_consumer(kafka.bootstrap, config, on_request=traces.append) as consumer:
            consumer.assign([TopicPartition(topic, p) for p in range(count)])
            got: list[ConsumerRecord] = []
            while len(got) < count:
                got += await consumer.poll()
            assert {r.partition for r in got} == set(range(count))
            while True:
                sizes = [t.bytes_out for t in traces if t.api_name == "Fetch" and t.error is None]
                if len(sizes) > 6:
                    break
                await consumer.poll(timeout_ms=50)
        assert min(sizes[2:]) < 60 < sizes[0]

    main()


def test_a_lost_connection_is_made_again(
    kafka: Kafka, fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = fresh("lost")

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 300)
        cutter = Cutter(monkeypatch, 1, {1, 3, 4})
        config = EARLIEST | {"max.partition.fetch.bytes": 1000, "reconnect.backoff.ms": 1}
        async with open_consumer(kafka.bootstrap, config) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            got: list[ConsumerRecord] = []
            while len(got) < 300:
                got += await consumer.poll()
        assert cutter.cuts == 3
        assert values(got) == list(range(300))

    main()


def test_a_cancelled_poll_loses_nothing(kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("cancel")

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 200)
        got: list[int] = []
        async with open_consumer(kafka.bootstrap, EARLIEST) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            delay = 0.0
            while len(got) < 200:
                with trio.move_on_after(delay):
                    got += values(await consumer.poll(records_max=3))
                delay = delay + 0.0005 if delay < 0.02 else 0.0
        assert got == list(range(200))

    main()


def test_at_least_once_commits_after_processing(kafka: Kafka, fresh: Fresh) -> None:
    """A program that dies before its commit reads uncommitted records again and misses nothing."""
    topic, group = fresh("atleast"), fresh("group")
    config = EARLIEST | {"group.id": group, "enable.auto.commit": False, "max.poll.records": 10}

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 50)
        processed: list[int] = []
        for dies_after in (2, 3, None):
            try:
                async with open_consumer(kafka.bootstrap, config) as consumer:
                    consumer.subscribe([topic])
                    rounds = 0
                    while not processed or processed[-1] != 49:
                        processed += values(await consumer.poll())
                        rounds += 1
                        if rounds == dies_after:
                            raise ArithmeticError
                        await consumer.commit()
            except ArithmeticError:
                continue
        assert set(processed) == set(range(50))
        assert processed == [*range(20), *range(10, 40), *range(30, 50)]

    main()


def test_at_most_once_commits_before_processing(kafka: Kafka, fresh: Fresh) -> None:
    """A program that dies after its commit never sees a record twice, and misses the records it had
    not processed."""
    topic, group = fresh("atmost"), fresh("group")
    config = EARLIEST | {"group.id": group, "enable.auto.commit": False, "max.poll.records": 10}

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 50)
        processed: list[int] = []
        for dies_after in (2, None):
            try:
                async with open_consumer(kafka.bootstrap, config) as consumer:
                    consumer.subscribe([topic])
                    rounds = 0
                    while not processed or processed[-1] != 49:
                        records = await consumer.poll()
                        await consumer.commit()
                        rounds += 1
                        if rounds == dies_after:
                            raise ArithmeticError
                        processed += values(records)
            except ArithmeticError:
                continue
        assert processed == [*range(10), *range(20, 50)]

    main()


def test_auto_commit_commits_what_earlier_polls_returned(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("auto"), fresh("group")
    tp = TopicPartition(topic, 0)
    config = EARLIEST | {"group.id": group, "auto.commit.interval.ms": 0, "max.poll.records": 10}

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 30)
        async with open_admin(kafka.bootstrap) as admin:
            with pytest.raises(ArithmeticError):
                async with open_consumer(kafka.bootstrap, config) as consumer:

                    async def committed() -> object:
                        return (await consumer.committed([tp])).ok

                    consumer.subscribe([topic])
                    assert values(await consumer.poll()) == list(range(10))
                    assert values(await consumer.poll()) == list(range(10, 20))
                    await eventually(committed, {tp: OffsetAndMetadata(10, 0)})
                    raise ArithmeticError  # the second ten were returned, but never processed
            assert (await admin.list_group_offsets(group)).ok == {tp: OffsetAndMetadata(10, 0)}
            async with open_consumer(kafka.bootstrap, config) as consumer:
                consumer.subscribe([topic])
                assert values(await consumer.poll()) == list(range(10, 20))
            # A block that ends well commits.
            assert (await admin.list_group_offsets(group)).ok == {tp: OffsetAndMetadata(20, 0)}

    main()


def test_commits_without_joining(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("simple"), fresh("group")
    tp = TopicPartition(topic, 0)

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 10)
        config = EARLIEST | {"group.id": group, "enable.auto.commit": False}
        async with open_consumer(kafka.bootstrap, config) as consumer:
            consumer.assign([tp])
            await consumer.poll(records_max=4)
            await consumer.commit()
            assert (await consumer.committed([tp])).value(tp) == OffsetAndMetadata(4, 0)
            await consumer.commit({tp: 7})
        async with open_consumer(kafka.bootstrap, config) as consumer:
            consumer.assign([tp])
            assert values(await consumer.poll()) == [7, 8, 9]
            with pytest.raises(ValueError, match="unassign"):
                consumer.subscribe([topic])

    main()


def test_a_loop_that_ends_commits_only_what_it_was_given(kafka: Kafka, fresh: Fresh) -> None:
    topic, group = fresh("loop"), fresh("group")
    tp = TopicPartition(topic, 0)
    config = EARLIEST | {"group.id": group, "auto.commit.interval.ms": 3_600_000}

    @trio_test
    async def main() -> None:
        await fill(kafka, topic, 10)
        async with open_consumer(kafka.bootstrap, config) as consumer:
            consumer.assign([tp])
            async for record in consumer:
                if record.offset == 1:
                    await consumer.commit()
                    assert (await consumer.committed([tp])).value(tp) == OffsetAndMetadata(2, 0)
                if record.offset == 3:
                    break
            assert values(await consumer.poll(records_max=2)) == [4, 5]
            async for record in consumer:
                assert record.offset == 6
                break
        async with open_consumer(kafka.bootstrap, config) as consumer:
            consumer.assign([tp])
            seen: list[int] = []
            async for record in consumer:
                seen.append(record.offset)
                if record.offset == 8 and len(seen) == 2:
                    consumer.seek(tp, 7)
                if record.offset == 9:
                    break
            assert seen == [7, 8, 7, 8, 9]

    main()
