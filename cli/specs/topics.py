"""`pk topics`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import (
    AILING,
    CHANGE,
    COMMITS_OF,
    CONNECTION,
    LISTING,
    NAMED,
    PARTITION_NUMBERS,
    WATCHABLE,
)

_MODULE = "pk.cli.nouns.topics.topics"

_PLACED = (
    "topic partition:int start:int end:int records:int begin:int? until:int? leader_epoch:int?"
)

_PARTITION = (
    "topic partition:int leader:int? replicas:[int] isr:[int] under_replicated:bool "
    "leader_epoch:int elr:[int]? last_known_elr:[int]? offline_replicas:[int]"
)

_CONFIG = Option(
    "-c",
    "--config",
    value="KEY=VALUE",
    kind="config",
    repeat=True,
    help="A config of the topic, such as retention.ms=7d; may be given again.",
    complete="topic-config",
)

TOPICS = Group(
    "topics",
    "topic",
    help="Topics: list, describe, create, alter, delete, grow, trim; their offsets.",
    children=(
        Command(
            "list",
            "ls",
            help="The topics of the cluster.",
            handler=f"{_MODULE}:list_topics",
            shows="topic partitions:int replication_factor:int internal:bool topic_id?",
            arguments=(
                Argument(
                    "PATTERN",
                    optional=True,
                    help="Only topics whose whole name matches this regular expression.",
                    complete="topic",
                ),
            ),
            options=(
                Option(
                    "-t",
                    "--topic",
                    value="PATTERN",
                    dest="pattern",
                    help="The same, as Apache's tool has it.",
                    complete="topic",
                ),
                Option("-i", "--internal", help="Internal topics (__consumer_offsets, …) too."),
                Option(
                    "--exclude-internal",
                    help="No internal topics; they are left out anyway.",
                    hidden=True,
                ),
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=("pk topics list", "pk topics list 'orders.*' --sort -partitions -f json"),
        ),
        Command(
            "describe",
            help="Partitions, replicas, in-sync replicas and configs of topics.",
            handler=f"{_MODULE}:describe_topics_command",
            shows={
                "": (
                    "topic topic_id? internal:bool partition_count:int replication_factor:int "
                    "partitions:[{partition:int leader:int? replicas:[int] isr:[int] "
                    "under_replicated:bool leader_epoch:int elr:[int]? last_known_elr:[int]? "
                    "offline_replicas:[int]}] configs:[{name value? source}]"
                ),
                "under_replicated": _PARTITION,
                "offline": _PARTITION,
                "under_min_isr": _PARTITION,
                "at_min_isr": _PARTITION,
            },
            rows=_PARTITION,
            arguments=(
                Argument(
                    "TOPIC",
                    many=True,
                    optional=True,
                    help="The topics (default: all).",
                    complete="topic",
                ),
            ),
            options=(
                NAMED,
                Option("-i", "--internal", help="Internal topics too, where no topic is named."),
                Option("-a", "--all-configs", help="Every config, not only those that were set."),
                *AILING,
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=("pk topics describe orders", "pk topics describe --under-replicated"),
        ),
        Command(
            "create",
            help="Create topics.",
            handler="pk.cli.nouns.topics.changes:create",
            shows="topic partitions:int? replication_factor:int? result topic_id? error?",
            arguments=(Argument("TOPIC", many=True, help="Their names."),),
            options=(
                NAMED,
                Option(
                    "-p",
                    "--partitions",
                    value="N",
                    kind="count",
                    help="How many partitions (default: the broker's num.partitions).",
                ),
                Option(
                    "-r",
                    "--replication-factor",
                    value="N",
                    kind="count",
                    help="How many replicas (default: the broker's).",
                ),
                _CONFIG,
                Option(
                    "--replica-assignment",
                    value="1:2,2:3",
                    help="The brokers of each partition, its preferred leader first, instead of numbers.",
                ),
                Option("--if-not-exists", help="A topic that is there already is no failure."),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk topics create orders -p 12 -r 3 -c cleanup.policy=compact",
                "pk topics create a b c --dry-run",
            ),
        ),
        Command(
            "alter",
            help="Change configs of topics, or grow them to a number of partitions.",
            handler="pk.cli.nouns.topics.changes:alter",
            shows="topic name from? to? result error?",
            arguments=(Argument("TOPIC", many=True, help="The topics.", complete="topic"),),
            options=(
                NAMED,
                _CONFIG,
                Option(
                    "--delete-config",
                    value="KEY",
                    kind="list",
                    repeat=True,
                    help="Go back to the default of a config.",
                    complete="topic-config",
                ),
                Option(
                    "-p",
                    "--partitions",
                    value="TOTAL",
                    kind="count",
                    help="Grow to so many partitions.",
                ),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk topics alter orders -c retention.ms=86400000 --delete-config cleanup.policy",
            ),
        ),
        Command(
            "delete",
            "rm",
            help="Delete topics and all their records.",
            handler="pk.cli.nouns.topics.changes:delete",
            shows="topic result error?",
            arguments=(
                Argument("TOPIC", many=True, help="Their names, to the letter.", complete="topic"),
            ),
            options=(
                NAMED,
                Option(
                    "--regex",
                    help="The names are regular expressions over whole names; the list is shown first.",
                ),
                Option("--if-exists", help="A topic that is not there is no failure."),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=("pk topics delete orders", "pk topics delete --regex 'test-.*' --dry-run"),
        ),
        Command(
            "add-partitions",
            help="Add partitions to topics.",
            handler="pk.cli.nouns.topics.changes:add_partitions",
            shows="topic from:int to:int result error?",
            arguments=(Argument("TOPIC", many=True, help="The topics.", complete="topic"),),
            options=(
                NAMED,
                Option("-n", "--num", value="N", kind="count", help="How many more."),
                Option(
                    "-p",
                    "--partitions",
                    "--total",
                    value="TOTAL",
                    kind="count",
                    help="How many there shall be in all.",
                ),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=("pk topics add-partitions orders -n 4",),
        ),
        Command(
            "trim",
            "trim-prefix",
            "delete-records",
            help="Delete the records at the beginning of partitions, up to a position; shown before it is done.",
            handler="pk.cli.nouns.topics.trim:trim",
            shows=(
                "topic partition:int start:int? target:int? end:int? records:int? note? result error?"
            ),
            arguments=(
                Argument(
                    "TOPIC",
                    many=True,
                    optional=True,
                    help="The topics, or partitions of them such as orders:0,1.",
                    complete="topic",
                ),
            ),
            options=(
                NAMED,
                Option(
                    "-o",
                    "--offset",
                    value="POSITION",
                    help="Where what is kept begins: an offset, -N, @TIME, committed, 0=5,1=9; end keeps nothing.",
                    complete="place",
                ),
                COMMITS_OF,
                PARTITION_NUMBERS,
                Option(
                    "--offset-json-file",
                    value="FILE",
                    help="What Apache's file for kafka-delete-records says, instead.",
                    complete="file",
                ),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk topics trim orders -o @-7d --dry-run",
                "pk topics trim orders -p 0 -o 1000",
                "pk topics trim orders -o end",
                "pk topics trim orders -g billing -o committed --dry-run",
            ),
            notes="Positions: `pk help positions`. What is trimmed is gone; groups that have not read it begin after it. A "
            "partition in which the group of -g has committed nothing keeps all it has.",
        ),
        Command(
            "offsets",
            help="Start, end and any other position of each partition, as offsets.",
            handler="pk.cli.nouns.topics.offsets:offsets",
            shows={
                "": "topic partition:int start:int end:int records:int leader_epoch:int?",
                "offset": _PLACED,
                "time": _PLACED,
            },
            arguments=(Argument("TOPIC", many=True, help="The topics.", complete="topic"),),
            options=(
                NAMED,
                Option(
                    "-o",
                    "--offset",
                    value="POSITION",
                    help="Also this position: start, end, N, -N, +N, committed, @TIME, or a range.",
                    complete="position",
                ),
                Option(
                    "--time",
                    value="TIME",
                    help="Apache's word: earliest, latest, max-timestamp, … (-1 to -6), or milliseconds since 1970.",
                ),
                COMMITS_OF,
                PARTITION_NUMBERS,
                Option(
                    "--isolation-level",
                    value="LEVEL",
                    choices=("read_uncommitted", "read_committed"),
                    default="read_uncommitted",
                    help="Whether the end is the high watermark or the last stable offset.",
                ),
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=(
                "pk topics offsets orders",
                "pk topics offsets orders -o @-1h..end",
                "pk topics offsets orders -g billing -o committed",
            ),
        ),
    ),
)
