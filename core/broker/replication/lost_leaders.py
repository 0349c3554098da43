"""Leaders that this broker has just lost its connection to: what the image says of them may be over
in a moment."""

from __future__ import annotations

from typing import Final

import trio

from pk.core.broker.purgatory import Purgatory
from pk.core.broker.state import BrokerState
from pk.core.meta.image import MetadataImage

VERDICT_S: Final = 0.25
"""How long a lost connection counts: the controller, whose own broke too, needs some hundredths of
that to find out."""


class LostLeaders:
    """See the top of this file. One for each broker."""

    def __init__(self, state: BrokerState, purgatory: Purgatory) -> None:
        self._state = state
        self._purgatory = purgatory
        self._until: dict[int, float] = {}

    def lost(self, node_id: int) -> None:
        """The connection by which this broker followed another one broke: the controller may be
        about to say who leads instead."""
        self._until[node_id] = trio.current_time() + VERDICT_S

    def __bool__(self) -> bool:
        """Whether there is one of whom the controller has not spoken yet."""
        now = trio.current_time()
        for node_id, until in list(self._until.items()):
            node = self._state.image.brokers.get(node_id)
            if now >= until or node is None or node.fenced:
                del self._until[node_id]
        return bool(self._until)

    async def wait_for_verdict(self) -> None:
        """Wait until the controller has said what became of them, at most `VERDICT_S`."""
        if self:
            await self._purgatory.until(
                lambda: not self, (MetadataImage,), max(self._until.values())
            )
