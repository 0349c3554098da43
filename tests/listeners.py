"""Servers other than a real broker: servers of other kinds, and a broker with the test's answers.
Each runs in a thread, for commands in this process."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import trio
from net_client.support import Handler, ScriptedBroker


class Greeting(threading.Thread):
    """Servers that are not brokers."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answer = answer
        self.kept: list[socket.socket] = []

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.kept.append(connection)
                with contextlib.suppress(OSError):
                    self.answer(connection)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.kept:
            connection.close()


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    server = Greeting(answer)
    server.start()
    try:
        yield server.port
    finally:
        server.close()


@contextlib.contextmanager
def scripted(handler: Callable[[ScriptedBroker], Handler]) -> Iterator[ScriptedBroker]:
    """A broker that answers as the test says, in a separate thread."""
    found: list[ScriptedBroker] = []
    ready = threading.Event()
    ending: list[Callable[[], None]] = []

    async def main() -> None:
        async def answer(request: Any, version: int) -> Any:
            return await handler(broker)(request, version)

        broker = ScriptedBroker(answer, None)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        broker.port = listeners[0].socket.getsockname()[1]
        found.append(broker)
        token = trio.lowlevel.current_trio_token()

        async def serve(stream: trio.SocketStream) -> None:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await broker.serve(stream)

        async with trio.open_nursery() as nursery:
            await nursery.start(partial(trio.serve_listeners, serve, listeners))
            ending.append(lambda: token.run_sync_soon(nursery.cancel_scope.cancel))
            ready.set()

    thread = threading.Thread(target=trio.run, args=(main,), daemon=True)
    thread.start()
    ready.wait()
    yield found[0]
    ending[0]()
    thread.join()
