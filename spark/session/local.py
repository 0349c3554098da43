"""A Spark for a single job, started quickly.

A short job spends most of its time starting, so this module does not start Spark as a program
usually does. The table shows the time in seconds on two cores, for a job of one task, and for a job
that also uses data sources and runs a stream:

    way                                                     one task   with a stream
    everything below                                          4.7           23
    without an archive of classes (class_archive.py)          8.3           29
    without the fork server (fork_server.py)                  5.0           32
    without it, from a home with Spark's zip of pyspark       5.7           35

- `launch` returns at once and `session` waits, so Python does its own work (imports,
  requests to brokers) while the JVM starts.
- The JVM is pk's own process, so its output goes to a log that error messages quote, Ctrl-C does
  not reach it, and it can be killed. Spark's `spark-submit` starts it as it does for
  `SparkSession.builder`. Two private names are needed: the variable by which the JVM says where it
  listens, and the class attributes of SparkContext by which the next session of this process starts
  a JVM of its own.
- The optimizing compiler costs more than it saves in a job of a few seconds: writing 2,000,000
  records to parquet takes 18 s of CPU with it, 15 s without. At 4,000,000 both are equal;
  12,000,000 take 28 s with it and 42 s without, hence `long`.
- There is no user interface, no Hive, and no performance counters; the garbage collector has a
  single thread.
"""

import contextlib
import os
import re
import shlex
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pk.spark.errors import OptionError, SparkFailed
from pk.spark.java import (
    find_java,
    launcher_home,
    require_pyspark,
    worker_environment,
    workers_find,
)
from pk.spark.reasons import reason
from pk.spark.session.class_archive import ClassArchive, archive_of, home_without_zip
from pk.spark.session.folder import SessionFolder, remove_abandoned
from pk.spark.session.fork_server import ForkServer, can_fork
from pk.spark.session.interrupts import DeferredInterrupts, QuietPy4j
from pk.spark.session.package import ZIP, archive_name, python_of_workers, write_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ONLY_HERE: Final = ("spark.driver.host", "spark.driver.bindAddress", "spark.local.dir")
"""Configs that apply only to a Spark whose workers are on this machine."""

_START_TIMEOUT_S: Final = 120
_END_TIMEOUT_S: Final = 10
_END_S: Final = 2
_ARCHIVE_TIMEOUT_S: Final = 600
_POLL_S: Final = 0.01
_LOG_CHARS: Final = 2_000
_HEAP_BASE_MB: Final = 640
_HEAP_A_CORE_MB: Final = 384

_LOG4J: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c: %m%n%ex
"""


def _as_properties(settings: Mapping[str, str]) -> str:
    """The settings in the format of a Java properties file."""
    lines: list[str] = []
    for key, value in settings.items():
        text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        name = re.sub(r"([\\:=#!\s])", r"\\\1", key)
        lines.append(f"{name}={text}\n")
    return "".join(lines)


@dataclass(frozen=True, slots=True)
class Where:
    """The place where tasks run: this machine, the cluster of `master`, or the Spark Connect server
    `remote`."""

    master: str | None = None
    """The master's URL: `spark://…`, `yarn`, `k8s://…`. None or `local[…]` means this machine."""

    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark's configs, which override those of pk."""

    archives: Sequence[str] = ()
    """Archives for the workers, FILE or FILE#FOLDER; on a cluster, each is added to their
    PYTHONPATH."""

    remote: str | None = None
    """A Spark Connect server, `sc://HOST:PORT`, instead of a master."""

    @property
    def on_cluster(self) -> bool:
        return self.remote is not None or (
            self.master is not None and not self.master.startswith("local")
        )

    @property
    def in_one_process(self) -> bool:
        """Whether tasks run in the driver's process. `local-cluster[…]` starts executor processes
        on this machine instead; they find Spark through SPARK_HOME."""
        return not self.on_cluster and not (self.master or "").startswith("local-cluster")


HERE: Final = Where()


class OwnSpark:
    """A JVM that runs Spark. Made by `launch`; leaving the context manager ends the JVM."""

    def __init__(
        self,
        cores: int,
        conf: Mapping[str, str],
        long: bool,
        inherited: Sequence[int],
        jars: Sequence[str],
        where: Where,
        archive: ClassArchive | None,
    ) -> None:
        self._where = where
        self._archive = archive
        self._python = worker_environment(os.environ)["PYSPARK_PYTHON"]
        if where.on_cluster:
            # The workers have their own Python, which must have the same version as this one.
            self._python = where.conf.get("spark.pyspark.python", python_of_workers())
        self._home = require_pyspark()
        self._java = find_java()
        self._own = SessionFolder()
        self._folder = self._own.path
        self._info = self._folder / "gateway"
        self._cores = cores
        self._session: SparkSession | None = None
        self._gateway: Any = None
        self._forks: ForkServer | None = None
        try:
            self._process = self._start(conf, long, inherited, jars)
        except BaseException:
            if self._forks is not None:
                self._forks.close()
            self._own.close()
            raise
        self._removal = threading.Thread(target=remove_abandoned, daemon=True)
        self._removal.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start(
        self,
        conf: Mapping[str, str],
        long: bool,
        inherited: Sequence[int],
        jars: Sequence[str],
    ) -> "subprocess.Popen[bytes]":
        environ = self._environment()
        settings = self._folder / "spark.properties"
        settings.touch(mode=0o600)  # some are secrets, and all users can see a command line
        settings.write_text(_as_properties(self._settings(conf, long, jars)), encoding="utf-8")
        (self._folder / "log4j2.properties").write_text(_LOG4J)
        program = os.path.join(environ["SPARK_HOME"], "bin", "spark-submit")
        with (self._folder / "log").open("wb") as log:
            # The gateway ends when its standard input closes, and therefore also when this process
            # dies. In a process session of its own it does not receive Ctrl-C: this process stops
            # the job and cleans up.
            return subprocess.Popen(
                [program, "--properties-file", str(settings), "pyspark-shell"],
                env=environ,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                pass_fds=(self._own.lock, *inherited),
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        """The environment variables of the JVM. Starts the fork server, if it can serve as Spark's
        Python."""
        where = self._where
        environ = {**os.environ, **worker_environment(os.environ)}
        environ |= {
            "JAVA_HOME": str(launcher_home(self._java, self._folder)),
            "SPARK_HOME": str(self._home),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info),
        }
        if where.on_cluster:
            return environ | self._python_of_sources(environ.get("PATH", os.defpath))
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        if not where.in_one_process:
            return environ
        environ.pop("SPARK_CONF_DIR", None)  # it has the settings of a cluster
        if "spark.pyspark.python" not in where.conf and workers_find(self._home, environ):
            # Spark puts the zip of pyspark in its home at the front of the workers' path. Each
            # process that Spark starts compiles the modules of a zip again, which takes 0.7 s of
            # CPU, compared with 0.15 s for an installed pyspark.
            with contextlib.suppress(OSError):  # the cache directory cannot be created
                environ["SPARK_HOME"] = str(home_without_zip(self._home))
            if can_fork(self._folder):
                self._forks = ForkServer(self._folder, environ, (self._own.lock,))
                self._python = str(self._forks.python)
                # Planning processes next to the driver run the driver's Python.
                environ |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), self._python)
        return environ

    def _settings(self, conf: Mapping[str, str], long: bool, jars: Sequence[str]) -> dict[str, str]:
        """Spark's configs: pk's, then those of the job, then the user's."""
        where = self._where
        settings = {
            "spark.master": f"local[{self._cores}]",
            "spark.app.name": "pk",
            "spark.submit.deployMode": "client",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": f"{_HEAP_BASE_MB + _HEAP_A_CORE_MB * self._cores}m",
            "spark.local.dir": str(self._folder),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
            **conf,
            **self._cluster_settings(),
            **where.conf,
        }
        if where.on_cluster:
            for name in _ONLY_HERE:
                if name not in where.conf:
                    settings.pop(name)
        given = settings.get("spark.driver.extraJavaOptions", "")
        options = f"{shlex.join(self._java_options(long))} {given}".rstrip()
        settings["spark.driver.extraJavaOptions"] = options
        if jars:
            given = settings.get("spark.driver.extraClassPath", "")
            classes = os.pathsep.join(filter(None, (given, *jars)))
            settings["spark.driver.extraClassPath"] = classes
        return settings

    def _java_options(self, long: bool) -> list[str]:
        return [
            "-XX:+IgnoreUnrecognizedVMOptions",
            "-XX:+UseParallelGC" if long else "-XX:+UseSerialGC",
            *(() if long else ("-XX:TieredStopAtLevel=1",)),
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={self._folder}",
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}",
            *self._archive_options(),
        ]

    def _archive_options(self) -> list[str]:
        if self._archive is not None:
            return self._archive.options_to_make()
        try:
            return archive_of(self._java, self._home).options_to_use()
        except OSError:
            return []

    def _python_of_sources(self, path: str) -> dict[str, str]:
        """The JVM's variables with the Python for data sources. Spark uses the same name on the
        driver and on the workers. If the workers look up the name on their PATH, it must mean this
        interpreter on the driver."""
        word = self._python
        if os.sep in word:
            here = word if os.access(word, os.X_OK) else sys.executable
            return dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), here)
        program = self._folder / "bin" / word
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        program.chmod(0o700)
        return {
            "PYSPARK_PYTHON": word,
            "PYSPARK_DRIVER_PYTHON": word,
            "PATH": os.pathsep.join((str(program.parent), path)),
        }

    def _cluster_settings(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self._where.master is not None:
            found["spark.master"] = self._where.master
        if self._where.on_cluster:
            # Spark adds pk's zip to the path of functions, but not to the path of data sources.
            names = (*map(archive_name, self._where.archives), ZIP)
            found["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(names)
        return found

    def _ship(self, session: "SparkSession") -> None:
        """Send pk and the archives to the cluster's workers."""
        context, before = session.sparkContext, list(sys.path)
        context.addPyFile(str(write_zip(self._folder / ZIP)))
        sys.path[:] = before  # pk is already installed here
        for archive in self._where.archives:
            path = Path(archive.partition("#")[0]).absolute()
            context.addArchive(f"{path}#{archive_name(archive)}")

    def session(self) -> "SparkSession":
        """Wait for the JVM and return its session. Raises SparkFailed with the end of Spark's
        log."""
        if self._session is not None:
            return self._session
        from py4j.protocol import Py4JError
        from pyspark import SparkContext
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        if SparkContext._active_spark_context is not None:
            raise SparkFailed("this process already has a Spark session; pass it as `spark`")
        port, secret = self._wait_for_gateway()
        reported = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        before = {key: os.environ.get(key) for key in (*reported, "PYSPARK_PYTHON")}
        os.environ.update(reported, PYSPARK_PYTHON=self._python)
        try:
            self._session = SparkSession.builder.getOrCreate()
            if self._where.on_cluster:
                self._ship(self._session)
        except (PySparkException, Py4JError, OSError) as e:
            raise SparkFailed(f"Spark did not start: {reason(e)}{self.log_tail()}") from e
        finally:
            self._gateway = SparkContext._gateway
            for key, value in before.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value
        return self._session

    def _wait_for_gateway(self) -> tuple[int, str]:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                data = self._info.read_bytes()  # Spark renames the complete file to this name
            except FileNotFoundError:
                data = b""
            if data:
                port, size = struct.unpack_from(">ii", data)
                return port, data[8 : 8 + size].decode()
            if self._process.poll() is not None:
                raise SparkFailed(
                    f"Spark's Java ({self._java.program}) ended with {self._process.returncode}"
                    f" while starting{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise SparkFailed(f"Spark did not start in {_START_TIMEOUT_S} s{self.log_tail()}")
            time.sleep(_POLL_S)

    def log_tail(self) -> str:
        """The end of Spark's log, for the end of an error message."""
        try:
            text = (self._folder / "log").read_text(errors="replace").strip()
        except OSError:
            return ""
        return f"; its log ends with:\n{text[-_LOG_CHARS:]}" if text else ""

    def kill(self) -> None:
        """Kill the JVM at once. `close` is still needed."""
        self._process.kill()
        self._process.wait()

    def ended_by(self) -> str | None:
        """How the JVM ended; None if it still runs. Waits briefly, since a JVM may have closed its
        connections just before it ends."""
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return None
        if status < 0:
            return f"Spark's Java was ended by signal {-status}"
        return f"Spark's Java ended with {status}{self.log_tail()}"

    @property
    def exit_status(self) -> int | None:
        """The exit status of the JVM, once it has ended; a negative number is that of the signal
        that killed it."""
        return self._process.returncode

    def close(self) -> None:
        """Stop Spark, end the JVM and remove its files. Idempotent. A Ctrl-C during this is raised
        only at the end."""
        with DeferredInterrupts(), QuietPy4j():
            self._close()

    def _close(self) -> None:
        from pyspark import SparkContext

        ready = self._session is not None and self._process.poll() is None
        if self._session is not None:
            ready = _stop(self._session) and ready
        if self._gateway is not None and SparkContext._gateway is self._gateway:
            # pyspark keeps the gateway for the next session of this process, but this gateway is
            # gone.
            self._gateway.shutdown()
            SparkContext._gateway = None
            SparkContext._jvm = None
            SparkContext._active_spark_context = None
        self._session = self._gateway = None
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not ready:
            self._process.kill()
        try:
            self._process.wait(_END_TIMEOUT_S if self._archive is None else _ARCHIVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._forks is not None:
            self._forks.close()
        self._own.close()
        self._removal.join()


def _stop(session: "SparkSession") -> bool:
    """Stop a session, so that this process can start another. Returns False if the session's JVM
    has died."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # about a JVM that may have died
            session.stop()
    except (Py4JError, OSError):
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        return False
    return True


def launch(
    *,
    cores: int,
    conf: Mapping[str, str] | None = None,
    long: bool = False,
    inherited: Sequence[int] = (),
    jars: Sequence[str] = (),
    where: Where = HERE,
    archive: ClassArchive | None = None,
) -> OwnSpark:
    """Start a JVM that runs Spark with `cores` parallel tasks, or the driver for a cluster. Returns
    while the JVM starts.

    `long` is for jobs of more than about ten seconds. The JVM inherits the descriptors `inherited`,
    and has `jars` on its class path, such as a JDBC driver. When it exits, it writes the classes
    that it loaded to `archive` (pk.spark.session.warm_up).

    Raises SparkMissing, OSError; OptionError if `where` is a Spark Connect server, on which only
    exports run (pk.spark.connect).
    """
    if where.remote is not None:
        raise OptionError(
            "only an export can run on a Spark Connect server; use --master, or a local Spark"
        )
    return OwnSpark(cores, conf or {}, long, inherited, jars, where, archive)
