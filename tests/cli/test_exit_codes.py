"""Every exit code in the situation that `pk help exit-codes` documents for it, and the message
there."""

import contextlib
import http.server
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from clients.fixtures import Kafka
from clients.pk_broker import running
from listeners import listening, scripted
from net_client.support import Handler, ScriptedBroker

from pk.cli.exits import Exit
from pk.core.errors import ErrorCode
from pk.core.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from pk.core.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from pk.net.client import probe

Run = Callable[..., Any]
Fresh = Callable[[str], str]


def test_0_all_was_done(at: Run) -> None:
    ran = at("topics", "list")
    assert ran.code == Exit.OK
    assert not ran.err


def test_1_one_item_failed_and_the_others_were_done(at: Run, fresh: Fresh) -> None:
    topic, other = fresh("exit"), fresh("exit")
    assert at("topics", "create", topic).code == Exit.OK
    ran = at("topics", "create", topic, other)
    assert ran.code == Exit.FAILED
    assert "TOPIC_ALREADY_EXISTS" in ran.text and "created" in ran.text
    assert at("topics", "describe", other).code == Exit.OK


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topcis", "list"), "did you mean topics"),
        (("topics", "list", "--colums", "topic"), "did you mean --columns"),
        (("topics", "list", "--columns", "topc"), "did you mean topic"),
        (("topics", "list", "--where", "topik = 1"), "did you mean topic or topic_id?"),
        (("topics", "list", "-f", "jsn"), "did you mean json"),
        (("topics", "list", "-X", "retry.backof.ms=1"), "did you mean retry.backoff.ms"),
        (("topics", "list", "--profile", "nope"), "Profile 'nope' does not exist"),
        (("topics", "list", "-b", "localhost"), "did you mean localhost:9092?"),
        (("configs", "alter", "topic", "t"), "nothing to change"),
    ],
)
def test_2_the_command_line_is_wrong(at: Run, words: tuple[str, ...], said: str) -> None:
    ran = at(*words)
    assert ran.code == Exit.USAGE, ran.err
    assert said in ran.err
    assert not ran.out


def greets(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


def closes(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.close()


@contextlib.contextmanager
def deaf() -> Iterator[int]:
    """A port without a listener. No other program can bind it while the context is open."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_3_where_no_broker_listens(pk: Run) -> None:
    with deaf() as port:
        ran = pk("topics", "list", "-b", f"127.0.0.1:{port}")
    assert ran.code == Exit.NO_CONNECTION
    assert f"127.0.0.1:{port}: connection refused, nothing listens there" in ran.err
    assert "`pk up`" in ran.err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (greets, "says 'SSH-2.0-OpenSSH_9.2', so it is not a Kafka broker"),
        (closes, "not a Kafka broker"),
    ],
)
def test_3_somebody_else_listens(
    pk: Run,
    answer: Callable[[socket.socket], None],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if answer is greets:
        monkeypatch.setattr(probe, "_BANNER_S", 60)
    with listening(answer) as port:
        ran = pk("topics", "list", "-b", f"127.0.0.1:{port}", "-X", "request.timeout.ms=30000")
    assert ran.code == Exit.NO_CONNECTION
    assert said in ran.err and f"127.0.0.1:{port}" in ran.err


@pytest.mark.parametrize("patience", ["request.timeout.ms=3000", "default.api.timeout.ms=3000"])
def test_3_an_http_server_listens(pk: Run, patience: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the end of a line, which no Kafka request has: no answer comes until the time is
    up."""
    monkeypatch.setattr(probe, "_ANSWER_S", 3)

    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = str(server.server_port)
        ran = pk("topics", "list", "-b", f"127.0.0.1:{port}", "-X", patience)
        server.shutdown()
    assert ran.code == Exit.NO_CONNECTION
    assert "an HTTP server answers there" in ran.err


def test_3_a_tls_listener_listens(pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_ANSWER_S", 60)
    context = ssl.SSLContext(
        ssl.PROTOCOL_TLS_SERVER
    )  # without a certificate it still says no in TLS

    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLError):
            context.wrap_socket(connection, server_side=True)

    with listening(answer) as port:
        ran = pk("topics", "list", "-b", f"127.0.0.1:{port}", "-X", "request.timeout.ms=30000")
    assert ran.code == Exit.NO_CONNECTION
    assert "it speaks TLS" in ran.err


def _metadata(broker: ScriptedBroker, port: int | None = None) -> MetadataResponse:
    node = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port or broker.port)
    return MetadataResponse(brokers=[node], cluster_id="scripted", controller_id=1)


def test_3_what_the_cluster_advertises_cannot_be_reached(pk: Run) -> None:
    def handler(broker: ScriptedBroker) -> Handler:
        async def answer(request: Any, version: int) -> Any:
            return _metadata(broker, away) if request.API_KEY == 3 else None

        return answer

    with deaf() as away, scripted(handler) as broker:
        patience = "default.api.timeout.ms=8000"
        ran = pk("topics", "create", "t", "-b", broker.address, "-X", patience)
    assert ran.code == Exit.NO_CONNECTION
    assert f"The cluster answered, but its broker 1 does not (127.0.0.1:{away}" in ran.err
    assert "advertised.listeners" in ran.err


def test_4_a_broker_refuses_the_user(pk: Run) -> None:
    def handler(broker: ScriptedBroker) -> Handler:
        async def answer(request: Any, version: int) -> Any:
            if request.API_KEY == 3:
                return _metadata(broker)
            code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topics = [CreatableTopicResult(name=t.name, error_code=code) for t in request.topics]
            return CreateTopicsResponse(topics=topics)

        return answer

    with scripted(handler) as broker:
        ran = pk("topics", "create", "secret", "-b", broker.address)
    assert ran.code == Exit.NOT_AUTHORISED
    assert "TOPIC_AUTHORIZATION_FAILED" in ran.err
    assert "`pk why denied User:ANONYMOUS create topic:secret`" in ran.err


def test_5_a_guard_refuses(at: Run, fresh: Fresh, kafka: Kafka) -> None:
    topic = fresh("exit")
    at("topics", "create", topic)
    ran = at("topics", "delete", topic)
    assert ran.code == Exit.REFUSED
    assert "-y makes the change without asking" in ran.err
    assert at("topics", "describe", topic).code == Exit.OK


@pytest.mark.parametrize(
    ("patience", "said"),
    [
        ((9000, 4000), "No answer in time ({} did not answer Metadata within 4000 ms); -X request"),
        ((4000, 40000), "{} did not answer within 4 s; give another with -b HOST:PORT (-X default"),
    ],
)
def test_124_the_time_ran_out(pk: Run, patience: tuple[int, int], said: str) -> None:
    """The broker that hangs is named, whichever limit was reached first."""

    def handler(broker: ScriptedBroker) -> Handler:
        async def answer(request: Any, version: int) -> Any:
            await trio.sleep_forever()

        return answer

    with scripted(handler) as broker:
        whole, each = (f"{ms}" for ms in patience)
        words = ("-X", f"default.api.timeout.ms={whole}", "-X", f"request.timeout.ms={each}")
        ran = pk("topics", "list", "-b", broker.address, *words)
    assert ran.code == Exit.TIMED_OUT, ran.err
    assert said.format(broker.address) in ran.err


def test_130_ctrl_c() -> None:
    asked = threading.Event()

    def silent(connection: socket.socket) -> None:
        asked.set()

    with (
        listening(silent) as port,
        running("topics", "list", "-b", f"127.0.0.1:{port}") as process,
    ):
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in err and not out


def test_debug_adds_the_traceback(pk: Run) -> None:
    plain = pk("topics", "list", "-b", "127.0.0.1:1")
    reported = pk("topics", "list", "-b", "127.0.0.1:1", "--debug")
    assert plain.code == reported.code == Exit.NO_CONNECTION
    assert "Traceback" not in plain.err
    assert "Traceback" in reported.err and reported.err.endswith(plain.err)
