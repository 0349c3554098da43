"""A terminal for tests: a program on a pty of a given size, and what its screen shows.

`Terminal("topics", "list", columns=80, lines=24)` runs that `pk` command as a person would.
Everything waits for text on the screen (`wait_for`), never for a time. pexpect holds the pty and
pyte is the screen. This module adds what pyte lacks: the alternate screen, and answers to a
program's requests to its terminal.

A program must leave its terminal as it was. `traces()` lists the differences: modes of the line
discipline (as in `stty -a`), the alternate screen, a hidden cursor, bracketed paste, mouse reports,
a color that is still on.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import io
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pexpect
import preloaded
import ptyprocess
import pyte
from clients.pk_broker import pk_command, pk_environment

WAIT_S = 120.0
SIZES = ((80, 24), (200, 50))
"""The terminal sizes at which every screen of pk must look right: columns and lines."""

ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""An escape sequence: CSI, OSC, or of two characters."""

_ERASED = re.compile(rb"(?=(?<!\x1b\[K)(?<!\x1b\[2K)(?<!\x1b\[1A)\r?(?:\x1b\[1A)?\x1b\[[02]?[JK])")
"""The first sequence that erases one or more lines before they are drawn again."""

Wanted = str | re.Pattern[str] | Callable[[str], bool]

KEYS = {
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "page-up": "\x1b[5~",
    "page-down": "\x1b[6~",
    "delete": "\x1b[3~",
    "enter": "\r",
    "alt-enter": "\x1b\r",
    "tab": "\t",
    "back-tab": "\x1b[Z",
    "escape": "\x1b",
    "backspace": "\x7f",
    "ctrl-c": "\x03",
    "ctrl-d": "\x04",
    "ctrl-l": "\x0c",
    "ctrl-r": "\x12",
    "ctrl-u": "\x15",
    "ctrl-z": "\x1a",
    "ctrl-\\": "\x1c",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
}

_ALTERNATE = (1049, 1047, 47)
_LEFT_ON = {
    1: "application cursor keys",
    1000: "mouse reports",
    1002: "mouse reports",
    1003: "mouse reports",
    1004: "focus reports",
    1006: "mouse reports",
    2004: "bracketed paste",
}
"""DEC private modes that are off in a fresh terminal."""


class _Screen(pyte.HistoryScreen):
    """pyte's screen with an alternate one, which hands back what the program asks for."""

    def __init__(self, columns: int, lines: int, answer: Callable[[str], object]) -> None:
        self._answer = answer
        self._main: tuple[Any, Any] | None = None
        self._shift: set[int] = set()
        super().__init__(columns, lines, history=5000)

    def write_process_input(self, data: str) -> None:
        self._answer(data)

    @property
    def alternate(self) -> bool:
        return self._main is not None

    @property
    def private_modes(self) -> set[int]:
        """The DEC private modes that were set and not reset, except those of the alternate
        screen."""
        return set(self._shift)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        if kwargs.get("private"):
            self._shift.update(m for m in modes if m not in (*_ALTERNATE, 7, 25))
            if any(m in _ALTERNATE for m in modes) and self._main is None:
                self._main = (copy.deepcopy(self.buffer), copy.copy(self.cursor))
                self.erase_in_display(2)
                self.cursor_position()
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        if kwargs.get("private"):
            self._shift.difference_update(modes)
            if any(m in _ALTERNATE for m in modes) and self._main is not None:
                (buffer, self.cursor), self._main = self._main, None
                self.buffer.clear()
                self.buffer.update(buffer)
                self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **kwargs)


class Forked(pexpect.spawn):  # pyright: ignore[reportMissingTypeArgument] - it takes none at run time
    """A `pk` command on a terminal, forked from a process that has imported pk."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        dimensions: tuple[int, int],
        encoding: str | None = None,
    ) -> None:
        super().__init__(None, timeout=WAIT_S, encoding=encoding)  # pyright: ignore[reportArgumentType]
        end, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *dimensions, 0, 0))
        pid = preloaded.fork(words, env, [theirs] * 3, cwd=cwd, terminal=True)
        self.ptyproc = ptyprocess.PtyProcess(pid, end)
        os.close(theirs)
        self.pid, self.child_fd = self.ptyproc.pid, end
        self.terminated = self.closed = False


class Terminal:
    """A `pk` command (`words`), or any program (`program`), on a terminal.

    `home` is a folder for the user's config, cache and state (HOME and XDG_*); the test's own by
    the fixture `terminal`. Further words of the environment come by name (`NO_COLOR="1"`); None
    takes one away.
    """

    def __init__(
        self,
        *words: str,
        columns: int = 80,
        lines: int = 24,
        home: Path | None = None,
        program: str | None = None,
        cwd: Path | None = None,
        **environment: str | None,
    ) -> None:
        self.screen_of = _Screen(columns, lines, lambda data: self.child.send(data))
        self._stream = pyte.ByteStream(self.screen_of)
        self.output = b""
        """Everything it has written."""

        self.child: pexpect.spawn[bytes]
        env = environment_of(home, environment)
        where = None if cwd is None else str(cwd)
        if program is None and preloaded.can_fork(env):
            self.child = Forked(words, env, where, (lines, columns))
        else:
            command = pk_command(*words) if program is None else [program, *words]
            self.child = pexpect.spawn(
                command[0],
                command[1:],
                env=env,  # pyright: ignore[reportArgumentType]
                cwd=where,
                dimensions=(lines, columns),
                timeout=WAIT_S,
                preexec_fn=_as_from_a_shell,
            )
        self.child.delaybeforesend = None
        self.child.delayafterclose = 0.01
        self.child.delayafterterminate = 0.01
        self._found = _modes_of_a_fresh_terminal()
        self._ended: int | None = None

    # Output

    def screen(self) -> str:
        """The current lines of the screen, without blanks at their ends and empty lines below."""
        return "\n".join(line.rstrip() for line in self.screen_of.display).rstrip("\n")

    @property
    def text(self) -> str:
        return self.screen()

    def scrollback(self) -> str:
        """The lines that scrolled off the screen, and the lines on it."""
        columns = self.screen_of.columns
        above = [
            "".join(line[x].data for x in range(columns)).rstrip()
            for line in self.screen_of.history.top
        ]
        return "\n".join((*above, self.screen()))

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and line of the cursor, from 0."""
        return self.screen_of.cursor.x, self.screen_of.cursor.y

    def cell(self, column: int, line: int) -> Any:
        """The cell at this position: `data`, `fg`, `bg`, `bold`, `reverse`, `underscore`."""
        return self.screen_of.buffer[line][column]

    def color_of(self, text: str) -> Any:
        """The first cell of the first occurrence of `text` on the screen."""
        for y, line in enumerate(self.screen_of.display):
            if (x := line.find(text)) >= 0:
                return self.cell(x, y)
        raise AssertionError(f"{text!r} is not on the screen:\n{self.screen()}")

    @property
    def colors(self) -> set[str]:
        """The colors of all text and backgrounds on the screen, without the default ones."""
        cells = (cell for line in self.screen_of.buffer.values() for cell in line.values())
        return {c for cell in cells for c in (cell.fg, cell.bg)} - {"default"}

    # Input

    def send(self, text: str | bytes) -> None:
        self.child.send(text)

    def line(self, text: str) -> None:
        """Types `text` and Enter."""
        self.send(text + "\r")

    def keys(self, *names: str) -> None:
        """Presses keys by name (`up`, `ctrl-c`, …, see KEYS); any other word is typed as it is."""
        for name in names:
            self.send(KEYS.get(name, name))

    def resize(self, columns: int, lines: int) -> None:
        self.screen_of.resize(lines, columns)
        self.child.setwinsize(lines, columns)

    def signal(self, number: int) -> None:
        self.child.kill(number)

    # Waiting

    def read(self, seconds: float = 0.0) -> bool:
        """Feed the screen with output that arrives within `seconds`. False if there was none, or at
        the end."""
        try:
            data = self.child.read_nonblocking(65536, timeout=seconds)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        self.feed(data)
        return True

    def feed(self, data: bytes) -> None:
        """Shows output of the program."""
        self.output += data
        self._stream.feed(data)

    def wait_for(self, wanted: Wanted, timeout: float = WAIT_S) -> str:
        """Reads until the screen shows `wanted` (a text, a pattern, a predicate over the screen's
        text).

        The data of one read may be taller than the screen, or draw a line twice. Therefore a text
        or a pattern is also found if the rest of that data scrolls it off or replaces it. Returns
        the screen's text at the moment when it showed `wanted`. Raises AssertionError, with the
        screen, if that takes longer than `timeout` seconds or the program ends before.
        """
        holds = _predicate(wanted)
        deadline = time.monotonic() + timeout
        while not holds(self.screen()):
            try:
                data = self.child.read_nonblocking(65536, timeout=0.2)
            except pexpect.TIMEOUT:
                if time.monotonic() < deadline:
                    continue
                raise AssertionError(
                    f"{wanted!r} does not come:\n{self._screen_report()}"
                ) from None
            except pexpect.EOF:
                raise AssertionError(
                    f"ended without {wanted!r}:\n{self._screen_report()}"
                ) from None
            if callable(wanted):
                self.feed(data)
            elif (shown := self._shown_meanwhile(data, holds)) is not None:
                return shown
        return self.screen()

    until = wait_for

    def _shown_meanwhile(self, data: bytes, holds: Callable[[str], bool]) -> str | None:
        """Feeds `data` in parts: half a screen at a time, and everything before the next erasure.
        Returns the screen for which `holds` is true and that the rest replaced, if any."""
        half = self.screen_of.lines // 2
        shown = None
        for drawn in _ERASED.split(data):
            lines = drawn.splitlines(keepends=True)
            for at in range(0, len(lines), half):
                self.feed(b"".join(lines[at : at + half]))
                if shown is None and holds(screen := self.screen()):
                    shown = screen
        return None if holds(self.screen()) else shown

    def end(self, timeout: float = WAIT_S) -> int:
        """Waits for its end. Returns its exit code, or minus the number of the signal that ended
        it."""
        if self._ended is not None:
            return self._ended
        deadline = time.monotonic() + timeout
        while True:
            try:
                data = self.child.read_nonblocking(65536, timeout=0.2)
            except pexpect.TIMEOUT:
                assert time.monotonic() < deadline, f"does not end:\n{self._screen_report()}"
                continue
            except pexpect.EOF:
                break
            self.feed(data)
        self.left = termios.tcgetattr(self.child.child_fd)
        self.child.wait()
        code, number = self.child.exitstatus, self.child.signalstatus
        self._ended = code if code is not None else -(number or 0)
        return self._ended

    def traces(self) -> list[str]:
        """The changes that the program left on its terminal after its end; empty if there are
        none."""
        assert self._ended is not None, "it has not ended yet"
        found = [
            f"{name}: {_shown(was)} became {_shown(now)}"
            for name, was, now in zip(
                ("input", "output", "control", "local", "in speed", "out speed", "characters"),
                self._found,
                self.left,
                strict=True,
            )
            if was != now
        ]
        screen = self.screen_of
        if screen.alternate:
            found.append("the alternate screen is on")
        if screen.cursor.hidden:
            found.append("the cursor is hidden")
        found += [name for mode, name in _LEFT_ON.items() if mode in screen.private_modes]
        if (screen.cursor.attrs.fg, screen.cursor.attrs.bg) != ("default", "default"):
            found.append("a color is on")
        return found

    def close(self) -> None:
        """Ends the program."""
        try:
            self.child.close(force=True)
        except pexpect.ExceptionPexpect:
            # A killed program may take longer than the hundredth of a second that pexpect waits.
            assert self.child.pid is not None
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.child.pid, 0)

    def _screen_report(self) -> str:
        width = self.screen_of.columns
        rule = "─" * width
        x, y = self.cursor
        return f"{rule}\n{self.screen()}\n{rule}\ncursor at column {x}, line {y}"


def start_on_pty(
    command: Sequence[str], env: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    """A program on a separate terminal, and the other end of the terminal. Closing that end hangs
    up."""
    end, ours = os.openpty()
    process = subprocess.Popen(
        command,
        env=env,
        stdin=ours,
        stdout=ours,
        stderr=ours,
        start_new_session=True,
        preexec_fn=_takes_terminal,  # noqa: PLW1509
    )
    os.close(ours)
    return process, end


def read_until(end: int, wanted: bytes) -> bytes:
    """Reads bytes from a terminal until they contain `wanted`."""
    said = b""
    while wanted not in said:
        said += os.read(end, 4096)
    return said


def _takes_terminal() -> None:
    _as_from_a_shell()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def environment_of(home: Path | None, words: dict[str, str | None]) -> dict[str, str]:
    """The environment of a program: a color terminal, a separate home, none of the settings of the
    user who runs the tests."""
    env = pk_environment()
    for name in ("NO_COLOR", "FORCE_COLOR", "PK_PROFILE", "COLUMNS", "LINES", "PAGER", "EDITOR"):
        env.pop(name, None)
    env["TERM"] = "xterm-256color"
    env["LANG"] = env["LC_ALL"] = "C.UTF-8"
    env["PK_COMPLETION_REFRESH"] = "never"  # processes that would outlive the test
    if home is not None:
        env["HOME"] = str(home)
        for name in ("CONFIG", "STATE", "CACHE", "DATA"):
            env[f"XDG_{name}_HOME"] = str(home / f"xdg_{name.lower()}_home")
    for name, value in words.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def _as_from_a_shell() -> None:
    """A program started in the background of a script inherits an ignored SIGINT; one on a terminal
    does not."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _modes_of_a_fresh_terminal() -> list[Any]:
    """Those of a program's own terminal may be the program's already: it runs since it was
    started."""
    end, ours = os.openpty()
    try:
        return termios.tcgetattr(ours)
    finally:
        os.close(ours)
        os.close(end)


def _predicate(wanted: Wanted) -> Callable[[str], bool]:
    if isinstance(wanted, str):
        return lambda text: wanted in text
    if isinstance(wanted, re.Pattern):
        return lambda text: wanted.search(text) is not None
    return wanted


def _shown(modes: Any) -> str:
    return oct(modes) if isinstance(modes, int) else str(modes)


def size_name(size: tuple[int, int]) -> str:
    """`80x24`."""
    return f"{size[0]}x{size[1]}"


# Programs in this process

_END_OF_INPUT = "\x04" * 8
_END_OF_OUTPUT = b"\0\0"
"""The last bytes that this process writes. The end of the pty is not reliable: on busy cores, Linux
(6.18) loses bytes that were written immediately before the close, a few times in a hundred
thousand."""


class Shown(NamedTuple):
    """The output of a command on a terminal."""

    code: int
    screen: str
    """All lines as the terminal has them, including those that scrolled off: wrapped, without
    colors."""

    raw: str
    """The bytes written to the terminal, with escape sequences."""

    said: str
    """The part of it that went to standard error."""

    stream: pyte.HistoryScreen

    @property
    def colors(self) -> set[str]:
        cells = (cell for line in self.stream.buffer.values() for cell in line.values())
        return {c for cell in cells for c in (cell.fg, cell.bg)} - {"default"}

    @property
    def lines(self) -> list[str]:
        """The lines that went to standard output, unwrapped and without escape sequences."""
        said = set(self.said.splitlines())
        plain = ESCAPE.sub("", self.raw)
        return [line for line in plain.splitlines() if line not in said]


def on_terminal(
    main: Callable[[Sequence[str]], int],
    words: Sequence[str],
    size: tuple[int, int] = SIZES[0],
    typed: str = "",
) -> Shown:
    """Runs `main(words)` in this process with a pty of `size` for all three streams.

    A tenth of what a process costs; for commands that end by themselves and need no job control.
    `typed` is in the terminal's buffer before it begins; a read beyond it meets the end of
    input.
    """
    columns, lines = size
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    screen = _Screen(columns, lines, lambda data: os.write(master, data.encode()))
    taken: list[bytes] = []

    def drain() -> None:
        while not b"".join(taken[-2:]).endswith(_END_OF_OUTPUT):
            taken.append(os.read(master, 65536))

    os.write(master, f"{typed}{_END_OF_INPUT}".encode())
    said = io.StringIO()
    pager = os.environ.get("PK_PAGER")
    os.environ["PK_PAGER"] = "cat"  # no user is here to turn pages
    kept = sys.stdin, sys.stdout, sys.stderr
    reader = threading.Thread(target=drain, daemon=True)
    try:
        sys.stdin = os.fdopen(os.dup(slave), "r")
        sys.stdout = os.fdopen(os.dup(slave), "w")
        sys.stderr = _Both(os.fdopen(os.dup(slave), "w"), said)
        reader.start()
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if stream not in kept:
                with contextlib.suppress(OSError, ValueError):
                    stream.close()
        sys.stdin, sys.stdout, sys.stderr = kept
        os.environ.pop("PK_PAGER")
        if pager is not None:
            os.environ["PK_PAGER"] = pager
        os.write(slave, _END_OF_OUTPUT)
        reader.join(WAIT_S)
        os.close(slave)
        os.close(master)
    raw = b"".join(taken).removesuffix(_END_OF_OUTPUT)
    pyte.ByteStream(screen).feed(raw)
    above = ["".join(line[x].data for x in range(columns)).rstrip() for line in screen.history.top]
    shown = "\n".join((*above, *(line.rstrip() for line in screen.display))).rstrip("\n")
    return Shown(code, shown, raw.decode(errors="replace"), said.getvalue(), screen)


class _Both(io.TextIOBase):
    """Standard error: it goes to the terminal, and is stored."""

    def __init__(self, terminal: io.TextIOWrapper, note: io.StringIO) -> None:
        self._terminal = terminal
        self._note = note

    def write(self, text: str) -> int:
        self._note.write(text)
        return self._terminal.write(text)

    def flush(self) -> None:
        if not self._terminal.closed:
            self._terminal.flush()

    def fileno(self) -> int:
        return self._terminal.fileno()

    def isatty(self) -> bool:
        return True

    def close(self) -> None:
        self._terminal.close()
