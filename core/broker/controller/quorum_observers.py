"""The progress of each follower of the metadata log, from its fetches: for DescribeQuorum, and for
a broker that shuts down, which may leave once the others know the new leaders."""

from __future__ import annotations

from msgspec import Struct

from pk.core.values import NO_TIMESTAMP, ZERO_UUID, Uuid


class Observer(Struct):
    """One follower. It has, and has applied, everything below `offset`."""

    node_id: int
    directory_id: Uuid = ZERO_UUID
    offset: int = 0
    last_fetch_ms: int = NO_TIMESTAMP
    caught_up_ms: int = NO_TIMESTAMP
    """When it last had the whole log."""
    end_at_last_fetch: int = -1
    """The log end at its previous fetch."""


class QuorumObservers:
    """All observers by node; cleared at the end of the controller's term."""

    def __init__(self) -> None:
        self._known: dict[int, Observer] = {}

    def __iter__(self):
        return iter(self._known.values())

    def get(self, node_id: int) -> Observer | None:
        """The observer with this id; None if it has not fetched from here."""
        return self._known.get(node_id)

    def clear(self) -> None:
        """Remove all."""
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
            # It has the whole log as of its last fetch.
            one.caught_up_ms = max(one.caught_up_ms, one.last_fetch_ms)
        one.directory_id, one.offset = directory_id, offset
        one.last_fetch_ms, one.end_at_last_fetch = now_ms, end_offset
