"""Options of `pk consume`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pk.cli.options.option_sets import (
    Decode,
    DecodeKey,
    FormatterProperties,
    ParseJson,
    PartitionNumbers,
    QuietTimeout,
    RawRecords,
    RecordCount,
    RecordFormat,
    RecordHeaders,
    RecordKey,
    RecordWhere,
    SchemaRegistryUrl,
    offset_option,
)
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count


@dataclass(frozen=True, kw_only=True)
class Consume:
    """Options of `pk consume`."""

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
        Option("-t", "--topic", value="TOPIC", help="A topic; repeatable.", complete="topic"),
    ] = ()
    include: Annotated[
        str | None,
        Option(
            "--include",
            "--whitelist",
            "--regex",
            value="REGEX",
            help="Every topic whose whole name matches, including topics created later.",
        ),
    ] = None
    offset: Annotated[
        str | None,
        offset_option(
            "What to read: start, end, N, -N, +N, committed, @TIME, a range A..B, or 0=5,1=9 "
            "(default: end)."
        ),
    ] = None
    from_beginning: Annotated[
        bool,
        Option(
            "--from-beginning",
            help=(
                "Read from the start: same as -o start. With a group, this applies to partitions "
                "without a committed offset."
            ),
        ),
    ] = False
    partitions: PartitionNumbers = ()
    tail: Annotated[
        int | None,
        Option(
            "--tail",
            value="N",
            parser=count,
            help="The newest N matching records over all partitions, by time; then stop.",
        ),
    ] = None
    follow: Annotated[bool, Option("--follow", help="After --tail, continue with new records.")] = (
        False
    )
    merge: Annotated[
        bool,
        Option(
            "--merge", help="Sort the records of all partitions by time; needs a range that ends."
        ),
    ] = False
    num: RecordCount = None
    exit: Annotated[
        bool,
        Option("-e", "--exit", help="Stop at the current end: same as -o start..end."),
    ] = False
    timeout_ms: QuietTimeout = None
    group: Annotated[
        str | None,
        Option(
            "-g",
            "--group",
            value="GROUP",
            help="Read as a member of this group, and commit; default: join no group.",
            complete="group",
        ),
    ] = None
    share: Annotated[
        bool,
        Option(
            "--share",
            help="The group is a share group: take records from it, and acknowledge each.",
        ),
    ] = False
    release: Annotated[
        bool,
        Option("--release", help="With --share: give each record back to the group once shown."),
    ] = False
    reject: Annotated[
        bool,
        Option("--reject", help="With --share: reject each record once shown, for all members."),
    ] = False
    format: RecordFormat = None
    key: RecordKey = None
    key_partition: Annotated[
        bool,
        Option(
            "--key-partition",
            help=(
                "With -k: read only the partition that the default partitioner chooses for the key."
            ),
        ),
    ] = False
    header: RecordHeaders = ()
    where: RecordWhere = None
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"] | None,
        Option(
            "--isolation-level",
            "--isolation",
            value="LEVEL",
            help=(
                "Whether to show records of open and aborted transactions; by default -f json, "
                "jsonl, csv, yaml and cbor leave them out."
            ),
        ),
    ] = None
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
                "One of Apache's formatters: Default, NoOp, Offsets, GroupMetadata, "
                "TransactionLog or ShareGroupStateMessageFormatter."
            ),
            hidden=True,
        ),
    ] = None
    key_deserializer: Annotated[
        str | None,
        Option(
            "--key-deserializer",
            value="CLASS",
            help="Apache's deserializer class for keys (string, long, integer, double, …).",
            hidden=True,
        ),
    ] = None
    value_deserializer: Annotated[
        str | None,
        Option(
            "--value-deserializer",
            value="CLASS",
            help="Apache's deserializer class for values.",
            hidden=True,
        ),
    ] = None
    parse_json: ParseJson = False
    skip_message_on_error: Annotated[
        bool,
        Option(
            "--skip-message-on-error",
            "--reject-message-on-error",
            help="Continue after a record that cannot be shown; with --share, reject it.",
        ),
    ] = False
    raw: RawRecords = False
    decode: Decode = None
    decode_key: DecodeKey = None
    schema_registry: SchemaRegistryUrl = None


def ends(values: Mapping[str, Any]) -> bool:
    """Whether consuming with these values of options ends by itself and changes nothing."""
    if values["group"] or values["share"]:
        return False
    bounded = values["exit"] or (values["tail"] and not values["follow"])
    return bool(bounded or ".." in (values["offset"] or ""))
