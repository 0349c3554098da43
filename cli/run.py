"""Runs a parsed command: finds its function, runs it, and converts any error to a sentence and an
exit code."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.tree import Command
from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.runtime.context import Context, Handler
from pk.cli.terminal.interruption import RaisingInterrupts
from pk.cli.terminal.streams import Streams

Work = Callable[[Context], Any]
"""The work of a command: a `Handler` or, for a blocking command, a plain function that returns the
exit code."""


def handler_of(parsed: Parsed) -> Work:
    """The function that runs the command: restricted by the profile, repeated for --watch, with its
    requests shown for --trace. For `-f schema`, a function that prints the JSON Schema. Raises
    Unusable if the output options do not fit the command."""
    assert isinstance(parsed.node, Command)
    values = parsed.values
    if values.get("format") == "schema":
        return _schema_shower(parsed)
    if any(values.get(name) for name in ("format", "columns", "sort", "where")):
        from pk.cli.command_line.output_options import check_output_options

        check_output_options(parsed)
    assert parsed.work is not None
    handler: Work = parsed.work
    once = parsed.work
    repeats = values.get("repeat")
    if repeats:
        from pk.cli.runtime.watch import watch

        handler = lambda context: watch(context, once, values["interval"].s)
    elif values.get("watch", repeats) is False and "interval" in values.given:
        raise Unusable("--interval has no effect without -w.")
    if parsed.node.blocking:
        return handler
    if any(option.dest == "profile" for option in parsed.node.options):
        from pk.cli.runtime.guards import explained, guarded

        if parsed.declared is None or not parsed.declared.guards_itself:
            handler = guarded(handler)
        handler = explained(handler)
    if not repeats:
        from pk.cli.runtime.slow_answer import showing_waits

        if parsed.declared is None or not parsed.declared.shows_waits:
            handler = showing_waits(handler)
    if values.get("trace") or values.get("trace_json"):
        from pk.cli.runtime.trace import traced

        handler = traced(handler, as_json=values["trace_json"])
    return handler


def _warning_of_leftovers(handler: Work) -> Handler:
    """Wrap `handler`, to warn afterwards of throttles that an earlier command left in the
    cluster."""
    from pk.cli.cluster.leftover_throttles import warn_of_leftover_throttles

    async def run(context: Context) -> int | None:
        code = await handler(context)
        await warn_of_leftover_throttles(context)
        return code

    return run


def _schema_shower(parsed: Parsed) -> Work:
    def show(context: Context) -> None:
        import json

        from pk.cli.command_line.schema import schema_of

        context.write(json.dumps(schema_of(parsed), indent=2).encode() + b"\n")

    async def show_soon(context: Context) -> None:
        show(context)

    assert isinstance(parsed.node, Command)
    return show if parsed.node.blocking else show_soon


def run_command(parsed: Parsed, streams: Streams | None = None) -> int:
    """Run the command and return its exit code. Errors are reported on standard error."""
    assert isinstance(parsed.node, Command)
    streams = streams or Streams()
    context = Context(parsed.values, parsed.path, streams)
    try:
        handler: Work = handler_of(parsed)
        if not parsed.node.blocking:
            from pk.cli.runtime.connect import run

            handler = partial(run, _warning_of_leftovers(handler))
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
    """Start fetching the names for completion, if a command at a terminal may have changed them or
    they are old. Does not wait."""
    assert isinstance(parsed.node, Command)
    if not parsed.node.connects or context.session is None:
        return
    from pk.cli.command_line.completion.name_refresh import refresh_soon

    changed = parsed.node.changes and not parsed.values.get("dry_run")
    refresh_soon(context.settings.bootstrap, parsed.values, changed=changed)


def report(context: Context, error: BaseException) -> int:
    """Report the error that ended a command and return its exit code."""
    if isinstance(error, CommandError):
        found: BaseException = error
        code, text = error.code, str(error)
    else:
        from pk.cli.runtime.failures import exit_code, leaf, sentence

        found = leaf(error)
        if isinstance(found, BrokenPipeError):
            from pk.cli.terminal.stdout import drop_output

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
