"""The way from a new connection to a principal, frame by frame."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pk.core.auth.plain import PlainClient, PlainServer
from pk.core.auth.principal import KafkaPrincipal
from pk.core.auth.sasl import ServerExchange
from pk.core.auth.sasl_server import Refused, SaslServer, Session
from pk.core.errors import ErrorCode, ProtocolError
from pk.core.wire.codec import decode_whole, join
from pk.core.wire.header import RequestHead, frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.metadata import MetadataRequest
from pk.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest
from pk.core.wire.types import Part

ALICE = KafkaPrincipal("User", "alice")
GOOD = PlainClient("alice", "wonder").step(b"")
BAD = PlainClient("alice", "hush").step(b"")


class Mechanisms:
    names: Sequence[str] = ("PLAIN", "OTHER")

    def begin(self, name: str) -> ServerExchange:
        return PlainServer({"alice": "wonder", "bob": "builder"})

    def now_ms(self) -> int:
        return 0

    def session_ms_max(self, name: str) -> int:
        return 7000


def versions(head: RequestHead, frame: memoryview) -> tuple[list[Part], bool]:
    return [b"versions"], head.api_version < 99


def frame_of(request: Any, version: int) -> memoryview:
    return memoryview(frame_request(request, version, 7, "c")[4:])


def server(before: Session | None = None) -> SaslServer:
    return SaslServer(Mechanisms(), versions, before)


def ask(sasl: SaslServer, request: Any, version: int) -> Any:
    return answer(sasl.take(frame_of(request, version)), request.API_KEY, version)


def answer(parts: Sequence[Part], api_key: int, version: int) -> Any:
    frame = join(list(parts))[4:]
    correlation_id, position = parse_response_header(frame, api_key, version)
    assert correlation_id == 7
    return decode_whole(MESSAGES[api_key].response, frame, version, position)


PLAIN = SaslHandshakeRequest(mechanism="PLAIN")


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("asks_versions", [False, True])
def test_handshake_and_authenticate(version: int, asks_versions: bool) -> None:
    sasl = server()
    if asks_versions:
        assert sasl.take(frame_of(ApiVersionsRequest(), 3)) == [b"versions"]
    shaken = ask(sasl, PLAIN, 1)
    assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN", "OTHER"])
    done = ask(sasl, SaslAuthenticateRequest(auth_bytes=GOOD), version)
    assert (done.error_code, done.error_message) == (0, None)
    assert done.session_lifetime_ms == (7000 if version else 0)
    assert sasl.session == Session(ALICE, "PLAIN", 7000)


def test_bare_messages_follow_an_old_handshake() -> None:
    sasl = server()
    assert ask(sasl, PLAIN, 0).error_code == 0
    assert sasl.take(memoryview(GOOD)) == [b"\0\0\0\0"]
    assert sasl.session is not None and sasl.session.principal == ALICE
    refused = server()
    ask(refused, PLAIN, 0)
    with pytest.raises(Refused) as failed:
        refused.take(memoryview(BAD))
    assert (failed.value.parts, failed.value.credentials_failed) == ([], True)


def test_an_unknown_version_of_api_versions_may_be_asked_again() -> None:
    sasl = server()
    odd = memoryview(b"\0\x12\0\x63" + bytes(8))
    assert sasl.take(odd) == sasl.take(odd) == [b"versions"]
    sasl.take(frame_of(ApiVersionsRequest(), 3))
    with pytest.raises(Refused, match="Unexpected Kafka request of type ApiVersions"):
        sasl.take(frame_of(ApiVersionsRequest(), 3))


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_every_other_request_ends_the_connection(steps: int) -> None:
    sasl = server()
    before: list[Callable[[], object]] = [
        lambda: sasl.take(frame_of(ApiVersionsRequest(), 3)),
        lambda: sasl.take(frame_of(PLAIN, 1)),
    ]
    for step in before[:steps]:
        step()
    with pytest.raises(Refused, match="Unexpected Kafka request of type Metadata") as failed:
        sasl.take(frame_of(MetadataRequest(), 12))
    assert (failed.value.parts, failed.value.credentials_failed) == ([], False)


def test_tokens_before_a_handshake_are_refused() -> None:
    with pytest.raises(Refused, match="SaslAuthenticate during SASL handshake"):
        server().take(frame_of(SaslAuthenticateRequest(auth_bytes=GOOD), 2))


@pytest.mark.parametrize("frame", [b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", bytes(100)])
def test_what_is_no_request_ends_the_connection(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        server().take(memoryview(frame))


def test_a_mechanism_that_is_not_enabled_is_named() -> None:
    with pytest.raises(Refused) as failed:
        server().take(frame_of(SaslHandshakeRequest(mechanism="GSSAPI"), 1))
    said = answer(failed.value.parts, 17, 1)
    assert (said.error_code, said.mechanisms) == (
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ["PLAIN", "OTHER"],
    )
    assert failed.value.credentials_failed


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (BAD, "Authentication failed: Invalid username or password"),
        (b"\0nobody\0x", "Authentication failed: Invalid username or password"),
        (b"bob\0alice\0wonder", "Authentication failed: Client requested an authorization id"),
        (b"\0alice", "due to invalid credentials with SASL mechanism PLAIN"),
        (b"\0\0wonder", "due to invalid credentials with SASL mechanism PLAIN"),
        (b"\0alice\0", "due to invalid credentials with SASL mechanism PLAIN"),
        (b"\xff\0\0", "due to invalid credentials with SASL mechanism PLAIN"),
    ],
)
def test_a_refusal_says_no_more_than_it_must(token: bytes, message: str) -> None:
    sasl = server()
    ask(sasl, PLAIN, 1)
    with pytest.raises(Refused) as failed:
        sasl.take(frame_of(SaslAuthenticateRequest(auth_bytes=token), 2))
    said = answer(failed.value.parts, 36, 2)
    assert said.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert message in said.error_message
    assert failed.value.credentials_failed and sasl.session is None
    assert "hush" not in str(failed.value) + said.error_message


def test_who_authenticates_again_stays_who_it_is() -> None:
    before = Session(ALICE, "PLAIN", 7000)
    sasl = server(before)
    ask(sasl, PLAIN, 1)
    assert ask(sasl, SaslAuthenticateRequest(auth_bytes=GOOD), 2).error_code == 0
    assert sasl.session == before

    other = server(before)
    ask(other, PLAIN, 1)
    with pytest.raises(Refused, match="Cannot change principals during re-authentication"):
        other.take(frame_of(SaslAuthenticateRequest(auth_bytes=b"\0bob\0builder"), 2))
    assert other.session is None

    mechanism = server(before)
    ask(mechanism, SaslHandshakeRequest(mechanism="OTHER"), 1)
    with pytest.raises(Refused, match="not supported for re-authentication of mechanism 'PLAIN'"):
        mechanism.take(frame_of(SaslAuthenticateRequest(auth_bytes=GOOD), 2))
