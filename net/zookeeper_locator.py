"""Who the controller is, from ZooKeeper: one node, and a watch on it."""

from __future__ import annotations

import logging

import trio
from kazoo.exceptions import NoNodeError

from pk.core.meta.events import Endpoint
from pk.core.meta.store import StoreFailed
from pk.net.zookeeper_nodes import failures, read_leader_node
from pk.net.zookeeper_session import ZooKeeperSession

logger = logging.getLogger("pk.controller")


class ZooKeeperLocator:
    """Who the controller is (`core.broker.controller_link.Locator`): what a watch on one node tells. Between two changes
    `find` costs nothing."""

    def __init__(self, session: ZooKeeperSession, root: str) -> None:
        """`root` is the path of the store."""
        self._session = session
        self._path = f"{root}/leader"
        self._found: tuple[int, Endpoint] | None = None
        self._fresh = False
        self._reading = trio.Lock()

    async def find(self) -> tuple[int, Endpoint] | None:
        """The controller's id and where it listens, None while nobody is. While ZooKeeper is out of reach: who it was."""
        if not self._fresh:
            async with self._reading:
                if not self._fresh:
                    try:
                        with failures():
                            await self._read()
                    except StoreFailed as e:
                        self._fresh = False
                        logger.debug("the controller is looked for without ZooKeeper: %s", e)
        return self._found

    async def _read(self) -> None:
        await self._session.ready()
        watch = self._session.watcher(self._stale)
        while True:
            self._fresh = True  # a watch that fires while the answer is on its way makes it stale
            try:
                data, _ = await self._session.call(lambda zk: zk.get_async(self._path, watch=watch))
            except NoNodeError:
                # An absent node is watched by another request, and may have come between.
                if await self._session.call(lambda zk: zk.exists_async(self._path, watch=watch)):
                    continue
                self._found = None
                return
            self._found = read_leader_node(data)
            return

    def _stale(self) -> None:
        self._fresh = False
