"""`pk up`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Debug
from pk.cli.up.options import Up

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

UP = Noun("up")


@UP.command(
    takes=(Debug,),
    examples=(
        "pk up",
        "pk up --port 0 --memory",
        "pk up --data ./data -X num.partitions=3",
        "pk up --brokers 3",
    ),
    notes=(
        "When the broker is ready it prints one line, whose last word is its host:port (of "
        "several brokers: all, with commas). With --brokers, `pk broker stop 2`, `kill 2`, "
        "`restart 2`, `pause 2` and `pk broker status` work on what runs."
    ),
)
def up(context: "Context", options: Up) -> Running:
    """Start one broker or several on this machine, in the foreground; Ctrl-C drains them."""
    from pk.cli.up.up import up

    return up(context, options)
