"""Authenticates a connection by SASL: SaslHandshake, then the messages of a mechanism (KIP-43,
KIP-152, KIP-368).

After SaslHandshake v0, the mechanism's messages are plain frames; after v1, they are in
SaslAuthenticate requests. Before the handshake, a client may send ApiVersions once. Any other
request ends the connection before its body is read. A client that authenticates again follows the
same steps on the open connection, and must be the same principal.

The machine takes and returns whole frames. A failure raises `Refused`, which contains the last
response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, Protocol

from msgspec import Struct

from pk.core.api_keys import API_KEYS
from pk.core.auth.principal import USER, KafkaPrincipal
from pk.core.auth.sasl import GSSAPI, AuthenticationFailed, SaslError, ServerExchange
from pk.core.errors import ErrorCode, ProtocolError
from pk.core.wire.codec import decode
from pk.core.wire.header import RequestHead, frame_response, parse_request_header
from pk.core.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from pk.core.wire.types import Part

API_VERSIONS: Final = 18
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36


class Refused(ProtocolError):
    """The connection must end. `parts` are the last response, which is delayed if
    `credentials_failed`."""

    def __init__(
        self,
        why: str,
        parts: Sequence[Part] = (),
        *,
        credentials_failed: bool = False,
        unexpected: RequestHead | None = None,
    ) -> None:
        super().__init__(why)
        self.unexpected = unexpected
        """A request that arrived instead of a token. It gets the error ILLEGAL_SASL_STATE."""
        self.parts = list(parts)
        self.credentials_failed = credentials_failed
        """Whether credentials were tried, after which the client's next attempt must wait."""


class Mechanisms(Protocol):
    """The mechanisms that a listener offers to clients."""

    @property
    def names(self) -> Sequence[str]:
        """The enabled mechanisms, in their order in the configuration."""
        ...

    def begin(self, name: str) -> ServerExchange:
        """Begin an exchange of an enabled mechanism."""
        ...

    def session_ms_max(self, name: str) -> int:
        """The maximum duration of a session (`connections.max.reauth.ms`), or 0 for unlimited."""
        ...

    def now_ms(self) -> int:
        """Return the time of day, in ms since 1970."""
        ...


AnswerVersions = Callable[[RequestHead, memoryview], tuple[list[Part], bool]]
"""Returns the response to an ApiVersions request in (head, frame), and whether the request
succeeded."""


class _Phase(Enum):
    VERSIONS_OR_HANDSHAKE = 0
    HANDSHAKE = 1
    TOKENS = 2
    COMPLETE = 3


class Session(Struct, frozen=True):
    """The identity of a connection, and how long it is valid."""

    principal: KafkaPrincipal
    mechanism: str
    lifetime_ms: int
    """How long the session is valid, or 0 for unlimited."""


class SaslServer(Struct):
    """Authenticates one session. If the client authenticates again, `before` is its current
    session."""

    mechanisms: Mechanisms
    answer_versions: AnswerVersions
    before: Session | None = None
    session: Session | None = None
    """The session, once the client is authenticated."""
    _phase: _Phase = _Phase.VERSIONS_OR_HANDSHAKE
    _mechanism: str = ""
    _bare: bool = False
    _exchange: ServerExchange | None = None

    def take(self, frame: memoryview) -> list[Part]:
        """Handle one frame, and return the response. Raises Refused, ProtocolError, and KeysNeeded,
        after which the same frame may be passed again."""
        if self._phase is not _Phase.TOKENS:
            return self._before_tokens(frame)
        if self._bare:
            return self._bare_token(frame)
        return self._authenticate(frame)

    def _before_tokens(self, frame: memoryview) -> list[Part]:
        head = parse_request_header(frame)
        if head.api_key == SASL_HANDSHAKE and self._phase is not _Phase.COMPLETE:
            return self._handshake(head, frame)
        asks_first = self._phase is _Phase.VERSIONS_OR_HANDSHAKE and self.before is None
        if head.api_key == API_VERSIONS and asks_first:
            parts, good = self.answer_versions(head, frame)
            if good:
                self._phase = _Phase.HANDSHAKE
            return parts
        raise Refused(f"Unexpected Kafka request of type {_api_name(head)} during SASL handshake.")

    def _handshake(self, head: RequestHead, frame: memoryview) -> list[Part]:
        _check_version(head)
        request, _ = decode(SaslHandshakeRequest, frame, head.api_version, head.body_position)
        enabled = list(self.mechanisms.names)
        known = request.mechanism in enabled
        response = SaslHandshakeResponse(
            error_code=ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            mechanisms=enabled,
        )
        parts = frame_response(response, SASL_HANDSHAKE, head.api_version, head.correlation_id)
        if not known:
            raise Refused(
                f"Unsupported SASL mechanism {request.mechanism[:40]!r}",
                parts,
                credentials_failed=True,
            )
        self._mechanism = request.mechanism
        self._exchange = self.mechanisms.begin(request.mechanism)
        self._bare = head.api_version == 0
        self._phase = _Phase.TOKENS
        return parts

    def _bare_token(self, frame: memoryview) -> list[Part]:
        try:
            answer = self._step(bytes(frame))
        except SaslError as e:
            raise Refused(_reason(e), credentials_failed=True) from e
        if not answer and self.session is not None and self._mechanism == GSSAPI:
            return []  # Java's server sends no final message in this case.
        return [len(answer).to_bytes(4, "big") + answer]

    def _authenticate(self, frame: memoryview) -> list[Part]:
        head = parse_request_header(frame)
        if head.api_key != SASL_AUTHENTICATE:
            raise Refused(
                f"Unexpected Kafka request of type {_api_name(head)} during SASL authentication.",
                unexpected=head,
            )
        _check_version(head)
        request, _ = decode(SaslAuthenticateRequest, frame, head.api_version, head.body_position)
        try:
            answer = self._step(request.auth_bytes)
        except SaslError as e:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=self._failure_message(e),
            )
            raise Refused(
                f"{_reason(e)} (SASL mechanism {self._mechanism})",
                _framed(response, head),
                credentials_failed=True,
            ) from e
        lifetime_ms = self.session.lifetime_ms if self.session is not None else 0
        return _framed(
            SaslAuthenticateResponse(
                error_message=None, auth_bytes=answer, session_lifetime_ms=lifetime_ms
            ),
            head,
        )

    def _step(self, token: bytes) -> bytes:
        assert self._exchange is not None
        if self.before is not None and self.before.mechanism != self._mechanism:
            raise AuthenticationFailed(
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for"
                f" re-authentication of mechanism '{self.before.mechanism}'"
            )
        exchange = self._exchange
        answer = exchange.step(token)
        if exchange.user is not None:
            principal = KafkaPrincipal(USER, exchange.user, exchange.by_token)
            self._complete(principal, exchange.expires_ms)
        return answer

    def _complete(self, principal: KafkaPrincipal, expires_ms: int | None) -> None:
        if self.before is not None and principal != self.before.principal:
            was = self.before.principal
            raise AuthenticationFailed(
                "Cannot change principals during re-authentication from"
                f" {was.type}.{was.name}: {principal.type}.{principal.name}"
            )
        lifetime_ms = self.mechanisms.session_ms_max(self._mechanism)
        if expires_ms is not None:
            # At least 1, because 0 would mean unlimited.
            left_ms = max(expires_ms - self.mechanisms.now_ms(), 1)
            lifetime_ms = min(lifetime_ms or left_ms, left_ms)
        self.session = Session(principal, self._mechanism, lifetime_ms)
        self._phase = _Phase.COMPLETE

    def _failure_message(self, error: SaslError) -> str:
        if isinstance(error, AuthenticationFailed):
            return str(error)
        again = "authentication" if self.before is None else "re-authentication"
        return (
            f"Authentication failed during {again} due to invalid credentials"
            f" with SASL mechanism {self._mechanism}"
        )


def _reason(error: SaslError) -> str:
    """Return the reason for a failed exchange, for the log."""
    return error.reason if isinstance(error, AuthenticationFailed) else str(error)


def _framed(response: SaslAuthenticateResponse, head: RequestHead) -> list[Part]:
    return frame_response(response, SASL_AUTHENTICATE, head.api_version, head.correlation_id)


def _check_version(head: RequestHead) -> None:
    first, last = API_KEYS[head.api_key].served_versions
    if not first <= head.api_version <= last:
        raise Refused(f"{_api_name(head)} version {head.api_version} is not served here")


def _api_name(head: RequestHead) -> str:
    api = API_KEYS.get(head.api_key)
    return api.name if api is not None else str(head.api_key)
