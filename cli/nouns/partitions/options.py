"""Options of the larger commands of `pk partitions`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.option_sets import (
    TOPIC_BY_OPTION,
    InternalTopics,
    PartitionFilters,
    TopicsMatchingOrAll,
)
from pk.cli.options.parameters import Argument, Option


@dataclass(frozen=True, kw_only=True)
class ListPartitions(PartitionFilters):
    """Options of `pk partitions list`."""

    topic: TopicsMatchingOrAll = ()
    internal: InternalTopics = False
    not_preferred: Annotated[
        bool,
        Option(
            "--not-preferred", help="Only partitions whose leader is not the preferred replica."
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


@dataclass(frozen=True, kw_only=True)
class ElectLeaders:
    """Options of `pk partitions elect-leaders`."""

    partition: Annotated[
        tuple[str, ...],
        Argument(
            "PARTITION",
            help="Topics, or partitions such as orders/0 (default: all that need an election).",
            complete="partition",
        ),
    ] = ()
    topic: Annotated[str | None, TOPIC_BY_OPTION] = None
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
            help=(
                "For partitions without a leader, elect a live replica that is not in sync; "
                "loses records."
            ),
        ),
    ] = False
    from_broker: Annotated[
        int | None,
        Option(
            "--from",
            value="BROKER",
            help="With --unclean: elect the replica on this broker, even if it lacks records.",
            complete="broker",
        ),
    ] = None
    all: Annotated[
        bool,
        Option(
            "-a", "--all", "--all-topic-partitions", help="All partitions that need an election."
        ),
    ] = False
    election_type: Annotated[
        Literal["preferred", "unclean"] | None,
        Option(
            "--election-type",
            value="TYPE",
            help="Apache's option: preferred or unclean.",
            hidden=True,
        ),
    ] = None
    from_json: Annotated[
        str | None,
        Option(
            "--from-json",
            "--path-to-json-file",
            value="FILE",
            help="The partitions, as Apache's JSON.",
            complete="file",
        ),
    ] = None
