"""What the commands of `pk partitions` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import (
    TOPICS_BY_OPTION,
    Ailing,
)


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
