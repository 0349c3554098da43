"""The connections between nodes, controlled by the test: TCP forwarders that can cut a node off
without closing a connection.

A connection between two nodes goes through the forwarder of the one that is connected to; who
connects says so itself, by the client id of its first request (`pk-node-2`). A service that speaks
another language has a forwarder for each node. While two nodes are cut off from each other what
they send is held back, as a network that drops packets would (TCP sends them again once it is
whole); connections that are made meanwhile hang.

The forwarders are a process of their own: a test's threads stand still while a call of one of them
keeps the interpreter's lock, and the nodes must reach each other all the same.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import subprocess
import sys
import threading
from typing import Any

PIECE = 1 << 16


class Wires:
    """The forwarders of one cluster; `close` ends them all."""

    def __init__(self) -> None:
        # Isolated: what the nodes' environment has imported at the start is for them.
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._asking = threading.Lock()

    def wire(self, node_id: int, port: int) -> int:
        """A port by which the others reach what this node serves on `port`."""
        return self._ask("wire", node_id, port)

    def wire_from(self, node_id: int, service: int, port: int) -> int:
        """A port by which one node reaches a service on `port` that is no node; `service` is its
        name for `cut_off`."""
        return self._ask("wire_from", node_id, service, port)

    def cut_off(self, node_id: int, others: list[int]) -> None:
        """Cut a node off from each of the others."""
        self._ask("cut_off", node_id, others)

    def heal(self) -> None:
        """Reconnect all nodes, and deliver the data that was held back."""
        self._ask("heal")

    def close(self) -> None:
        """End every connection."""
        with self._asking:
            self._process.communicate()

    def _ask(self, name: str, *args: object) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with self._asking:
            process.stdin.write(json.dumps([name, args]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        assert answer, "the forwarders have ended"
        return json.loads(answer)


class _Forwarders:
    """They themselves."""

    def __init__(self) -> None:
        self._apart: set[frozenset[int]] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._sockets: list[socket.socket] = []

    def wire(self, node_id: int, port: int) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        self._sockets.append(listener)
        self._spawn(self._accept, listener, node_id, port)
        return listener.getsockname()[1]

    def wire_from(self, node_id: int, service: int, port: int) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        self._sockets.append(listener)
        self._spawn(self._accept, listener, service, port, node_id)
        return listener.getsockname()[1]

    def cut_off(self, node_id: int, others: list[int]) -> None:
        with self._changed:
            self._apart |= {frozenset((node_id, other)) for other in others}

    def heal(self) -> None:
        with self._changed:
            self._apart.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """End every connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(
        self, listener: socket.socket, node_id: int, port: int, source: int | None = None
    ) -> None:
        while not self._closed:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self._spawn(self._connect, connection, node_id, port, source)

    def _connect(
        self, connection: socket.socket, node_id: int, port: int, source: int | None
    ) -> None:
        with contextlib.suppress(OSError), connection:
            first = connection.recv(PIECE)
            while source is None:
                if len(first) >= 14 and len(first) >= 14 + _client_id_bytes(first):
                    source = _node_of(first)
                elif piece := connection.recv(PIECE):
                    first += piece
                else:
                    return
            pair = frozenset((node_id, source))
            if not self._wait_whole(pair):
                return
            with socket.create_connection(("127.0.0.1", port), 10) as target:
                target.settimeout(None)
                self._sockets.append(target)
                back = self._spawn(self._pump, target, connection, pair)
                target.sendall(first)
                self._pump(connection, target, pair)
                back.join()

    def _pump(self, source: socket.socket, target: socket.socket, pair: frozenset[int]) -> None:
        """Forward until either side ends; then end both."""
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE):
                if not self._wait_whole(pair):
                    break
                target.sendall(piece)
        self._wait_whole(pair)  # nor does the end of a connection come through
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _wait_whole(self, pair: frozenset[int]) -> bool:
        """Wait until the two are not cut off from each other; False if the wires are closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or pair not in self._apart)
        return not self._closed

    def _spawn(self, function, *args) -> threading.Thread:
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        return thread


def _client_id_bytes(frame: bytes) -> int:
    return max(0, struct.unpack_from(">h", frame, 12)[0])


def _node_of(frame: bytes) -> int:
    """The node that sent a connection's first request: the number at the end of its client id."""
    client_id = frame[14 : 14 + _client_id_bytes(frame)].decode()
    found = re.fullmatch(r"pk-node-(\d+)", client_id)
    assert found, f"{client_id!r} is no node"
    return int(found[1])


def _serve() -> None:
    """Do what each line of standard input says, until it ends."""
    forwarders = _Forwarders()
    for line in sys.stdin:
        name, args = json.loads(line)
        print(json.dumps(getattr(forwarders, name)(*args)), flush=True)
    forwarders.close()


if __name__ == "__main__":
    _serve()
