"""One client's connection: it receives requests and sends the answers in order.

The reader handles all complete frames in its buffer before it sends or reads again, so many
pipelined requests need only one `recv`, one `send` and one turn of the loop. So that a client
cannot starve the others, the reader sends its answers and yields after `pk.loop.slice.us`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable
from functools import partial
from inspect import isawaitable
from time import perf_counter
from typing import Any, NoReturn, cast

import trio
from msgspec import Struct, field
from msgspec.structs import replace

from pk.core.api.records.delayed_fetch import DelayedFetch
from pk.core.api.records.produce_fast_path.answers import DelayedProduce, FailedProduce
from pk.core.api.records.produce_fast_path.fast_path import ProduceFastPath
from pk.core.api.registry import NO_RESPONSE, Api
from pk.core.auth.oauthbearer import KeysNeeded
from pk.core.auth.sasl_server import Refused
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.replication.fetch_sessions import RepeatedFetch
from pk.core.broker.requests.context import Context
from pk.core.errors import ProtocolError, TooManyElements
from pk.core.wire.codec import decode, decode_in_steps, decode_request
from pk.core.wire.decoder import ELEMENTS_MAX
from pk.core.wire.header import RequestHead, parse_request_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.types import Part
from pk.net.connection.answers import Answers, Slot
from pk.net.connection.login import Login
from pk.net.connection.request import ReceivedRequest
from pk.net.connection.responder import API_VERSIONS, Responder
from pk.net.connection.throttle import PRODUCE, Throttle
from pk.net.frames import FrameBuffer, RequestMemory
from pk.net.listener_security import ListenerSecurity
from pk.net.tls.transport import TlsTransport
from pk.net.transport import Transport

logger = logging.getLogger("pk.server")

LARGE_BYTES = 16 << 10
"""Requests up to this size take at most 5 ms to decode, whatever their contents."""
DECODED_AT_ONCE = 2000
"""The most elements of a larger request that is decoded in one step; others are decoded in several
steps, since 100,000 small elements take a tenth of a second. A Fetch request for 1,000 partitions
and a request with megabytes of records are below the limit."""
MEMORY_WAIT_S = 10
"""How long a connection that cannot grow its buffer waits for memory before it is closed."""

CLOSING_AT_ONCE = 32
"""The maximum number of connections that end in one turn of the loop; each end takes 0.25 ms."""

CLOSE_S = 0.5
"""How long a connection that this side closes may take to complete and send the missing answers."""


class Limits(Struct, frozen=True):
    """The limits of a server's connections, and the objects that the connections share to enforce
    them."""

    memory: RequestMemory
    """Limits the total size of the connections' receive buffers."""
    frame_bytes_max: int
    parked_max: int
    slice_s: float
    elements_max: int = ELEMENTS_MAX
    """The maximum number of elements of one request (`pk.request.elements.max`)."""
    decoding: trio.Lock = field(default_factory=trio.Lock)
    """Held while a connection decodes a large request, whose objects take many times the memory of
    its bytes."""
    ending: trio.Semaphore = field(default_factory=partial(trio.Semaphore, CLOSING_AT_ONCE))
    """Held by a connection for a turn of the loop before it ends, so that the other connections run
    in between when a thousand connections end at once."""


class Connection:
    """Serves one transport until the peer closes it, violates the protocol or is idle for too long,
    or until the server drains."""

    def __init__(
        self,
        transport: Transport,
        apis: dict[int, Api],
        limits: Limits,
        context: Context,
        peer: str,
        security: ListenerSecurity | None = None,
    ) -> None:
        """Initialize the connection. `context` is the template for each request's context: broker,
        listener, host. `security` is given if the peer must authenticate first."""
        self.peer = peer
        self.last_active = trio.current_time()
        self._transport = transport
        self._broker = broker = context.broker
        self._apis = apis
        self._limits = limits
        self._buffer = FrameBuffer(limits.memory, limits.frame_bytes_max)
        self._metrics = broker.metrics
        self._purgatory = broker.purgatory
        self._received_at = 0.0
        """When the requests that are being handled arrived, by perf_counter."""
        self._repeated = RepeatedFetch()
        self._context = context = replace(context, repeated=self._repeated)
        self._fast_path: ProduceFastPath | None = None
        """The fast path for Produce requests of an authenticated peer; None if Produce is not
        served."""
        self._responder = Responder(peer, apis, broker.metrics)
        self._answers = Answers(transport, limits.parked_max)
        self._parked = self._answers.parked
        """The deque `parked` of the answers, for faster access."""
        self._throttle = Throttle(broker.client_quotas)
        self._login: Login | None = None
        """The login of a peer that must authenticate; else None."""
        self._session_ends = math.inf
        """The deadline for authenticating again, by trio's clock."""
        if security is None:
            self._admit(context)
        else:
            self._login = Login(security, context, self._buffer, self._answers, self._responder)
        self._delayed: dict[DelayedFetch, None] = {}
        """The parked fetches that have no task."""
        self._reading = trio.CancelScope()
        self._receiving = False
        """Whether the reader waits for bytes; only then may it be cancelled."""
        self._stopped = False
        self._serving = trio.CancelScope()
        self._quotas = broker.client_quotas
        self._nursery: trio.Nursery

    def stop_reading(self) -> None:
        """Accept no more requests; `serve` returns after the outstanding answers have been sent.

        Requests that are being handled and answers that are being sent are completed: a partial
        answer would corrupt the stream.
        """
        self._stopped = True
        if self._receiving:
            self._reading.cancel()

    def close_at_once(self) -> None:
        """Close the connection without sending the outstanding answers."""
        self._serving.cancel()

    def close_if_idle(self, since: float) -> None:
        """Close the connection if nothing has been received or sent since `since`: the peer sends
        no request, or does not read our answer."""
        if self._answers.sending:
            if max(self.last_active, self._transport.last_sent) < since:
                logger.info("%s does not read responses; connection closed", self.peer)
                self._serving.cancel()
        elif self.last_active < since and not self._answers.busy:
            self.stop_reading()

    async def serve(self) -> None:
        """Read requests, handle and answer them until the connection ends."""
        try:
            with self._serving:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    try:
                        await self._serve()
                    finally:
                        for delayed in self._delayed:
                            delayed.cancel()
                        self._delayed.clear()
                    if not self._stopped:
                        nursery.cancel_scope.cancel()
                with trio.move_on_after(CLOSE_S):
                    await self._transport.finish()
        except* ProtocolError as group:
            error = _first(group)
            if isinstance(error, Refused) and self._login is not None:
                self._metrics.listener(self._context.listener).failed_authentication += 1
                self._login.security.report(self.peer, str(error))
            else:
                logger.warning("%s: %s; connection closed", self.peer, error)
            del error  # its traceback refers to this frame: a cycle
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            self._buffer.close()
            self._repeated.end()
            await self._transport.aclose()

    async def _serve(self) -> None:
        """Run until the peer has sent everything or, if reading was stopped, until all fetches that
        wait without a task are answered."""
        with self._reading:
            try:
                if self._login is None or await self._authenticate(self._login):
                    await self._read()
            except ProtocolError as e:
                if isinstance(e, Refused) and self._login is not None:
                    self._append_and_count()
                    await self._login.answer_refused(e)
                with trio.move_on_after(CLOSE_S):
                    await self._answers.finish()
                    await self._transport.finish()
                raise
            except (trio.BrokenResourceError, OSError):
                await self._wait_for_turn_to_end()
                raise
        await self._wait_for_turn_to_end()
        while self._stopped and self._delayed:
            await self._answers.wait_for_release()

    async def _wait_for_turn_to_end(self) -> None:
        self._receiving = False
        self._buffer.release()
        async with self._limits.ending:
            pass

    def _admit(self, context: Context) -> None:
        """Serve requests in `context` from now on. The peer is authenticated, or need not be."""
        self._context = replace(context, repeated=self._repeated)
        # Fault injection must see each request separately.
        if (
            PRODUCE in self._apis
            and self._broker.faults is None
            and self._broker.config.pk_produce_fast_path_enable
        ):
            self._fast_path = ProduceFastPath(context)

    async def _authenticate(self, login: Login) -> bool:
        """See `Login.first`."""
        if not await login.first(self._handshake, self._receive_more):
            return False
        self._adopt_session(login)
        return True

    def _adopt_session(self, login: Login) -> None:
        """Adopt the session and the context that the login established."""
        self._session_ends = login.session_ends
        if login.is_under_way:
            self._fast_path = None
        else:
            self._admit(login.context)

    async def _handshake(self) -> TlsTransport:
        """Do the TLS handshake."""
        transport = self._transport
        assert isinstance(transport, TlsTransport)
        self._receiving = True
        try:
            await transport.handshake()
        finally:
            self._receiving = False
        return transport

    async def _receive_more(self) -> bool:
        """Receive more bytes before the peer is authenticated. Returns False if nothing more will
        be handled."""
        self._receiving = True
        count = await self._transport.receive(self._buffer)
        self._receiving = False
        self.last_active = trio.current_time()
        if count is None:
            await self._wait_for_memory()
            return True
        return count > 0 and not self._stopped

    async def _read(self) -> None:
        """Run until the peer has sent everything or reading is stopped."""
        buffer, limits = self._buffer, self._limits
        answers, parked, throttle = self._answers, self._parked, self._throttle
        # Requests may have arrived together with the last message of a login, which has no answer.
        here = len(buffer) > 0
        transport, started = self._transport, perf_counter()
        current_time = trio.lowlevel.current_clock().current_time
        while not self._stopped:
            self._receiving = True
            count = 1 if here else await transport.receive(buffer)
            if count is None:
                await self._wait_for_memory()
                continue
            self._receiving = here = False
            if count == 0:
                return
            if self._stopped:
                # The scope is cancelled: it would abort the handling of the bytes just received at
                # its first wait.
                return
            throttle.uncharged_since = self._received_at = perf_counter()
            # A peer that always has more to send must not occupy the loop.
            started = max(started, transport.waited_at)
            self.last_active = now = current_time()
            if now > self._session_ends:
                self._fast_path = None
            try:
                while (frame := buffer.next_frame()) is not None:
                    if throttle.muted_until:
                        await self._wait_while_muted()
                        if self._stopped:
                            return
                        started = throttle.uncharged_since = perf_counter()
                    fast_path, data = self._fast_path, buffer.data
                    if (
                        fast_path is not None
                        and isinstance(data, bytearray)
                        and fast_path.accept(data, *frame)
                    ):
                        if (
                            not fast_path.is_full
                            and len(parked) + len(fast_path.accepted) < limits.parked_max
                            and perf_counter() - started <= limits.slice_s
                        ):
                            continue
                        self._append_and_count()
                    else:
                        self._append_and_count()
                        with self._purgatory:
                            hold = self._handle(*frame)
                        if hold is not None:
                            await hold
                        if self._quotas.measures_time:
                            throttle.uncharged_since = perf_counter()
                    if len(parked) >= limits.parked_max:
                        await answers.wait_for_room()
                    if perf_counter() - started > limits.slice_s:
                        await answers.flush()
                        await trio.lowlevel.checkpoint()
                        started = perf_counter()
            except ProtocolError:
                self._append_and_count()  # the frames before it are handled and answered first
                raise
            produced = self._append_accepted()
            out = answers.out
            is_left = out and (len(out) > 1 or answers.sending or answers.send_at_once())
            if produced:  # only now: the client need not wait for it
                self._handled(PRODUCE, self._received_at, produced)
            if is_left:
                await answers.flush()
            if perf_counter() - started > limits.slice_s:
                await trio.lowlevel.checkpoint()
                started = perf_counter()

    def _append_and_count(self) -> None:
        """See `_append_accepted`."""
        if produced := self._append_accepted():
            self._handled(PRODUCE, self._received_at, produced)

    def _append_accepted(self) -> int:
        """Append what the fast path has accepted; the answers are sent or parked. Returns the
        number of requests that are answered now, for `_handled`."""
        fast_path = self._fast_path
        if fast_path is None or not fast_path.accepted:
            return 0
        count = len(fast_path.accepted)
        wait_ms = self._throttle.charge_fast_path(fast_path) if self._quotas.is_on else 0
        with self._purgatory:
            produced = fast_path.append(wait_ms)
            appended_at = perf_counter()
        if self._quotas.measures_time:
            self._throttle.uncharged_since += perf_counter() - appended_at  # spent on other clients
        answers = self._answers
        if not answers.parked:
            plain = [answer for answer in produced if isinstance(answer, bytes)]
            if len(plain) == len(produced):
                answers.out.append(b"".join(plain))
                return count
        delayed: list[tuple[Slot, DelayedProduce]] = []
        for answer in produced:
            if isinstance(answer, bytes):
                answers.append([answer])
            elif isinstance(answer, DelayedProduce):
                delayed.append((answers.reserve(), answer))
            elif isinstance(answer, FailedProduce):
                answers.append(self._responder.failed_produce(answer))
            else:
                answers.append(answer)
        if delayed:
            self._nursery.start_soon(self._complete_delayed, delayed, self._received_at)
        return count - len(delayed)

    async def _wait_while_muted(self) -> None:
        """Send the outstanding answers, then wait until the client may continue (KIP-219)."""
        self._append_and_count()
        await self._answers.flush()
        self._receiving = True
        while (until := self._throttle.muted_until) > trio.current_time():
            self.last_active = until  # the client is not idle: the server keeps it waiting
            await trio.sleep_until(until)
        self._receiving = False
        self._throttle.muted_until = 0.0
        self.last_active = trio.current_time()

    def _handled(self, api_key: int, received_at: float, count: int = 1) -> None:
        """Record that the requests received at `received_at` are answered."""
        took_ms = (perf_counter() - received_at) * 1000
        self._metrics.request(api_key).total_time.observe(took_ms, count)

    async def _complete_delayed(
        self, delayed: list[tuple[Slot, DelayedProduce]], received_at: float
    ) -> None:
        """Wait for the delayed requests of one run. One task serves all of them, since most of them
        complete together."""
        for slot, produce_ in delayed:
            if not produce_.is_ready:
                self._answers.release()
                self._nursery.start_soon(self._answers.flush)
            try:
                slot.parts = await produce_.answer()
            except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
                slot.parts = self._responder.failed_produce(FailedProduce(produce_.request, e))
            self._handled(PRODUCE, received_at)
            self.last_active = trio.current_time()
        self._answers.release()
        await self._answers.flush()

    def _handle(self, start: int, end: int) -> Awaitable[None] | None:
        """Handle one frame: answer it, park it, or return an awaitable that must finish before the
        next one."""
        if self._session_ends != math.inf:
            try:
                if self._authenticate_again(start, end):
                    return None
            except KeysNeeded:
                return self._authenticate_with_new_keys(start, end)
        with memoryview(self._buffer.data)[start:end] as frame:
            head = parse_request_header(frame, 0)
            api = self._apis.get(head.api_key)
            if api is None or not api.versions[0] <= head.api_version <= api.versions[1]:
                self._refuse(head, api)
                return None
            cls, version = MESSAGES[head.api_key].request, head.api_version
            # Trailing bytes are ignored, as in Apache Kafka: librdkafka ends its Metadata requests
            # for all topics with three bytes too many.
            if end - start < LARGE_BYTES:
                request, _ = decode(cls, frame, version, head.body_position)
            else:
                try:
                    request, _ = decode_request(
                        cls, frame, version, head.body_position, DECODED_AT_ONCE
                    )
                except TooManyElements:
                    return self._handle_large(api, head, start, end)
        return self._dispatch(api, head, request, end - start)

    def _authenticate_again(self, start: int, end: int) -> bool:
        """See `Login.again`."""
        login = self._login
        if login is None or not login.again(start, end):
            return False
        self._adopt_session(login)
        return True

    async def _authenticate_with_new_keys(self, start: int, end: int) -> None:
        if self._login is not None:
            await self._login.security.fetch_keys()
        self._authenticate_again(start, end)

    async def _handle_large(self, api: Api, head: RequestHead, start: int, end: int) -> None:
        """Handle a frame that takes long to decode. It is decoded in steps on the loop: a thread
        would slow the loop down even more, since it would take the interpreter at each of the
        loop's system calls. The buffer does not change, since nothing is received meanwhile."""
        if self._answers.out:
            self._nursery.start_soon(self._answers.flush)
        with memoryview(self._buffer.data)[start:end] as frame:
            async with self._limits.decoding:
                request = await self._decode_in_steps(head, frame)
        self.last_active = trio.current_time()
        hold = self._dispatch(api, head, request, end - start)
        del request
        if hold is not None:
            await hold

    async def _decode_in_steps(self, head: RequestHead, frame: memoryview) -> Any:
        """Decode a large request. Raises ProtocolError, for example if the request has too many
        elements."""
        cls, most = MESSAGES[head.api_key].request, self._limits.elements_max
        try:
            request, _ = await decode_in_steps(
                cls, frame, head.api_version, head.body_position, let_others_run, most
            )
        except TooManyElements as e:
            raise ProtocolError(
                f"{cls.__name__} has more than {most:,} elements (pk.request.elements.max)"
            ) from e
        return request

    def _dispatch(
        self, api: Api, head: RequestHead, message: Any, size: int
    ) -> Awaitable[None] | None:
        """Answer a request of `size` bytes, park it, or return an awaitable that must finish before
        the next one."""
        context = self._context.of_request(
            head.api_key, head.api_version, head.correlation_id, head.client_id
        )
        request = self._responder.received(api, head, message, self._received_at)
        cost = request.cost = self._throttle.cost_of(context, head.api_key, message, size)
        began = perf_counter() if cost is not None else 0.0
        try:
            result = api.handle(context, message)
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            result = request.failed(e)
        if cost is not None:
            cost.seconds += perf_counter() - began
        if isinstance(result, DelayedFetch) and cost is None:
            self._delay(request, result)
            return None
        if isawaitable(result):
            if api.waits:
                self._park(request, result)
                return None
            return self._hold(request, result)
        self._throttle.charge(request, result)
        if result is not NO_RESPONSE:
            try:
                self._answers.append(request.frame(result))
            except TooManyElements:
                return self._hold(request, _ready(result))
        self._handled(api.key, request.received_at)
        return None

    def _refuse(self, head: RequestHead, api: Api | None) -> None:
        """Refuse an unknown API or version. Only ApiVersions has an answer for that (KIP-35)."""
        if head.api_key != API_VERSIONS or api is None:
            raise ProtocolError(
                f"API key {head.api_key} in version {head.api_version} is not supported"
            )
        self._answers.append(self._responder.unknown_versions(self._context, head, api))

    def _park(self, request: ReceivedRequest, work: Awaitable[Any]) -> None:
        """Answer with the result of `work` in a task, while the following requests are handled."""
        self._nursery.start_soon(self._complete, self._answers.reserve(), request, work)

    def _delay(self, request: ReceivedRequest, delayed: DelayedFetch) -> None:
        """Park a fetch without a task."""
        self._delayed[delayed] = None
        delayed.start(partial(self._end_delay, self._answers.reserve(), request))

    def _end_delay(
        self, slot: Slot, request: ReceivedRequest, delayed: DelayedFetch, outcome: Any
    ) -> None:
        """Answer a delayed fetch, in the task that completed it."""
        del self._delayed[delayed]
        if outcome is None:
            self._nursery.start_soon(self._complete, slot, request, delayed)
            return
        try:
            if isinstance(outcome, Exception):
                outcome = request.failed(outcome)
            slot.parts = request.frame(outcome)
            self._handled(request.api.key, request.received_at)
            self.last_active = trio.current_time()
            answers = self._answers
            answers.release()
            if answers.send_at_once():
                self._nursery.start_soon(answers.flush)
        except TooManyElements:
            self._nursery.start_soon(self._complete, slot, request, _ready(outcome))
        except Exception as e:  # noqa: BLE001 (it is this connection's, not that task's)
            self._nursery.start_soon(_failing, e)
        finally:
            del outcome

    async def _hold(self, request: ReceivedRequest, work: Awaitable[Any]) -> None:
        """Await `work` before handling anything else on this connection. Outstanding answers are
        sent meanwhile."""
        if self._answers.out:
            self._nursery.start_soon(self._answers.flush)
        result = await request.outcome(work)
        del work
        self.last_active = trio.current_time()
        if isawaitable(result):
            self._park(request, result)
            return
        self._answers.append(await self._answer(request, result))

    async def _complete(self, slot: Slot, request: ReceivedRequest, work: Awaitable[Any]) -> None:
        """Complete a parked request, in a task of its own."""
        result = await request.outcome(work)
        del work
        slot.parts = await self._answer(request, result)
        self.last_active = trio.current_time()
        self._answers.release()
        await self._answers.flush()

    async def _answer(self, request: ReceivedRequest, response: Any) -> list[Part]:
        """Return the encoded answer to a request that had to wait; empty if the client wants none.
        Charges the client for it."""
        self._throttle.charge(request, response)
        parts = [] if response is NO_RESPONSE else await request.frame_in_steps(response)
        self._handled(request.api.key, request.received_at)
        return parts

    async def _wait_for_memory(self) -> None:
        deadline = trio.current_time() + MEMORY_WAIT_S

        def has_room() -> bool:
            return self._buffer.room() is not None

        if not await self._broker.purgatory.until(has_room, (RequestMemory,), deadline):
            raise ProtocolError("the memory for requests is used up (pk.request.bytes.max)")


async def _ready(result: Any) -> Any:
    return result


async def _failing(error: Exception) -> NoReturn:
    try:
        raise error
    finally:
        del error  # its traceback refers to this frame


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first leaf of an exception group: one line in the log is enough."""
    error = group.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return _first(cast(BaseExceptionGroup[BaseException], error))
    return error
