"""Commands that an answer suggests. They must name the same cluster as this command line."""

import shlex
from collections.abc import Iterable, Sequence

from pk.cli.diagnosis.snapshot import Finding
from pk.cli.runtime.context import Context


def cluster_words(context: Context) -> list[str]:
    """The words of this command line that choose the cluster. A suggested command needs them
    too."""
    words: list[str] = []
    cluster = context.connection
    for option, value in (
        ("--profile", cluster.profile),
        ("-b", cluster.bootstrap_server),
        ("--config-file", cluster.config_file),
    ):
        if value:
            words += [option, shlex.quote(value)]
    return words


def with_words(command: str, words: Sequence[str]) -> str:
    # `pk node` itself finds the cluster of this machine.
    if not command.startswith("pk ") or command.startswith("pk node "):
        return command
    return " ".join((command, *words))


def fixes_for(context: Context, found: Iterable[Finding]) -> list[Finding]:
    """The findings with fixes for the cluster of this command line."""
    words = cluster_words(context)
    return [f._replace(fix=with_words(f.fix, words)) if f.fix else f for f in found]
