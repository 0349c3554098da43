"""Options that mean the same in every command: sets that a command takes as a whole, and single
options.

A set is a dataclass. A command names it in `takes`, and its worker reads the values from the
context (`context.listing`). A letter has the same meaning everywhere.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.known_values import FORMATS
from pk.cli.options.panels import CONNECTION, OUTPUT
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, apache_ms, config_pair, count, pause, span
from pk.core.durations import Duration

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


_Debug = Annotated[bool, Option("--debug", help="Add the traceback to an error.", panel=CONNECTION)]


@dataclass(frozen=True, kw_only=True)
class Debug:
    """Options of commands that do not talk to a cluster."""

    debug: _Debug = False


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Options that select the cluster, and how to connect to it."""

    bootstrap_server: Annotated[
        str | None,
        Option(
            "-b",
            "--bootstrap-server",
            "--bootstrap-servers",
            "--broker-list",
            value="HOST:PORT[,…]",
            help=(
                "Brokers to connect to first (default: $PK_BOOTSTRAP_SERVER, the profile's, "
                "127.0.0.1:9092)."
            ),
            complete="bootstrap",
            panel=CONNECTION,
        ),
    ] = None
    profile: Annotated[
        str | None,
        Option(
            "--profile",
            value="NAME",
            help="The profile to use (default: $PK_PROFILE, then the current profile).",
            complete="profile",
            panel=CONNECTION,
        ),
    ] = None
    client_properties: Annotated[
        tuple[Pair, ...],
        Option(
            "-X",
            "--command-property",
            "--consumer-property",
            "--producer-property",
            value="KEY=VALUE",
            parser=config_pair,
            help="A client config, by Kafka's name; repeatable.",
            complete="client-key",
            panel=CONNECTION,
        ),
    ] = ()
    config_file: Annotated[
        str | None,
        Option(
            "--config-file",
            "--command-config",
            "--consumer.config",
            "--producer.config",
            value="FILE",
            help="A properties file with client configs.",
            complete="file",
            panel=CONNECTION,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Untraced(Reach):
    """Options of commands whose requests --trace cannot show, such as a shell or a Spark job."""

    debug: _Debug = False


@dataclass(frozen=True, kw_only=True)
class Connection(Reach):
    """Options of commands that talk to a cluster."""

    trace: Annotated[
        bool,
        Option(
            "--trace",
            help="At the end, show every request on standard error: API, version, broker, ms, "
            "bytes, error.",
            panel=CONNECTION,
        ),
    ] = False
    trace_json: Annotated[
        bool,
        Option(
            "--trace-json",
            help="Show every request as JSON, an object per line, as each ends.",
            panel=CONNECTION,
        ),
    ] = False
    debug: _Debug = False


@dataclass(frozen=True, kw_only=True)
class Format:
    """Options of commands that show something other than a list."""

    format: Annotated[
        str | None,
        Option(
            "-f",
            "--format",
            value="FORMAT",
            help=f"{', '.join(FORMATS)}, or a template such as '{{topic}} {{partitions}}\\n'.",
            complete="format",
            panel=OUTPUT,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Listing(Format):
    """How a list is shown."""

    columns: Annotated[
        tuple[str, ...],
        Option(
            "--columns",
            value="A,B,-C",
            separated=True,
            help="Show only these columns, in this order; -C hides one.",
            complete="column",
            panel=OUTPUT,
        ),
    ] = ()
    sort: Annotated[
        tuple[str, ...],
        Option(
            "--sort",
            value="A,-B",
            separated=True,
            help="Sort by these columns; -B for descending order.",
            complete="column",
            panel=OUTPUT,
        ),
    ] = ()
    where: Annotated[
        str | None,
        Option(
            "--where",
            value="CONDITION",
            help="Show only rows that match, such as 'lag > 100 and topic ~ ^orders'.",
            complete="condition",
            panel=OUTPUT,
        ),
    ] = None
    limit: Annotated[
        int | None,
        Option("--limit", value="N", parser=count, help="Show at most N rows.", panel=OUTPUT),
    ] = None


def watch_interval(default: str) -> Option:
    """The option --interval of a command that -w repeats."""
    return Option(
        "--interval",
        value="DURATION",
        parser=pause,
        help=f"With -w: refresh this often (default: {default}).",
    )


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Options of commands that show something and change nothing, so that they can be repeated."""

    repeat: Annotated[
        bool, Option("-w", "--watch", help="Refresh, and highlight changes; Ctrl-C stops.")
    ] = False
    interval: Annotated[Duration, watch_interval("2s")] = Duration(2000)


_Yes = Annotated[bool, Option("-y", "--yes", "--force", help="Do not ask for confirmation.")]


@dataclass(frozen=True, kw_only=True)
class Yes:
    """Options of changes without a dry run: to processes and files of this machine."""

    yes: _Yes = False


@dataclass(frozen=True, kw_only=True)
class Change:
    """Options of all other changes."""

    dry_run: Annotated[
        bool, Option("-d", "--dry-run", help="Show what would be done, and change nothing.")
    ] = False
    yes: _Yes = False


SchemaRegistryUrl = Annotated[
    str | None,
    Option(
        "--schema-registry",
        value="URL",
        help="The schema registry: a URL, or a directory of files (default: PK_SCHEMA_REGISTRY, "
        "else the profile's).",
    ),
]


Decode = Annotated[
    Literal["auto", "avro", "json", "protobuf"] | None,
    Option(
        "--decode",
        help=(
            "Decode values with the schemas that they name, which must be of this type (auto: "
            "any), and show them as JSON."
        ),
    ),
]
DecodeKey = Annotated[
    Literal["auto", "avro", "json", "protobuf"] | None,
    Option("--decode-key", help="Same for keys."),
]


def offset_option(help: str, complete: str = "position") -> Option:
    """The option -o, with the purpose of the position."""
    return Option("-o", "--offset", value="POSITION", help=help, complete=complete)


def topic_config_option(help: str) -> Option:
    """The option -c of a command that creates or changes a topic."""
    return Option(
        "-c",
        "--config",
        value="KEY=VALUE",
        parser=config_pair,
        help=help,
        complete="topic-config",
    )


CODECS = "none, gzip, snappy, lz4 or zstd"


def interval_option(default: str) -> Option:
    """The option --interval of a command that shows something repeatedly."""
    return Option(
        "--interval",
        value="DURATION",
        parser=span,
        help=f"Refresh this often (default: {default}).",
    )


def stop_timeout_option(default: str) -> Option:
    """The option --timeout of a command that starts or stops a process."""
    return Option(
        "--timeout",
        "--timeout-s",
        value="DURATION",
        help=f"How long to wait for it to finish (default: {default}).",
    )


def apache_ms_option(*names: str, help: str, hidden: bool = False) -> Option:
    """An option whose value is in milliseconds, as in Apache's tools."""
    return Option(
        *names,
        value="MS",
        parser=apache_ms,
        help=f"{help} A number alone is milliseconds, as in Apache's tool.",
        hidden=hidden,
    )


def replication_factor_option(help: str) -> Option:
    """The option -r of a command that creates a topic."""
    return Option("-r", "--replication-factor", value="N", parser=count, help=help)


TOPICS_BY_OPTION = Option(
    "-t",
    "--topic",
    value="TOPIC",
    help="Same as the TOPIC argument; repeatable.",
    complete="topic",
)
PARTITIONS_BY_OPTION = Option(
    "-t",
    "--topic",
    value="TOPIC[:0,1]",
    help="Same as the TOPIC argument; repeatable.",
    complete="topic",
)
TOPIC_BY_OPTION = Option(
    "-t",
    "--topic",
    value="TOPIC",
    help="The topic.",
    complete="topic",
)
GROUP_BY_OPTION = Option(
    "-g",
    "--group",
    value="GROUP",
    help="Same as the GROUP argument.",
    complete="group",
)
GROUPS_BY_OPTION = Option(
    "-g",
    "--group",
    value="GROUP",
    help="Same as the GROUP argument; repeatable.",
    complete="group",
)
Topics = Annotated[
    tuple[str, ...],
    Argument("TOPIC", help="The topics.", complete="topic", named=TOPICS_BY_OPTION),
]
TopicsOrAll = Annotated[
    tuple[str, ...],
    Argument("TOPIC", help="The topics (default: all).", complete="topic", named=TOPICS_BY_OPTION),
]
TopicsMatchingOrAll = Annotated[
    tuple[str, ...],
    Argument(
        "TOPIC",
        help="The topics, by name or regular expression over whole names (default: all).",
        complete="topic",
        named=TOPICS_BY_OPTION,
    ),
]
InternalTopics = Annotated[
    bool, Option("-i", "--internal", help="Include internal topics if no topic is named.")
]
AllInternalTopics = Annotated[
    bool, Option("-i", "--internal", help="Include internal topics (__consumer_offsets, …).")
]
GroupName = Annotated[
    str, Argument("GROUP", help="The group.", complete="group", named=GROUP_BY_OPTION)
]
PartitionsOfTopics = Annotated[
    tuple[str, ...],
    Option(
        "-t",
        "--topic",
        value="TOPIC[:0,1]",
        help="Only this topic, or these partitions of it; repeatable.",
        complete="topic",
    ),
]
PartitionNumbers = Annotated[
    tuple[str, ...],
    Option(
        "-p",
        "--partitions",
        "--partition",
        value="0,1",
        separated=True,
        help="Only these partitions.",
    ),
]
CommitsOf = Annotated[
    str | None,
    Option(
        "-g",
        "--group",
        value="GROUP",
        help="The group for the position `committed`; pk does not join it.",
        complete="group",
    ),
]
RecordCount = Annotated[
    int | None,
    Option(
        "-n",
        "--num",
        "--max-messages",
        value="N",
        parser=count,
        help="Stop after N records.",
    ),
]
RecordFormat = Annotated[
    str | None,
    Option(
        "-f",
        "--format",
        value="FORMAT",
        help=(
            "value, json, jsonl, csv, yaml, table, wide, name, cbor; %-tokens such as "
            "'%k\\t%v\\n'; or a template '{key} {value}\\n'."
        ),
        complete="record-format",
    ),
]
RawRecords = Annotated[bool, Option("--raw", help="Show internal topics as bytes, not decoded.")]
QuietTimeout = Annotated[
    int | None,
    apache_ms_option("--timeout-ms", help="Stop after MS without a record; negative: never."),
]
Seed = Annotated[
    int | None,
    Option(
        "--seed",
        value="N",
        help="Seed of generated records: the same seed generates the same records.",
    ),
]
RecordsPerSecond = Annotated[
    float | None, Option("--rate", value="N", help="Write at most N records a second.")
]
RecordKey = Annotated[
    str | None,
    Option(
        "-k",
        "--key",
        value="KEY",
        help="Only records with this key.",
    ),
]
RecordHeaders = Annotated[
    tuple[Pair, ...],
    Option(
        "-H",
        "--header",
        value="NAME=VALUE",
        help="Only records with this header; repeatable.",
    ),
]
RecordWhere = Annotated[
    str | None,
    Option(
        "--where",
        value="CONDITION",
        help="Only records that match, such as 'value.amount > 9 and headers.eu = 1'.",
        complete="record-condition",
    ),
]
Isolation = Annotated[
    Literal["read_uncommitted", "read_committed"],
    Option(
        "--isolation-level",
        "--isolation",
        value="LEVEL",
        help="Whether to show records of open and aborted transactions.",
    ),
]
ParseJson = Annotated[
    bool,
    Option(
        "--parse-json",
        help=(
            "With -f json, jsonl or yaml: show keys and values that are JSON objects or arrays "
            "as such, not as text."
        ),
    ),
]
SkipMessageOnError = Annotated[
    bool,
    Option("--skip-message-on-error", help="Continue after a record that cannot be shown."),
]
FormatterProperties = Annotated[
    tuple[Pair, ...],
    Option(
        "--property",
        "--formatter-property",
        value="KEY=VALUE",
        help="A property of Apache's formatter: print.key, print.timestamp, key.separator, …",
        complete="formatter-property",
    ),
]
ChangeId = Annotated[
    str | None,
    Argument(
        "ID",
        help=(
            "The change to undo, as `pk undo` numbers it, or `last` on this cluster; without "
            "it, list the changes that can be undone."
        ),
        complete="change",
    ),
]
Anyway = Annotated[
    bool,
    Option(
        "--anyway",
        help="Undo even if something changed since, or the change was undone before.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class PartitionFilters:
    """Filters for lists of partitions. Several together select the partitions that match any of
    them, including those of internal topics."""

    under_replicated: Annotated[
        bool,
        Option(
            "--under-replicated",
            "--under-replicated-partitions",
            help="Only partitions with fewer in-sync replicas than replicas.",
        ),
    ] = False
    offline: Annotated[
        bool,
        Option(
            "--offline",
            "--unavailable-partitions",
            help="Only partitions without a leader.",
        ),
    ] = False
    under_min_isr: Annotated[
        bool,
        Option(
            "--under-min-isr",
            "--under-min-isr-partitions",
            help="Only partitions with fewer in-sync replicas than min.insync.replicas.",
        ),
    ] = False
    at_min_isr: Annotated[
        bool,
        Option(
            "--at-min-isr",
            "--at-min-isr-partitions",
            help="Only partitions with exactly min.insync.replicas in-sync replicas.",
        ),
    ] = False


AskingPrincipal = Annotated[
    str, Argument("PRINCIPAL", help="The principal, such as User:alice; a name alone is a user's.")
]
AskedOperation = Annotated[
    str, Argument("OPERATION", help="The operation, such as read, write or describe.")
]
AskedResource = Annotated[
    str,
    Argument(
        "RESOURCE",
        help="The resource: topic:NAME, group:NAME, transactional-id:NAME or cluster.",
    ),
]
AskingHost = Annotated[
    str | None,
    Option("--host", value="ADDRESS", help="The client's host (default: one that no ACL names)."),
]
"""The question of `pk acls check` and `pk why denied`: whether a principal may perform an operation
on a resource from a host."""
