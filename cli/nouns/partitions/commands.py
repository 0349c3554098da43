"""The commands of `pk partitions`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.partitions.options import ElectLeaders, ListPartitions
from pk.cli.nouns.partitions.rows import ElectionRow, PartitionStateRow
from pk.cli.options.option_sets import Change, Connection, Listing, Watch

PARTITIONS = Noun("partitions")


PARTITIONS.command(
    "list",
    "ls",
    help="List partitions with leader, replicas, in-sync replicas and problems.",
    worker="partitions:list_partitions",
    options=ListPartitions,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk partitions list --under-replicated",
        "pk partitions list orders --not-preferred",
        "pk partitions list --broker 3 --where 'isr contains 3' -f json",
    ),
    shows=PartitionStateRow,
    from_use=True,
)


PARTITIONS.command(
    "elect-leaders",
    "elect",
    help="Elect preferred replicas, or any live replica if no in-sync one is left.",
    worker="elect_leaders:elect_leaders",
    options=ElectLeaders,
    takes=(Change, Listing, Connection),
    examples=(
        "pk partitions elect-leaders",
        "pk partitions elect-leaders orders --dry-run",
        "pk partitions elect-leaders orders/3 --unclean",
        "pk partitions elect-leaders orders/3 --unclean --from 2 --dry-run",
    ),
    shows=ElectionRow,
)
