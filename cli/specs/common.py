"""Options that mean the same in every command. One letter has one meaning everywhere."""

from pk.cli.grammar import Option

FORMATS = (
    "table",
    "wide",
    "json",
    "jsonl",
    "yaml",
    "csv",
    "name",
    "cbor",
    "schema",
)

DEBUG = Option("--debug", help="Add the traceback to an error.")

TRACE = Option(
    "--trace",
    value="HOW",
    choices=("table", "json"),
    assumed="table",
    help="At the end show every request on standard error: API, version, broker, ms, bytes, error; --trace=json for programs.",
)

BOOTSTRAP = Option(
    "-b",
    "--bootstrap-server",
    "--bootstrap-servers",
    "--broker-list",
    value="HOST:PORT[,…]",
    help="The brokers to ask first (default: $PK_BOOTSTRAP_SERVER, the profile's, else 127.0.0.1:9092).",
    complete="bootstrap",
)

CONNECTION = (
    BOOTSTRAP,
    Option(
        "--profile",
        value="NAME",
        help="The profile to use (default: $PK_PROFILE, else the chosen one).",
        complete="profile",
    ),
    Option(
        "-X",
        "--command-property",
        "--consumer-property",
        "--producer-property",
        value="KEY=VALUE",
        kind="config",
        repeat=True,
        dest="client_properties",
        help="A config key of the client, by Kafka's name; may be given again.",
        complete="client-key",
    ),
    Option(
        "--config-file",
        "--command-config",
        "--consumer.config",
        "--producer.config",
        value="FILE",
        dest="config_file",
        help="A properties file with config keys of the client.",
        complete="file",
    ),
    TRACE,
    DEBUG,
)
"""How to reach a cluster."""

UNTRACED = tuple(option for option in CONNECTION if option is not TRACE)
"""The same for commands whose requests are not their own to show: a shell's, a Spark job's."""

FORMAT = Option(
    "-f",
    "--format",
    value="FORMAT",
    help=f"{', '.join(FORMATS)}, or a template such as '{{topic}} {{partitions}}\\n'.",
    complete="format",
)

LISTING = (
    FORMAT,
    Option(
        "--columns",
        value="A,B,-C",
        kind="list",
        repeat=True,
        help="Only these columns, in this order; -C leaves one out.",
        complete="column",
    ),
    Option(
        "--sort",
        value="A,-B",
        kind="list",
        repeat=True,
        help="Sort by these columns; -B the other way round.",
        complete="column",
    ),
    Option(
        "--where",
        value="CONDITION",
        help="Only rows for which it holds, such as 'lag > 100 and topic ~ ^orders'.",
    ),
    Option("--limit", value="N", kind="count", help="At most so many rows."),
)
"""How a list looks."""

WATCH = Option(
    "-w",
    "--watch",
    value="SECONDS",
    kind="pause",
    assumed="2",
    dest="watch_s",
    help="Look again every so many seconds (2) and light up what changed; Ctrl-C ends.",
)
WATCHABLE = (*LISTING, WATCH)
"""What a command takes that shows something and changes nothing: `pk.cli.output.watch` runs it again and again."""

YES = Option("-y", "--yes", "--force", help="Do not ask.")
DRY_RUN = Option("-d", "--dry-run", help="Say what would be done, and do nothing.")
CHANGE = (DRY_RUN, YES)
"""What every change takes."""

TOPIC = Option("-t", "--topic", value="TOPIC", help="The topic.", complete="topic")
TOPICS = Option(
    "-t",
    "--topic",
    value="TOPIC",
    repeat=True,
    help="A topic; may be given again.",
    dest="topics",
    complete="topic",
)

PARTITIONS_OF_TOPICS = Option(
    "-t",
    "--topic",
    value="TOPIC[:0,1]",
    repeat=True,
    dest="topics",
    help="Only this topic, or these partitions of it; may be given again.",
    complete="topic",
)
PARTITION_NUMBERS = Option(
    "-p",
    "--partitions",
    "--partition",
    value="0,1",
    kind="list",
    repeat=True,
    help="Only these partitions.",
)

NAMED = Option(
    "-t",
    "--topic",
    value="TOPIC",
    repeat=True,
    help="Names a topic as the plain word does; may be given again.",
    dest="topic",
    complete="topic",
)
"""For commands whose argument is TOPIC: Apache's word for it."""

GROUP_NAMED = Option(
    "-g",
    "--group",
    value="GROUP",
    help="Names the group as the plain word does.",
    dest="group",
    complete="group",
)
GROUPS_NAMED = Option(
    "-g",
    "--group",
    value="GROUP",
    repeat=True,
    help="Names a group as the plain word does; may be given again.",
    dest="group",
    complete="group",
)
"""For commands whose argument is GROUP."""

COMMITS_OF = Option(
    "-g",
    "--group",
    value="GROUP",
    help="Whose commits the position `committed` means; the group is not joined.",
    complete="group",
)
"""For commands that read no group, but take a position."""

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

RECORD_COUNT = Option(
    "-n",
    "--num",
    "--max-messages",
    value="N",
    kind="count",
    help="Stop after so many records shown.",
)
RECORD_KEY = Option("-k", "--key", value="KEY", help="Only records with this key.")
RECORD_HEADERS = Option(
    "-H",
    "--header",
    value="NAME=VALUE",
    kind="pair",
    repeat=True,
    help="Only records with this header; may be given again.",
)
RECORD_WHERE = Option(
    "--where",
    value="CONDITION",
    help="Only records for which it holds, such as 'value.amount > 9 and headers.eu = 1'.",
)
ISOLATION = Option(
    "--isolation-level",
    value="LEVEL",
    choices=("read_uncommitted", "read_committed"),
    default="read_uncommitted",
    help="Whether records of open and aborted transactions are shown.",
)
FORMATTER_PROPERTIES = Option(
    "--property",
    "--formatter-property",
    value="KEY=VALUE",
    kind="pair",
    repeat=True,
    dest="formatter_properties",
    help="A property of Apache's formatter: print.key, print.timestamp, key.separator, …",
    complete="formatter-property",
)

AILING = (
    Option(
        "--under-replicated",
        "--under-replicated-partitions",
        help="Only partitions with fewer in-sync replicas than replicas.",
    ),
    Option("--offline", "--unavailable-partitions", help="Only partitions without a leader."),
    Option(
        "--under-min-isr",
        "--under-min-isr-partitions",
        help="Only partitions with fewer in-sync replicas than min.insync.replicas.",
    ),
    Option(
        "--at-min-isr",
        "--at-min-isr-partitions",
        help="Only partitions with exactly min.insync.replicas of them.",
    ),
)
"""Filters of lists of partitions; several together choose what any of them does."""
