"""Three thousand hostile connections to one address on loopback, from a process of its own.

    python -m hostile.attack HOST PORT [tls | handshake | sasl | sasl-tls | oauth | token]

With `tls` all of this goes through TLS, with `handshake` in place of a TLS handshake that has
begun, with `sasl` half-way through a login by PLAIN, with `sasl-tls` the same behind TLS, with
`oauth` where a client of OAUTHBEARER acknowledges that its token is refused, with `token` half-way
through SCRAM with a delegation token.

Half of them stay open and silent, fifty stop inside a frame of which they claimed a hundred
megabytes, the rest send what a broker must not choke on and go. When all have had their turn it
prints one JSON line of what became of them, and holds the open ones until its standard input ends.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import resource
import ssl
import struct
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache

import trio

SILENT, STALLED, BAD = 1_500, 50, 1_450
CLAIMED_BYTES = 100_000_000  # below Kafka's own limit for a frame, 104,857,600
STALLED_BYTES = 1_000_000
AT_ONCE = 50
PATIENCE_S = 2.0

RandomSource = random.Random


def _header(chance: RandomSource, key: int, version: int) -> bytes:
    client = b"hostile"
    return struct.pack(">hhih", key, version, chance.randrange(1 << 31), len(client)) + client


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def random_bytes(chance: RandomSource) -> bytes:
    """Noise; its first four bytes are a size like any other."""
    return chance.randbytes(chance.randrange(1, 5_000))


def truncated_frame(chance: RandomSource) -> bytes:
    """A frame that ends before the end it announced."""
    body = _header(chance, 3, 1) + bytes(200)
    return _frame(body)[: chance.randrange(1, len(body))]


def oversized_frame(chance: RandomSource) -> bytes:
    """A size above every limit, or below zero."""
    size = chance.choice((0x7FFFFFFF, 104_857_601, -1, -(1 << 31), 0x47455420))  # the last is GET
    return struct.pack(">i", size) + bytes(100)


def unknown_api(chance: RandomSource) -> bytes:
    """A key that is no API, or a version that never was."""
    key, version = chance.choice(((999, 0), (-1, 0), (3, 999), (0, -5), (18, 77)))
    return _frame(_header(chance, key, version) + bytes(20))


def garbage_body(chance: RandomSource) -> bytes:
    """A good header of a real API before noise."""
    key, version = chance.choice(((0, 9), (1, 12), (2, 6), (3, 12), (8, 8), (11, 9), (19, 7)))
    return _frame(_header(chance, key, version) + chance.randbytes(chance.randrange(300)))


def huge_counts(chance: RandomSource) -> bytes:
    """An array that claims two billion entries in a frame of a few bytes."""
    return _frame(_header(chance, 3, 1) + struct.pack(">i", 0x7FFFFFF0))


BAD_KINDS: tuple[Callable[[RandomSource], bytes], ...] = (
    random_bytes,
    truncated_frame,
    oversized_frame,
    unknown_api,
    garbage_body,
    huge_counts,
)


PLAIN, TLS, SASL, HANDSHAKE = "plain", "tls", "sasl", "handshake"
SASL_TLS, OAUTH, TOKEN = "sasl-tls", "oauth", "token"
CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303")
"""The beginning of a handshake that promises 200 bytes."""


def _handshake(mechanism: bytes) -> bytes:
    """SaslHandshake v1."""
    header = struct.pack(">hhih", 17, 1, 1, -1)
    return _frame(header + struct.pack(">h", len(mechanism)) + mechanism)


def _first(message: bytes) -> bytes:
    """SaslAuthenticate v0."""
    return _frame(struct.pack(">hhihi", 36, 0, 1, -1, len(message)) + message)


BEGUN: dict[str, tuple[bytes, ...]] = {
    SASL: (_handshake(b"PLAIN"),),
    SASL_TLS: (_handshake(b"PLAIN"),),
    OAUTH: (_handshake(b"OAUTHBEARER"), _first(b"n,,\x01auth=Bearer a.b.c\x01\x01")),
    TOKEN: (_handshake(b"SCRAM-SHA-256"), _first(b"n,,n=id,r=nonce,tokenauth=true")),
}
"""The requests that a client has had answered before it turns hostile."""

Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


@cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _connect(address: tuple[str, int], mode: str) -> Stream:
    stream: Stream = await trio.open_tcp_stream(*address)
    if mode in (TLS, SASL_TLS):
        stream = trio.SSLStream(stream, _context())
        await stream.do_handshake()
    if mode == HANDSHAKE:
        await stream.send_all(CLIENT_HELLO)
    for message in BEGUN.get(mode, ()):
        await stream.send_all(message)
        await stream.receive_some(4096)
    return stream


async def _bad(
    address: tuple[str, int], chance: RandomSource, number: int, seen: Counter[str], mode: str
) -> None:
    kind = BAD_KINDS[number % len(BAD_KINDS)]
    try:
        stream = await _connect(address, mode)
        async with stream:
            await stream.send_all(kind(chance))
            if kind is truncated_frame:
                return  # goes without a word
            with trio.move_on_after(PATIENCE_S) as scope:
                while await stream.receive_some(4096):
                    pass
            seen["left waiting" if scope.cancelled_caught else "closed by the broker"] += 1
    except (trio.BrokenResourceError, OSError):
        seen["closed by the broker"] += 1


async def _attack(host: str, port: int, mode: str) -> None:
    chance = random.Random(1)
    address = (host, port)
    seen: Counter[str] = Counter()
    held: list[Stream] = []
    for _ in range(STALLED):
        stream = await _connect(address, mode)
        held.append(stream)
        start = struct.pack(">i", CLAIMED_BYTES) + _header(chance, 0, 9)
        with contextlib.suppress(trio.BrokenResourceError):  # before a login no frame is as large
            await stream.send_all(start + bytes(STALLED_BYTES - len(start)))
        seen["stalled"] += 1
    for _ in range(SILENT):
        held.append(await _connect(address, mode))
        seen["silent"] += 1
    numbers = itertools.count()
    async with trio.open_nursery() as nursery:

        async def worker() -> None:
            while (number := next(numbers)) < BAD:
                await _bad(address, chance, number, seen, mode)

        for _ in range(AT_ONCE):
            nursery.start_soon(worker)
    print(json.dumps(seen), flush=True)
    await trio.to_thread.run_sync(sys.stdin.read)
    for stream in held:
        await trio.aclose_forcefully(stream)


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    trio.run(_attack, sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else PLAIN)


if __name__ == "__main__":
    main()
