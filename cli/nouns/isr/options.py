"""Options of `pk isr`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.option_sets import (
    InternalTopics,
    PartitionFilters,
    TopicsMatchingOrAll,
    watch_interval,
)
from pk.cli.options.parameters import Option
from pk.core.durations import Duration


@dataclass(frozen=True, kw_only=True)
class InSyncReplicas(PartitionFilters):
    """Options of `pk isr`."""

    topic: TopicsMatchingOrAll = ()
    internal: InternalTopics = False
    watch: Annotated[
        bool,
        Option(
            "-w",
            "--watch",
            help="Keep running, and show replicas as they leave and join the in-sync replicas.",
        ),
    ] = False
    interval: Annotated[Duration, watch_interval("500ms")] = Duration(500)
