"""Asks several brokers at once, without letting one that hangs delay the answers of the others.

A stopped process, or a host that swaps, accepts connections and requests without answering for an
unknown time. So the other brokers have a time limit once one has answered.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import trio

from pk.net.client.cluster import Cluster

_SILENT_WAIT_S: Final = 0.5
"""How long to wait for a broker that was silent a moment ago."""

_SILENT_FOR_S: Final = 10.0
"""How long a broker counts as silent. After that, it is waited for like any other."""


class FanOut:
    """Asks several brokers at once, and remembers silent ones, so that a command with several
    rounds waits for them only once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._silent: dict[int, float] = {}

    def _is_silent(self, node_id: int) -> bool:
        since = self._silent.get(node_id)
        if since is None or trio.current_time() - since > _SILENT_FOR_S:
            return False
        connection = self._cluster.ready_connection(node_id)
        return connection is None or connection.in_flight > 0

    async def ask(
        self,
        nodes: Iterable[int],
        ask: Callable[[int], Awaitable[bool]],
        *,
        others_s: float,
        first_answer_s: float = float("inf"),
    ) -> frozenset[int]:
        """Run `ask`, which returns whether the broker answered, for each of the nodes. Returns the
        nodes that were given up.

        Waits at most `first_answer_s` for the first answer. Then the others have another
        `others_s`, or as long as the first took if that is longer, since the whole cluster may be
        slow.
        """
        began = trio.current_time()
        limits = {node_id: trio.CancelScope() for node_id in nodes}
        given_up: set[int] = set()

        def shorten_limits() -> None:
            now = trio.current_time()
            for limit in limits.values():
                limit.deadline = min(limit.deadline, now + max(others_s, now - began))

        async def ask_one(node_id: int, limit: trio.CancelScope) -> None:
            wait_s = first_answer_s
            if others_s < float("inf") and self._is_silent(node_id):
                wait_s = min(first_answer_s, others_s, _SILENT_WAIT_S)
            limit.deadline = min(limit.deadline, began + wait_s)
            with limit:
                if await ask(node_id):
                    self._silent.pop(node_id, None)
                    shorten_limits()
            if limit.cancelled_caught:
                given_up.add(node_id)
                if not self._is_silent(node_id):
                    self._silent[node_id] = trio.current_time()

        async with trio.open_nursery() as nursery:
            for node_id, limit in limits.items():
                nursery.start_soon(ask_one, node_id, limit)
        return frozenset(given_up)
