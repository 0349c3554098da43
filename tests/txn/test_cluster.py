"""Transactions through brokers: what readers see, which requests are refused, and what survives the
death of a coordinator."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from broker.cluster import Cluster, running_cluster
from group.brokers import simulated
from txn.clients import (
    KEYS,
    TransactionalProducer,
    codes,
    committed_offset,
    fetched,
    first_error,
    leader,
    prepare,
)

from pk.core.api.transactions.add_partitions_to_txn import TASKS_MAX
from pk.core.broker.replication.partition import READ_COMMITTED
from pk.core.errors import ErrorCode
from pk.core.txn.transaction import State, Transaction
from pk.core.values import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pk.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pk.core.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

E = ErrorCode
PROTOCOLS = pytest.mark.parametrize("second", [False, True], ids=["first", "second"])


def transaction(cluster: Cluster, transactional_id: str = "tx") -> Transaction:
    """The transaction in the memory of its coordinator."""
    broker = cluster.broker(leader(cluster, TRANSACTIONS_TOPIC))
    return broker.groups.transactions.at(0).machine.transactions[transactional_id]


async def begun(
    cluster: Cluster, *, second: bool = True, timeout_ms: int = 60_000
) -> TransactionalProducer:
    """A producer with a transaction that has written to both topics."""
    producer = TransactionalProducer(cluster, second=second, timeout_ms=timeout_ms)
    assert await producer.init() == E.NONE
    if not second:
        assert await producer.add("t", "u") == E.NONE
    assert await producer.send("t", b"1") == E.NONE
    assert await producer.send("u", b"2") == E.NONE
    return producer


async def idle(cluster: Cluster, state: State) -> None:
    """Until the transaction has come to `state`."""
    await cluster.until(lambda: transaction(cluster).state is state)


@PROTOCOLS
@simulated
async def test_a_transaction_is_seen_whole_or_not_at_all(second: bool) -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster, version=2 if second else 0)
        producer = await begun(cluster, second=second)
        for topic, value in (("t", b"1"), ("u", b"2")):
            assert await fetched(cluster, topic, committed=False) == ([value], 0)
            assert await fetched(cluster, topic, committed=True) == ([], 0)
        assert await producer.end() == E.NONE
        await idle(cluster, State.COMPLETE_COMMIT)
        for topic, value in (("t", b"1"), ("u", b"2")):
            assert await fetched(cluster, topic, committed=True) == ([value], 2)


@PROTOCOLS
@simulated
async def test_nothing_of_an_aborted_transaction_is_seen(second: bool) -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster, version=2 if second else 0)
        producer = await begun(cluster, second=second)
        assert await producer.end(commit=False) == E.NONE
        await idle(cluster, State.COMPLETE_ABORT)
        if not second:
            assert await producer.add("t") == E.NONE
        assert await producer.send("t", b"3") == E.NONE
        assert await producer.end() == E.NONE
        await idle(cluster, State.COMPLETE_COMMIT)
        assert (await fetched(cluster, "t", committed=True))[0] == [b"3"]
        assert (await fetched(cluster, "t", committed=False))[0] == [b"1", b"3"]


@simulated
async def test_each_transaction_of_the_second_protocol_has_an_epoch_of_its_own() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = TransactionalProducer(cluster)
        await producer.init()
        for n in range(4):
            assert producer.epoch == n
            assert await producer.send("t", b"a", b"b") == E.NONE
            assert await producer.send("t", b"c") == E.NONE
            assert await producer.end(commit=n != 2) == E.NONE
        await idle(cluster, State.COMPLETE_COMMIT)
        assert (await fetched(cluster, "t", committed=True))[0] == [b"a", b"b", b"c"] * 3


# --- refusals ---


@PROTOCOLS
@simulated
async def test_a_fenced_producer_is_refused(second: bool) -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster, version=2 if second else 0)
        old = await begun(cluster, second=second)
        new = TransactionalProducer(cluster, second=second)
        assert await new.init() == E.NONE
        assert transaction(cluster).state is State.EMPTY
        assert (await fetched(cluster, "t", committed=True)) == ([], 2)
        assert await old.send("t", b"late") == E.INVALID_PRODUCER_EPOCH
        assert await old.end() == E.PRODUCER_FENCED
        assert await old.commit_offset("g", 5) in (E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED)


@pytest.mark.parametrize(
    ("version", "code"),
    [(10, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE), (12, E.NONE)],
)
@simulated
async def test_a_partition_that_was_not_added(version: int, code: ErrorCode) -> None:
    """The leader asks the coordinator before the first batch of a transaction; from version 12 on
    it adds the partition."""
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = TransactionalProducer(cluster)
        await producer.init()
        await producer.add("u")
        request = producer.batch("t", b"1")
        answer = await cluster.ask(leader(cluster, "t"), request, version)
        assert first_error(answer) == code
        assert cluster.values(1) == ([b"1"] if code == E.NONE else [])


@simulated
async def test_a_batch_cannot_get_behind_the_marker_of_its_transaction() -> None:
    """The coordinator said yes, and the transaction ended before the batch was appended."""
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = TransactionalProducer(cluster, second=False)
        await producer.init()
        await producer.add("u")
        manager = cluster.broker(leader(cluster, "u")).groups.add_partitions
        ask, answered, goes_on = manager.add_or_verify, trio.Event(), trio.Event()

        async def slow(*args: Any) -> Any:
            found = await ask(*args)
            answered.set()
            await goes_on.wait()
            return found

        manager.add_or_verify = slow  # type: ignore[method-assign]
        answers: list[Any] = []

        async def send() -> None:
            request = producer.batch("u", b"late")
            answers.append(await cluster.ask(leader(cluster, "u"), request, 10))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await answered.wait()
            assert await producer.end() == E.NONE
            await idle(cluster, State.COMPLETE_COMMIT)
            goes_on.set()
        assert first_error(answers[0]) == E.INVALID_TXN_STATE
        partition = cluster.partition(leader(cluster, "u"), "u")
        assert partition.end_offset(READ_COMMITTED) == partition.log.state.log_end_offset


@simulated
async def test_who_begins_to_lead_while_the_coordinator_is_asked_has_verified_nothing() -> None:
    """The batch is refused as by who does not lead, and sent again; INVALID_TXN_STATE would end the
    producer's transaction."""
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = TransactionalProducer(cluster, second=False)
        await producer.init()
        await producer.add("t", "u")
        node = leader(cluster, "u")
        assert node != leader(cluster, "t")
        led, other = producer.batch("u", b"1"), producer.batch("t", b"2")
        asked, goes_on = trio.Event(), trio.Event()

        async def held(asker: int, asked_node: int, request: object) -> None:
            if isinstance(request, AddPartitionsToTxnRequest):
                asked.set()
                await goes_on.wait()

        cluster.before = held
        answers: list[Any] = []

        async def send() -> None:
            led.topic_data += other.topic_data
            answers.append(await cluster.ask(node, led, 10))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await asked.wait()
            await cluster.change("t", leader=node)
            await cluster.until(lambda: cluster.partition(node, "t").leads)
            goes_on.set()
        assert codes(answers[0]) == [E.NONE, E.NOT_LEADER_OR_FOLLOWER]
        other.topic_data = other.topic_data[-1:]
        assert first_error(await cluster.ask(node, other, 10)) == E.NONE
        assert await producer.end() == E.NONE


@simulated
async def test_the_marker_of_the_last_transaction_leaves_the_next_one_verified() -> None:
    """In the second protocol, EndTxn is answered before the markers are written. Here the last
    marker arrives after the leader has begun to ask about the next transaction. INVALID_TXN_STATE
    would end the producer."""
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        topic = next(t for t in "tu" if leader(cluster, t) != leader(cluster, TRANSACTIONS_TOPIC))
        asked = trio.Event()

        async def marker_first(asker: int, node: int, request: object) -> None:
            if isinstance(request, WriteTxnMarkersRequest):
                await asked.wait()
            elif isinstance(request, AddPartitionsToTxnRequest):
                asked.set()
                await idle(cluster, State.COMPLETE_COMMIT)

        cluster.before = marker_first
        assert await producer.end() == E.NONE
        assert await producer.send(topic, b"3") == E.NONE
        assert asked.is_set()
        assert await producer.end() == E.NONE
        await idle(cluster, State.COMPLETE_COMMIT)


@simulated
async def test_a_later_batch_does_not_get_ahead_of_one_that_is_tried_again() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = TransactionalProducer(cluster)
        await producer.init()
        node = leader(cluster, "u")
        first, second = producer.batch("u", b"1"), producer.batch("u", b"2")
        cluster.part(1)  # the coordinator
        answer = await cluster.ask(node, first, 12)
        assert first_error(answer) == E.NOT_ENOUGH_REPLICAS
        cluster.heal()
        assert first_error(await cluster.ask(node, second, 12)) == E.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert first_error(await cluster.ask(node, first, 12)) == E.NONE
        assert first_error(await cluster.ask(node, second, 12)) == E.NONE


@simulated
async def test_transactions_that_come_up_meanwhile_are_asked_about_together() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producers = [TransactionalProducer(cluster, f"tx{n}", second=n % 2 == 0) for n in range(6)]
        for producer in producers:
            await producer.init()
            if not producer.second:
                await producer.add("u")
        asked: list[list[str]] = []
        goes_on = trio.Event()

        async def held(asker: int, node: int, request: object) -> None:
            if isinstance(request, AddPartitionsToTxnRequest):
                asked.append([one.transactional_id for one in request.transactions])
                await goes_on.wait()

        cluster.before = held
        answers: list[ErrorCode] = []

        async def send(producer: TransactionalProducer) -> None:
            answers.append(await producer.send("u", b"1"))

        async with trio.open_nursery() as nursery:
            for producer in producers:
                nursery.start_soon(send, producer)
                await trio.testing.wait_all_tasks_blocked()
            goes_on.set()
        assert answers == [E.NONE] * 6
        assert asked == [["tx0"], ["tx1", "tx2", "tx3", "tx4", "tx5"]]
        for producer in producers:
            assert await producer.end() == E.NONE


class LivingTasks(trio.abc.Instrument):
    """Counts the tasks that were born after it."""

    def __init__(self) -> None:
        self.most = 0
        self._living: set[trio.lowlevel.Task] = set()

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self._living.add(task)
        self.most = max(self.most, len(self._living))

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._living.discard(task)


@simulated
async def test_a_request_that_names_many_transactions_takes_few_tasks_at_a_time() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
        names = [f"tx{n}" for n in range(10 * TASKS_MAX + 1)]
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(transactional_id=name, topics=topics)
                for name in names
            ]
        )
        tasks = LivingTasks()
        trio.lowlevel.add_instrument(tasks)
        answer = await cluster.ask(leader(cluster, TRANSACTIONS_TOPIC), request, 5)
        trio.lowlevel.remove_instrument(tasks)
        assert tasks.most < 2 * TASKS_MAX
        assert [one.transactional_id for one in answer.results_by_transaction] == names
        assert set(codes(answer)) == {E.NONE, E.INVALID_PRODUCER_ID_MAPPING}


@simulated
async def test_verification_can_be_turned_off() -> None:
    async with running_cluster(
        KEYS, transaction__partition__verification__enable="false"
    ) as cluster:
        await prepare(cluster)
        producer = TransactionalProducer(cluster)
        await producer.init()
        answer = await cluster.ask(leader(cluster, "t"), producer.batch("t", b"1"), 10)
        assert codes(answer) == [E.NONE]


# --- offsets ---


@PROTOCOLS
@simulated
async def test_offsets_pend_until_their_transaction_ends(second: bool) -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster, version=2 if second else 0)
        producer = await begun(cluster, second=second)
        assert await producer.commit_offset("g", 5) == E.NONE
        assert await committed_offset(cluster, "g") == -1
        unstable = await committed_offset(cluster, "g", require_stable=True)
        assert unstable == E.UNSTABLE_OFFSET_COMMIT
        await producer.end()
        await idle(cluster, State.COMPLETE_COMMIT)
        assert await committed_offset(cluster, "g", require_stable=True) == 5
        assert await producer.commit_offset("g", 9) == E.NONE
        await producer.end(commit=False)
        await idle(cluster, State.COMPLETE_ABORT)
        assert await committed_offset(cluster, "g", require_stable=True) == 5


@simulated
async def test_a_marker_that_comes_while_the_coordinator_is_asked_ends_no_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last transaction's marker ends the verification: the client tries again, and is not told
    that it is at fault."""
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        broker = cluster.broker(leader(cluster, OFFSETS_TOPIC))
        ask, times = broker.groups.add_partitions.add_or_verify, 0

        async def ask_while_a_marker_comes(*words: Any) -> Any:
            nonlocal times
            answer = await ask(*words)
            times += 1
            if times == 1:
                partition = broker.groups.coordinators.coordinator("g").partition
                partition.log.state.producers.drop_verification(producer.producer_id)
            return answer

        monkeypatch.setattr(broker.groups.add_partitions, "add_or_verify", ask_while_a_marker_comes)
        assert await producer.commit_offset("g", 5) == E.NONE
        assert times == 2
        await producer.end()
        await idle(cluster, State.COMPLETE_COMMIT)
        assert await committed_offset(cluster, "g", require_stable=True) == 5


@simulated
async def test_an_unforeseen_error_at_a_marker_ends_no_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coordinator reads its log again, and the marker is sent again."""
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        assert await producer.commit_offset("g", 5) == E.NONE
        assert leader(cluster, OFFSETS_TOPIC) == leader(cluster, TRANSACTIONS_TOPIC)
        groups = cluster.broker(leader(cluster, OFFSETS_TOPIC)).groups.coordinators.coordinator("g")

        def odd(producer_id: int, *, committed: bool) -> None:
            raise ArithmeticError("odd")

        monkeypatch.setattr(groups.machine, "replay_end_marker", odd)
        await producer.end()
        await idle(cluster, State.COMPLETE_COMMIT)
        assert await committed_offset(cluster, "g", require_stable=True) == 5


@simulated
async def test_pending_offsets_survive_the_death_of_the_groups_coordinator() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        await producer.commit_offset("g", 5)
        await cluster.settled(1, 2, 3, topic=OFFSETS_TOPIC)
        await cluster.change(OFFSETS_TOPIC, leader=2)
        await cluster.until(lambda: cluster.broker(2).groups.coordinators.at(0).is_active)
        unstable = await committed_offset(cluster, "g", require_stable=True)
        assert unstable == E.UNSTABLE_OFFSET_COMMIT
        await producer.end()
        await idle(cluster, State.COMPLETE_COMMIT)
        assert await committed_offset(cluster, "g", require_stable=True) == 5


@simulated
async def test_a_member_of_no_group_commits_no_offsets() -> None:
    """KIP-447: the generation fences."""
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        refused = await producer.commit_offset("g", 5, generation=3, member="m")
        assert refused == E.ILLEGAL_GENERATION


# --- time ---


@PROTOCOLS
@simulated
async def test_a_transaction_that_is_open_for_too_long_is_aborted(second: bool) -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster, version=2 if second else 0)
        producer = await begun(cluster, second=second, timeout_ms=3000)
        await trio.sleep(2)
        assert transaction(cluster).state is State.ONGOING
        await idle(cluster, State.COMPLETE_ABORT)
        assert await fetched(cluster, "t", committed=True) == ([], 2)
        # With an epoch that is one less, it could be the producer that asked for this end and did
        # not get the answer.
        assert await producer.end() == (E.INVALID_TXN_STATE if second else E.PRODUCER_FENCED)
        assert await producer.send("t", b"late") == E.INVALID_PRODUCER_EPOCH


# --- the coordinator dies ---


STATES = pytest.mark.parametrize(
    "state",
    [
        State.ONGOING,
        State.PREPARE_COMMIT,
        State.PREPARE_ABORT,
        State.COMPLETE_COMMIT,
        State.COMPLETE_ABORT,
    ],
)


async def without_markers(asker: int, node: int, request: object) -> None:
    """No marker arrives."""
    if isinstance(request, WriteTxnMarkersRequest):
        await trio.sleep_forever()


@PROTOCOLS
@STATES
@simulated
async def test_the_coordinator_is_killed_in_each_state(state: State, second: bool) -> None:
    commit = state not in (State.PREPARE_ABORT, State.COMPLETE_ABORT)
    ending = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster, version=2 if second else 0)
        producer = await begun(cluster, second=second)
        if state.is_prepared:
            # The leader of u (3) does not get its marker; that of t (1) is the coordinator itself.
            cluster.before = without_markers
        if state is not State.ONGOING:
            request = producer.end_request(commit=commit)
            answer = await cluster.ask(1, request, 5 if second else 4)
            assert first_error(answer) == E.NONE
            await idle(cluster, state)
            if second:
                producer.epoch, producer.sequences = answer.producer_epoch, {}
        await cluster.until(
            lambda: (
                cluster.partition(1, TRANSACTIONS_TOPIC).high_watermark
                == cluster.partition(1, TRANSACTIONS_TOPIC).log.state.log_end_offset
            )
        )
        await cluster.crash(1)
        cluster.before = None
        for topic in (TRANSACTIONS_TOPIC, "t", OFFSETS_TOPIC):
            found = cluster.image.partition(topic, 0)
            assert found is not None
            isr = tuple(node for node in found.isr if node != 1)
            await cluster.change(topic, leader=2, isr=isr)
        await cluster.change("u", isr=(3, 2))
        if state is State.ONGOING:
            assert await producer.send("u", b"3") == E.NONE
            assert await producer.end() == E.NONE
        await cluster.until(lambda: cluster.broker(2).groups.transactions.at(0).is_active)
        await idle(cluster, ending)
        expected = [b"2", b"3"] if state is State.ONGOING else [b"2"]
        values, stable = await fetched(cluster, "u", committed=True)
        assert values == (expected if commit else [])
        assert stable == cluster.partition(3, "u").log.state.log_end_offset
        assert (await fetched(cluster, "t", committed=True))[0] == ([b"1"] if commit else [])
        if not second:
            assert await producer.add("u") == E.NONE
        assert await producer.send("u", b"4") == E.NONE
        assert await producer.end() == E.NONE


@simulated
async def test_an_end_that_was_not_safe_has_no_markers() -> None:
    """The coordinator dies with an EndTxn that no other node has: the transaction is still open."""
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        cluster.part(1)
        answer = await cluster.ask(1, producer.end_request(), 5)
        assert first_error(answer) == E.COORDINATOR_NOT_AVAILABLE
        assert transaction(cluster).state is State.PREPARE_COMMIT
        await cluster.crash(1)
        cluster.heal()
        for topic in (TRANSACTIONS_TOPIC, "t", OFFSETS_TOPIC):
            await cluster.change(topic, leader=2, isr=(2, 3))
        await cluster.change("u", isr=(3, 2))
        await cluster.until(lambda: cluster.broker(2).groups.transactions.at(0).is_active)
        assert transaction(cluster).state is State.ONGOING
        assert await fetched(cluster, "u", committed=True) == ([], 0)
        assert await producer.end() == E.NONE
        await idle(cluster, State.COMPLETE_COMMIT)


@simulated
async def test_a_partition_without_a_leader_gets_its_marker_when_it_has_one() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        await cluster.change("u", leader=-1)
        assert await producer.end() == E.NONE
        await trio.sleep(20)
        assert transaction(cluster).state is State.PREPARE_COMMIT
        await cluster.change("u", leader=2)
        await idle(cluster, State.COMPLETE_COMMIT)
        assert (await fetched(cluster, "u", committed=True))[0] == [b"2"]


# --- markers by hand ---


def marker(
    cluster: Cluster, producer: TransactionalProducer, *, epoch: int, version: int = 0, by: int = 0
) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                coordinator_epoch=by,
                transaction_version=version,
            )
        ]
    )


@simulated
async def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        assert await producer.end() == E.NONE
        await idle(cluster, State.COMPLETE_COMMIT)
        late = marker(cluster, producer, epoch=producer.epoch, version=2)
        assert await producer.send("t", b"next") == E.NONE
        assert first_error(await cluster.ask(1, late, 2)) == E.INVALID_PRODUCER_EPOCH
        assert await producer.end() == E.NONE
        await idle(cluster, State.COMPLETE_COMMIT)
        assert (await fetched(cluster, "t", committed=True))[0] == [b"1", b"next"]


@simulated
async def test_markers_of_who_is_not_the_coordinator_any_more_are_refused() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        new = marker(cluster, producer, epoch=producer.epoch + 1, by=7)
        assert first_error(await cluster.ask(1, new, 2)) == E.NONE
        old = marker(cluster, producer, epoch=producer.epoch + 1, by=6)
        assert first_error(await cluster.ask(1, old, 2)) == E.TRANSACTION_COORDINATOR_FENCED


@simulated
async def test_a_marker_on_a_partition_that_is_led_elsewhere_or_nowhere() -> None:
    async with running_cluster(KEYS) as cluster:
        await prepare(cluster)
        producer = await begun(cluster)
        request = marker(cluster, producer, epoch=9)
        assert first_error(await cluster.ask(2, request, 1)) == E.NOT_LEADER_OR_FOLLOWER
        request.markers[0].topics[0].name = "nowhere"
        assert first_error(await cluster.ask(2, request, 1)) == E.UNKNOWN_TOPIC_OR_PARTITION
