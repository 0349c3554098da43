"""The cost of a request for its client, if there are quotas."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from time import perf_counter
from typing import Any

from pk.core.broker.requests.context import Context


class RequestCost:
    """The cost of a request for its client."""

    __slots__ = ("_measures", "client", "seconds", "wait_ms")

    def __init__(self, client: Context, *, measures: bool) -> None:
        """Initialize the cost. `measures` tells whether its time on the loop is charged too."""
        self._measures = measures
        self.client = client
        self.seconds = 0.0
        """How many seconds the request has occupied the loop, if that is measured."""
        self.wait_ms = 0
        """How long the client must wait, whether the request succeeds or not."""

    def measured(self, work: Awaitable[Any]) -> Awaitable[Any]:
        """Return `work`, whose time on the loop is measured if it is charged."""
        return _Measured(work, self) if self._measures else work


class _Measured:
    """Measures how long an awaitable occupies the loop, without its waits."""

    __slots__ = ("_cost", "_work")

    def __init__(self, work: Awaitable[Any], cost: RequestCost) -> None:
        self._work = work
        self._cost = cost

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, sent, thrown = self._work.__await__(), None, None
        while True:
            began = perf_counter()
            try:
                wish = steps.send(sent) if thrown is None else steps.throw(thrown)
            except StopIteration as done:
                return done.value
            finally:
                self._cost.seconds += perf_counter() - began
            sent = thrown = None
            try:
                sent = yield wish
            except BaseException as e:  # noqa: BLE001 (it is the work's to handle)
                thrown = e
