"""Commands and nouns as data, from typer's parameters: for help, the manual, and the index that
completion reads."""

from collections.abc import Sequence
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from pk.cli.command_line import tree
from pk.cli.command_line.declared import declared_of
from pk.cli.command_line.nouns import NOUNS
from pk.cli.command_line.parameters import (
    Argument,
    arguments_of,
    choices_of,
    info_of,
    options_of,
)
from pk.cli.command_line.values import (
    Pair,
    apache_minutes,
    apache_ms,
    config_pair,
    count,
    pause,
    signed,
    span,
)
from pk.cli.output.schema import column_names
from pk.core.durations import Duration

_KINDS = {int: "int", float: "number", Pair: "pair", Duration: "duration"}
_PARSERS: dict[Any, str] = {
    count: "count",
    span: "duration",
    signed: "duration",
    apache_ms: "milliseconds",
    apache_minutes: "minutes",
    pause: "pause",
    config_pair: "config",
}


def _present(**data: Any) -> dict[str, Any]:
    """The entries that have a value."""
    return {key: value for key, value in data.items() if value not in (None, "", (), [], {}, False)}


def _value_word(option: TyperOption) -> str | None:
    """The word that help shows for an option's value; None for a flag. An option that declares no
    word for it is no flag for that."""
    if option.is_flag:
        return None
    return option.metavar or "|".join(choices_of(option)) or "VALUE"


def _option(option: TyperOption) -> dict[str, Any]:
    info, descriptor = info_of(option), option.type_descriptor
    kind = descriptor.annotation.__args__[0] if descriptor.is_list else descriptor.annotation
    if choices_of(option):
        name = "choice"
    elif info.separated:
        name = "list"
    else:
        name = _PARSERS.get(info.parser, _KINDS.get(kind))
    return {
        "names": option.opts,
        "dest": info.gives or option.name,
        "help": option.help or "",
        **_present(
            value=_value_word(option),
            kind=name,
            choices=list(choices_of(option)),
            repeat=option.multiple,
            hidden=option.hidden,
            complete=info.complete,
            assumed=info.assumed,
            takes_next=info.takes_next,
            panel=option.rich_help_panel,
        ),
    }


def _argument(argument: TyperArgument) -> dict[str, Any]:
    info = argument.type_descriptor.parameter_info
    assert isinstance(info, Argument)
    return {
        "name": argument.metavar,
        "dest": argument.name,
        "help": argument.help or "",
        **_present(
            many=argument.nargs == -1, optional=not argument.required, complete=info.complete
        ),
    }


def numbered(found: Sequence[TyperOption], options: list[dict[str, Any]]) -> list[int]:
    """The index of each option in the list of all options seen."""
    numbers: list[int] = []
    for each in found:
        data = _option(each)
        if data not in options:
            options.append(data)
        numbers.append(options.index(data))
    return numbers


def _command(command: TyperCommand, options: list[dict[str, Any]]) -> dict[str, Any]:
    declared = declared_of(command)
    return {
        "names": list(declared.names),
        "help": " ".join((command.help or "").split()),
        "options": numbered(options_of(command), options),
        **_present(
            arguments=[_argument(each) for each in arguments_of(command)],
            examples=list(declared.examples),
            notes=declared.notes,
            columns=column_names(declared),
            blocking=declared.blocking,
            from_use=declared.from_use,
            not_in_shell=not declared.in_shell,
        ),
    }


def noun_data(
    name: str, node: TyperCommand | TyperGroup, options: list[dict[str, Any]]
) -> dict[str, Any]:
    if isinstance(node, TyperCommand):
        return _command(node, options)
    entry = NOUNS[name]
    children: list[dict[str, Any]] = []
    for child in node.commands.values():
        assert isinstance(child, TyperCommand)
        children.append(_command(child, options))
    return {
        "names": list(entry.names),
        "help": entry.help,
        "children": children,
        **_present(also=entry.also),
    }


def described(command: TyperCommand) -> tree.Command:
    """A command as data."""
    options: list[dict[str, Any]] = []
    return tree.Command(_command(command, options), list(options))


def described_noun(group: TyperGroup, name: str) -> tree.Group:
    """A noun as data; for the root, only the names of its nouns."""
    options: list[dict[str, Any]] = []
    if name in NOUNS:
        return tree.Group(noun_data(name, group, options), list(options))
    children = [
        {"names": list(e.names), "help": e.help, "options": [], "children": []}
        for e in NOUNS.values()
    ]
    data = {
        "names": ["pk"],
        "help": group.help or "",
        "options": numbered(options_of(group), options),
        "children": children,
    }
    return tree.Group(data, list(options))
