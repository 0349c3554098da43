"""The progress of each follower of the metadata log, from its fetches. DescribeQuorum returns it,
and a broker that shuts down may end once the other brokers know the new leaders."""

from __future__ import annotations

from msgspec import Struct

from pk.core.values import NO_TIMESTAMP, ZERO_UUID, Uuid


class Observer(Struct):
    """One follower. It has, and has applied, every event below `offset`."""

    node_id: int
    directory_id: Uuid = ZERO_UUID
    offset: int = 0
    last_fetch_ms: int = NO_TIMESTAMP
    caught_up_ms: int = NO_TIMESTAMP
    """The last time at which it had the whole log, in ms since 1970."""
    end_at_last_fetch: int = -1
    """The log end at its previous fetch."""


class QuorumObservers:
    """All observers by node; cleared at the end of the controller's term."""

    def __init__(self) -> None:
        self._known: dict[int, Observer] = {}

    def __iter__(self):
        return iter(self._known.values())

    def get(self, node_id: int) -> Observer | None:
        """Return the observer with this id, or None if it has not fetched from this controller."""
        return self._known.get(node_id)

    def clear(self) -> None:
        """Remove all observers."""
        self._known.clear()

    def fetched(
        self, node_id: int, directory_id: Uuid, offset: int, end_offset: int, now_ms: int
    ) -> None:
        """Record that a follower fetches from `offset`, while the log ends at `end_offset`."""
        one = self._known.get(node_id)
        if one is None:
            one = self._known[node_id] = Observer(node_id)
        if offset >= end_offset:
            one.caught_up_ms = max(one.caught_up_ms, now_ms)
        elif 0 <= one.end_at_last_fetch <= offset:
            # The follower has the whole log as of its last fetch.
            one.caught_up_ms = max(one.caught_up_ms, one.last_fetch_ms)
        one.directory_id, one.offset = directory_id, offset
        one.last_fetch_ms, one.end_at_last_fetch = now_ms, end_offset
