"""Runs a line typed in the shell: pk's commands, and the few words of the shell itself.

Ctrl-C ends a running command and never the shell. So SIGINT has one handler as long as the shell
runs. It is set to the action needed: pass the signal to the command in the engine, raise
KeyboardInterrupt in a command that runs in this thread, or do nothing.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, BinaryIO, TextIO, cast

from pk.cli.command_line.completion.name_refresh import CONNECTING
from pk.cli.command_line.help import help_text
from pk.cli.command_line.parse import parse
from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.tree import Command, tree
from pk.cli.exits import CommandError, Exit, Unusable, UsageError
from pk.cli.main import say_renamed, usage
from pk.cli.options.option_sets import Reach
from pk.cli.positions.times import show_span
from pk.cli.run import handler_of
from pk.cli.runtime.context import Context
from pk.cli.runtime.settings import Settings, settings_of
from pk.cli.shell.cache import Cache
from pk.cli.shell.engine import Engine, Job, reported
from pk.cli.shell.paging import HeldError, HeldOutput
from pk.cli.shell.shell_commands import HELP
from pk.cli.shell.words import Line, split_commands, split_line
from pk.cli.terminal.streams import Streams
from pk.cli.terminal.suspend import handling_sigtstp
from pk.cli.terminal.text import escaped_lines
from pk.core.nearest import did_you_mean
from pk.net.shutdown_signals import redirect_closed_terminal, shutdown_signals

_WAIT_S = 0.25
_LOST_S = 1.0
_AGAIN_S = 0.01


class Shell:
    """The state of a shell: its cluster, the settings of `use`, and its engine."""

    def __init__(self, settings: Settings, *, interactive: bool) -> None:
        self.settings = settings
        self.interactive = interactive
        self.cache = Cache(settings)
        self.engine = Engine(self.cache.keep_fresh if interactive else _nothing)
        self.cache.soon = self.engine.soon
        self.stdin: BinaryIO | None = None
        """The standard input of commands; None is the real one."""

        self.last_code: int = Exit.OK
        self.last: list[str] = []
        """The words of the last command, for a line that is only `\\w` or `\\G`."""

        self.timing = False
        self.paging = True
        self._on_interrupt: Callable[[], None] | None = None
        self._running = False
        self._early_interrupt = False
        """Whether Ctrl-C came after a line was typed and before its command could be
        interrupted."""

        self._holding: HeldOutput | None = None
        """Holds back the output of the running command."""

    @contextlib.contextmanager
    def guarding(self) -> Generator[None]:
        """Handle Ctrl-C during the block, and let SIGTERM and SIGHUP end the shell cleanly."""
        before = signal.signal(signal.SIGINT, self._interrupted)
        alarm = signal.signal(signal.SIGALRM, self._interrupted)
        endings = set(shutdown_signals()) - {signal.SIGINT} if self.interactive else ()
        ended = {number: signal.signal(number, _leave) for number in endings}
        try:
            with handling_sigtstp():
                yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm)
            signal.signal(signal.SIGINT, before)
            for number, handler in ended.items():
                signal.signal(number, handler)

    def _interrupted(self, _number: int, frame: FrameType | None) -> None:
        if self._on_interrupt is raise_interrupt and _in_finalizer(frame):
            # Python prints the exception of a finalizer, and continues.
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        elif self._on_interrupt is not None:
            self._on_interrupt()
        else:
            self._early_interrupt = self._running

    @contextlib.contextmanager
    def on_interrupt(self, function: Callable[[], None]) -> Generator[None]:
        """Set the effect of Ctrl-C during the block."""
        before, self._on_interrupt = self._on_interrupt, function
        try:
            if self._early_interrupt:
                self._early_interrupt = False
                function()
            yield
        finally:
            self._on_interrupt = before

    # what a line does

    def run_line(self, text: str) -> bool:
        """Run a line of commands separated by `;` and `&&`. Returns False if the line ends the
        shell. `last_code` is the exit code of the last command that ran."""
        self._running, self._early_interrupt = True, False
        try:
            return self._run_commands(text)
        finally:
            self._running = self._early_interrupt = False

    def _run_commands(self, text: str) -> bool:
        for mark, command in split_commands(text):
            if mark == "&&" and self.last_code != Exit.OK:
                return True
            if not self._run_command(command):
                return False
            if self.last_code == Exit.INTERRUPTED:
                return True
        return True

    def _run_command(self, text: str) -> bool:
        text = text.strip()
        if not text or text.startswith("#"):
            return True
        began = time.monotonic()
        self.last_code = Exit.OK
        try:
            if text in ("exit", "quit", "\\q"):
                return False
            if not self._own(text):
                self._run(split_line(text))
        except UsageError as e:
            self.last_code = usage(e)
        except CommandError as e:
            _say(str(e))
            self.last_code = e.code
        except OSError as e:
            where = f"{e.filename}: " if e.filename else ""
            _say(f"{where}{e.strerror or e}.")
            self.last_code = Exit.FAILED
        except KeyboardInterrupt:
            self.last_code = Exit.INTERRUPTED
        if self.timing:
            sys.stderr.write(f"Time: {show_span((time.monotonic() - began) * 1000)}\n")
        return True

    def _own(self, text: str) -> bool:
        """Run one of the shell's own words. Returns False if the line is a command."""
        word, *rest = text.split()
        if word == "use":
            self._use(split_line(text).words[1:])
        elif text == "clear":
            if self.interactive and os.environ.get("TERM", "dumb") != "dumb":
                sys.stdout.write("\x1b[H\x1b[2J")
        elif word == "\\?":
            self._show(HELP.encode())
        elif word == "\\timing":
            self.timing = _switched(self.timing, rest)
            sys.stderr.write(f"Timing is {'on' if self.timing else 'off'}.\n")
        elif word == "\\pager":
            self.paging = _switched(self.paging, rest)
            sys.stderr.write(f"The pager is {'on' if self.paging else 'off'}.\n")
        elif word == "\\refresh":
            self.engine.soon(self.cache.stale)
            sys.stderr.write("Fetching the names for completion.\n")
        elif word.startswith("\\") and word[:2] not in ("\\w", "\\G"):
            raise Unusable(f"The shell has no command {word}; \\? lists its commands.")
        elif word.startswith("!"):
            raise Unusable(
                "The shell runs only commands of pk; Ctrl-Z suspends it, and `fg` resumes it."
            )
        else:
            return False
        return True

    def _use(self, words: list[str]) -> None:
        cache = self.cache
        match words:
            case []:
                cache.topic = cache.group = None
            case ["topic", *names] if len(names) < 2:
                cache.topic = self._known("topic", names)
            case ["group", *names] if len(names) < 2:
                cache.group = self._known("group", names)
            case ["profile", name]:
                self._switch(name)
            case _:
                raise Unusable(
                    f"use takes `topic NAME`, `group NAME` or `profile NAME`{self._meant(words)}"
                )

    def _meant(self, words: list[str]) -> str:
        """The end of the sentence about a wrong `use`: a suggestion, if its last word is a known
        name."""
        name = words[-1]
        kinds = [kind for kind in ("topic", "group") if name in self._names(kind)]
        if not kinds:
            return "."
        return "; did you mean " + " or ".join(f"`use {kind} {name}`" for kind in kinds) + "?"

    def _known(self, kind: str, names: list[str]) -> str | None:
        """The given name, if any. Warns if the shell does not know the name, but accepts it, since
        it may be created later."""
        if not names:
            return None
        known = self._names(kind)
        if known and names[0] not in known:
            _say(f"No {kind} {names[0]!r} is known yet{did_you_mean(names[0], known)}")
        return names[0]

    def _names(self, kind: str) -> list[str]:
        return [candidate.word for candidate in self.cache.names(kind)]

    def _switch(self, profile: str) -> None:
        """Switch to the cluster of another profile. Raises CommandError."""
        with self.on_interrupt(raise_interrupt):  # it may ask for a secret
            self.settings = settings_of(Reach(profile=profile))
        settings = self.settings
        self.engine.soon(lambda: self.cache.switch(settings))

    def _run(self, line: Line) -> None:
        words = line.words[1:] if line.words[:1] == ["pk"] else line.words
        if not words:
            if not self.last:
                raise Unusable("There is no command to repeat yet.")
            words = self.last
        parsed = parse(self.filled(words))
        self.last = words
        say_renamed(parsed)
        self._check(parsed, line)
        with self._redirected(line) as (out, terminal):
            if parsed.wants_help:
                self._say_help(parsed, out)
            else:
                self.last_code = self._command(parsed, line, out, terminal)

    @contextlib.contextmanager
    def _redirected(self, line: Line) -> Generator[tuple[BinaryIO | None, bool | None]]:
        """The destination of standard output, and whether it is a terminal (None: to be detected).
        If a program fails, a command that succeeded fails too."""
        if line.file is not None:
            with open(os.path.expanduser(line.file), "ab" if line.append else "wb") as file:
                yield file, False
        elif line.command is not None:
            process = subprocess.Popen(line.command, shell=True, stdin=subprocess.PIPE)
            assert process.stdin is not None
            try:
                yield cast(BinaryIO, process.stdin), False
            finally:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                code = process.wait()
            self.last_code = self.last_code or (code if code >= 0 else 128 - code)
        else:
            yield None, None

    def _check(self, parsed: Parsed, line: Line) -> None:
        """Refuse commands that do not work in the shell. Raises UsageError."""
        path, node = parsed.path, parsed.node
        if parsed.wants_help or not isinstance(node, Command):
            return
        if not node.in_shell:
            raise UsageError(f"pk {' '.join(path)} does not work in the shell", path)
        assert parsed.declared is not None
        needed = parsed.declared.shell_needs
        if needed and not parsed.values[needed]:
            raise UsageError(f"In the shell, `{' '.join(path)}` needs --{needed}", path)
        if line.watch_s is not None and not parsed.declared.may_repeat(parsed.values):
            raise UsageError(
                f"\\w cannot repeat pk {' '.join(path)}: it repeats commands that show something "
                "and end",
                path,
            )

    def _say_help(self, parsed: Parsed, out: BinaryIO | None) -> None:
        text = help_text(parsed.node, parsed.typed).encode()
        if out is not None:
            out.write(text)
        else:
            self._show(text)

    def _show(self, text: bytes) -> None:
        """Write text, through the pager if it is too tall for the screen."""

        def write(streams: Streams) -> None:
            streams.out.write(text)
            streams.out.flush()

        self._held(write)

    def _command(
        self, parsed: Parsed, line: Line, out: BinaryIO | None, terminal: bool | None
    ) -> int:
        node, declared = parsed.node, parsed.declared
        assert isinstance(node, Command) and declared is not None
        watched = line.watch_s is not None or parsed.values.get("repeat")
        if out is None and not watched and not node.changes and declared.screen != "paints":
            through = declared.screen == "streams"
            return self._held(lambda streams: self._run_on(parsed, line, streams), through=through)
        streams = Streams(out=out, out_terminal=terminal, stdin=self.stdin)
        return self._run_on(parsed, line, streams)

    def _held(self, run: Callable[[Streams], Any], *, through: bool = False) -> int:
        """Run with the output held back until it is clear whether it fits the screen; with
        `through`, write immediately."""
        if not self.interactive:
            return int(run(Streams(stdin=self.stdin)) or 0)
        held = HeldOutput(through=through)
        streams = Streams(
            out=cast(BinaryIO, held), err=cast(TextIO, HeldError(held)), out_terminal=True
        )
        self._holding = held
        try:
            return int(run(streams) or 0)
        finally:
            self._holding = None
            held.finish(paged=self.paging and not through)

    def _run_on(self, parsed: Parsed, line: Line, streams: Streams) -> int:
        from pk.cli.shell.vertical import VerticalContext

        node, declared = parsed.node, parsed.declared
        assert isinstance(node, Command) and declared is not None
        kind = VerticalContext if line.vertical else Context
        context = kind(parsed.values, parsed.path, streams)
        if not parsed.values.given.intersection(CONNECTING):
            context.use(self.settings)
        try:
            handler = handler_of(parsed)
        except CommandError as e:
            return reported(context, e)
        if line.watch_s is not None:
            handler = _watched(handler, line.watch_s, in_thread=node.blocking)
        elif node.blocking:
            return self._run_here(handler, context)
        # In a script, a command fails as it does in `pk`, since no user is waiting.
        retried = self.interactive and not node.changes and declared.screen == "held"
        job = Job(handler, context, retried=retried)
        code = self._wait(job)
        with contextlib.suppress(BrokenPipeError):
            streams.out.flush()
        if node.changes:
            self.engine.soon(self.cache.stale)
        return code

    def _run_here(self, handler: Callable[[Context], Any], context: Context) -> int:
        """Run a command that needs no event loop, in this thread."""
        try:
            with self.on_interrupt(raise_interrupt):
                return int(handler(context) or context.exit)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - reported, and the shell continues
            return reported(context, error)

    def _wait(self, job: Job) -> int:
        """Wait for a command in the engine, or for the Ctrl-C that ends it. Returns its exit
        code."""

        def interrupt() -> None:
            os.write(2, b"\n")  # the prompt must not overwrite the line
            self.engine.interrupt(job)

        with self.on_interrupt(interrupt):
            self.engine.start(job)
            began = time.monotonic()
            while not job.serve(_WAIT_S) and not job.abandoned:
                if self._holding is not None:
                    self._holding.release_if_late()
                # The client retries for many seconds before it fails, and the toolbar is hidden
                # during that time.
                if job.retried and self.cache.lost and time.monotonic() - began > _LOST_S:
                    job.say_lost()
        return Exit.INTERRUPTED if job.abandoned else job.code

    def filled(self, words: list[str]) -> list[str]:
        """`words`, completed with the topic or group of `use` if the command takes it from there
        and the line names none."""
        from pk.cli.command_line.completion.candidates import locate

        place = locate(tree(), words)
        node = place.node
        if not isinstance(node, Command) or not node.from_use or place.plain:
            return words
        given = {option.dest for option, _ in place.given}
        target = node.arguments[0]
        if not given.isdisjoint((target.dest, *node.instead_of_use)):
            return words
        name = self.cache.current(target.name.lower())
        return [*words, name] if name else words


def _watched(
    handler: Callable[[Context], Any], seconds: float, *, in_thread: bool
) -> Callable[[Context], Any]:
    import trio

    from pk.cli.runtime.watch import watch

    async def once(context: Context) -> None:
        await trio.to_thread.run_sync(handler, context, abandon_on_cancel=True)

    return lambda context: watch(context, once if in_thread else handler, seconds)


async def _nothing(session: object) -> None:
    """Do nothing: a script needs no refreshes, as it has neither toolbar nor completion."""


def _say(text: str) -> None:
    """Write a line to standard error, escaped, since it may contain names from the cluster."""
    sys.stderr.write(f"{escaped_lines(text)}\n")


def raise_interrupt() -> None:
    """Raise KeyboardInterrupt, as the effect of Ctrl-C on a command in this thread."""
    raise KeyboardInterrupt


def _in_finalizer(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _leave(number: int, _frame: object) -> None:
    if number == signal.SIGHUP:
        redirect_closed_terminal()
    raise SystemExit(128 + number)


def _switched(now: bool, words: list[str]) -> bool:
    """The new state of a switch: the given one, or the opposite of the current one. Raises
    UsageError."""
    match words:
        case []:
            return not now
        case [("on" | "off") as word]:
            return word == "on"
        case _:
            raise Unusable("A setting takes on, off, or no argument, which toggles it.")
