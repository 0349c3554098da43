"""Commands and nouns as data, from their declarations, for help, the manual and the index that
completion reads."""

from collections.abc import Iterable
from typing import Any

from pk.cli.command_line import tree
from pk.cli.command_line.declared import Declared
from pk.cli.command_line.kit import Command, Group, load_noun
from pk.cli.command_line.nouns import NOUNS, under
from pk.cli.command_line.schema import column_names
from pk.cli.options.parameters import (
    Argument,
    Option,
    Parameter,
    arguments_of,
    options_of,
)
from pk.cli.options.values import (
    Pair,
    apache_minutes,
    apache_ms,
    config_pair,
    count,
    pause,
    signed,
    span,
)
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


def _value_word(parameter: Parameter, option: Option) -> str | None:
    """The word that help shows for an option's value; None for a flag."""
    if parameter.is_flag:
        return None
    return option.value or "|".join(parameter.choices) or "VALUE"


def _option(parameter: Parameter, option: Option) -> dict[str, Any]:
    if parameter.choices:
        kind = "choice"
    elif option.separated:
        kind = "list"
    else:
        kind = _PARSERS.get(option.parser, _KINDS.get(parameter.kind))
    return {
        "names": list(option.names),
        "dest": parameter.gives or parameter.name,
        "help": option.help,
        **_present(
            value=_value_word(parameter, option),
            kind=kind,
            choices=list(parameter.choices),
            repeat=parameter.many,
            hidden=option.hidden,
            complete=option.complete,
            panel=option.panel,
        ),
    }


def _argument(parameter: Parameter, argument: Argument) -> dict[str, Any]:
    return {
        "name": argument.name,
        "dest": parameter.name,
        "help": argument.help,
        **_present(
            many=parameter.many, optional=not parameter.required, complete=argument.complete
        ),
    }


def numbered(parameters: Iterable[Parameter], options: list[dict[str, Any]]) -> list[int]:
    """The index of each option in `options`, which gets the options that it lacks."""
    numbers: list[int] = []
    for parameter, option in options_of(parameters):
        if option.eager:  # -h, which help adds itself
            continue
        data = _option(parameter, option)
        if data not in options:
            options.append(data)
        numbers.append(options.index(data))
    return numbers


def _command(declared: Declared, options: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "names": list(declared.names),
        "help": " ".join(declared.help.split()),
        "options": numbered(declared.parameters, options),
        **_present(
            arguments=[_argument(*each) for each in arguments_of(declared.parameters)],
            examples=list(declared.examples),
            notes=declared.notes,
            columns=column_names(declared),
            blocking=declared.blocking,
            from_use=declared.from_use,
            instead_of_use=list(declared.instead_of_use),
            not_in_shell=not declared.in_shell,
        ),
    }


def noun_data(name: str, node: Command | Group, options: list[dict[str, Any]]) -> dict[str, Any]:
    """A noun as data for the index."""
    entry = NOUNS[name]
    if isinstance(node, Command):
        return _command(node.declared, options) | {"names": list(entry.names)}
    commands = [_command(each, options) for each in node.declarations.values()]
    nested = dict.fromkeys(under(name).values())
    nouns = [noun_data(each, load_noun(each), options) for each in nested]
    return {
        "names": list(entry.names),
        "help": entry.help,
        "children": nouns + commands if node.nouns_first else commands + nouns,
        **_present(usual=entry.usual),
    }


def described(declared: Declared) -> tree.Command:
    """A command as data."""
    options: list[dict[str, Any]] = []
    return tree.Command(_command(declared, options), list(options))


def described_noun(group: Group) -> tree.Group:
    """A noun as data; for the root, only the names of its nouns."""
    options: list[dict[str, Any]] = []
    if group.key:
        return tree.Group(noun_data(group.key, group, options), list(options))
    entries = [NOUNS[key] for key in dict.fromkeys(under("").values())]
    children = [
        {"names": list(e.names), "help": e.help, "options": [], "children": []} for e in entries
    ]
    data = {
        "names": ["pk"],
        "help": group.help or "",
        "options": numbered(group.parameters, options),
        "children": children,
    }
    return tree.Group(data, list(options))
