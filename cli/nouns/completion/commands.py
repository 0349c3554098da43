"""The commands of `pk completion`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.command_line.parameters import Argument

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

COMPLETION = Noun("completion")


@COMPLETION.command(
    examples=("source <(pk completion bash)",),
    notes=(
        "Completion never waits for a cluster. Names of topics, groups, brokers and configs come "
        "from files in the cache directory. A background process refreshes them after a command at "
        "a terminal, and when a Tab finds them older than half a minute. "
        "PK_COMPLETION_REFRESH=never disables it; names are then as of the last listings "
        "left them."
    ),
    blocking=True,
    in_shell=False,
)
def completion(
    context: "Context",
    shell: Annotated[str, Argument("SHELL", help="bash, zsh or fish.", complete="shell")],
) -> int | None:
    """Print the completion script for a shell."""
    from pk.cli.nouns.completion.completion import completion

    return completion(context, shell)
