"""`pk log`: its commands and their options."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import (
    Change,
    Debug,
    FormatterProperties,
    Isolation,
    Listing,
    PartitionNumbers,
    RecordCount,
    RecordHeaders,
    RecordKey,
)
from pk.cli.command_line.values import Pair, config_pair, count

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

LOG = Noun("log")

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


@LOG.command(
    "dump",
    takes=(Listing, Debug),
    examples=(
        "pk log dump data/orders-0",
        "pk log dump data/orders-0/00000000000000000000.log --records -f jsonl",
        "pk log dump data/orders-0 --records -o -10..end",
        "pk log dump data/__consumer_offsets-7 --records --where 'key.group = app'",
        "pk log dump data --show checkpoint",
    ),
    notes="Only reads, also beside a running broker.",
    shows="...",
    blocking=True,
)
def dump(context: "Context", options: DumpLog) -> int | None:
    """Show what files hold: batches, records, indexes, producers, epochs, checkpoints, metadata."""
    from pk.cli.nouns.log.dump import dump

    return dump(context)


@LOG.command(
    "verify",
    takes=(Listing, Debug),
    examples=("pk log verify data", "pk log verify data/orders-0 -f json"),
    notes="Only reads, also beside a running broker.",
    shows="file position:int? offset:int? what",
    blocking=True,
)
def verify(
    context: "Context",
    dir: Annotated[
        tuple[str, ...],
        Argument("DIR", help="A partition's directory, or a data directory.", complete="directory"),
    ],
    verify_index_only: IndexesOnly = False,
) -> int | None:
    """Check files: every batch's CRC, offsets, records, epochs, and every index entry; exit 1 if
    something is wrong.
    """
    from pk.cli.nouns.log.verify import verify_command

    return verify_command(context)


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


@LOG.command(
    "cat",
    takes=(Debug,),
    examples=(
        "pk log cat data/orders-0 -o -10..end -f jsonl",
        "pk log cat data/orders-0 data/orders-1 -o @-1h",
        "pk log cat data/__consumer_offsets-7 -f table",
    ),
    notes="Ends at the end of what is there. Only reads, also beside a running broker.",
    blocking=True,
)
def cat(context: "Context", options: CatRecords) -> int | None:
    """Records straight out of the files, with the positions and formats of console-consumer."""
    from pk.cli.nouns.log.cat import cat

    return cat(context)


@LOG.command(
    "adopt",
    takes=(Change, Listing, Debug),
    examples=(
        "pk log adopt /var/lib/kafka --dry-run",
        "pk log adopt /var/lib/kafka -c orders:retention.ms=604800000 -y",
    ),
    notes=(
        "Stop Apache Kafka first. Its metadata log is kept, in apache-kafka/ beside the topics."
    ),
    shows="topic partitions:int bytes:int topic_id? configs:<str>",
)
def adopt(
    context: "Context",
    dir: Annotated[
        tuple[str, ...],
        Argument(
            "DIR",
            help="The data directory; all of them where log.dirs names several.",
            complete="directory",
        ),
    ],
    topic_configs: Annotated[
        tuple[Pair, ...],
        Option(
            "-c",
            "--config",
            value="TOPIC:KEY=VALUE",
            parser=config_pair,
            help="A config of a topic, over what Apache's metadata says; may be given again.",
        ),
    ] = (),
    topic_file: Annotated[
        str | None,
        Option("--config-file", value="FILE", help="Lines of TOPIC:KEY=VALUE.", complete="file"),
    ] = None,
) -> Running:
    """Take over the topics of a data directory that Apache Kafka wrote."""
    from pk.cli.nouns.log.adopt import adopt

    return adopt(context)
