"""Handshakes of many peers at once."""

import socket
import ssl
from itertools import pairwise
from pathlib import Path

import trio
from certificates import authority
from nodes import trio_test

from pk.net.tls.sockets import TlsSocket

PEERS = 20


class Peer:
    """A client that has said hello."""

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(ssl.MemoryBIO(), self._out)
        self._socket, self.server = socket.socketpair()
        self._socket.setblocking(False)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._socket.sendall(self._out.read())

    def is_answered(self) -> bool:
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def close(self) -> None:
        self._socket.close()


@trio_test
async def test_of_many_handshakes_one_computes_at_a_time(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority().sign("CN=server").write(tmp_path / "server.pem"))
    peers = [Peer() for _ in range(PEERS)]
    sockets = [TlsSocket(peer.server, context, None) for peer in peers]
    turn, seen = trio.Lock(), [0]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for one in sockets:
                nursery.start_soon(one.handshake, turn)
            while seen[-1] < PEERS:
                await trio.lowlevel.checkpoint()
                seen.append(sum(peer.is_answered() for peer in peers))
            nursery.cancel_scope.cancel()
    # One a turn of the loop: between two looks there may be two, at the end of one turn and at the
    # beginning of the next.
    assert max(after - before for before, after in pairwise(seen)) <= 2
    for peer, one in zip(peers, sockets, strict=True):
        peer.close()
        one.close()
