"""OAUTHBEARER's messages: what RFC 7628 says, in the form that Kafka's clients send."""

import pytest
from each import for_each

from pk.core.auth.oauthbearer import (
    KeysNeeded,
    OAuthBearerClient,
    OAuthBearerServer,
    TokenRefused,
    ValidToken,
)
from pk.core.auth.sasl import AuthenticationFailed, SaslError


def of_alice(token: str) -> ValidToken:
    if token != "a.good-1.one_":
        raise TokenRefused("it is not hers")
    return ValidToken("alice", 5000)


def test_client_and_server_agree() -> None:
    client, server = OAuthBearerClient("a.good-1.one_"), OAuthBearerServer(of_alice)
    first = client.step(b"")
    assert first == b"n,,\x01auth=Bearer a.good-1.one_\x01\x01"
    answer = server.step(first)
    assert (answer, server.user, server.expires_ms) == (b"", "alice", 5000)
    assert client.step(answer) == b"" and client.complete


def test_a_refusal_is_acknowledged_before_the_login_fails() -> None:
    client, server = OAuthBearerClient("bad"), OAuthBearerServer(of_alice)
    answer = server.step(client.step(b""))
    assert answer == b'{"status":"invalid_token"}'
    acknowledged = client.step(answer)
    assert acknowledged == b"\x01" and not client.complete
    with pytest.raises(AuthenticationFailed) as failed:
        server.step(acknowledged)
    assert str(failed.value) == '{"status":"invalid_token"}'
    assert failed.value.reason == "the token is refused: it is not hers"
    assert server.user is None


def test_a_refused_client_cannot_try_another_token() -> None:
    server = OAuthBearerServer(of_alice)
    server.step(OAuthBearerClient("bad").step(b""))
    with pytest.raises(SaslError, match="did not acknowledge"):
        server.step(OAuthBearerClient("a.good-1.one_").step(b""))
    assert server.user is None


def test_a_step_that_needs_keys_can_be_repeated() -> None:
    needed = [True]

    def validate(token: str) -> ValidToken:
        if needed.pop() if needed else False:
            raise KeysNeeded
        return of_alice(token)

    server, first = OAuthBearerServer(validate), OAuthBearerClient("a.good-1.one_").step(b"")
    with pytest.raises(KeysNeeded):
        server.step(first)
    assert server.step(first) == b"" and server.user == "alice"


def test_an_authorization_id_must_be_the_tokens() -> None:
    for name, good in (("alice", True), ("bob", False), ("al=2Cice", False)):
        server = OAuthBearerServer(of_alice)
        message = f"n,a={name},\x01auth=Bearer a.good-1.one_\x01\x01".encode()
        if good:
            assert server.step(message) == b"" and server.user == "alice"
        else:
            with pytest.raises(AuthenticationFailed, match="authorization id"):
                server.step(message)
            assert server.user is None


def test_extensions_are_sent_and_taken() -> None:
    first = OAuthBearerClient("a.good-1.one_", {"tenant": "blue", "x": "1 2"}).step(b"")
    assert first == b"n,,\x01auth=Bearer a.good-1.one_\x01tenant=blue\x01x=1 2\x01\x01"
    server = OAuthBearerServer(of_alice)
    assert server.step(first) == b"" and server.user == "alice"


@pytest.mark.parametrize(
    "extensions", [{"auth": "Bearer x"}, {"a": "b\x01auth=Bearer x"}, {"a1": "b"}, {"a": ""}]
)
def test_extensions_cannot_say_something_else(extensions: dict[str, str]) -> None:
    with pytest.raises(SaslError, match="cannot be sent"):
        OAuthBearerClient("t", extensions)


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=Bearer x", "é"])
def test_what_is_no_token_is_not_sent(token: str) -> None:
    with pytest.raises(SaslError, match="not a token"):
        OAuthBearerClient(token)


@for_each(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01host=h\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"\0alice\0wonder",
    ],
)
def test_other_messages_fail_at_once(message: bytes) -> None:
    server = OAuthBearerServer(of_alice)
    with pytest.raises(SaslError, match="Invalid OAUTHBEARER client first message"):
        server.step(message)
    assert server.user is None


def test_a_long_message_takes_no_long_time() -> None:
    server = OAuthBearerServer(of_alice)
    for message in (
        b"n,,\x01" + b"a=b\x01" * 100_000,
        b"n,a=" + b"=2C" * 170_000,
        b"n,,\x01auth=Bearer " + b"a" * 500_000 + b"\x02",
    ):
        with pytest.raises(SaslError):
            server.step(message)
