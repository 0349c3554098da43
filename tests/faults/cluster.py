"""What tests of clusters under faults share: short sessions, and who the controller is."""

from __future__ import annotations

from typing import Any

from clients.topics import wait_until
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from zookeeper_server import ZooKeeperServer

from pk.net.zookeeper_nodes import DOCUMENTS

SHORT = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "pk.zookeeper.session.timeout.ms": "2000",
}
"""Sessions short enough that a test need not wait for them long."""


def wait_for_candidates(server: ZooKeeperServer, count: int, path: str = "/cluster") -> None:
    """Waits until so many nodes stand for the controller's leadership, who holds it among them."""
    zk = KazooClient(server.address)
    zk.start()

    def ask() -> bool:
        names: Any = zk.get_children(f"{path}/candidates")
        return len(names) == count

    try:
        wait_until(f"{count} candidates", ask)
    finally:
        zk.stop()
        zk.close()


def controller_in(server: ZooKeeperServer, path: str = "/cluster") -> int:
    """The id of the controller that ZooKeeper knows; waits until there is one."""
    zk = KazooClient(server.address)
    zk.start()

    def ask() -> int | None:
        try:
            found: Any = zk.get(f"{path}/leader")
        except NoNodeError:
            return None
        return DOCUMENTS.read_leader(found[0])[0]

    try:
        return wait_until("a controller", ask)
    finally:
        zk.stop()
        zk.close()
