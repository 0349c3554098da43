"""`pk help`: help on a command, pages that belong to no command, and the manual as files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.options.parameters import Argument, Option

if TYPE_CHECKING:
    from pk.cli.command_line.tree import Command
    from pk.cli.runtime.context import Context

HELP = Noun("help")


@dataclass(frozen=True, kw_only=True)
class ShowHelp:
    """Arguments of `pk help`."""

    words: Annotated[
        tuple[str, ...],
        Argument(
            "WORD",
            help="A command, or a page; after errors and configs, what to search for.",
            complete="help-page",
        ),
    ] = ()
    man: Annotated[
        str | None,
        Option(
            "--man",
            value="DIR",
            help="Write manual pages into this directory instead.",
            complete="directory",
        ),
    ] = None


HELP.command(
    help=(
        "Show help on a command, or a page: positions, durations, formats, exit-codes, errors, "
        "configs, profiles, trace, fake."
    ),
    worker=":show_help",
    arguments=ShowHelp,
    examples=(
        "pk help positions",
        "pk help errors NOT_ENOUGH_REPLICAS",
        "pk help configs retention",
        "pk help topics create",
        "pk help --man man",
    ),
    blocking=True,
)

_LISTED = "; `pk --help` lists commands and pages."


def show_help(context: "Context", words: Sequence[str], man: str | None) -> None:
    """Run `pk help`."""
    from pk.cli.command_line.help import help_text, text_width
    from pk.cli.command_line.other_tools import WORDS
    from pk.cli.command_line.pages import PAGES, SEARCHABLE, page
    from pk.cli.command_line.renamed import renamed
    from pk.cli.command_line.tree import Group, tree
    from pk.cli.exits import Unusable
    from pk.core.nearest import did_you_mean

    if man is not None:
        if words:
            raise Unusable("--man writes every page; it cannot be combined with words.")
        _write_manual(context, man)
        return
    if words and words[0] in PAGES and (len(words) == 1 or words[0] in SEARCHABLE):
        context.write_page(page(words[0], words[1:], text_width()))
        return
    now, said = renamed(words)
    if said:
        context.say(said)
        words = [word for word in now if not word.startswith("-")]
    node: Command | Group = tree()
    path: list[str] = []
    for word in words:
        child = node.child(word) if isinstance(node, Group) else None
        if child is None:
            found = _searched(word) if not path else None
            if found is not None and len(words) == 1:
                context.write_page(page(found, words, text_width()))
                return
            known = [*(c.name for c in node.children), *PAGES] if isinstance(node, Group) else []
            ours = WORDS.get(" ".join(words))
            hint = f"; in pk that is `pk {ours}`." if ours else did_you_mean(word, known, _LISTED)
            raise Unusable(f"No help on {' '.join(words)!r}{hint}")
        node = child
        path.append(word)
    context.write_page(help_text(node, tuple(path)))


def _searched(word: str) -> str | None:
    """The page that explains a word, which is the name of a config or an error; None if it is
    neither."""
    from pk.cli.config_keys.search import search
    from pk.core.errors import ErrorCode

    if any(found.key.name == word for found in search((word,))):
        return "configs"
    return "errors" if word in ErrorCode.__members__ else None


def _write_manual(context: "Context", directory: str) -> None:
    import os

    from pk.cli.command_line.manual import man_pages

    directory = os.path.expanduser(directory)
    os.makedirs(directory, exist_ok=True)
    pages = man_pages()
    for name, text in pages.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
    context.say(
        f"{len(pages)} pages are in {directory}; `man -l {directory}/pk.1` shows the first."
    )
