"""Options of the larger commands of `pk producers`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.parameters import Argument, Option


@dataclass(frozen=True, kw_only=True)
class DescribeProducers:
    """Options of `pk producers describe`."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, or partitions as TOPIC:0,1 (default: all but internal topics).",
            complete="topic",
        ),
    ] = ()
    topics: Annotated[
        tuple[str, ...],
        Option(
            "-t",
            "--topic",
            value="TOPIC[:0,1]",
            help="Same as the TOPIC argument; repeatable.",
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
            help="Ask the replica on this broker (default: the leaders).",
            complete="broker",
        ),
    ] = None
