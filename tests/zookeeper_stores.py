"""Metadata stores on a real ZooKeeper, and what may befall their sessions."""

from __future__ import annotations

import itertools
import os
from typing import Any

import trio
from kazoo.client import KazooClient
from zookeeper_server import ZooKeeperServer

from pk.core.meta.events import Endpoint
from pk.net.zookeeper import ZooKeeperStore

SESSION_MS = 1000
_FRESH = itertools.count(1)


class ZooKeeperStores:
    """Stores below one path that nobody else uses."""

    def __init__(self, server: ZooKeeperServer) -> None:
        self.server = server
        self.path = f"/tests/{os.getpid()}-{next(_FRESH)}"

    def make(self, controller_id: int) -> ZooKeeperStore:
        """The store of a controller that listens on port 9000 + its id."""
        return ZooKeeperStore(
            f"zookeeper://{self.server.address}{self.path}",
            controller_id,
            Endpoint("CONTROLLER", "127.0.0.1", 9000 + controller_id, 0),
            session_timeout_ms=SESSION_MS,
        )

    async def expire(self, store: ZooKeeperStore) -> None:
        """End the store's session as ZooKeeper would: without its knowledge."""
        client = store.session._client
        assert client is not None
        await trio.to_thread.run_sync(self._end, client.client_id)

    async def children(self, name: str) -> list[str]:
        """The names of a node's children, as somebody else sees them."""

        def ask() -> Any:
            with _client(self.server) as zk:
                return sorted(zk.get_children(f"{self.path}/{name}"))

        return await trio.to_thread.run_sync(ask)

    def _end(self, client_id: tuple[int, bytes]) -> None:
        # A second connection with the id and the secret takes the session over, and closes it.
        with _client(self.server, client_id):
            pass


class _client:
    def __init__(self, server: ZooKeeperServer, client_id: tuple[int, bytes] | None = None) -> None:
        self._zk = KazooClient(server.address, timeout=5, client_id=client_id)

    def __enter__(self) -> KazooClient:
        self._zk.start()
        return self._zk

    def __exit__(self, *_: object) -> None:
        self._zk.stop()
        self._zk.close()
