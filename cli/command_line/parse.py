"""Parses a command line into what to run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import typer
from typer.main import get_group

from pk.cli.command_line.declare import taking
from pk.cli.command_line.kit import Root
from pk.cli.command_line.option_sets import Connection
from pk.cli.command_line.parameters import Option
from pk.cli.command_line.parsed import Parsed

HELP = "A Kafka in Python: broker, client, command line and shell."


@dataclass(frozen=True, kw_only=True)
class Version:
    """Options of `pk` itself."""

    version: Annotated[bool, Option("-V", "--version", help="Show the version.")] = False


@cache
def root() -> Root:
    """`pk` as a typer group."""
    app = typer.Typer(cls=Root, help=HELP, add_completion=False, rich_markup_mode=None)
    app.callback()(taking(Version, Connection))
    made = get_group(app)
    assert isinstance(made, Root)
    return made


def parse(words: Sequence[str]) -> Parsed:
    """Parses `words` (without the program's name). Raises UsageError."""
    with root().make_context("pk", list(words)) as context:
        return root().invoke(context)
