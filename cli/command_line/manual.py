"""The manual, generated from the command tree and the pages of `pk help`: one Markdown file, and
man pages in roff.

`scripts/site_pages.py` adds the Markdown to the site; `pk help --man DIR` and the build of the
wheel write the man pages.
"""

from collections.abc import Iterable, Iterator, Sequence

from pk.cli.command_line.help import option_help, option_names, usage_word
from pk.cli.command_line.pages import PAGES, page
from pk.cli.command_line.schema import columns_of
from pk.cli.command_line.tree import Argument, Command, Group, Option, commands, tree
from pk.cli.exits import MEANING
from pk.cli.options.panels import CONNECTION, OUTPUT

_ROOT = tree()
_CONNECTION = [option for option in _ROOT.options if option.panel == CONNECTION]
_LISTING = next(command.under(OUTPUT) for _, command in commands(_ROOT) if command.lists)

_TEXT_PAGES = ("positions", "durations", "formats", "profiles", "trace")

Path = tuple[str, ...]


def _visible(group: Group) -> Iterator[Command | Group]:
    return (child for child in group.children if not child.hidden)


def _commands(node: Command | Group, path: Path) -> Iterator[tuple[Path, Command]]:
    if isinstance(node, Command):
        yield path, node
        return
    for child in _visible(node):
        yield from _commands(child, (*path, child.name))


def _own_options(command: Command) -> list[Option]:
    return [option for option in command.under("") if not option.hidden]


def _common(command: Command) -> str:
    """The option sets that a command takes in addition to its own options."""
    sets: list[str] = []
    if command.lists:
        sets.append("output")
    elif command.under(OUTPUT):
        sets.append("-f")
    if command.connects:
        sets.append("connection")
    return " and ".join(sets)


def _usage(path: Path, command: Command) -> str:
    return " ".join(("pk", *path, "[OPTIONS]", *map(usage_word, command.arguments)))


# --- Markdown ---


def reference() -> str:
    """The command reference as Markdown."""
    lines = [
        "# Commands",
        "",
        "Every command of `pk`, as `pk COMMAND --help` shows it.",
        "",
        *_contents(),
        *_common_options(),
    ]
    for node in _visible(_ROOT):
        lines += ["", f"## pk {node.name}", "", node.help]
        if len(node.names) > 1:
            lines += ["", f"Also called {_code(node.names[1:])}."]
        for path, command in _commands(node, (node.name,)):
            if path != (node.name,):
                lines += ["", f"### pk {' '.join(path)}", "", command.help]
                if len(command.names) > 1:
                    lines += ["", f"Also called {_code(command.names[1:])}."]
            lines += _markdown(path, command)
    for name in _TEXT_PAGES:
        lines += ["", f"## {name.capitalize()}", "", "```text", page(name).rstrip("\n"), "```"]
    lines += ["", "## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in MEANING.items()]
    return "\n".join([*lines, *_errors()]) + "\n"


def _contents() -> list[str]:
    return [f"- [pk {node.name}](#pk-{node.name}): {node.help}" for node in _visible(_ROOT)] + [
        f"- [{name.capitalize()}](#{name}), [Exit codes](#exit-codes), [Errors](#errors)"
        if name == _TEXT_PAGES[-1]
        else f"- [{name.capitalize()}](#{name}): {PAGES[name]}"
        for name in _TEXT_PAGES
    ]


def _common_options() -> list[str]:
    lines = ["", "## Common options"]
    for title, options in ((OUTPUT, _LISTING), (CONNECTION, _CONNECTION)):
        lines += ["", f"{title}:", "", *_option_lines(options)]
    return lines


def _option_lines(options: Iterable[Option]) -> list[str]:
    return [f"- `{option_names(o)}`: {_escape(option_help(o))}" for o in options if not o.hidden]


def _markdown(path: Path, command: Command) -> list[str]:
    lines = ["", "```text", _usage(path, command), "```"]
    if command.arguments:
        lines += ["", *(f"- `{a.name}`: {_escape(a.help)}" for a in command.arguments)]
    own = _own_options(command)
    if own:
        lines += ["", *_option_lines(own)]
    common = _common(command)
    if common:
        lines += [
            "",
            f"Takes the options of {common} too." if common != "-f" else "Takes `-f` too.",
        ]
    names = columns_of(command) if command.lists else []
    if names:
        lines += ["", f"Columns: {_code(names)}."]
    if command.examples:
        lines += ["", "```sh", *command.examples, "```"]
    if command.notes:
        lines += ["", _escape(command.notes)]
    return lines


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def _errors() -> list[str]:
    from pk.cli.command_line.error_help import error_help

    lines = ["", "## Errors", "", "| code | error | meaning | what to do |", "|---|---|---|---|"]
    for e in error_help():
        lines.append(f"| {e.code} | {e.name} | {e.meaning} | {e.step.replace('|', '&#124;')} |")
    return lines


# --- roff ---


def man_pages() -> dict[str, str]:
    """The man pages by file name: pk.1, one for each noun, and one in section 7 for each page of
    help."""
    pages = {"pk.1": _main_page()}
    for node in _visible(_ROOT):
        pages[f"pk-{node.name}.1"] = _man(node)
    for name, about in PAGES.items():
        if name != "configs":
            pages[f"pk-{name}.7"] = _text_page(name, about)
    return pages


def _head(name: str, section: int, about: str) -> list[str]:
    from pk.core import __version__

    return [
        f'.TH "{name.upper()}" {section} "" "pk {__version__}" "pk"',
        ".SH NAME",
        f"{_roff(name)} \\- {_roff(about.rstrip('.'))}",
    ]


def _roff(text: str) -> str:
    """Escape text for roff: no line starts a request, and no dash becomes a hyphen."""
    out = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in out.split("\n"))


def _verbatim(lines: Sequence[str]) -> list[str]:
    return [".PP", ".nf", ".RS 4", *map(_roff, lines), ".RE", ".fi"]


def _main_page() -> str:
    lines = [
        *_head("pk", 1, _ROOT.help),
        ".SH SYNOPSIS",
        r"\fBpk\fR \fICOMMAND\fR [\fIOPTIONS\fR]",
        ".SH COMMANDS",
    ]
    for node in _visible(_ROOT):
        lines += [".TP", f"\\fBpk\\-{_roff(node.name)}\\fR(1)", _roff(node.help)]
    lines += [".SH OPTIONS", *_man_options(_ROOT.options)]
    lines += [".SH EXIT STATUS"]
    for code, meaning in MEANING.items():
        lines += [".TP", f"\\fB{int(code)}\\fR", _roff(meaning)]
    lines += [".SH FILES", ".TP", r"\fI~/.config/pk/profiles.toml\fR", "The profiles."]
    seven = [f"\\fBpk\\-{_roff(name)}\\fR(7)" for name in PAGES if name != "configs"]
    return "\n".join([*lines, ".SH SEE ALSO", ", ".join(seven)]) + "\n"


def _man_options(options: Iterable[Option]) -> list[str]:
    lines: list[str] = []
    for option in options:
        if not option.hidden:
            lines += [".TP", f"\\fB{_roff(option_names(option))}\\fR", _roff(option_help(option))]
    return lines


def _man_arguments(arguments: Iterable[Argument]) -> list[str]:
    lines: list[str] = []
    for argument in arguments:
        lines += [".TP", f"\\fI{_roff(argument.name)}\\fR", _roff(argument.help)]
    return lines


def _man(node: Command | Group) -> str:
    lines = _head(f"pk-{node.name}", 1, node.help)
    found = list(_commands(node, (node.name,)))
    lines += [".SH SYNOPSIS"]
    for path, command in found:
        lines += [f"\\fB{_roff(_usage(path, command))}\\fR", ".br"]
    lines += [".SH COMMANDS" if isinstance(node, Group) else ".SH DESCRIPTION"]
    for path, command in found:
        if isinstance(node, Group):
            lines += [f".SS {_roff(' '.join(path[1:]))}"]
        lines += [_roff(command.help)]
        if len(command.names) > 1:
            lines += [".PP", _roff(f"Also called {', '.join(command.names[1:])}.")]
        lines += _man_arguments(command.arguments) + _man_options(_own_options(command))
        names = columns_of(command) if command.lists else []
        if names:
            lines += [".PP", f"Columns: {_roff(', '.join(names))}."]
        if command.examples:
            lines += _verbatim(command.examples)
        if command.notes:
            lines += [".PP", _roff(command.notes)]
    if any(command.lists for _, command in found):
        lines += [".SH OUTPUT", *_man_options(_LISTING)]
    if any(command.connects for _, command in found):
        lines += [".SH CONNECTION", *_man_options(_CONNECTION)]
    lines += [".SH SEE ALSO", r"\fBpk\fR(1), \fBpk\-positions\fR(7), \fBpk\-formats\fR(7)"]
    return "\n".join(lines) + "\n"


def _text_page(name: str, about: str) -> str:
    lines = _head(f"pk-{name}", 7, about)
    lines += [".SH DESCRIPTION", *_verbatim(page(name, width=76).rstrip("\n").split("\n"))]
    return "\n".join([*lines, ".SH SEE ALSO", r"\fBpk\fR(1)"]) + "\n"
