"""Starts distributed workers of Kafka Connect, and asks their REST API.

Connect is among Apache Kafka's jars (apache_kafka.py); the connectors for files come from Maven,
once, into the same cache.
"""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from clients import apache_kafka
from clients.topics import wait_until

FILE_SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
READY_S: Final = 300.0
ANSWER_S: Final = 60.0


def connect_jar(artifact: str) -> Path:
    """A jar of Connect that is not among Apache Kafka's, e.g. `connect-file`.

    Raises ApacheKafkaError if Maven fails.
    """
    folder = apache_kafka.jars().parent
    jar = folder / artifact / f"{artifact}-{apache_kafka.VERSION}.jar"
    with apache_kafka.locked(folder / f".{artifact}.lock"):
        if not jar.exists():
            ran = subprocess.run(
                [
                    "mvn",
                    *("-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.7.0:copy"),
                    f"-Dartifact=org.apache.kafka:{artifact}:{apache_kafka.VERSION}",
                    f"-DoutputDirectory={jar.parent}",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            if ran.returncode:
                raise apache_kafka.ApacheKafkaError(f"mvn failed: {ran.stdout + ran.stderr}")
    return jar


class Worker:
    """A distributed worker of the Connect cluster `connect`, exactly once for sources; killed at
    the end of the block. `plugins` is a folder of connectors, each in one of its own."""

    def __init__(
        self, bootstrap: str, folder: Path, name: str, plugins: Path | None = None
    ) -> None:
        self.port = apache_kafka.free_ports(1)[0]
        self.log = folder / f"{name}.log"
        self._config = folder / f"{name}.properties"
        self._process: subprocess.Popen[bytes] | None = None
        plain = "org.apache.kafka.connect.storage.StringConverter"
        keys = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect",
            "exactly.once.source.support": "enabled",
            "key.converter": plain,
            "value.converter": plain,
            "offset.flush.interval.ms": "200",
            "scheduled.rebalance.max.delay.ms": "0",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "1000",
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.discovery": "service_load",
        }
        for kind in ("config", "offset", "status"):
            keys[f"{kind}.storage.topic"] = f"connect-{kind}"
            keys[f"{kind}.storage.replication.factor"] = "3"
        keys |= {"offset.storage.partitions": "3", "status.storage.partitions": "1"}
        if plugins is not None:
            keys["plugin.path"] = str(plugins)
        self._config.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))

    @property
    def worker_id(self) -> str:
        """The worker's name in a connector's status."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        """Start its process, and return at once."""
        command = apache_kafka.java_command(
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(self._config),
            more_jars=[connect_jar("connect-file")],
        )
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.wait()

    def ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """The answer of the REST API, or None while it does not give one: it starts, or the workers
        rebalance."""
        assert self._process is not None and self._process.poll() is None, self.log.read_text()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code in (404, 409, 500, 503):
                return None
            raise AssertionError(error.read().decode()) from error
        except OSError:
            return None

    def configure(self, connector: str, config: Mapping[str, str]) -> None:
        """Create a connector, or change it."""
        path = f"/connectors/{connector}/config"
        wait_until(f"connector {connector}", lambda: self.ask("PUT", path, config), READY_S)

    def runs_on(self, connector: str) -> str | None:
        """The id of the worker that runs the only task of a connector; None while none does."""
        status = self.ask("GET", f"/connectors/{connector}/status")
        tasks = status["tasks"] if status else []
        failed = [task["trace"] for task in tasks if task["state"] == "FAILED"]
        assert not failed, failed
        return next((t["worker_id"] for t in tasks if t["state"] == "RUNNING"), None)
