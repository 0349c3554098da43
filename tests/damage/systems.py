"""The clusters that are damaged: pk's on each metadata store, and Apache Kafka's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

from clients.apache_kafka import ApacheKafka
from clients.pk_cluster import PkCluster
from zookeeper_server import ZooKeeperServer

BROKERS: Final = 3
SHORT: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "default.replication.factor": "3",
}
"""Sessions short enough that a round takes seconds."""


class System(Protocol):
    """A cluster of three brokers whose processes can be killed and started one by one."""

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, separated by commas."""
        ...

    @property
    def others(self) -> Sequence[int]:
        """Nodes that are not brokers: a controller of its own."""
        ...

    def data(self, node_id: int) -> Path:
        """A broker's `log.dirs`."""
        ...

    def start(self, node_id: int) -> None:
        """Start a node; does not wait until it serves."""
        ...

    def kill_all(self) -> None:
        """End all nodes with SIGKILL, none later than another."""
        ...

    def wait_until_ready(self) -> None:
        """Wait until all brokers that run list one another."""
        ...

    def log_text(self, node_id: int) -> str:
        """What a node wrote to its console."""
        ...


class PkSystem:
    """pk's nodes, by `pk broker start`."""

    def __init__(self, cluster: PkCluster) -> None:
        self._cluster = cluster
        self.bootstrap = cluster.bootstrap
        self.others = [n for n in cluster.nodes if n not in cluster.brokers]
        self.data = cluster.data
        self.wait_until_ready = cluster.wait_until_ready
        self.log_text = cluster.log_text

    def start(self, node_id: int) -> None:
        """See `System`."""
        self._cluster.start(node_id, wait=False)

    def kill_all(self) -> None:
        """See `System`."""
        for node in self._cluster.nodes:
            self._cluster.signal(node, signal.SIGKILL)
        for node in self._cluster.nodes:
            self._cluster.kill(node)


class ApacheSystem:
    """Apache Kafka's nodes; three of them are controllers too."""

    others: Sequence[int] = ()

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self.bootstrap = kafka.bootstrap
        self.data = kafka.log_dir
        self.log_text = kafka.log_text

    def start(self, node_id: int) -> None:
        """See `System`."""
        self._kafka.start(node_id, wait=False)

    def kill_all(self) -> None:
        """See `System`."""
        for pid in self._kafka.pids:
            os.kill(pid, signal.SIGKILL)
        for node in range(1, BROKERS + 1):
            self._kafka.kill(node)

    def wait_until_ready(self) -> None:
        """See `System`."""
        if len(self._kafka.pids) >= 2:  # one of three controllers elects nobody
            self._kafka.wait_until_ready()


@contextmanager
def _embedded() -> Iterator[System]:
    with PkCluster(BROKERS, config=SHORT) as cluster:
        yield PkSystem(cluster)


@contextmanager
def _zookeeper() -> Iterator[System]:
    with ExitStack() as stack:
        server = stack.enter_context(ZooKeeperServer())
        config = SHORT | {"pk.zookeeper.session.timeout.ms": "2000"}
        store = f"zookeeper://{server.address}/cluster"
        cluster = stack.enter_context(PkCluster(BROKERS, zookeeper=store, config=config))
        yield PkSystem(cluster)


@contextmanager
def _apache() -> Iterator[System]:
    with ApacheKafka(BROKERS, properties=SHORT) as kafka:
        yield ApacheSystem(kafka)


SYSTEMS: Final[dict[str, Callable[[], AbstractContextManager[System]]]] = {
    "embedded": _embedded,
    "zookeeper": _zookeeper,
    "apache": _apache,
}
