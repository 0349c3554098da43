"""`pk shell`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun, Option
from pk.cli.command_line.option_sets import Untraced

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
        "Not on a terminal it runs the lines of standard input (`pk shell < script`); "
        "commands find nothing to read there, and those that ask want -y. In the shell, \\? "
        "says what it can do beside the commands."
    ),
    blocking=True,
)
def shell(
    context: "Context",
    commands: Annotated[
        tuple[str, ...],
        Option("-c", "--command", value="LINE", help="Run this line and end; may be given again."),
    ] = (),
    stop_on_error: Annotated[
        bool,
        Option(
            "--stop-on-error",
            help=(
                "End with the first line that fails; otherwise all are run, and the first failure is "
                "the exit code."
            ),
        ),
    ] = False,
) -> int | None:
    """The same commands in an interactive shell, with completion."""
    from pk.cli.shell.app import shell

    return shell(context, commands, stop_on_error=stop_on_error)
