"""Segments are copied to remote storage, dropped here, read there, and deleted."""

import logging
from contextlib import suppress
from typing import Any

import pytest
import trio
from broker.cluster import Cluster
from broker.remote.tiered import Tiered, tiered
from group.brokers import simulated

from pk.core.broker.metric_samples import metrics_of
from pk.core.broker.remote import deleted_topics, remote_log_manager
from pk.core.broker.remote.metadata_topic import RemoteLogMetadataTopic
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.remote.metadata import Record, SegmentState, SegmentUpdate
from pk.core.log.remote.storage import RemoteStorageError
from pk.core.log.segment import LOG, file_name
from pk.core.meta.events import TopicDeleted
from pk.core.values import REMOTE_METADATA_TOPIC
from pk.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

COPIED = SegmentState.COPY_FINISHED


class TestCopying:
    @simulated
    async def test_what_is_dropped_here_is_read_from_there(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(3)
            before = await t.read()
            await t.turn()
            assert [s.state for s in t.segments()] == [COPIED] * 3
            assert t.starts() == (0, 0, 26)
            await t.retain(1)
            assert t.starts() == (0, 24, 26)
            assert len(t.storage.objects) == 3
            assert await t.read() == before
            for offset in range(26):
                assert await t.read(offset=offset) == before[offset:]

    @simulated
    async def test_what_is_not_copied_stays_here(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            await t.produce(2)
            await t.retain(1)
            assert t.starts() == (0, 16, 36)
            assert len(await t.read()) == 36

    @simulated
    async def test_an_open_transaction_is_not_copied(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(1)
            t.produce_transactional(sequence=0)
            t.roll()
            await t.turn()
            assert [(s.start_offset, s.end_offset) for s in t.segments()] == [(0, 7)]
            t.abort(commit=True)
            await t.turn()
            assert [(s.start_offset, s.end_offset) for s in t.segments()] == [(0, 7), (8, 10)]

    @pytest.mark.parametrize("done", [False, True])
    def test_a_store_that_fails_is_asked_again(self, done: bool) -> None:
        @simulated
        async def run() -> None:
            async with tiered() as t:
                await t.create(1)
                await t.produce(2)
                t.storage.fail = lambda operation, at: operation == "put" and at is done
                notes, ids = t.noted(), set[bytes]()
                for _ in range(3):
                    with pytest.raises(RemoteStorageError):
                        await t.turn()
                    (begun,) = t.segments()
                    assert begun.state is SegmentState.COPY_STARTED
                    ids.add(begun.id)
                    assert len(t.storage.objects) == done
                    await t.retain(1)
                    assert t.starts() == (0, 0, 18)
                assert t.noted() == notes + 1, "it is begun once"
                t.storage.fail = lambda operation, at: False
                await t.turn()
                assert [s.state for s in t.segments()] == [COPIED] * 2
                assert ids == {t.segments()[0].id}
                assert len(t.storage.objects) == 2

        run()

    @simulated
    async def test_what_a_failed_copy_left_is_deleted_if_it_is_not_due_any_more(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(1)
            t.storage.fail = lambda operation, done: done
            with pytest.raises(RemoteStorageError):
                await t.turn()
            assert len(t.storage.objects) == len(t.segments()) == 1
            t.storage.fail = lambda operation, done: False
            await t.cluster.configure("t", "remote.log.copy.disable", "true")
            await t.turn()
            assert t.segments() == [] and t.storage.objects == {}

    @simulated
    async def test_a_store_that_is_away_is_asked_ever_less_and_logged_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "pk.remote")
        async with tiered() as t:
            await t.create(1)
            await t.produce(2)
            t.storage.fail = lambda operation, done: True
            notes = t.noted()
            await t.manager(1).check()
            await trio.sleep(3600)
            failed = t.storage.asked.count("put")
            assert 115 < failed < 160, "every half minute in the end"
            assert t.noted() == notes + 1
            t.storage.fail = lambda operation, done: False
            await trio.sleep(40)
            assert [s.state for s in t.segments()] == [COPIED] * 2
        said = [one.getMessage() for one in caplog.records if "t-0: remote" in one.getMessage()]
        assert said[0] == "t-0: remote storage: put: the store fails"
        assert said[1].startswith(f"t-0: remote storage works again, after {failed} failures in 3")
        assert len(said) == 2

    @pytest.mark.parametrize("written", [False, True])
    def test_the_note_that_ends_a_copy_may_be_lost(
        self, written: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @simulated
        async def run() -> None:
            async with tiered() as t:
                await t.create(1)
                await t.produce(2)
                write = RemoteLogMetadataTopic.write

                async def lose(topic: RemoteLogMetadataTopic, record: Record) -> None:
                    ends = isinstance(record, SegmentUpdate) and record.state is COPIED
                    if written or not ends:
                        await write(topic, record)
                    if ends:
                        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

                with monkeypatch.context() as patch:
                    patch.setattr(RemoteLogMetadataTopic, "write", lose)
                    with pytest.raises(KafkaError):
                        await t.turn()
                before = await t.read()
                await t.turn()
                assert sorted(s.start_offset for s in t.segments()) == [0, 8]
                assert {s.state for s in t.segments()} == {COPIED}
                assert len(t.storage.objects) == 2
                await t.retain(1)
                assert t.starts() == (0, 16, 18)
                assert await t.read() == before

        run()

    @simulated
    async def test_copying_can_be_disabled(self) -> None:
        async with tiered() as t:
            await t.create(1, retention__bytes="1000", remote__log__copy__disable="true")
            await t.produce(2)
            await t.turn()
            assert t.segments() == []
            await t.retain(1)
            start, local, _ = t.starts()
            assert start == local == 8, "its whole retention counts here then"


class TestFollowers:
    @simulated
    async def test_a_follower_drops_what_its_leader_copied(self) -> None:
        async with tiered(3) as t:
            await t.create(1, 2, 3)
            await t.produce(3)
            await t.cluster.settled(1, 2, 3)
            await t.turn()
            known = [COPIED] * 3
            await t.cluster.until(
                lambda: all([s.state for s in t.segments(n)] == known for n in (2, 3))
            )
            await t.retain(1, 2, 3)
            assert t.starts(1) == t.starts(2) == t.starts(3) == (0, 24, 26)

    @simulated
    async def test_a_new_leader_goes_on(self) -> None:
        async with tiered(3) as t:
            await t.create(1, 2, 3)
            await t.produce(2)
            await t.turn()
            await t.retain(1)
            before = await t.read()
            await t.cluster.settled_from(0, 2, 3)
            await t.cluster.change("t", 0, leader=2)
            await t.produce(2, node=2)
            await t.turn(2)
            assert [s.start_offset for s in t.segments(2)] == [0, 8, 16, 26]
            await t.retain(2)
            assert t.starts(2) == (0, 34, 36)
            values = await t.read(2)
            assert values[: len(before)] == before and len(values) == 36

    @simulated
    async def test_after_a_crash_the_watermark_is_not_below_what_is_here(self) -> None:
        """A follower could not fetch what would raise it."""
        async with tiered(2) as t:
            await t.create(1, 2)
            await t.produce(3)
            await t.turn()
            await t.retain(1)
            assert t.starts(1) == (0, 24, 26)
            await t.cluster.crash(2)
            await t.cluster.crash(1, power=False)
            await t.cluster.start(1)
            assert t.starts(1) == (0, 24, 26)
            assert t.cluster.partition(1).high_watermark >= 24

    @simulated
    async def test_an_empty_follower_begins_with_what_its_leader_has_here(self) -> None:
        async with tiered(3) as t:
            await t.create(1, 2)
            await t.produce(3)
            await t.turn()
            await t.retain(1, 2)
            before = await t.read()
            await t.cluster.change("t", 0, replicas=(1, 2, 3))
            await t.cluster.until(lambda: t.starts(3) == (0, 24, 26))
            ours, theirs = (t.cluster.partition(n).log.state for n in (3, 1))
            assert ours.epochs.entries == theirs.epochs.entries
            assert ours.segments[0].base_offset == 24
            await t.cluster.until(lambda: 3 in t.cluster.isr())
            await t.cluster.change("t", 0, leader=3)
            await t.turn(3)
            assert await t.read(3) == before
            await t.cluster.crash(3)
            await t.cluster.start(3)
            assert t.starts(3)[:2] == (0, 24)

    @simulated
    async def test_a_follower_waits_while_the_store_is_away(self) -> None:
        async with tiered(2) as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            await t.retain(1)
            t.storage.fail = lambda operation, done: operation == "get"
            await t.cluster.change("t", 0, replicas=(1, 2))
            await t.cluster.until(lambda: t.storage.asked.count("get") > 2)
            assert t.starts(2)[2] == 0
            t.storage.fail = lambda operation, done: False
            await t.cluster.until(lambda: t.starts(2) == (0, 16, 18))

    @simulated
    async def test_damaged_metadata_is_not_replayed(self) -> None:
        """It is read again until the leader has repaired it."""
        async with tiered(2) as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            await t.retain(1)
            replicas = t.cluster.broker(1).data.replicas
            found = [replicas.find(REMOTE_METADATA_TOPIC, number) for number in range(2)]
            (log,) = [p.log for p in found if p is not None and p.log.state.log_end_offset]
            file = t.cluster.disk(1).open(f"{log.state.directory}/{file_name(0, LOG)}")
            (whole,) = file.pread(1, 90)
            file.pwrite(bytes([whole ^ 1]), 90)
            await t.cluster.change("t", 0, replicas=(1, 2))
            await trio.sleep(5)
            assert t.segments(2) == []
            file.pwrite(bytes([whole]), 90)
            await t.cluster.until(lambda: t.starts(2) == (0, 16, 18))
            assert t.segments(2) == t.segments(1)

    @simulated
    async def test_what_a_dead_leader_began_is_deleted_by_the_next(self) -> None:
        async with tiered(2) as t:
            await t.create(1, 2)
            await t.produce(2)
            await t.cluster.settled(1, 2)

            def die(operation: str, done: bool) -> bool:
                raise Died

            t.storage.fail = die
            with pytest.raises(Died):
                await t.turn()
            t.storage.fail = lambda operation, done: False
            await t.cluster.until(lambda: len(t.segments(2)) == 1)
            assert t.segments(2)[0].state is SegmentState.COPY_STARTED
            await t.cluster.change("t", 0, leader=2)
            await t.turn(2)
            assert [s.state for s in t.segments(2)] == [COPIED] * 2
            assert len(t.storage.objects) == 2


class Died(BaseException):
    """The process ends here."""


class TestDeleting:
    @simulated
    async def test_the_whole_retention_deletes_there(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(4)
            await t.turn()
            await t.retain(1)
            size = t.segments()[0].size
            active = t.cluster.partition(1).log.state.segments[-1].size
            await t.cluster.configure("t", "retention.bytes", str(2 * size + active))
            await t.turn()
            assert [s.start_offset for s in t.segments()] == [16, 24]
            assert t.starts() == (16, 32, 34)
            assert len(t.storage.objects) == 2
            found = await t.fetch(15)
            assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert len(await t.read(offset=16)) == 18

    @simulated
    async def test_old_segments_are_deleted(self) -> None:
        async with tiered() as t:
            await t.create(1, retention__ms="60000")
            await t.produce(2)
            await t.turn()
            await trio.sleep(61)
            await t.produce(1)
            await t.turn()
            assert t.segments()[0].start_offset >= 16
            assert t.starts()[0] == t.segments()[0].start_offset

    @simulated
    async def test_a_leader_that_does_not_know_the_start_of_its_log_finds_it(self) -> None:
        """A follower writes the log's start to disk every minute, and loses later changes in a
        crash."""
        async with tiered(2) as t:
            await t.create(1, 2, retention__ms="60000")
            await t.produce(2)
            await t.turn()
            await t.retain(1, 2)
            await trio.sleep(61)
            await t.produce(1)
            await t.turn()
            start, _, end = t.starts(1)
            assert start > 0
            await t.cluster.until(lambda: t.ends() == {end} and t.starts(2)[0] == start)
            follower = t.cluster.partition(2)
            follower.log.state.log_start_offset = 0
            await t.retain(2)
            await t.cluster.change("t", 0, leader=2)
            await t.turn(2)
            await t.cluster.until(lambda: follower.high_watermark == end)
            await t.turn(2)
            assert t.starts(2)[0] == start
            found = await t.fetch(start, 2)
            assert found.error_code == 0 and found.records

    @simulated
    async def test_a_leader_that_lost_its_leader_epochs_reads_them_from_the_store(self) -> None:
        """This happens if the file with them is gone: the remaining epochs begin with the first
        local segment."""
        async with tiered(2) as t:
            await t.create(1, 2)
            for leader in (2, 1):
                await t.produce(2, node=3 - leader)
                await t.turn(3 - leader)
                await t.retain(1, 2)
                await t.cluster.until(lambda: len(t.ends()) == 1)
                await t.cluster.change("t", 0, leader=leader)
            await t.produce(1)
            await t.turn()
            await t.retain(1, 2)
            await t.cluster.until(lambda: len(t.ends()) == 1)
            state = t.cluster.partition(2).log.state
            whole = state.epochs.entries
            start, local_start, _ = t.starts(2)
            assert whole[0].start_offset == start == 0 and len(whole) >= 3
            state.epochs.truncate_start(local_start)
            count = len(t.segments())
            await t.cluster.change("t", 0, leader=2)
            await t.turn(2)
            assert state.epochs.entries[: len(whole)] == whole
            assert len(t.segments(2)) == count and t.starts(2)[0] == 0
            assert await t.read(2) == t.sent

    @simulated
    async def test_lost_leader_epochs_may_be_in_several_segments(self) -> None:
        """A segment has the epochs of its own time: the log may have begun with it, in a start that
        a crash has forgotten since."""
        async with tiered(2) as t:
            await t.create(1, 2)
            for _ in range(3):
                await t.produce(1)
                t.cluster.partition(1).log.state.epochs.truncate_start(t.starts(1)[1])
                await t.turn()
                await t.retain(1, 2)
                await t.cluster.until(lambda: len(t.ends()) == 1)
            state = t.cluster.partition(2).log.state
            state.epochs.truncate_start(t.starts(2)[1])
            await t.cluster.change("t", 0, leader=2)
            await t.turn(2)
            assert state.epochs.entries[0].start_offset == t.starts(2)[0] == 0
            assert await t.read(2) == t.sent

    @simulated
    async def test_deleted_records_are_deleted_there(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(3)
            await t.turn()
            await t.retain(1)
            request = DeleteRecordsRequest(
                timeout_ms=1000,
                topics=[
                    DeleteRecordsTopic(
                        name="t",
                        partitions=[DeleteRecordsPartition(partition_index=0, offset=10)],
                    )
                ],
            )
            answer = await t.cluster.ask(1, request, 2)
            assert answer.topics[0].partitions[0].low_watermark == 10
            await t.turn()
            assert [s.start_offset for s in t.segments()] == [8, 16]
            assert t.starts() == (10, 24, 26)
            assert len(await t.read(offset=10)) == 16

    @simulated
    async def test_a_start_that_a_crash_forgets_leaves_no_gap(self) -> None:
        """Records that are deleted before they are copied would be in neither tier, behind those
        that are in the store."""
        for settled in (False, True):
            async with tiered() as t:
                await t.create(1)
                await t.produce(2)
                await t.turn()
                t.storage.fail = lambda operation, done: operation == "put"
                await t.produce(2)
                partition = t.cluster.partition(1)
                partition.log.log_dir.write_log_start_offsets()
                end = partition.high_watermark
                partition.delete_before(end)
                assert t.starts()[0] == end
                if settled:
                    await trio.sleep(1)
                    assert len(partition.log.state.segments) == 1
                await t.cluster.crash(1, power=False)
                await t.cluster.start(1)
                with suppress(RemoteStorageError):
                    await t.turn()
                start = end if settled else 0
                assert t.starts()[0] == start
                assert await t.read(offset=start) == t.sent[start:]

    @simulated
    async def test_a_follower_that_begins_anew_does_not_forget_where_in_a_crash(self) -> None:
        async with tiered(2) as t:
            await t.create(1, 2)
            await t.produce(1)
            await t.turn()
            t.storage.fail = lambda operation, done: operation == "put"
            t.cluster.partition(2).log.log_dir.write_log_start_offsets()
            await t.cluster.crash(2)
            await t.cluster.change("t", 0, isr=(1,))
            await t.produce(2)
            partition = t.cluster.partition(1)
            end = partition.high_watermark
            partition.delete_before(end)
            await t.cluster.start(2)
            await t.cluster.until(lambda: t.starts(2) == (end, end, end))
            await t.cluster.crash(1)
            await t.cluster.crash(2)
            await t.cluster.start(2)
            assert t.starts(2) == (end, end, end)

    @simulated
    async def test_a_deletion_that_fails_is_tried_again(self) -> None:
        async with tiered() as t:
            await t.create(1, retention__bytes="0")
            await t.produce(1)
            t.storage.fail = lambda operation, done: operation == "delete" and not done
            with pytest.raises(RemoteStorageError):
                await t.turn()
            assert [s.state for s in t.segments()] == [SegmentState.DELETE_STARTED]
            t.storage.fail = lambda operation, done: False
            await t.turn()
            assert t.segments() == [] and t.storage.objects == {}

    @simulated
    async def test_a_deleted_topic_is_deleted_there(self) -> None:
        async with tiered(2) as t:
            await t.create(1, 2)
            await t.produce(2)
            await t.turn()
            assert len(t.storage.objects) == 2
            await t.cluster.decide(TopicDeleted(t.topic_id))
            for node in (1, 2):
                await t.manager(node).check()
            await trio.sleep(30)
            for node in (1, 2):
                await t.manager(node).check()
            assert len(t.storage.objects) == 2, "an image may be late"
            await trio.sleep(31)
            for node in (1, 2):
                await t.manager(node).check()
            await t.cluster.until(lambda: not t.storage.objects)

    @pytest.mark.thorough
    @simulated
    async def test_an_upload_may_end_after_its_topic_was_deleted(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(1)
            await t.turn()
            late = dict(t.storage.objects)
            await t.cluster.decide(TopicDeleted(t.topic_id))
            await t.manager(1).check()
            await trio.sleep(deleted_topics.DELETION_DELAY_S)
            await t.manager(1).check()
            await t.cluster.until(lambda: not t.storage.objects and t.manager(1).is_idle)
            t.storage.objects |= late
            await t.manager(1).check()
            assert t.storage.objects == late
            await trio.sleep(deleted_topics.LATE_OBJECTS_S)
            await t.manager(1).check()
            await t.cluster.until(lambda: not t.storage.objects)

    @simulated
    async def test_a_leader_deletes_nothing_above_its_high_watermark(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            await t.cluster.configure("t", "retention.bytes", "0")
            # The state after a crash, until the followers have fetched.
            t.cluster.partition(1).high_watermark = 8
            await t.turn()
            assert t.starts()[0] == 8
            assert [s.start_offset for s in t.segments()] == [8]

    @simulated
    async def test_turning_it_off_deletes_all_of_it(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            await t.retain(1)
            await t.cluster.configure("t", "remote.log.delete.on.disable", "true")
            await t.cluster.configure("t", "remote.storage.enable", "false")
            await t.turn()
            assert t.segments() == [] and t.storage.objects == {}
            assert t.starts() == (16, 16, 18)
            assert len(await t.read(offset=16)) == 2

    @simulated
    async def test_turned_on_again_before_all_is_deleted_it_has_what_was_here(self) -> None:
        """In this case Apache Kafka 4.3.1 takes the deleted segments for copied ones, and deletes
        records that were only local."""
        for last in (0, 2, 4):
            async with tiered() as t:
                await t.create(1)
                await t.produce(2)
                await t.turn()
                await t.retain(1)
                await t.produce(2)
                await t.turn()
                assert t.starts() == (0, 16, 36)
                t.storage.asked.clear()
                t.storage.fail = lambda operation, done, last=last: (
                    operation == "delete" and t.storage.asked.count("delete") > last
                )
                await t.cluster.configure("t", "remote.log.delete.on.disable", "true")
                await t.cluster.configure("t", "remote.storage.enable", "false")
                with suppress(RemoteStorageError):
                    await t.turn()
                await t.cluster.configure("t", "remote.storage.enable", "true")
                t.storage.fail = lambda operation, done: False
                await t.turn()
                await t.retain(1)
                assert t.starts() == (16, 34, 36)
                assert {s.state for s in t.segments()} == {COPIED}
                assert len(t.storage.objects) == len(t.segments())
                assert await t.read(offset=16) == t.sent[16:]

    @simulated
    async def test_turned_off_each_replica_begins_with_what_it_has(self) -> None:
        async with tiered(2) as t:
            await t.create(1, 2)
            await t.produce(2)
            await t.turn()
            await t.retain(2)
            assert t.starts(1) == (0, 0, 18) and t.starts(2) == (0, 16, 18)
            await t.cluster.configure("t", "remote.log.delete.on.disable", "true")
            await t.cluster.configure("t", "remote.storage.enable", "false")
            await t.turn()
            await t.manager(2).check()
            await t.cluster.until(lambda: t.manager(2).is_idle)
            assert t.storage.objects == {}
            assert t.starts(1) == (0, 0, 18) and t.starts(2) == (16, 16, 18)

    @simulated
    async def test_turned_off_while_a_broker_is_down_it_is_deleted_later(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            await t.retain(1)
            t.storage.fail = lambda operation, done: operation == "delete"
            await t.cluster.configure("t", "remote.log.delete.on.disable", "true")
            await t.cluster.configure("t", "remote.storage.enable", "false")
            with pytest.raises(RemoteStorageError):
                await t.turn()
            await t.cluster.crash(1)
            t.storage.fail = lambda operation, done: False
            await t.cluster.start(1)
            await t.manager(1).check()
            await t.cluster.until(lambda: t.manager(1).is_idle)
            assert t.storage.objects == {} and t.segments() == []

    @pytest.mark.thorough
    @simulated
    async def test_turned_off_an_upload_that_ends_late_is_deleted_too(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            late = max(t.storage.objects)
            content = t.storage.objects[late]
            await t.cluster.configure("t", "remote.log.delete.on.disable", "true")
            await t.cluster.configure("t", "remote.storage.enable", "false")
            await t.turn()
            t.storage.objects[late] = content
            await trio.sleep(remote_log_manager.SCAN_S)
            await t.turn()
            assert t.storage.objects == {}


class TestReading:
    @simulated
    async def test_a_store_that_is_away_is_no_empty_log(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            await t.retain(1)
            t.storage.fail = lambda operation, done: True
            found = await t.fetch(3)
            assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            t.storage.fail = lambda operation, done: False
            assert len(await t.read(offset=3)) == 15

    @simulated
    async def test_a_leader_that_does_not_know_its_segments_yet_says_so(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(2)
            await t.turn()
            await t.retain(1)
            t.cluster.partition(1).remote = None
            found = await t.fetch(3)
            assert found.error_code == ErrorCode.REPLICA_NOT_AVAILABLE

    @simulated
    async def test_aborted_transactions_across_segments(self) -> None:
        async with tiered() as t:
            await t.create(1)
            for sequence, ends in enumerate((False, True, False, True)):
                t.produce_transactional(sequence=sequence)
                if ends:
                    t.abort()
                t.roll()
            local = [await t.fetch(offset, isolation=1) for offset in range(6)]
            await t.produce(1)
            await t.turn()
            await t.retain(1)
            assert t.starts()[1] > 6
            for offset in range(6):
                found = await t.fetch(offset, isolation=1)
                expected = {
                    (a.producer_id, a.first_offset)
                    for a in local[offset].aborted_transactions or ()
                }
                theirs = {(a.producer_id, a.first_offset) for a in found.aborted_transactions or ()}
                assert theirs and theirs <= expected

    @simulated
    async def test_without_aborted_transactions_no_later_segment_is_asked_for_any(self) -> None:
        async with tiered() as t:
            await t.create(1)
            await t.produce(5)
            await t.turn()
            await t.retain(1)
            assert len(t.segments()) == 5
            t.storage.asked.clear()
            found = await t.fetch(0, isolation=1)
            assert found.records and found.aborted_transactions == []
            assert t.storage.asked == ["get", "get"], "a segment's tail, and its records"

    @simulated
    async def test_offsets_by_name_and_by_time(self) -> None:
        async with tiered() as t:
            await t.create(1)
            for _ in range(3):
                await t.produce(1)
                await trio.sleep(10)
            local = [await offsets(t.cluster, time_ms) for time_ms in times(t.cluster)]
            await t.turn()
            assert await offsets(t.cluster, -4) == 0
            await t.retain(1)
            start, local_start, _ = t.starts()
            assert (start, await offsets(t.cluster, -2)) == (0, 0)
            assert await offsets(t.cluster, -4) == local_start > 0
            assert await offsets(t.cluster, -5) == local_start - 1
            assert await offsets(t.cluster, -6) == local_start
            remote = [await offsets(t.cluster, time_ms) for time_ms in times(t.cluster)]
            assert remote == local


@simulated
async def test_metrics_say_what_was_copied_and_what_is_due() -> None:
    async with tiered() as t:
        await t.create(1)
        await t.produce(2)
        due = await _metrics(t)
        assert due["RemoteCopyLagSegments"] == 2
        await t.turn()
        await t.retain(1)
        await t.read()
        done = await _metrics(t)
        assert done["RemoteCopyLagSegments"] == done["RemoteCopyLagBytes"] == 0
        assert done["RemoteCopyBytesPerSec"] == due["RemoteCopyLagBytes"] > 0
        assert done["RemoteFetchBytesPerSec"] == due["RemoteCopyLagBytes"]
        assert done["RemoteCopyErrorsPerSec"] == 0


async def _metrics(t: Tiered) -> dict[str, Any]:
    return {
        metric.name.rpartition("name=")[2]: metric.samples[0].value
        for metric in await metrics_of(t.cluster.broker(1))
        if "name=Remote" in metric.name
    }


def times(cluster: Cluster) -> list[int]:
    """Times before, within and after those of the produced records, and the latest."""
    now_ms = cluster.broker(1).clock.now_ms()
    base = now_ms - now_ms % 10_000 - 40_000
    return [*range(base, base + 60_000, 2_500), -3]


async def offsets(cluster: Cluster, when: int) -> int:
    """The answer to ListOffsets."""
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=when)]
            )
        ],
    )
    answer = await cluster.ask(1, request, 11)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise KafkaError(found.error_code)
    return found.offset
