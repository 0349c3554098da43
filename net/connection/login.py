"""Authentication of the peer: before any other request, and again when its session ends
(re-authentication, KIP-368)."""

from __future__ import annotations

import math
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from msgspec.structs import replace

from pk.core.auth.distinguished_name import CertificateError
from pk.core.auth.oauthbearer import KeysNeeded
from pk.core.auth.principal import KafkaPrincipal
from pk.core.auth.principal_mapping import RuleError
from pk.core.auth.sasl_server import SASL_HANDSHAKE, Refused, SaslServer, Session
from pk.core.broker.requests.context import Context
from pk.core.config import ConfigError
from pk.core.errors import ErrorCode, KafkaError, ProtocolError, TooManyElements
from pk.core.wire.codec import decode, decode_request
from pk.core.wire.header import RequestHead
from pk.core.wire.index import MESSAGES
from pk.core.wire.types import Part
from pk.net.connection.answers import Answers
from pk.net.connection.responder import API_VERSIONS, Responder
from pk.net.frames import FrameBuffer
from pk.net.listener_security import ListenerSecurity
from pk.net.tls.contexts import TlsError, reason_of
from pk.net.tls.sockets import NotTls
from pk.net.tls.transport import TlsTransport

ANSWERED_ELEMENTS_MAX: Final = 2000
"""The most elements of a request that is answered during an authentication, while the peer is not
known yet."""
BETWEEN_AUTHENTICATIONS_S = 1.0
"""A peer that authenticates again sooner than this gets the same answer as one whose session has no
end (KIP-368)."""


class Login:
    """The authentication of one peer, and its re-authentication."""

    def __init__(
        self,
        security: ListenerSecurity,
        context: Context,
        buffer: FrameBuffer,
        answers: Answers,
        responder: Responder,
    ) -> None:
        self.security = security
        self.context = context
        """The template for the context of requests, with what is known about the peer so far."""
        self.session_ends = math.inf
        """The end of the session by trio's clock."""
        self._buffer = buffer
        self._answers = answers
        self._responder = responder
        self._session: Session | None = None
        """The session of a peer that authenticated with SASL."""
        self._again: SaslServer | None = None
        """The peer's re-authentication, while it is in progress."""
        self._again_since = -math.inf

    @property
    def is_under_way(self) -> bool:
        """Whether the peer is re-authenticating."""
        return self._again is not None

    async def first(
        self,
        handshake: Callable[[], Awaitable[TlsTransport]],
        receive_more: Callable[[], Awaitable[bool]],
    ) -> bool:
        """Accept only authentication, for a limited time. Returns False if the peer has left or the
        server is draining. Raises ProtocolError, Refused.

        `handshake` does the TLS handshake with the peer. `receive_more` fills the buffer and
        returns False if nothing more will be handled.
        """
        session, principal, security = None, self.context.principal, self.security
        with trio.move_on_after(security.timeout_s) as scope:
            if security.uses_tls:
                principal = await self._agree_on_keys(handshake)
            if security.uses_sasl:
                session = await self._log_in(receive_more)
                if session is None:
                    return False
        if scope.cancelled_caught:
            raise ProtocolError(f"not authenticated within {security.timeout_s:g} s")
        if session is not None:
            self._begin(session)
        else:
            self.context = replace(self.context, principal=principal)
        return True

    async def _agree_on_keys(
        self, handshake: Callable[[], Awaitable[TlsTransport]]
    ) -> KafkaPrincipal:
        """Do the TLS handshake. Returns the principal of the peer's certificate. Raises Refused."""
        try:
            transport = await handshake()
            return self.security.principal_of(transport.peer_certificate)
        except NotTls:
            raise Refused("it does not speak TLS, but this listener requires it") from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as e:
            raise trio.BrokenResourceError(str(e)) from e
        except (TlsError, RuleError, CertificateError) as e:
            raise Refused(str(e)) from e
        except ssl.SSLError as e:
            raise Refused(f"SSL handshake failed: {reason_of(e)}") from e

    async def _log_in(self, receive_more: Callable[[], Awaitable[bool]]) -> Session | None:
        """Accept only SASL requests. Returns None if the peer left or the server is draining.
        Raises ProtocolError, Refused."""
        buffer, whole = self._buffer, self._buffer.bytes_max
        buffer.bytes_max = min(whole, self.security.receive_bytes_max)
        sasl = SaslServer(self.security.mechanisms(), self._answer_versions)
        while sasl.session is None:
            frame = buffer.next_frame()
            if frame is not None:
                try:
                    self._answers.append(self._step(sasl, *frame))
                except KeysNeeded:
                    await self.security.fetch_keys()
                    self._answers.append(self._step(sasl, *frame))
                await self._answers.flush()
            elif not await receive_more():
                return None
        buffer.bytes_max = whole
        return sasl.session

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
        """Return the error response for any other request during an authentication; empty for an
        API that is not served, or a request with many elements. Raises ProtocolError if the request
        cannot be decoded."""
        responder, version = self._responder, head.api_version
        api = responder.apis.get(head.api_key)
        if api is None or not api.versions[0] <= version <= api.versions[1]:
            return []
        cls = MESSAGES[head.api_key].request
        try:
            request, _ = decode_request(
                cls, frame, version, head.body_position, ANSWERED_ELEMENTS_MAX
            )
        except TooManyElements:
            return []
        error = KafkaError(ErrorCode.ILLEGAL_SASL_STATE, why)
        try:
            received = responder.received(api, head, request)
            return received.frame(received.failed(error))
        except TypeError:
            return []

    def _begin(self, session: Session) -> None:
        """Start the session of a peer that has authenticated or re-authenticated."""
        self._session = session
        lasts_s = session.lifetime_ms / 1000 or math.inf
        self.session_ends = trio.current_time() + lasts_s
        self._again = None
        self.context = replace(self.context, principal=session.principal)

    def again(self, start: int, end: int) -> bool:
        """Handle a frame if it is a step of a re-authentication. Returns whether it was. Raises
        ProtocolError if a re-authentication was due."""
        session, now = self._session, trio.current_time()
        if session is None:
            return False
        if self._again is None:
            api_key = int.from_bytes(self._buffer.data[start : start + 2], "big")
            asks = api_key == SASL_HANDSHAKE and session.lifetime_ms > 0
            if not (asks and now - self._again_since >= BETWEEN_AUTHENTICATIONS_S):
                if now > self.session_ends:
                    raise ProtocolError("its session has expired (connections.max.reauth.ms)")
                return False
            self._again_since = now
            self._again = SaslServer(
                self.security.mechanisms(), self._answer_versions, before=session
            )
        again = self._again
        self._answers.append(self._step(again, start, end))
        if again.session is not None:
            self._begin(again.session)
        return True

    def _answer_versions(self, head: RequestHead, frame: memoryview) -> tuple[list[Part], bool]:
        """Answer ApiVersions of a peer that is not authenticated. Also returns whether the answer
        has the versions."""
        responder = self._responder
        api = responder.apis[API_VERSIONS]
        if not api.versions[0] <= head.api_version <= api.versions[1]:
            return responder.unknown_versions(self.context, head, api), False
        request, _ = decode(
            MESSAGES[API_VERSIONS].request, frame, head.api_version, head.body_position
        )
        context = self.context.of_request(
            API_VERSIONS, head.api_version, head.correlation_id, head.client_id
        )
        received = responder.received(api, head, request)
        try:
            response = api.handle(context, request)
        except KafkaError as e:
            return received.frame(received.failed(e)), False
        return received.frame(response), True

    async def answer_refused(self, refused: Refused) -> None:
        """Answer a peer that is refused. If its credentials failed, wait for
        connection.failed.authentication.delay.ms first, to slow down guessing."""
        if refused.credentials_failed:
            await trio.sleep(self.security.failed_delay_s)
        if refused.parts:
            self._answers.append(refused.parts)
