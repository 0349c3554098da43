"""Help, written from the command tree. Plain text: it must come at once."""

import textwrap
from collections.abc import Iterable

from pk.cli.grammar import HELP, Argument, Command, Group, Option

_WIDTH = 100
_COLUMN = 34


def _entry(left: str, right: str) -> list[str]:
    lines = textwrap.wrap(right, _WIDTH - _COLUMN) or [""]
    first = f"  {left}"
    if len(first) > _COLUMN - 2:
        return [first, *(" " * _COLUMN + line for line in lines)]
    return [first.ljust(_COLUMN) + lines[0], *(" " * _COLUMN + line for line in lines[1:])]


def _option_names(option: Option) -> str:
    short = [name for name in option.names if not name.startswith("--")]
    long = [name for name in option.names if name.startswith("--")][:1]
    names = ", ".join(short + long)
    if option.value is None:
        return names
    return f"{names}[={option.value}]" if option.assumed else f"{names} {option.value}"


def _usage_word(argument: Argument) -> str:
    word = f"{argument.name}…" if argument.many else argument.name
    return f"[{word}]" if argument.optional else word


def _options(options: Iterable[Option], title: str) -> list[str]:
    lines = [f"\n{title}:"]
    for option in options:
        if not option.hidden:
            lines += _entry(_option_names(option), option.help)
    return lines if len(lines) > 1 else []


def _command(command: Command, path: tuple[str, ...]) -> list[str]:
    from pk.cli.specs.common import CONNECTION, LISTING

    words = " ".join(("pk", *path, "[OPTIONS]", *map(_usage_word, command.arguments)))
    lines = [f"Usage: {words}", "", command.help]
    others = command.names[1:]
    if others:
        lines.append(f"Also called: {', '.join(others)}")
    if command.arguments:
        lines.append("\nArguments:")
        for argument in command.arguments:
            lines += _entry(argument.name, argument.help)
    own = [o for o in command.options if o not in CONNECTION and o not in LISTING]
    lines += _options(own, "Options")
    lines += _options([o for o in command.options if o in LISTING], "Output")
    lines += _options(
        [*(o for o in command.options if o in CONNECTION), HELP],
        "Connection" if CONNECTION[0] in command.options else "General",
    )
    if command.examples:
        lines += ["\nExamples:", *(f"  {example}" for example in command.examples)]
    if command.notes:
        lines += ["", *textwrap.wrap(command.notes, _WIDTH)]
    return lines


def _group(group: Group, path: tuple[str, ...]) -> list[str]:
    words = " ".join(("pk", *path))
    lines = [f"Usage: {words} COMMAND [OPTIONS]", "", group.help, "\nCommands:"]
    for child in group.children:
        if not child.hidden:
            lines += _entry(", ".join(child.names[:2]), child.help)
    if not path:
        lines += _options(group.options, "Options")
    lines.append(
        f"\n`{words} COMMAND --help` says more"
        + ("." if path else "; so do `pk help exit-codes`, `positions` and `formats`.")
    )
    return lines


def help_text(node: Command | Group, path: tuple[str, ...]) -> str:
    """The help of `node`, which is found at `path`."""
    lines = _command(node, path) if isinstance(node, Command) else _group(node, path)
    return "\n".join(lines) + "\n"
