"""Ctrl-C wherever a command may be: it ends by the signal and without a traceback, and does its
last words.

The place is named by what the program does (an import, a connection, the n-th call), never by a
time.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pexpect
import pytest
import trio
import trio.lowlevel
from clients.fixtures import Kafka
from clients.pk_broker import pk_environment

from pk.cli.command_line.parse import parse
from pk.cli.exits import Exit
from pk.cli.runtime.connect import run
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import leaf
from pk.cli.terminal.streams import Streams

_HANGS_S = 60.0

_PROGRAM = r"""
import atexit, os, signal, sys

import pk

signal.signal(signal.SIGINT, signal.default_int_handler)
how, where = sys.argv[1].split("=")
del sys.argv[1]
calls = 0

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def audit(event, args):
    if event == how and (args[0] == where or how != "import"):
        interrupt()

def count(frame, event, arg):
    global calls
    calls += 1
    if calls == int(where):
        interrupt()

if how == "end":
    atexit.register(interrupt)
elif how != "call":
    sys.addaudithook(audit)
from pk.cli.main import main
if how == "call":
    sys.setprofile(count)
code = main()
if how == "call" and not int(where):
    sys.setprofile(None)
    sys.stderr.write(f"{calls}\n")
sys.exit(code)
"""


def interrupted(pk_kafka: Kafka, where: str, *words: str) -> tuple[int, str, str]:
    """Runs a command that Ctrl-C interrupts there. Returns its exit code, standard output and
    standard error."""
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, where, *words],
        env=pk_environment() | {"PK_BOOTSTRAP_SERVER": pk_kafka.bootstrap},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    "where", ["import=pk.cli.command_line.parse", "import=trio", "socket.connect=", "end="]
)
def test_no_traceback_before_and_after_the_command(pk_kafka: Kafka, where: str) -> None:
    code, out, err = interrupted(pk_kafka, where, "topics", "list", "-f", "jsonl")
    assert (code, err) == (-signal.SIGINT, "")
    assert where == "end=" or not out


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "topics list",
        "topics describe swept",
        "consume swept -o start..end",
        "consume swept -g sweepers --from-beginning -n 3",
        "groups list",
        "isr",
        "doctor",
        "topics create swept-too --if-not-exists",
        "configs alter topic swept -c retention.ms=1000000 -y",
        "cp swept swept-copy -o start..end --create -y",
        "perf produce -n 200",
    ],
)
def test_at_any_call(
    pk_kafka: Kafka, pk: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """The test counts calls, and sends Ctrl-C at one of them: at twenty, spread over the whole run;
    with a group, which starts slowly, at five."""
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", pk_kafka.bootstrap)
    pk("topics", "create", "swept", "--if-not-exists")
    pk("produce", "swept", stdin=b"1\n2\n3\n")
    code, _, err = interrupted(pk_kafka, "call=0", *line.split())
    assert code == Exit.OK, err
    total, choose = int(err.split()[-1]), random.Random(line)
    points = 5 if " -g " in line else 20
    for k in range(points):
        number = 10 + int((total - 10) * (k + choose.random()) / points)
        code, _, err = interrupted(pk_kafka, f"call={number}", *line.split())
        ended_before = code == Exit.OK
        assert ended_before or code == -signal.SIGINT, (number, err)
        assert "Traceback" not in err and "Warning" not in err, (number, err)


# Interrupts of the command itself


@pytest.fixture
def on_interrupts() -> Iterator[None]:
    """A background job of a script ignores SIGINT, and under nohup also SIGHUP."""
    before = {
        number: signal.signal(number, handler)
        for number, handler in (
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGHUP, signal.SIG_DFL),
        )
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _what_ends(handler: Callable[[Context], Any]) -> BaseException:
    """The exception that ends the handler when it runs as a command."""
    parsed = parse(["topics", "list"])
    with pytest.raises(BaseException) as caught:
        run(handler, Context(parsed.values, parsed.path, Streams()))
    return leaf(caught.value)


@pytest.mark.usefixtures("on_interrupts")
def test_it_does_not_meet_the_opening_of_a_client() -> None:
    """A KeyboardInterrupt there leaves a nursery open behind it, which breaks the whole loop."""
    said: list[str] = []

    @asynccontextmanager
    async def client() -> AsyncIterator[None]:
        async with trio.open_nursery():
            signal.raise_signal(signal.SIGINT)
            yield
            said.append("goes on to where it waits")

    async def handler(context: Context) -> None:
        try:
            async with client():
                said.append("open")
                await trio.sleep(_HANGS_S)
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
                said.append("last words")

    assert isinstance(_what_ends(handler), KeyboardInterrupt)
    assert said == ["open", "last words"]


def _computes() -> None:
    until = time.monotonic() + _HANGS_S
    while time.monotonic() < until:
        pass


def _reads() -> None:
    reader, _ = os.pipe()
    os.read(reader, 1)


@pytest.mark.usefixtures("on_interrupts")
@pytest.mark.parametrize("hang", [_computes, _reads])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_code_that_hears_of_nothing_is_broken_off(hang: Callable[[], None], number: int) -> None:
    async def handler(context: Context) -> None:
        signal.raise_signal(number)
        hang()
        raise AssertionError("it was not broken off")

    assert isinstance(_what_ends(handler), KeyboardInterrupt)


@pytest.mark.thorough
@pytest.mark.usefixtures("on_interrupts")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("consume waited -o end", "waited"),
        ("up --port 0 --memory 1>&2", "is ready"),
        ("up --port 0 --memory --brokers 2 1>&2", "is ready"),
    ],
)
def test_a_loop_of_bash_ends_with_the_command(pk_kafka: Kafka, words: str, said: str) -> None:
    """bash continues its loop after a child that exits with 130, but not after one that the signal
    killed."""
    command = f'"{sys.executable}" -m pk.cli.main {words}'
    loop = subprocess.Popen(
        ["bash", "-c", f'for i in 1 2 3; do {command}; echo "went on"; done'],
        env=pk_environment() | {"PK_BOOTSTRAP_SERVER": pk_kafka.bootstrap},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert loop.stderr is not None
    try:
        assert any(said in line for line in loop.stderr)
        os.killpg(loop.pid, signal.SIGINT)
        out, err = loop.communicate(timeout=60)
    finally:
        loop.kill()
    assert (loop.returncode, out, "Traceback" in err) == (-signal.SIGINT, "", False)


@pytest.mark.usefixtures("on_interrupts")
def test_what_is_typed_after_ctrl_c_at_a_question_is_no_answer(
    pk_kafka: Kafka, pk: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The input stays in the terminal for the shell to read."""
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", pk_kafka.bootstrap)
    assert pk("topics", "create", "asked", "--if-not-exists").code == 0
    command = f'"{sys.executable}" -m pk.cli.main topics delete asked'
    bash = pexpect.spawn(
        "bash",
        ["-c", f'trap : INT; {command}; read -r line; echo "left: $line."'],
        env=pk_environment() | {"PK_BOOTSTRAP_SERVER": pk_kafka.bootstrap, "TERM": "xterm"},
        encoding="utf-8",
        timeout=60,
    )
    bash.expect_exact("[y/N] ")
    bash.send("\x03y\r")
    bash.expect_exact("Nothing was changed.")
    bash.expect_exact("left: y.")
    bash.expect(pexpect.EOF)
    bash.close()
    assert pk("topics", "list", "asked", "-f", "name").lines == ["asked"]
