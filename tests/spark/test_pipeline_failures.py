"""How a pipeline fails and continues, run by the command with its own Spark."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from clients.pk_broker import PkBroker, pk_command, pk_environment
from pipeline_examples import append, duckdb

from pk.cli.exits import Exit
from pk.spark.pipeline.definition import parse_pipeline
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import read_status

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipelines.md"
WAIT_S = 300
FILE = """
name = "p"
checkpoint = "cp"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
topic = "out"
"""


@pytest.mark.slow
def test_what_java_says_is_shown_though_its_spark_has_ended(tmp_path: Path) -> None:
    """The text of such an error is in Java, and Spark ends before the command shows it."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "pyspark_broken.py").write_text("raise ImportError('broken')\n")
    environ = pk_environment()
    environ["PYTHONPATH"] += f"{os.pathsep}{tmp_path / 'modules'}"
    path = tmp_path / "p.toml"
    path.write_text(FILE)
    words = pk_command("spark", "pipeline", "run", str(path), "--once", "-b", "127.0.0.1:1")
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    said = "Spark's Python does not find the data source pk"
    assert done.returncode == 1 and said in done.stderr, done.stderr
    status = read_status(Places(parse_pipeline(FILE, str(path))))
    assert status is not None and said in (status["error"] or "")


TO_FILES = """
name = "p"
checkpoint = "cp"
[[source]]
name = "orders"
topic = "orders"
value = "json"
fields = "id BIGINT"
[[step]]
name = "ids"
sql = "SELECT value.id FROM orders"
[[sink]]
from = "ids"
parquet = "out"
"""


class Service:
    """The command that docs/pipelines.md runs in a container."""

    def __init__(self, file: Path, bootstrap: str) -> None:
        (line,) = re.findall(r"(?m)^podman run .* pk-spark pk (.*)$", PAGE.read_text())
        words = [str(file) if word.endswith("/orders.toml") else word for word in line.split()]
        self.places = Places(parse_pipeline(TO_FILES, str(file)))
        self.said: queue.Queue[str] = queue.Queue()
        self.process = subprocess.Popen(
            pk_command(*words, "--cores", "1", "-b", bootstrap),
            env=pk_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.put(line)

    def wait_for(self, ids: range) -> None:
        """Until the files hold these ids, each once."""
        poll = threading.Event()
        files = f"{self.places.path('out')}/*.parquet"
        while True:
            assert self.process.poll() is None, self.said.queue
            if list(self.places.path("out").glob("*.parquet")):
                found = duckdb(f"SELECT id FROM read_parquet('{files}') ORDER BY id")
                if len(found) >= len(ids):
                    assert found == [(each,) for each in ids]
                    return
            poll.wait(0.2)

    @property
    def java(self) -> list[int]:
        """The processes of Java that it started."""
        listed = subprocess.run(
            ["ps", "-o", "pid=,comm=", "--ppid", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=True,
        )
        rows = [line.split() for line in listed.stdout.splitlines()]
        return [int(pid) for pid, name in rows if name == "java"]


@pytest.mark.slow
def test_a_service_goes_on_after_its_java_was_killed_and_ends_in_order(tmp_path: Path) -> None:
    file = tmp_path / "orders.toml"
    file.write_text(TO_FILES)
    with PkBroker() as broker:
        append(broker.bootstrap, "orders", [f'{{"id": {n}}}' for n in range(100)], 1)
        service = Service(file, broker.bootstrap)
        try:
            service.wait_for(range(100))
            (java,) = service.java
            os.kill(java, signal.SIGKILL)
            # Libraries may say before that their connections to Java ended.
            said = "Spark's Java was ended by signal 9; it starts again in 1 s.\n"
            while service.said.get(timeout=WAIT_S) != said:
                pass
            append(broker.bootstrap, "orders", [f'{{"id": {n}}}' for n in range(100, 150)], 1)
            service.wait_for(range(150))
            (java,) = service.java
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(WAIT_S) == Exit.OK
            with pytest.raises(ProcessLookupError):
                os.kill(java, 0)
        finally:
            service.process.kill()
        status = read_status(service.places)
        assert status is not None and status["state"] == "stopped"
        # A record that ends the pipeline does so again and again.
        append(broker.bootstrap, "orders", ["{broken"], 1)
        service = Service(file, broker.bootstrap)
        assert service.process.wait(WAIT_S) == Exit.LASTING, service.said.queue
        assert "A record does not parse: orders" in service.said.get(timeout=WAIT_S)


NO_PUTS = """
import http.server
LIST = b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
class Refusing(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")
    def do_GET(self):
        self.answer(*((200, LIST) if "list-type" in self.path else (404, b"")))
    def do_HEAD(self):
        self.answer(404, b"")
    def do_PUT(self):
        self.answer(403, DENIED)
    do_POST = do_PUT
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.mark.slow
def test_a_sink_that_may_not_write_says_why_in_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    file = tmp_path / "p.toml"
    file.write_text(TO_FILES.replace('parquet = "out"', 'delta = "s3://bucket/table"'))
    with (
        PkBroker() as broker,
        subprocess.Popen(
            [sys.executable, "-c", NO_PUTS], stdout=subprocess.PIPE, text=True
        ) as server,
    ):
        try:
            assert server.stdout is not None
            environ = pk_environment() | {
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.stdout.readline().strip()}",
            }
            append(broker.bootstrap, "orders", ['{"id": 1}'], 1)
            words = ("spark", "pipeline", "run", str(file), "--once", "-b", broker.bootstrap)
            ran = subprocess.run(
                pk_command(*words), env=environ, capture_output=True, text=True, check=False
            )
        finally:
            server.kill()
    said = (
        "The sink ids, delta s3://bucket/table: the object storage refuses the request:"
        " Access Denied (AccessDenied); these credentials do not have the permission.\n"
    )
    assert (ran.returncode, ran.stderr) == (Exit.FAILED, said)
