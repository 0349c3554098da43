"""Options of `pk isr`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.option_sets import InternalTopics, PartitionFilters, TopicsMatchingOrAll
from pk.cli.command_line.parameters import Option
from pk.cli.command_line.values import pause
from pk.core.durations import Duration


@dataclass(frozen=True, kw_only=True)
class InSyncReplicas(PartitionFilters):
    """Options of `pk isr`."""

    topic: TopicsMatchingOrAll = ()
    internal: InternalTopics = False
    watch: Annotated[
        Duration | None,
        Option(
            "-w",
            "--watch",
            value="DURATION",
            parser=pause,
            assumed="500ms",
            help=(
                "Stay, poll this often (default: 500ms), and show which replicas leave and join "
                "the in-sync replicas."
            ),
        ),
    ] = None
