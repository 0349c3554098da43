"""What the commands of `pk log` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import (
    FormatterProperties,
    Isolation,
    PartitionNumbers,
    RecordCount,
    RecordHeaders,
    RecordKey,
)
from pk.cli.command_line.values import count

IndexesOnly = Annotated[
    bool,
    Option(
        "--verify-index-only",
        help="Hold the indexes against the batches' headers, and show only what is wrong.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class DumpLog:
    """What `pk log dump` takes."""

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
            help="The same as PATH, as Apache's tool takes it.",
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
                "Of directories: segments, batches, records, index, timeindex, txnindex, snapshot, "
                "epochs, checkpoint, metadata, all (default: batches; of a data directory: segments)."
            ),
        ),
    ] = ()
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help=(
                "Only batches and records there: start, end, N, -N, +N, @TIME, a range A..B, or "
                "0=5,1=9."
            ),
            complete="position",
        ),
    ] = None
    records: Annotated[
        bool,
        Option(
            "--records",
            "--print-data-log",
            "--deep-iteration",
            help="The records inside the batches.",
        ),
    ] = False
    skip_record_metadata: Annotated[
        bool, Option("--skip-record-metadata", help="Of records only key, value and headers.")
    ] = False
    max_bytes: Annotated[
        int | None,
        Option(
            "--max-bytes", value="BYTES", parser=count, help="At most so many bytes of each log."
        ),
    ] = None
    decoder: Annotated[
        Literal["auto", "offsets", "transactions", "metadata", "none"],
        Option(
            "--decoder",
            value="NAME",
            shorthands={
                "--offsets-decoder": "offsets",
                "--transaction-log-decoder": "transactions",
            },
            help=(
                "How keys and values are read: auto (by the topic), offsets, transactions, metadata, "
                "none."
            ),
        ),
    ] = "auto"
    index_sanity_check: Annotated[
        bool,
        Option(
            "--index-sanity-check",
            help="Look at the indexes by themselves, and show only what is wrong.",
        ),
    ] = False
    verify_index_only: IndexesOnly = False


@dataclass(frozen=True, kw_only=True)
class CatRecords:
    """What `pk log cat` takes."""

    partition_dir: Annotated[
        tuple[str, ...],
        Argument(
            "PARTITION_DIR",
            help="A partition's directory, or a data directory for all in it.",
            complete="directory",
        ),
    ]
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="start, end, N, -N, +N, @TIME, a range A..B, or 0=5,1=9 (default: start).",
            complete="position",
        ),
    ] = None
    partitions: PartitionNumbers = ()
    num: RecordCount = None
    format: Annotated[
        str | None,
        Option(
            "-f",
            "--format",
            value="FORMAT",
            help="value, json, jsonl, csv, yaml, table, wide, name, cbor; %-tokens; or a template.",
            complete="record-format",
        ),
    ] = None
    key: RecordKey = None
    header: RecordHeaders = ()
    where: Annotated[
        str | None, Option("--where", value="CONDITION", help="Only records for which it holds.")
    ] = None
    isolation_level: Isolation = "read_uncommitted"
    formatter_properties: FormatterProperties = ()
    key_deserializer: Annotated[
        str | None,
        Option(
            "--key-deserializer", value="CLASS", help="One of Apache's, such as LongDeserializer."
        ),
    ] = None
    value_deserializer: Annotated[
        str | None, Option("--value-deserializer", value="CLASS", help="The same for the value.")
    ] = None
    raw: Annotated[bool, Option("--raw", help="Do not decode the records of internal topics.")] = (
        False
    )
    skip_message_on_error: Annotated[
        bool, Option("--skip-message-on-error", help="Go on where a record cannot be shown.")
    ] = False
