"""`pk partitions`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import (
    Change,
    Connection,
    Listing,
    Watch,
)
from pk.cli.nouns.partitions.options import ElectLeaders, ListPartitions

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
    shows=(
        "topic partition:int leader:int? preferred_leader:int? replicas:[int] isr:[int] "
        "min_isr:int? state out_of_sync:[int] leader_epoch:int elr:[int]? "
        "last_known_elr:[int]? offline_replicas:[int]"
    ),
)
def list_partitions(context: "Context", options: ListPartitions) -> Running:
    """Partitions with leader, replicas, in-sync replicas and what ails them."""
    from pk.cli.nouns.partitions.partitions import list_partitions

    return list_partitions(context)


@PARTITIONS.command(
    "elect-leaders",
    "elect",
    takes=(Change, Listing, Connection),
    examples=(
        "pk partitions elect-leaders",
        "pk partitions elect-leaders orders --dry-run",
        "pk partitions elect-leaders orders/3 --unclean",
    ),
    shows="topic partition:int from:int? to:int? isr:[int] result error?",
)
def elect_leaders(context: "Context", options: ElectLeaders) -> Running:
    """Make the preferred replicas lead, or any live one where all in sync are lost."""
    from pk.cli.nouns.partitions.elect_leaders import elect_leaders

    return elect_leaders(context)
