"""How far each follower of the metadata log is, as its fetches say: for DescribeQuorum, and for a
broker that shuts down, which may go when the others know who leads in its place."""

from __future__ import annotations

from msgspec import Struct

from pk.core.values import NO_TIMESTAMP, ZERO_UUID, Uuid


class Observer(Struct):
    """One follower. It has, and has reacted to, everything below `offset`."""

    node_id: int
    directory_id: Uuid = ZERO_UUID
    offset: int = 0
    last_fetch_ms: int = NO_TIMESTAMP
    caught_up_ms: int = NO_TIMESTAMP
    """When it last had all there was."""
    end_at_last_fetch: int = -1
    """Where the log ended when it fetched before."""


class QuorumObservers:
    """All of them, by node; forgotten with the controller's term."""

    def __init__(self) -> None:
        self._known: dict[int, Observer] = {}

    def __iter__(self):
        return iter(self._known.values())

    def get(self, node_id: int) -> Observer | None:
        """One of them; None if it has not fetched from here."""
        return self._known.get(node_id)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

    def fetched(
        self, node_id: int, directory_id: Uuid, offset: int, end_offset: int, now_ms: int
    ) -> None:
        """A follower asks for what begins at `offset`, while the log ends at `end_offset`."""
        one = self._known.get(node_id)
        if one is None:
            one = self._known[node_id] = Observer(node_id)
        if offset >= end_offset:
            one.caught_up_ms = max(one.caught_up_ms, now_ms)
        elif 0 <= one.end_at_last_fetch <= offset:
            # It has what was the whole log at its last fetch.
            one.caught_up_ms = max(one.caught_up_ms, one.last_fetch_ms)
        one.directory_id, one.offset = directory_id, offset
        one.last_fetch_ms, one.end_at_last_fetch = now_ms, end_offset
