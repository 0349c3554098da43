"""The options of `pk top`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.option_sets import AllInternalTopics, interval_option
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count
from pk.core.durations import Duration


@dataclass(frozen=True, kw_only=True)
class Top:
    """Options of `pk top`."""

    tab: Annotated[
        str | None,
        Argument(
            "TAB",
            help=("The first tab: cluster (default), topics, groups, isr, reassign or requests."),
            complete="top-tab",
        ),
    ] = None
    interval: Annotated[Duration, interval_option("2s")] = Duration(2000)
    num: Annotated[
        int | None,
        Option(
            "-n",
            "--num",
            value="N",
            parser=count,
            help="Write N snapshots of the tab instead of a screen.",
        ),
    ] = None
    internal: AllInternalTopics = False
