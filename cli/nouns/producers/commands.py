"""`pk producers`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Connection, Listing, Watch
from pk.cli.nouns.producers.options import DescribeProducers
from pk.cli.nouns.producers.rows import ProducerRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

PRODUCERS = Noun("producers")


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

    return describe(context, options)
