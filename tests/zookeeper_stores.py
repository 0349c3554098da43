"""Metadata stores on a real ZooKeeper, and events of their sessions."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import trio
from kazoo.client import KazooClient
from zookeeper_server import ZooKeeperServer

from pk.core.meta.events import Endpoint
from pk.net.zookeeper import ZooKeeperStore

SESSION_MS = 10_000
"""Long enough for a busy machine."""

SHORT_MS = 2000
"""Session timeout for tests in which ZooKeeper stops answering and the store may lose its
session."""

_FRESH = itertools.count(1)


class Node(NamedTuple):
    """The sizes of a node: bytes of its data, and number of its children."""

    size: int
    children: int


class ZooKeeperStores:
    """Stores below one path that no other test uses."""

    def __init__(self, server: ZooKeeperServer, *, session_ms: int = SESSION_MS) -> None:
        self.server = server
        self.session_ms = session_ms
        self.path = f"/tests/{os.getpid()}-{next(_FRESH)}"

    def make(self, controller_id: int, *, connect_timeout_ms: int = 15_000) -> ZooKeeperStore:
        """The store of a controller that listens on port 9000 + its id."""
        return ZooKeeperStore(
            f"zookeeper://{self.server.address}{self.path}",
            controller_id,
            Endpoint("CONTROLLER", "127.0.0.1", 9000 + controller_id, 0),
            session_timeout_ms=self.session_ms,
            connect_timeout_ms=connect_timeout_ms,
        )

    async def expire(self, store: ZooKeeperStore) -> None:
        """End the store's session as ZooKeeper would: without its knowledge."""
        client: Any = store.session._client
        assert client is not None
        await trio.to_thread.run_sync(self._end, client.client_id)

    async def children(self, name: str) -> list[str]:
        """The names of a node's children, as another client sees them."""
        path = f"{self.path}/{name}"
        return await self._ask(
            lambda zk: sorted(zk.get_children(path) or []) if zk.exists(path) else []
        )

    async def nodes(self) -> dict[str, Node]:
        """Every node below the path."""

        def walk(zk: KazooClient, path: str, found: dict[str, Node]) -> dict[str, Node]:
            listed: Any = zk.get_children(path, include_data=True)
            names, stat = listed
            found[path] = Node(stat.dataLength, len(names))
            for name in names:
                walk(zk, f"{path}/{name}", found)
            return found

        return await self._ask(lambda zk: walk(zk, self.path, {}))

    async def write(self, name: str, data: bytes) -> None:
        """Write a node as another client."""
        await self._ask(lambda zk: zk.set(f"{self.path}/{name}", data))

    async def delete(self, name: str) -> None:
        """Delete a node as another client."""
        await self._ask(lambda zk: zk.delete(f"{self.path}/{name}"))

    async def _ask(self, ask: Callable[[KazooClient], Any]) -> Any:
        def inside() -> Any:
            with _client(self.server) as zk:
                return ask(zk)

        return await trio.to_thread.run_sync(inside)

    def _end(self, client_id: tuple[int, bytes]) -> None:
        # A second connection with the id and the secret takes the session over, and closes it.
        with _client(self.server, client_id):
            pass


class _client:
    def __init__(self, server: ZooKeeperServer, client_id: tuple[int, bytes] | None = None) -> None:
        self._zk = KazooClient(server.address, timeout=10, client_id=client_id)

    def __enter__(self) -> KazooClient:
        self._zk.start(60)
        return self._zk

    def __exit__(self, *_: object) -> None:
        self._zk.stop()
        self._zk.close()
