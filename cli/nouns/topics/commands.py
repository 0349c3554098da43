"""The commands of `pk topics`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import (
    TOPICS_BY_OPTION,
    AllInternalTopics,
    Change,
    Connection,
    Listing,
    Topics,
    Watch,
)
from pk.cli.command_line.parameters import Argument, Option
from pk.cli.command_line.values import count
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

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

TOPICS = Noun("topics")


@TOPICS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=("pk topics list", "pk topics list 'orders.*' --sort -partitions -f json"),
    shows=TopicRow,
)
def list_topics(
    context: "Context",
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
    ] = None,
    internal: AllInternalTopics = False,
    exclude_internal: Annotated[
        bool,
        Option("--exclude-internal", help="Hide internal topics (the default).", hidden=True),
    ] = False,
) -> Running:
    """List topics."""
    from pk.cli.nouns.topics.listing import list_topics

    return list_topics(
        context, pattern=pattern, internal=internal, exclude_internal=exclude_internal
    )


@TOPICS.command(
    "describe",
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
def describe(context: "Context", options: DescribeTopics) -> Running:
    """Show partitions, replicas, in-sync replicas and configs of topics."""
    from pk.cli.nouns.topics.describe import describe

    return describe(context, options)


@TOPICS.command(
    "create",
    takes=(Change, Listing, Connection),
    examples=(
        "pk topics create orders -p 12 -r 3 -c cleanup.policy=compact",
        "pk topics create a b c --dry-run",
    ),
    shows=CreatedRow,
)
def create(context: "Context", options: CreateTopics) -> Running:
    """Create topics."""
    from pk.cli.nouns.topics.create import create

    return create(context, options)


@TOPICS.command(
    "alter",
    takes=(Change, Listing, Connection),
    examples=("pk topics alter orders -c retention.ms=86400000 --delete-config cleanup.policy",),
    shows=AlteredRow,
)
def alter(context: "Context", options: AlterTopics) -> Running:
    """Change topic configs, or increase the number of partitions."""
    from pk.cli.nouns.topics.alter import alter

    return alter(context, options)


@TOPICS.command(
    "delete",
    "rm",
    takes=(Change, Listing, Connection),
    examples=("pk topics delete orders", "pk topics delete --regex 'test-.*' --dry-run"),
    shows=DeletedRow,
)
def delete(
    context: "Context",
    topic: Annotated[
        tuple[str, ...],
        Argument("TOPIC", help="The exact names.", complete="topic", named=TOPICS_BY_OPTION),
    ],
    regex: Annotated[
        bool,
        Option(
            "--regex",
            help="Names are regular expressions over whole names; matches are listed first.",
        ),
    ] = False,
    if_exists: Annotated[
        bool, Option("--if-exists", help="Do not fail if a topic is missing.")
    ] = False,
) -> Running:
    """Delete topics and all their records."""
    from pk.cli.nouns.topics.delete import delete

    return delete(context, topics=topic, regex=regex, if_exists=if_exists)


@TOPICS.command(
    "add-partitions",
    takes=(Change, Listing, Connection),
    examples=("pk topics add-partitions orders -n 4",),
    shows=GrownRow,
)
def add_partitions(
    context: "Context",
    topic: Topics,
    num: Annotated[
        int | None, Option("-n", "--num", value="N", parser=count, help="How many more.")
    ] = None,
    partitions: Annotated[
        int | None,
        Option(
            "-p",
            "--partitions",
            "--total",
            value="TOTAL",
            parser=count,
            help="The new total.",
        ),
    ] = None,
) -> Running:
    """Add partitions to topics."""
    from pk.cli.nouns.topics.add_partitions import add_partitions

    return add_partitions(context, topics=topic, more=num, total=partitions)


@TOPICS.command(
    "trim",
    "trim-prefix",
    "delete-records",
    takes=(Change, Listing, Connection),
    examples=(
        "pk topics trim orders -o @-7d --dry-run",
        "pk topics trim orders -p 0 -o 1000",
        "pk topics trim orders -o end",
        "pk topics trim orders -g billing -o committed --dry-run",
    ),
    notes=(
        "Positions: `pk help positions`. Trimmed records are gone; groups that have not read "
        "them continue after them. If the group of -g has committed nothing for a partition, "
        "that partition keeps all records."
    ),
    shows=TrimmedRow,
)
def trim(context: "Context", options: TrimTopics) -> Running:
    """Delete the oldest records of partitions, up to a position, after showing the plan."""
    from pk.cli.nouns.topics.trim import trim

    return trim(context, options)


@TOPICS.command(
    "offsets",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk topics offsets orders",
        "pk topics offsets orders -o @-1h..end",
        "pk topics offsets orders -g billing -o committed",
    ),
    shows={"": OffsetsRow, "offset": PositionRow, "time": PositionRow},
    from_use=True,
)
def offsets(context: "Context", options: TopicOffsets) -> Running:
    """Show the start, the end and other positions of partitions as offsets."""
    from pk.cli.nouns.topics.offsets import offsets

    return offsets(context, options)
