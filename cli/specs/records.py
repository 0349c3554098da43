"""`pk console-consumer` (`consume`) and `pk console-producer` (`produce`)."""

from pk.cli.grammar import Argument, Command, Option
from pk.cli.specs.common import (
    CHANGE,
    COMPRESSIONS,
    CONNECTION,
    FORMATTER_PROPERTIES,
    ISOLATION,
    PARTITION_NUMBERS,
    RECORD_COUNT,
    RECORD_HEADERS,
    RECORD_KEY,
    RECORD_WHERE,
    TOPIC,
    TOPICS,
)

CONSUME = Command(
    "console-consumer",
    "consume",
    help="Read records.",
    handler="pk.cli.nouns.consume.consume:consume",
    arguments=(
        Argument(
            "TOPIC",
            many=True,
            optional=True,
            help="The topics; or permalinks of records, pk://[PROFILE/]TOPIC/PARTITION/OFFSET.",
            complete="topic",
        ),
    ),
    options=(
        TOPICS,
        Option(
            "--include",
            "--whitelist",
            "--regex",
            value="REGEX",
            help="Every topic whose whole name matches, also one that is made meanwhile.",
            dest="include",
        ),
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="Where to read: start, end, N, -N, +N, committed, @TIME, a range A..B, or 0=5,1=9 (default: end).",
            complete="position",
        ),
        Option(
            "--from-beginning",
            help="From the start: -o start; with a group, where it has no commit.",
        ),
        PARTITION_NUMBERS,
        Option(
            "--tail",
            value="N",
            kind="count",
            help="The newest N records over all partitions, by time, that pass the filters; then stop.",
        ),
        Option("--follow", help="After --tail, go on with what comes."),
        Option("--merge", help="Sort all partitions' records by time; wants a range that ends."),
        RECORD_COUNT,
        Option("-e", "--exit", help="Stop at the end as it is now: the same as -o start..end."),
        Option(
            "--timeout-ms",
            value="MS",
            kind="int",
            help="Stop when no record came for so long; below 0: never.",
        ),
        Option(
            "-g",
            "--group",
            value="GROUP",
            help="Read as a member of this group, and commit; otherwise no group is joined.",
            complete="group",
        ),
        Option(
            "-f",
            "--format",
            value="FORMAT",
            help="value, json, jsonl, csv, yaml, table, wide, name, cbor; %-tokens such as '%k\\t%v\\n'; or a template '{key} {value}\\n'.",
            complete="record-format",
        ),
        RECORD_KEY,
        Option(
            "--key-partition",
            help="With -k: read only the partition that the default partitioner gives the key.",
        ),
        RECORD_HEADERS,
        RECORD_WHERE,
        ISOLATION,
        FORMATTER_PROPERTIES,
        Option(
            "--formatter-config",
            value="FILE",
            help="A file of such properties.",
            complete="file",
        ),
        Option(
            "--formatter",
            value="CLASS",
            help="A formatter of Apache's: Default, NoOp, Offsets, GroupMetadata or TransactionLogMessageFormatter.",
            hidden=True,
        ),
        Option(
            "--key-deserializer",
            value="CLASS",
            help="A class of Apache's: how keys look (string, long, integer, double, …).",
            hidden=True,
        ),
        Option(
            "--value-deserializer",
            value="CLASS",
            help="A class of Apache's: how values look.",
            hidden=True,
        ),
        Option("--skip-message-on-error", help="Go on after a record that cannot be shown."),
        Option("--raw", help="Internal topics as bytes, not decoded."),
        *CONNECTION,
    ),
    examples=(
        "pk consume orders -o -10..end",
        "pk consume orders -o '@yesterday 14:00..@-1h' --where 'value.amount > 100' -f jsonl",
        "pk consume orders --tail 20 -f '%p %o %d %k %v\\n'",
        "pk consume orders -e -k user-1 --key-partition -f '%L\\t%v\\n'",
        "pk consume pk://orders/0/1 -f jsonl",
        "pk console-consumer --topic orders --from-beginning --property print.key=true",
    ),
    notes="""\
Records of __consumer_offsets and __transaction_state are decoded; without -f each is a line of JSON, its key beside its value.
Positions: `pk help positions`. Formats: `pk help formats`.
A partition without a leader is read when it has one, unless a range is to end: then it is left out, and fails the command.""",
)

PRODUCE = Command(
    "console-producer",
    "produce",
    help="Write records: at a terminal in an editor, else one a line of standard input.",
    handler="pk.cli.nouns.produce.produce:produce",
    arguments=(
        Argument("TOPIC", optional=True, help="The topic.", complete="topic"),
        Argument(
            "VALUE",
            many=True,
            optional=True,
            help="Records to write instead of reading standard input.",
        ),
    ),
    options=(
        TOPIC,
        Option("-k", "--key", value="KEY", help="The key of every record."),
        Option(
            "-H",
            "--header",
            value="NAME=VALUE",
            kind="pair",
            repeat=True,
            help="A header of every record; may be given again.",
        ),
        Option(
            "-p",
            "--partitions",
            "--partition",
            value="N",
            kind="int",
            help="The partition for every record (default: by key).",
        ),
        Option(
            "--create",
            help="Create the topic if it does not exist, even if another has nearly the same name.",
        ),
        Option(
            "--timestamp",
            value="TIME",
            help="The time of every record, as after the @ of a position (default: now).",
        ),
        Option(
            "-F",
            "--file",
            value="FILE",
            help="Read this file instead of standard input.",
            complete="file",
        ),
        Option(
            "-f",
            "--format",
            value="FORMAT",
            help="How a line is read: value, jsonl or csv (as consume writes them), or %-tokens such as '%k\\t%v\\n'.",
            complete="input-format",
        ),
        Option(
            "-n",
            "--num",
            "--max-messages",
            value="N",
            kind="count",
            help="Stop after so many records.",
        ),
        Option(
            "--rate",
            value="N",
            kind="count",
            help="At most so many records a second.",
        ),
        Option(
            "--json",
            help="Values are JSON documents, on one line or over several; they are checked before they are sent.",
        ),
        Option(
            "--fake",
            value="TEMPLATE",
            complete="fake",
            help="Make records up: orders, users, clicks, or a text with {{seq}}, {{name}}, {{float 1 500}}, … "
            "in it (`pk help fake`); -k is a template too. Without -n until Ctrl-C.",
        ),
        Option("--seed", value="N", kind="int", help="The same made-up records each time."),
        Option(
            "-z",
            "--compression",
            "--compression-codec",
            value="CODEC",
            assumed="gzip",
            takes_next=True,
            choices=COMPRESSIONS,
            help="none, gzip, snappy, lz4 or zstd; gzip where only the option is given.",
        ),
        Option(
            "--keep-partition",
            help="Records read as jsonl keep the partition that their line names.",
        ),
        Option("-Z", "--tombstone", help="An empty line is a null value."),
        Option(
            "--acks",
            "--request-required-acks",
            value="ACKS",
            choices=("0", "1", "-1", "all"),
            default="all",
            help="Whose acknowledgment to wait for (default: all).",
        ),
        Option("--sync", help="Wait for each record's acknowledgment before the next."),
        Option("--print-offsets", help="Say on standard error where each record went."),
        Option(
            "--property",
            "--reader-property",
            value="KEY=VALUE",
            kind="pair",
            repeat=True,
            dest="reader_properties",
            help="A property of Apache's reader: parse.key, key.separator, parse.headers, null.marker, …",
            complete="reader-property",
        ),
        Option("--reader-config", value="FILE", help="A file of such properties.", complete="file"),
        Option("--batch-size", value="BYTES", kind="int", help="batch.size of the producer."),
        Option(
            "--message-send-max-retries", value="N", kind="int", help="retries of the producer."
        ),
        Option(
            "--retry-backoff-ms", value="MS", kind="int", help="retry.backoff.ms of the producer."
        ),
        Option(
            "--timeout",
            "--linger-ms",
            value="MS",
            kind="int",
            dest="linger_ms",
            help="linger.ms of the producer.",
        ),
        Option(
            "--request-timeout-ms",
            value="MS",
            kind="int",
            help="request.timeout.ms of the producer.",
        ),
        Option("--max-block-ms", value="MS", kind="int", help="max.block.ms of the producer."),
        Option(
            "--max-memory-bytes", value="BYTES", kind="int", help="buffer.memory of the producer."
        ),
        Option(
            "--max-partition-memory-bytes",
            value="BYTES",
            kind="int",
            help="batch.size of the producer, as in Apache's tool.",
        ),
        Option(
            "--metadata-expiry-ms",
            value="MS",
            kind="int",
            help="metadata.max.age.ms of the producer.",
            hidden=True,
        ),
        Option(
            "--socket-buffer-size",
            value="BYTES",
            kind="int",
            help="send.buffer.bytes of the producer.",
            hidden=True,
        ),
        Option(
            "--line-reader",
            value="CLASS",
            help="Apache's LineMessageReader, and no other class.",
            hidden=True,
        ),
        *CHANGE,
        *CONNECTION,
    ),
    examples=(
        "pk produce orders -k user-1 '{\"amount\": 5}'",
        "pk consume orders -o start..end -f jsonl | pk produce copy -f jsonl",
        "pk produce orders -f '%k\\t%v\\n' -F orders.tsv -z zstd",
        """pk produce orders --fake '{"id": {{seq}}, "user": "{{name}}", "at": "{{now}}"}' -n 100 --rate 50""",
        "pk produce orders --fake orders -n 3 --dry-run",
    ),
    notes="At a terminal: Enter sends a line, or a JSON document once it is complete; what begins as JSON and is none is shown where it goes wrong, and sent as text only by a second Enter, with --json not at all; Alt-Enter begins a new line; ↑ brings "
    "earlier records back, also those of the last session; Ctrl-X Ctrl-E opens $EDITOR; Ctrl-D ends. Each record's partition, offset and time to the "
    "acknowledgement are shown; one that failed stands there again to be edited. From a file or a pipe, the first line that "
    "is no record ends it, named by its number, after those before it were sent.",
)
