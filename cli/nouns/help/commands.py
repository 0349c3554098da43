"""The commands of `pk help`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.command_line.parameters import Argument, Option

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
            help="A command, or a page; after errors and configs, what to search for.",
            complete="help-page",
        ),
    ] = (),
    man: Annotated[
        str | None,
        Option(
            "--man",
            value="DIR",
            help="Write manual pages into this directory instead.",
            complete="directory",
        ),
    ] = None,
) -> int | None:
    """Show help on a command, or a page: positions, durations, formats, exit-codes, errors,
    configs, profiles, trace, fake.
    """
    from pk.cli.nouns.help.help import show_help

    return show_help(context, word, man)
