"""Asks several brokers something at once, and does not let one that hangs hold up what the others
have answered.

A process that was stopped, or a host that swaps, takes connections and requests and answers none of
them; how long that will last is unknown. So once one has answered, the others have a time limit of
their own.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import trio

from pk.net.client.cluster import Cluster

_STILL_SILENT_S: Final = 0.5
"""How long a broker is waited for that was silent a moment ago."""

_FORGOTTEN_S: Final = 10.0
"""For how long it counts as silent; then it is waited for as any other."""


class Together:
    """Remembers who was silent, so that a command of several rounds waits for it once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._silent: dict[int, float] = {}

    def _is_silent(self, node_id: int) -> bool:
        since = self._silent.get(node_id)
        if since is None or trio.current_time() - since > _FORGOTTEN_S:
            return False
        connection = self._cluster.ready_connection(node_id)
        return connection is None or connection.in_flight > 0

    async def ask(
        self,
        nodes: Iterable[int],
        ask: Callable[[int], Awaitable[bool]],
        *,
        then_s: float,
        first_s: float = float("inf"),
    ) -> frozenset[int]:
        """Runs `ask`, which says whether the broker answered, for each of the nodes. Returns those
        that were given up.

        No answer is waited for longer than `first_s`. Once one has answered, the others have
        `then_s` more, or as long as it took where that is longer: a cluster may be slow as a whole.
        """
        began = trio.current_time()
        limits = {node_id: trio.CancelScope() for node_id in nodes}
        given_up: set[int] = set()

        def heard() -> None:
            now = trio.current_time()
            for limit in limits.values():
                limit.deadline = min(limit.deadline, now + max(then_s, now - began))

        async def one(node_id: int, limit: trio.CancelScope) -> None:
            wait_s = first_s
            if then_s < float("inf") and self._is_silent(node_id):
                wait_s = min(first_s, then_s, _STILL_SILENT_S)
            limit.deadline = min(limit.deadline, began + wait_s)
            with limit:
                if await ask(node_id):
                    self._silent.pop(node_id, None)
                    heard()
            if limit.cancelled_caught:
                given_up.add(node_id)
                if not self._is_silent(node_id):
                    self._silent[node_id] = trio.current_time()

        async with trio.open_nursery() as nursery:
            for node_id, limit in limits.items():
                nursery.start_soon(one, node_id, limit)
        return frozenset(given_up)
