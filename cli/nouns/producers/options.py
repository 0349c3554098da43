"""What the commands of `pk producers` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Argument, Option


@dataclass(frozen=True, kw_only=True)
class DescribeProducers:
    """What `pk producers describe` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, or partitions of them as TOPIC:0,1 (default: all that are not internal).",
            complete="topic",
        ),
    ] = ()
    topics: Annotated[
        tuple[str, ...],
        Option(
            "-t",
            "--topic",
            value="TOPIC[:0,1]",
            help="The same as the argument.",
            complete="topic",
            hidden=True,
        ),
    ] = ()
    open: Annotated[bool, Option("--open", help="Only producers with an open transaction.")] = False
    producer: Annotated[
        int | None, Option("--producer", value="ID", help="Only this producer id.")
    ] = None
    broker: Annotated[
        str | None,
        Option(
            "--broker",
            "--broker-id",
            value="ID",
            help="What the replica on this broker remembers (default: each leader).",
            complete="broker",
        ),
    ] = None
