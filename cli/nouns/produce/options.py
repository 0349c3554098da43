"""Options of the larger commands of `pk produce`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.option_sets import (
    CODECS,
    TOPIC_BY_OPTION,
    Compression,
    RecordCount,
    SchemaRegistryUrl,
    Seed,
    apache_ms_option,
)
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, count


@dataclass(frozen=True, kw_only=True)
class Produce:
    """Options of `pk produce`."""

    topic: Annotated[
        str | None, Argument("TOPIC", help="The topic.", complete="topic", named=TOPIC_BY_OPTION)
    ] = None
    value: Annotated[
        tuple[str, ...],
        Argument("VALUE", help="Records to write instead of reading standard input."),
    ] = ()
    key: Annotated[
        str | None, Option("-k", "--key", value="KEY", help="The key of every record.")
    ] = None
    header: Annotated[
        tuple[Pair, ...],
        Option(
            "-H",
            "--header",
            value="NAME=VALUE",
            help="A header for every record; repeatable.",
        ),
    ] = ()
    partitions: Annotated[
        int | None,
        Option(
            "-p",
            "--partitions",
            "--partition",
            value="N",
            help="The partition for every record (default: chosen by key).",
        ),
    ] = None
    create: Annotated[
        bool,
        Option(
            "--create",
            help="Create the topic if it does not exist, even if a similar name exists.",
        ),
    ] = False
    timestamp: Annotated[
        str | None,
        Option(
            "--timestamp",
            value="TIME",
            help="The timestamp of every record, in the formats of @TIME without the @ (default: "
            "now).",
        ),
    ] = None
    schema: Annotated[
        str | None,
        Option(
            "--schema",
            value="SUBJECT[:VERSION][#MESSAGE]",
            help="Values are JSON: encode them with this schema of the registry (default: its "
            "latest version; with protobuf, the first message).",
        ),
    ] = None
    schema_registry: SchemaRegistryUrl = None
    file: Annotated[
        str | None,
        Option(
            "-F",
            "--file",
            value="FILE",
            help="Read this file instead of standard input.",
            complete="file",
        ),
    ] = None
    format: Annotated[
        str | None,
        Option(
            "-f",
            "--format",
            value="FORMAT",
            help=(
                "How to read a line: value, jsonl or csv (as consume writes them), or %-tokens "
                "such as '%k\\t%v\\n'."
            ),
            complete="input-format",
        ),
    ] = None
    num: RecordCount = None
    rate: Annotated[
        int | None,
        Option("--rate", value="N", parser=count, help="Write at most N records a second."),
    ] = None
    json: Annotated[
        bool,
        Option(
            "--json",
            help=(
                "Values are JSON documents, on one line or several; they are checked before they "
                "are sent."
            ),
        ),
    ] = False
    fake: Annotated[
        str | None,
        Option(
            "--fake",
            value="TEMPLATE",
            help=(
                "Generate records: orders, users, clicks, or a text with {{seq}}, {{name}}, "
                "{{float 1 500}}, … in it (`pk help fake`); -k is a template too. Runs until "
                "Ctrl-C without -n."
            ),
            complete="fake",
        ),
    ] = None
    seed: Seed = None
    compression: Annotated[
        Compression | None,
        Option(
            "-z",
            "--compression",
            "--compression-codec",
            value="CODEC",
            help=f"The compression: {CODECS} (default: none).",
        ),
    ] = None
    keep_partition: Annotated[
        bool,
        Option(
            "--keep-partition",
            help=(
                "Write records of jsonl and csv to the partition that their line names; %p in -f "
                "always does."
            ),
        ),
    ] = False
    tombstone: Annotated[
        bool, Option("-Z", "--tombstone", help="Write a null value for an empty line.")
    ] = False
    acks: Annotated[
        Literal["0", "1", "-1", "all"],
        Option(
            "--acks",
            "--request-required-acks",
            value="ACKS",
            help="Acknowledgements to wait for: 0, 1 or all, also -1 (default: all).",
        ),
    ] = "all"
    transactional_id: Annotated[
        str | None,
        Option(
            "--transactional-id",
            value="ID",
            help=(
                "Write in transactions under this id: committed at the end of the input, aborted "
                "on an error or Ctrl-C."
            ),
        ),
    ] = None
    records_per_transaction: Annotated[
        int | None,
        Option(
            "--records-per-transaction",
            value="N",
            parser=count,
            help="With --transactional-id: commit after every N records (default: all in one).",
        ),
    ] = None
    sync: Annotated[
        bool, Option("--sync", help="Wait for each record's acknowledgement before the next.")
    ] = False
    print_offsets: Annotated[
        bool,
        Option(
            "--print-offsets", help="Print each record's partition and offset on standard error."
        ),
    ] = False
    reader_properties: Annotated[
        tuple[Pair, ...],
        Option(
            "--property",
            "--reader-property",
            value="KEY=VALUE",
            help=(
                "A property of Apache's line reader: parse.key, key.separator, parse.headers, "
                "null.marker, …"
            ),
            complete="reader-property",
        ),
    ] = ()
    reader_config: Annotated[
        str | None,
        Option("--reader-config", value="FILE", help="A file of such properties.", complete="file"),
    ] = None
    batch_size: Annotated[
        int | None, Option("--batch-size", value="BYTES", help="batch.size of the producer.")
    ] = None
    message_send_max_retries: Annotated[
        int | None, Option("--message-send-max-retries", value="N", help="retries of the producer.")
    ] = None
    retry_backoff_ms: Annotated[
        int | None,
        apache_ms_option("--retry-backoff-ms", help="retry.backoff.ms of the producer."),
    ] = None
    linger_ms: Annotated[
        int | None,
        apache_ms_option(
            "--linger-ms",
            "--timeout",
            help="linger.ms of the producer (Apache's tool calls it --timeout).",
        ),
    ] = None
    request_timeout_ms: Annotated[
        int | None,
        apache_ms_option("--request-timeout-ms", help="request.timeout.ms of the producer."),
    ] = None
    max_block_ms: Annotated[
        int | None, apache_ms_option("--max-block-ms", help="max.block.ms of the producer.")
    ] = None
    max_memory_bytes: Annotated[
        int | None,
        Option("--max-memory-bytes", value="BYTES", help="buffer.memory of the producer."),
    ] = None
    max_partition_memory_bytes: Annotated[
        int | None,
        Option(
            "--max-partition-memory-bytes",
            value="BYTES",
            help="batch.size of the producer.",
        ),
    ] = None
    metadata_expiry_ms: Annotated[
        int | None,
        apache_ms_option(
            "--metadata-expiry-ms", help="metadata.max.age.ms of the producer.", hidden=True
        ),
    ] = None
    socket_buffer_size: Annotated[
        int | None,
        Option(
            "--socket-buffer-size",
            value="BYTES",
            help="send.buffer.bytes of the producer.",
            hidden=True,
        ),
    ] = None
    line_reader: Annotated[
        str | None,
        Option(
            "--line-reader",
            value="CLASS",
            help="Only Apache's LineMessageReader.",
            hidden=True,
        ),
    ] = None
