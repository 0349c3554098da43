"""What the commands of `pk produce` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import TOPIC_BY_OPTION, Compression
from pk.cli.command_line.values import Pair, count


@dataclass(frozen=True, kw_only=True)
class Produce:
    """What `pk console-producer` takes."""

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
            help="A header of every record; may be given again.",
        ),
    ] = ()
    partitions: Annotated[
        int | None,
        Option(
            "-p",
            "--partitions",
            "--partition",
            value="N",
            help="The partition for every record (default: by key).",
        ),
    ] = None
    create: Annotated[
        bool,
        Option(
            "--create",
            help="Create the topic if it does not exist, even if another has nearly the same name.",
        ),
    ] = False
    timestamp: Annotated[
        str | None,
        Option(
            "--timestamp",
            value="TIME",
            help="The time of every record, as after the @ of a position (default: now).",
        ),
    ] = None
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
                "How a line is read: value, jsonl or csv (as consume writes them), or %-tokens such "
                "as '%k\\t%v\\n'."
            ),
            complete="input-format",
        ),
    ] = None
    num: Annotated[
        int | None,
        Option(
            "-n",
            "--num",
            "--max-messages",
            value="N",
            parser=count,
            help="Stop after so many records.",
        ),
    ] = None
    rate: Annotated[
        int | None,
        Option("--rate", value="N", parser=count, help="At most so many records a second."),
    ] = None
    json: Annotated[
        bool,
        Option(
            "--json",
            help=(
                "Values are JSON documents, on one line or over several; they are checked before they "
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
                "Make records up: orders, users, clicks, or a text with {{seq}}, {{name}}, {{float 1 "
                "500}}, … in it (`pk help fake`); -k is a template too. Without -n until Ctrl-C."
            ),
            complete="fake",
        ),
    ] = None
    seed: Annotated[
        int | None, Option("--seed", value="N", help="The same made-up records each time.")
    ] = None
    compression: Annotated[
        Compression | None,
        Option(
            "-z",
            "--compression",
            "--compression-codec",
            value="CODEC",
            assumed="gzip",
            takes_next=True,
            help="none, gzip, snappy, lz4 or zstd; gzip where only the option is given.",
        ),
    ] = None
    keep_partition: Annotated[
        bool,
        Option(
            "--keep-partition",
            help="Records read as jsonl keep the partition that their line names.",
        ),
    ] = False
    tombstone: Annotated[
        bool, Option("-Z", "--tombstone", help="An empty line is a null value.")
    ] = False
    acks: Annotated[
        Literal["0", "1", "-1", "all"],
        Option(
            "--acks",
            "--request-required-acks",
            value="ACKS",
            help="Whose acknowledgment to wait for (default: all).",
        ),
    ] = "all"
    sync: Annotated[
        bool, Option("--sync", help="Wait for each record's acknowledgment before the next.")
    ] = False
    print_offsets: Annotated[
        bool, Option("--print-offsets", help="Say on standard error where each record went.")
    ] = False
    reader_properties: Annotated[
        tuple[Pair, ...],
        Option(
            "--property",
            "--reader-property",
            value="KEY=VALUE",
            help=(
                "A property of Apache's reader: parse.key, key.separator, parse.headers, null.marker, "
                "…"
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
        Option("--retry-backoff-ms", value="MS", help="retry.backoff.ms of the producer."),
    ] = None
    linger_ms: Annotated[
        int | None,
        Option("--timeout", "--linger-ms", value="MS", help="linger.ms of the producer."),
    ] = None
    request_timeout_ms: Annotated[
        int | None,
        Option("--request-timeout-ms", value="MS", help="request.timeout.ms of the producer."),
    ] = None
    max_block_ms: Annotated[
        int | None, Option("--max-block-ms", value="MS", help="max.block.ms of the producer.")
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
            help="batch.size of the producer, as in Apache's tool.",
        ),
    ] = None
    metadata_expiry_ms: Annotated[
        int | None,
        Option(
            "--metadata-expiry-ms",
            value="MS",
            help="metadata.max.age.ms of the producer.",
            hidden=True,
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
            help="Apache's LineMessageReader, and no other class.",
            hidden=True,
        ),
    ] = None
