"""Runs many clients in one process. Each connects, sends ApiVersions, and then keeps its connection
open.

    python -m benchmark.idle_connections HOST PORT COUNT

Prints `ready` when all requests are answered, and ends at the end of its input.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import sys

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
SPARE_FILES = 100


def connect(host: str, port: int) -> socket.socket:
    """Open a connection, and wait until its first request is answered. Raises OSError, EOFError."""
    client = socket.create_connection((host, port), 60)
    client.sendall(API_VERSIONS)
    size = int.from_bytes(_exactly(client, 4), "big")
    _exactly(client, size)
    return client


def _exactly(client: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = client.recv(count - len(found))
        if not piece:
            raise EOFError("the broker closed a connection")
        found += piece
    return found


def main() -> None:
    host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, count + SPARE_FILES), most))
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(connect(host, port))
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
