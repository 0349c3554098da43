"""Writes help from the command tree, as plain text: it must appear immediately."""

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence

from pk.cli.command_line.tree import HELP, Argument, Command, Group, Option
from pk.cli.options.panels import CONNECTION, OUTPUT

_WIDTH = 100
_NO_TERMINAL = 80
_NARROW = 90
"""On a narrower terminal, the texts about options are less indented."""

_CHOICES_MAX = 15
"""If an option has more values than this, its help does not list them; `pk doctor --list`, for
example, does."""


def text_width() -> int:
    """The width of a page of text: that of the terminal, or $COLUMNS without one, up to a readable
    maximum."""
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        given = os.environ.get("COLUMNS", "")
        columns = int(given) if given.isdecimal() else 0
    return max(min(_WIDTH, columns or _NO_TERMINAL), 40)


def _entry(left: str, right: str, width: int) -> list[str]:
    column = 34 if width >= _NARROW else 26
    lines = textwrap.wrap(right, width - column) or [""]
    first = f"  {left}"
    if len(first) > column - 2:
        return [first, *(" " * column + line for line in lines)]
    return [first.ljust(column) + lines[0], *(" " * column + line for line in lines[1:])]


def option_names(option: Option) -> str:
    short = [name for name in option.names if not name.startswith("--")]
    long = [name for name in option.names if name.startswith("--")][:1]
    names = ", ".join(short + long)
    return names if option.value is None else f"{names} {option.value}"


def option_help(option: Option) -> str:
    """The help of an option, with its possible values unless the help names them already."""
    said = {*re.findall(r"[\w-]+", f"{option.value} {option.help}")}
    if said.issuperset(option.choices) or len(option.choices) > _CHOICES_MAX:
        return option.help
    return f"{option.help} {_one_of(option.choices)}."


def _one_of(choices: Sequence[str]) -> str:
    first = "Either" if len(choices) == 2 else "One of"
    return f"{first} {', '.join(choices[:-1])} or {choices[-1]}"


def usage_word(argument: Argument) -> str:
    word = f"{argument.name}…" if argument.many else argument.name
    return f"[{word}]" if argument.optional else word


def _options(options: Iterable[Option], title: str, width: int) -> list[str]:
    lines = [f"\n{title}:"]
    for option in options:
        if not option.hidden:
            lines += _entry(option_names(option), option_help(option), width)
    return lines if len(lines) > 1 else []


def _command(command: Command, path: tuple[str, ...], width: int) -> list[str]:
    words = " ".join(("pk", *path, "[OPTIONS]", *map(usage_word, command.arguments)))
    lines = [f"Usage: {words}", "", *textwrap.wrap(command.help, width)]
    others = [name for name in command.names if name != path[-1]]
    if others:
        lines.append(f"Also called: {', '.join(others)}")
    if command.arguments:
        lines.append("\nArguments:")
        for argument in command.arguments:
            lines += _entry(argument.name, argument.help, width)
    lines += _options(command.under(""), "Options", width)
    lines += _options(command.under(OUTPUT), OUTPUT, width)
    general = CONNECTION if command.connects else "General"
    lines += _options([*command.under(CONNECTION), HELP], general, width)
    lines += _columns(command, width)
    if command.examples:
        lines += ["\nExamples:", *(f"  {example}" for example in command.examples)]
    if command.notes:
        lines += ["", *textwrap.wrap(command.notes, width)]
    return lines


def _columns(command: Command, width: int) -> list[str]:
    """The names of the columns that the options of a list accept."""
    from pk.cli.command_line.schema import columns_of

    names = columns_of(command) if command.lists else []
    if not names:
        return []
    text = ", ".join(names)
    indented = textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")
    return ["\nColumns (for --columns, --sort, --where and templates):", *indented]


def _sections(group: Group, path: tuple[str, ...]) -> Iterable[tuple[str, list[Command | Group]]]:
    """The commands of a group under their headings."""
    shown = [child for child in group.children if not child.hidden]
    if path:
        return [("Commands", shown)]
    from pk.cli.command_line.nouns import SECTIONS

    named = {name for _, names in SECTIONS for name in names}
    found = [(title, [c for c in shown if c.name in names]) for title, names in SECTIONS]
    others = [child for child in shown if child.name not in named]
    return [*found, ("Others", others)] if others else found


def _group(group: Group, path: tuple[str, ...], width: int) -> list[str]:
    words = " ".join(("pk", *path))
    lines = [
        f"Usage: {words} COMMAND [OPTIONS]",
        "",
        *textwrap.wrap(group.help, width),
    ]
    for title, children in _sections(group, path):
        lines.append(f"\n{title}:")
        for child in children:
            lines += _entry(", ".join(child.names[:2]), child.help, width)
    if not path:
        from pk.cli.command_line.pages import PAGES

        lines += _options(group.options, "Options", width)
        lines.append("\nPages (`pk help PAGE`):")
        for name, about in PAGES.items():
            lines += _entry(name, f"{about[0].upper()}{about[1:]}.", width)
    lines.append(f"\n`{words} COMMAND --help` shows more.")
    return lines


def help_text(node: Command | Group, path: tuple[str, ...], width: int | None = None) -> str:
    """The help of `node`, which is at `path` in the tree. It is as wide as the terminal unless
    `width` is given."""
    width = width or text_width()
    if isinstance(node, Command):
        return "\n".join(_command(node, path, width)) + "\n"
    return "\n".join(_group(node, path, width)) + "\n"
