"""`pk`, and Python programs that use it, in processes forked from one that has imported it.

A short `pk` process spends two thirds of its CPU on imports. A test that asks what a process does
on a terminal, with signals or with pipes need not pay for them. Each test worker starts one server,
a fresh interpreter that imports pk and then only forks. A test gets a process of its own, a child
of the test worker like any other: it has its own pid, environment, working directory and standard
streams, on a terminal also a session, and it ends as an interpreter ends. Tests of imports and of
the start itself (tests/cli/test_startup.py, test_process.py) execute a new one.

Linux only: the server gives its child to its own parent by clone(CLONE_PARENT).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("pk.cli", "pk.client", "pk.net", "pk.core.api", "pk.core.broker", "pk.core.wire")
"""The server imports all modules of these, except those that need a library that is missing."""

_LIMIT_BYTES = 1 << 20
_PYTHONPATH = os.pathsep.join(
    each
    for each in (
        str(Path(__file__).resolve().parents[1] / "scripts" / "path"),
        os.environ.get("PYTHONPATH", ""),
    )
    if each
)
_LOCALE = ("LANG", "LC_ALL", "LC_CTYPE")
_KEPT = ("PYTHONPATH", "PYTHONUNBUFFERED")
"""Variables for the interpreter that a forked process heeds, too."""

_CLONE_PARENT = 0x8000
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether the server can make a process with this environment. An interpreter reads some of it
    at its start only. Outside of pytest it makes none: scripts/bench measures real starts."""
    return (
        "PYTEST_VERSION" in os.environ
        and sys.platform == "linux"
        and _SYS_CLONE is not None
        and all(env.get(name) in (None, "C.UTF-8") for name in _LOCALE)
        and env.get("PYTHONPATH") == _PYTHONPATH
        and all(
            name in os.environ for name in env if name.startswith("PYTHON") and name not in _KEPT
        )
    )


def fork(
    words: Sequence[str],
    env: Mapping[str, str],
    fds: Sequence[int],
    *,
    cwd: str | None = None,
    terminal: bool = False,
) -> int:
    """Start `pk`, or a Python program, with these words (`Popen`); its process id. `fds` are its
    standard input, output and error; with `terminal` they are the terminal that the process and its
    session take."""
    with _lock:
        return _server().fork(words, env, fds, cwd, terminal)


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` of a `pk` command, whose words `args` are, or of a Python program:
    `sys.executable`, `-W` and an action if wanted, its file, and its own words."""

    def _execute_child(self, *given: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - by its names, which differ between versions
        named = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # pyright: ignore - private
        pipes = [
            named[name]
            for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        ]
        theirs = [own if own != -1 else n for n, own in enumerate((pipes[0], pipes[3], pipes[5]))]
        env = os.environ if named["env"] is None else named["env"]
        self.pid = fork(named["args"], env, theirs, cwd=named["cwd"])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # pyright: ignore - private


class _Server:
    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._connection, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LIMIT_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=os.environ | {"PYTHONPATH": _PYTHONPATH, "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def fork(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        fds: Sequence[int],
        cwd: str | None,
        terminal: bool,
    ) -> int:
        request = {
            "words": [*words],
            "env": dict(env),
            "cwd": os.fspath(cwd or os.getcwd()),
            "terminal": terminal,
        }
        socket.send_fds(self._connection, [json.dumps(request).encode()], fds)
        return int(self._connection.recv(64))


_server = functools.cache(_Server)
_lock = threading.Lock()


def _serve(connection: socket.socket) -> int | None:
    """Fork for each request. Returns None at the end of them, and in a child its exit code."""
    libc = ctypes.CDLL(None)
    python = ctypes.pythonapi
    while True:
        data, fds, _, _ = socket.recv_fds(connection, _LIMIT_BYTES, 3)
        if not data:
            return None
        python.PyOS_BeforeFork()
        pid = libc.syscall(_SYS_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            python.PyOS_AfterFork_Child()
            connection.close()
            return _run(json.loads(data), fds)
        python.PyOS_AfterFork_Parent()
        for fd in fds:
            os.close(fd)
        connection.send(b"%d" % pid)


def _run(request: dict[str, Any], fds: list[int]) -> int:
    """Become the requested process, in the child."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    stdin = io.BufferedReader(io.FileIO(0, closefd=False))
    sys.stdin = io.TextIOWrapper(stdin, "utf-8", "surrogateescape")
    sys.stdout = _writer(1, "surrogateescape", unbuffered)
    sys.stderr = _writer(2, "backslashreplace", unbuffered)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    gc.enable()
    words = request["words"]
    if words[:1] != [sys.executable]:
        sys.argv = ["pk", *words]
        return importlib.import_module("pk.cli.main").main()
    if words[1] == "-W":
        warnings.simplefilter(words[2])
        del words[1:3]
    sys.argv = words[1:]
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


def _writer(fd: int, errors: str, unbuffered: bool) -> io.TextIOWrapper:
    raw = io.FileIO(fd, "wb", closefd=False)
    line_buffering = fd == 2 or os.isatty(fd)
    buffer: Any = raw if unbuffered else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffer, "utf-8", errors, line_buffering=line_buffering, write_through=unbuffered
    )


if __name__ == "__main__":
    sys.path.pop(0)  # the tests' own folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the test worker, and then this ends
    gc.disable()
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    gc.freeze()
    code = _serve(socket.socket(fileno=int(sys.argv[1])))
    if code is not None:
        sys.exit(code)
