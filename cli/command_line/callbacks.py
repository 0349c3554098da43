"""The functions that typer calls for a command and for a noun.

They do not run the command: they return what to run (`Parsed`), since `pk` and `pk shell` run it
differently.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import typer

from pk.cli.command_line.declared import Declared
from pk.cli.command_line.describe import described, described_noun
from pk.cli.command_line.kit import HELP, RENAMED, is_given, refused
from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.tree import Command
from pk.cli.options.option_values import Values
from pk.cli.options.parameters import BY_OPTION, Parameter, signature


def callback(
    parameters: Sequence[Parameter], declared: Declared | None = None
) -> Callable[..., Parsed | None]:
    """The function that typer calls with the values of these parameters. It is for a command or,
    without `declared`, for a noun."""
    taken = [*parameters, HELP]

    @cache
    def node() -> Command:
        assert declared is not None
        return described(declared)

    def called(context: typer.Context, **_: Any) -> Parsed | None:
        if declared is not None:
            return _to_run(context, declared, node())
        return _help_of_noun(context) if context.invoked_subcommand is None else None

    found: Any = called
    found.__signature__ = signature(taken)
    found.__annotations__ = {p.name: p.annotation for p in found.__signature__.parameters.values()}
    found.parameters, found.declared = taken, declared
    return found


def _lineage(context: typer.Context) -> list[Any]:
    """The contexts of the noun and the command below `pk`."""
    found: list[Any] = []
    each: Any = context
    while each.parent is not None:
        found.insert(0, each)
        each = each.parent
    return found


def _path(context: typer.Context) -> tuple[str, ...]:
    return tuple(str(each.command.name) for each in _lineage(context))


def _typed(context: typer.Context) -> tuple[str, ...]:
    return tuple(str(each.info_name) for each in _lineage(context))


def _help_of_noun(context: typer.Context) -> Parsed:
    group: Any = context.command
    given = {name for name in context.params if is_given(context, name)}
    values = {"version": False, **context.params}
    found = Values(values, given)
    renamed = context.meta.get(RENAMED, "")
    return Parsed(described_noun(group), _path(context), found, _typed(context), renamed=renamed)


def _to_run(context: typer.Context, declared: Declared, node: Command) -> Parsed:
    """The request of a command line. An option before the noun applies to the command, if the
    command takes it. Raises UsageError."""
    path, typed = _path(context), _typed(context)
    renamed = context.meta[RENAMED]
    if any(each.params[HELP.name] for each in (context.find_root(), *_lineage(context))):
        return Parsed(node, path, Values(), typed, renamed=renamed)
    root: Any = context.find_root()
    values = dict(context.params)  # typer would pass lists, and None for empty ones
    given = {name for name in values if is_given(context, name)}
    for option in root.command.parameters:
        name = option.name
        if not is_given(root, name):
            continue
        if name not in values:
            said = f"{context.command_path} takes no {option.shown}"
            raise refused(context, said)
        if option.many:
            values[name] = (*root.params[name], *(values[name] if name in given else ()))
        elif name not in given:
            values[name] = root.params[name]
        given.add(name)
    work = declared.call(values)
    known = {**root.params, **values}
    shown = {k: v for k, v in known.items() if not k.endswith(BY_OPTION) and k != HELP.name}
    return Parsed(node, path, Values(shown, given), typed, work, declared, renamed)
