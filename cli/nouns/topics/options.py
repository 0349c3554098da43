"""What the commands of `pk topics` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import (
    TOPICS_BY_OPTION,
    Ailing,
    CommitsOf,
    PartitionNumbers,
)
from pk.cli.command_line.values import Pair, config_pair, count

TopicConfigs = Annotated[
    tuple[Pair, ...],
    Option(
        "-c",
        "--config",
        value="KEY=VALUE",
        parser=config_pair,
        help="A config of the topic, such as retention.ms=7d; may be given again.",
        complete="topic-config",
    ),
]


@dataclass(frozen=True, kw_only=True)
class DescribeTopics(Ailing):
    """What `pk topics describe` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC", help="The topics (default: all).", complete="topic", named=TOPICS_BY_OPTION
        ),
    ] = ()
    internal: Annotated[
        bool, Option("-i", "--internal", help="Internal topics too, where no topic is named.")
    ] = False
    all_configs: Annotated[
        bool, Option("-a", "--all-configs", help="Every config, not only those that were set.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class CreateTopics:
    """What `pk topics create` takes."""

    topic: Annotated[
        tuple[str, ...], Argument("TOPIC", help="Their names.", named=TOPICS_BY_OPTION)
    ]
    partitions: Annotated[
        int | None,
        Option(
            "-p",
            "--partitions",
            value="N",
            parser=count,
            help="How many partitions (default: the broker's num.partitions).",
        ),
    ] = None
    replication_factor: Annotated[
        int | None,
        Option(
            "-r",
            "--replication-factor",
            value="N",
            parser=count,
            help="How many replicas (default: the broker's).",
        ),
    ] = None
    config: TopicConfigs = ()
    replica_assignment: Annotated[
        str | None,
        Option(
            "--replica-assignment",
            value="1:2,2:3",
            help="The brokers of each partition, its preferred leader first, instead of numbers.",
        ),
    ] = None
    if_not_exists: Annotated[
        bool, Option("--if-not-exists", help="A topic that is there already is no failure.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class AlterTopics:
    """What `pk topics alter` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument("TOPIC", help="The topics.", complete="topic", named=TOPICS_BY_OPTION),
    ]
    config: TopicConfigs = ()
    delete_config: Annotated[
        tuple[str, ...],
        Option(
            "--delete-config",
            value="KEY",
            separated=True,
            help="Go back to the default of a config.",
            complete="topic-config",
        ),
    ] = ()
    partitions: Annotated[
        int | None,
        Option(
            "-p", "--partitions", value="TOTAL", parser=count, help="Grow to so many partitions."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrimTopics:
    """What `pk topics trim` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, or partitions of them such as orders:0,1.",
            complete="topic",
            named=TOPICS_BY_OPTION,
        ),
    ] = ()
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help=(
                "Where what is kept begins: an offset, -N, @TIME, committed, 0=5,1=9; end keeps "
                "nothing."
            ),
            complete="place",
        ),
    ] = None
    group: CommitsOf = None
    partitions: PartitionNumbers = ()
    offset_json_file: Annotated[
        str | None,
        Option(
            "--offset-json-file",
            value="FILE",
            help="What Apache's file for kafka-delete-records says, instead.",
            complete="file",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TopicOffsets:
    """What `pk topics offsets` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument("TOPIC", help="The topics.", complete="topic", named=TOPICS_BY_OPTION),
    ]
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="Also this position: start, end, N, -N, +N, committed, @TIME, or a range.",
            complete="position",
        ),
    ] = None
    time: Annotated[
        str | None,
        Option(
            "--time",
            value="TIME",
            help=(
                "Apache's word: earliest, latest, max-timestamp, … (-1 to -6), or milliseconds since "
                "1970."
            ),
        ),
    ] = None
    group: CommitsOf = None
    partitions: PartitionNumbers = ()
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"],
        Option(
            "--isolation-level",
            value="LEVEL",
            help="Whether the end is the high watermark or the last stable offset.",
        ),
    ] = "read_uncommitted"
