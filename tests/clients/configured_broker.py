"""pk with any configuration, by `pk node start`: with listeners of its own, for instance. `pk up`
chooses its own."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from clients.apache_kafka import brokers_alive, free_ports
from clients.pk_broker import pk_environment, start_pk

READY_S = 60.0
NAME = "CLIENTS"


@dataclass(frozen=True)
class ConfiguredBroker:
    """A broker that runs: the address of its plain listener, and that of the other one."""

    bootstrap: str
    other: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def log_text(self) -> str:
        """The broker's output so far."""
        return self.log.read_text(errors="replace")

    @property
    def rss_bytes(self) -> int:
        """Its resident memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096


@contextlib.contextmanager
def configured_broker(
    folder: Path, protocol: str, properties: Mapping[str, str]
) -> Iterator[ConfiguredBroker]:
    """A broker with a plain listener, and one named CLIENTS with `protocol`; terminated at the
    end."""
    folder.mkdir(exist_ok=True)
    plain, other = free_ports(2)
    given = {
        "node.id": "1",
        "log.dirs": str(folder / "data"),
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},{NAME}://127.0.0.1:{other}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{NAME}:{protocol}",
        "inter.broker.listener.name": "PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        **properties,
    }
    file, log = folder / "server.properties", folder / "log"
    file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    words = ("node", "start", "--config-file", str(file))
    with log.open("wb") as out:
        process = start_pk(
            *words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=pk_environment()
        )
    broker = ConfiguredBroker(f"127.0.0.1:{plain}", f"127.0.0.1:{other}", process, log)
    try:
        deadline = time.monotonic() + READY_S
        while brokers_alive("127.0.0.1", plain) is None:
            assert time.monotonic() < deadline and process.poll() is None, broker.log_text[-5000:]
            time.sleep(0.05)
        yield broker
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
