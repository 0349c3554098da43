"""Starts a real Apache Kafka to compare with, and runs its command-line tools.

Used by the tests that carry the mark `peer` and by the benchmark. The jars come from Maven, once,
into the user's cache (`$XDG_CACHE_HOME` or `~/.cache`, then `pk-apache-kafka/<version>`); a file
lock makes parallel test workers fetch them once. Nothing here is needed to use pk.

By hand: `python tests/clients/apache_kafka.py --brokers 3` starts a cluster, prints its bootstrap
addresses, and ends it on end of input or Ctrl-C.
"""

from __future__ import annotations

import argparse
import atexit
import base64
import contextlib
import fcntl
import functools
import glob
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

VERSION = "4.3.1"
JAVA_MIN = 17
START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 120.0

# The collector and pauses of Kafka's own start script; the heap is the caller's choice.
SERVER_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)
# The broker of a test runs for minutes at most: the optimising compiler and the parallel collector
# take half of its CPU, and it never gets that back.
TEST_SERVER_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# It waits most of that time. Each thread looks for work several times a second, a controller writes
# a record twice a second to show that it is there, and three topics have fifty partitions each.
TEST_SERVER = {
    "background.threads": "2",
    "group.coordinator.threads": "1",
    "metadata.max.idle.interval.ms": "0",
    "num.io.threads": "2",
    "num.network.threads": "1",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.threads": "1",
    "transaction.state.log.num.partitions": "4",
}
# A tool that runs for a second or two spends most of it in the optimising compiler.
SHORT_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
PERF_JVM = ("-Xmx768m",)
ARCHIVES = "PK_CLASS_ARCHIVES"
"""Names the folder that clients/class_archives.py made. Without it no JVM has one."""

_LOG4J = """\
rootLogger.level=WARN
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.target=SYSTEM_ERR
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c %m%n
"""


def _in_a_test() -> bool:
    return "PYTEST_VERSION" in os.environ


class ApacheKafkaError(Exception):
    """Apache Kafka could not be fetched or started; the message holds the end of its log."""


def java() -> str | None:
    """Path of the java that JAVA_HOME or PATH names, or None."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home, "bin", "java"), os.X_OK):
        return str(Path(home, "bin", "java"))
    return shutil.which("java")


@functools.cache
def _java_version(program: str) -> int | None:
    ran = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', ran.stderr + ran.stdout)
    if not found:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def available() -> str | None:
    """None if Apache Kafka can run here, else the reason why it cannot, in a few words."""
    program = java()
    if program is None:
        return "java is not installed"
    version = _java_version(program)
    if version is None or version < JAVA_MIN:
        return f"java is older than {JAVA_MIN}"
    if not _complete_mark().exists() and shutil.which("mvn") is None:
        return "mvn is not installed"
    return None


def _home() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "pk-apache-kafka" / VERSION


def _complete_mark() -> Path:
    return _home() / ".complete"


_LOG4J_JARS = (
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ("org.apache.logging.log4j", "log4j-core", "2.24.3"),
)
_DEPENDENCIES = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    *_LOG4J_JARS,
)
"""(group, artifact, version)."""


def _pom_of(dependencies: Sequence[tuple[str, str, str]]) -> str:
    listed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in dependencies
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>pk</groupId><artifactId>peer</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{listed}</dependencies></project>\n"
    )


def _copy_dependencies(pom: Path, folder: Path, *options: str) -> None:
    """Raises ApacheKafkaError with Maven's last words if it fails."""
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", *options]
    ran = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise ApacheKafkaError(f"mvn failed: {(ran.stdout + ran.stderr)[-2000:]}")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on `path` (made if need be), between processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def jars() -> Path:
    """The folder of all of Apache Kafka's jars, fetched by Maven at the first call ever.

    Raises ApacheKafkaError with Maven's last words if it fails.
    """
    home = _home()
    if _complete_mark().exists():
        return home / "libs"
    with locked(home / ".lock"):
        if not _complete_mark().exists():
            home.joinpath("pom.xml").write_text(_pom_of(_DEPENDENCIES))
            home.joinpath("log4j2.properties").write_text(_LOG4J)
            _copy_dependencies(home / "pom.xml", home / "libs")
            _complete_mark().touch()
    return home / "libs"


def streams_jars() -> Path:
    """The folder of what Kafka Streams needs beside `jars()`, fetched by Maven at the first call
    ever.

    Raises ApacheKafkaError with Maven's last words if it fails.
    """
    folder = _home() / "streams"
    if not (folder / ".complete").exists():
        with locked(_home() / ".streams-lock"):
            if not (folder / ".complete").exists():
                folder.mkdir(exist_ok=True)
                (folder / "pom.xml").write_text(
                    _pom_of([("org.apache.kafka", "kafka-streams", VERSION)])
                )
                _copy_dependencies(
                    folder / "pom.xml", folder, "-DincludeArtifactIds=kafka-streams,rocksdbjni"
                )
                (folder / ".complete").touch()
    return folder


def avro_jars() -> Path:
    """The folder of Apache's Avro library, fetched by Maven at the first call ever.

    Raises ApacheKafkaError with Maven's last words if it fails.
    """
    folder = _home() / "avro"
    mark = folder / ".complete"
    if not mark.exists():
        with locked(_home() / ".avro-lock"):
            if not mark.exists():
                folder.mkdir(exist_ok=True)
                (folder / "pom.xml").write_text(_pom_of([("org.apache.avro", "avro", "1.12.0")]))
                _copy_dependencies(folder / "pom.xml", folder, "-DincludeArtifactIds=avro")
                mark.touch()
    return folder


def older_jars(version: str) -> Path:
    """The folder of the clients and tools of an older release, with what they need, fetched by
    Maven at the first call ever.

    Raises ApacheKafkaError with Maven's last words if it fails.
    """
    folder = _home().with_name(f"{version}-tools")
    mark = folder / ".complete"
    if not mark.exists():
        with locked(folder.with_name(f".{version}-lock")):
            if not mark.exists():
                folder.mkdir(exist_ok=True)
                wanted = [("org.apache.kafka", "kafka-tools", version), *_LOG4J_JARS]
                (folder / "pom.xml").write_text(_pom_of(wanted))
                _copy_dependencies(folder / "pom.xml", folder)
                mark.touch()
    return folder


TIERED = {
    "remote.log.storage.manager.class.name": (
        "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    ),
    "remote.log.metadata.manager.class.name": (
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
    ),
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
}
"""The configuration of a broker with tiered storage, but for its jar (`tiered_jar`) and
`rsm.config.dir`."""


def tiered_jar() -> Path:
    """Apache Kafka's own test jar with LocalTieredStorage, a store in a directory, fetched by Maven
    at the first call ever.

    Raises ApacheKafkaError with Maven's last words if it fails.
    """
    folder = _home().with_name(f"{VERSION}-tiered")
    jar = folder / f"kafka-storage-{VERSION}-test.jar"
    with locked(folder.with_name(f".{VERSION}-tiered-lock")):
        if not jar.exists():
            artifact = f"org.apache.kafka:kafka-storage:{VERSION}:jar:test"
            options = [f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
            ran = subprocess.run(
                ["mvn", "-q", "-B", "dependency:copy", *options],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if ran.returncode:
                raise ApacheKafkaError(f"mvn failed: {(ran.stdout + ran.stderr)[-2000:]}")
    return jar


_FLINK = (
    ("org.apache.flink", "flink-clients", "2.1.0"),
    ("org.apache.flink", "flink-streaming-java", "2.1.0"),
    ("org.apache.flink", "flink-connector-base", "2.1.0"),
    ("org.apache.flink", "flink-connector-kafka", "4.0.1-2.0"),
)
FLINK_VERSIONS = f"{_FLINK[0][2]}, connector {_FLINK[-1][2]}"


def flink_jars() -> Path:
    """The folder of Apache Flink's jars, its connector for Kafka, and that one's Kafka clients,
    fetched by Maven at the first call ever.

    Raises ApacheKafkaError with Maven's last words if it fails.
    """
    folder = _home().parent / f"flink-{_FLINK[0][2]}"
    mark = folder / ".complete"
    if not mark.exists():
        with locked(folder.with_suffix(".lock")):
            if not mark.exists():
                folder.mkdir(exist_ok=True)
                (folder / "pom.xml").write_text(_pom_of(_FLINK))
                _copy_dependencies(folder / "pom.xml", folder)
                mark.touch()
    return folder


DEBEZIUM_VERSION = "3.5.0.Final"


def debezium_plugins() -> Path:
    """A folder for Connect's `plugin.path` that holds Debezium's connector for PostgreSQL, fetched
    by Maven at the first call ever.

    Raises ApacheKafkaError with Maven's last words if it fails.
    """
    folder = _home().parent / f"debezium-{DEBEZIUM_VERSION}"
    mark = folder / ".complete"
    if not mark.exists():
        with locked(folder.with_suffix(".lock")):
            if not mark.exists():
                folder.mkdir(exist_ok=True)
                connector = ("io.debezium", "debezium-connector-postgres", DEBEZIUM_VERSION)
                (folder / "pom.xml").write_text(_pom_of([connector]))
                _copy_dependencies(
                    folder / "pom.xml", folder / "plugins" / "debezium", "-DincludeScope=runtime"
                )
                mark.touch()
    return folder / "plugins"


def java_command(
    class_name: str,
    *args: str,
    jvm: Sequence[str] = SHORT_JVM,
    more_jars: Sequence[Path] = (),
    libs: Path | None = None,
) -> list[str]:
    """The command line that runs one of the jars' classes, or the class of a Java file that uses
    them. `more_jars` are further jars, or folders of jars. `libs` is another release's
    (`older_jars`).

    Raises ApacheKafkaError if java is missing, or the file has an error.
    """
    program = java()
    if program is None:
        raise ApacheKafkaError("java is not installed")
    log4j = jars().parent / "log4j2.properties"
    libs = jars() if libs is None else libs
    classes = [str(each if each.suffix == ".jar" else each / "*") for each in (libs, *more_jars)]
    if class_name.endswith(".java"):
        source = Path(class_name)
        class_name = source.stem
        classes.append(str(_compiled(program, source, classes)))
    joined = os.pathsep.join(classes)
    options = [*jvm, f"-Dlog4j2.configurationFile={log4j}", "-cp", joined]
    archives = os.environ.get(ARCHIVES)
    if archives and libs == jars():
        options += _from_archive(class_name, Path(archives))
    return [program, *options, class_name, *args]


def _compiled(program: str, source: Path, classes: Sequence[str]) -> Path:
    """The folder of the compiled file, which the first call ever makes: a JVM that is given a
    source compiles it at each start, which takes longer than most of them run."""
    digest = hashlib.sha256("\n".join([*classes, source.read_text()]).encode()).hexdigest()[:16]
    folder = _home() / "compiled" / f"{source.stem}-{digest}"
    mark = folder / ".complete"
    if not mark.exists():
        with locked(folder.with_suffix(".lock")):
            if not mark.exists():
                found = [path for each in classes for path in glob.glob(each)]
                ran = subprocess.run(
                    [
                        *(program, *SHORT_JVM, "-m", "jdk.compiler/com.sun.tools.javac.Main"),
                        *("-nowarn", "-proc:none", "-d", str(folder)),
                        *("-cp", os.pathsep.join(found), str(source)),
                    ],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if ran.returncode:
                    raise ApacheKafkaError(f"{source.name} has errors: {ran.stderr[-2000:]}")
                mark.touch()
    return folder


def archive_of(class_name: str, folder: Path) -> Path:
    """The archive of the classes that a program loads."""
    return folder / f"{class_name}.jsa"


def _from_archive(class_name: str, folder: Path) -> list[str]:
    """The options of a JVM that takes its classes from an archive: the program's own, or that of a
    tool, which has the most of what another one needs. Without a word: a JVM that cannot use it
    starts as ever."""
    for name in (class_name, "org.apache.kafka.tools.TopicCommand"):
        if (path := archive_of(name, folder)).exists():
            return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:disable"]
    return []


class _ToolRunner:
    """A JVM that runs tools one after another (`ToolRunner.java`), until this process ends: another
    call takes a twentieth of the CPU of another JVM."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            java_command(str(Path(__file__).with_name("ToolRunner.java"))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(self._close)

    def run(self, words: Sequence[str], input: bytes, timeout: float) -> tuple[int, bytes, bytes]:
        """A tool's exit code, and what it wrote to its output and to its errors.

        Raises subprocess.TimeoutExpired after `timeout` seconds; then the JVM is gone.
        """
        with self._lock:
            late = threading.Event()

            def end() -> None:
                late.set()
                self._process.kill()

            timer = threading.Timer(timeout, end)
            timer.start()
            try:
                self._write("\0".join(words).encode())
                self._write(input)
                (code,) = struct.unpack(">i", self._read(4))
                return code, self._text(), self._text()
            except (EOFError, BrokenPipeError):
                if late.is_set():
                    raise subprocess.TimeoutExpired(words, timeout) from None
                raise ApacheKafkaError(f"the JVM that ran {words} ended") from None
            finally:
                timer.cancel()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def _write(self, text: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(struct.pack(">i", len(text)) + text)
        self._process.stdin.flush()

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        found = self._process.stdout.read(size)
        if len(found) < size:
            self._process.wait()
            raise EOFError
        return found

    def _text(self) -> bytes:
        return self._read(*struct.unpack(">i", self._read(4)))

    def _close(self) -> None:
        self._process.kill()
        self._process.wait()


_runners: dict[str | None, _ToolRunner] = {}
"""By the further options of a JVM that the environment names."""


_HOOKED = ("VerifiableConsumer", "VerifiableProducer", "VerifiableShareConsumer")
"""Tools that end their work in a hook of the JVM."""


def _runner() -> _ToolRunner:
    options = os.environ.get("JAVA_TOOL_OPTIONS")
    found = _runners.get(options)
    if found is None or not found.alive:
        found = _runners[options] = _ToolRunner()
    return found


def run_tool(
    class_name: str, *args: str, input: str = "", timeout: float = 180.0
) -> subprocess.CompletedProcess[str]:
    """Run a tool (e.g. `org.apache.kafka.tools.TopicCommand`) to its end, almost always in a
    JVM that this process keeps for such runs. Bytes that are not UTF-8 come as surrogate escapes.

    Its exit code is the caller's to judge.

    Raises subprocess.TimeoutExpired after `timeout` seconds, ApacheKafkaError if the JVM ends.
    """
    words = [class_name, *args]
    if class_name.endswith(_HOOKED):
        ran = subprocess.run(
            java_command(*words),
            input=input.encode(), capture_output=True, timeout=timeout, check=False,
        )  # fmt: skip
        code, out, err = ran.returncode, ran.stdout, ran.stderr
    else:
        code, out, err = _runner().run(words, input.encode(), timeout)
    return subprocess.CompletedProcess(
        words, code, *(text.decode(errors="surrogateescape") for text in (out, err))
    )


def start_tool(
    class_name: str,
    *args: str,
    jvm: Sequence[str] = SHORT_JVM,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> subprocess.Popen[str]:
    """Starts a tool in the background with pipes for its input and output; the caller ends it."""
    return subprocess.Popen(
        java_command(class_name, *args, jvm=jvm),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def _listening_ports() -> range:
    """Those that this system does not give to outgoing connections, if it leaves enough, so that a
    node that is away finds its port free when it returns."""
    usual = range(10_000, 32_000)
    try:
        outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except OSError:
        return usual
    first, last = int(outgoing[0]), int(outgoing[1])
    left = max(range(usual.start, min(first, usual.stop)), range(last + 1, 65_536), key=len)
    return left if len(left) >= 2_000 else usual


PORTS = _listening_ports()

_WORKERS_MAX = 20
_next_port: int | None = None


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 without a listener, all different.

    What listens there may do so only seconds later, or again after it was killed: so no other
    worker of pytest-xdist is given any of them, nor this one before it has been given all others.
    """
    global _next_port
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _WORKERS_MAX
    mine = PORTS[number::_WORKERS_MAX]
    at = random.randrange(len(mine)) if _next_port is None else _next_port
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            probe = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", mine[at % len(mine)]))
                found.append(probe.getsockname()[1])
            at += 1
    _next_port = at
    return found


def brokers_alive(host: str, port: int, timeout: float = 5.0) -> int | None:
    """How many brokers this broker's Metadata answer (version 1) lists; None if there is none."""
    request = struct.pack(">hhihi", 3, 1, 1, -1, 0)
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = b""
            while len(answer) < 12:
                piece = connection.recv(4096)
                if not piece:
                    return None
                answer += piece
            return int.from_bytes(answer[8:12], "big")
    except OSError:
        return None


class ApacheKafka:
    """A KRaft cluster of `brokers` nodes on loopback, for the length of a `with` block.

    Node ids count from 1; up to three of them are controllers too. `properties` are added to each
    node's server.properties, and win over the defaults below. Data is in `directory`, else in a
    temporary folder that is removed at the end. `heap` is each node's Java heap, e.g. "1G".
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        heap: str = "512m",
    ) -> None:
        self.brokers = brokers
        self.heap = heap
        self.properties = dict(properties or {})
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._given_directory = directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        ports = free_ports(2 * brokers)
        self._broker_ports, self._controller_ports = ports[:brokers], ports[brokers:]

    # -- what it is

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, separated by commas."""
        return ",".join(f"127.0.0.1:{port}" for port in self._broker_ports)

    @property
    def directory(self) -> Path:
        """The folder that holds `node-<id>/` with server.properties, server.log and data."""
        if self._given_directory is not None:
            return self._given_directory
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="pk-apache-kafka-")
        return Path(self._temporary.name)

    @property
    def pids(self) -> list[int]:
        """Process ids of the nodes that run."""
        return [each.pid for each in self._processes.values() if each.poll() is None]

    @property
    def running(self) -> set[int]:
        """The ids of the nodes that run."""
        return {node for node, process in self._processes.items() if process.poll() is None}

    def port(self, node_id: int) -> int:
        """The client port of a node."""
        return self._broker_ports[node_id - 1]

    def log_dir(self, node_id: int) -> Path:
        """The data directory (`log.dirs`) of a node."""
        return self.directory / f"node-{node_id}" / "data"

    def log_text(self, node_id: int) -> str:
        """A node's console output so far."""
        return (self.directory / f"node-{node_id}" / "server.log").read_text(errors="replace")

    # -- life

    def __enter__(self) -> Self:
        try:
            self.format()
            for node_id in range(1, self.brokers + 1):
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
        """Ends all nodes and removes the temporary folder; those whose files somebody wants are
        ended in order."""
        number = signal.SIGTERM if self._temporary is None else signal.SIGKILL
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(number)
        for node_id in list(self._processes):
            self._end(node_id, number)
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def format(self) -> None:
        """Writes each node's server.properties and formats its data directory.

        Raises ApacheKafkaError if the storage tool refuses.
        """
        cluster_id = base64.urlsafe_b64encode(b"\x40" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        for node_id in range(1, self.brokers + 1):
            path = self._properties_path(node_id)
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = (f"{key}={value}\n" for key, value in self.server_properties(node_id).items())
            path.write_text("".join(lines))
            words = ("format", "-t", cluster_id, "-c", str(path))
            ran = run_tool("kafka.tools.StorageTool", *words)
            if ran.returncode:
                raise ApacheKafkaError(f"format failed: {ran.stdout}{ran.stderr}")

    def start(self, node_id: int, *, wait: bool = True) -> None:
        """Starts a node that is not running; with `wait`, returns when the cluster lists it.

        Outside of pytest it runs as Apache Kafka's own script starts it: scripts/bench measures it.
        """
        how = TEST_SERVER_JVM if _in_a_test() else SERVER_JVM
        # A JVM that is killed leaves the native libraries that it unpacked in this folder.
        temporary = f"-Djava.io.tmpdir={self._properties_path(node_id).parent}"
        command = java_command(
            "kafka.Kafka",
            str(self._properties_path(node_id)),
            jvm=(f"-Xms{self.heap}", f"-Xmx{self.heap}", *how, temporary),
        )
        with (self.directory / f"node-{node_id}" / "server.log").open("ab") as log:
            self._processes[node_id] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        if wait:
            self.wait_until_ready()

    def stop(self, node_id: int) -> None:
        """Ends a node in order (SIGTERM), by force after two minutes."""
        self._end(node_id, signal.SIGTERM)

    def kill(self, node_id: int) -> None:
        """Ends a node at once (SIGKILL)."""
        self._end(node_id, signal.SIGKILL)

    def pause(self, node_id: int) -> None:
        """Stops a node from running (SIGSTOP), its connections and all; returns once each of its
        threads has stopped."""
        process = self._processes[node_id]
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self, node_id: int) -> None:
        """Lets it run on (SIGCONT)."""
        self._processes[node_id].send_signal(signal.SIGCONT)

    def wait_until_ready(self, timeout: float = START_TIMEOUT_S) -> None:
        """Waits until every running node's Metadata answer lists all running nodes.

        Raises ApacheKafkaError when a node dies or `timeout` seconds have passed.
        """
        deadline = time.monotonic() + timeout
        running = {n: p for n, p in self._processes.items() if p.poll() is None}
        for node_id, process in self._processes.items():
            while brokers_alive("127.0.0.1", self.port(node_id)) != len(running):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)  # the pause between two questions; ends early if it dies
                    raise self._failed(node_id, "ended")
                if time.monotonic() > deadline:
                    raise self._failed(node_id, f"did not answer within {timeout:.0f} s")

    # -- inside

    def _end(self, node_id: int, number: int) -> None:
        process = self._processes.pop(node_id)
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _failed(self, node_id: int, what: str) -> ApacheKafkaError:
        return ApacheKafkaError(
            f"Apache Kafka node {node_id} {what}:\n{self.log_text(node_id)[-3000:]}"
        )

    def _properties_path(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}" / "server.properties"

    def server_properties(self, node_id: int) -> dict[str, str]:
        """The configuration of a node."""
        # An even quorum survives no more deaths than the odd one below it.
        controllers = 1 if self.brokers < 3 else 3
        voters = ",".join(
            f"{n}@127.0.0.1:{self._controller_ports[n - 1]}" for n in range(1, controllers + 1)
        )
        copies = str(min(3, self.brokers))
        frugal = TEST_SERVER if _in_a_test() else {}
        plain = f"PLAINTEXT://127.0.0.1:{self.port(node_id)}"
        is_controller = node_id <= controllers
        controller = f",CONTROLLER://127.0.0.1:{self._controller_ports[node_id - 1]}"
        return {
            "process.roles": "broker,controller" if is_controller else "broker",
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": plain + (controller if is_controller else ""),
            "advertised.listeners": plain,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir(node_id)),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **frugal,
        } | self.properties


def main() -> int:
    """Runs a cluster until standard input ends."""
    parser = argparse.ArgumentParser(description="Run an Apache Kafka cluster on loopback.")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--heap", default="512m")
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--directory", type=Path, help="where data lies; else a temporary folder")
    options = parser.parse_args()
    reason = available()
    if reason is not None:
        print(f"Apache Kafka cannot run here: {reason}", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the nodes end too
    properties = dict(each.split("=", 1) for each in options.property)
    kafka = ApacheKafka(
        options.brokers, properties=properties, heap=options.heap, directory=options.directory
    )
    try:
        with kafka:
            print(kafka.bootstrap, flush=True)
            while sys.stdin.buffer.read(1):
                pass
    except KeyboardInterrupt:
        return 130
    except ApacheKafkaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
