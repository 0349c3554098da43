"""The nouns of `pk`, in the order of help: their other names, where each is declared, and what help says of it.

`pk --help` reads only this; a noun's module is imported when a command line names it. Nothing is imported here.
"""

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A noun, or a command that is one word."""

    names: tuple[str, ...]
    help: str
    declared: str
    """Where: "module:variable"."""

    also: str = ""
    """The noun whose commands may be written under this one too."""


NOUNS: Final[dict[str, Entry]] = {
    "up": Entry(
        ("up",),
        "Start one broker or several on this machine, in the foreground; Ctrl-C drains them.",
        "pk.cli.nouns.up.commands:UP",
    ),
    "broker": Entry(
        ("broker",),
        "One broker: by its own config, or one of a cluster of pk up.",
        "pk.cli.nouns.broker.commands:BROKER",
        also="brokers",
    ),
    "topics": Entry(
        (
            "topics",
            "topic",
        ),
        "Topics: list, describe, create, alter, delete, grow, trim; their offsets.",
        "pk.cli.nouns.topics.commands:TOPICS",
    ),
    "console-producer": Entry(
        (
            "console-producer",
            "produce",
        ),
        "Write records: at a terminal in an editor, else one a line of standard input.",
        "pk.cli.nouns.produce.commands:CONSOLE_PRODUCER",
    ),
    "console-consumer": Entry(
        (
            "console-consumer",
            "consume",
        ),
        "Read records.",
        "pk.cli.nouns.consume.commands:CONSOLE_CONSUMER",
    ),
    "cp": Entry(
        ("cp",),
        "Copy records from topics to a topic, of this cluster or another.",
        "pk.cli.nouns.cp.commands:CP",
    ),
    "groups": Entry(
        (
            "groups",
            "group",
            "consumer-groups",
        ),
        "Consumer groups: list, describe, lag, members, reset and undo, delete.",
        "pk.cli.nouns.groups.commands:GROUPS",
    ),
    "partitions": Entry(
        (
            "partitions",
            "partition",
        ),
        "Partitions: list by health and leader; elect leaders.",
        "pk.cli.nouns.partitions.commands:PARTITIONS",
    ),
    "isr": Entry(
        ("isr",),
        "Every partition's replicas, in-sync replicas, leader, and how far each replica is behind.",
        "pk.cli.nouns.isr.commands:ISR",
    ),
    "reassign": Entry(
        (
            "reassign",
            "reassignments",
            "reassignment",
        ),
        "Move replicas between brokers: plan, apply, status, throttle, cancel, rollback.",
        "pk.cli.nouns.reassign.commands:REASSIGN",
    ),
    "configs": Entry(
        (
            "configs",
            "config",
        ),
        "Configs of topics, brokers and groups: list, describe, alter, edit.",
        "pk.cli.nouns.configs.commands:CONFIGS",
    ),
    "brokers": Entry(
        (
            "brokers",
            "nodes",
        ),
        "The brokers of the cluster: list, describe, log directories.",
        "pk.cli.nouns.brokers.commands:BROKERS",
        also="broker",
    ),
    "cluster": Entry(
        (
            "cluster",
            "clusters",
        ),
        "The cluster as a whole: describe, health, quorum, features.",
        "pk.cli.nouns.cluster.commands:CLUSTER",
    ),
    "producers": Entry(
        (
            "producers",
            "producer",
        ),
        "Idempotent and transactional producers, as partitions' leaders remember them.",
        "pk.cli.nouns.producers.commands:PRODUCERS",
    ),
    "transactions": Entry(
        (
            "transactions",
            "transaction",
        ),
        "Transactions: list, describe, abort, and find those that hang.",
        "pk.cli.nouns.transactions.commands:TRANSACTIONS",
    ),
    "top": Entry(
        ("top",),
        "The cluster live: brokers, topics, groups, in-sync replicas, reassignments.",
        "pk.cli.nouns.top.commands:TOP",
    ),
    "perf": Entry(
        (
            "perf",
            "bench",
        ),
        "Measure producing, consuming and the way from end to end, and verify every record.",
        "pk.cli.nouns.perf.commands:PERF",
    ),
    "log": Entry(
        (
            "log",
            "logs",
        ),
        "A broker's files, without the broker: dump, verify, cat, adopt.",
        "pk.cli.nouns.log.commands:LOG",
    ),
    "doctor": Entry(
        ("doctor",),
        "What is wrong with the cluster or soon will be, each with a command that mends it.",
        "pk.cli.nouns.doctor.commands:DOCTOR",
    ),
    "why": Entry(
        ("why",),
        "Why something is as it is: a partition, a group's lag, a config.",
        "pk.cli.nouns.why.commands:WHY",
    ),
    "wait": Entry(
        ("wait",),
        "Wait until something holds: a topic, in-sync replicas, lag, an empty group, brokers.",
        "pk.cli.nouns.wait.commands:WAIT",
    ),
    "undo": Entry(
        ("undo",),
        "Undo a change: group offsets and configs, as they were before.",
        "pk.cli.nouns.undo.commands:UNDO",
    ),
    "history": Entry(
        ("history",),
        "What was changed from this machine that `pk undo` can undo, newest first.",
        "pk.cli.nouns.undo.commands:HISTORY",
    ),
    "spark-export": Entry(
        ("spark-export",),
        "Write a topic to parquet files with Spark.",
        "pk.cli.nouns.spark_export.commands:SPARK_EXPORT",
    ),
    "shell": Entry(
        ("shell",),
        "The same commands in an interactive shell, with completion.",
        "pk.cli.nouns.shell.commands:SHELL",
    ),
    "profile": Entry(
        (
            "profile",
            "profiles",
            "context",
        ),
        "Named clusters, each with its guard: list, show, add, use, edit, delete.",
        "pk.cli.nouns.profile.commands:PROFILE",
    ),
    "completion": Entry(
        ("completion",),
        "Print the completion script for a shell.",
        "pk.cli.nouns.completion.commands:COMPLETION",
    ),
    "help": Entry(
        ("help",),
        "Help on a command, or a page: positions, formats, exit-codes, errors, configs, profiles, trace, fake.",
        "pk.cli.nouns.help.commands:HELP",
    ),
}

SECTIONS: Final = (
    ("Run brokers", ("up", "broker")),
    ("Records", ("console-producer", "console-consumer", "cp", "spark-export", "perf", "log")),
    (
        "The cluster and what it holds",
        ("topics", "groups", "configs", "brokers", "cluster", "producers", "transactions"),
    ),
    ("Replicas", ("partitions", "isr", "reassign")),
    ("See what goes on", ("top", "doctor", "why", "wait")),
    ("Take it back", ("undo", "history")),
    ("pk itself", ("shell", "profile", "completion", "help")),
)
"""The commands as `pk --help` groups them."""
