"""Brokers that were fenced a moment ago, which Metadata names a little longer.

A broker that dies is fenced here within some hundredths of a second; by Apache's controller, after
its session's nine seconds. Clients count on that. librdkafka gives up a broker that an answer does
not name, and if the same answer names other leaders for its partitions, the two may meet: then the
partition has no leader for that client until it looks through all of its topics, once a second. So
the answer with the new leaders still names the broker that they were taken from, and a later one
does not. Nothing else treats it as alive: it leads nothing, and its replicas are offline.
"""

from __future__ import annotations

from typing import Final

import trio

from pk.core.meta.image import Changes, MetadataImage

NAMED_S: Final = 2.0
"""How long: twice the time that librdkafka may need to look again."""


class JustFenced:
    """See the top of this file. One for each broker."""

    def __init__(self) -> None:
        self._unfenced: frozenset[int] = frozenset()
        self._until: dict[int, float] = {}

    def follow(self, image: MetadataImage, found: Changes) -> None:
        """An image is in force: who was fenced by it?"""
        if not found.brokers:
            return
        unfenced = frozenset(n for n, broker in image.brokers.items() if not broker.fenced)
        for node_id in self._unfenced - unfenced:
            self._until[node_id] = trio.current_time() + NAMED_S
        for node_id in [n for n in self._until if n in unfenced or n not in image.brokers]:
            del self._until[node_id]
        self._unfenced = unfenced

    def nodes(self) -> frozenset[int]:
        """Those of `NAMED_S`."""
        if self._until:
            now = trio.current_time()
            self._until = {n: until for n, until in self._until.items() if until > now}
        return frozenset(self._until)
