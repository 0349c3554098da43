"""The clusters that are damaged: pk's on each metadata store, and Apache Kafka's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from clients.apache_kafka import ApacheKafka
from clients.pk_cluster import PkCluster
from faults.cluster import SHORT, voting_store

BROKERS: Final = 3
SESSIONS: Final = {key: value for key, value in SHORT.items() if not key.startswith("pk.")}
"""Short ones for Apache Kafka too."""


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
        """A node's console output."""
        ...


class PkSystem:
    """pk's nodes, by `pk node start`."""

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
        if len(self._kafka.pids) >= 2:  # one of three controllers cannot elect a leader
            self._kafka.wait_until_ready()


@contextmanager
def _embedded() -> Iterator[System]:
    with PkCluster(BROKERS, config=SHORT) as cluster:
        yield PkSystem(cluster)


@contextmanager
def _voting(kind: str) -> Iterator[System]:
    with (
        voting_store(kind) as store,
        PkCluster(BROKERS, store=store.address(), config=SHORT) as cluster,
    ):
        yield PkSystem(cluster)


@contextmanager
def _apache() -> Iterator[System]:
    with ApacheKafka(BROKERS, properties=SESSIONS) as kafka:
        yield ApacheSystem(kafka)


SYSTEMS: Final[dict[str, Callable[[], AbstractContextManager[System]]]] = {
    "embedded": _embedded,
    "etcd": partial(_voting, "etcd"),
    "zookeeper": partial(_voting, "zookeeper"),
    "apache": _apache,
}
