"""Starts Spark's Python processes by forking a process that has already imported the modules.

Spark starts a Python process for each kind of work: finding data sources, creating them, planning,
reading a stream's offsets, committing, and forking workers. Each would import pyspark, pyarrow,
numpy, trio and pk by itself, which takes 0.7 s of CPU, and most of them start one after another:
together, most of the time of a stream's first batch. So a session starts this process along with
its JVM, and configures as Spark's Python a script that requests a fork from this process
(pk.spark.session.fork_client).

Linux only: on macOS the system's libraries do not survive a fork.
"""

import contextlib
import gc
import io
import json
import os
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pk.spark.session import fork_client
from pk.spark.session.fork_client import SIZE, STATUS

_SCRIPT: Final = """\
#!/bin/sh
exec {python} -I -S {client} {socket} {python} "$@"
"""
_CLIENT: Final = fork_client.__file__
_WARM: Final = (
    "encodings.idna",
    "pk.core.wire.messages.api_versions",
    "pk.core.wire.messages.list_offsets",
    "pk.core.wire.messages.metadata",
    "pk.spark.read.batch_reader",
    "pk.spark.schemas.options",
    "pk.spark.sink.writer",
    "pk.spark.source",
    "pk.spark.stream.reader",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
)
"""Modules that are imported before the first fork. Modules that Spark runs as programs are absent,
because they must not be imported before they run."""

_WARM_LATER: Final = "pandas"
"""Arrow imports it in tasks that write. The import is too slow for the processes that look for data
sources to wait for it."""

_ENDS_WITHIN_S: Final = 10


class ForkServer:
    """The fork server's process, and the script that sends it requests. Their files are in
    `folder`, which only this user can access."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], inherited: Sequence[int] = ()
    ) -> None:
        """Start the server, and return while it imports. It and its forks inherit the descriptors
        `inherited`. Raises OSError."""
        path = folder / "forks"
        self.python = folder / "python"
        words = {"python": sys.executable, "client": _CLIENT, "socket": str(path)}
        quoted = {name: shlex.quote(word) for name, word in words.items()}
        self.python.write_text(_SCRIPT.format(**quoted))
        self.python.chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listener, (folder / "forks.log").open("wb") as log:
            # Listen before the server starts: a client that connects during the server's imports
            # then waits.
            listener.bind(str(path))
            listener.listen(128)
            number = listener.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pk.spark.session.fork_server", str(number)],
                env={"OMP_NUM_THREADS": "1", **environ},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,
                pass_fds=(number, *inherited),
                start_new_session=True,
            )

    def close(self) -> None:
        """Stop the server. Its forks end together with Spark."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def can_fork(folder: Path) -> bool:
    """Whether a fork server works here: on Linux, with a shell, with pk in files, and if scripts in
    `folder` may be executed."""
    if sys.platform != "linux" or shutil.which("sh") is None or not os.path.isfile(_CLIENT):
        return False
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC


class _Fork(NamedTuple):
    """A forked process, and the connection of the client that requested it."""

    process_id: int
    descriptor: int
    """A descriptor that becomes readable when the process ends."""

    asker: socket.socket


class _Server:
    """The server, which runs until its standard input is closed."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)

    def run(self) -> list[str] | None:
        """Serve requests. Returns in each fork, with the arguments to run, and the streams and
        environment set; returns None when the server ends."""
        idle_s: float | None = 0.0
        while True:
            ready = self._selector.select(idle_s)
            if not ready:
                idle_s = None
                _import_later()
            for key, _ in ready:
                if key.fd == 0:
                    return None
                if isinstance(key.data, _Fork):
                    if key.fd == key.data.descriptor:
                        self._report(key.data)
                    else:
                        self._end(key.data)
                elif (arguments := self._fork()) is not None:
                    return arguments

    def _report(self, fork: "_Fork") -> None:
        """Send a process's exit status to the client that requested the process."""
        self._selector.unregister(fork.descriptor)
        os.close(fork.descriptor)
        _, status = os.waitpid(fork.process_id, 0)
        if fork.asker.fileno() >= 0:
            self._selector.unregister(fork.asker)
            with fork.asker, contextlib.suppress(OSError):  # Spark may have just killed the client
                fork.asker.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))

    def _end(self, fork: "_Fork") -> None:
        """Kill a fork whose client closed its connection, because Spark killed the client. The fork
        has not been waited for, so its process id is still valid."""
        if fork.asker.fileno() < 0:
            return  # the fork ended at the same time
        self._selector.unregister(fork.asker)
        fork.asker.close()
        os.kill(fork.process_id, signal.SIGKILL)

    def _fork(self) -> list[str] | None:
        """Accept a request, and fork. Returns the arguments in the fork, and None in the server."""
        asker, _ = self._listener.accept()
        try:
            head, streams, _, _ = socket.recv_fds(asker, SIZE.size, 3)
            [size] = SIZE.unpack(head)
            request = json.loads(asker.recv(size, socket.MSG_WAITALL))
        except (OSError, ValueError):
            asker.close()
            return None
        process_id = os.fork()
        if process_id == 0:
            self._become(asker, streams, request)
            return request["arguments"]
        for stream in streams:
            os.close(stream)
        fork = _Fork(process_id, os.pidfd_open(process_id), asker)
        self._selector.register(fork.descriptor, selectors.EVENT_READ, fork)
        self._selector.register(asker, selectors.EVENT_READ, fork)
        with contextlib.suppress(OSError):
            asker.sendall(STATUS.pack(process_id))
        return None

    def _become(self, asker: socket.socket, streams: list[int], request: Mapping[str, Any]) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Fork) and key.fd == key.data.descriptor:
                os.close(key.fd)
                key.data.asker.close()
        self._selector.close()
        self._listener.close()
        asker.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(request["folder"])
        before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        os.environ.clear()
        os.environ.update(request["environ"])
        given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        rest = [path for path in sys.path[1:] if path not in before and path not in given]
        sys.path[:] = [request["folder"], *given, *rest]
        for printed in (sys.stdout, sys.stderr):
            if isinstance(printed, io.TextIOWrapper):
                printed.reconfigure(write_through=True)  # as by PYTHONUNBUFFERED, which Spark sets


def _import_later() -> None:
    with contextlib.suppress(ImportError):
        __import__(_WARM_LATER)
    if "numpy.random" in sys.modules:
        # Otherwise all forks would draw the same random numbers.
        os.register_at_fork(after_in_child=sys.modules["numpy.random"].seed)
    gc.freeze()


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    for name in _WARM:
        __import__(name)
    gc.freeze()  # a collection would copy the memory pages that the forks share
    arguments = _Server(listener).run()
    if arguments is not None:
        _, module, *words = arguments
        sys.argv[:] = [module, *words]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
