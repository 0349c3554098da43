"""Starts the Python processes of a Spark by forking one that has imported everything.

Spark starts a Python for each kind of work: one that looks for data sources, one that creates them,
one that plans, one that follows a stream, one that commits, one that forks workers. Each would
import pyspark, pyarrow, numpy, trio and pk by itself, most of them one after another, 0.7 s of CPU
each: most of what a stream's first batch takes. So a session starts this process alongside its JVM,
and names a script as Spark's Python that asks this one for a fork (pk.spark.session.fork_client).

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
"""Not those that Spark runs as a program: they must not be imported before."""

_WARM_LATER: Final = "pandas"
"""Arrow imports it in tasks that write; too long to let those wait that look for a data source."""

_ENDS_WITHIN_S: Final = 10


class ForkServer:
    """The server's process and the script that asks it. Files are in `folder`, which only this user
    may enter."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], inherited: Sequence[int] = ()
    ) -> None:
        """Returns while the server imports; it and its forks inherit the descriptors `inherited`.
        Raises OSError."""
        path = folder / "forks"
        self.python = folder / "python"
        words = {"python": sys.executable, "client": _CLIENT, "socket": str(path)}
        quoted = {name: shlex.quote(word) for name, word in words.items()}
        self.python.write_text(_SCRIPT.format(**quoted))
        self.python.chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listener, (folder / "forks.log").open("wb") as log:
            # Listen now: a caller that connects during the server's imports waits for it.
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
        """Ends the server. Its forks end with Spark."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def can_fork(folder: Path) -> bool:
    """Whether a server works here: on Linux, with a shell, with pk in files, and where scripts in
    `folder` may be executed."""
    if sys.platform != "linux" or shutil.which("sh") is None or not os.path.isfile(_CLIENT):
        return False
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC


class _Fork(NamedTuple):
    """A process that was forked, and the process that requested it."""

    process_id: int
    descriptor: int
    """Readable when it has ended."""

    asker: socket.socket


class _Server:
    """Serves until standard input ends."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)

    def run(self) -> list[str] | None:
        """Returns in each fork the arguments to run, with streams and variables set; returns None
        when the server ends."""
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
        """Reports the exit status of the process to the process that requested it."""
        self._selector.unregister(fork.descriptor)
        os.close(fork.descriptor)
        _, status = os.waitpid(fork.process_id, 0)
        if fork.asker.fileno() >= 0:
            self._selector.unregister(fork.asker)
            with fork.asker, contextlib.suppress(OSError):  # Spark may have killed it just now
                fork.asker.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))

    def _end(self, fork: "_Fork") -> None:
        """The client closed its connection, so it is gone: Spark killed the process that it
        knows. The fork is not waited for yet, so its id is still its own."""
        if fork.asker.fileno() < 0:
            return  # the process ended in the same moment
        self._selector.unregister(fork.asker)
        fork.asker.close()
        os.kill(fork.process_id, signal.SIGKILL)

    def _fork(self) -> list[str] | None:
        """Returns, in the fork, its arguments."""
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
                printed.reconfigure(write_through=True)  # Spark sets PYTHONUNBUFFERED


def _import_later() -> None:
    with contextlib.suppress(ImportError):
        __import__(_WARM_LATER)
    if "numpy.random" in sys.modules:
        # Otherwise all forks, and theirs, would draw the same numbers.
        os.register_at_fork(after_in_child=sys.modules["numpy.random"].seed)
    gc.freeze()


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    for name in _WARM:
        __import__(name)
    gc.freeze()  # a collection would copy the pages that the forks share
    arguments = _Server(listener).run()
    if arguments is not None:
        _, module, *words = arguments
        sys.argv[:] = [module, *words]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
