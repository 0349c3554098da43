"""What the requests of one connection cost its client, while there are quotas."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from time import perf_counter
from typing import Any, Protocol

import trio

from pk.core.api.records.produce_fast_path.fast_path import ProduceFastPath
from pk.core.api.registry import NO_RESPONSE
from pk.core.broker.requests.client_quotas import ClientQuotas, is_exempt
from pk.core.broker.requests.context import Context

PRODUCE = 0


class Bill:
    """What a request costs its client."""

    __slots__ = ("_measures", "client", "seconds", "wait_ms")

    def __init__(self, client: Context, *, measures: bool) -> None:
        """`measures`: whether its time on the loop is charged, too."""
        self._measures = measures
        self.client = client
        self.seconds = 0.0
        """Of the loop, as far as that is measured."""
        self.wait_ms = 0
        """What the client must wait whatever comes of the request."""

    def measured(self, work: Awaitable[Any]) -> Awaitable[Any]:
        """`work`, whose time on the loop is counted if it is charged."""
        return _Measured(work, self) if self._measures else work


class Billed(Protocol):
    """A request that its client may have to pay for."""

    bill: Bill | None


class _Measured:
    """Counts the time that an awaitable keeps the loop: each of its steps, and not its waits."""

    __slots__ = ("_bill", "_work")

    def __init__(self, work: Awaitable[Any], bill: Bill) -> None:
        self._work = work
        self._bill = bill

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, sent, thrown = self._work.__await__(), None, None
        while True:
            began = perf_counter()
            try:
                wish = steps.send(sent) if thrown is None else steps.throw(thrown)
            except StopIteration as done:
                return done.value
            finally:
                self._bill.seconds += perf_counter() - began
            sent = thrown = None
            try:
                sent = yield wish
            except BaseException as e:  # noqa: BLE001 (it is the work's to handle)
                thrown = e


class Charges:
    """Charges the client, and keeps until when it must wait."""

    __slots__ = ("_quotas", "muted_until", "unpaid_from")

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self.muted_until = 0.0
        """Until when nothing more is handled, because the client is above a quota; 0 where it is
        not."""
        self.unpaid_from = 0.0
        """Since when the fast path's time is not charged yet, where a quota limits time."""

    def bill_of(self, context: Context, api_key: int, request: Any, size: int) -> Bill | None:
        """A new bill; None for who pays nothing."""
        if not self._quotas.is_on or is_exempt(context, request):
            return None
        bill = Bill(context, measures=self._quotas.measures_time)
        if api_key == PRODUCE:
            bill.wait_ms = self._quotas.produced(context, size)
            self._mute(bill.wait_ms)
        return bill

    def charge(self, request: Billed, response: Any) -> None:
        """Charge what a request took, once, and write into its answer how long the client must
        wait."""
        bill, request.bill = request.bill, None
        if bill is None:
            return
        wait_ms = bill.wait_ms
        if self._quotas.measures_time:
            wait_ms = max(wait_ms, self._quotas.worked(bill.client, bill.seconds))
        if response is not NO_RESPONSE and hasattr(response, "throttle_time_ms"):
            wait_ms = max(wait_ms, response.throttle_time_ms)
            response.throttle_time_ms = wait_ms
        self._mute(wait_ms)

    def charge_taken(self, fast_path: ProduceFastPath) -> int:
        """Charge the client for what the fast path has taken. Its time since the last charge
        counts: so the appending of one run is charged with the next."""
        client, count = fast_path.cost()
        wait_ms = self._quotas.produced(client, count)
        if self._quotas.measures_time:
            now = perf_counter()
            wait_ms = max(wait_ms, self._quotas.worked(client, now - self.unpaid_from))
            self.unpaid_from = now
        self._mute(wait_ms)
        return wait_ms

    def _mute(self, wait_ms: int) -> None:
        """Handle nothing more for so long."""
        if wait_ms:
            self.muted_until = max(self.muted_until, trio.current_time() + wait_ms / 1000)
