"""Options of the larger commands of `pk wait`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.option_sets import (
    GroupName,
    PartitionsOfTopics,
    Topics,
)
from pk.cli.command_line.parameters import Argument, Option
from pk.cli.command_line.values import count

Timeout = Annotated[
    str,
    Option(
        "--timeout",
        value="TIME",
        help="How long to wait: 30s, 10m, or seconds; 0 checks once (default: 5m).",
    ),
]


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
    timeout: Timeout = "5m"


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
        str | None,
        Option(
            "--max-time",
            value="TIME",
            help="Wait until the oldest unread record is at most this old, such as 30s.",
        ),
    ] = None
    topics: PartitionsOfTopics = ()
    timeout: Timeout = "5m"
