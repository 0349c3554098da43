"""Sparks of a test's own, whose Python is the machine's, without pk and its libraries: a standalone
cluster, and a Spark Connect server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pk.spark.java import find_java, launcher_home, require_pyspark
from pk.spark.session.package import python_of_workers

WAIT_S = 300
_STARTED = re.compile(r"Spark Connect server started at: .*:(\d+)")


@dataclass(frozen=True)
class Host:
    """A machine on which a part of a cluster runs."""

    address: str = "127.0.0.1"
    enter: tuple[str, ...] = ()
    """The first words of a command line that runs there."""

    spark: Path | None = None
    """The directory with Spark and Java, or None for this machine's."""

    java: Path | None = None


@contextmanager
def standalone(
    folder: Path, master_on: Host = Host(), workers_on: Sequence[Host] = (Host(),)
) -> Iterator[str]:
    """A master and workers of Spark's standalone mode, whose Python is the machine's own, without
    pk and pyarrow."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    (programs / python_of_workers()).symlink_to(Path(getattr(sys, "_base_executable", "")))
    opened = [
        f"--add-opens=java.base/{p}=ALL-UNNAMED"
        for p in ("java.nio", "sun.nio.ch", "java.net", "java.util")
    ]
    running: list[subprocess.Popen[str]] = []

    def start(host: Host, name: str, *words: str) -> subprocess.Popen[str]:
        spark, java = host.spark or require_pyspark(), host.java or find_java().home
        environ = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "SPARK_HOME": str(spark),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": host.address,
            "SPARK_WORKER_DIR": str(folder / "work" / host.address),
            "SPARK_LOCAL_DIRS": str(folder / "local" / host.address),
        }
        program = [str(java / "bin" / "java"), "-Xmx512m", "-cp", f"{spark}/jars/*", *opened]
        what = [f"org.apache.spark.deploy.{name}", "--host", host.address, *words]
        process = subprocess.Popen(
            [*host.enter, *program, *what],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    def said(process: subprocess.Popen[str], pattern: str) -> str:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if match := re.search(pattern, line):
                return match[0]
        raise AssertionError("".join(lines)[-3000:])

    try:
        master = start(master_on, "master.Master", "--port", "0", "--webui-port", "0")
        url = said(master, rf"spark://{re.escape(master_on.address)}:\d+")
        size = ("--cores", "2", "--memory", "1g", "--webui-port", "0")
        workers = [start(each, "worker.Worker", *size, url) for each in workers_on]
        for worker in workers:
            said(worker, "Successfully registered with master")
        yield url
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.communicate(timeout=WAIT_S)


def without_pk(folder: Path) -> Path:
    """A folder with the libraries that are installed here, but for pk."""
    folder.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "pk" not in re.split(r"[_.-]", each.name) and each.suffix != ".pth":
            (folder / each.name).symlink_to(each)
    return folder


@contextmanager
def connect_server(folder: Path, *, libraries: bool = False) -> Iterator[str]:
    """A server whose workers' Python is the machine's own, without pk and without its `libraries`,
    unless it must have these."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    bare = programs / python_of_workers()
    program = Path(getattr(sys, "_base_executable", ""))
    if libraries:
        # Before Spark's own path, whose pyspark is a zip: each process would compile it again.
        path = f"{without_pk(folder / 'libraries')}:$PYTHONPATH"
        bare.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{program}" "$@"\n')
        bare.chmod(0o755)
    else:
        bare.symlink_to(program)
    java = find_java()
    home = require_pyspark()
    environ = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "JAVA_HOME": str(launcher_home(java, folder) if java.bundled else java.home),
        "PYSPARK_PYTHON": str(bare),
        "TMPDIR": str(folder),
    }
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    words = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for key, value in conf.items():
        words += ["--conf", f"{key}={value}"]
    process = subprocess.Popen(
        [*words, "spark-internal"],
        env=environ,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        lines: deque[str] = deque(maxlen=100)
        for line in process.stderr:
            lines.append(line)
            if match := _STARTED.search(line):
                break
        else:
            raise AssertionError("".join(lines))
        # Its log must not fill the pipe.
        threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True).start()
        yield f"sc://127.0.0.1:{match[1]}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
