"""Parses a command line into what to run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import typer
from typer.main import get_group

from pk.cli.command_line.apache import translated
from pk.cli.command_line.callbacks import callback
from pk.cli.command_line.kit import Root
from pk.cli.command_line.parsed import Parsed
from pk.cli.options.option_sets import Connection
from pk.cli.options.parameters import Option, parameters_of

HELP = "A Kafka in Python: broker, client, command line and shell."


@dataclass(frozen=True, kw_only=True)
class Version:
    """The options of `pk` itself."""

    version: Annotated[bool, Option("-V", "--version", help="Show the version.")] = False


@cache
def root() -> Root:
    """`pk` as a typer group, whose callback takes the options before the noun."""
    app = typer.Typer(cls=Root, help=HELP, add_completion=False, rich_markup_mode=None)
    options = callback(parameters_of(Version, Connection))
    app.callback(invoke_without_command=True, add_help_option=False)(options)
    made = get_group(app)
    assert isinstance(made, Root)
    return made


def parse(words: Sequence[str]) -> Parsed:
    """Parse `words` (without the program's name). Raises UsageError."""
    with root().make_context("pk", translated(words)) as context:
        return root().invoke(context)
