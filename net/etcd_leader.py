"""The controller's address, from etcd: one key, read every few seconds and watched in between.

A watch alone is not enough: if its server hangs or is partitioned, it stays silent forever. So each
watch lasts at most `READ_AGAIN_S`; then the key is read again, from another server if necessary.
The watch reports a change within milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import trio
from msgspec import Struct

from pk.core.meta.events import Endpoint
from pk.core.meta.store import StoreFailed
from pk.net.etcd_client import EtcdClient, decoded, encoded
from pk.net.store_documents import Documents

logger = logging.getLogger("pk.controller")

DOCUMENTS: Final = Documents("pk.etcd", "etcd")
"""The encoding of values."""

READ_AGAIN_S: Final = 2.0
"""How long to wait for a watch before reading the key again."""

CONNECT_TIMEOUT_MS: Final = 15_000
"""How long etcd may be unreachable before an error is reported."""


class LeaderKey(Struct, frozen=True):
    """The key `leader` at some revision of the database."""

    seen_at: int
    """The revision at which the key was read."""

    modified_at: int = 0
    """The revision of the key's last change; 0 if the key does not exist."""

    value: bytes = b""

    def read(self) -> tuple[int, Endpoint] | None:
        """Return the controller's id and address; None if there is no controller. Raises
        StoreFailed."""
        with DOCUMENTS.damage():
            return DOCUMENTS.read_leader(self.value) if self.modified_at else None


class EtcdLeader:
    """Finds the controller, as a `Locator` of `core.broker.controller.controller_client`. Its task
    runs in the nursery from the first `find` until it is cancelled."""

    def __init__(
        self,
        client: EtcdClient,
        root: str,
        nursery: trio.Nursery,
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    ) -> None:
        """Initialize the locator. `root` is the path of the store. `connect_timeout_ms` is how long
        the first answer may take."""
        self.root = root
        self.connect_timeout_s = connect_timeout_ms / 1000
        self.changed: list[Callable[[LeaderKey], None]] = []
        """Called on the loop with the key whenever it has been read."""
        self._client = client
        self._key = f"{root}/leader"
        self._nursery = nursery
        self._found: tuple[int, Endpoint] | None = None
        self._read_once = trio.Event()
        self._following: trio.CancelScope | None = None

    def follow(self) -> None:
        """Start to follow the key, unless that has started already."""
        if self._following is None:
            self._following = trio.CancelScope()
            self._nursery.start_soon(self._follow, self._following)

    def stop(self) -> None:
        """Stop following the key."""
        if self._following is not None:
            self._following.cancel()

    async def find(self) -> tuple[int, Endpoint] | None:
        """Return the controller's id and address; None if there is no controller. While etcd is
        unreachable, returns the last known controller at once, since it may be reachable."""
        self.follow()
        with trio.move_on_after(self.connect_timeout_s):
            await self._read_once.wait()
        return self._found

    async def read(self, *, within_s: float) -> LeaderKey:
        """Read the key now. Raises StoreFailed."""
        body = {"key": encoded(self._key)}
        answer = await self._client.call("/v3/kv/range", body, within_s=within_s)
        kvs: list[dict[str, Any]] = answer.body.get("kvs", [])
        if not kvs:
            return LeaderKey(answer.revision)
        value = decoded(kvs[0].get("value", ""))
        return LeaderKey(answer.revision, int(kvs[0]["mod_revision"]), value)

    async def _follow(self, scope: trio.CancelScope) -> None:
        with scope:
            await self._follow_changes()

    async def _follow_changes(self) -> None:
        while True:
            try:
                key = await self.read(within_s=self.connect_timeout_s)
            except StoreFailed as e:
                logger.debug("looking for the controller failed: %s", e)
                await trio.sleep(READ_AGAIN_S)
                continue
            try:
                self._found = key.read()
            except StoreFailed as e:
                logger.warning("the controller's address could not be read: %s", e)
                self._found = None
            self._read_once.set()
            for call in list(self.changed):
                call(key)
            with trio.move_on_after(READ_AGAIN_S):
                await self._client.wait_for_change(self._key, key.seen_at)
