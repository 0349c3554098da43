"""One client's connection: frames in, answers out, in order.

The reader handles every whole frame of its buffer before it sends or reads again, so a client that
pipelines pays one `recv`, one `send` and one turn of the loop for many requests. What would starve
the others is cut off by time: after `pk.loop.slice.us` the reader sends what it has and yields.

Answers keep the order of their requests. While nothing is parked they go straight to `_out`. Behind
a parked request each answer gets a slot in `_parked`, and completing the first slot moves all
completed ones that follow to `_out`. The reader and the parked tasks both flush; `_sending` makes
one of them do it for all.
"""

from __future__ import annotations

import logging
import math
import ssl
from collections import deque
from collections.abc import Awaitable, Generator
from contextlib import nullcontext
from dataclasses import field, replace
from functools import partial
from inspect import isawaitable
from time import perf_counter
from typing import Any, NoReturn, cast

import trio

from pk.core.api import produce
from pk.core.api.delayed_fetch import DelayedFetch
from pk.core.api.produce_fast_path.answers import DelayedProduce, FailedProduce
from pk.core.api.produce_fast_path.fast_path import ProduceFastPath
from pk.core.api.registry import NO_RESPONSE, AnyApi, Holding, Large, error_response
from pk.core.auth.distinguished_name import CertificateError
from pk.core.auth.oauthbearer import KeysNeeded
from pk.core.auth.principal import KafkaPrincipal
from pk.core.auth.principal_mapping import RuleError
from pk.core.auth.sasl_server import SASL_HANDSHAKE, Refused, SaslServer, Session
from pk.core.broker.broker import Broker
from pk.core.broker.offload import offload
from pk.core.broker.requests.client_quotas import is_exempt
from pk.core.broker.requests.context import Context
from pk.core.broker.turns import finish, let_go
from pk.core.config import ConfigError
from pk.core.errors import ErrorCode, KafkaError, ProtocolError, TooManyElements
from pk.core.lazy_dataclass import dataclass
from pk.core.turns import AT_ONCE
from pk.core.wire.codec import decode, decode_in_turns, decode_small
from pk.core.wire.elements import has_many
from pk.core.wire.header import (
    RequestHead,
    frame_response,
    frame_response_in_turns,
    parse_request_header,
)
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsResponse
from pk.core.wire.types import EncodeError, Part
from pk.net.collector import large_request
from pk.net.frames import FrameBuffer, RequestMemory
from pk.net.listener_security import ListenerSecurity
from pk.net.tls.contexts import TlsError, reason_of
from pk.net.tls.sockets import NotTls
from pk.net.tls.transport import TlsTransport
from pk.net.transport import Transport

logger = logging.getLogger("pk.server")

PRODUCE = 0
FETCH = 1
API_VERSIONS = 18
FREQUENT = frozenset([PRODUCE, FETCH])
"""To count what is in their answers would cost each small one. Those of Fetch say themselves that
they are large (core/api/registry.py), those of Produce are as large as the request."""
LARGE_BYTES = 16 << 10
"""Below this a request takes no more than 5 ms to decode, whatever it holds."""
DECODED_AT_ONCE = 2000
"""A larger request that names more things is decoded in turns, since a million small elements take
a second. A Fetch request of 1,000 partitions is not; nor are megabytes of records or of metadata,
which are decoded as one."""
MEMORY_WAIT_S = 10
"""How long a connection that cannot grow its buffer waits for others to finish before it is
closed."""

BETWEEN_AUTHENTICATIONS_S = 1.0
"""A peer that authenticates again sooner is answered as one that has no reason to (KIP-368)."""

GOODBYE_S = 0.5
"""How long a peer whose connection we close gets to take the answers to what it asked before."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may take."""

    frame_bytes_max: int
    parked_max: int
    slice_s: float
    decoding: trio.Lock = field(default_factory=trio.Lock)
    """Held by who decodes a large request, of all connections with these limits: its objects take
    many times its bytes."""


class _Bill:
    """What a request costs its client, while there are quotas."""

    __slots__ = ("client", "seconds", "wait_ms")

    def __init__(self, client: Context) -> None:
        self.client = client
        self.seconds = 0.0
        """Of the loop, as far as that is measured."""
        self.wait_ms = 0
        """What the client must wait whatever comes of the request."""

    def measured(self, work: Awaitable[Any]) -> Awaitable[Any]:
        """`work`, whose time on the loop is counted."""
        return _Measured(work, self)


class _Measured:
    """Counts the time that an awaitable keeps the loop: each of its steps, and not its waits."""

    __slots__ = ("_bill", "_work")

    def __init__(self, work: Awaitable[Any], bill: _Bill) -> None:
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


class _Slot:
    """The slot of an answer that is still missing."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] | None = None


class Connection:
    """Serves one transport until the peer leaves, misbehaves, idles too long, or the server
    drains."""

    def __init__(
        self,
        transport: Transport,
        broker: Broker,
        apis: dict[int, AnyApi],
        limits: Limits,
        memory: RequestMemory,
        context: Context,
        peer: str,
        security: ListenerSecurity | None = None,
    ) -> None:
        """`context` is the pattern of every request's: broker, listener, host. `security` is given
        where the peer must authenticate before anything else."""
        self.peer = peer
        self.last_active = trio.current_time()
        self._transport = transport
        self._broker = broker
        self._apis = apis
        self._limits = limits
        self._buffer = FrameBuffer(memory, limits.frame_bytes_max)
        self._metrics = broker.metrics
        self._purgatory = broker.purgatory
        self._received_at = 0.0
        """When the requests came that are being handled, by perf_counter."""
        self._context = context
        self._fast_path: ProduceFastPath | None = None
        """For Produce requests, where they are served, of a peer that has authenticated."""
        self._security = security
        self._session: Session | None = None
        """Of a peer that has authenticated by SASL."""
        self._session_ends = math.inf
        """By trio's clock."""
        self._again: SaslServer | None = None
        """A new authentication of the same peer, while it is under way."""
        self._again_since = -math.inf
        if security is None:
            self._admit(context)
        self._out: list[Part] = []
        self._sending = False
        self._sent: trio.Event | None = None
        self._parked: deque[_Slot] = deque()
        self._less_parked = trio.Event()
        self._delayed: dict[DelayedFetch, None] = {}
        """Fetches that are parked and have no task."""
        self._reading = trio.CancelScope()
        self._receiving = False
        """Whether the reader waits for bytes: only there may it be cancelled."""
        self._stopped = False
        self._serving = trio.CancelScope()
        self._quotas = broker.client_quotas
        self._muted_until = 0.0
        """Until when nothing more is handled, because the client is above a quota; 0 where it is
        not."""
        self._unpaid_from = 0.0
        """Since when the fast path's time is not charged yet, where a quota limits time."""
        self._nursery: trio.Nursery

    @property
    def busy(self) -> bool:
        """Whether an answer is still owed."""
        return bool(self._parked or self._out or self._sending)

    def stop_reading(self) -> None:
        """Take no more requests; `serve` returns when the answers that are owed are sent.

        What is being handled or sent goes on: half an answer on the wire would spoil those behind
        it.
        """
        self._stopped = True
        if self._receiving:
            self._reading.cancel()

    def close_at_once(self) -> None:
        """Close without the answers that are owed."""
        self._serving.cancel()

    def close_if_idle(self, since: float) -> None:
        """Close where nothing has moved since then: a peer that owes us a request, or does not take
        our answer."""
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
                    try:
                        await self._serve()
                    finally:
                        for delayed in self._delayed:
                            delayed.cancel()
                        self._delayed.clear()
                    if not self._stopped:
                        nursery.cancel_scope.cancel()
                with trio.move_on_after(GOODBYE_S):
                    await self._transport.finish()
        except* ProtocolError as group:
            error = _first(group)
            if isinstance(error, Refused) and self._security is not None:
                self._metrics.listener(self._context.listener).failed_authentication += 1
                self._security.report(self.peer, str(error))
            else:
                logger.warning("%s: %s; connection closed", self.peer, error)
            del error  # its traceback refers to this frame: only the collector would free the two
        except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            self._buffer.close()
            await self._transport.aclose()

    async def _serve(self) -> None:
        """Until the peer has sent everything, or, where reading was stopped, until the fetches that
        wait without a task are answered."""
        with self._reading:
            try:
                if self._security is None or await self._authenticate(self._security):
                    await self._read()
            except ProtocolError as e:
                if isinstance(e, Refused):
                    await self._last_answer(e)
                with trio.move_on_after(GOODBYE_S):
                    await self._flush()
                    await self._transport.finish()
                raise
        while self._stopped and self._delayed:
            self._less_parked = trio.Event()
            await self._less_parked.wait()

    def _admit(self, context: Context) -> None:
        """Serve requests from here on, in `context`."""
        self._context = context
        if self._apis.get(PRODUCE) is produce.API:
            self._fast_path = ProduceFastPath(context)

    async def _authenticate(self, security: ListenerSecurity) -> bool:
        """Take nothing but what authenticates the peer, and not for long. Whether it is
        authenticated: it may have left, or the server drains. Raises ProtocolError, Refused."""
        session, principal = None, self._context.principal
        with trio.move_on_after(security.timeout_s) as scope:
            if security.uses_tls:
                principal = await self._agree_on_keys(security)
            if security.uses_sasl:
                session = await self._log_in(security)
                if session is None:
                    return False
        if scope.cancelled_caught:
            raise ProtocolError(f"not authenticated within {security.timeout_s:g} s")
        if session is not None:
            self._begin(session)
        else:
            self._admit(replace(self._context, principal=principal))
        return True

    async def _agree_on_keys(self, security: ListenerSecurity) -> KafkaPrincipal:
        """The TLS handshake: who the peer's certificate says it is. Raises Refused."""
        transport = self._transport
        assert isinstance(transport, TlsTransport)
        self._receiving = True
        try:
            await transport.handshake()
            return security.principal_of(transport.peer_certificate)
        except NotTls:
            raise Refused("it does not speak TLS, and this listener does") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as e:
            raise trio.BrokenResourceError(str(e)) from e
        except (TlsError, RuleError, CertificateError) as e:
            raise Refused(str(e)) from e
        except ssl.SSLError as e:
            raise Refused(f"SSL handshake failed: {reason_of(e)}") from e
        finally:
            self._receiving = False

    async def _log_in(self, security: ListenerSecurity) -> Session | None:
        """Take nothing but steps of SASL; None where the peer left, or the server drains. Raises
        ProtocolError, Refused."""
        buffer, whole = self._buffer, self._buffer.bytes_max
        buffer.bytes_max = min(whole, security.receive_bytes_max)
        sasl = SaslServer(security.mechanisms(), self._answer_versions)
        while sasl.session is None:
            frame = buffer.next_frame()
            if frame is not None:
                try:
                    self._owe(self._step(sasl, *frame))
                except KeysNeeded:
                    await security.fetch_keys()
                    self._owe(self._step(sasl, *frame))
                await self._flush()
            elif not await self._receive_more():
                return None
        buffer.bytes_max = whole
        return sasl.session

    async def _receive_more(self) -> bool:
        """Receive what comes next before the peer is authenticated; False where nothing will be
        handled any more."""
        self._receiving = True
        count = await self._transport.receive(self._buffer)
        self._receiving = False
        self.last_active = trio.current_time()
        if count is None:
            await self._wait_for_memory()
            return True
        return count > 0 and not self._stopped

    def _step(self, sasl: SaslServer, start: int, end: int) -> list[Part]:
        with memoryview(self._buffer.data)[start:end] as frame:
            try:
                return sasl.take(frame)
            except ConfigError as e:
                raise Refused(str(e), credentials_failed=True) from e
            except Refused as e:
                if e.unexpected is not None:
                    e.parts = self._answer_unexpected(e.unexpected, frame, str(e))
                raise

    def _answer_unexpected(self, head: RequestHead, frame: memoryview, why: str) -> list[Part]:
        """The error that says that a request came in the middle of an authentication; nothing for
        one that is not served, or names much. Raises ProtocolError where the request cannot be
        read."""
        api = self._apis.get(head.api_key)
        if api is None or not api.versions[0] <= head.api_version <= api.versions[1]:
            return []
        cls, version = MESSAGES[head.api_key].request, head.api_version
        try:
            request, _ = decode_small(cls, frame, version, head.body_position, DECODED_AT_ONCE)
        except TooManyElements:
            return []
        error = KafkaError(ErrorCode.ILLEGAL_SASL_STATE, why)
        try:
            return self._frame(api, head, request, self._failure(api, head, request, error))
        except TypeError:
            return []

    def _begin(self, session: Session) -> None:
        """The peer is authenticated, for the first time or again."""
        self._session = session
        lasts_s = session.lifetime_ms / 1000 or math.inf
        self._session_ends = trio.current_time() + lasts_s
        self._again = None
        self._admit(replace(self._context, principal=session.principal))

    def _authenticate_again(self, start: int, end: int) -> bool:
        """Whether a frame was a step of a new authentication (KIP-368). Raises ProtocolError where
        one was due."""
        session, now = self._session, trio.current_time()
        if session is None or self._security is None:
            return False
        if self._again is None:
            api_key = int.from_bytes(self._buffer.data[start : start + 2], "big")
            asks = api_key == SASL_HANDSHAKE and session.lifetime_ms > 0
            if not (asks and now - self._again_since >= BETWEEN_AUTHENTICATIONS_S):
                if now > self._session_ends:
                    raise ProtocolError("its session has expired (connections.max.reauth.ms)")
                return False
            self._again_since = now
            self._fast_path = None
            self._again = SaslServer(
                self._security.mechanisms(), self._answer_versions, before=session
            )
        again = self._again
        self._owe(self._step(again, start, end))
        if again.session is not None:
            self._begin(again.session)
        return True

    async def _authenticate_with_new_keys(self, start: int, end: int) -> None:
        if self._security is not None:
            await self._security.fetch_keys()
        self._authenticate_again(start, end)

    def _answer_versions(self, head: RequestHead, frame: memoryview) -> tuple[list[Part], bool]:
        """ApiVersions of a peer that is not authenticated, and whether it was answered with the
        versions."""
        api = self._apis[API_VERSIONS]
        if not api.versions[0] <= head.api_version <= api.versions[1]:
            return self._unknown_versions(head, api), False
        request, _ = decode(
            MESSAGES[API_VERSIONS].request, frame, head.api_version, head.body_position
        )
        context = self._context.of_request(
            API_VERSIONS, head.api_version, head.correlation_id, head.client_id
        )
        try:
            response = api.handle(context, request)
        except KafkaError as e:
            return self._frame(api, head, request, self._failure(api, head, request, e)), False
        return self._frame(api, head, request, response), True

    async def _last_answer(self, refused: Refused) -> None:
        """Answer a peer that is refused; who guesses passwords waits for it
        (connection.failed.authentication.delay.ms)."""
        self._settle()
        if refused.credentials_failed and self._security is not None:
            await trio.sleep(self._security.failed_delay_s)
        if refused.parts:
            self._owe(refused.parts)

    async def _read(self) -> None:
        """Until the peer has sent everything, or reading is stopped."""
        buffer, limits = self._buffer, self._limits
        # Behind the last message of a login that is not answered requests may be here already.
        here = len(buffer) > 0
        while not self._stopped:
            self._receiving = True
            count = 1 if here else await self._transport.receive(buffer)
            if count is None:
                await self._wait_for_memory()
                continue
            self._receiving = here = False
            if count == 0:
                return
            if self._stopped:
                # The scope is cancelled: handling what just came would be cut off at its first
                # wait.
                return
            started = self._unpaid_from = self._received_at = perf_counter()
            self.last_active = trio.current_time()
            if self.last_active > self._session_ends:
                self._fast_path = None
            try:
                while (frame := buffer.next_frame()) is not None:
                    if self._muted_until:
                        await self._stay_mute()
                        if self._stopped:
                            return
                        started = self._unpaid_from = perf_counter()
                    fast_path, data = self._fast_path, buffer.data
                    if (
                        fast_path is not None
                        and isinstance(data, bytearray)
                        and fast_path.take(data, *frame)
                    ):
                        if (
                            not fast_path.is_full
                            and len(self._parked) + len(fast_path.taken) < limits.parked_max
                            and perf_counter() - started <= limits.slice_s
                        ):
                            continue
                        self._settle()
                    else:
                        self._settle()
                        with self._purgatory:
                            hold = self._handle(*frame)
                        if hold is not None:
                            await hold
                        if self._quotas.measures_time:
                            self._unpaid_from = perf_counter()
                    if len(self._parked) >= limits.parked_max:
                        await self._wait_for_answers()
                    if perf_counter() - started > limits.slice_s:
                        await self._flush()
                        await trio.lowlevel.checkpoint()
                        started = perf_counter()
            except ProtocolError:
                self._settle()  # what came before is handled, and answered
                raise
            self._settle()
            if self._out:
                await self._flush()
            if perf_counter() - started > limits.slice_s:
                await trio.lowlevel.checkpoint()

    def _settle(self) -> None:
        """Append what the fast path has taken: the answers are sent, or parked."""
        if self._fast_path is None or not self._fast_path.taken:
            return
        count = len(self._fast_path.taken)
        wait_ms = self._charge_taken(self._fast_path) if self._quotas.is_on else 0
        with self._purgatory:
            answers = self._fast_path.settle(wait_ms)
            settled_at = perf_counter()
        if self._quotas.measures_time:
            self._unpaid_from += perf_counter() - settled_at  # that was for others
        if not self._parked:
            plain = [answer for answer in answers if isinstance(answer, bytes)]
            if len(plain) == len(answers):
                self._out.append(b"".join(plain))
                self._handled(PRODUCE, self._received_at, count)
                return
        delayed: list[tuple[_Slot, DelayedProduce]] = []
        for answer in answers:
            if isinstance(answer, bytes):
                self._owe([answer])
            elif isinstance(answer, DelayedProduce):
                slot = _Slot()
                self._parked.append(slot)
                delayed.append((slot, answer))
            elif isinstance(answer, FailedProduce):
                self._owe(self._failed_produce(answer))
            else:
                self._owe(answer)
        if delayed:
            self._nursery.start_soon(self._complete_delayed, delayed, self._received_at)
        if count > len(delayed):
            self._handled(PRODUCE, self._received_at, count - len(delayed))

    def _charge_taken(self, fast_path: ProduceFastPath) -> int:
        """Charge the client for what the fast path has taken. Its time since the last charge
        counts: so the appending of one run is charged with the next."""
        client, count = fast_path.cost()
        wait_ms = self._quotas.produced(client, count)
        if self._quotas.measures_time:
            now = perf_counter()
            wait_ms = max(wait_ms, self._quotas.worked(client, now - self._unpaid_from))
            self._unpaid_from = now
        self._mute(wait_ms)
        return wait_ms

    def _mute(self, wait_ms: int) -> None:
        """Handle nothing more for so long."""
        if wait_ms:
            self._muted_until = max(self._muted_until, trio.current_time() + wait_ms / 1000)

    async def _stay_mute(self) -> None:
        """Send what is owed, and wait until the client may go on (KIP-219)."""
        self._settle()
        await self._flush()
        self._receiving = True
        while (until := self._muted_until) > trio.current_time():
            self.last_active = until  # we keep it waiting: it is not idle
            await trio.sleep_until(until)
        self._receiving = False
        self._muted_until = 0.0
        self.last_active = trio.current_time()

    def _bill_of(self, context: Context, api_key: int, request: Any, size: int) -> _Bill | None:
        """A new bill; None for who pays nothing."""
        if not self._quotas.is_on or is_exempt(context, request):
            return None
        bill = _Bill(context)
        if api_key == PRODUCE:
            bill.wait_ms = self._quotas.produced(context, size)
            self._mute(bill.wait_ms)
        return bill

    def _charge(self, bill: _Bill, response: Any) -> None:
        """Charge what a request took, and write into its answer how long the client must wait."""
        wait_ms = bill.wait_ms
        if self._quotas.measures_time:
            wait_ms = max(wait_ms, self._quotas.worked(bill.client, bill.seconds))
        response = _unwrapped(response)
        if response is not NO_RESPONSE and hasattr(response, "throttle_time_ms"):
            wait_ms = max(wait_ms, response.throttle_time_ms)
            response.throttle_time_ms = wait_ms
        self._mute(wait_ms)

    def _handled(self, api_key: int, received_at: float, count: int = 1) -> None:
        """Requests that came at `received_at` have their answers."""
        took_ms = (perf_counter() - received_at) * 1000
        self._metrics.request(api_key).total_time.observe(took_ms, count)

    async def _complete_delayed(
        self, delayed: list[tuple[_Slot, DelayedProduce]], received_at: float
    ) -> None:
        """The task of a run's requests that wait: one for all, since what they wait for mostly
        comes at once."""
        for slot, produce_ in delayed:
            if not produce_.is_ready:
                self._release()
                self._nursery.start_soon(self._flush)
            try:
                slot.parts = await produce_.answer()
            except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
                slot.parts = self._failed_produce(FailedProduce(produce_.taken, e))
            self._handled(PRODUCE, received_at)
            self.last_active = trio.current_time()
        self._release()
        await self._flush()

    def _failed_produce(self, failed: FailedProduce) -> list[Part]:
        taken = failed.taken
        api, head, request = self._apis[PRODUCE], taken.head, taken.message()
        return self._frame(api, head, request, self._failure(api, head, request, failed.error))

    def _release(self) -> None:
        """Send the answers that are complete and have none before them that is not."""
        parked = self._parked
        while parked and parked[0].parts is not None:
            self._out.extend(parked.popleft().parts or ())
        self._less_parked.set()

    def _handle(self, start: int, end: int) -> Awaitable[None] | None:
        """Handle one frame: answer it, or park it, or return what must be awaited before the next
        one."""
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
            # What follows the message is not read, as in Apache Kafka: librdkafka ends its
            # Metadata requests for all topics with three bytes too many.
            if end - start < LARGE_BYTES:
                request, _ = decode(cls, frame, version, head.body_position)
            else:
                try:
                    request, _ = decode_small(
                        cls, frame, version, head.body_position, DECODED_AT_ONCE
                    )
                except TooManyElements:
                    return self._handle_large(api, head, start, end)
        return self._dispatch(api, head, request, end - start)

    async def _handle_large(self, api: AnyApi, head: RequestHead, start: int, end: int) -> None:
        """Handle a frame that takes long to decode: in turns, since a thread would slow the loop
        more, by taking the interpreter at each of its system calls. The buffer stays as it is:
        nothing is received meanwhile."""
        if self._out:
            self._nursery.start_soon(self._flush)
        with large_request():
            with memoryview(self._buffer.data)[start:end] as frame:
                cls, version = MESSAGES[head.api_key].request, head.api_version
                async with self._limits.decoding:
                    request, _ = await finish(
                        decode_in_turns(cls, frame, version, head.body_position)
                    )
            self.last_active = trio.current_time()
            hold = self._dispatch(api, head, request, end - start, large=True)
            del request
            if hold is not None:
                await hold

    def _dispatch(
        self, api: AnyApi, head: RequestHead, request: Any, size: int, *, large: bool = False
    ) -> Awaitable[None] | None:
        """Answer a request of `size` bytes, or park it, or return what must be awaited before the
        next one. `large`: so that it, and an answer to all it names, are neither written nor freed
        at once."""
        context = self._context.of_request(
            head.api_key, head.api_version, head.correlation_id, head.client_id
        )
        bill = self._bill_of(context, head.api_key, request, size)
        began = perf_counter() if bill is not None else 0.0
        try:
            result = api.handle(context, request)
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            result = _failing(e) if large else self._failure(api, head, request, e)
        if bill is not None:
            bill.seconds += perf_counter() - began
        if isinstance(result, DelayedFetch) and bill is None and not large:
            self._delay(api, head, request, result)
            return None
        if isinstance(result, Holding):
            return self._hold(api, head, request, cast(Holding[Any], result).work, large, bill)
        if isawaitable(result):
            if api.parks:
                self._park(api, head, request, result, large, bill)
                return None
            return self._hold(api, head, request, result, large, bill)
        if large:
            return self._hold(api, head, request, _at_hand(result), large, bill)
        if bill is not None:
            self._charge(bill, result)
        if result is not NO_RESPONSE:
            self._owe(self._frame(api, head, request, result))
        self._handled(api.key, self._received_at)
        return None

    def _refuse(self, head: RequestHead, api: AnyApi | None) -> None:
        """An API or a version we do not serve: only ApiVersions has an answer to that (KIP-35)."""
        if head.api_key != API_VERSIONS or api is None:
            raise ProtocolError(f"api {head.api_key} version {head.api_version} is not served here")
        self._owe(self._unknown_versions(head, api))

    def _unknown_versions(self, head: RequestHead, api: AnyApi) -> list[Part]:
        """The answer to a version of ApiVersions that we do not know: the versions all the same."""
        context = self._context.of_request(API_VERSIONS, 0, head.correlation_id, head.client_id)
        answer = api.handle(context, None)
        assert isinstance(answer, ApiVersionsResponse)
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return frame_response(answer, API_VERSIONS, 0, head.correlation_id)

    def _failure(self, api: AnyApi, head: RequestHead, request: Any, error: Exception) -> Any:
        """The response that says so; a fault of ours is logged with its traceback."""
        if isinstance(error, ProtocolError):
            raise error
        if not isinstance(error, KafkaError):
            logger.error(
                "%s: api %d version %d failed", self.peer, head.api_key, head.api_version,
                exc_info=error,
            )  # fmt: skip
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._metrics.request(head.api_key).failed(error.code)
        response_class = MESSAGES[head.api_key].response
        return error_response(api, response_class, request, error, head.api_version)

    def _frame(self, api: AnyApi, head: RequestHead, request: Any, response: Any) -> list[Part]:
        """`response` as it is sent. One that cannot be written (a string beyond 32,767 bytes) is
        answered as a fault of ours, and the connection lives."""
        try:
            return frame_response(response, head.api_key, head.api_version, head.correlation_id)
        except EncodeError as e:
            failed = self._failure(api, head, request, e)
            return frame_response(failed, head.api_key, head.api_version, head.correlation_id)

    async def _frame_in_turns(
        self, api: AnyApi, head: RequestHead, request: Any, response: Any
    ) -> list[Part]:
        """As `_frame`, of a large response."""
        key, version = head.api_key, head.api_version
        try:
            return await finish(
                frame_response_in_turns(response, key, version, head.correlation_id)
            )
        except EncodeError as e:
            failed = await offload(self._failure, api, head, request, e)
            return await finish(frame_response_in_turns(failed, key, version, head.correlation_id))

    def _owe(self, parts: list[Part]) -> None:
        if self._parked:
            slot = _Slot()
            slot.parts = parts
            self._parked.append(slot)
        else:
            self._out.extend(parts)

    def _park(
        self,
        api: AnyApi,
        head: RequestHead,
        request: Any,
        work: Awaitable[Any],
        large: bool,
        bill: _Bill | None,
    ) -> None:
        slot = _Slot()
        self._parked.append(slot)
        self._nursery.start_soon(
            self._complete, slot, api, head, request, work, large, bill, self._received_at
        )

    def _delay(self, api: AnyApi, head: RequestHead, request: Any, delayed: DelayedFetch) -> None:
        """Park a fetch without a task."""
        slot = _Slot()
        self._parked.append(slot)
        self._delayed[delayed] = None
        delayed.start(partial(self._end_delay, slot, api, head, request, self._received_at))

    def _end_delay(
        self,
        slot: _Slot,
        api: AnyApi,
        head: RequestHead,
        request: Any,
        received_at: float,
        delayed: DelayedFetch,
        outcome: Any,
    ) -> None:
        """Answer a fetch that waited, in whichever task completed it."""
        del self._delayed[delayed]
        if outcome is None or isinstance(outcome, Large):
            work = delayed if outcome is None else _at_hand(outcome)
            self._nursery.start_soon(
                self._complete, slot, api, head, request, work, False, None, received_at
            )
            return
        try:
            if isinstance(outcome, Exception):
                outcome = self._failure(api, head, request, outcome)
            slot.parts = self._frame(api, head, request, outcome)
            self._handled(api.key, received_at)
            self.last_active = trio.current_time()
            self._release()
            self._send_at_once()
        except Exception as e:  # noqa: BLE001 (it is this connection's, not that task's)
            self._nursery.start_soon(_failing, e)
        finally:
            del outcome

    async def _hold(
        self,
        api: AnyApi,
        head: RequestHead,
        request: Any,
        work: Awaitable[Any],
        large: bool,
        bill: _Bill | None,
    ) -> None:
        """Await `work` before anything else of this connection is handled; what is owed is sent
        meanwhile."""
        if self._out:
            self._nursery.start_soon(self._flush)
        received_at = self._received_at
        result = await self._outcome(api, head, request, work, large, bill)
        del work
        self.last_active = trio.current_time()
        if isawaitable(result):
            self._park(api, head, request, result, large, bill)
            return
        if bill is not None:
            self._charge(bill, result)
        large = large or _is_large(api, result)
        if result is not NO_RESPONSE:
            self._owe(await self._framed(api, head, request, result, large))
        self._handled(api.key, received_at)
        if large:
            left = [request, _unwrapped(result)]
            del request, result
            await let_go(left)

    async def _framed(
        self, api: AnyApi, head: RequestHead, request: Any, response: Any, large: bool
    ) -> list[Part]:
        """The answer to what had to be waited for."""
        if isinstance(response, Large):
            response = _unwrapped(response)
        if large:
            return await self._frame_in_turns(api, head, request, response)
        return self._frame(api, head, request, response)

    async def _outcome(
        self,
        api: AnyApi,
        head: RequestHead,
        request: Any,
        work: Awaitable[Any],
        large: bool,
        bill: _Bill | None,
    ) -> Any:
        """What `work` comes to, or the response that says how it failed."""
        try:
            if bill is not None and self._quotas.measures_time:
                return await bill.measured(work)
            return await work
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            if large:
                return await offload(self._failure, api, head, request, e)
            return self._failure(api, head, request, e)

    async def _complete(
        self,
        slot: _Slot,
        api: AnyApi,
        head: RequestHead,
        request: Any,
        work: Awaitable[Any],
        large: bool,
        bill: _Bill | None,
        received_at: float,
    ) -> None:
        """A parked request's task."""
        with large_request() if large else nullcontext():
            result = await self._outcome(api, head, request, work, large, bill)
            del work
            if bill is not None:
                self._charge(bill, result)
            large = large or _is_large(api, result)
            if result is NO_RESPONSE:
                slot.parts = []
            else:
                slot.parts = await self._framed(api, head, request, result, large)
            self._handled(api.key, received_at)
            self.last_active = trio.current_time()
            self._release()
            await self._flush()
            if large:
                left = [request, _unwrapped(result)]
                del request, result
                await let_go(left)

    def _send_at_once(self) -> None:
        """Send what is in `_out`, as far as the peer takes it now; a task sends the rest."""
        if self._sending or not self._out:
            return  # who sends goes on with it
        parts, self._out = self._out, []
        self._out = self._transport.send_at_once(parts)
        if self._out:
            self._nursery.start_soon(self._flush)

    async def _flush(self) -> None:
        """Send all that is in `_out`; where somebody is at it, wait for them: that is the
        backpressure on the reader."""
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
        """Enough is parked: read no more until some of it is answered (backpressure by not
        reading)."""
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


def _is_large(api: AnyApi, result: Any) -> bool:
    """Whether the answer to what had to be waited for is framed in turns."""
    if api.key in FREQUENT or result is NO_RESPONSE or isinstance(result, Large):
        return isinstance(result, Large)
    return has_many(result, AT_ONCE)


def _unwrapped(result: Any) -> Any:
    """A response, or that within a large one."""
    return cast(Large[Any], result).response if isinstance(result, Large) else result


async def _at_hand(result: Any) -> Any:
    return result


async def _failing(error: Exception) -> NoReturn:
    try:
        raise error
    finally:
        del error  # its traceback refers to this frame


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first leaf of a group: one line in the log is enough."""
    error = group.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return _first(cast(BaseExceptionGroup[BaseException], error))
    return error
