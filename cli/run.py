"""Runs a parsed command: finds its function, runs it, and turns whatever it raises into a sentence and an exit code."""

import sys
from collections.abc import Callable
from typing import Any

from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.tree import Command
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import CommandError, Exit
from pk.cli.runtime.interruption import RaisingInterrupts
from pk.cli.terminal.streams import Streams


def handler_of(parsed: Parsed) -> Callable[[Context], Any]:
    """The function that does what was asked for: the command's own, under what the profile forbids; again and again
    where it is to be watched, with its requests shown where they are to be traced; or, for `-f schema`, one that prints
    what its JSON looks like. Raises Unusable where what was asked of the output cannot be."""
    assert isinstance(parsed.node, Command)
    values = parsed.values
    if values.get("format") == "schema":
        return _schema_shower(parsed)
    if any(values.get(name) for name in ("format", "columns", "sort", "where")):
        from pk.cli.output.output_options import check_output_options

        check_output_options(parsed)
    assert parsed.work is not None
    handler = once = parsed.work
    seconds, how = values.get("watch_s"), values.get("trace")
    if seconds is not None:
        from pk.cli.output.watch import watch

        handler = lambda context: watch(context, once, seconds)
    if parsed.node.blocking:
        return handler
    if any(option.dest == "profile" for option in parsed.node.options):
        from pk.cli.runtime.guards import guarded

        handler = guarded(handler)
    if seconds is None:
        from pk.cli.runtime.slow_answer import telling

        handler = telling(handler, parsed.path)
    if how is not None:
        from pk.cli.runtime.trace import traced

        handler = traced(handler, how)
    return handler


def _schema_shower(parsed: Parsed) -> Callable[[Context], Any]:
    def show(context: Context) -> None:
        import json

        from pk.cli.output.schema import schema_of

        context.write(json.dumps(schema_of(parsed), indent=2).encode() + b"\n")

    async def show_soon(context: Context) -> None:
        show(context)

    assert isinstance(parsed.node, Command)
    return show if parsed.node.blocking else show_soon


def run_command(parsed: Parsed, streams: Streams | None = None) -> int:
    """Runs the command and returns its exit code; errors are told on standard error."""
    assert isinstance(parsed.node, Command)
    streams = streams or Streams()
    context = Context(parsed.values, parsed.path, streams)
    try:
        handler = handler_of(parsed)
        if not parsed.node.blocking:
            from pk.cli.runtime.connect import run

            once, handler = handler, lambda context: run(once, context)
        with RaisingInterrupts():
            code = int(handler(context) or 0)
            streams.out.flush()
        if streams.in_terminal and streams.err_terminal:
            _refresh_names(parsed, context)
        return code or int(context.exit)
    except BaseException as error:
        if isinstance(error, (SystemExit, GeneratorExit)):
            raise
        return report(context, error)


def _refresh_names(parsed: Parsed, context: Context) -> None:
    """Has the names that completion offers fetched anew, where a command at a terminal may have changed them or they are
    old; nobody waits for it."""
    dests = {option.dest for option in parsed.node.options}
    if "bootstrap_server" not in dests or context.session is None:
        return
    from pk.cli.command_line.completion.name_refresh import refresh_soon

    changed = not dests.isdisjoint(("yes", "dry_run")) and not parsed.values.get("dry_run")
    refresh_soon(context.settings.bootstrap, parsed.values, changed=changed)


def report(context: Context, error: BaseException) -> int:
    """Tells of an error that ended a command and returns the exit code for it."""
    if isinstance(error, CommandError):
        found: BaseException = error
        code, text = error.code, str(error)
    else:
        from pk.cli.runtime.failures import exit_code, leaf, sentence

        found = leaf(error)
        if isinstance(found, BrokenPipeError):
            from pk.cli.main import drop_output

            drop_output()
            return Exit.OK
        code, text = exit_code(found), sentence(found)
    try:
        context.say_where(error)
        if code == Exit.INTERRUPTED and isinstance(found, KeyboardInterrupt):
            if context.streams.err_terminal:
                context.say()
        else:
            context.say(text)
    except OSError:
        sys.stderr = None
    return code
