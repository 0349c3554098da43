"""A Spark cluster on machines of its own, and what a test runs on such machines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from clients.pk_broker import ROOT, PkBroker, pk_command, pk_environment
from machines import Machine, Machines
from spark_servers import Host, standalone

from pk.spark.java import find_java, require_pyspark
from pk.spark.session.package import python_of_workers

TIMEOUT_S = 1_200


class BrokerThere(PkBroker):
    """A broker on a machine, which others reach by its listener CLIENTS, at port 9093."""

    def __init__(self, machine: Machine, clients: str, config: Mapping[str, str]) -> None:
        """`clients` is the security protocol of that listener."""
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:9092,CLIENTS://{machine.address}:9093",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CLIENTS:{clients}",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        super().__init__(config={**listeners, **config})
        self.machine = machine
        self.clients = f"{machine.address}:9093"

    def start_process(self, **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(self.machine.command(*pk_command(*self.words())), **options)


class Driver(NamedTuple):
    """A machine whose programs use the cluster, in a folder."""

    machine: Machine
    folder: Path
    master: str

    def start(
        self, *words: str, environ: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Runs a program there."""
        command = self.machine.command(*words, folder=self.folder)
        environ = {**pk_environment(), **(environ or {})}
        return subprocess.Popen(command, env=environ, text=True, **options)

    def run(self, *words: str, environ: Mapping[str, str] | None = None) -> str:
        """The output of a program on that machine."""
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        with self.start(*words, environ=environ, **pipes) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT_S)
            except BaseException:
                process.kill()
                raise
        assert process.returncode == 0, (words, out[-3000:], err[-6000:])
        return out

    def python(self, text: str, *words: str, environ: Mapping[str, str] | None = None) -> str:
        """The output of a Python program on that machine, which can import the modules of these
        tests."""
        path = {"PYTHONPATH": f"{ROOT / 'tests'}:{pk_environment()['PYTHONPATH']}"}
        return self.run(sys.executable, "-c", text, *words, environ={**path, **(environ or {})})

    @property
    def conf(self) -> dict[str, str]:
        """Configs for a driver on this machine, with an event log in the folder `events`."""
        return {
            "spark.driver.host": self.machine.address,
            "spark.driver.bindAddress": self.machine.address,
            "spark.executor.memory": "512m",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{self.folder / 'events'}",
            "spark.eventLog.compress": "false",
        }

    @property
    def words_of_conf(self) -> list[str]:
        return [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]


@contextmanager
def cluster(machines: Machines, folder: Path, hides: Sequence[Path] = ()) -> Iterator[str]:
    """A master on the hub and two workers, which do not see this checkout and its libraries, nor
    the folders `hides`: they have Spark and Java elsewhere."""
    spark, java = folder / "spark", folder / "java"
    binds = [(require_pyspark(), spark), (find_java().home, java)]
    hidden = [ROOT, Path(sys.prefix)]
    if hidden[1].is_relative_to(ROOT):
        hidden.pop()
    workers = [machines.add([*hidden, *hides], binds) for _ in range(2)]
    bare = folder / "bin" / python_of_workers()
    hosts = [Host(each.address, each.enter, spark, java) for each in workers]
    hub = Host(machines.hub.address, machines.hub.enter)
    with standalone(folder, hub, hosts) as master:
        for each in workers:
            for module in ("pk", "pyarrow"):
                tried = subprocess.run(
                    each.command(str(bare), "-c", f"import {module}"),
                    env={},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert f"No module named '{module}'" in tried.stderr
            for place in (ROOT, *hides):
                assert subprocess.check_output(each.command("ls", "-A", str(place))) == b""
        yield master
