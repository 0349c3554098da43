"""Who the controller is, from ZooKeeper: one node, and a watch on it."""

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
    """Who the controller is (`core.broker.controller.controller_link.Locator`): what a watch on one
    node tells. Between two changes `find` costs nothing."""

    def __init__(self, session: ZooKeeperSession, root: str) -> None:
        """`root` is the path of the store."""
        self._session = session
        self._path = f"{root}/leader"
        self._found: tuple[int, Endpoint] | None = None
        self._changes = 0
        """How often a watch has reported a change, or was lost."""
        self._read_at = -1
        """What `_changes` was when `_found` was asked for."""
        self._reading = trio.Lock()

    async def find(self) -> tuple[int, Endpoint] | None:
        """The controller's id and where it listens, None while there is none. While ZooKeeper is
        out of reach: who it was, at once, for it may be in reach itself."""
        if self._read_at >= 0 and self._session.away:
            return self._found
        if self._read_at != self._changes:
            async with self._reading:
                if self._read_at != self._changes:
                    try:
                        with failures():
                            await self._read()
                    except StoreFailed as e:
                        logger.debug("the controller is looked for without ZooKeeper: %s", e)
        return self._found

    async def _read(self) -> None:
        await self._session.ready()
        watch = self._session.watcher(self._change)
        while True:
            # A change reported while the answer is on its way makes the answer an old one.
            # So does a cancellation: what was not read to its end was not read.
            changes, found = self._changes, None
            try:
                data, _ = await self._session.call(lambda zk: zk.get_async(self._path, watch=watch))
                found = DOCUMENTS.read_leader(data)
            except NoNodeError:
                # An absent node is watched by another request, and may have come between.
                if await self._session.call(lambda zk: zk.exists_async(self._path, watch=watch)):
                    continue
            self._found, self._read_at = found, changes
            return

    def _change(self) -> None:
        self._changes += 1
