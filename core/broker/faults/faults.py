"""Injected faults: the requests that a test fails, delays or drops, and a record of received
requests.

A broker has a `Faults` only if `pk.faults.enable` is true. Its server then serves wrapped APIs
(core/api/cluster/faults.py), which call this object before each request; a broker without it serves
the APIs directly, so that disabled faults cost nothing. Requests of other brokers and of `pk test
faults` are not affected: faults are for a test's clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Literal

import trio
from msgspec import Struct

from pk.core.broker.clock import ShiftedClock
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.messages.pk_faults import FAULTS_CLIENT_ID

Kind = Literal["fail", "delay", "drop", "drop-answer"]
"""The effect on a request: it gets an error, or a late response; or the connection closes before
the request is handled, or after."""
KINDS: Final[tuple[Kind, ...]] = ("fail", "delay", "drop", "drop-answer")

FAULTS_MAX: Final = 1_000
"""The maximum number of active faults."""
REQUESTS_MAX: Final = 10_000
"""The number of the newest requests that are recorded."""
REQUEST_BYTES_MAX: Final = 64 << 20
"""The maximum total size of the recorded requests' records, in bytes."""
DELAY_MS_MAX: Final = 3_600_000

NODE_CLIENT_IDS: Final = "pk-node-"
"""The prefix of the client ids of other nodes."""


class Fault(Struct):
    """A fault for requests of one API."""

    fault_id: int
    kind: Kind
    api_key: int
    error_code: int = 0
    delay_ms: int = 0
    times: int = -1
    """The number of requests that it will still affect; -1: all until it is cleared."""
    client_id: str | None = None
    """The client whose requests it affects; None for all clients."""
    met: int = 0
    """The number of requests that it has affected."""


class SeenRequest(Struct, frozen=True):
    """A received request."""

    api_key: int
    version: int
    client_id: str | None
    connection_id: int
    message: Any
    """The request message, decoded; its records are bytes."""
    records_bytes: int = 0


class Faults:
    """The faults of a broker, and the requests that it has received. Used only on the event
    loop."""

    def __init__(self, clock: ShiftedClock) -> None:
        self._clock = clock
        self._faults: dict[int, Fault] = {}
        self._last_id = 0
        self._seen: deque[SeenRequest] = deque()
        self._seen_bytes = 0
        self._clients: dict[int, str | None] = {}
        """Connection → the client id of its last request."""
        self._closers: dict[int, Callable[[], None]] = {}
        self.arrived = trio.Event()
        """Set by the next request, and then replaced."""
        self.clock_moved: list[Callable[[], Awaitable[None]]] = []
        """Callbacks of parts that check the wall-clock time only at intervals."""

    # --- faults ---

    def add(
        self,
        kind: str,
        api_key: int,
        *,
        error_code: int = 0,
        delay_ms: int = 0,
        times: int = -1,
        client_id: str | None = None,
    ) -> int:
        """Add a fault, and return its id. Raises KafkaError: INVALID_REQUEST, POLICY_VIOLATION if
        there are too many."""
        known: Kind | None = next((k for k in KINDS if k == kind), None)
        if known is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a fault must be one of {', '.join(KINDS)}, not {kind[:40]!r}",
            )
        if known == "fail" and error_code == ErrorCode.NONE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a fault needs an error other than NONE")
        if not 0 <= delay_ms <= DELAY_MS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a delay must be from 0 to {DELAY_MS_MAX} ms, not {delay_ms}",
            )
        if times == 0 or times < -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"a fault must affect at least 1 request, not {times}"
            )
        if len(self._faults) >= FAULTS_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{FAULTS_MAX} faults are active, the maximum; clear some",
            )
        self._last_id += 1
        fault = Fault(self._last_id, known, api_key, error_code, delay_ms, times, client_id)
        self._faults[fault.fault_id] = fault
        return fault.fault_id

    def __iter__(self) -> Iterator[Fault]:
        return iter(list(self._faults.values()))

    def clear(self, fault_id: int = -1) -> int:
        """Remove a fault, or all of them (-1). Returns how many. Raises KafkaError:
        RESOURCE_NOT_FOUND."""
        if fault_id < 0:
            count = len(self._faults)
            self._faults.clear()
            return count
        if self._faults.pop(fault_id, None) is None:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"fault {fault_id} is not active")
        return 1

    def faults_for(self, api_key: int, client_id: str | None) -> list[Fault]:
        """Return the faults that affect a request, and count the request for each: all delays, and
        the first fault that ends it."""
        met: list[Fault] = []
        ended = False
        for fault in list(self._faults.values()):
            if fault.api_key != api_key or fault.client_id not in (None, client_id):
                continue
            if fault.kind != "delay":
                if ended:
                    continue
                ended = True
            met.append(fault)
            fault.met += 1
            if fault.times > 0:
                fault.times -= 1
                if fault.times == 0:
                    del self._faults[fault.fault_id]
        return met

    # --- requests ---

    def record_request(self, seen: SeenRequest) -> None:
        """Record a request, dropping the oldest ones if necessary."""
        self._clients[seen.connection_id] = seen.client_id
        self._seen.append(seen)
        self._seen_bytes += seen.records_bytes
        while len(self._seen) > REQUESTS_MAX or self._seen_bytes > REQUEST_BYTES_MAX:
            self._seen_bytes -= self._seen.popleft().records_bytes
        self.arrived.set()
        self.arrived = trio.Event()

    def requests(
        self, api_key: int | None = None, client_id: str | None = None
    ) -> list[SeenRequest]:
        """Return the received requests, oldest first; those of one API, or of one client."""
        return [
            seen
            for seen in self._seen
            if api_key in (None, seen.api_key) and client_id in (None, seen.client_id)
        ]

    def forget_requests(self) -> None:
        """Drop all recorded requests."""
        self._seen.clear()
        self._seen_bytes = 0

    # --- connections ---

    def connected(self, connection_id: int, close: Callable[[], None]) -> None:
        """Register a client's connection; `close` closes the connection at once."""
        self._closers[connection_id] = close

    def disconnected(self, connection_id: int) -> None:
        """Remove a closed connection."""
        self._closers.pop(connection_id, None)
        self._clients.pop(connection_id, None)

    def disconnect(self, client_id: str | None = None, *, except_for: int = -1) -> int:
        """Close every client's connection, or those of one client, except `except_for`. Returns how
        many."""
        count = 0
        for connection_id, close in list(self._closers.items()):
            sent_by = self._clients.get(connection_id)
            if connection_id == except_for or is_exempt(sent_by):
                continue
            if client_id is None or sent_by == client_id:
                close()
                count += 1
        return count

    # --- clock ---

    @property
    def shift_ms(self) -> int:
        """The time by which the broker's wall clock is ahead of the system's, in ms."""
        return self._clock.shift_ms

    async def set_clock(self, shift_ms: int) -> None:
        """Set the broker's wall clock to `shift_ms` ahead of the system's, and do everything that
        is due by then: retention, and the expiry of partitions' producers."""
        if abs(shift_ms) > 1 << 42:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the clock cannot be shifted by {shift_ms} ms"
            )
        self._clock.shift_ms = shift_ms
        for callback in self.clock_moved:
            await callback()


def is_exempt(client_id: str | None) -> bool:
    """Return whether faults do not apply to a client: another node of the cluster, or `pk test
    faults`."""
    return client_id is not None and (
        client_id.startswith(NODE_CLIENT_IDS) or client_id == FAULTS_CLIENT_ID
    )
