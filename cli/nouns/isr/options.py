"""What the commands of `pk isr` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import TOPICS_BY_OPTION, Ailing
from pk.cli.command_line.values import pause


@dataclass(frozen=True, kw_only=True)
class InSyncReplicas(Ailing):
    """What `pk isr` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, by name or regular expression over whole names (default: all).",
            complete="topic",
            named=TOPICS_BY_OPTION,
        ),
    ] = ()
    internal: Annotated[
        bool, Option("-i", "--internal", help="Internal topics too, where no topic is named.")
    ] = False
    watch: Annotated[
        float | None,
        Option(
            "-w",
            "--watch",
            value="SECONDS",
            parser=pause,
            assumed="0.5",
            help=(
                "Stay, look every so many seconds (0.5), and tell who leaves and joins the in-sync "
                "replicas."
            ),
        ),
    ] = None
