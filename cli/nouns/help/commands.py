"""`pk help`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Option

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

HELP = Noun("help")


@HELP.command(
    examples=(
        "pk help positions",
        "pk help errors NOT_ENOUGH_REPLICAS",
        "pk help configs retention",
        "pk help topics create",
        "pk help --man man",
    ),
    blocking=True,
)
def show_help(
    context: "Context",
    word: Annotated[
        tuple[str, ...],
        Argument(
            "WORD",
            help="A command's words, or a page; after errors and configs, what to look for.",
            complete="help-page",
        ),
    ] = (),
    man: Annotated[
        str | None,
        Option(
            "--man",
            value="DIR",
            help="Write the manual's pages into this directory instead.",
            complete="directory",
        ),
    ] = None,
) -> int | None:
    """Help on a command, or a page: positions, formats, exit-codes, errors, configs, profiles,
    trace, fake.
    """
    from pk.cli.nouns.help.help import show_help

    return show_help(context, word, man)
