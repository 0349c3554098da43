"""The commands of `pk partitions`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import (
    Change,
    Connection,
    Listing,
    Watch,
)
from pk.cli.nouns.partitions.options import ElectLeaders, ListPartitions
from pk.cli.nouns.partitions.rows import ElectionRow, PartitionStateRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

PARTITIONS = Noun("partitions")


@PARTITIONS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk partitions list --under-replicated",
        "pk partitions list orders --not-preferred",
        "pk partitions list --broker 3 --where 'isr contains 3' -f json",
    ),
    shows=PartitionStateRow,
    from_use=True,
)
def list_partitions(context: "Context", options: ListPartitions) -> Running:
    """List partitions with leader, replicas, in-sync replicas and problems."""
    from pk.cli.nouns.partitions.partitions import list_partitions

    return list_partitions(context, options)


@PARTITIONS.command(
    "elect-leaders",
    "elect",
    takes=(Change, Listing, Connection),
    examples=(
        "pk partitions elect-leaders",
        "pk partitions elect-leaders orders --dry-run",
        "pk partitions elect-leaders orders/3 --unclean",
        "pk partitions elect-leaders orders/3 --unclean --from 2 --dry-run",
    ),
    shows=ElectionRow,
)
def elect_leaders(context: "Context", options: ElectLeaders) -> Running:
    """Elect preferred replicas, or any live replica if no in-sync one is left."""
    from pk.cli.nouns.partitions.elect_leaders import elect_leaders

    return elect_leaders(context, options)
