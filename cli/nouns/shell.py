"""The commands of `pk shell`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.options.option_sets import Untraced
from pk.cli.options.parameters import Option

SHELL = Noun("shell")


@dataclass(frozen=True, kw_only=True)
class Shell:
    """Arguments of `pk shell`."""

    lines: Annotated[
        tuple[str, ...],
        Option("-c", "--command", value="LINE", help="Run this line and exit; repeatable."),
    ] = ()
    stop_on_error: Annotated[
        bool,
        Option(
            "--stop-on-error",
            help=(
                "Stop at the first line that fails; default: run all lines, and exit with the "
                "first failure's code."
            ),
        ),
    ] = False


SHELL.command(
    help="Run commands in an interactive shell, with completion.",
    worker="pk.cli.shell.app:shell",
    arguments=Shell,
    takes=(Untraced,),
    examples=(
        "pk shell",
        "pk shell -c 'use topic orders' -c 'topics offsets'",
        "pk shell --stop-on-error -c 'topics list' -c 'groups list'",
    ),
    notes=(
        "Without a terminal it runs the lines of standard input (`pk shell < script`); "
        "commands there have no standard input, and those that ask need -y. In the shell, \\? "
        "shows what it can do beyond the commands."
    ),
    blocking=True,
    in_shell=False,
)
