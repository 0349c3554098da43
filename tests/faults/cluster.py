"""Shared parts of the tests of clusters under faults: short sessions, the stores that vote, and
finding the controller."""

from __future__ import annotations

import base64
import contextlib
import random
import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from clients.topics import wait_until
from etcd_server import EtcdServers, skip_without_etcd
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from zookeeper_server import ZooKeeperServer, skip_without_zookeeper

from pk.net.etcd_leader import DOCUMENTS as ETCD_DOCUMENTS
from pk.net.zookeeper_nodes import DOCUMENTS as ZOOKEEPER_DOCUMENTS

SHORT = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "pk.etcd.session.timeout.ms": "3000",
    "pk.zookeeper.session.timeout.ms": "2000",
}
"""Sessions short enough that a test need not wait for them long."""

VOTING = ("etcd", "zookeeper")


class VotingStore:
    """A metadata store that lets any node be the controller, of one cluster."""

    scheme: str

    @property
    @abstractmethod
    def ports(self) -> list[int]:
        """The ports it listens on."""

    @abstractmethod
    def fail(self, chance: random.Random) -> str:
        """Kill or pause one of its servers for a while, and return a description of the fault."""

    @abstractmethod
    def _find(self) -> int | None: ...

    def address(self, ports: list[int] | None = None) -> str:
        """`pk.metadata.store`, or what it is by other ports."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports or self.ports)
        return f"{self.scheme}://{hosts}/cluster"

    def controller(self) -> int:
        """The id of the controller; waits until there is one."""
        return wait_until("a controller", self._find)


class OnEtcd(VotingStore):
    """etcd."""

    scheme = "etcd"

    def __init__(self, servers: EtcdServers) -> None:
        self.servers = servers

    @property
    def ports(self) -> list[int]:
        return [member.port for member in self.servers.members]

    def fail(self, chance: random.Random) -> str:
        member = chance.choice(self.servers.members)
        fault = chance.choice(("kill", "stop", "pause"))
        getattr(member, fault)()
        time.sleep(chance.uniform(0.0, 3.0))
        member.resume() if fault == "pause" else member.start()
        return f"{fault} {member.name} of etcd"

    def _find(self) -> int | None:
        key = base64.b64encode(b"/cluster/leader").decode()
        for member in self.servers.running:
            if kvs := member.ask("/v3/kv/range", {"key": key}).get("kvs"):
                return ETCD_DOCUMENTS.read_leader(base64.b64decode(kvs[0]["value"]))[0]
        return None


class OnZooKeeper(VotingStore):
    """ZooKeeper, one server."""

    scheme = "zookeeper"

    def __init__(self, server: ZooKeeperServer) -> None:
        self.server = server

    @property
    def ports(self) -> list[int]:
        return [self.server.port]

    def fail(self, chance: random.Random) -> str:
        self.server.kill() if chance.random() < 0.5 else self.server.stop()
        time.sleep(chance.uniform(0.0, 3.0))
        self.server.start()
        return "restart ZooKeeper"

    def _find(self) -> int | None:
        zk = KazooClient(self.server.address)
        zk.start()
        try:
            found: Any = zk.get("/cluster/leader")
        except NoNodeError:
            return None
        finally:
            zk.stop()
            zk.close()
        return ZOOKEEPER_DOCUMENTS.read_leader(found[0])[0]


@contextlib.contextmanager
def voting_store(kind: str, *, members: int = 3, tick_ms: int = 500) -> Iterator[VotingStore]:
    """A cluster's own store: `members` of etcd, or one ZooKeeper. Skips if none is installed."""
    if kind == "etcd":
        skip_without_etcd()
        with EtcdServers(members) as servers:
            yield OnEtcd(servers)
    else:
        skip_without_zookeeper()
        with ZooKeeperServer(tick_ms=tick_ms) as server:
            yield OnZooKeeper(server)
