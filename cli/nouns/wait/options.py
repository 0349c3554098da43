"""What the commands of `pk wait` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import (
    GROUP_BY_OPTION,
    TOPICS_BY_OPTION,
    PartitionsOfTopics,
)
from pk.cli.command_line.values import count

Timeout = Annotated[
    str,
    Option(
        "--timeout",
        value="TIME",
        help="How long to wait: 30s, 10m, or seconds; 0 looks once (default: 5m).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class WaitForTopics:
    """What `pk wait topic` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument("TOPIC", help="The topics.", complete="topic", named=TOPICS_BY_OPTION),
    ]
    gone: Annotated[bool, Option("--gone", help="Until they are deleted.")] = False
    partitions: Annotated[
        int | None,
        Option(
            "-p",
            "--partitions",
            value="N",
            parser=count,
            help="Until there are at least so many partitions.",
        ),
    ] = None
    timeout: Timeout = "5m"


@dataclass(frozen=True, kw_only=True)
class WaitForLag:
    """What `pk wait lag` takes."""

    group: Annotated[
        str, Argument("GROUP", help="The group.", complete="group", named=GROUP_BY_OPTION)
    ]
    condition: Annotated[
        str | None,
        Argument("CONDITION", help="The lag over all its partitions, as '<=100' (default: 0)."),
    ] = None
    max: Annotated[
        int | None, Option("--max", value="N", help="The same, with nothing to quote.")
    ] = None
    max_time: Annotated[
        str | None,
        Option(
            "--max-time",
            value="TIME",
            help="Until the oldest record not read yet is no older than that, such as 30s.",
        ),
    ] = None
    topics: PartitionsOfTopics = ()
    timeout: Timeout = "5m"
