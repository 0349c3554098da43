"""The commands of `pk shell`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.command_line.option_sets import Untraced
from pk.cli.command_line.parameters import Option

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

SHELL = Noun("shell")


@SHELL.command(
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
def shell(
    context: "Context",
    commands: Annotated[
        tuple[str, ...],
        Option("-c", "--command", value="LINE", help="Run this line and exit; repeatable."),
    ] = (),
    stop_on_error: Annotated[
        bool,
        Option(
            "--stop-on-error",
            help=(
                "Stop at the first line that fails; default: run all lines, and exit with the "
                "first failure's code."
            ),
        ),
    ] = False,
) -> int | None:
    """Run commands in an interactive shell, with completion."""
    from pk.cli.shell.app import shell

    return shell(context, commands, stop_on_error=stop_on_error)
