"""The commands of `pk producers`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.producers.options import DescribeProducers
from pk.cli.nouns.producers.rows import ProducerRow
from pk.cli.options.option_sets import Connection, Listing, Watch

PRODUCERS = Noun("producers")


PRODUCERS.command(
    "describe",
    "list",
    "ls",
    help="Show the producers of partitions: id, epoch, last sequence and write, open transaction.",
    worker="producers:describe",
    options=DescribeProducers,
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
