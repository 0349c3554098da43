"""Options of the larger commands of `pk wait`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.option_sets import GroupName, PartitionsOfTopics, Topics
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count
from pk.core.durations import Duration

Timeout = Annotated[
    Duration,
    Option(
        "--timeout",
        value="DURATION",
        help="How long to wait, such as 30s or 10m; 0 checks once (default: 5m).",
    ),
]
TIMEOUT = Duration(5 * 60_000)


@dataclass(frozen=True, kw_only=True)
class WaitForTopics:
    """Options of `pk wait topic`."""

    topic: Topics
    gone: Annotated[bool, Option("--gone", help="Wait until they are deleted.")] = False
    partitions: Annotated[
        int | None,
        Option(
            "-p",
            "--partitions",
            value="N",
            parser=count,
            help="Wait for at least N partitions.",
        ),
    ] = None
    timeout: Timeout = TIMEOUT


@dataclass(frozen=True, kw_only=True)
class WaitForLag:
    """Options of `pk wait lag`."""

    group: GroupName
    condition: Annotated[
        str | None,
        Argument(
            "CONDITION", help="The total lag over all partitions, such as '<=100' (default: 0)."
        ),
    ] = None
    max: Annotated[
        int | None, Option("--max", value="N", help="Same as '<=N', without quotes.")
    ] = None
    max_time: Annotated[
        Duration | None,
        Option(
            "--max-time",
            value="DURATION",
            help="Wait until the oldest unread record is at most this old, such as 30s.",
        ),
    ] = None
    topics: PartitionsOfTopics = ()
    timeout: Timeout = TIMEOUT
