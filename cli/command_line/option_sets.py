"""Options that mean the same in every command: sets that a command takes as a whole, and single ones.

A set is a dataclass; a command names it in `takes`, and its worker finds the values in the context (`context.listing`).
One letter has one meaning everywhere.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.known_values import FORMATS
from pk.cli.command_line.tree import CONNECTION, OUTPUT
from pk.cli.command_line.values import Pair, config_pair, count, pause

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


_Debug = Annotated[bool, Option("--debug", help="Add the traceback to an error.", panel=CONNECTION)]


@dataclass(frozen=True, kw_only=True)
class Debug:
    """For commands that talk to no cluster."""

    debug: _Debug = False


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Which cluster to talk to, and how."""

    bootstrap_server: Annotated[
        str | None,
        Option(
            "-b",
            "--bootstrap-server",
            "--bootstrap-servers",
            "--broker-list",
            value="HOST:PORT[,…]",
            help="The brokers to ask first (default: $PK_BOOTSTRAP_SERVER, the profile's, else 127.0.0.1:9092).",
            complete="bootstrap",
            panel=CONNECTION,
        ),
    ] = None
    profile: Annotated[
        str | None,
        Option(
            "--profile",
            value="NAME",
            help="The profile to use (default: $PK_PROFILE, else the chosen one).",
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
            help="A config key of the client, by Kafka's name; may be given again.",
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
            help="A properties file with config keys of the client.",
            complete="file",
            panel=CONNECTION,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Untraced(Reach):
    """For commands whose requests are not their own to show: a shell's, a Spark job's."""

    debug: _Debug = False


@dataclass(frozen=True, kw_only=True)
class Connection(Reach):
    """For commands that talk to a cluster."""

    trace: Annotated[
        Literal["table", "json"] | None,
        Option(
            "--trace",
            value="HOW",
            assumed="table",
            help="At the end show every request on standard error: API, version, broker, ms, bytes, error; "
            "--trace=json for programs.",
            panel=CONNECTION,
        ),
    ] = None
    debug: _Debug = False


@dataclass(frozen=True, kw_only=True)
class Format:
    """For commands that show something other than a list."""

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
    """How a list looks."""

    columns: Annotated[
        tuple[str, ...],
        Option(
            "--columns",
            value="A,B,-C",
            separated=True,
            help="Only these columns, in this order; -C leaves one out.",
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
            help="Sort by these columns; -B the other way round.",
            complete="column",
            panel=OUTPUT,
        ),
    ] = ()
    where: Annotated[
        str | None,
        Option(
            "--where",
            value="CONDITION",
            help="Only rows for which it holds, such as 'lag > 100 and topic ~ ^orders'.",
            panel=OUTPUT,
        ),
    ] = None
    limit: Annotated[
        int | None,
        Option("--limit", value="N", parser=count, help="At most so many rows.", panel=OUTPUT),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Watch:
    """For commands that show something and change nothing: they can be run again and again."""

    watch_s: Annotated[
        float | None,
        Option(
            "-w",
            "--watch",
            value="SECONDS",
            parser=pause,
            assumed="2",
            help="Look again every so many seconds (2) and light up what changed; Ctrl-C ends.",
        ),
    ] = None


_Yes = Annotated[bool, Option("-y", "--yes", "--force", help="Do not ask.")]


@dataclass(frozen=True, kw_only=True)
class Yes:
    """For changes that are not tried first: of this machine's own processes and files."""

    yes: _Yes = False


@dataclass(frozen=True, kw_only=True)
class Change:
    """What every other change takes."""

    dry_run: Annotated[
        bool, Option("-d", "--dry-run", help="Say what would be done, and do nothing.")
    ] = False
    yes: _Yes = False


TOPICS_BY_OPTION = Option(
    "-t",
    "--topic",
    value="TOPIC",
    help="Names a topic as the plain word does; may be given again.",
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
    help="Names the group as the plain word does.",
    complete="group",
)
GROUPS_BY_OPTION = Option(
    "-g",
    "--group",
    value="GROUP",
    help="Names a group as the plain word does; may be given again.",
    complete="group",
)
PartitionsOfTopics = Annotated[
    tuple[str, ...],
    Option(
        "-t",
        "--topic",
        value="TOPIC[:0,1]",
        help="Only this topic, or these partitions of it; may be given again.",
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
        help="Whose commits the position `committed` means; the group is not joined.",
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
        help="Stop after so many records shown.",
    ),
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
        help="Only records with this header; may be given again.",
    ),
]
RecordWhere = Annotated[
    str | None,
    Option(
        "--where",
        value="CONDITION",
        help="Only records for which it holds, such as 'value.amount > 9 and headers.eu = 1'.",
    ),
]
Isolation = Annotated[
    Literal["read_uncommitted", "read_committed"],
    Option(
        "--isolation-level",
        value="LEVEL",
        help="Whether records of open and aborted transactions are shown.",
    ),
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
            "The change, as `pk history` numbers it, or `last` on this cluster; without it, what "
            "can be undone is listed."
        ),
        complete="change",
    ),
]
Anyway = Annotated[
    bool,
    Option(
        "--anyway",
        help="Also where somebody has changed it since, or where it was undone already.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Ailing:
    """Filters of lists of partitions; several together choose what any of them does."""

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
            help="Only partitions with exactly min.insync.replicas of them.",
        ),
    ] = False
