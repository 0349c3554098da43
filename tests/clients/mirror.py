"""Starts MirrorMaker 2 between two clusters, both ways, each record exactly once, and reads the
offsets that it translated."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from clients import apache_kafka
from clients.connect import connect_jar

# These belong to the workers, of which each cluster has its own: without a cluster's name before
# them, MirrorMaker ignores them.
WORKER = {
    "offset.flush.interval.ms": "200",
    "scheduled.rebalance.max.delay.ms": "0",
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "1000",
    "exactly.once.source.support": "enabled",
}


LAG_MAX: Final = 10
"""How many records MirrorMaker may copy before it notes again which offset became which. A group at
the end of a topic reads at most this many again in the other cluster. One that is further behind
may read more again: MirrorMaker keeps fewer notes the older they are, and of those before its start
only the last."""

TRANSLATED_OFFSETS: Final = Path(__file__).with_name("TranslatedOffsets.java")
READ_S: Final = 600.0


def _command(class_name: str, *words: str) -> list[str]:
    jars = [connect_jar(name) for name in ("connect-mirror", "connect-mirror-client")]
    return apache_kafka.java_command(class_name, *words, more_jars=jars)


def translated_offsets(target: str, source_alias: str, topic: str, *groups: str) -> dict[str, int]:
    """Group → where it goes on in partition 0 of a copied topic, as the checkpoints in the cluster
    at `target` say; without those that have no checkpoint."""
    ran = subprocess.run(
        _command(str(TRANSLATED_OFFSETS), target, source_alias, *groups),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=READ_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    rows = [line.split() for line in ran.stdout.splitlines()]
    return {group: int(at) for group, where, _, at in rows if where == topic}


class MirrorMaker:
    """A node that copies the topics whose names begin with `orders`, and the offsets of all groups,
    between the clusters of `bootstraps` (alias → bootstrap servers); killed at the end of the
    block."""

    def __init__(self, bootstraps: Mapping[str, str], folder: Path) -> None:
        self.log = folder / "mirror.log"
        self._config = folder / "mirror.properties"
        self._process: subprocess.Popen[bytes] | None = None
        keys = {
            "clusters": ",".join(bootstraps),
            "topics": "orders.*",
            "groups": ".*",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "emit.heartbeats.enabled": "false",
            "offset.lag.max": str(LAG_MAX),
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://127.0.0.1:{apache_kafka.free_ports(1)[0]}",
        }
        for name, bootstrap in bootstraps.items():
            replicas = str(min(3, len(bootstrap.split(","))))
            keys[f"{name}.bootstrap.servers"] = bootstrap
            keys |= {f"{name}.{key}": value for key, value in WORKER.items()}
            for kind in ("config", "offset", "status"):
                keys[f"{name}.{kind}.storage.replication.factor"] = replicas
            for other in bootstraps.keys() - {name}:
                keys[f"{name}->{other}.enabled"] = "true"
                # The offset-syncs topic is in the source cluster, the other topics are in the
                # target.
                keys[f"{name}->{other}.offset-syncs.topic.replication.factor"] = replicas
                keys[f"{other}->{name}.replication.factor"] = replicas
                for topic in ("checkpoints", "heartbeats"):
                    keys[f"{other}->{name}.{topic}.topic.replication.factor"] = replicas
        self._config.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))

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
        command = _command("org.apache.kafka.connect.mirror.MirrorMaker", str(self._config))
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
