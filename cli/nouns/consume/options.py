"""What the commands of `pk consume` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import (
    FormatterProperties,
    Isolation,
    PartitionNumbers,
    RecordCount,
    RecordHeaders,
    RecordKey,
    RecordWhere,
)
from pk.cli.command_line.values import count


@dataclass(frozen=True, kw_only=True)
class Consume:
    """What `pk console-consumer` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics; or permalinks of records, pk://[PROFILE/]TOPIC/PARTITION/OFFSET.",
            complete="topic",
        ),
    ] = ()
    topics: Annotated[
        tuple[str, ...],
        Option(
            "-t", "--topic", value="TOPIC", help="A topic; may be given again.", complete="topic"
        ),
    ] = ()
    include: Annotated[
        str | None,
        Option(
            "--include",
            "--whitelist",
            "--regex",
            value="REGEX",
            help="Every topic whose whole name matches, also one that is made meanwhile.",
        ),
    ] = None
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help=(
                "Where to read: start, end, N, -N, +N, committed, @TIME, a range A..B, or 0=5,1=9 "
                "(default: end)."
            ),
            complete="position",
        ),
    ] = None
    from_beginning: Annotated[
        bool,
        Option(
            "--from-beginning",
            help="From the start: -o start; with a group, where it has no commit.",
        ),
    ] = False
    partitions: PartitionNumbers = ()
    tail: Annotated[
        int | None,
        Option(
            "--tail",
            value="N",
            parser=count,
            help="The newest N records over all partitions, by time, that pass the filters; then stop.",
        ),
    ] = None
    follow: Annotated[bool, Option("--follow", help="After --tail, go on with what comes.")] = False
    merge: Annotated[
        bool,
        Option("--merge", help="Sort all partitions' records by time; wants a range that ends."),
    ] = False
    num: RecordCount = None
    exit: Annotated[
        bool,
        Option("-e", "--exit", help="Stop at the end as it is now: the same as -o start..end."),
    ] = False
    timeout_ms: Annotated[
        int | None,
        Option(
            "--timeout-ms", value="MS", help="Stop when no record came for so long; below 0: never."
        ),
    ] = None
    group: Annotated[
        str | None,
        Option(
            "-g",
            "--group",
            value="GROUP",
            help="Read as a member of this group, and commit; otherwise no group is joined.",
            complete="group",
        ),
    ] = None
    format: Annotated[
        str | None,
        Option(
            "-f",
            "--format",
            value="FORMAT",
            help=(
                "value, json, jsonl, csv, yaml, table, wide, name, cbor; %-tokens such as '%k\\t%v\\n'; "
                "or a template '{key} {value}\\n'."
            ),
            complete="record-format",
        ),
    ] = None
    key: RecordKey = None
    key_partition: Annotated[
        bool,
        Option(
            "--key-partition",
            help="With -k: read only the partition that the default partitioner gives the key.",
        ),
    ] = False
    header: RecordHeaders = ()
    where: RecordWhere = None
    isolation_level: Isolation = "read_uncommitted"
    formatter_properties: FormatterProperties = ()
    formatter_config: Annotated[
        str | None,
        Option(
            "--formatter-config", value="FILE", help="A file of such properties.", complete="file"
        ),
    ] = None
    formatter: Annotated[
        str | None,
        Option(
            "--formatter",
            value="CLASS",
            help=(
                "A formatter of Apache's: Default, NoOp, Offsets, GroupMetadata or "
                "TransactionLogMessageFormatter."
            ),
            hidden=True,
        ),
    ] = None
    key_deserializer: Annotated[
        str | None,
        Option(
            "--key-deserializer",
            value="CLASS",
            help="A class of Apache's: how keys look (string, long, integer, double, …).",
            hidden=True,
        ),
    ] = None
    value_deserializer: Annotated[
        str | None,
        Option(
            "--value-deserializer",
            value="CLASS",
            help="A class of Apache's: how values look.",
            hidden=True,
        ),
    ] = None
    skip_message_on_error: Annotated[
        bool, Option("--skip-message-on-error", help="Go on after a record that cannot be shown.")
    ] = False
    raw: Annotated[bool, Option("--raw", help="Internal topics as bytes, not decoded.")] = False
