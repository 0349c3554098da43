"""One connection: answers are matched to their requests even if some are canceled, late, cut or
malformed."""

import errno
import os
import socket
import struct
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from net_client.support import Cut, scripted_broker, trio_test
from nodes import refusing

from pk.core.errors import KafkaError, ProtocolError
from pk.core.wire.codec import join
from pk.core.wire.header import frame_request, frame_response
from pk.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pk.core.wire.messages.metadata import MetadataRequest
from pk.net.client.cluster import open_cluster
from pk.net.client.config import AdminConfig, parse
from pk.net.client.connection import Connection, Pending, RequestTrace, connect
from pk.net.client.errors import Closed, ConnectFailed, Disconnected, RequestTimedOut
from pk.net.client.results import Node

CONFIG = parse(AdminConfig, {"request.timeout.ms": 10_000})


class NoNames(trio.abc.HostnameResolver):
    """Resolves no name and fails at once, regardless of the machine's resolver."""

    async def getaddrinfo(self, *_: object, **__: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, *_: object, **__: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


async def echo(request: Any, version: int) -> HeartbeatResponse:
    """Answers with the generation as error code, so that each answer is recognisable."""
    return HeartbeatResponse(error_code=request.generation_id)


async def beat(connection: Connection, number: int) -> int:
    return (await connection.request(HeartbeatRequest(generation_id=number))).error_code


@trio_test
async def test_pipelined_requests_get_their_own_answers() -> None:
    async with scripted_broker(echo) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, CONFIG, nursery)
        got: dict[int, int] = {}

        async def ask(number: int) -> None:
            got[number] = await beat(connection, number)

        async with trio.open_nursery() as asking:
            for number in range(100):
                asking.start_soon(ask, number)
        assert got == {number: number for number in range(100)}
        assert broker.connections == 1
        connection.close()


@trio_test
async def test_a_cancelled_request_leaves_the_others_alone() -> None:
    release = trio.Event()

    async def handler(request: Any, version: int) -> HeartbeatResponse:
        if request.generation_id == 1:
            await release.wait()
        return await echo(request, version)

    async with scripted_broker(handler) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, CONFIG, nursery)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as asking:
                asking.start_soon(beat, connection, 1)
                await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
        assert connection.in_flight == 1
        release.set()
        assert await beat(connection, 2) == 2
        assert connection.usable
        connection.close()


@trio_test
async def test_a_request_without_an_answer_ends_the_connection() -> None:
    async def silent(request: Any, version: int) -> None:
        await trio.sleep_forever()

    async with scripted_broker(silent) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, CONFIG, nursery)
        late = connection.submit(HeartbeatRequest(), 4, timeout_ms=50)
        behind = connection.submit(HeartbeatRequest(), 4)
        with pytest.raises(RequestTimedOut, match="did not answer Heartbeat within 50 ms"):
            await late.wait()
        with pytest.raises(RequestTimedOut):
            await behind.wait()
        assert not connection.usable
        with pytest.raises(RequestTimedOut):
            connection.submit(HeartbeatRequest(), 4)


@trio_test
async def test_an_idle_connection_closes() -> None:
    config = parse(AdminConfig, {"connections.max.idle.ms": 500})
    async with scripted_broker(echo) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, config, nursery)
        assert await beat(connection, 3) == 3
        await connection.closed.wait()
        assert not connection.usable


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"\x7f\xff\xff\xff" + bytes(8), ProtocolError),
        (b"\xff\xff\xff\xff" + bytes(8), ProtocolError),
        (b"\x00\x00\x00\x01" + bytes(8), ProtocolError),
        (b"\x00\x00\x00\x0c\x00\x00\x00\x63" + bytes(8), ProtocolError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError),
        (Cut(b"\x00\x00\x00\x40\x00\x00"), Disconnected),
        (None, Disconnected),
    ],
    ids=["huge", "negative", "tiny", "of-another", "http", "cut", "closed"],
)
@trio_test
async def test_what_is_no_answer_fails_everything_under_way(
    answer: bytes | None, error: type[Exception]
) -> None:
    async def handler(request: Any, version: int) -> bytes | None:
        return answer

    async with scripted_broker(handler) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, CONFIG, nursery)
        first = connection.submit(HeartbeatRequest(), 4)
        second = connection.submit(HeartbeatRequest(), 4)
        for pending in (first, second):
            with pytest.raises(error):
                await pending.wait()


@trio_test
async def test_an_answer_may_come_a_byte_at_a_time_and_be_larger_than_the_buffer() -> None:
    from pk.core.wire.header import frame_response
    from pk.core.wire.messages.metadata import MetadataResponse, MetadataResponseBroker

    big = [MetadataResponseBroker(node_id=n, host="x" * 30_000) for n in range(4)]
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]

    async with scripted_broker(echo) as versions, trio.open_nursery() as nursery:

        async def dribble() -> None:
            stream = await listeners[0].accept()
            for number in (1, 2, 3):
                size = int.from_bytes(await stream.receive_some(4), "big")
                await stream.receive_some(size)
                if number == 1:
                    answer: Any = versions._api_versions(4)
                    parts = frame_response(answer, 18, 4, number)
                else:
                    answer = MetadataResponse(brokers=[] if number == 2 else big)
                    parts = frame_response(answer, 3, 13, number)
                data = join(parts)
                step = 1 if len(data) < 1000 else 9973
                for start in range(0, len(data), step):
                    await stream.send_all(data[start : start + step])

        nursery.start_soon(dribble)
        connection = await connect(Node(1, "127.0.0.1", port), CONFIG, nursery)
        assert (await connection.request(MetadataRequest())).brokers == []
        assert (await connection.request(MetadataRequest())).brokers == big
        connection.close()


@trio_test
async def test_versions_fall_back_with_the_broker() -> None:
    old = {18: (0, 2), 12: (0, 1)}
    async with scripted_broker(echo, old) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, CONFIG, nursery)
        assert connection.version_of(12) == 1
        assert await beat(connection, 5) == 5
        assert broker.requests[-1][1] == 1
        with pytest.raises(KafkaError, match="serves Heartbeat in versions 0 to 1"):
            connection.version_of(12, low=3)
        with pytest.raises(KafkaError, match="does not serve Metadata"):
            connection.version_of(3)
        connection.close()


@trio_test
async def test_every_request_is_traced() -> None:
    traces: list[RequestTrace] = []
    async with scripted_broker(echo) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, CONFIG, nursery, on_request=traces.append)
        await beat(connection, 27)
        connection.close()
    assert [(t.api_name, t.error) for t in traces] == [
        ("ApiVersions", None),
        ("Heartbeat", "REBALANCE_IN_PROGRESS"),
    ]
    assert traces[1].bytes_in == 4 + 4 + 1 + 4 + 2 + 1
    assert traces[1].bytes_out > 20
    assert traces[1].node_id == 1


@trio_test
async def test_a_failed_connect_says_what_was_asked_and_what_happened() -> None:
    async with trio.open_nursery() as nursery:
        with (
            refusing() as port,
            pytest.raises(ConnectFailed, match=rf"127.0.0.1:{port}: connection refused"),
        ):
            await connect(Node(1, "127.0.0.1", port), CONFIG, nursery)
        trio.socket.set_custom_hostname_resolver(NoNames())
        with pytest.raises(ConnectFailed, match="does not resolve"):
            await connect(Node(1, "no-such-host.invalid", port), CONFIG, nursery)


@trio_test
async def test_a_peer_that_is_no_broker_is_named() -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some(1)
        await stream.send_all(b"220 mail.example.org ESMTP\r\n")

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, hang_up, listeners)
        with pytest.raises(ConnectFailed, match="does not answer as a Kafka broker"):
            await connect(Node(1, "127.0.0.1", port), CONFIG, nursery)
        nursery.cancel_scope.cancel()


@trio_test
async def test_what_the_block_raises_comes_out_ungrouped_and_nothing_stays_behind() -> None:
    async with scripted_broker(echo) as broker:
        connections: list[Connection] = []
        with pytest.raises(KeyError):
            async with open_cluster(broker.address, CONFIG) as cluster:
                connections.append(await cluster.any_connection())
                raise KeyError
        assert not connections[0].usable
        with trio.move_on_after(1) as scope:
            async with open_cluster(broker.address, CONFIG) as cluster:
                await cluster.any_connection()
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught


@trio_test
async def test_what_a_cancelled_block_asks_at_last_is_answered() -> None:
    async with scripted_broker(echo) as broker:
        answered: list[int] = []
        used: list[Connection] = []
        with trio.CancelScope() as scope:
            async with open_cluster(broker.address, CONFIG) as cluster:
                connection = await cluster.any_connection()
                used.append(connection)
                scope.cancel()
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.testing.wait_all_tasks_blocked()
                        answered.append(await beat(connection, 7))
        assert answered == [7]
        assert not used[0].usable


@trio_test
async def test_a_client_that_is_opened_where_all_is_cancelled_ends() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_cluster("127.0.0.1:1", CONFIG):
            await trio.sleep_forever()
    assert scope.cancelled_caught


@trio_test
async def test_the_client_waits_as_long_as_it_is_throttled() -> None:
    asked: list[float] = []

    async def throttled(request: Any, version: int) -> HeartbeatResponse:
        asked.append(trio.current_time())
        return HeartbeatResponse(throttle_time_ms=120 if request.generation_id == 1 else 0)

    async with scripted_broker(throttled) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, CONFIG, nursery)
        for number in (1, 2):
            await connection.request(HeartbeatRequest(generation_id=number))
        connection.close()
    # Measured at the broker: the client's time begins later, when it has the answer.
    assert asked[1] - asked[0] >= 0.119


class Narrow:
    """A socket that takes `room` bytes at once, and all bytes of a sender that waits."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.took: list[tuple[str, int]] = []
        self.data = bytearray()
        self.error: OSError | None = None

    def send_at_once(self, data: bytes) -> int:
        if self.error is not None:
            raise self.error
        if not self.room:
            raise BlockingIOError
        count = min(self.room, len(data))
        self.room -= count
        self.took.append(("at once", count))
        self.data += data[:count]
        return count

    async def send(self, data: bytes | memoryview) -> int:
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        self.took.append(("later", len(data)))
        self.data += data
        return len(data)

    async def recv_into(self, buffer: memoryview) -> int:
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    def close(self) -> None:
        pass


@trio_test
async def test_a_request_goes_out_at_once_and_the_rest_in_its_order() -> None:
    size = len(frame_request(HeartbeatRequest(generation_id=1), 4, 1, CONFIG.client_id))
    sock = Narrow(size + 10)
    node = Node(1, "127.0.0.1", 1)
    async with trio.open_nursery() as nursery:
        connection = Connection(sock, node, CONFIG, None, send_at_once=sock.send_at_once)
        await nursery.start(connection.run)
        numbers = range(1, 5)
        for number in numbers:
            connection.submit(HeartbeatRequest(generation_id=number), 4)
        assert sock.took == [("at once", size), ("at once", 10)]
        await trio.testing.wait_all_tasks_blocked()
        assert sock.took[2:] == [("later", size - 10), ("later", size), ("later", size)]
        sock.room = size
        last = connection.submit(HeartbeatRequest(generation_id=5), 4, answered=False)
        assert last.done and sock.took[5:] == [("at once", size)]
        assert bytes(sock.data) == b"".join(
            bytes(frame_request(HeartbeatRequest(generation_id=n), 4, n, CONFIG.client_id))
            for n in (*numbers, 5)
        )
        connection.close()


@trio_test
async def test_a_send_that_fails_ends_the_connection() -> None:
    for answered in (True, False):
        async with trio.open_nursery() as nursery:
            sock = Narrow(0)
            sock.error = BrokenPipeError(errno.EPIPE, "Broken pipe")
            node = Node(1, "127.0.0.1", 1)
            connection = Connection(sock, node, CONFIG, None, send_at_once=sock.send_at_once)
            await nursery.start(connection.run)
            pending = connection.submit(HeartbeatRequest(), 4, answered=answered)
            with pytest.raises(Disconnected, match="sending failed: Broken pipe"):
                await pending.wait()
            with pytest.raises(Disconnected, match="sending failed"):
                connection.submit(HeartbeatRequest(), 4)


@trio_test
async def test_nothing_comes_between_the_parts_of_a_request() -> None:
    size = len(frame_request(HeartbeatRequest(), 4, 1, CONFIG.client_id))
    for due in ("_reauthenticate_at", "_throttled_until"):
        sock = Narrow(10)
        async with trio.open_nursery() as nursery:
            node = Node(1, "127.0.0.1", 1)
            connection = Connection(sock, node, CONFIG, None, send_at_once=sock.send_at_once)
            await nursery.start(connection.run)
            connection.submit(HeartbeatRequest(), 4)
            now = trio.current_time()
            setattr(connection, due, now - 1 if due == "_reauthenticate_at" else now + 3600)
            connection.submit(HeartbeatRequest(), 4)
            await trio.testing.wait_all_tasks_blocked()
            assert sock.took == [("at once", 10), ("later", size - 10)]
            # The login came then, and failed: this peer does not say that it serves it.
            assert connection.usable is (due != "_reauthenticate_at")
            connection.close()


@trio_test
async def test_what_was_answered_before_the_peer_was_gone_counts() -> None:
    """A submit that meets a reset leaves what arrived before to the reader."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = await trio.open_tcp_stream(*listener.getsockname())
        peer, _ = listener.accept()
        lost: list[str] = []
        async with trio.open_nursery() as nursery:
            connection = Connection(
                stream.socket,
                Node(1, "127.0.0.1", 1),
                CONFIG,
                None,
                send_at_once=partial(os.write, stream.socket.fileno()),
            )
            connection.on_lost = lambda: lost.append("lost")
            await nursery.start(connection.run)
            first = connection.submit(HeartbeatRequest(), 4)
            await trio.testing.wait_all_tasks_blocked()
            peer.sendall(join(frame_response(HeartbeatResponse(), 12, 4, 1)))
            # An unread request and a linger time of 0 make the close a reset.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            second = connection.submit(HeartbeatRequest(), 4)
            assert (await first.wait()).error_code == 0
            with pytest.raises(Disconnected):
                await second.wait()
        assert lost == ["lost"]


@trio_test
async def test_who_does_not_wait_is_told_of_the_answer_or_the_end() -> None:
    release = trio.Event()

    async def handler(request: Any, version: int) -> HeartbeatResponse:
        if request.generation_id > 1:
            await release.wait()
        return await echo(request, version)

    async with scripted_broker(handler) as broker, trio.open_nursery() as nursery:
        connection = await connect(broker.node, CONFIG, nursery)
        told: list[Any] = []

        def tell(pending: Pending) -> None:
            told.append(pending.error or pending.response.error_code)

        first, second = (
            connection.submit(HeartbeatRequest(generation_id=number), 4) for number in (1, 2)
        )
        first.on_finish(tell)
        second.on_finish(tell)
        await first.wait()
        assert told == [1]
        first.on_finish(tell)
        assert told == [1, 1]  # at once: the answer is here
        connection.close()
        assert told[:2] == [1, 1] and isinstance(told[2], Closed) and len(told) == 3
        release.set()
