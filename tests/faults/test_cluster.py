"""Real processes that die, stop running and come back, under load: acknowledged records are in the
log, in order, and a group reads them.

Three brokers, replication factor 3, min.insync.replicas 2. librdkafka and Apache's Java producer
(where java is) produce with acks=all and idempotence through all of it, and must see no error; a
group reads and commits. A share of half a minute runs in CI (mark `faults`), five minutes at
default settings by `scripts/test -m slow tests/faults/test_cluster.py`. How long producing stood
still is printed, never asserted: see scripts/benchmark/failover.py.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator

import pytest
from clients import apache_kafka
from clients.cluster_topics import create_replicated, leader_of, wait_in_sync
from clients.load import GroupReader, JavaLoad, Load, check_log
from clients.pk_cluster import CONTROLLER, PkCluster
from clients.readers import consumer_of
from confluent_kafka import TopicPartition
from faults.cluster import SHORT, VOTING, VotingStore, voting_store

PARTITIONS = 6
BROKERS = 3
SHARE_S, LONG_S = 30, 300
LENGTHS = [
    pytest.param(SHARE_S, marks=pytest.mark.faults),
    pytest.param(LONG_S, marks=pytest.mark.slow),
]


class Chaos:
    """Faults of a cluster, one after another; what each was is said in `done`."""

    def __init__(self, cluster: PkCluster, seconds: int, store: VotingStore | None) -> None:
        self.cluster = cluster
        self.store = store
        self.chance = random.Random(seconds)  # the moments are the machine's; which faults, ours
        self.session_s = 3.0 if seconds == SHARE_S else 9.0
        self.done: list[str] = []
        self._started = time.monotonic()

    def kill(self, node: int) -> None:
        self._say(f"kill {node}")
        self.cluster.kill(node)
        self._rest(0.0, 2.0)
        self.cluster.start(node, wait=False)

    def stop(self, node: int) -> None:
        self._say(f"stop {node}")
        ready = self.cluster.is_ready(node)
        code = self.cluster.stop(node)
        assert code == 0 or not ready, f"node {node} ended with {code}:\n{self.cluster.logs()}"
        self._rest(0.0, 1.0)
        self.cluster.start(node, wait=False)

    def pause(self, node: int) -> None:
        self._say(f"pause {node}")
        self.cluster.pause(node)
        self._rest(self.session_s + 1, self.session_s + 3)
        self.cluster.resume(node)

    def blink(self, node: int) -> None:
        """Stopped for less than its session."""
        self._say(f"blink {node}")
        self.cluster.pause(node)
        self._rest(0.2, self.session_s / 2)
        self.cluster.resume(node)

    def fail_store(self, _: int) -> None:
        assert self.store is not None
        self._say(self.store.fail(self.chance))

    def kill_controller(self, _: int) -> None:
        """A process of its own, or one of the brokers."""
        self.kill(CONTROLLER if self.store is None else self.store.controller())

    def all(self) -> list[Callable[[int], None]]:
        """Every fault there is, in an order of chance."""
        faults = [self.kill, self.pause, self.stop, self.blink, self.kill, self.kill_controller]
        if self.store is not None:
            faults += [self.fail_store, self.kill_controller]
        self.chance.shuffle(faults)
        return faults

    def _rest(self, low: float, high: float) -> None:
        time.sleep(self.chance.uniform(low, high))

    def _say(self, what: str) -> None:
        self.done.append(f"{time.monotonic() - self._started:6.1f} s: {what}")


@contextlib.contextmanager
def three_brokers(store: str, seconds: int) -> Iterator[tuple[PkCluster, Chaos]]:
    """A cluster, and its faults; at the end all of it must leave in order, without a traceback in
    its logs."""
    with contextlib.ExitStack() as stack:
        voting = stack.enter_context(voting_store(store)) if store in VOTING else None
        address = voting.address() if voting is not None else None
        config = SHORT if seconds == SHARE_S else {}
        cluster = stack.enter_context(PkCluster(BROKERS, store=address, config=config))
        chaos = Chaos(cluster, seconds, voting)
        try:
            yield cluster, chaos
            for node in reversed(cluster.nodes):
                assert cluster.stop(node) == 0, cluster.logs()
            for node in cluster.nodes:
                text = cluster.log_text(node)
                assert "Traceback" not in text, text[-5000:]
                assert "bug in pk" not in text, text[-5000:]
        except BaseException:
            print("\n".join(chaos.done))
            print(cluster.logs())
            raise


@pytest.mark.parametrize("seconds", LENGTHS)
@pytest.mark.parametrize("store", ["embedded", *VOTING])
def test_nothing_acknowledged_is_lost_while_nodes_come_and_go(store: str, seconds: int) -> None:
    with contextlib.ExitStack() as stack:
        cluster, chaos = stack.enter_context(three_brokers(store, seconds))
        create_replicated(cluster.bootstrap, "orders", PARTITIONS)
        create_replicated(cluster.bootstrap, "java", PARTITIONS)
        load = stack.enter_context(Load(cluster.bootstrap, "orders", rate=1_000))
        java = None
        if apache_kafka.available() is None:
            java = stack.enter_context(JavaLoad(cluster.bootstrap, "java"))
        readers = stack.enter_context(GroupReader(cluster.bootstrap, "orders", "readers"))
        load.wait_for(200)
        if java is not None:
            java.wait_for(200)  # a busy machine may take half a minute to start it
        deadline = time.monotonic() + seconds
        faults: list[Callable[[int], None]] = []
        while time.monotonic() < deadline:
            faults = faults or chaos.all()
            partition = chaos.chance.randrange(PARTITIONS)
            faults.pop()(leader_of(cluster.bootstrap, "orders", partition))
            load.wait_for(chaos.chance.randrange(1, 1_000))
            if chaos.chance.random() < 0.7:
                # Else the next fault meets a cluster that is still getting over this one.
                wait_in_sync(cluster.bootstrap, "orders", PARTITIONS, BROKERS)
        cluster.wait_until_ready()
        wait_in_sync(cluster.bootstrap, "orders", PARTITIONS, BROKERS)
        load.finish()
        ends = check_log(cluster.bootstrap, load, PARTITIONS)
        assert sum(ends.values()) == load.sent
        if java is not None:
            java.finish()
            wait_in_sync(cluster.bootstrap, "java", PARTITIONS, BROKERS)
            check_log(cluster.bootstrap, java, PARTITIONS)
        readers.wait_for(ends)
        _check_commits(cluster.bootstrap, readers)
        print(
            f"\n{store}: {len(chaos.done)} faults, {load.sent} records,"
            f" at most {load.waited_s:.1f} s without an acknowledgement"
        )
        print("\n".join(chaos.done))


def _check_commits(bootstrap: str, readers: GroupReader) -> None:
    """No commit that was confirmed was lost: what the group would go on from is not before it."""
    reported = dict(readers.committed)
    assert reported
    asked = [TopicPartition(readers.topic, p) for p in reported]
    with consumer_of(bootstrap, readers.group) as consumer:
        for found in consumer.committed(asked, timeout=90):
            assert found.offset >= reported[found.partition], (found, reported)
