"""Options of the larger commands of `pk log`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.option_sets import (
    Decode,
    DecodeKey,
    FormatterProperties,
    Isolation,
    ParseJson,
    PartitionNumbers,
    RawRecords,
    RecordCount,
    RecordFormat,
    RecordHeaders,
    RecordKey,
    RecordWhere,
    SchemaRegistryUrl,
    SkipMessageOnError,
    offset_option,
)
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, config_pair, count

IndexesOnly = Annotated[
    bool,
    Option(
        "--verify-index-only",
        help="Check the indexes against the batch headers, and show only problems.",
    ),
]


StoreKeys = Annotated[
    tuple[Pair, ...],
    Option(
        "-X",
        value="KEY=VALUE",
        parser=config_pair,
        help="A config pk.remote.*, if the environment variables of the store are not enough; "
        "repeatable.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class DumpLog:
    """Options of `pk log dump`."""

    path: Annotated[
        tuple[str, ...],
        Argument(
            "PATH", help="A file, a partition's directory, or a data directory.", complete="file"
        ),
    ] = ()
    files: Annotated[
        tuple[str, ...],
        Option(
            "--files",
            value="A,B",
            separated=True,
            help="Same as PATH, as in Apache's tool.",
            complete="file",
        ),
    ] = ()
    show: Annotated[
        tuple[str, ...],
        Option(
            "--show",
            value="WHAT",
            separated=True,
            help=(
                "For directories: segments, batches, records, index, timeindex, txnindex, "
                "snapshot, epochs, checkpoint, metadata, all (default: batches; for a data "
                "directory: segments)."
            ),
            complete="log-content",
        ),
    ] = ()
    offset: Annotated[
        str | None,
        offset_option(
            "Only batches and records at a position: start, end, N, -N, +N, @TIME, a range A..B, "
            "or 0=5,1=9."
        ),
    ] = None
    records: Annotated[
        bool,
        Option(
            "--records",
            "--print-data-log",
            "--deep-iteration",
            help="Show the records inside the batches.",
        ),
    ] = False
    skip_record_metadata: Annotated[
        bool, Option("--skip-record-metadata", help="Show only key, value and headers of records.")
    ] = False
    max_bytes: Annotated[
        int | None,
        Option("--max-bytes", value="BYTES", parser=count, help="Read at most BYTES of each log."),
    ] = None
    decoder: Annotated[
        Literal["auto", "offsets", "transactions", "share-groups", "metadata", "none"],
        Option(
            "--decoder",
            value="NAME",
            help=(
                "How to decode keys and values: auto (by the topic), offsets, transactions, "
                "share-groups, metadata, none."
            ),
        ),
    ] = "auto"
    index_sanity_check: Annotated[
        bool,
        Option(
            "--index-sanity-check",
            help="Check the indexes on their own, and show only problems.",
        ),
    ] = False
    verify_index_only: IndexesOnly = False


@dataclass(frozen=True, kw_only=True)
class CatRecords:
    """Options of `pk log cat`."""

    partition_dir: Annotated[
        tuple[str, ...],
        Argument(
            "PARTITION_DIR",
            help="A partition's directory, a data directory for all its partitions, or the URL of "
            "remote storage, as in pk.remote.url.",
            complete="directory",
        ),
    ]
    topics: Annotated[
        tuple[str, ...],
        Option("-t", "--topic", value="TOPIC", help="Only these topics of a store; repeatable."),
    ] = ()
    configs: StoreKeys = ()
    offset: Annotated[
        str | None,
        offset_option(
            "What to read: start, end, N, -N, +N, @TIME, a range A..B, or 0=5,1=9 (default: start)."
        ),
    ] = None
    partitions: PartitionNumbers = ()
    num: RecordCount = None
    format: RecordFormat = None
    key: RecordKey = None
    header: RecordHeaders = ()
    where: RecordWhere = None
    isolation_level: Isolation = "read_uncommitted"
    formatter_properties: FormatterProperties = ()
    key_deserializer: Annotated[
        str | None,
        Option(
            "--key-deserializer",
            value="CLASS",
            help="Apache's deserializer class for keys (string, long, integer, double, …).",
        ),
    ] = None
    value_deserializer: Annotated[
        str | None,
        Option(
            "--value-deserializer", value="CLASS", help="Apache's deserializer class for values."
        ),
    ] = None
    raw: RawRecords = False
    decode: Decode = None
    decode_key: DecodeKey = None
    schema_registry: SchemaRegistryUrl = None
    parse_json: ParseJson = False
    skip_message_on_error: SkipMessageOnError = False
