"""`pk up` and `pk node`: processes start, report it, drain, and leave no files behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.pk_broker import heed_signals
from shapes import check_json
from terminal import read_until, start_on_pty

from pk.core import __version__

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(
        (str(ROOT / "scripts" / "path"), os.environ.get("PYTHONPATH", ""))
    ),
}


class Up:
    """A `pk` command that runs until it is stopped."""

    def __init__(self, *words: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pk.cli.main", *words],
            env={**ENVIRONMENT, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_signals,  # noqa: PLW1509
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()

    @property
    def address(self) -> str:
        return self.line.split()[-1]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and standard error after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, error = self.process.communicate(timeout=60)
        return self.process.returncode, error


@pytest.fixture
def up() -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*words: str, **environment: str) -> Up:
        started.append(Up(*words, **environment))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)],
)
def test_up_says_where_it_is_and_leaves_nothing(
    up: Callable[..., Up], pk: Run, tmp_path: Path, number: int
) -> None:
    one = up("up", "--port", "0", TMPDIR=str(tmp_path))
    host, _, port = one.address.partition(":")
    assert (host, int(port) > 0) == ("127.0.0.1", True)
    assert [p.name for p in tmp_path.glob("pk-*")] != []
    assert pk("topics", "create", "a", "-b", one.address).code == 0
    code, error = one.end(number)
    # Ctrl-C: it dies of the signal once it is drained, so that a loop of bash around it ends too.
    assert code == (-signal.SIGINT if number == signal.SIGINT else 0), error
    assert "Traceback" not in error
    assert list(tmp_path.glob("pk-*")) == []


@pytest.mark.parametrize("abstract", [False, True])
def test_a_service_manager_hears_when_it_is_ready_reloads_and_stops(
    up: Callable[..., Up], pk: Run, tmp_path: Path, abstract: bool
) -> None:
    """systemd's Type=notify. SIGHUP does not end it there: systemctl reload sends one."""
    if abstract and sys.platform != "linux":
        pytest.skip("only Linux has abstract names")
    with tempfile.TemporaryDirectory(prefix="pk-notify-") as folder, manager_socket() as messages:
        name = f"{folder}/socket"
        messages.bind(f"\0{name}" if abstract else name)
        words = ("--data", str(tmp_path / "data"), "-X", "node.id=1", "--port", "0")
        shown = f"@{name}" if abstract else name
        one = up("node", "start", *words, NOTIFY_SOCKET=shown)
        assert messages.recv(1000) == b"READY=1"
        one.process.send_signal(signal.SIGHUP)
        assert messages.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert messages.recv(1000) == b"READY=1"
        assert pk("topics", "create", "a", "-b", one.address).code == 0
        code, error = one.end()
        assert code == 0, error
        assert messages.recv(1000) == b"STOPPING=1"


def test_a_service_manager_hears_of_no_reload_before_the_node_is_ready(tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="pk-notify-") as folder,
        manager_socket() as messages,
        socket.socket() as closed,
    ):
        messages.bind(f"{folder}/socket")
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        keys = {
            "node.id": "1",
            "process.roles": "broker",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
        }
        options = [word for key, value in keys.items() for word in ("-X", f"{key}={value}")]
        words = ("node", "start", "--data", str(tmp_path / "data"), "--port", "0", *options)
        with subprocess.Popen(
            [sys.executable, "-m", "pk.cli.main", *words],
            env={**ENVIRONMENT, "NOTIFY_SOCKET": f"{folder}/socket"},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert "still waiting for a controller" in process.stderr.readline()
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            assert messages.recv(1000) == b"STOPPING=1"
            process.communicate(timeout=60)


def manager_socket() -> socket.socket:
    """The socket on which a service manager receives the messages of its services."""
    messages = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    messages.settimeout(60)
    return messages


def test_a_service_manager_that_is_gone_is_no_reason_to_fail(
    up: Callable[..., Up], tmp_path: Path
) -> None:
    words = ("--data", str(tmp_path / "data"), "-X", "node.id=1", "--port", "0")
    one = up("node", "start", *words, NOTIFY_SOCKET=str(tmp_path / "gone"))
    assert "is ready" in one.line
    code, error = one.end()
    assert code == 0
    assert "cannot be notified" in error


def test_the_end_of_its_terminal_drains_it_too(tmp_path: Path) -> None:
    """No user is left to press Ctrl-C, or to read its last output."""
    words = [sys.executable, "-m", "pk.cli.main", "up", "--port", "0"]
    process, end = start_on_pty(words, {**ENVIRONMENT, "TMPDIR": str(tmp_path)})
    try:
        read_until(end, b"is ready")
        assert [p.name for p in tmp_path.glob("pk-*")] != []
        os.close(end)
        assert process.wait(60) == 0
    finally:
        process.kill()
    assert list(tmp_path.glob("pk-*")) == []


def test_up_in_memory_touches_no_disk(up: Callable[..., Up], pk: Run, tmp_path: Path) -> None:
    one = up("up", "--port", "0", "--memory", "-X", "num.partitions=3", TMPDIR=str(tmp_path))
    assert pk("topics", "create", "a", "-b", one.address).code == 0
    assert pk("produce", "a", "-b", one.address, stdin=b"1\n2\n").code == 0
    assert len(pk("consume", "a", "-b", one.address, "-e").lines) == 2
    (topic,) = pk("topics", "list", "-b", one.address, "-f", "json").json
    assert topic["partitions"] == 3
    assert one.end()[0] == 0
    assert list(tmp_path.glob("pk-*")) == []


@pytest.mark.thorough
def test_data_is_kept_and_held(up: Callable[..., Up], pk: Run, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    first = up("up", "--port", "0", "--data", data)
    pk("topics", "create", "a", "-b", first.address)
    pk("produce", "a", "-b", first.address, stdin=b"kept\n")
    second = up("up", "--port", "0", "--data", data)
    code, error = second.end()
    assert (code, data in error, "Traceback" in error) == (1, True, False), error
    assert first.end()[0] == 0
    third = up("up", "--port", "0", "--data", data)
    assert pk("consume", "a", "-b", third.address, "-e").text == "kept\n"
    third.end()


def test_what_cannot_start_says_why(up: Callable[..., Up], pk: Run, tmp_path: Path) -> None:
    one = up("up", "--port", "0", "--memory")
    port = one.address.rpartition(":")[2]
    code, error = up("up", "--memory", "--port", port).end()
    assert (code, "in use" in error, "Traceback" in error) == (1, True, False), error
    for words, said in (
        (("--port", "70000"), "0 to 65535"),
        (("-X", "num.partition=1"), "num.partitions"),
        (("-X", "num.partitions=x"), "num.partitions"),
        (("--memory", "--data", "x"), "--memory"),
        (("--config-file", str(tmp_path / "missing")), "cannot be read"),
    ):
        wrong = pk("up", *words)
        assert (wrong.code, said in wrong.err) == (2, True), wrong.err


def test_what_promises_security_does_not_start(
    up: Callable[..., Up], pk: Run, tmp_path: Path
) -> None:
    """A broker that ignored a setting for access control would be open to everybody, without its
    operator's knowledge."""
    data, file = tmp_path / "data", tmp_path / "server.properties"
    file.write_text(
        f"node.id=1\nlog.dirs={data}\nlisteners=PLAINTEXT://127.0.0.1:0\n"
        "principal.builder.class=org.example.Mine\n"
        "super.users=User:admin\n"
    )
    for words in (("node", "start"), ("up",), ("up", "--brokers", "3")):
        refused = pk(*words, "--config-file", str(file))
        assert refused.code == 2, refused.err
        assert "principal.builder.class (it requires that" in refused.err
        assert "super.users (it requires that" in refused.err
        assert "pk.security.ignore=true" in refused.err
        assert not data.exists()
    detached = pk("node", "start", "--config-file", str(file), "--detach")
    assert (detached.code, "super.users" in detached.err) == (2, True), detached.err
    known = up("node", "start", "--config-file", str(file), "-X", "pk.security.ignore=true")
    code, error = known.end()
    assert code == 0 and "ignored, not implemented: principal.builder.class" in error


def test_a_running_broker_takes_nothing_that_promises_security(
    up: Callable[..., Up], pk: Run
) -> None:
    running = up("up", "--port", "0")
    key = "listener.name.a.ssl.provider"
    change = ("configs", "alter", "broker", "1", "-y", "-b")
    refused = pk(*change, running.address, "-c", f"{key}=hush")
    assert (refused.code, f"{key} is not supported: it requires" in refused.err) == (1, True), (
        refused.err
    )
    assert "pk.security.ignore=true" in refused.err and "hush" not in refused.err
    missing = pk(*change, running.address, "-c", "listener.name.a.made.up=x")
    assert (missing.code, "does not exist" in missing.err) == (2, True), missing.err
    own = ("configs", "describe", "broker", "1", "-f", "json", "-b")
    assert key not in pk(*own, running.address).text
    known = up("up", "--port", "0", "-X", "pk.security.ignore=true")
    stored = pk(*change, known.address, "-c", f"{key}=known")
    assert stored.code == 0, stored.err
    secret = "listener.name.a.scram-sha-256.sasl.jaas.config"
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required password="hush";'
    stored = pk(*change, known.address, "-c", f"{secret}={login}")
    assert (stored.code, "hush" in stored.err + stored.text) == (0, False), stored.err
    shown = pk(*own, known.address).text
    assert key in shown and secret in shown and "hush" not in shown


def test_nothing_listens_there(pk: Run) -> None:
    missing = pk("topics", "list", "-b", "127.0.0.1:1")
    assert (missing.code, "127.0.0.1:1" in missing.err, "pk up" in missing.err) == (3, True, True)
    assert "Traceback" in pk("topics", "list", "-b", "127.0.0.1:1", "--debug").err


def test_a_detached_broker(pk: Run, tmp_path: Path) -> None:
    data = tmp_path / "data"
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"# a comment\nnode.id = 7\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={data}\n"
    )
    where = ("--config-file", str(properties))
    stopped = pk("node", "status", *where, "-f", "json")
    assert (stopped.code, stopped.json[0]["running"]) == (1, False)
    environment = dict(os.environ)
    os.environ["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]
    try:
        started = pk("node", "start", *where, "--detach")
    finally:
        os.environ.clear()
        os.environ.update(environment)
    try:
        assert started.code == 0, started.err
        address = started.text.split()[-1]
        (broker,) = pk("brokers", "list", "-b", address, "-f", "json").json
        assert broker["broker"] == 7
        running = pk("node", "status", *where, "-f", "json")
        assert (running.code, running.json[0]["running"]) == (0, True)
        pid = int((data / "pk.pid").read_text())
        assert running.json[0]["pid"] == pid
        # The list of processes shows the name of the file, not its contents, which may include a
        # password.
        command = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(pid)], stdout=subprocess.PIPE, check=True
        )
        assert str(properties).encode() in command.stdout and b"PLAINTEXT" not in command.stdout
        again = pk("node", "start", *where, "--detach")
        assert (again.code, "already running in" in again.err) == (1, True)
    finally:
        ended = pk("node", "stop", *where)
    assert ended.code == 0, ended.err
    assert not (data / "pk.pid").exists()
    assert pk("node", "status", *where).code == 1
    assert (pk("node", "stop", *where).code, (data / "pk.log").exists()) == (1, True)


def test_a_detached_broker_that_cannot_start_says_why(
    pk: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    assert pk("node", "start").code == 2
    assert "node.id" in pk("node", "start", "--data", str(tmp_path / "a")).err
    failed = pk(
        "broker",
        "start",
        "--data",
        str(tmp_path / "b"),
        "-X",
        "node.id=1",
        "-X",
        "num.partition=1",
        "--detach",
    )
    assert (failed.code, "num.partition;" in failed.err) == (2, True), failed.err
    assert not (tmp_path / "b" / "pk.pid").exists()


def test_a_stale_pid_file_is_no_broker(pk: Run, tmp_path: Path) -> None:
    (tmp_path / "pk.pid").write_text(str(os.getpid()))
    words = ("node", "status", "--data", str(tmp_path), "-f", "json")
    shown = pk(*words)
    (row,) = check_json(words, shown.out)
    assert (shown.code, row["pid"]) == (1, None)
    assert pk("node", "stop", "--data", str(tmp_path)).code == 1


def test_profiles(pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pk("profile", "list", "-f", "json").json == []
    added = pk("profile", "add", "dev", "-b", "127.0.0.1:1", "-X", "client.id=me", "--color", "red")
    assert added.code == 0
    pk("profile", "add", "other", "-b", "127.0.0.1:2")
    assert "127.0.0.1:1" in pk("topics", "list", "--profile", "dev").err
    assert pk("profile", "use", "other").code == 0
    assert "127.0.0.1:2" in pk("topics", "list").err
    monkeypatch.setenv("PK_PROFILE", "dev")
    assert "127.0.0.1:1" in pk("topics", "list").err
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", "127.0.0.1:3")
    assert "127.0.0.1:3" in pk("topics", "list").err
    assert "127.0.0.1:4" in pk("topics", "list", "-b", "127.0.0.1:4").err
    unknown = pk("topics", "list", "--profile", "dve")
    assert (unknown.code, "did you mean dev" in unknown.err) == (2, True)
    assert pk("profile", "delete", "dev").code == 5
    assert pk("profile", "delete", "dev", "-y").code == 0
    assert [p["profile"] for p in pk("profile", "list", "-f", "json").json] == ["other"]


def test_pages_of_help(pk: Run) -> None:
    codes = pk("help", "exit-codes").text
    for code in ("0", "1", "2", "3", "4", "5", "124", "130"):
        assert f"\n  {code} " in codes
    assert "committed" in pk("help", "positions").text
    assert "jsonl" in pk("help", "formats").text
    assert pk("help", "topics", "create").text == pk("topics", "create", "--help").text
    wrong = pk("help", "topcs")
    assert (wrong.code, "did you mean topics" in wrong.err) == (2, True)
    assert pk("completion", "tcsh").code == 2
    ran = pk("--version")
    said = re.fullmatch(r"pk (\S+) \(Python 3\.\d+\.\d+, (Linux|Darwin) \S+ \S+\)\n", ran.text)
    assert said is not None and said[1] == __version__, ran.text


def test_up_takes_the_node_that_its_directory_belongs_to(
    up: Callable[..., Up], tmp_path: Path
) -> None:
    for words in (("-X", "node.id=7"), ()):
        one = up("up", "--port", "0", "--data", str(tmp_path), *words)
        assert one.line.startswith("Broker 7 is ready")
        code, error = one.end()
        assert code == 0, error
