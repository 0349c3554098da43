"""`pk partitions`: its commands and their options."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import (
    TOPICS_BY_OPTION,
    Ailing,
    Change,
    Connection,
    Listing,
    Watch,
)

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

PARTITIONS = Noun("partitions")


@dataclass(frozen=True, kw_only=True)
class ListPartitions(Ailing):
    """What `pk partitions list` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, by name or regular expression over whole names (default: all).",
            complete="topic",
            named=TOPICS_BY_OPTION,
        ),
    ] = ()
    internal: Annotated[
        bool, Option("-i", "--internal", help="Internal topics too, where no topic is named.")
    ] = False
    not_preferred: Annotated[
        bool,
        Option(
            "--not-preferred", help="Only partitions that another than the preferred replica leads."
        ),
    ] = False
    leader: Annotated[
        tuple[str, ...],
        Option(
            "--leader",
            value="ID",
            separated=True,
            help="Only partitions led by these brokers.",
            complete="broker",
        ),
    ] = ()
    broker: Annotated[
        tuple[str, ...],
        Option(
            "--broker",
            value="ID",
            separated=True,
            help="Only partitions with a replica on one of these brokers.",
            complete="broker",
        ),
    ] = ()


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


@dataclass(frozen=True, kw_only=True)
class ElectLeaders:
    """What `pk partitions elect-leaders` takes."""

    partition: Annotated[
        tuple[str, ...],
        Argument(
            "PARTITION",
            help="Topics, or partitions such as orders/0 (default: all that need it).",
            complete="partition",
        ),
    ] = ()
    topic: Annotated[
        str | None, Option("-t", "--topic", value="TOPIC", help="A topic.", complete="topic")
    ] = None
    partitions: Annotated[
        tuple[str, ...],
        Option(
            "-p",
            "--partitions",
            "--partition",
            value="0,1",
            separated=True,
            help="These partitions of the topic of -t.",
        ),
    ] = ()
    unclean: Annotated[
        bool,
        Option(
            "--unclean",
            help="Elect a live replica that is not in sync where there is no leader; records are lost.",
        ),
    ] = False
    all: Annotated[
        bool, Option("-a", "--all", "--all-topic-partitions", help="All that need it.")
    ] = False
    election_type: Annotated[
        Literal["preferred", "unclean"] | None,
        Option("--election-type", value="TYPE", help="Apache's way to say it.", hidden=True),
    ] = None
    from_json: Annotated[
        str | None,
        Option(
            "--from-json",
            "--path-to-json-file",
            value="FILE",
            help="The partitions in Apache's JSON.",
            complete="file",
        ),
    ] = None


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
