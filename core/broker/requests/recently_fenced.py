"""Brokers that were fenced a moment ago; Metadata responses include them a little longer.

This controller fences a broker that dies within a few hundredths of a second. Apache's does so
after its session timeout of nine seconds, and clients depend on that. librdkafka drops a broker
that a response does not include. If the same response has new leaders for that broker's partitions,
the client can end up with no leader for a partition until its next full refresh, a second later. So
the response with the new leaders still includes the broker that they replace, and a later one does
not. No other code treats that broker as alive: it leads nothing, and its replicas are offline.
"""

from __future__ import annotations

from typing import Final

import trio

from pk.core.meta.image import Changes, MetadataImage

RECENT_S: Final = 2.0
"""How long responses include a fenced broker, in seconds: twice librdkafka's interval between full
refreshes."""


class RecentlyFencedBrokers:
    """The recently fenced brokers. One for each broker."""

    def __init__(self) -> None:
        self._unfenced: frozenset[int] = frozenset()
        self._until: dict[int, float] = {}

    def image_changed(self, image: MetadataImage, delta: Changes) -> None:
        """Note the brokers that this image fences."""
        if not delta.brokers:
            return
        unfenced = frozenset(n for n, broker in image.brokers.items() if not broker.fenced)
        for node_id in self._unfenced - unfenced:
            self._until[node_id] = trio.current_time() + RECENT_S
        for node_id in [n for n in self._until if n in unfenced or n not in image.brokers]:
            del self._until[node_id]
        self._unfenced = unfenced

    def nodes(self) -> frozenset[int]:
        """Return the brokers that were fenced at most `RECENT_S` ago."""
        if self._until:
            now = trio.current_time()
            self._until = {n: until for n, until in self._until.items() if until > now}
        return frozenset(self._until)
