"""One TCP connection to a broker: requests are sent in order, and their answers arrive in the same
order, matched by correlation id.

`submit` sends a request at once if the socket accepts it: waking a task to send it would cost a
turn of the loop. A request is queued if the socket does not accept it, if the broker throttles the
client, or if the connection uses TLS. `submit` sends only while nothing is queued. Two tasks also
use the socket: the writer sends the queue, and the reader receives answers. Send failures are left
to the writer, so that the reader first receives the peer's last answers.

Each request waits for its own event, so a cancelled caller merely stops waiting, and its answer is
dropped when it arrives. A request that times out closes the connection, as in the Java client,
since the requests after it would get no answer either. A protocol violation by the peer closes it
too.

Requests are sent in the order of the calls to `submit`; the idempotent producer relies on that.
"""

import errno
import math
import os
import random
import socket as stdlib_socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Protocol, cast

import trio
from msgspec import Struct

from pk.core.auth.sasl import SaslError
from pk.core.errors import ErrorCode, KafkaError, ProtocolError, error_name, without_frames
from pk.core.wire.codec import decode
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.net.client.common_config import ClientConfig
from pk.net.client.errors import (
    ClientError,
    Closed,
    ConnectFailed,
    Disconnected,
    RequestTimedOut,
    TlsRefused,
)
from pk.net.client.node import Node

API_VERSIONS: Final = 18
REAUTHENTICATE_SHARE_MIN: Final = 0.85
REAUTHENTICATE_SHARE_MAX: Final = 0.95
"""The client authenticates again after at most this share of the session's lifetime."""
LOGIN_FAILED: Final = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)
"""The errors with which a broker refuses a login."""

_RECEIVE_BYTES: Final = 65_536
_GROW_BYTES: Final = 1_048_576


class RequestTrace(Struct, frozen=True):
    """The trace of one request, passed to `on_request` when the request is answered or has
    failed."""

    api_key: int
    api_name: str
    api_version: int
    node_id: int
    address: str
    correlation_id: int
    started: float
    """Seconds, by trio's clock."""

    elapsed_ms: float
    bytes_out: int
    bytes_in: int
    throttle_ms: int
    error: str | None
    """The name of the answer's own error code, or the failure without an answer; None on
    success."""


OnRequest = Callable[[RequestTrace], None]

TRACE_HOOK: Final[ContextVar[OnRequest | None]] = ContextVar("pk_trace_hook", default=None)
"""A function that is called with every request that this task, and tasks it starts, submit over any
connection, in addition to the client's own `on_request`. A program sets it around the calls it
wants to trace."""

ANSWER_HOOK: Final[ContextVar[Callable[[Any, Any], None] | None]] = ContextVar(
    "pk_answer_hook", default=None
)
"""A function that is called with every request that this task, and tasks it starts, submit, and
with the answer."""

REQUEST_GUARD: Final[ContextVar[Callable[[Any], None] | None]] = ContextVar(
    "pk_request_guard", default=None
)
"""A function that is called before each request that this task, and tasks it starts, send. It
raises if the request is forbidden: the last guard of a program that must not change anything."""

CONNECT: Final = "(connect)"
"""The name under which a new connection is traced, with api key -1."""


class Socket(Protocol):
    """The part of a socket's interface that a connection uses, with TLS or without."""

    def recv_into(self, buffer: memoryview, /) -> Awaitable[int]: ...
    def send(self, data: bytes | memoryview, /) -> Awaitable[int]: ...
    def close(self) -> None: ...


class Pending:
    """A request in flight. `wait()` returns its answer; the answer is dropped if the caller has
    stopped waiting."""

    __slots__ = (
        "_event",
        "_finished",
        "abandoned",
        "bytes_out",
        "correlation_id",
        "deadline",
        "error",
        "on_answer",
        "on_request",
        "request",
        "response",
        "started",
        "version",
    )

    def __init__(self, request: Any, version: int, correlation_id: int, deadline: float) -> None:
        self.request = request
        self.version = version
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.started = trio.current_time()
        self.on_request = TRACE_HOOK.get()
        self.on_answer = ANSWER_HOOK.get()
        self.abandoned = False
        """Whether no task waits for the answer anymore."""

        self.bytes_out = 0
        self.response: Any = None
        self.error: Exception | None = None
        self._event = trio.Event()
        self._finished: Callable[[Pending], None] | None = None

    @property
    def done(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> Any:
        """Wait for the answer and return it decoded. Raises Disconnected, RequestTimedOut, Closed
        or ProtocolError."""
        await self._event.wait()
        if self.error is not None:
            raise without_frames(self.error)
        return self.response

    def on_finish(self, callback: "Callable[[Pending], None]") -> None:
        """Call `callback` when the request has its answer or error, or at once if it already has.
        `callback` must be quick and must not raise."""
        if self.done:
            callback(self)
        else:
            self._finished = callback

    def finish(self, response: Any, error: Exception | None) -> None:
        self.response = response
        self.error = error
        self._event.set()
        if self._finished is not None:
            self._finished(self)


class Connection:
    """A connection that has negotiated API versions. `connect` creates it; its tasks run in the
    nursery given there."""

    def __init__(
        self,
        socket: Socket,
        node: Node,
        config: ClientConfig,
        on_request: OnRequest | None,
        *,
        send_at_once: Callable[[bytes], int] | None = None,
    ) -> None:
        """Initialize the connection. `send_at_once` sends as much as the socket accepts without
        waiting and returns the number of bytes; it is None if only the writer can send (TLS)."""
        self.node = node
        self.config = config
        self.api_versions: dict[int, tuple[int, int]] = {}
        """Api key → the versions the broker serves."""

        self.api_versions_response: Any = None
        """The answer to ApiVersions, which also holds the broker's features."""

        self.last_used = trio.current_time()
        self._socket = socket
        self._send_at_once = send_at_once
        self._sending = False
        """Whether the writer is sending."""

        self._partly_sent = False
        """Whether `_outgoing` starts with the rest of a request, so that nothing may be sent before
        it."""

        self._on_request = on_request
        self._correlation_id = 0
        self._outgoing: deque[tuple[bytes, Pending | None]] = deque()
        self._unanswered: deque[Pending] = deque()
        self._wake_writer = trio.Event()
        self._throttled_until = 0.0
        self._served = False
        """Whether any request but ApiVersions has been answered."""

        self._reauthenticate_at = math.inf
        """When this client must authenticate again, before it sends anything else (KIP-368)."""

        self._closed: Exception | None = None
        self._scope = trio.CancelScope()
        self._deadline_scope: trio.CancelScope | None = None
        self.closed = trio.Event()
        """Set once the connection is unusable."""

        self.on_lost: Callable[[], None] | None = None
        """Called as soon as the peer is known to be gone, before any waiting task gets its
        error."""

    @property
    def usable(self) -> bool:
        return self._closed is None

    @property
    def in_flight(self) -> int:
        """The number of requests that were submitted and not answered."""
        return len(self._unanswered)

    @property
    def waiting_since(self) -> float | None:
        """When the oldest request in flight was submitted; None without requests in flight."""
        return self._unanswered[0].started if self._unanswered else None

    @property
    def waited_s(self) -> float:
        """How long the oldest request in flight has waited for its answer, in seconds; 0 without
        requests in flight."""
        return trio.current_time() - self._unanswered[0].started if self._unanswered else 0.0

    def is_clogged(self, for_s: float) -> bool:
        """Return whether nothing was answered for `for_s` seconds and no caller waits anymore. A
        broker answers in order, so a new request would wait for the old ones."""
        waiting = self._unanswered
        return self.waited_s >= for_s and bool(waiting) and all(p.abandoned for p in waiting)

    def version_of(self, api_key: int, *, low: int = 0, high: int = 32767) -> int:
        """Return the newest version of an API that both sides support within [low, high]. Raises
        KafkaError UNSUPPORTED_VERSION.
        """
        api = MESSAGES[api_key]
        theirs = self.api_versions.get(api_key)
        where = self.node.label
        if theirs is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{where} does not serve {api.name}")
        ours = api.versions
        best = min(theirs[1], ours[1], high)
        least = max(theirs[0], ours[0], low)
        if best < least:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{where} serves {api.name} in versions {theirs[0]} to {theirs[1]};"
                f" needed here: {max(ours[0], low)} to {min(ours[1], high)}",
            )
        return best

    def serves(self, api_key: int, version: int = 0) -> bool:
        """Return whether the broker serves an API in `version` or a newer one."""
        return self.api_versions.get(api_key, (0, -1))[1] >= version

    def submit(
        self,
        request: Any,
        version: int,
        *,
        timeout_ms: float | None = None,
        answered: bool = True,
    ) -> Pending:
        """Send a request, or queue it after those submitted before. Raises Closed or Disconnected
        if the connection has ended.

        `answered=False` is for a produce with acks=0, which has no answer: the request is done once
        the socket has accepted it. Exceptions raised by `REQUEST_GUARD` pass through unchanged.
        """
        if self._closed is not None:
            raise without_frames(self._closed)
        guard = REQUEST_GUARD.get()
        if guard is not None:
            guard(request)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = frame_request(request, version, self._correlation_id, self.config.client_id)
        now = self.last_used = trio.current_time()
        wait_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        pending = Pending(request, version, self._correlation_id, now + wait_ms / 1000)
        pending.bytes_out = len(frame)
        if answered:
            self._unanswered.append(pending)
            self._wake_by(pending.deadline)
        sent = self._send_now(frame, now)
        if sent < len(frame):
            self._partly_sent = self._partly_sent or sent > 0
            self._outgoing.append((frame[sent:], None if answered else pending))
            self._wake_writer.set()
        elif not answered:
            self._finish(pending, None, 0, None)
        return pending

    def _send_now(self, frame: bytes, now: float) -> int:
        """Send as much of a frame as the socket accepts, if nothing is queued before it. Returns
        the number of bytes."""
        if (
            self._send_at_once is None
            or self._outgoing
            or self._sending
            or self._throttled_until > now
            or now >= self._reauthenticate_at
        ):
            return 0
        try:
            return self._send_at_once(frame)
        except OSError:
            return 0  # no room, or an error that the writer will find

    async def request(
        self,
        request: Any,
        *,
        version: int | None = None,
        low: int = 0,
        high: int = 32767,
        timeout_ms: float | None = None,
    ) -> Any:
        """Send `request` and wait for its answer. Uses the newest common version unless one is
        given."""
        if version is None:
            version = self.version_of(request.API_KEY, low=low, high=high)
        pending = self.submit(request, version, timeout_ms=timeout_ms)
        try:
            return await pending.wait()
        except trio.Cancelled:
            pending.abandoned = True
            if pending.on_request is not None and not pending.done:
                pending.on_request(self._trace(pending, None, 0, "canceled before the response"))
                pending.on_request = None
            raise

    def close(self, reason: Exception | None = None) -> None:
        """End the connection; requests in flight fail with `reason`. Idempotent, never blocks."""
        if self._closed is not None:
            return
        self._closed = reason or Closed(f"the connection to {self.node.address} was closed")
        self.closed.set()
        self._scope.cancel()
        self._socket.close()
        waiting = [pending for _, pending in self._outgoing if pending is not None]
        waiting += self._unanswered
        self._outgoing.clear()
        self._unanswered.clear()
        for pending in waiting:
            self._finish(pending, None, 0, self._closed)

    def _end_lost(self, failure: Exception) -> None:
        """Close the connection because its peer is gone."""
        if self.on_lost is not None and self._closed is None:
            self.on_lost()
        self.close(failure)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the connection until it is closed. Does not raise the peer's errors."""
        failure: Exception | None = None
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._watch_deadlines)
                    task_status.started()
                    failure = await self._read()
                    # Send at once: a writer in the same turn of the loop would only see that the
                    # connection is closed, not the peer's last answer.
                    self._end_lost(failure)
                    nursery.cancel_scope.cancel()
        finally:
            self.close(failure)

    async def _write(self) -> None:
        while True:
            await self._wake_writer.wait()
            self._wake_writer = trio.Event()
            while self._outgoing:
                now = trio.current_time()
                if not self._partly_sent:
                    if self._throttled_until > now:
                        await trio.sleep(self._throttled_until - now)
                    if now >= self._reauthenticate_at and not await self._reauthenticate():
                        return
                frame, unanswered = self._outgoing.popleft()
                self._sending, self._partly_sent = True, False
                try:
                    await self._send_all(frame)
                except OSError as e:
                    if unanswered is not None:
                        self._unanswered.append(unanswered)
                    self._end_lost(self._disconnected(f"sending failed: {e.strerror or e}"))
                    return
                finally:
                    self._sending = False
                if unanswered is not None:
                    self._finish(unanswered, None, 0, None)

    async def _send_all(self, frame: bytes) -> None:
        sent = await self._socket.send(frame)
        if sent < len(frame):
            with memoryview(frame) as view:
                while sent < len(frame):
                    sent += await self._socket.send(view[sent:])

    async def _read(self) -> Exception:
        """Receive answers until the socket ends. Returns the reason."""
        small = bytearray(_RECEIVE_BYTES)
        view = memoryview(small)
        start = end = 0
        try:
            while True:
                while end - start >= 4:
                    size = int.from_bytes(small[start : start + 4], "big", signed=True)
                    if not 4 <= size <= self.config.pk_response_max_bytes:
                        raise ProtocolError(
                            f"a response of {size} bytes (pk.response.max.bytes is"
                            f" {self.config.pk_response_max_bytes})"
                        )
                    start += 4
                    if end - start >= size:
                        self._answer(small[start : start + size])
                        start += size
                        continue
                    frame = await self._read_large(view[start:end], size)
                    start = end = 0
                    self._answer(frame)
                if start == end:
                    start = end = 0
                elif start:
                    small[: end - start] = small[start:end]
                    start, end = 0, end - start
                count = await self._socket.recv_into(view[end:])
                if not count:
                    return self._disconnected(self._closed_by_broker())
                end += count
        except OSError as e:
            return self._error_of_socket(e)
        except EOFError:
            return self._disconnected("the broker closed the connection while it sent a response")
        except ProtocolError as e:
            return ProtocolError(f"{self.node.address} does not speak the protocol: {e}")

    async def _read_large(self, head: memoryview, size: int) -> bytearray:
        """Receive the rest of an answer that begins with `head`. Memory grows with the bytes
        received, not with the size that the peer claims."""
        frame = bytearray(head)
        filled = len(frame)
        while filled < size:
            room = min(size, max(_GROW_BYTES, 2 * len(frame)))
            frame.extend(bytes(room - len(frame)))
            with memoryview(frame) as view:
                while filled < room:
                    count = await self._socket.recv_into(view[filled:])
                    if not count:
                        raise EOFError
                    filled += count
        return frame

    def _answer(self, frame: bytearray) -> None:
        if not self._unanswered:
            raise ProtocolError("a response without a request")
        pending = self._unanswered[0]
        api_key = pending.request.API_KEY
        correlation_id, position = parse_response_header(frame, api_key, pending.version)
        if correlation_id != pending.correlation_id:
            raise ProtocolError(
                f"a response to request {correlation_id}, not to {pending.correlation_id}"
            )
        # Decode the answer while its request is still in the queue, so that a malformed answer
        # fails this request like the others.
        cls = MESSAGES[api_key].response
        if api_key == API_VERSIONS and bytes(frame[position : position + 2]) == b"\x00\x23":
            response = decode(cls, frame, 0, position)[0]
        else:
            response, end = decode(cls, frame, pending.version, position)
            if end != len(frame):
                raise ProtocolError(f"{len(frame) - end} bytes after the end of the response")
        self._unanswered.popleft()
        self._served = self._served or api_key != API_VERSIONS
        if not self._unanswered:
            self._wake_by(self._next_deadline())
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttled_until = trio.current_time() + throttle_ms / 1000
        self._finish(pending, response, len(frame) + 4, None)

    def _finish(
        self, pending: Pending, response: Any, bytes_in: int, error: Exception | None
    ) -> None:
        pending.finish(response, error)
        if pending.on_answer is not None and response is not None:
            pending.on_answer(pending.request, response)
        if self._on_request is None and pending.on_request is None:
            return
        trace = self._trace(pending, response, bytes_in, str(error) if error else None)
        for reported in (self._on_request, pending.on_request):
            if reported is not None:
                reported(trace)

    def _trace(
        self, pending: Pending, response: Any, bytes_in: int, error: str | None
    ) -> RequestTrace:
        return RequestTrace(
            api_key=pending.request.API_KEY,
            api_name=MESSAGES[pending.request.API_KEY].name,
            api_version=pending.version,
            node_id=self.node.node_id,
            address=self.node.address,
            correlation_id=pending.correlation_id,
            started=pending.started,
            elapsed_ms=(trio.current_time() - pending.started) * 1000,
            bytes_out=pending.bytes_out,
            bytes_in=bytes_in,
            throttle_ms=getattr(response, "throttle_time_ms", 0),
            error=error or _error_of(response),
        )

    def _wake_by(self, deadline: float) -> None:
        """Make sure that `_watch_deadlines` wakes no later than `deadline`. It may wake too early
        and check again, which is cheaper than moving its deadline for each request."""
        scope = self._deadline_scope
        if scope is not None and deadline < scope.deadline:
            scope.deadline = deadline

    def _next_deadline(self) -> float:
        """Return when to give up the connection: at the deadline of the first unanswered request,
        or after a long idle time. Time limits differ between requests, but answers arrive in order,
        so the earliest deadline decides.
        """
        if self._unanswered:
            return min(pending.deadline for pending in self._unanswered)
        idle_ms = self.config.connections_max_idle_ms
        return self.last_used + idle_ms / 1000 if idle_ms >= 0 else float("inf")

    async def _watch_deadlines(self) -> None:
        while (deadline := self._next_deadline()) > trio.current_time():
            with trio.CancelScope(deadline=deadline) as self._deadline_scope:
                await trio.sleep_forever()
        if not self._unanswered:
            self.close(self._disconnected("idle for connections.max.idle.ms"))
            return
        late = min(self._unanswered, key=lambda pending: pending.deadline)
        name = MESSAGES[late.request.API_KEY].name
        waited_ms = (late.deadline - late.started) * 1000
        self.close(
            RequestTimedOut(f"{self.node.label} did not answer {name} within {waited_ms:.0f} ms")
        )

    def _closed_by_broker(self) -> str:
        was_asked = any(p.request.API_KEY != API_VERSIONS for p in self._unanswered)
        if was_asked and not self._served and not self.config.uses_sasl:
            return (
                "the broker closed the connection at the first request: does its listener ask for "
                "SASL (security.protocol)?"
            )
        return "the broker closed the connection"

    def _disconnected(self, why: str) -> Disconnected:
        return Disconnected(f"{self.node.label}: {why}")

    def _error_of_socket(self, error: OSError) -> Disconnected:
        if type(error).__module__ == "ssl":
            from pk.net.client.tls import refusal_of

            return TlsRefused(self.node.label, refusal_of(cast(Any, error)))
        return self._disconnected(error.strerror or str(error))

    async def log_in(self) -> None:
        """Authenticate by SASL. Raises KafkaError, SaslError, Disconnected, RequestTimedOut."""
        await self._authenticate(self._ask)

    async def _authenticate(self, ask: Callable[[Any, int], Awaitable[Any]]) -> None:
        from pk.net.client.sasl import log_in  # the import takes 9 ms; few programs need it

        lifetime_ms = await log_in(self.config, self.node.host, self.version_of, ask)
        self._end_session_after(lifetime_ms)

    async def _ask(self, request: Any, version: int) -> Any:
        return await self.request(request, version=version)

    def _end_session_after(self, lifetime_ms: int) -> None:
        if lifetime_ms > 0:
            # A random time in between, as in Java's client, so that clients that started together
            # do not all authenticate at once.
            share = random.uniform(REAUTHENTICATE_SHARE_MIN, REAUTHENTICATE_SHARE_MAX)
            self._reauthenticate_at = trio.current_time() + lifetime_ms * share / 1000
        else:
            self._reauthenticate_at = math.inf

    async def _reauthenticate(self) -> bool:
        """Authenticate on the open connection, from the writer, while queued requests wait. Returns
        False if the connection ended."""
        try:
            await self._authenticate(self._request_before_queued)
        except (KafkaError, ClientError, SaslError) as e:
            self.close(self._disconnected(f"it could not log in again: {e}"))
            return False
        except OSError as e:
            self.close(self._disconnected(f"sending failed: {e.strerror or e}"))
            return False
        return True

    async def _request_before_queued(self, request: Any, version: int) -> Any:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = frame_request(request, version, self._correlation_id, self.config.client_id)
        deadline = trio.current_time() + self.config.request_timeout_ms / 1000
        pending = Pending(request, version, self._correlation_id, deadline)
        pending.bytes_out = len(frame)
        unsent = sum(1 for _, unanswered in self._outgoing if unanswered is None)
        self._unanswered.insert(len(self._unanswered) - unsent, pending)
        self._wake_by(pending.deadline)
        await self._send_all(frame)
        return await pending.wait()

    async def negotiate_versions(self) -> None:
        """Negotiate versions with ApiVersions (KIP-35, KIP-511): ask in our newest version, then in
        the broker's if that is older."""
        from pk.core.wire.messages.api_versions import ApiVersionsRequest

        version = MESSAGES[API_VERSIONS].versions[1]
        request = ApiVersionsRequest(
            client_software_name="pk", client_software_version=_software_version()
        )
        response = await self.request(request, version=version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = {a.api_key: a.max_version for a in response.api_keys}
            version = min(version, theirs.get(API_VERSIONS, 0))
            response = await self.request(request, version=version)
        if response.error_code:
            raise KafkaError(response.error_code, f"{self.node.address} refused ApiVersions")
        self.api_versions_response = response
        self.api_versions = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}


_PARTS_SEARCHED: Final = 2_000
"""How many parts of an answer to search for errors, so that a trace does not cost more than its
request."""


def _error_of(response: Any) -> str | None:
    """Return the names of the errors in an answer with their counts: its own error, else those of
    its topics, groups and so on."""
    code = getattr(response, "error_code", 0)
    if code:
        return error_name(code)
    found: Counter[int] = Counter()
    parts = deque([response])
    for _ in range(_PARTS_SEARCHED):
        if not parts:
            break
        part = parts.popleft()
        if code := getattr(part, "error_code", 0):
            found[code] += 1
        for name in getattr(part, "FIELDS", ()):
            inner = getattr(part, name, None)
            if not isinstance(inner, list):
                continue
            elements = cast(list[Any], inner)
            if elements and hasattr(elements[0], "FIELDS"):
                parts.extend(elements[:_PARTS_SEARCHED])
    names = [error_name(c) + (f" ×{n}" if n > 1 else "") for c, n in found.most_common(3)]
    return ", ".join(names) or None


def _software_version() -> str:
    from pk.core import __version__

    return __version__


_REASONS: Final = {
    errno.ECONNREFUSED: "connection refused, nothing listens there",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.ETIMEDOUT: "the connection attempt timed out",
    errno.ECONNRESET: "the connection was reset",
}


def _reason_of(error: BaseException) -> str:
    if isinstance(error, stdlib_socket.gaierror):
        return f"the host name does not resolve ({error.strerror})"
    if isinstance(error, OSError):
        cause = error.__cause__
        if isinstance(cause, OSError | BaseExceptionGroup):
            return _reason_of(cast(BaseException, cause))
        return _REASONS.get(error.errno or 0) or error.strerror or str(error)
    if isinstance(error, BaseExceptionGroup):
        group = cast(BaseExceptionGroup[BaseException], error)
        return "; ".join(dict.fromkeys(_reason_of(e) for e in group.exceptions))
    return str(error)


def _trace_connect(node: Node, started: float, error: str | None) -> None:
    """Trace a new connection or the failure to connect. A client's own `on_request` gets only
    requests."""
    hook = TRACE_HOOK.get()
    if hook is None:
        return
    took_ms = (trio.current_time() - started) * 1000
    hook(
        RequestTrace(
            -1, CONNECT, 0, node.node_id, node.address, 0, started, took_ms, 0, 0, 0, error
        )
    )


def _set_buffers(sock: trio.socket.SocketType, config: ClientConfig) -> None:
    for option, size in (
        (stdlib_socket.SO_RCVBUF, config.receive_buffer_bytes),
        (stdlib_socket.SO_SNDBUF, config.send_buffer_bytes),
    ):
        if size >= 0:
            sock.setsockopt(stdlib_socket.SOL_SOCKET, option, size)


async def _secured(sock: trio.socket.SocketType, node: Node, config: ClientConfig) -> Socket:
    """Return the socket, wrapped in TLS if the config requires it. Raises ConnectFailed,
    ConfigError, OSError."""
    if not config.uses_tls:
        return sock
    # Only clients that use TLS import OpenSSL, which is slow.
    from pk.net.client.tls import begin_tls

    try:
        return await begin_tls(sock, node, config)
    except BaseException:
        sock.close()
        raise


async def connect(
    node: Node,
    config: ClientConfig,
    nursery: trio.Nursery,
    *,
    on_request: OnRequest | None = None,
    setup_timeout_ms: float | None = None,
) -> Connection:
    """Connect to `node` and agree on versions; the connection's tasks run in `nursery`.

    Raises ConnectFailed, which names the address and the failure, and KafkaError for a failed login
    (`LOGIN_FAILED`). A cancelled call leaves no open connection.
    """
    wait_ms = setup_timeout_ms or config.socket_connection_setup_timeout_ms
    started = trio.current_time()
    try:
        with trio.fail_after(wait_ms / 1000):
            stream = await trio.open_tcp_stream(node.host, node.port)
            _set_buffers(stream.socket, config)
            sock = await _secured(stream.socket, node, config)
    except trio.TooSlowError:
        reason = f"no connection within {wait_ms:.0f} ms"
        _trace_connect(node, started, reason)
        raise ConnectFailed(node.address, reason, node_id=node.node_id) from None
    except ConnectFailed as e:
        _trace_connect(node, started, e.reason)
        raise
    except (OSError, UnicodeError) as e:
        _trace_connect(node, started, _reason_of(e))
        raise ConnectFailed(node.address, _reason_of(e), node_id=node.node_id) from e
    _trace_connect(node, started, None)
    at_once = None if config.uses_tls else partial(os.write, stream.socket.fileno())
    connection = Connection(sock, node, config, on_request, send_at_once=at_once)
    await nursery.start(connection.run)
    try:
        await connection.negotiate_versions()
        if config.uses_sasl:
            await connection.log_in()
    except SaslError as e:
        connection.close()
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{node.address}: {e}") from e
    except KafkaError as e:
        connection.close()
        if e.code in LOGIN_FAILED:
            raise KafkaError(e.code, f"{node.address}: {e.message}") from e
        reason = f"connected, but it does not answer as a Kafka broker: {e}"
        raise ConnectFailed(node.address, reason, node_id=node.node_id, reached=True) from e
    except TlsRefused as e:
        connection.close()
        raise ConnectFailed(
            node.address, e.reason, node_id=node.node_id, reached=True, by_config=True
        ) from e
    except (ClientError, ProtocolError) as e:
        connection.close()
        reason = f"connected, but it does not answer as a Kafka broker: {e}"
        # Behind TLS, a probe without this client's keys would not learn more.
        certain = config.uses_tls
        raise ConnectFailed(
            node.address, reason, node_id=node.node_id, reached=True, certain=certain
        ) from e
    except BaseException:
        connection.close()
        raise
    return connection
