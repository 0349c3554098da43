"""Channels over the simulated network (`pk.core.broker.peers`): real frames, real versions, and
clients use them too."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from itertools import count
from typing import Any

import trio
from sim.network import End, Network, Refused
from sim.processes import Process

from pk.core.broker.peers import Answered, PeerLost
from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.wire.codec import decode
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsRequest

API_VERSIONS = 18
API_VERSIONS_VERSION = 3


class Pending:
    """A request that was sent."""

    __slots__ = ("answered", "correlation_id", "request", "response", "version")

    def __init__(self, request: Any, version: int, correlation_id: int) -> None:
        self.request = request
        self.version = version
        self.correlation_id = correlation_id
        self.response: Any = None
        self.answered = trio.Event()


class SimChannel:
    """One connection, from the side that asks."""

    def __init__(self, network: Network, end: End, where: str) -> None:
        self.where = where
        self._network = network
        self._end = end
        self._chronicle = network.chronicle
        self._versions: dict[int, tuple[int, int]] = {}
        self._pending: deque[Pending] = deque()
        self._data = bytearray()
        self._ids = count(1)
        self._lost = ""
        self._tell: Callable[[], None] = lambda: None
        end.on_arrival = self._arrived

    @property
    def usable(self) -> bool:
        return not self._lost

    @property
    def open_at_both_ends(self) -> bool:
        """Whether the other side, too, takes the connection for usable."""
        return self.usable and self._end.usable and self._end.peer.usable

    def when_lost(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def version_of(self, api_key: int) -> int:
        theirs, ours = self._versions.get(api_key), MESSAGES[api_key].versions
        if theirs is None or theirs[1] < ours[0] or ours[1] < theirs[0]:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.where} does not serve {MESSAGES[api_key].name}",
            )
        return min(theirs[1], ours[1])

    async def handshake(self, timeout_ms: float) -> None:
        """Learn what versions the peer serves."""
        answer = await self.request(
            ApiVersionsRequest(client_software_name="pk", client_software_version="0"),
            timeout_ms=timeout_ms,
            version=API_VERSIONS_VERSION,
        )
        self._versions = {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys}

    async def request(self, request: Any, *, timeout_ms: float, version: int | None = None) -> Any:
        return await self.wait(self.submit(request, version), timeout_ms)

    def submit(self, request: Any, version: int | None = None) -> Pending:
        """Send a request behind those before it; `wait` has its answer. Raises PeerLost."""
        if version is None:
            version = self.version_of(request.API_KEY)
        if self._lost:
            raise PeerLost(self._lost)
        pending = Pending(request, version, next(self._ids))
        self._note("→", pending, request)
        frame = frame_request(request, version, pending.correlation_id, str(self._end.process))
        self._pending.append(pending)
        try:
            self._end.send(frame)
        except trio.BrokenResourceError:
            self._lose("the connection broke")
        return pending

    async def wait(self, pending: Pending, timeout_ms: float) -> Any:
        """The answer to a submitted request. If it does not arrive in time, the channel ends.
        Raises PeerLost."""
        with trio.CancelScope(deadline=trio.current_time() + timeout_ms / 1000):
            await pending.answered.wait()
        if not pending.answered.is_set():
            self._lose(f"no answer in {timeout_ms:.0f} ms")
        if pending.response is None:
            raise PeerLost(f"{self.where}: {self._lost}")
        return pending.response

    def send(self, request: Any, *, timeout_ms: float, then: Answered) -> None:
        pending, process = self.submit(request), self._end.process

        async def finish() -> None:
            try:
                answer, error = await self.wait(pending, timeout_ms), None
            except PeerLost as e:
                answer, error = None, e
            process.soon(lambda: then(answer, error))

        # The process's own: it stands still with it.
        trio.lowlevel.spawn_system_task(finish, context=copy_context())

    def close(self) -> None:
        self._lose("closed")

    def _lose(self, why: str) -> None:
        if self._lost:
            return
        self._lost = why
        self._end.close()
        pending, self._pending = self._pending, deque()
        for one in pending:
            self._note("✗", one, None, why)
            one.answered.set()

    def _arrived(self) -> None:
        """Called in the network's task."""
        end = self._end
        while end.inbox and not self._lost:
            self._data += end.inbox.popleft()
        try:
            while not self._lost and (frame := self._next_frame()) is not None:
                self._answered(frame)
        except ProtocolError as e:
            self._chronicle.note(str(end.process), f"{self.where} broke the protocol: {e}")
            self._lose(str(e))
        if (end.broken or end.ended) and not self._lost:
            end.process.soon(self._tell)
            self._lose("the connection broke")

    def _next_frame(self) -> bytearray | None:
        data = self._data
        if len(data) < 4:
            return None
        size = int.from_bytes(data[:4], "big")
        if len(data) < 4 + size:
            return None
        frame = data[4 : 4 + size]
        del data[: 4 + size]
        return frame

    def _answered(self, frame: bytearray) -> None:
        if not self._pending:
            raise ProtocolError("an answer without a request")
        pending = self._pending.popleft()
        request = pending.request
        correlation_id, position = parse_response_header(frame, request.API_KEY, pending.version)
        if correlation_id != pending.correlation_id:
            raise ProtocolError(f"answer {correlation_id} where {pending.correlation_id} was due")
        response, _ = decode(MESSAGES[request.API_KEY].response, frame, pending.version, position)
        pending.response = response
        self._note("←", pending, response)
        pending.answered.set()

    def _note(self, mark: str, pending: Pending, message: Any, text: str = "") -> None:
        if self._chronicle.detail:
            name = MESSAGES[pending.request.API_KEY].name
            head = (
                f"{mark} {self.where} {name} v{pending.version}"
                f" #{self._end.number}.{pending.correlation_id} {text}"
            )
            self._chronicle.message(str(self._end.process), head, message, self._network.names)


class SimPeers:
    """How one process reaches others (`Peers`)."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> SimChannel:
        where = f"{host}:{port}"
        if not self._process.alive:
            raise PeerLost("the process is dead")
        deadline = trio.current_time() + timeout_ms / 1000
        try:
            end = await self._network.dial(self._process, host, port, deadline)
        except Refused as e:
            raise PeerLost(str(e), refused=True) from e
        if end is None:
            raise PeerLost(f"{where} does not answer")
        channel = SimChannel(self._network, end, where)
        try:
            await channel.handshake((deadline - trio.current_time()) * 1000)
        except BaseException:
            channel.close()
            raise
        return channel
