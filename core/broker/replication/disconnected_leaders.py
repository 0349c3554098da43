"""The leaders to which this broker has just lost its connection, and which the controller may be
about to replace."""

from __future__ import annotations

from typing import Final

import trio

from pk.core.broker.purgatory import Purgatory
from pk.core.broker.state import BrokerState
from pk.core.meta.image import MetadataImage

DECISION_WAIT_S: Final = 0.25
"""How long a lost connection counts, in seconds. The controller loses its own connection at the
same time and needs much less than this to react."""


class DisconnectedLeaders:
    """The lost leaders. One for each broker."""

    def __init__(self, state: BrokerState, purgatory: Purgatory) -> None:
        self._state = state
        self._purgatory = purgatory
        self._until: dict[int, float] = {}

    def lost(self, node_id: int) -> None:
        """Note that the connection on which this broker fetches from a leader has broken."""
        self._until[node_id] = trio.current_time() + DECISION_WAIT_S

    def __bool__(self) -> bool:
        """Return whether the controller has not yet decided about one of them."""
        now = trio.current_time()
        for node_id, until in list(self._until.items()):
            node = self._state.image.brokers.get(node_id)
            if now >= until or node is None or node.fenced:
                del self._until[node_id]
        return bool(self._until)

    async def wait_for_decision(self) -> None:
        """Wait until the controller has decided about all of them, at most `DECISION_WAIT_S`."""
        if self:
            await self._purgatory.until(
                lambda: not self, (MetadataImage,), max(self._until.values())
            )
