"""The command tree: everything `pk` can do, in the order help shows it."""

from pk.cli.grammar import Group, Option
from pk.cli.specs.brokers import BROKERS, CLUSTER
from pk.cli.specs.common import CONNECTION
from pk.cli.specs.configs import CONFIGS
from pk.cli.specs.cp import CP
from pk.cli.specs.doctor import DOCTOR, WHY
from pk.cli.specs.groups import GROUPS
from pk.cli.specs.log import LOG
from pk.cli.specs.partitions import ISR, PARTITIONS
from pk.cli.specs.perf import PERF
from pk.cli.specs.process import BROKER, COMPLETION, HELP, PROFILE, SHELL, UP
from pk.cli.specs.producers import PRODUCERS
from pk.cli.specs.reassign import REASSIGN
from pk.cli.specs.records import CONSUME, PRODUCE
from pk.cli.specs.spark import SPARK_EXPORT
from pk.cli.specs.top import TOP
from pk.cli.specs.topics import TOPICS
from pk.cli.specs.undo import HISTORY, UNDO
from pk.cli.specs.wait import WAIT

BROKERS.also = BROKER  # as BROKERS is BROKER's: singular and plural are one noun

VERSION = Option("-V", "--version", help="Show the version and stop.")

ROOT = Group(
    "pk",
    help="A Kafka in Python: broker, client, command line and shell.",
    options=(VERSION, *CONNECTION),
    children=(
        UP,
        BROKER,
        TOPICS,
        PRODUCE,
        CONSUME,
        CP,
        GROUPS,
        PARTITIONS,
        ISR,
        REASSIGN,
        CONFIGS,
        BROKERS,
        CLUSTER,
        PRODUCERS,
        TOP,
        PERF,
        LOG,
        DOCTOR,
        WHY,
        WAIT,
        UNDO,
        HISTORY,
        SPARK_EXPORT,
        SHELL,
        PROFILE,
        COMPLETION,
        HELP,
    ),
)

SECTIONS = (
    ("Run brokers", ("up", "broker")),
    ("Records", ("console-producer", "console-consumer", "cp", "spark-export", "perf", "log")),
    (
        "The cluster and what it holds",
        ("topics", "groups", "configs", "brokers", "cluster", "producers"),
    ),
    ("Replicas", ("partitions", "isr", "reassign")),
    ("See what goes on", ("top", "doctor", "why", "wait")),
    ("Take it back", ("undo", "history")),
    ("pk itself", ("shell", "profile", "completion", "help")),
)
"""The commands as `pk --help` groups them."""
