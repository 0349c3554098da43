"""The coordinators' runtime on a real broker in memory: loading, leadership, the order of
operations, refusals."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
from group.brokers import TestBroker, running, simulated
from group.scenario import classic_of
from nodes import decide

from pk.core.broker.coordinator.coordinator_shard import CoordinatorShard, State
from pk.core.broker.coordinator.timers import Timers
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.machine import GroupMachine
from pk.core.log.memory_disk import MemoryDisk
from pk.core.machine import Decision
from pk.core.meta.events import TopicDeleted
from pk.core.meta.image import Changes, TopicImage
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.values import OFFSETS_TOPIC, coordinator_partition
from pk.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pk.core.wire.messages.delete_groups import DeleteGroupsRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pk.core.wire.messages.list_groups import ListGroupsRequest
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pk.core.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pk.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pk.core.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

NONE = ErrorCode.NONE
ONE_PARTITION = {"offsets_topic_num_partitions": "1"}


def find(group: str = "g") -> FindCoordinatorRequest:
    return FindCoordinatorRequest(coordinator_keys=[group])


def commit(offset: int, group: str = "g") -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                ],
            )
        ],
    )


def join(member_id: str = "", instance_id: str | None = None, group: str = "g") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")
        ],
    )


async def committed(test: TestBroker, group: str = "g") -> dict[str, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    answer = (await test.ask(request, 9)).groups[0]
    assert answer.error_code == NONE
    return {t.name: t.partitions[0].committed_offset for t in answer.topics}


async def put(test: TestBroker, offset: int, group: str = "g") -> list[int]:
    """Commit: the error codes."""
    return errors(await test.ask(commit(offset, group), 9))


def errors(answer: OffsetCommitResponse) -> list[int]:
    return [p.error_code for t in answer.topics for p in t.partitions]


async def stable(test: TestBroker) -> tuple[str, int]:
    """A static member in a stable group: (its id, the generation)."""
    joined: JoinGroupResponse = await test.ask(join(instance_id="i"))
    assert joined.error_code == NONE
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id="i",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"x")],
    )
    assert (await test.ask(request)).assignment == b"x"
    return joined.member_id, joined.generation_id


def beat(member_id: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)


def only(test: TestBroker) -> CoordinatorShard[Any]:
    (coordinator,) = test.broker.groups.coordinators
    return coordinator


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 0),
        ("polygenelubricants", 0),  # hashes to the one number without an absolute value
        ("console-consumer-1", 24),
        ("g-17662-simple_consumer", 12),  # a negative hash
    ],
)
def test_the_partition_of_a_group(key: str, partition: int) -> None:
    assert coordinator_partition(key, 50) == partition


class TestFinding:
    @simulated
    async def test_the_first_one_makes_the_topic(self) -> None:
        async with running() as test:
            answer = (await test.ask(find())).coordinators[0]
            assert (answer.error_code, answer.node_id) == (NONE, 1)
            assert (answer.host, answer.port) == ("here", 9092)
            topic = test.broker.image.topics[OFFSETS_TOPIC]
            assert len(topic.partitions) == 3
            assert test.broker.image.topic_configs(OFFSETS_TOPIC)["cleanup.policy"] == "compact"
            again = test.ask_now(find())
            assert again.coordinators[0].node_id == 1, "and from then on nothing waits"

    @simulated
    async def test_a_topic_that_cannot_be_made(self) -> None:
        async with running(offsets_topic_replication_factor="3") as test:
            answer = (await test.ask(find())).coordinators[0]
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)

    @simulated
    async def test_old_versions_ask_for_one(self) -> None:
        async with running() as test:
            for version in range(4):
                answer = await test.ask(FindCoordinatorRequest(key="g"), version)
                assert (answer.error_code, answer.node_id, answer.port) == (NONE, 1, 9092)

    @pytest.mark.parametrize(
        ("key_type", "error"),
        [
            (1, ErrorCode.NONE),
            (2, ErrorCode.INVALID_REQUEST),
            (7, ErrorCode.INVALID_REQUEST),
        ],
    )
    @simulated
    async def test_other_kinds_of_keys(self, key_type: int, error: ErrorCode) -> None:
        async with running() as test:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
            answer = await test.ask(request)
            assert [(c.key, c.error_code) for c in answer.coordinators] == [
                ("a", error),
                ("b", error),
            ]
            old = await test.ask(FindCoordinatorRequest(key_type=key_type, key="a"), 3)
            assert old.error_code == error

    @simulated
    async def test_without_a_leader(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.elect(-1)
            answer = (await test.ask(find())).coordinators[0]
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


class TestLeadership:
    @simulated
    async def test_there_is_no_coordinator_before_the_topic(self) -> None:
        async with running() as test:
            await test.create_topics("t")
            assert await put(test, 1) == [ErrorCode.NOT_COORDINATOR]

    @simulated
    async def test_who_waits_is_sent_elsewhere_when_leadership_goes(self) -> None:
        async with running(group_initial_rebalance_delay_ms="3000", **ONE_PARTITION) as test:
            await test.ask(find())
            await test.loaded()
            answers: list[Any] = []

            async def waiting() -> None:
                answers.append(await test.ask(join(instance_id="i")))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting)
                await trio.sleep(1)
                assert not answers
                await test.elect(2)
            assert answers[0].error_code == ErrorCode.NOT_COORDINATOR
            assert trio.current_time() < 3
            assert list(test.broker.groups.coordinators) == []
            heard = await test.ask(beat("m", 1))
            assert heard.error_code == ErrorCode.NOT_COORDINATOR

    @simulated
    async def test_the_state_comes_back_with_leadership(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            await put(test, 5)
            await test.elect(2)
            await test.elect(1)
            await test.loaded()
            assert await committed(test) == {"t": 5}

    @simulated
    async def test_a_new_broker_finds_groups_and_offsets(self) -> None:
        disk = MemoryDisk()
        async with running(disk) as test:
            await test.ask(find())
            await test.create_topics("t")
            for i in range(40):
                await put(test, i, f"group-{i}")
            member_id, generation = await stable(test)
        async with running(disk, offsets_load_buffer_size="300") as test:
            await test.loaded()
            for i in range(40):
                assert await committed(test, f"group-{i}") == {"t": i}
            assert (await test.ask(beat(member_id, generation))).error_code == NONE
            await trio.sleep(9.9)
            assert (await test.ask(beat(member_id, generation))).error_code == NONE, (
                "a whole session after the load"
            )
            await trio.sleep(10.1)
            heard = await test.ask(beat(member_id, generation))
            assert heard.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    @simulated
    async def test_while_it_loads(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            coordinator = only(test)
            coordinator.state = State.LOADING
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert await put(test, 1) == [loading]
            assert (await test.ask(join())).error_code == loading
            assert (await test.ask(beat("m", 1))).error_code == NONE, "Kafka believes it"
            coordinator.follow(Changes(topics_deleted=[TopicImage("u", bytes(16))]))
            await coordinator.load()
            assert await put(test, 1) == [NONE]

    @simulated
    async def test_who_is_closed_before_it_has_loaded_serves_nobody(self) -> None:
        """A bug had it load again, and leadership went before that began."""
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            await put(test, 1)
            coordinator = only(test)
            coordinator.state = State.LOADING
            coordinator.close()
            end = coordinator.partition.log.state.log_end_offset
            await coordinator.load()
            assert coordinator.state is State.CLOSED
            assert coordinator.partition.log.state.log_end_offset == end

    @simulated
    async def test_a_log_that_cannot_be_read_has_no_coordinator(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.loaded()
            partition = test.broker.data.replicas.partition(OFFSETS_TOPIC, 0)
            now_ms = test.broker.clock.now_ms()
            partition.append(build_batch([(now_ms, b"\0\x01", b"?", ())]), now_ms=now_ms)
            await test.elect(1)
            await test.loaded()
            assert only(test).state is State.CLOSED
            assert (await test.ask(beat("m", 1))).error_code == ErrorCode.NOT_COORDINATOR
            assert "cannot be loaded" in caplog.text

    @simulated
    async def test_records_of_other_kinds_and_markers_are_passed_over(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            partition = test.broker.data.replicas.partition(OFFSETS_TOPIC, 0)
            now_ms = test.broker.clock.now_ms()
            await put(test, 1)
            key, value = only(test).machine.encode(
                only(test).machine.decode(b"\0\x01\0\x01g\0\x01t\0\0\0\0", None)
            )
            assert value is None
            partition.append(build_batch([(now_ms, b"\0\x63\0\x01g", b"", ())]), now_ms=now_ms)
            partition.append(
                build_batch(
                    [(now_ms, key, b"\0\0" + (9).to_bytes(8) + b"\0\0" + bytes(8), ())],
                    producer_id=7,
                    producer_epoch=0,
                    base_sequence=0,
                    transactional=True,
                ),
                now_ms=now_ms,
            )
            await test.elect(1)
            await test.loaded()
            assert await committed(test) == {"t": 1}, "the transaction is open"
            partition.append(end_transaction_batch(True, 0, 7, 0, now_ms), now_ms=now_ms)
            await test.elect(1)
            await test.loaded()
            assert await committed(test) == {"t": 9}


class TestDeletingOffsets:
    @simulated
    async def test_what_does_not_exist_is_reported_beside_the_rest(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            await put(test, 1)
            request = OffsetDeleteRequest(
                group_id="g",
                topics=[
                    OffsetDeleteRequestTopic(
                        name=name,
                        partitions=[
                            OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                        ],
                    )
                    for name, indexes in (("t", [1, 0, -1]), ("gone", [0]))
                ],
            )
            answer = await test.ask(request)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert [
                (t.name, sorted((p.partition_index, p.error_code) for p in t.partitions))
                for t in answer.topics
            ] == [("t", [(-1, unknown), (0, NONE), (1, unknown)]), ("gone", [(0, unknown)])]
            assert await committed(test) == {}


class TestWaiting:
    @simulated
    async def test_with_one_replica_nothing_waits(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            member_id, generation = await stable(test)
            assert test.ask_now(beat(member_id, generation)).error_code == NONE
            other = commit(3, "other")
            assert errors(test.ask_now(other, 9)) == [NONE]

    @simulated
    async def test_an_answer_waits_until_its_record_is_safe(self) -> None:
        async with running(log_flush_interval_messages="1", **ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            partition = test.broker.data.replicas.partition(OFFSETS_TOPIC, 0)
            with pytest.raises(AssertionError, match="the handler waits"):
                test.ask_now(commit(1), 9)
            assert partition.high_watermark == 0 < partition.log.state.log_end_offset
            # Records that are written but not yet replicated are not shown to others either.
            assert await committed(test) == {"t": 1}
            assert partition.high_watermark == 1

    @simulated
    async def test_what_is_never_safe_is_not_answered_well(self) -> None:
        async with running(log_flush_interval_messages="1", **ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            test.broker.data.replicas.tasks.flush = lambda partition: None  # type: ignore[method-assign]
            start = trio.current_time()
            answer = await put(test, 1)
            assert answer == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            assert trio.current_time() - start == 5, "offsets.commit.timeout.ms"

    @simulated
    async def test_leadership_lost_before_it_is_safe(self) -> None:
        async with running(log_flush_interval_messages="1", **ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            answers: list[Any] = []
            test.broker.data.replicas.tasks.flush = lambda partition: None  # type: ignore[method-assign]

            async def waiting() -> None:
                answers.append(await put(test, 1))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(waiting)
                await trio.sleep(1)
                await test.elect(2)
            assert answers[0] == [ErrorCode.NOT_COORDINATOR]

    @simulated
    async def test_a_client_that_gives_up_leaves_nothing_behind(self) -> None:
        async with running(group_initial_rebalance_delay_ms="3000", **ONE_PARTITION) as test:
            await test.ask(find())
            await test.loaded()
            with trio.move_on_after(1) as scope:
                await test.ask(join(instance_id="i"))
            assert scope.cancelled_caught
            assert only(test)._waiting == set()
            await trio.sleep(3)
            assert classic_of(only(test).machine).state.value == "CompletingRebalance"


class TestRefusal:
    @simulated
    async def test_the_longest_group_id_drops_no_other_state(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            await put(test, 1)
            machine = only(test).machine
            assert await put(test, 1, "é" * 16_383 + "g") == [NONE]
            assert only(test).machine is machine

    @simulated
    async def test_too_few_in_sync(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            await put(test, 1)
            await test.assign((1, 2))
            await test.configure(OFFSETS_TOPIC, "min.insync.replicas", "2")
            refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await put(test, 2) == [refused]
            assert await committed(test) == {"t": 1}
            assert (await test.ask(join(group="new"))).error_code == refused
            await test.configure(OFFSETS_TOPIC, "min.insync.replicas", "1")
            assert await put(test, 2) == [NONE]
            assert await committed(test) == {"t": 2}

    @simulated
    async def test_too_large_a_batch(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            await test.configure(OFFSETS_TOPIC, "max.message.bytes", "70")
            assert await put(test, 2) == [ErrorCode.UNKNOWN_SERVER_ERROR]

    @simulated
    async def test_a_fault_of_ours_drops_the_state_too(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            await put(test, 1)

            def fail(machine: Any, token: Any, now_ms: int) -> Any:
                machine.offsets.committed.clear()
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                test.broker.groups.coordinators.submit_nowait("g", fail)
            with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
                test.broker.groups.coordinators.submit_nowait("g", fail)
            await test.loaded()
            assert await committed(test) == {"t": 1}


class TestTime:
    @simulated
    async def test_sessions_and_expiry_run_by_themselves(self) -> None:
        async with running(
            offsets_retention_minutes="1",
            offsets_retention_check_interval_ms="60000",
            **ONE_PARTITION,
        ) as test:
            await test.ask(find())
            await test.create_topics("t")
            await stable(test)
            machine = only(test).machine
            await trio.sleep(10.1)
            assert classic_of(machine).state.value == "Empty"
            await trio.sleep(130)
            assert machine.classic.groups == {}

    @simulated
    async def test_a_deleted_topics_offsets_go(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            await put(test, 1)
            topic_id = test.broker.image.topics["t"].topic_id
            await decide(test.broker, lambda image: Decision([TopicDeleted(topic_id)]))
            assert await committed(test) == {}

    @simulated
    async def test_more_offsets_of_a_deleted_topic_than_one_batch_holds_go_too(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            groups = [f"group-{i}" for i in range(20)]
            for group in groups:
                assert await put(test, 1, group) == [NONE]
            await test.configure(OFFSETS_TOPIC, "max.message.bytes", "200")
            topic_id = test.broker.image.topics["t"].topic_id
            await decide(test.broker, lambda image: Decision([TopicDeleted(topic_id)]))
            assert [await committed(test, group) for group in groups] == [{}] * 20

    @simulated
    async def test_a_commit_and_a_deletion_are_encoded_before_they_are_decided(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing else runs from a decision to the end of its replay, and a request may name
        thousands of partitions."""
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            await test.create_topics("t")
            assert await put(test, 5) == [NONE]

            def encode(machine: GroupMachine, record: object) -> None:
                raise AssertionError("encoded within the decision")

            with monkeypatch.context() as patched:
                patched.setattr(GroupMachine, "encode", encode)
                assert await put(test, 7) == [NONE]
                assert await committed(test) == {"t": 7}
                named = [OffsetDeleteRequestPartition(partition_index=0)]
                topic = OffsetDeleteRequestTopic(name="t", partitions=named)
                await test.ask(OffsetDeleteRequest(group_id="g", topics=[topic]))
            assert await committed(test) == {}

    @simulated
    async def test_a_group_of_more_offsets_than_one_batch_holds_is_deleted(self) -> None:
        async with running(**ONE_PARTITION) as test:
            await test.ask(find())
            topics = [f"topic-{i}" for i in range(20)]
            await test.create_topics(*topics)
            request = commit(1)
            request.topics = [copy.copy(request.topics[0]) for _ in topics]
            for topic, name in zip(request.topics, topics, strict=True):
                topic.name = name
            assert errors(await test.ask(request, 9)) == [NONE] * 20
            await test.configure(OFFSETS_TOPIC, "max.message.bytes", "200")
            answer = await test.ask(DeleteGroupsRequest(groups_names=["g"]))
            assert [r.error_code for r in answer.results] == [NONE]
            assert only(test).machine.classic.groups == {}
            assert await committed(test) == {}

    @simulated
    async def test_timers(self) -> None:
        fired: list[tuple[str, Any, float]] = []
        timers: Timers[str] = Timers()

        def fire(owner: str, key: Any) -> None:
            fired.append((owner, key, trio.current_time()))
            if key == "again" and len(fired) < 4:
                timers.set(owner, key, trio.current_time() + 1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(timers.run, fire)
            await trio.lowlevel.checkpoint()
            timers.set("a", "moved later", 1)
            timers.set("a", "moved later", 5)
            timers.set("a", "moved sooner", 9)
            timers.set("a", "moved sooner", 2)
            timers.set("a", "cancelled", 3)
            timers.cancel("a", "cancelled")
            timers.set("b", "forgotten", 3)
            timers.forget("b")
            timers.set("c", "again", 6)
            assert len(timers) == 3
            await trio.sleep(20)
            nursery.cancel_scope.cancel()
        assert fired == [
            ("a", "moved sooner", 2),
            ("a", "moved later", 5),
            ("c", "again", 6),
            ("c", "again", 7),
        ]


@simulated
async def test_timers_that_are_cancelled_long_before_their_time_are_not_kept() -> None:
    fired: list[tuple[str, Any, float]] = []
    timers: Timers[str] = Timers()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timers.run, lambda *timer: fired.append((*timer, trio.current_time())))
        timers.set("a", "moved later", 1)
        timers.set("a", "moved later", 5)
        timers.set("a", "kept", 1800)
        for n in range(1000):
            timers.set("a", n, 1800)
            timers.cancel("a", n)
        for n in range(1000):
            timers.set("b", n, 1800 - n)
        timers.forget("b")
        for n in range(1000):
            timers.set("c", "moved sooner", 1800 - n)
        assert len(timers) == 3
        assert len(timers._heap) < 100
        await trio.sleep(2000)
        nursery.cancel_scope.cancel()
    assert fired == [("a", "moved later", 5), ("c", "moved sooner", 801), ("a", "kept", 1800)]


async def join_consumer_group(test: TestBroker) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert (await test.ask(request)).error_code == NONE


async def join_share_group(test: TestBroker) -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])
    assert (await test.ask(request)).error_code == NONE


@pytest.mark.parametrize("join_group", [join_consumer_group, join_share_group])
@simulated
async def test_a_session_that_ends_while_the_log_takes_nothing_ends_when_it_does(
    join_group: Callable[[TestBroker], Awaitable[None]],
) -> None:
    async with running(**ONE_PARTITION) as test:
        await test.create_topics("t")
        await test.ask(find())
        await test.loaded()
        await join_group(test)

        async def state() -> str:
            return (await test.ask(ListGroupsRequest())).groups[0].group_state

        assert await state() != "Empty"
        await test.assign((1, 2))
        await test.configure(OFFSETS_TOPIC, "min.insync.replicas", "2")
        await trio.sleep(120)
        assert await state() != "Empty"
        await test.configure(OFFSETS_TOPIC, "min.insync.replicas", "1")
        await trio.sleep(10)
        assert await state() == "Empty"


@simulated
async def test_what_was_committed_again_is_decoded_once_when_a_coordinator_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, decoded = MemoryDisk(), list[bytes]()
    async with running(disk, **ONE_PARTITION) as test:
        await test.create_topics("t")
        await test.ask(find())
        await test.loaded()
        for offset in range(1, 31):
            for group in ("g", "h"):
                assert await put(test, offset, group) == [NONE]
    decode = GroupMachine.decode

    def noted(key: bytes, value: bytes | None) -> Any:
        decoded.append(key)
        return decode(key, value)

    monkeypatch.setattr(GroupMachine, "decode", staticmethod(noted))
    async with running(disk, **ONE_PARTITION) as test:
        await test.loaded()
        for group in ("g", "h"):
            assert await committed(test, group) == {"t": 30}
    assert len(set(decoded)) == 2 and len(decoded) < 30, "once in a load, not once a commit"
