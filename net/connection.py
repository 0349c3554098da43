"""One client's connection: frames in, answers out, in order.

The reader handles every whole frame of its buffer before it sends or reads again, so a client that pipelines pays one
`recv`, one `send` and one turn of the loop for many requests. What would starve the others is cut off by time: after
`pk.loop.slice.us` the reader sends what it has and yields.

Answers keep the order of their requests. While nothing is parked they go straight to `_out`. Behind a parked request each
answer gets a slot in `_parked`, and whoever completes the first slot moves all completed ones that follow to `_out`. The
reader and the parked tasks both flush; `_sending` makes one of them do it for all.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field
from inspect import isawaitable
from time import perf_counter
from typing import Any

import trio

from pk.core.api.registry import NO_RESPONSE, Api, Holding, Large, error_response
from pk.core.broker.broker import Broker
from pk.core.broker.offload import offload
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.wire.codec import decode
from pk.core.wire.header import RequestHead, frame_response, parse_request_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsResponse
from pk.core.wire.types import EncodeError, Part
from pk.net.frames import FrameBuffer, RequestMemory
from pk.net.transport import Transport

logger = logging.getLogger("pk.server")

PRODUCE = 0
API_VERSIONS = 18
LARGE_BYTES = 256 << 10
"""A request from here on is decoded in a thread, since a million small elements take a second; not a Produce request, whose
bytes are records that nobody decodes."""
MEMORY_WAIT_S = 10
"""How long a connection that cannot grow its buffer waits for others to finish before it is closed."""

GOODBYE_S = 0.5
"""How long a peer whose connection we close gets to take the answers to what it asked before."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may take."""

    frame_bytes_max: int
    parked_max: int
    slice_s: float
    decoding: trio.Lock = field(default_factory=trio.Lock)
    """Held by who decodes a large request, of all connections with these limits: its objects take many times its bytes."""


class _Slot:
    """The place of an answer that is not there yet."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] | None = None


class Connection:
    """Serves one transport until the peer leaves, misbehaves, idles too long, or the server drains."""

    def __init__(
        self,
        transport: Transport,
        broker: Broker,
        apis: dict[int, Api],
        limits: Limits,
        memory: RequestMemory,
        context: Context,
        peer: str,
    ) -> None:
        """`context` is the pattern of every request's: broker, listener, host."""
        self.peer = peer
        self.last_active = trio.current_time()
        self._transport = transport
        self._broker = broker
        self._apis = apis
        self._limits = limits
        self._buffer = FrameBuffer(memory, limits.frame_bytes_max)
        self._context = context
        self._out: list[Part] = []
        self._sending = False
        self._sent: trio.Event | None = None
        self._parked: deque[_Slot] = deque()
        self._less_parked = trio.Event()
        self._reading = trio.CancelScope()
        self._receiving = False
        """Whether the reader waits for bytes: only there may it be cancelled."""
        self._stopped = False
        self._serving = trio.CancelScope()
        self._nursery: trio.Nursery

    @property
    def busy(self) -> bool:
        """Whether an answer is still owed."""
        return bool(self._parked or self._out or self._sending)

    def stop_reading(self) -> None:
        """Take no more requests; `serve` returns when the answers that are owed are sent.

        What is being handled or sent goes on: half an answer on the wire would spoil those behind it.
        """
        self._stopped = True
        if self._receiving:
            self._reading.cancel()

    def close_if_idle(self, since: float) -> None:
        """Close where nothing has moved since then: a peer that owes us a request, or does not take our answer."""
        if self._sending:
            if max(self.last_active, self._transport.last_sent) < since:
                logger.info("%s takes no answers; connection closed", self.peer)
                self._serving.cancel()
        elif self.last_active < since and not self.busy:
            self.stop_reading()

    async def serve(self) -> None:
        """Read, handle and answer until the end."""
        try:
            with self._serving:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    with self._reading:
                        try:
                            await self._read()
                        except ProtocolError:
                            with trio.move_on_after(GOODBYE_S):
                                await self._flush()
                                await self._transport.finish()
                            raise
                    if not self._stopped:
                        nursery.cancel_scope.cancel()
                with trio.move_on_after(GOODBYE_S):
                    await self._transport.finish()
        except* ProtocolError as group:
            logger.warning("%s: %s; connection closed", self.peer, _first(group))
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            self._buffer.close()
            await self._transport.aclose()

    async def _read(self) -> None:
        """Until the peer has sent everything, or reading is stopped."""
        buffer, limits = self._buffer, self._limits
        while not self._stopped:
            self._receiving = True
            count = await self._transport.receive(buffer)
            if count is None:
                await self._wait_for_memory()
                continue
            self._receiving = False
            if count == 0:
                return
            if self._stopped:
                # The scope is cancelled: handling what just came would be cut off at its first wait.
                return
            started = perf_counter()
            self.last_active = trio.current_time()
            while (frame := buffer.next_frame()) is not None:
                hold = self._handle(*frame)
                if hold is not None:
                    await hold
                if len(self._parked) >= limits.parked_max:
                    await self._wait_for_answers()
                if perf_counter() - started > limits.slice_s:
                    await self._flush()
                    await trio.lowlevel.checkpoint()
                    started = perf_counter()
            if self._out:
                await self._flush()
            if perf_counter() - started > limits.slice_s:
                await trio.lowlevel.checkpoint()

    def _handle(self, start: int, end: int) -> Awaitable[None] | None:
        """Handle one frame: answer it, or park it, or return what must be awaited before the next one."""
        with memoryview(self._buffer.data)[start:end] as frame:
            head = parse_request_header(frame, 0)
            api = self._apis.get(head.api_key)
            if api is None or not api.versions[0] <= head.api_version <= api.versions[1]:
                self._refuse(head, api)
                return None
            if end - start >= LARGE_BYTES and head.api_key != PRODUCE:
                return self._handle_large(api, head, start, end)
            # What follows the message is not read, as in Apache Kafka: librdkafka ends its
            # Metadata requests for all topics with three bytes too many.
            request, _ = decode(
                MESSAGES[head.api_key].request, frame, head.api_version, head.body_position
            )
        return self._dispatch(api, head, request)

    async def _handle_large(self, api: Api, head: RequestHead, start: int, end: int) -> None:
        """Handle a frame that may take long to decode. The buffer stays as it is: nothing is received meanwhile."""
        if self._out:
            self._nursery.start_soon(self._flush)
        with memoryview(self._buffer.data)[start:end] as frame:
            cls = MESSAGES[head.api_key].request
            async with self._limits.decoding:
                request, _ = await offload(decode, cls, frame, head.api_version, head.body_position)
        self.last_active = trio.current_time()
        hold = self._dispatch(api, head, request)
        if hold is not None:
            await hold

    def _dispatch(self, api: Api, head: RequestHead, request: Any) -> Awaitable[None] | None:
        """Answer a request, or park it, or return what must be awaited before the next one."""
        context = self._context.of_request(
            head.api_key, head.api_version, head.correlation_id, head.client_id
        )
        try:
            result = api.handle(context, request)
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            result = self._failure(api, head, request, e)
        if isinstance(result, Holding):
            return self._hold(api, head, request, result.work)
        if isawaitable(result):
            if api.parks:
                self._park(api, head, request, result)
                return None
            return self._hold(api, head, request, result)
        if result is not NO_RESPONSE:
            self._owe(self._frame(api, head, request, result))
        return None

    def _refuse(self, head: RequestHead, api: Api | None) -> None:
        """An API or a version we do not serve: only ApiVersions has an answer to that (KIP-35)."""
        if head.api_key != API_VERSIONS or api is None:
            raise ProtocolError(f"api {head.api_key} version {head.api_version} is not served here")
        context = self._context.of_request(API_VERSIONS, 0, head.correlation_id, head.client_id)
        answer = api.handle(context, None)
        assert isinstance(answer, ApiVersionsResponse)
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        self._owe(frame_response(answer, API_VERSIONS, 0, head.correlation_id))

    def _failure(self, api: Api, head: RequestHead, request: Any, error: Exception) -> Any:
        """The response that says so; a fault of ours is logged with its traceback."""
        if isinstance(error, ProtocolError):
            raise error
        if not isinstance(error, KafkaError):
            logger.error(
                "%s: api %d version %d failed", self.peer, head.api_key, head.api_version,
                exc_info=error,
            )  # fmt: skip
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        response_class = MESSAGES[head.api_key].response
        return error_response(api, response_class, request, error, head.api_version)

    def _frame(self, api: Api, head: RequestHead, request: Any, response: Any) -> list[Part]:
        """`response` as it is sent. One that cannot be written (a string beyond 32,767 bytes) is answered as a fault of
        ours, and the connection lives."""
        try:
            return frame_response(response, head.api_key, head.api_version, head.correlation_id)
        except EncodeError as e:
            failed = self._failure(api, head, request, e)
            return frame_response(failed, head.api_key, head.api_version, head.correlation_id)

    def _owe(self, parts: list[Part]) -> None:
        if self._parked:
            slot = _Slot()
            slot.parts = parts
            self._parked.append(slot)
        else:
            self._out.extend(parts)

    def _park(self, api: Api, head: RequestHead, request: Any, work: Awaitable[Any]) -> None:
        slot = _Slot()
        self._parked.append(slot)
        self._nursery.start_soon(self._complete, slot, api, head, request, work)

    async def _hold(self, api: Api, head: RequestHead, request: Any, work: Awaitable[Any]) -> None:
        """Await `work` before anything else of this connection is handled; what is owed is sent meanwhile."""
        if self._out:
            self._nursery.start_soon(self._flush)
        result = await self._outcome(api, head, request, work)
        self.last_active = trio.current_time()
        if isawaitable(result):
            self._park(api, head, request, result)
        elif result is not NO_RESPONSE:
            self._owe(await self._framed(api, head, request, result))

    async def _framed(self, api: Api, head: RequestHead, request: Any, response: Any) -> list[Part]:
        """The answer to what had to be waited for."""
        if isinstance(response, Large):
            return await offload(self._frame, api, head, request, response.response)
        return self._frame(api, head, request, response)

    async def _outcome(
        self, api: Api, head: RequestHead, request: Any, work: Awaitable[Any]
    ) -> Any:
        """What `work` comes to, or the response that says how it failed."""
        try:
            return await work
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            return self._failure(api, head, request, e)

    async def _complete(
        self, slot: _Slot, api: Api, head: RequestHead, request: Any, work: Awaitable[Any]
    ) -> None:
        """A parked request's task."""
        result = await self._outcome(api, head, request, work)
        if result is NO_RESPONSE:
            slot.parts = []
        else:
            slot.parts = await self._framed(api, head, request, result)
        self.last_active = trio.current_time()
        parked = self._parked
        while parked and parked[0].parts is not None:
            self._out.extend(parked.popleft().parts or ())
        self._less_parked.set()
        await self._flush()

    async def _flush(self) -> None:
        """Send all that is in `_out`; where somebody is at it, wait for them: that is the backpressure on the reader."""
        while self._sending:
            if self._sent is None:
                self._sent = trio.Event()
            await self._sent.wait()
        self._sending = True
        try:
            while self._out:
                parts, self._out = self._out, []
                await self._transport.send(parts)
        finally:
            self._sending = False
            if self._sent is not None:
                self._sent.set()
                self._sent = None

    async def _wait_for_answers(self) -> None:
        """Enough is parked: read no more until some of it is answered (backpressure by not reading)."""
        await self._flush()
        while len(self._parked) >= self._limits.parked_max:
            self._less_parked = trio.Event()
            await self._less_parked.wait()

    async def _wait_for_memory(self) -> None:
        deadline = trio.current_time() + MEMORY_WAIT_S

        def has_room() -> bool:
            return self._buffer.room() is not None

        if not await self._broker.purgatory.until(has_room, (RequestMemory,), deadline):
            raise ProtocolError("all memory for requests is taken (pk.request.bytes.max)")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first leaf of a group: one line in the log is enough."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
