"""The commands of `pk help`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.command_line.parameters import Argument, Option

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
    worker="help:show_help",
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
