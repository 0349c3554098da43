"""The commands of `pk producers`, with their options."""

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
        "OPEN FROM is the offset of the first record of an open transaction; "
        "read_committed readers wait there. A leader forgets a producer "
        "producer.id.expiration.ms after its last write."
    ),
    shows=ProducerRow,
    from_use=True,
)
def describe(context: "Context", options: DescribeProducers) -> Running:
    """Show the producers of partitions: id, epoch, last sequence and write, open transaction."""
    from pk.cli.nouns.producers.producers import describe

    return describe(context, options)
