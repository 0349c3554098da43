"""Metadata stores on a real etcd, and events of their leases."""

from __future__ import annotations

import base64
import itertools
import os
from typing import Any

import trio
from etcd_server import EtcdServers

from pk.core.meta.events import Endpoint
from pk.net.etcd import EtcdStore
from pk.net.etcd_client import EtcdClient
from pk.net.etcd_leader import EtcdLeader

SESSION_MS = 30_000
"""Long enough for a busy machine."""

SHORT_MS = 3000
"""Session timeout for tests in which etcd stops answering and the store may lose its lease."""

_FRESH = itertools.count(1)


class EtcdStores:
    """Stores below one path that no other test uses. Their tasks run in `nursery`, which must be
    set before one is made."""

    def __init__(self, servers: EtcdServers, *, session_ms: int = SESSION_MS) -> None:
        self.servers = servers
        self.session_ms = session_ms
        self.path = f"/tests/{os.getpid()}-{next(_FRESH)}"
        self.nursery: trio.Nursery | None = None

    def make(
        self,
        controller_id: int,
        client: EtcdClient | None = None,
        *,
        connect_timeout_ms: int = 15_000,
        try_s: float = 1.0,
    ) -> EtcdStore:
        """The store of a controller that listens on port 9000 + its id."""
        assert self.nursery is not None
        client = client or EtcdClient(self.servers.address, try_s=try_s)
        return EtcdStore(
            client,
            EtcdLeader(client, self.path, self.nursery, connect_timeout_ms=connect_timeout_ms),
            controller_id,
            Endpoint("CONTROLLER", "127.0.0.1", 9000 + controller_id, 0),
            self.nursery,
            session_timeout_ms=self.session_ms,
        )

    async def expire(self, store: EtcdStore) -> None:
        """End the store's lease as etcd would: without its knowledge."""
        assert store._lease is not None
        await self.ask("/v3/lease/revoke", {"ID": store._lease.id})

    async def keys(self, name: str = "") -> list[str]:
        """The names of the keys that begin with `name`, as another client sees them."""
        answer = await self.ask("/v3/kv/range", self._range(name))
        found = [base64.b64decode(kv["key"]).decode() for kv in answer.get("kvs", [])]
        return [key.removeprefix(f"{self.path}/") for key in found]

    async def write(self, name: str, value: bytes) -> None:
        """Write a key as another client."""
        body = {"key": _text(f"{self.path}/{name}"), "value": _text(value)}
        await self.ask("/v3/kv/put", body)

    async def delete(self, name: str) -> None:
        """Delete a key as another client."""
        await self.ask("/v3/kv/deleterange", {"key": _text(f"{self.path}/{name}")})

    async def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of a running server to another client."""
        return await trio.to_thread.run_sync(self.servers.running[0].ask, path, body)

    def _range(self, name: str) -> dict[str, Any]:
        first = f"{self.path}/{name}"
        return {"key": _text(first), "range_end": _text(first + "\xff")}


def _text(value: str | bytes) -> str:
    data = value.encode("latin-1") if isinstance(value, str) else value
    return base64.b64encode(data).decode()
