"""Starts a cluster of pk's nodes, each a process of its own by `pk node start`, as on several
machines.

`pk up --brokers N` is for people; tests that kill, stop and cut off single nodes want each process
in their own hand.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from clients.apache_kafka import brokers_alive, free_ports
from clients.pk_broker import PkBrokerError, pk_environment, start_pk

CONTROLLER = 0
"""The id of the controller-only process, if the metadata store is embedded."""

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 120.0


class Wires(Protocol):
    """The connections between a cluster's nodes, if a test wants to cut them."""

    def wire(self, node_id: int, port: int) -> int:
        """A port by which the others reach what this node serves on `port`."""
        ...


class PkCluster:
    """`brokers` nodes on loopback, for the length of a `with` block. Brokers count from 1.

    The metadata store is embedded, in a controller of its own (node 0), unless `store`
    (etcd://h:p/path or zookeeper://h:p/path, or what gives each node its own) is given: then every
    broker is a controller too. `config` goes to every node. Between nodes, and from nodes to the
    controller, `wires` lie if given; clients do not go through them. Data is in `directory`, else
    in a temporary folder.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        store: str | Callable[[int], str] | None = None,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
        wires: Wires | None = None,
    ) -> None:
        self.brokers = list(range(1, brokers + 1))
        self.nodes = self.brokers if store else [CONTROLLER, *self.brokers]
        self._store = store
        self._config = dict(config or {})
        self._wires = wires
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="pk-cluster-")
            directory = Path(self._temporary.name)
        self.directory = directory
        ports = free_ports(3 * (brokers + 1))
        self._client_ports = ports[: brokers + 1]
        self._controller_ports = ports[brokers + 1 : 2 * brokers + 2]
        self._internal_ports = ports[2 * brokers + 2 :]
        self._advertised: dict[int, int] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()
        self._log_bytes: dict[int, int] = {}
        for node_id in self.nodes:
            self._write_config(node_id)

    # -- what it is

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, separated by commas."""
        return ",".join(f"127.0.0.1:{self.port(broker)}" for broker in self.brokers)

    @property
    def running(self) -> list[int]:
        """The nodes that run and are not paused."""
        alive = (n for n, process in self._processes.items() if process.poll() is None)
        return sorted(set(alive) - self._paused)

    def port(self, node_id: int) -> int:
        """The client port of a broker."""
        return self._client_ports[node_id]

    def pid(self, node_id: int) -> int:
        """The process id of a node that runs."""
        return self._processes[node_id].pid

    def data(self, node_id: int) -> Path:
        """Its `log.dirs`."""
        return self.directory / f"node-{node_id}" / "data"

    def log_text(self, node_id: int) -> str:
        """A node's console output, over all its starts."""
        path = self.directory / f"node-{node_id}" / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def is_ready(self, node_id: int) -> bool:
        """Whether a node said so since its last start; before that it may end by a signal as any
        process does."""
        path = self.directory / f"node-{node_id}" / "server.log"
        return b" is ready after " in path.read_bytes()[self._log_bytes[node_id] :]

    def logs(self) -> str:
        """The ends of all nodes' logs, for a failure's message."""
        return "\n".join(f"--- node {n}\n{self.log_text(n)[-3000:]}" for n in self.nodes)

    # -- life

    def __enter__(self) -> Self:
        try:
            for node_id in self.nodes:
                self.start(node_id, wait=False)
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill what runs, and remove the temporary folder."""
        for node_id in list(self._processes):
            self.kill(node_id)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def start(self, node_id: int, *, wait: bool = True) -> None:
        """Start a node that does not run; with `wait`, return when the running brokers list one
        another."""
        path = self.directory / f"node-{node_id}"
        with (path / "server.log").open("ab") as log:
            self._log_bytes[node_id] = log.tell()
            self._processes[node_id] = start_pk(
                "node",
                "start",
                "--config-file",
                str(path / "server.properties"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=pk_environment(),
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self, timeout: float = START_TIMEOUT_S) -> None:
        """Wait until every running broker lists all running brokers. Raises PkBrokerError."""
        deadline = time.monotonic() + timeout
        brokers = [n for n in self.running if n != CONTROLLER]
        for node_id in brokers:
            while brokers_alive("127.0.0.1", self.port(node_id)) != len(brokers):
                time.sleep(0.05)
                ended = [n for n, process in self._processes.items() if process.poll() is not None]
                if ended:
                    raise PkBrokerError(f"nodes {ended} ended:\n{self.logs()}")
                if time.monotonic() > deadline:
                    raise PkBrokerError(f"node {node_id} is not ready:\n{self.logs()}")

    def kill(self, node_id: int) -> None:
        """End a node at once (SIGKILL)."""
        self._end(node_id, signal.SIGKILL)

    def stop(self, node_id: int) -> int:
        """End a node in order (SIGTERM); its exit code."""
        return self._end(node_id, signal.SIGTERM)

    def signal(self, node_id: int, number: int) -> None:
        """Send a signal without waiting for its effect."""
        self._processes[node_id].send_signal(number)

    def pause(self, node_id: int) -> None:
        """Stop a node from running (SIGSTOP), its connections and all; returns once each of its
        threads has stopped."""
        self._paused.add(node_id)
        self.signal(node_id, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid(node_id), os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, node_id: int) -> None:
        """Let it run on (SIGCONT)."""
        self.signal(node_id, signal.SIGCONT)
        self._paused.discard(node_id)

    # -- inside

    def _end(self, node_id: int, number: int) -> int:
        process = self._processes.pop(node_id)
        self._paused.discard(node_id)
        process.send_signal(number)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise PkBrokerError(f"node {node_id} did not end:\n{self.logs()}") from None

    def _seen(self, node_id: int, port: int) -> int:
        """The port by which other nodes reach `port` of a node."""
        if self._wires is None:
            return port
        if port not in self._advertised:
            self._advertised[port] = self._wires.wire(node_id, port)
        return self._advertised[port]

    def _write_config(self, node_id: int) -> None:
        here = "127.0.0.1"
        controller = f"CONTROLLER://{here}:{self._controller_ports[node_id]}"
        client = f"PLAINTEXT://{here}:{self._client_ports[node_id]}"
        internal = self._internal_ports[node_id]
        protocols = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        keys = {
            "node.id": str(node_id),
            "log.dirs": str(self.data(node_id)),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": protocols,
            "offsets.topic.replication.factor": str(min(3, len(self.brokers))),
            "transaction.state.log.replication.factor": str(min(3, len(self.brokers))),
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": str(min(3, len(self.brokers))),
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        } | self._config
        if node_id == CONTROLLER:
            keys |= {"process.roles": "controller", "listeners": controller}
        else:
            seen = f"INTERNAL://{here}:{self._seen(node_id, internal)}"
            keys |= {
                "process.roles": "broker",
                "listeners": f"{client},INTERNAL://{here}:{internal}",
                "advertised.listeners": f"{client},{seen}",
                "inter.broker.listener.name": "INTERNAL",
            }
            if self._store is not None:
                keys["process.roles"] = "broker,controller"
                keys["listeners"] += f",{controller}"
                own = self._store
                keys["pk.metadata.store"] = own if isinstance(own, str) else own(node_id)
            else:
                port = self._seen(CONTROLLER, self._controller_ports[CONTROLLER])
                keys["controller.quorum.bootstrap.servers"] = f"{here}:{port}"
        path = self.directory / f"node-{node_id}"
        path.mkdir(parents=True, exist_ok=True)
        lines = (f"{key}={value}\n" for key, value in keys.items())
        path.joinpath("server.properties").write_text("".join(lines))
