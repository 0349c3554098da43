"""Options of `pk isr`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.option_sets import InternalTopics, PartitionFilters, TopicsMatchingOrAll
from pk.cli.command_line.parameters import Option
from pk.cli.command_line.values import pause


@dataclass(frozen=True, kw_only=True)
class InSyncReplicas(PartitionFilters):
    """Options of `pk isr`."""

    topic: TopicsMatchingOrAll = ()
    internal: InternalTopics = False
    watch: Annotated[
        float | None,
        Option(
            "-w",
            "--watch",
            value="SECONDS",
            parser=pause,
            assumed="0.5",
            help=(
                "Stay, poll every SECONDS (default: 0.5), and show which replicas leave and join "
                "the in-sync replicas."
            ),
        ),
    ] = None
