"""`pk shell`: the command tree, interactively.

use topic orders     commands that take a topic take this one where none is named
use group billing    the same for groups
use                  forget both
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import BinaryIO

from pk.cli.context import Context, Streams
from pk.cli.exits import CommandError, Exit
from pk.cli.grammar import Command, Parsed, UsageError, parse
from pk.cli.help import help_text
from pk.cli.main import usage
from pk.cli.paths import make_user_dir
from pk.cli.run import handler_of, report
from pk.cli.shell.cache import Cache
from pk.cli.shell.completer import NOT_HERE, ShellCompleter
from pk.cli.shell.engine import Engine
from pk.cli.shell.words import Line, split_line
from pk.cli.tree import ROOT

_CONNECTING = ("bootstrap_server", "profile", "client_properties", "config_file")
_NOT_FILLED = frozenset(("create", "delete"))
"""Commands that want their topics named, whatever `use` says."""


class Shell:
    """The state of a shell: its cluster, what `use` set, its engine."""

    def __init__(self, context: Context) -> None:
        self.settings = context.settings
        self.cache = Cache(context.settings)
        self.topic: str | None = None
        self.group: str | None = None
        self.engine = Engine(self.cache.keep_fresh)
        self.last_code: int = Exit.OK

    # what the prompt shows

    @property
    def name(self) -> str:
        profile = self.settings.profile
        return profile.name if profile else self.settings.bootstrap.split(",")[0]

    @property
    def prompt(self) -> str:
        about = " ".join(filter(None, (self.topic, f"@{self.group}" if self.group else None)))
        return f"{self.name} {about}> " if about else f"{self.name}> "

    def toolbar(self) -> str:
        """Cluster, brokers, health and the age of what completion knows."""
        cache = self.cache
        parts = [self._short_name()]
        if cache.error is not None:
            parts.append(cache.error)
        if cache.refreshed is not None:
            parts.append(cache.brokers_up())
            parts.append(f"{cache.under_replicated} under-replicated")
            if cache.offline:
                parts.append(f"{cache.offline} offline")
            if cache.moving:
                parts.append(f"{cache.moving} moving")
            if cache.controller is not None:
                parts.append(f"controller {cache.controller}")
        return " · ".join([*parts, cache.age()])

    def _short_name(self) -> str:
        """The cluster's name; of several addresses only the first, or nothing else would fit beside them."""
        first, *more = self.settings.bootstrap.split(",")
        address = f"{first} (+{len(more)})" if more else first
        profile = self.settings.profile
        return f"{profile.name} ({address})" if profile else address

    # what a line does

    def run_line(self, text: str) -> bool:
        """Runs a line; False when it ends the shell."""
        try:
            line = split_line(text)
            if not line.words:
                return True
            if line.words[0] in ("exit", "quit"):
                return False
            if line.words[0] == "use":
                self._use(line.words[1:])
                return True
            self._run(line)
        except UsageError as e:
            self.last_code = usage(e)
        except CommandError as e:
            sys.stderr.write(f"{e}\n")
            self.last_code = e.code
        except OSError as e:
            sys.stderr.write(f"{e.filename}: {e.strerror}.\n")
            self.last_code = Exit.FAILED
        return True

    def _use(self, words: list[str]) -> None:
        match words:
            case []:
                self.topic = self.group = None
            case ["topic", name]:
                self.topic = name
            case ["group", name]:
                self.group = name
            case ["topic"]:
                self.topic = None
            case ["group"]:
                self.group = None
            case _:
                raise UsageError("use takes `topic NAME` or `group NAME`")

    def _run(self, line: Line) -> None:
        words = line.words[1:] if line.words[0] == "pk" else line.words
        parsed = parse(ROOT, self.filled(words))
        if parsed.path and parsed.path[0] in NOT_HERE:
            raise UsageError(f"pk {parsed.path[0]} is for outside the shell")
        with _output(line) as (out, terminal):
            streams = Streams(out=out, out_terminal=terminal)
            if parsed.wants_help:
                streams.out.write(help_text(parsed.node, parsed.path).encode())
                streams.out.flush()
                self.last_code = Exit.OK
            else:
                self.last_code = self._command(parsed, streams)

    def _command(self, parsed: Parsed, streams: Streams) -> int:
        assert isinstance(parsed.node, Command)
        if parsed.path == ("broker", "start") and not parsed.args.values()["detach"]:
            raise UsageError("in the shell, `broker start` wants --detach")
        context = Context(parsed.args, parsed.path, streams)
        if not any(parsed.args.given(name) for name in _CONNECTING):
            context.use(self.settings)
        handler = handler_of(parsed)
        if parsed.node.blocking:
            try:
                return int(handler(context) or context.exit)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - told, and the shell goes on
                return report(context, error)
        changes = any(o.dest in ("yes", "dry_run") for o in parsed.node.options)
        streaming = parsed.path[0] in ("console-consumer", "console-producer")
        code = self.engine.run(handler, context, retried=not changes and not streaming)
        if changes:
            self.engine.soon(self.cache.stale)
        return code

    def filled(self, words: list[str]) -> list[str]:
        """`words` with the topic or group of `use` where the command takes one and none is named."""
        from pk.cli.complete import locate

        place = locate(ROOT, words)
        node = place.node
        if not isinstance(node, Command) or node.name in _NOT_FILLED or place.plain:
            return words
        given = {option.dest for option, _ in place.given}
        if given & {"help", "topics", "topic", "groups", "group", "include", "all_groups"}:
            return words
        first = node.arguments[0].name if node.arguments else ""
        name = self.topic if first == "TOPIC" else self.group if first == "GROUP" else None
        return [*words, name] if name else words


@contextlib.contextmanager
def _output(line: Line) -> Iterator[tuple[BinaryIO | None, bool | None]]:
    """Where standard output goes, and whether that is a terminal (None: find out)."""
    if line.file is not None:
        with open(os.path.expanduser(line.file), "ab" if line.append else "wb") as file:
            yield file, False
    elif line.command is not None:
        with subprocess.Popen(line.command, shell=True, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            try:
                yield process.stdin, False  # pyright: ignore[reportReturnType]
            finally:
                with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
                    process.stdin.close()
    else:
        yield None, None


def shell(context: Context) -> int:
    """`pk shell`: interactively on a terminal; else the lines of standard input, one after another."""
    session = Shell(context)
    with session.engine:
        if not context.streams.in_terminal:
            for raw in context.streams.stdin:
                if not session.run_line(raw.decode(errors="replace").strip()):
                    break
            return session.last_code
        _interact(session)
    return Exit.OK


def _interact(session: Shell) -> None:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.formatted_text import FormattedText
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory

    history: History
    try:
        history = FileHistory(os.path.join(make_user_dir("state"), "history"))
    except OSError:
        history = InMemoryHistory()
    profile = session.settings.profile
    style = f"bold ansi{profile.colour}" if profile and profile.colour else "bold"
    if os.environ.get("NO_COLOR"):
        style = ""
    prompts: PromptSession[str] = PromptSession(
        history=history,
        completer=ShellCompleter(ROOT, session.cache),
        complete_while_typing=True,
        complete_in_thread=False,
        auto_suggest=AutoSuggestFromHistory(),
        bottom_toolbar=session.toolbar,
        refresh_interval=1.0,
        enable_open_in_editor=True,
    )
    while True:
        try:
            text = prompts.prompt(lambda: FormattedText([(style, session.prompt)]))
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if not session.run_line(text):
            return
