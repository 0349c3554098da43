"""The commands of `pk completion`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.options.parameters import Argument

COMPLETION = Noun("completion")


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Arguments of `pk completion`."""

    shell: Annotated[str, Argument("SHELL", help="bash, zsh or fish.", complete="shell")]


COMPLETION.command(
    help="Print the completion script for a shell.",
    worker="completion:completion",
    arguments=Completion,
    examples=("source <(pk completion bash)",),
    notes=(
        "Completion never waits for a cluster. Names of topics, groups, brokers and configs come "
        "from files in the cache directory. A background process refreshes them after a command "
        "at a terminal, and when a Tab finds them older than half a minute. "
        "PK_COMPLETION_REFRESH=never disables it; names are then those of the last listings."
    ),
    blocking=True,
    in_shell=False,
)
