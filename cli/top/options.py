"""The options of `pk top`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.values import count, seconds


@dataclass(frozen=True, kw_only=True)
class Top:
    """What `pk top` takes."""

    tab: Annotated[
        str | None,
        Argument(
            "TAB",
            help="cluster (default), topics, groups, isr or reassign: where to begin.",
            complete="top-tab",
        ),
    ] = None
    interval: Annotated[
        float,
        Option(
            "--interval", value="SECONDS", parser=seconds, help="How often to look (default: 2)."
        ),
    ] = 2.0
    num: Annotated[
        int | None,
        Option(
            "-n",
            "--num",
            value="N",
            parser=count,
            help="Write so many snapshots of the tab instead of a screen.",
        ),
    ] = None
    internal: Annotated[bool, Option("-i", "--internal", help="Internal topics too.")] = False
