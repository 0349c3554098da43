"""Noise in the middle of each login, with TLS and without: it ends its own connection, and no
other."""

from __future__ import annotations

import contextlib
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import trio
from certificates import authority
from nodes import Caller, running_node, trio_test
from oauth_provider import AUDIENCE, ISSUER, Provider, running_provider

from pk.core.auth.oauthbearer import OAuthBearerClient
from pk.core.auth.scram import Mechanism, ScramClient
from pk.core.errors import ErrorCode
from pk.core.wire.header import frame_request
from pk.core.wire.messages.metadata import MetadataRequest
from pk.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest
from pk.net.client.admin import open_admin
from pk.net.node import Node

PREFIX: Final = "org.apache.kafka.common.security."
PLAIN_LOGIN: Final = (
    f'{PREFIX}plain.PlainLoginModule required username="a" password="p" user_a="p";'
)
PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
ROUNDS: Final = 6
KINDS: Final = 6


def noise(chance: Random, kind: int) -> bytes:
    """Noise in place of the next message: an invalid token, bytes that are no frame, a frame that
    ends early, one that claims two gigabytes, a wrong header, one of four bytes."""
    token = chance.randbytes(chance.randrange(60))
    good = frame_request(SaslAuthenticateRequest(auth_bytes=token), 2, 1, "noise")
    return (
        good,
        chance.randbytes(chance.randrange(4, 200)),
        good[: chance.randrange(1, len(good))],
        b"\x7f\xff\xff\xff" + token,
        good[:4] + chance.randbytes(len(good) - 4),
        b"\0\0\0\4" + token[:4].ljust(4, b"\0"),
    )[kind]


@asynccontextmanager
async def secured(folder: Path, provider: Provider) -> AsyncIterator[Node]:
    made = authority()
    made.write_trust(folder / "ca.pem")
    made.sign("CN=broker", "127.0.0.1").write(folder / "broker.pem")
    keys: dict[str, Any] = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in PROTOCOLS),
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "delegation.token.secret.key": "shared",
        "connection.failed.authentication.delay.ms": "1",
    }
    for protocol in PROTOCOLS:
        keys[f"listener.name.{protocol.lower()}.plain.sasl.jaas.config"] = PLAIN_LOGIN
    async with running_node(**keys) as node:
        yield node


@asynccontextmanager
async def caller_by(node: Node, protocol: str, folder: Path) -> AsyncIterator[Caller]:
    """A connection to the listener of a protocol, behind its TLS handshake."""
    (advertised,) = (one.advertised for one in node.listeners if one.name == protocol)
    stream: Any = await trio.open_tcp_stream(advertised.host, advertised.port)
    if protocol == "SASL_SSL":
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        stream = trio.SSLStream(stream, context, server_hostname=advertised.host)
    try:
        yield Caller(stream)
    finally:
        await trio.aclose_forcefully(stream)


async def until_the_end(caller: Caller) -> None:
    """Read until the broker closes the connection."""
    with contextlib.suppress(EOFError, trio.BrokenResourceError):
        while True:
            await caller.receive_frame()


async def step(caller: Caller, token: bytes, code: ErrorCode = ErrorCode.NONE) -> bytes:
    answer = await caller.call(SaslAuthenticateRequest(auth_bytes=token), 2)
    assert answer.error_code == code
    return bytes(answer.auth_bytes)


Begin = Callable[[Caller, Provider, tuple[str, bytes]], Any]
"""(caller, provider, a delegation token's id and HMAC) → the exchange before the noise."""


async def oauth_before_the_token(caller: Caller, provider: Provider, _: object) -> None:
    await caller.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)


async def oauth_refused(caller: Caller, provider: Provider, _: object) -> None:
    """The broker waits for the acknowledgement of its refusal."""
    await caller.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    refusal = await step(caller, OAuthBearerClient(provider.token(aud="other")).step(b""))
    assert b"invalid_token" in refusal


async def token_before_scram(caller: Caller, _: object, token: tuple[str, bytes]) -> None:
    await caller.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)


async def token_in_scram(caller: Caller, _: object, token: tuple[str, bytes]) -> None:
    """The broker has challenged a token that exists."""
    await caller.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    hmac = b64encode(token[1]).decode()
    client = ScramClient(Mechanism.SCRAM_SHA_256, token[0], hmac, "nonce", True)
    assert await step(caller, client.step(b""))


async def plain_before_the_password(caller: Caller, _: object, __: object) -> None:
    await caller.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "begin",
    [
        oauth_before_the_token,
        oauth_refused,
        token_before_scram,
        token_in_scram,
        plain_before_the_password,
    ],
)
def test_noise_ends_its_own_connection(tmp_path: Path, protocol: str, begin: Begin) -> None:
    chance = Random(f"{protocol}{begin.__name__}")
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "p"}

    @trio_test
    async def run() -> None:
        with running_provider("ES256") as provider:
            async with (
                secured(tmp_path, provider) as node,
                open_admin(node.address, {"security.protocol": "SASL_PLAINTEXT", **login}) as admin,
                caller_by(node, protocol, tmp_path) as other,
            ):
                made = await admin.create_token()
                token = (made.token_id, made.hmac)
                # Another login is in progress all the time, and finishes.
                shaken = await other.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
                assert shaken.error_code == 0
                for number in range(ROUNDS):
                    async with caller_by(node, protocol, tmp_path) as caller:
                        await begin(caller, provider, token)
                        with contextlib.suppress(trio.BrokenResourceError):
                            await caller.stream.send_all(noise(chance, number % KINDS))
                            if number % KINDS not in (0, 3):
                                # Noise that may be part of a frame ends when its sender
                                # disconnects.
                                continue
                        await until_the_end(caller)
                await step(other, OAuthBearerClient(provider.token()).step(b""))
                assert (await other.call(MetadataRequest(), 12)).brokers

    run()
