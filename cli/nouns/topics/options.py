"""Options of the larger commands of `pk topics`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.option_sets import (
    TOPICS_BY_OPTION,
    CommitsOf,
    InternalTopics,
    PartitionFilters,
    PartitionNumbers,
    Topics,
    TopicsOrAll,
    offset_option,
    replication_factor_option,
    topic_config_option,
)
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, count

TopicConfigs = Annotated[
    tuple[Pair, ...],
    topic_config_option("A topic config, such as retention.ms=7d; repeatable."),
]


@dataclass(frozen=True, kw_only=True)
class DescribeTopics(PartitionFilters):
    """Options of `pk topics describe`."""

    topic: TopicsOrAll = ()
    internal: InternalTopics = False
    all_configs: Annotated[
        bool, Option("-a", "--all-configs", help="Show every config, not only those that were set.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class CreateTopics:
    """Options of `pk topics create`."""

    topic: Annotated[
        tuple[str, ...], Argument("TOPIC", help="The new topics.", named=TOPICS_BY_OPTION)
    ]
    partitions: Annotated[
        int | None,
        Option(
            "-p",
            "--partitions",
            value="N",
            parser=count,
            help="The number of partitions (default: the broker's num.partitions).",
        ),
    ] = None
    replication_factor: Annotated[
        int | None,
        replication_factor_option("The number of replicas (default: the broker's)."),
    ] = None
    config: TopicConfigs = ()
    replica_assignment: Annotated[
        str | None,
        Option(
            "--replica-assignment",
            value="1:2,2:3",
            help="The brokers of each partition, preferred leader first; replaces -p and -r.",
        ),
    ] = None
    if_not_exists: Annotated[
        bool, Option("--if-not-exists", help="Do not fail if a topic exists.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class AlterTopics:
    """Options of `pk topics alter`."""

    topic: Topics
    config: TopicConfigs = ()
    delete_config: Annotated[
        tuple[str, ...],
        Option(
            "--delete-config",
            value="KEY",
            separated=True,
            help="Reset a key to its default; repeatable.",
            complete="topic-config",
        ),
    ] = ()
    partitions: Annotated[
        int | None,
        Option(
            "-p", "--partitions", value="TOTAL", parser=count, help="Increase to TOTAL partitions."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TrimTopics:
    """Options of `pk topics trim`."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, or partitions such as orders:0,1.",
            complete="topic",
            named=TOPICS_BY_OPTION,
        ),
    ] = ()
    offset: Annotated[
        str | None,
        offset_option(
            "The first record to keep: an offset, -N, @TIME, committed, 0=5,1=9; end keeps "
            "nothing.",
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
            help="Read partitions and offsets from a file as for kafka-delete-records.",
            complete="file",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class TopicOffsets:
    """Options of `pk topics offsets`."""

    topic: Topics
    offset: Annotated[
        str | None,
        offset_option(
            "Also show this position: start, end, N, -N, +N, committed, @TIME, or a range."
        ),
    ] = None
    time: Annotated[
        str | None,
        Option(
            "--time",
            value="TIME",
            help=(
                "Apache's name: earliest, latest, max-timestamp, … (-1 to -6), or milliseconds "
                "since 1970."
            ),
            complete="offset-time",
        ),
    ] = None
    group: CommitsOf = None
    partitions: PartitionNumbers = ()
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"],
        Option(
            "--isolation-level",
            "--isolation",
            value="LEVEL",
            help="Show as end the high watermark or the last stable offset.",
        ),
    ] = "read_uncommitted"
