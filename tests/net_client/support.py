"""Shared parts of the client's tests: a broker that follows a script, and a way to cut a real
broker's connections."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

import pytest
import trio

from pk.core.wire.codec import decode_whole, join
from pk.core.wire.header import frame_response, parse_request_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from pk.net.client import cluster as cluster_module
from pk.net.client.admin import Admin
from pk.net.client.config import ClientConfig
from pk.net.client.connection import Connection
from pk.net.client.results import Node

P = ParamSpec("P")
Handler = Callable[[Any, int], Awaitable[Any]]
"""(request, version) → response; bytes are sent as they are, None closes the connection."""


def trio_test(function: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test in trio; it has three minutes."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            with trio.fail_after(180):
                await function(*args, **kwargs)

        trio.run(main)

    return run


async def eventually(ask: Callable[[], Awaitable[Any]], expected: Any) -> None:
    """Ask until the answer is as expected: brokers apply a change shortly after they have taken
    it."""
    answer = await ask()
    with trio.move_on_after(60):
        while answer != expected:
            await trio.sleep(0.01)
            answer = await ask()
    assert answer == expected


async def known(admin: Admin, topic: str, partitions: int) -> None:
    """Wait until the broker reports this many partitions: the controller answers earlier."""

    async def reported() -> int | None:
        found = (await admin.describe_topics([topic])).ok.get(topic)
        return None if found is None else len(found.partitions)

    await eventually(reported, partitions)


class Cut(bytes):
    """Bytes after which the connection is closed."""


class ScriptedBroker:
    """Speaks the protocol on its own port; the test supplies the answers, except ApiVersions."""

    def __init__(self, handler: Handler, versions: dict[int, tuple[int, int]] | None) -> None:
        self.handler = handler
        self.versions = versions or {k: m.versions for k, m in MESSAGES.items()}
        self.requests: list[tuple[Any, int]] = []
        self.connections = 0
        self.port = 0
        self._open = 0
        self._closed = trio.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def node(self) -> Node:
        return Node(1, "127.0.0.1", self.port)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection's requests, in order."""
        self.connections += 1
        self._open += 1
        try:
            await self._serve(stream)
        finally:
            self._open -= 1
            self._closed.set()
            self._closed = trio.Event()

    async def wait_closed(self) -> None:
        """Wait until every connection is closed: then all that was ever sent is in `requests`."""
        while self._open:
            await self._closed.wait()

    async def _serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            while (size := await _exactly(stream, 4)) is not None:
                frame = await _exactly(stream, int.from_bytes(size, "big"))
                if frame is None:
                    return
                head = parse_request_header(frame)
                key, version = head.api_key, head.api_version
                if key == 18:
                    answer: Any = self._api_versions(version)
                    version = min(version, self.versions[18][1])
                else:
                    body = frame[head.body_position :]
                    request = decode_whole(MESSAGES[key].request, body, version)
                    self.requests.append((request, version))
                    answer = await self.handler(request, version)
                if answer is None:
                    return
                if not isinstance(answer, bytes):
                    parts = frame_response(answer, key, version, head.correlation_id)
                    answer = join(parts)
                await stream.send_all(answer)
                if isinstance(answer, Cut):
                    return

    def _api_versions(self, version: int) -> ApiVersionsResponse:
        response = ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ]
        )
        if version > self.versions[18][1]:
            response.error_code = 35
        return response


async def _exactly(stream: trio.SocketStream, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        more = await stream.receive_some(count - len(data))
        if not more:
            return None
        data += more
    return bytes(data)


@asynccontextmanager
async def scripted_broker(
    handler: Handler, versions: dict[int, tuple[int, int]] | None = None
) -> AsyncIterator[ScriptedBroker]:
    """A `ScriptedBroker` that listens until the block ends."""
    broker = ScriptedBroker(handler, versions)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    broker.port = listeners[0].socket.getsockname()[1]

    async def serve(stream: trio.SocketStream) -> None:
        try:
            await broker.serve(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async with trio.open_nursery() as nursery:
        await nursery.start(functools.partial(trio.serve_listeners, serve, listeners))
        yield broker
        nursery.cancel_scope.cancel()


class Cutter:
    """Cuts connections to a real broker in the worst moment: the request has been sent, its answer
    will not be read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, api_key: int, cut: set[int]) -> None:
        self.api_key = api_key
        self.cut = cut
        """The requests of that api, counted from 1, after which to cut."""

        self.seen = 0
        self.cuts = 0
        connect = cluster_module.connect

        async def connect_and_watch(
            node: Node, config: ClientConfig, nursery: trio.Nursery, **more: Any
        ) -> Connection:
            connection = await connect(node, config, nursery, **more)
            self._watch(connection, nursery)
            return connection

        monkeypatch.setattr(cluster_module, "connect", connect_and_watch)

    def _watch(self, connection: Connection, nursery: trio.Nursery) -> None:
        submit = connection.submit

        def counted(request: Any, version: int, **more: Any) -> Any:
            pending = submit(request, version, **more)
            if self.api_key == request.API_KEY:
                self.seen += 1
                if self.seen in self.cut:
                    nursery.start_soon(self._cut, connection, len(connection._unanswered))
            return pending

        connection.submit = counted  # type: ignore[method-assign]

    async def _cut(self, connection: Connection, in_flight: int) -> None:
        """Let the broker have the request, and lose its answer."""
        connection._answer = lambda frame: None  # type: ignore[method-assign]
        await trio.sleep(0.05)
        self.cuts += 1
        connection.close(cluster_module.Disconnected("cut by the test"))
