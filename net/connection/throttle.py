"""Charges the client of one connection for its requests, if there are quotas, and records how long
the client must wait."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import trio

from pk.core.api.records.produce_fast_path.fast_path import ProduceFastPath
from pk.core.api.registry import NO_RESPONSE
from pk.core.broker.requests.client_quotas import ClientQuotas, is_exempt
from pk.core.broker.requests.context import Context
from pk.net.connection.request import ReceivedRequest
from pk.net.connection.request_cost import RequestCost

PRODUCE = 0


class Throttle:
    """The throttle of a connection; see the top of this file."""

    __slots__ = ("_quotas", "muted_until", "uncharged_since")

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self.muted_until = 0.0
        """The time until which no request is handled, because the client is above a quota; 0 if it
        is not."""
        self.uncharged_since = 0.0
        """The time since which the fast path has not been charged, if a quota limits time."""

    def cost_of(
        self, context: Context, api_key: int, request: Any, size: int
    ) -> RequestCost | None:
        """Return the cost of a new request; None if no quota applies to the client."""
        if not self._quotas.is_on or is_exempt(context, request):
            return None
        cost = RequestCost(context, measures=self._quotas.measures_time)
        if api_key == PRODUCE:
            cost.wait_ms = self._quotas.charge_produce(context, size)
            self._mute(cost.wait_ms)
        return cost

    def charge(self, request: ReceivedRequest, response: Any) -> None:
        """Charge a request's cost, once, and set in its answer how long the client must wait."""
        cost, request.cost = request.cost, None
        if cost is None:
            return
        wait_ms = cost.wait_ms
        if self._quotas.measures_time:
            wait_ms = max(wait_ms, self._quotas.charge_time(cost.client, cost.seconds))
        if response is not NO_RESPONSE and hasattr(response, "throttle_time_ms"):
            wait_ms = max(wait_ms, response.throttle_time_ms)
            response.throttle_time_ms = wait_ms
        self._mute(wait_ms)

    def charge_fast_path(self, fast_path: ProduceFastPath) -> int:
        """Charge the client for the requests that the fast path has accepted, and for the time
        since the last charge. The appending of one run is charged with the next run."""
        client, count = fast_path.cost()
        wait_ms = self._quotas.charge_produce(client, count)
        if self._quotas.measures_time:
            now = perf_counter()
            wait_ms = max(wait_ms, self._quotas.charge_time(client, now - self.uncharged_since))
            self.uncharged_since = now
        self._mute(wait_ms)
        return wait_ms

    def _mute(self, wait_ms: int) -> None:
        """Handle no requests for `wait_ms`."""
        if wait_ms:
            self.muted_until = max(self.muted_until, trio.current_time() + wait_ms / 1000)
