"""Starts pk's own broker as a person would: `pk up` in a process of its own, on loopback."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import preloaded

from clients.apache_kafka import free_ports

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 60.0


class PkBrokerError(Exception):
    """The broker did not start, or did not end; the message holds the end of its log."""


def pk_command(*args: str) -> list[str]:
    """The command line of `pk`: the installed command beside this interpreter, else its module."""
    installed = Path(sys.executable).with_name("pk")
    if installed.exists():
        return [str(installed), *args]
    return [
        sys.executable,
        "-c",
        "import sys; from pk.cli.main import main; sys.exit(main())",
        *args,
    ]


def pk_environment() -> dict[str, str]:
    """The environment in which `pk_command` finds the checkout, with output unbuffered."""
    paths = [str(ROOT / "scripts" / "path"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(each for each in paths if each),
        "PYTHONUNBUFFERED": "1",
    }


def start_pk(*words: str, **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen` of a `pk` command. If that makes no difference, it is forked from a
    process that has imported pk (`preloaded`)."""
    if preloaded.can_fork(options["env"]):
        return preloaded.Popen(words, **options)
    return subprocess.Popen(pk_command(*words), **options)


def start_python(*words: str, **options: Any) -> subprocess.Popen[Any]:
    """The same of a Python program: its file and its words, `-W` and an action before them if
    wanted."""
    command = [sys.executable, *words]
    forks = preloaded.can_fork(options["env"])
    return (preloaded.Popen if forks else subprocess.Popen)(command, **options)


def run_pk(
    *words: str, stdin: Any = None, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` of a `pk` command that `start_pk` starts, with its output captured."""
    return _run(start_pk, words, stdin, timeout, options)


def run_python(
    *words: str, stdin: Any = None, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """The same of a Python program that `start_python` starts."""
    return _run(start_python, words, stdin, timeout, options)


def _run(
    start: Callable[..., subprocess.Popen[Any]],
    words: Sequence[str],
    stdin: Any,
    timeout: float,
    options: Mapping[str, Any],
) -> subprocess.CompletedProcess[Any]:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with start(*words, **pipes, **options) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def heed_signals() -> None:
    """Restore a new process's signals: a background shell ignores SIGINT and nohup ignores SIGHUP,
    and their children would inherit that."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def running(*words: str, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
    """A `pk` command in a process of its own, which does not outlive the block.

    It heeds Ctrl-C and the end of its terminal, as below a shell.
    """
    with start_pk(
        *words,
        env=pk_environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


class PkBroker:
    """`pk up` with one broker, for the length of a `with` block, or by `start` and `stop` by hand.

    A broker that is started again keeps its port and its data. `config` are `-X` options, `options`
    further words of the command line. Data is in `directory`, else in a temporary folder that is
    removed by `close`. `log_text` has its output.
    """

    def __init__(
        self,
        *options: str,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
        memory: bool = False,
    ) -> None:
        self.options = list(options)
        self.config = dict(config or {})
        self.memory = memory
        self.bootstrap = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if directory is None and not memory:
            self._temporary = tempfile.TemporaryDirectory(prefix="pk-test-")
            directory = Path(self._temporary.name)
        self.directory = directory
        self._log: list[bytes] = []
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Self:
        try:
            self.start()
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

    @property
    def pid(self) -> int:
        """The process id of the broker that runs."""
        assert self.process is not None
        return self.process.pid

    @property
    def port(self) -> int:
        """The port it listens on (or did, when it last ran)."""
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def log_text(self) -> str:
        """Its standard output and error, over all its starts."""
        return b"".join(self._log).decode(errors="replace")

    def words(self) -> list[str]:
        """The words of the next start."""
        port = self.bootstrap.rpartition(":")[2] or str(free_ports(1)[0])
        words = ["up", "--port", port, *self.options]
        words += ["--memory"] if self.memory else ["--data", str(self.directory)]
        for key, value in self.config.items():
            words += ["-X", f"{key}={value}"]
        return words

    def start_process(self, **options: Any) -> subprocess.Popen[Any]:
        """Its process; `options` are those of `subprocess.Popen`."""
        return start_pk(*self.words(), **options)

    def start(self, timeout: float = START_TIMEOUT_S) -> str:
        """Starts it and returns host:port from its line of readiness.

        Raises PkBrokerError if it ends, or says nothing within `timeout` seconds.
        """
        self.launch()
        return self.wait_until_ready(timeout)

    def launch(self) -> None:
        """Starts its process, and returns at once."""
        self.process = self.start_process(
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=pk_environment(),
        )
        assert self.process.stderr is not None
        self._collect(self.process.stderr)

    def wait_until_ready(self, timeout: float = START_TIMEOUT_S) -> str:
        """Waits for the line of readiness of a process that was launched, and returns host:port.

        Raises PkBrokerError if it ends, or says nothing within `timeout` seconds.
        """
        assert self.process is not None and self.process.stdout is not None
        line = _line_within(self.process.stdout, timeout)
        self._log.append(line)
        found = re.search(rb"(\S+:\d+)\s*$", line)
        if not found:
            self.kill()
            raise PkBrokerError(f"pk up gave no address: {line!r}\n{self.log_text[-3000:]}")
        self._collect(self.process.stdout)
        self.bootstrap = found[1].decode()
        return self.bootstrap

    def stop(self) -> int:
        """Ends it in order (SIGTERM) and returns its exit code.

        Raises PkBrokerError (after SIGKILL) if it is still there after a minute.
        """
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Ends it at once (SIGKILL)."""
        return self._end(signal.SIGKILL)

    def close(self) -> None:
        """Kills it if it runs, and removes the temporary folder."""
        if self.process is not None:
            self.kill()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def rss_bytes(self) -> int:
        """Its resident memory now (Linux)."""
        return rss_bytes(self.pid)

    def _collect(self, pipe: IO[bytes]) -> None:
        reader = threading.Thread(target=lambda: self._log.extend(pipe), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _end(self, number: int) -> int:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(number)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise PkBrokerError(f"pk did not end:\n{self.log_text[-3000:]}") from None
        finally:
            for reader in self._readers:
                reader.join(STOP_TIMEOUT_S)
            self._readers.clear()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        return code


def rss_bytes(pid: int) -> int:
    """Resident memory of a process (Linux)."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def _line_within(pipe: IO[bytes], timeout: float) -> bytes:
    """One line of a pipe, or what came of it within `timeout` seconds. Reads unbuffered."""
    deadline = time.monotonic() + timeout
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not line.endswith(b"\n") and selector.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(pipe.fileno(), 1)
            if not piece:
                break
            line += piece
    return line
