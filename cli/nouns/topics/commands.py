"""The commands of `pk topics`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.topics.options import (
    AlterTopics,
    CreateTopics,
    DescribeTopics,
    TopicOffsets,
    TrimTopics,
)
from pk.cli.nouns.topics.rows import (
    AlteredRow,
    CreatedRow,
    DeletedRow,
    DescribedTopic,
    GrownRow,
    OffsetsRow,
    PartitionRow,
    PositionRow,
    TopicRow,
    TrimmedRow,
)
from pk.cli.options.option_sets import (
    TOPICS_BY_OPTION,
    AllInternalTopics,
    Change,
    Connection,
    Listing,
    Topics,
    Watch,
)
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count

TOPICS = Noun("topics")


@dataclass(frozen=True, kw_only=True)
class ListTopics:
    """Arguments of `pk topics list`."""

    pattern: Annotated[
        str | None,
        Argument(
            "PATTERN",
            help="Only topics whose whole name matches this regular expression.",
            complete="topic",
            named=Option(
                "-t",
                "--topic",
                value="PATTERN",
                help="Same as the PATTERN argument.",
                complete="topic",
            ),
        ),
    ] = None
    internal: AllInternalTopics = False
    exclude_internal: Annotated[
        bool,
        Option("--exclude-internal", help="Hide internal topics (the default).", hidden=True),
    ] = False


TOPICS.command(
    "list",
    "ls",
    help="List topics.",
    worker="listing:list_topics",
    arguments=ListTopics,
    takes=(Listing, Watch, Connection),
    examples=("pk topics list", "pk topics list 'orders.*' --sort -partitions -f json"),
    shows=TopicRow,
)


TOPICS.command(
    "describe",
    help="Show partitions, replicas, in-sync replicas and configs of topics.",
    worker="describe:describe",
    options=DescribeTopics,
    takes=(Listing, Watch, Connection),
    examples=("pk topics describe orders", "pk topics describe --under-replicated"),
    shows={
        "": DescribedTopic,
        "under_replicated": PartitionRow,
        "offline": PartitionRow,
        "under_min_isr": PartitionRow,
        "at_min_isr": PartitionRow,
    },
    rows=PartitionRow,
    from_use=True,
)


TOPICS.command(
    "create",
    help="Create topics.",
    worker="create:create",
    options=CreateTopics,
    takes=(Change, Listing, Connection),
    examples=(
        "pk topics create orders -p 12 -r 3 -c cleanup.policy=compact",
        "pk topics create a b c --dry-run",
    ),
    shows=CreatedRow,
)


TOPICS.command(
    "alter",
    help="Change topic configs, or increase the number of partitions.",
    worker="alter:alter",
    options=AlterTopics,
    takes=(Change, Listing, Connection),
    examples=("pk topics alter orders -c retention.ms=86400000 --delete-config cleanup.policy",),
    shows=AlteredRow,
)


@dataclass(frozen=True, kw_only=True)
class DeleteTopics:
    """Arguments of `pk topics delete`."""

    topic: Annotated[
        tuple[str, ...],
        Argument("TOPIC", help="The exact names.", complete="topic", named=TOPICS_BY_OPTION),
    ]
    regex: Annotated[
        bool,
        Option(
            "--regex",
            help="Names are regular expressions over whole names; matches are listed first.",
        ),
    ] = False
    if_exists: Annotated[bool, Option("--if-exists", help="Do not fail if a topic is missing.")] = (
        False
    )


TOPICS.command(
    "delete",
    "rm",
    help="Delete topics and all their records.",
    worker="delete:delete",
    arguments=DeleteTopics,
    takes=(Change, Listing, Connection),
    examples=("pk topics delete orders", "pk topics delete --regex 'test-.*' --dry-run"),
    shows=DeletedRow,
)


@dataclass(frozen=True, kw_only=True)
class AddPartitions:
    """Arguments of `pk topics add-partitions`."""

    topic: Topics
    num: Annotated[
        int | None,
        Option("-n", "--num", value="N", parser=count, help="The number of partitions to add."),
    ] = None
    partitions: Annotated[
        int | None,
        Option(
            "-p",
            "--partitions",
            "--total",
            value="TOTAL",
            parser=count,
            help="The new total number of partitions.",
        ),
    ] = None


TOPICS.command(
    "add-partitions",
    help="Add partitions to topics.",
    worker="add_partitions:add_partitions",
    arguments=AddPartitions,
    takes=(Change, Listing, Connection),
    examples=("pk topics add-partitions orders -n 4",),
    shows=GrownRow,
)


TOPICS.command(
    "trim",
    "trim-prefix",
    "delete-records",
    help="Delete the oldest records of partitions, up to a position, after showing the plan.",
    worker="trim:trim",
    options=TrimTopics,
    takes=(Change, Listing, Connection),
    examples=(
        "pk topics trim orders -o @-7d --dry-run",
        "pk topics trim orders -p 0 -o 1000",
        "pk topics trim orders -o end",
        "pk topics trim orders -g billing -o committed --dry-run",
    ),
    notes=(
        "Positions: `pk help positions`. Trimmed records cannot be restored; groups that have "
        "not read them continue after them. If the group of -g has no committed offset for a "
        "partition, that partition keeps all records."
    ),
    shows=TrimmedRow,
)


TOPICS.command(
    "offsets",
    help="Show the start, the end and other positions of partitions as offsets.",
    worker="offsets:offsets",
    options=TopicOffsets,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk topics offsets orders",
        "pk topics offsets orders -o @-1h..end",
        "pk topics offsets orders -g billing -o committed",
    ),
    shows={"": OffsetsRow, "offset": PositionRow, "time": PositionRow},
    from_use=True,
)
