"""One node cut off from the others while it leads, or from the store that votes while it is the
controller: a network that drops packets, not a process that ends, so no connection breaks and no
node notices.

Clients still reach every broker. The isolated node still considers itself the leader; what counts
is that it acknowledges nothing with acks=all from then on, that another leads, and that what it
wrote alone is gone once it is back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import trio
from clients.cluster_topics import create_replicated, leader_of, wait_in_sync
from clients.load import Load, check_log
from clients.pk_cluster import PkCluster
from clients.readers import read_records
from clients.topics import wait_until
from clients.wires import Wires
from faults.cluster import SHORT, VOTING, VotingStore, voting_store
from nodes import Caller

from pk.core.errors import ErrorCode
from pk.core.record.build import build_batch
from pk.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

TOPIC = "orders"
SESSION_S = 3.0
ELECTED_S = 90.0
STORE = -1

pytestmark = pytest.mark.faults


@pytest.fixture
def wires() -> Iterator[Wires]:
    between = Wires()
    yield between
    between.close()


def produce_to(port: int, acks: int, wait_ms: int, value: bytes = b"alone") -> int:
    """Have one broker append to partition 0, whichever leader it knows; its answer's error
    code."""
    batch = build_batch([(0, b"key", value, ())])
    request = ProduceRequest(
        acks=acks,
        timeout_ms=wait_ms,
        topic_data=[
            TopicProduceData(
                name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)]
            )
        ],
    )

    [topic] = _ask(port, request, 9, wait_ms).responses
    [answer] = topic.partition_responses
    return answer.error_code


def partition_of(port: int, topic: str, partition: int = 0) -> MetadataResponsePartition:
    """A partition as one broker describes it. (A client would ask any broker that it knows.)"""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    [answer] = _ask(port, request, 9, 10_000).topics
    return next(p for p in answer.partitions if p.partition_index == partition)


def _ask(port: int, request: Any, version: int, wait_ms: int) -> Any:
    async def send() -> Any:
        with trio.fail_after(wait_ms / 1000 + 60):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                return await Caller(stream).call(request, version)

    return trio.run(send)


def wait_in_sync_as_seen(cluster: PkCluster, broker: int, topic: str, replicas: int) -> None:
    """Wait until a broker says that partition 0 has a leader and this many replicas in sync."""

    def ask() -> bool:
        found = partition_of(cluster.port(broker), topic)
        return found.leader_id >= 1 and len(found.isr_nodes) == replicas

    wait_until(f"{replicas} replicas in sync of {topic}", ask, ELECTED_S)


def test_a_leader_that_is_cut_off_acknowledges_nothing_and_comes_back_without_what_it_wrote(
    wires: Wires,
) -> None:
    with PkCluster(3, config=SHORT, wires=wires) as cluster:
        create_replicated(cluster.bootstrap, TOPIC, 1)
        with Load(cluster.bootstrap, TOPIC, rate=200) as load:
            load.wait_for(300)
            leader = leader_of(cluster.bootstrap, TOPIC)
            others = [broker for broker in cluster.brokers if broker != leader]
            wires.cut_off(leader, [node for node in cluster.nodes if node != leader])
            alone = cluster.port(leader)
            started = time.monotonic()
            assert produce_to(alone, -1, 1_000) == ErrorCode.REQUEST_TIMED_OUT
            new = wait_until(
                "another leader", lambda: _other_leader(cluster, others, leader), ELECTED_S
            )
            print(f"\nanother leader after {time.monotonic() - started:.1f} s")
            # The producer of `load` may go on asking the one that is cut off who leads, and believe
            # it.
            wait_until("the others to go on", lambda: _taken(cluster.port(new)))
            assert produce_to(alone, -1, 1_000) != ErrorCode.NONE
            produce_to(alone, 1, 1_000)  # acks=1 promises nothing: it may take it, and lose it
            wires.heal()
            load.wait_for(300)
            wait_in_sync(cluster.bootstrap, TOPIC, 1, 3)
            load.finish()
        log = [message.value() for message in read_records(cluster.bootstrap, TOPIC)]
        assert {value for value in log if value in (b"alone", b"together")} == {b"together"}
        reported = {record.offset: b"%d" % record.value for record in load.acknowledged}
        assert reported and all(
            log[offset] == value for offset, value in reported.items() if offset >= 0
        )
        assert new != leader
        for node in reversed(cluster.nodes):
            assert cluster.stop(node) == 0, cluster.logs()
        logs = {_log_of(cluster, broker) for broker in cluster.brokers}
        assert len(logs) == 1, "the replicas differ"
        for node in cluster.nodes:
            assert "Traceback" not in cluster.log_text(node), cluster.log_text(node)[-5000:]


def _taken(port: int) -> bool:
    return produce_to(port, -1, 5_000, b"together") == ErrorCode.NONE


def _other_leader(cluster: PkCluster, brokers: list[int], old: int) -> int | None:
    found = {partition_of(cluster.port(broker), TOPIC).leader_id for broker in brokers}
    return found.pop() if len(found) == 1 and not found & {old, -1} else None


def _log_of(cluster: PkCluster, broker: int) -> bytes:
    """The records of partition 0 on a broker's disk."""
    files = sorted((cluster.data(broker) / f"{TOPIC}-0").glob("*.log"))
    assert files
    return b"".join(file.read_bytes() for file in files)


@pytest.mark.parametrize("kind", VOTING)
def test_a_controller_that_is_cut_off_from_its_store_is_replaced(kind: str, wires: Wires) -> None:
    """It still reaches every broker, and they it; but it decides nothing more, and they ask
    another."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(voting_store(kind, members=1))

        def address(node: int) -> str:
            return store.address([wires.wire_from(node, STORE, port) for port in store.ports])

        cluster = stack.enter_context(PkCluster(3, store=address, config=SHORT, wires=wires))
        create_replicated(cluster.bootstrap, TOPIC, 3)
        load = stack.enter_context(Load(cluster.bootstrap, TOPIC, rate=200))
        load.wait_for(300)
        old = store.controller()
        wires.cut_off(old, [STORE])
        wait_until("another controller", lambda: _other_controller(store, old), ELECTED_S)
        # A broker that cannot ask who the controller is cannot say that it lives: it is fenced.
        others = [broker for broker in cluster.brokers if broker != old]
        wait_in_sync_as_seen(cluster, others[0], TOPIC, 2)
        load.wait_for(300)
        wires.heal()
        wait_in_sync(cluster.bootstrap, TOPIC, 3, 3)
        # The old one stands again, and is elected once the others are gone.
        for broker in others:
            assert cluster.stop(broker) == 0, cluster.logs()
        wait_until("the old one's election", lambda: store.controller() == old, ELECTED_S)
        for broker in others:
            cluster.start(broker)
        wait_in_sync(cluster.bootstrap, TOPIC, 3, 3)
        assert store.controller() == old
        create_replicated(cluster.bootstrap, "made-by-the-old-one", 3)
        load.wait_for(300)
        load.finish()
        check_log(cluster.bootstrap, load, 3)
        for node in cluster.nodes:
            assert "Traceback" not in cluster.log_text(node), cluster.log_text(node)[-5000:]


def _other_controller(store: VotingStore, old: int) -> int | None:
    found = store.controller()
    return found if found != old else None


def test_silence_is_not_taken_for_an_end(wires: Wires) -> None:
    """A cut that is shorter than the session costs no broker its place: the same leader, no record
    lost."""
    # Far shorter: a busy machine adds its own pauses to the cut.
    config = SHORT | {"broker.session.timeout.ms": str(int(SESSION_S * 3000))}
    with PkCluster(3, config=config, wires=wires) as cluster:
        create_replicated(cluster.bootstrap, TOPIC, 1)
        with Load(cluster.bootstrap, TOPIC, rate=200) as load:
            load.wait_for(300)
            leader = leader_of(cluster.bootstrap, TOPIC)
            for _ in range(3):
                wires.cut_off(leader, [node for node in cluster.nodes if node != leader])
                time.sleep(SESSION_S / 3)
                wires.heal()
                load.wait_for(300)
            assert partition_of(cluster.port(leader), TOPIC).leader_epoch == 0
            load.finish()
        check_log(cluster.bootstrap, load, 1)
