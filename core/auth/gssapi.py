"""SASL GSSAPI (RFC 4752), the mechanism for Kerberos logins.

First the two sides exchange the tokens of a GSS context until it is established; each has then
authenticated the other. Then they agree on a security layer, with one wrapped message in each
direction: the server offers layers, and the client chooses one and may name an authorization id.
Kafka only supports "no security layer"; for encryption, use TLS. As in Apache Kafka, the
authorization id is ignored: the ticket identifies the client. `net/kerberos.py` provides the
context; this file does no I/O except through its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from pk.core.auth.principal_mapping import RuleError
from pk.core.auth.sasl import SaslError

NO_LAYER: Final = 1
"""The bit for "no security layer"."""
_OFFER: Final = bytes((NO_LAYER, 0, 0, 0))
"""The offered layers, and the maximum size of a wrapped message, which is 0 without a layer."""
_STEPS_MAX: Final = 8
"""The maximum number of steps of a context. Kerberos needs one or two."""


class GssFailed(Exception):
    """A step of a context failed. The text is for the log."""


class GssContext(Protocol):
    """One side of a GSS context. All methods raise GssFailed."""

    @property
    def complete(self) -> bool:
        """Whether the context is established."""
        ...

    @property
    def initiator(self) -> str:
        """The initiator's principal, once the context is established."""
        ...

    def step(self, token: bytes) -> bytes:
        """Return the response to the other side's token. An empty argument begins the exchange. An
        empty result means that there is nothing to send."""
        ...

    def wrap(self, data: bytes) -> bytes:
        """Wrap `data` with a signature."""
        ...

    def unwrap(self, data: bytes) -> bytes:
        """Unwrap data from the other side."""
        ...


class GssapiServer:
    """The server's side of an exchange."""

    def __init__(self, context: GssContext, local_name: Callable[[str], str]) -> None:
        """Begin an exchange. `local_name` returns the user of a principal, and raises RuleError."""
        self._context = context
        self._local_name = local_name
        self._steps = 0
        self._offered = False
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.by_token = False

    def step(self, data: bytes) -> bytes:
        """Answer a token, the empty message after the last token, or the choice of a layer. Raises
        SaslError."""
        try:
            return self._step(data)
        except (GssFailed, RuleError) as e:
            raise SaslError(str(e)) from e

    def _step(self, data: bytes) -> bytes:
        context = self._context
        if not context.complete:
            if not data or self._steps == _STEPS_MAX:
                raise SaslError(
                    "the Kerberos exchange did not complete" if data else "an empty token"
                )
            self._steps += 1
            answer = context.step(data)
            return answer if answer or not context.complete else self._offer(b"")
        if not self._offered:
            return self._offer(data)
        choice = context.unwrap(data)
        if len(choice) < len(_OFFER) or choice[0] != NO_LAYER:
            raise SaslError("the client chose a security layer that was not offered")
        self.user = self._local_name(context.initiator)
        return b""

    def _offer(self, data: bytes) -> bytes:
        if data:
            raise SaslError("Handshake expecting no response data from server")
        self._offered = True
        return self._context.wrap(_OFFER)


class GssapiClient:
    """The client's side of an exchange."""

    def __init__(self, context: GssContext) -> None:
        self._context = context
        self._steps = 0
        self.complete = False

    def step(self, data: bytes) -> bytes:
        """Answer the server's message. Raises SaslError."""
        try:
            return self._step(data)
        except GssFailed as e:
            raise SaslError(str(e)) from e

    def _step(self, data: bytes) -> bytes:
        context = self._context
        if self.complete:
            if data:
                raise SaslError("the server continued after the end of GSSAPI")
            return b""
        if not context.complete:
            if self._steps == _STEPS_MAX:
                raise SaslError("the Kerberos exchange did not complete")
            self._steps += 1
            return context.step(data)
        offer = context.unwrap(data)
        if len(offer) != len(_OFFER) or not offer[0] & NO_LAYER:
            raise SaslError(
                "the server asks for a security layer of Kerberos, which pk does not "
                "support: use TLS"
            )
        answer = context.wrap(_OFFER + context.initiator.encode())
        self.complete = True
        return answer
