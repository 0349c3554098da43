"""Finds the controller through ZooKeeper: reads a node, and watches it."""

from __future__ import annotations

import logging

import trio
from kazoo.exceptions import NoNodeError  # pyright: ignore[reportMissingTypeStubs]

from pk.core.meta.events import Endpoint
from pk.core.meta.store import StoreFailed
from pk.net.zookeeper_nodes import DOCUMENTS, failures
from pk.net.zookeeper_session import ZooKeeperSession

logger = logging.getLogger("pk.controller")


class ZooKeeperLocator:
    """Finds the controller (`core.broker.controller.controller_client.Locator`) through a watch on
    one node. `find` sends a request only after a change."""

    def __init__(self, session: ZooKeeperSession, root: str) -> None:
        """Initialize the locator. `root` is the path of the store."""
        self._session = session
        self._path = f"{root}/leader"
        self._found: tuple[int, Endpoint] | None = None
        self._changes = 0
        """How often a watch has reported a change or was lost."""
        self._read_at = -1
        """The value of `_changes` when `_found` was read."""
        self._reading = trio.Lock()

    async def find(self) -> tuple[int, Endpoint] | None:
        """Return the controller's id and address; None if there is no controller. While ZooKeeper
        is unreachable, returns the last known controller at once, since it may be reachable."""
        if self._read_at >= 0 and self._session.away:
            return self._found
        if self._read_at != self._changes:
            async with self._reading:
                if self._read_at != self._changes:
                    try:
                        with failures():
                            await self._read()
                    except StoreFailed as e:
                        logger.debug("cannot ask ZooKeeper for the controller: %s", e)
        return self._found

    async def _read(self) -> None:
        await self._session.ready()
        watch = self._session.watcher(self._change)
        while True:
            # A change that is reported before the answer arrives makes the answer outdated. So does
            # a cancellation: a read that did not finish does not count.
            changes, found = self._changes, None
            try:
                data, _ = await self._session.call(lambda zk: zk.get_async(self._path, watch=watch))
                found = DOCUMENTS.read_leader(data)
            except NoNodeError:
                # A missing node needs another request for a watch, and may have been created before
                # that request.
                if await self._session.call(lambda zk: zk.exists_async(self._path, watch=watch)):
                    continue
            self._found, self._read_at = found, changes
            return

    def _change(self) -> None:
        self._changes += 1
