"""`pk log`: a broker's files, without the broker."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import (
    CHANGE,
    DEBUG,
    FORMATTER_PROPERTIES,
    ISOLATION,
    LISTING,
    PARTITION_NUMBERS,
    RECORD_COUNT,
    RECORD_HEADERS,
    RECORD_KEY,
)

SHOWN = (
    "segments",
    "batches",
    "records",
    "index",
    "timeindex",
    "txnindex",
    "snapshot",
    "epochs",
    "checkpoint",
    "metadata",
    "all",
)
"""What `pk log dump --show` knows."""

_INDEXES_ONLY = Option(
    "--verify-index-only",
    help="Hold the indexes against the batches' headers, and show only what is wrong.",
)

DUMP = Command(
    "dump",
    help="Show what files hold: batches, records, indexes, producers, epochs, checkpoints, metadata.",
    handler="pk.cli.nouns.log.dump:dump",
    shows="...",
    blocking=True,
    arguments=(
        Argument(
            "PATH",
            help="A file, a partition's directory, or a data directory.",
            many=True,
            optional=True,
            complete="file",
        ),
    ),
    options=(
        Option(
            "--files",
            value="A,B",
            kind="list",
            repeat=True,
            help="The same as PATH, as Apache's tool takes it.",
            complete="file",
        ),
        Option(
            "--show",
            value="WHAT",
            kind="list",
            repeat=True,
            help=f"Of directories: {', '.join(SHOWN)} (default: batches; of a data directory: segments).",
        ),
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="Only batches and records there: start, end, N, -N, +N, @TIME, a range A..B, or 0=5,1=9.",
            complete="position",
        ),
        Option(
            "--records",
            "--print-data-log",
            "--deep-iteration",
            dest="records",
            help="The records inside the batches.",
        ),
        Option(
            "--skip-record-metadata",
            help="Of records only key, value and headers.",
        ),
        Option(
            "--max-bytes",
            value="BYTES",
            kind="count",
            help="At most so many bytes of each log.",
        ),
        Option(
            "--decoder",
            value="NAME",
            choices=("auto", "offsets", "transactions", "metadata", "none"),
            default="auto",
            help="How keys and values are read: auto (by the topic), offsets, transactions, metadata, none.",
        ),
        Option(
            "--offsets-decoder",
            dest="decoder",
            sets="offsets",
            default="auto",
            hidden=True,
            help="The same as --decoder offsets.",
        ),
        Option(
            "--transaction-log-decoder",
            dest="decoder",
            sets="transactions",
            default="auto",
            hidden=True,
            help="The same as --decoder transactions.",
        ),
        Option(
            "--index-sanity-check",
            help="Look at the indexes by themselves, and show only what is wrong.",
        ),
        _INDEXES_ONLY,
        *LISTING,
        DEBUG,
    ),
    examples=(
        "pk log dump data/orders-0",
        "pk log dump data/orders-0/00000000000000000000.log --records -f jsonl",
        "pk log dump data/orders-0 --records -o -10..end",
        "pk log dump data/__consumer_offsets-7 --records --where 'key.group = app'",
        "pk log dump data --show checkpoint",
    ),
    notes="Only reads, also beside a running broker.",
)

VERIFY = Command(
    "verify",
    help="Check files: every batch's CRC, offsets, records, epochs, and every index entry; exit 1 if something is wrong.",
    handler="pk.cli.nouns.log.verify:verify_command",
    shows="file position:int? offset:int? what",
    blocking=True,
    arguments=(
        Argument(
            "DIR",
            help="A partition's directory, or a data directory.",
            many=True,
            complete="directory",
        ),
    ),
    options=(_INDEXES_ONLY, *LISTING, DEBUG),
    examples=("pk log verify data", "pk log verify data/orders-0 -f json"),
    notes="Only reads, also beside a running broker.",
)

CAT = Command(
    "cat",
    help="Records straight out of the files, with the positions and formats of console-consumer.",
    handler="pk.cli.nouns.log.cat:cat",
    blocking=True,
    arguments=(
        Argument(
            "PARTITION_DIR",
            help="A partition's directory, or a data directory for all in it.",
            many=True,
            complete="directory",
        ),
    ),
    options=(
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="start, end, N, -N, +N, @TIME, a range A..B, or 0=5,1=9 (default: start).",
            complete="position",
        ),
        PARTITION_NUMBERS,
        RECORD_COUNT,
        Option(
            "-f",
            "--format",
            value="FORMAT",
            help="value, json, jsonl, csv, yaml, table, wide, name, cbor; %-tokens; or a template.",
            complete="record-format",
        ),
        RECORD_KEY,
        RECORD_HEADERS,
        Option("--where", value="CONDITION", help="Only records for which it holds."),
        ISOLATION,
        FORMATTER_PROPERTIES,
        Option(
            "--key-deserializer", value="CLASS", help="One of Apache's, such as LongDeserializer."
        ),
        Option("--value-deserializer", value="CLASS", help="The same for the value."),
        Option("--raw", help="Do not decode the records of internal topics."),
        Option("--skip-message-on-error", help="Go on where a record cannot be shown."),
        DEBUG,
    ),
    examples=(
        "pk log cat data/orders-0 -o -10..end -f jsonl",
        "pk log cat data/orders-0 data/orders-1 -o @-1h",
        "pk log cat data/__consumer_offsets-7 -f table",
    ),
    notes="Ends at the end of what is there. Only reads, also beside a running broker.",
)

ADOPT = Command(
    "adopt",
    help="Take over the topics of a data directory that Apache Kafka wrote.",
    handler="pk.cli.nouns.log.adopt:adopt",
    shows="topic partitions:int bytes:int topic_id? configs:<str>",
    arguments=(
        Argument(
            "DIR",
            help="The data directory; all of them where log.dirs names several.",
            many=True,
            complete="directory",
        ),
    ),
    options=(
        Option(
            "-c",
            "--config",
            value="TOPIC:KEY=VALUE",
            kind="config",
            repeat=True,
            dest="topic_configs",
            help="A config of a topic, over what Apache's metadata says; may be given again.",
        ),
        Option(
            "--config-file",
            value="FILE",
            dest="topic_file",
            help="Lines of TOPIC:KEY=VALUE.",
            complete="file",
        ),
        *CHANGE,
        *LISTING,
        DEBUG,
    ),
    examples=(
        "pk log adopt /var/lib/kafka --dry-run",
        "pk log adopt /var/lib/kafka -c orders:retention.ms=604800000 -y",
    ),
    notes="Stop Apache Kafka first. Its metadata log is kept, in apache-kafka/ beside the topics.",
)

LOG = Group(
    "log",
    "logs",
    help="A broker's files, without the broker: dump, verify, cat, adopt.",
    children=(DUMP, VERIFY, CAT, ADOPT),
)
