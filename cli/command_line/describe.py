"""The command tree as data, out of typer's parameters: for help, the manual, and the index that completion reads."""

import json
from collections.abc import Sequence
from typing import Any

from typer.core import TyperArgument, TyperOption

from pk.cli.command_line import tree
from pk.cli.command_line.declare import Argument
from pk.cli.command_line.kit import Command, Group, arguments_of, load_noun, options_of
from pk.cli.command_line.nouns import NOUNS
from pk.cli.command_line.values import Pair, config_pair, count, pause, seconds
from pk.cli.command_line.words import choices_of, info_of
from pk.cli.output.schema import column_names

_KINDS = {int: "int", float: "number", Pair: "pair"}
_PARSERS: dict[Any, str] = {
    count: "count",
    seconds: "seconds",
    pause: "pause",
    config_pair: "config",
}


def _present(**data: Any) -> dict[str, Any]:
    """The data that says anything."""
    return {key: value for key, value in data.items() if value not in (None, "", (), [], {}, False)}


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
            value=option.metavar,
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


def _numbered(found: Sequence[TyperOption], options: list[dict[str, Any]]) -> list[int]:
    """Where each option stands in the list of all that were met."""
    numbers: list[int] = []
    for each in found:
        data = _option(each)
        if data not in options:
            options.append(data)
        numbers.append(options.index(data))
    return numbers


def _command(command: Command, options: list[dict[str, Any]]) -> dict[str, Any]:
    declared = command.declared
    return {
        "names": list(declared.names),
        "help": " ".join((command.help or "").split()),
        "options": _numbered(options_of(command), options),
        **_present(
            arguments=[_argument(each) for each in arguments_of(command)],
            examples=list(declared.examples),
            notes=declared.notes,
            columns=column_names(declared),
            blocking=declared.blocking,
        ),
    }


def _noun(name: str, node: Command | Group, options: list[dict[str, Any]]) -> dict[str, Any]:
    if isinstance(node, Command):
        return _command(node, options)
    entry = NOUNS[name]
    children: list[dict[str, Any]] = []
    for child in node.commands.values():
        assert isinstance(child, Command)
        children.append(_command(child, options))
    return {
        "names": list(entry.names),
        "help": entry.help,
        "children": children,
        **_present(also=entry.also),
    }


def described(command: Command) -> tree.Command:
    """A command as data."""
    options: list[dict[str, Any]] = []
    return tree.Command(_command(command, options), list(options))


def described_noun(group: Group, name: str) -> tree.Group:
    """A noun as data; the root with the names of its nouns and no more."""
    options: list[dict[str, Any]] = []
    if name in NOUNS:
        return tree.Group(_noun(name, group, options), list(options))
    children = [
        {"names": list(e.names), "help": e.help, "options": [], "children": []}
        for e in NOUNS.values()
    ]
    data = {
        "names": ["pk"],
        "help": group.help or "",
        "options": _numbered(options_of(group), options),
        "children": children,
    }
    return tree.Group(data, list(options))


def whole_tree() -> dict[str, Any]:
    """The whole tree, as the index holds it."""
    from pk.cli.command_line.parse import root

    options: list[dict[str, Any]] = []
    group = root()
    data = {
        "names": ["pk"],
        "help": group.help or "",
        "options": _numbered(options_of(group), options),
        "children": [_noun(name, load_noun(name), options) for name in NOUNS],
    }
    return {"root": data, "options": options}


def _lines(entries: Sequence[Any]) -> str:
    return ",\n".join(json.dumps(each, ensure_ascii=False) for each in entries)


def index() -> str:
    """What `tree.json` should hold: a line for each option and each noun, so that a change is seen in a diff."""
    found = whole_tree()
    root = found["root"]
    head = json.dumps({k: v for k, v in root.items() if k != "children"}, ensure_ascii=False)[:-1]
    return (
        f'{{"options": [\n{_lines(found["options"])}\n],\n"root": {head}, "children": [\n'
        f"{_lines(root['children'])}\n]}}}}\n"
    )
