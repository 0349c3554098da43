"""`pk producers`: its commands and their options."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import Connection, Listing, Watch
from pk.cli.nouns.producers.rows import ProducerRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

PRODUCERS = Noun("producers")


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


@PRODUCERS.command(
    "describe",
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk producers describe orders",
        "pk producers describe --open --sort -open_ms",
        "pk producers describe orders:0 -f json",
    ),
    notes=(
        "OPEN FROM is the offset of the first record of a transaction that has not ended; "
        "readers of committed records wait there. A leader forgets a producer "
        "producer.id.expiration.ms after its last write."
    ),
    shows=ProducerRow,
)
def describe(context: "Context", options: DescribeProducers) -> Running:
    """Id, epoch, last sequence and write of each producer, and since when its transaction is open."""
    from pk.cli.nouns.producers.producers import describe

    return describe(context)
