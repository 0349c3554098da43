"""A TLS connection sends an answer of many small slices in turns; other tasks run in between."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import trio
from certificates import authority
from nodes import trio_test

from pk.core.log.disk import RealDisk
from pk.core.log.file_slices import FileSlice
from pk.core.wire.types import Part
from pk.net.tls.transport import TlsTransport

SLICES = 3000


@trio_test
async def test_an_answer_of_many_small_slices_is_sent_in_turns(tmp_path: Path) -> None:
    """A fetch from more than a thousand partitions has such slices."""
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(authority().sign("CN=server").write(tmp_path / "server.pem"))
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE

    async def context() -> ssl.SSLContext:
        return served

    file = RealDisk().open(str(tmp_path / "log"))
    file.pwrite(bytes(range(256)) * 64, 0)
    parts: list[Part] = []
    wanted = bytearray()
    for i in range(SLICES):
        parts += [b"head", FileSlice(file, i, 10)]
        wanted += b"head" + file.pread(10, i)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        here, _ = listener.accept()
    transport = TlsTransport(here, context, trio.Lock())
    peer = trio.SSLStream(
        trio.SocketStream(trio.socket.from_stdlib_socket(there)), trusting, https_compatible=True
    )
    turns = 0

    async def run_beside() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.handshake)
            await peer.do_handshake()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_beside)
            await transport.send(parts)
            nursery.cancel_scope.cancel()
        received = bytearray()
        while len(received) < len(wanted):
            received += await peer.receive_some()
    assert received == wanted
    assert turns >= 2
    await transport.aclose()
    await peer.aclose()
