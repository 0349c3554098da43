"""A fetch that found too little, and waits for more: Kafka's DelayedFetch.

It has no task while it waits (core/broker/purgatory.py), since at the end of a log there is a
waiting fetch for each record. The server starts the fetch, which calls it back with the response.
If the records are not in the page cache, or the session has grown, building the response takes a
while, so the server awaits the fetch instead. A caller that is not the server always awaits it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from pk.core.api.records.fetch_request import INLINE_PARTITIONS, Fetch
from pk.core.api.registry import Outcome
from pk.core.broker.purgatory import DelayedOperation
from pk.core.wire.messages.fetch import FetchResponse

Done: TypeAlias = Callable[["DelayedFetch", Outcome[FetchResponse] | Exception | None], None]
"""Called with the response or the error, or with None if the response must be awaited."""


class DelayedFetch(DelayedOperation):
    """A waiting fetch. It has at most `INLINE_PARTITIONS` partitions when it is created."""

    __slots__ = ("_done", "_fetch")

    def __init__(self, fetch: Fetch) -> None:
        keys = fetch.keys()
        super().__init__(fetch.context.broker.purgatory, keys, fetch.deadline)
        self._fetch = fetch

    def start(self, done: Done) -> None:
        """Start to wait. `done` is called once, and must not raise."""
        self._done = done
        self.purgatory.delay(self)

    def cancel(self) -> None:
        """Stop waiting, because the response is no longer needed."""
        self.purgatory.end(self)
        del self._fetch, self._done

    def __await__(self) -> Generator[Any, Any, Outcome[FetchResponse]]:
        return wait(self._fetch, self.deadline).__await__()

    def attempt(self, *, expired: bool) -> bool:
        """See DelayedOperation."""
        try:
            outcome = self._outcome(expired)
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            outcome = e
        if outcome is _TOO_LITTLE:
            return False
        done = self._done
        del self._done  # it references the connection
        if outcome is not None:
            del self._fetch
        self.purgatory.end(self)
        try:
            done(self, outcome)
        finally:
            del done, outcome  # an exception references this frame
        return True

    def _outcome(self, expired: bool) -> Any:
        fetch = self._fetch
        if len(fetch.wanted) > INLINE_PARTITIONS:
            return None
        enough = fetch.read()
        if fetch.reader.is_cold:
            return None
        if not enough and not expired:
            return _TOO_LITTLE
        return fetch.answer()


_TOO_LITTLE = object()


async def wait(fetch: Fetch, deadline: float) -> Outcome[FetchResponse]:
    """Read again whenever a partition changes, until there is enough, or until `deadline` (trio's
    clock)."""
    await fetch.read_until(fetch.keys(), deadline)
    return fetch.answer()
