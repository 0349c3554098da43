"""Measures how long producing stops if the leader of a partition fails, for three brokers of pk and
then three of Apache Kafka.

The topic has one partition, replication factor 3 and min.insync.replicas 2. An idempotent producer
of librdkafka with acks=all sends a record every few milliseconds. Then the partition's leader is
killed (-9), paused (SIGSTOP, like a pause or a hang of the machine), or stopped cleanly (SIGTERM).
The brokers and the producer have their defaults, except that the producer waits only one second for
an answer (request.timeout.ms, socket.timeout.ms). By default, it would wait a minute for a stopped
broker, even if another broker already leads. The figure is the longest time without an
acknowledgement around that moment. In each round, the broker returns, and the next round waits
until all replicas are in sync. At the end, the log is compared with the producer's
acknowledgements.

    PYTHONPATH=scripts:tests:scripts/path .venv/bin/python -m benchmark.failover --rounds 3

`--store etcd` or `zookeeper` starts an etcd of three servers, or a ZooKeeper, for pk's metadata.
The partition's leader then also fails while it is the controller. With etcd, the server that leads
etcd is killed too, alone and together with the controller.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from clients import apache_kafka
from clients.apache_kafka import ApacheKafka
from clients.cluster_topics import create_replicated, leader_of, wait_in_sync
from clients.load import Load, check_log
from clients.pk_cluster import PkCluster
from faults.cluster import VOTING, OnEtcd, VotingStore, voting_store
from rich.console import Console

from benchmark import report
from benchmark.work import LIBRDKAFKA

FAULTS = ("kill -9", "SIGSTOP", "clean stop")
CONTROLLER = "kill -9, and it is the controller"
CONTROLLER_STOPPED = "SIGSTOP, and it is the controller"
ETCD = "kill -9 of the etcd that leads, instead"
WITH_ETCD = "kill -9, and it is the controller, and kill -9 of the etcd that leads"
LIMITS_S = {"kill -9": 0.5, "clean stop": 0.2}
"""The longest time that nothing may be acknowledged, on two cores that do nothing else."""
RATE = 200
STEADY = 100
BROKERS = 3
AFTERWARDS_S = 60.0


class Cluster(Protocol):
    """The methods of a cluster that a fault uses."""

    @property
    def bootstrap(self) -> str: ...
    def start(self, node_id: int) -> None: ...
    def stop(self, node_id: int) -> object: ...
    def kill(self, node_id: int) -> object: ...
    def pause(self, node_id: int) -> None: ...
    def resume(self, node_id: int) -> None: ...


@contextlib.contextmanager
def running(name: str, kind: str) -> Iterator[tuple[Cluster, VotingStore | None]]:
    """Start a cluster of three brokers with its defaults, and the voting store if it uses one."""
    with contextlib.ExitStack() as stack:
        if name == "apache":
            yield stack.enter_context(ApacheKafka(BROKERS, heap="1G")), None
            return
        store = stack.enter_context(voting_store(kind, tick_ms=2000)) if kind in VOTING else None
        address = store.address() if store is not None else None
        yield stack.enter_context(PkCluster(BROKERS, store=address)), store


def measure(
    cluster: Cluster, fault: str, topic: str, store: VotingStore | None
) -> tuple[float, int]:
    """Return the longest time in seconds without an acknowledgement, and the number of errors that
    the producer got."""
    first = None
    if fault in (CONTROLLER, CONTROLLER_STOPPED, WITH_ETCD):
        assert store is not None
        first = store.controller()
    create_replicated(cluster.bootstrap, topic, 1, leader=first)
    with Load(cluster.bootstrap, topic, rate=RATE) as load:
        load.wait_for(STEADY)
        load.waited_s = 0.0
        leader = leader_of(cluster.bootstrap, topic)
        member = store.servers.leader if isinstance(store, OnEtcd) else None
        if fault in (ETCD, WITH_ETCD):
            assert member is not None
            member.kill()
        if fault in ("kill -9", CONTROLLER, WITH_ETCD):
            cluster.kill(leader)
        elif fault == ETCD:
            pass
        elif fault in ("SIGSTOP", CONTROLLER_STOPPED):
            cluster.pause(leader)
        else:
            cluster.stop(leader)
        load.wait_for(3 * STEADY, AFTERWARDS_S)
        if fault in (ETCD, WITH_ETCD):
            assert member is not None
            member.start()
        if fault in ("SIGSTOP", CONTROLLER_STOPPED):
            cluster.resume(leader)
        elif fault != ETCD:
            cluster.start(leader)
        wait_in_sync(cluster.bootstrap, topic, 1, BROKERS)
        waited_s = load.waited_s
        load.finish()
    check_log(cluster.bootstrap, load, 1)
    return waited_s, len(load.failed)


def main() -> int:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(prog="benchmark.failover")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", choices=["embedded", *VOTING], default="embedded")
    parser.add_argument("--without-apache", action="store_true")
    parser.add_argument("--without-pk", action="store_true")
    parser.add_argument("--json", type=Path, default=Path("bench-failover.json"), metavar="FILE")
    options = parser.parse_args()
    log, names = Console(stderr=True), [] if options.without_pk else ["pk"]
    if not options.without_apache:
        reason = apache_kafka.available()
        if reason is None:
            names.append("apache")
        else:
            log.print(f"Apache Kafka is skipped: {reason}.")
    results = report.Results()
    for name in names:
        with running(name, options.store) as (cluster, store):
            more = (CONTROLLER, CONTROLLER_STOPPED) if store else ()
            more += (ETCD, WITH_ETCD) if isinstance(store, OnEtcd) else ()
            for place, fault in enumerate((*FAULTS, *more)):
                for number in range(options.rounds):
                    waited_s, errors = measure(cluster, fault, f"failover-{place}-{number}", store)
                    log.print(f"{name}: {fault}: {waited_s:.2f} s, {errors} errors")
                    row = results.row(
                        f"gap after {fault} of the leader",
                        "s",
                        LIBRDKAFKA,
                        higher=False,
                        limit=LIMITS_S.get(fault),
                    )
                    row.add(name, waited_s)
    report.show(results, Console(width=None if sys.stdout.isatty() else 140))
    settings = {"rounds": options.rounds, "store": options.store}
    report.write(results, settings, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
