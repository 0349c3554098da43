"""The nouns of `pk` in the order of help: their other names, the modules that declare them, and
their help.

`pk --help` reads only this module; the module of a noun is imported when a command line names it.
Nothing is imported here.
"""

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A noun, or a command that is one word."""

    names: tuple[str, ...]
    help: str
    declared: str
    """The declaration, as "module:variable"."""

    usual: str = ""
    """The command that is meant if an option or `--` directly follows the noun."""


NOUNS: Final[dict[str, Entry]] = {
    "up": Entry(
        ("up",),
        "Start one or several brokers on this machine, in the foreground; Ctrl-C drains them.",
        "pk.cli.nouns.up:UP",
    ),
    "node": Entry(
        ("node",),
        "Processes on this machine: start and stop a broker, or a node of a `pk up` cluster.",
        "pk.cli.nouns.node.commands:NODE",
    ),
    "test": Entry(
        ("test",),
        "Run a command with its own Kafka, and inject faults.",
        "pk.cli.nouns.test.commands:TEST",
        usual="run",
    ),
    "test faults": Entry(
        (
            "faults",
            "fault",
        ),
        "Faults injected into pk's brokers: list, add, clear.",
        "pk.cli.nouns.faults.commands:FAULTS",
    ),
    "topics": Entry(
        (
            "topics",
            "topic",
        ),
        "Topics: list, describe, create, alter, delete, add partitions, trim, show offsets.",
        "pk.cli.nouns.topics.commands:TOPICS",
    ),
    "produce": Entry(
        (
            "produce",
            "console-producer",
        ),
        "Write records: from an editor at a terminal, else from lines of standard input.",
        "pk.cli.nouns.produce.commands:PRODUCE",
    ),
    "consume": Entry(
        (
            "consume",
            "console-consumer",
        ),
        "Read records.",
        "pk.cli.nouns.consume.commands:CONSUME",
    ),
    "cp": Entry(
        ("cp",),
        "Copy records to another topic, on this cluster or another.",
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
        (
            "Show each partition's replicas, in-sync replicas, leader, and how far replicas are "
            "behind."
        ),
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
            "broker",
        ),
        "The brokers of the cluster: list, describe, log directories.",
        "pk.cli.nouns.brokers.commands:BROKERS",
    ),
    "cluster": Entry(
        (
            "cluster",
            "clusters",
        ),
        "The cluster as a whole: describe, health, quorum, features.",
        "pk.cli.nouns.cluster.commands:CLUSTER",
    ),
    "users": Entry(
        (
            "users",
            "user",
        ),
        "Users who log in by SCRAM: list, add, alter, delete; and delegation tokens.",
        "pk.cli.nouns.users.commands:USERS",
    ),
    "users tokens": Entry(
        (
            "tokens",
            "token",
        ),
        "Delegation tokens, which expire by themselves: list, create, renew, expire.",
        "pk.cli.nouns.tokens.commands:TOKENS",
    ),
    "acls": Entry(
        (
            "acls",
            "acl",
        ),
        "ACLs: list, add, delete, check.",
        "pk.cli.nouns.acls.commands:ACLS",
    ),
    "quotas": Entry(
        (
            "quotas",
            "quota",
        ),
        "Client quotas: list, set, delete.",
        "pk.cli.nouns.quotas.commands:QUOTAS",
    ),
    "transactions": Entry(
        (
            "transactions",
            "transaction",
        ),
        "Transactions and their producers: list, describe, abort, find hanging ones.",
        "pk.cli.nouns.transactions.commands:TRANSACTIONS",
    ),
    "schema": Entry(
        (
            "schema",
            "schemas",
        ),
        "Schemas of a registry: list, show, add, check, delete, diff.",
        "pk.cli.nouns.schema.commands:SCHEMA",
    ),
    "schema-registry": Entry(
        ("schema-registry",),
        "Run a schema registry with Confluent's REST API, on any Kafka.",
        "pk.cli.nouns.schema_registry.commands:SCHEMA_REGISTRY",
    ),
    "top": Entry(
        ("top",),
        "Show the cluster live: brokers, topics, groups, in-sync replicas, reassignments, "
        "requests.",
        "pk.cli.nouns.top:TOP",
    ),
    "api-versions": Entry(
        ("api-versions",),
        "Show the APIs that a broker serves: key, name, versions, and the version that pk uses.",
        "pk.cli.nouns.api_versions:API_VERSIONS",
    ),
    "metrics": Entry(
        (
            "metrics",
            "metric",
        ),
        "Show brokers' metrics: names, values, rates and trends.",
        "pk.cli.nouns.metrics.commands:METRICS",
    ),
    "perf": Entry(
        (
            "perf",
            "bench",
        ),
        "Measure producing, consuming and end-to-end latency, and verify every record.",
        "pk.cli.nouns.perf.commands:PERF",
    ),
    "log": Entry(
        (
            "log",
            "logs",
        ),
        "A broker's files, without the broker: dump, verify, cat, remote, adopt.",
        "pk.cli.nouns.log.commands:LOG",
    ),
    "doctor": Entry(
        ("doctor",),
        "Show current and likely problems of the cluster, each with a fix.",
        "pk.cli.nouns.doctor.commands:DOCTOR",
    ),
    "why": Entry(
        ("why",),
        "Explain the state of a partition, a group's lag, a config, or what ACLs deny.",
        "pk.cli.nouns.why.commands:WHY",
    ),
    "wait": Entry(
        ("wait",),
        "Wait for a condition: a topic, in-sync replicas, lag, an empty group, brokers.",
        "pk.cli.nouns.wait.commands:WAIT",
    ),
    "undo": Entry(
        ("undo",),
        "Undo a change: restore group offsets or configs.",
        "pk.cli.nouns.undo:UNDO",
    ),
    "spark-export": Entry(
        ("spark-export",),
        "Write topics to parquet files or tables with Spark.",
        "pk.cli.nouns.spark_export.commands:SPARK_EXPORT",
    ),
    "spark-import": Entry(
        ("spark-import",),
        "Write rows of files and tables to a topic with Spark, each exactly once.",
        "pk.cli.nouns.spark_import.commands:SPARK_IMPORT",
    ),
    "spark": Entry(
        ("spark",),
        "Kafka and Spark: export, import, pipelines, package, warm-up.",
        "pk.cli.nouns.spark.commands:SPARK",
    ),
    "spark export": Entry(
        ("export",),
        "Write topics to parquet files or tables with Spark.",
        "pk.cli.nouns.spark_export.commands:SPARK_EXPORT",
    ),
    "spark import": Entry(
        ("import",),
        "Write rows of files and tables to a topic with Spark, each exactly once.",
        "pk.cli.nouns.spark_import.commands:SPARK_IMPORT",
    ),
    "spark pipeline": Entry(
        (
            "pipeline",
            "pipelines",
        ),
        "Streaming pipelines on Spark, each declared in a file: init, check, run, status, stop, "
        "export.",
        "pk.cli.nouns.pipeline.commands:PIPELINE",
    ),
    "shell": Entry(
        ("shell",),
        "Run commands in an interactive shell, with completion.",
        "pk.cli.nouns.shell:SHELL",
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
    "debug": Entry(
        ("debug",),
        "Help with bug reports: bundle.",
        "pk.cli.nouns.debug.commands:DEBUG",
    ),
    "version": Entry(
        ("version",),
        "Show the versions of pk, Python, the platform, and the libraries that pk uses.",
        "pk.cli.nouns.version:VERSION",
    ),
    "completion": Entry(
        ("completion",),
        "Print the completion script for a shell.",
        "pk.cli.nouns.completion.commands:COMPLETION",
    ),
    "help": Entry(
        ("help",),
        (
            "Show help on a command, or a page: positions, durations, formats, exit-codes, errors, "
            "configs, profiles, trace, fake."
        ),
        "pk.cli.nouns.help:HELP",
    ),
}


def under(noun: str) -> dict[str, str]:
    """The nouns below a noun, or those of `pk` itself for "": each name → its key in `NOUNS`."""
    keys = [key for key in NOUNS if key.rpartition(" ")[0] == noun]
    return {name: key for key in keys for name in NOUNS[key].names}


SECTIONS: Final = (
    ("Run brokers", ("up", "node", "schema-registry")),
    ("For tests", ("test",)),
    (
        "Records",
        (
            "produce",
            "consume",
            "cp",
            "spark-export",
            "spark-import",
            "spark",
            "perf",
            "log",
        ),
    ),
    (
        "The cluster",
        (
            "topics",
            "groups",
            "configs",
            "brokers",
            "cluster",
            "users",
            "acls",
            "quotas",
            "transactions",
            "schema",
        ),
    ),
    ("Replicas", ("partitions", "isr", "reassign")),
    ("Monitor", ("top", "metrics", "doctor", "why", "wait", "api-versions")),
    ("Undo", ("undo",)),
    ("pk itself", ("shell", "profile", "completion", "debug", "version", "help")),
)
"""The headings of `pk --help`, with the commands below them."""
