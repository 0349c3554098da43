"""`pk brokers` and `pk cluster`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CHANGE, CONNECTION, LISTING, WATCHABLE

_IDS = Argument(
    "ID", many=True, optional=True, help="The brokers (default: all).", complete="broker"
)

BROKERS = Group(
    "brokers",
    "nodes",
    help="The brokers of the cluster: list, describe, log directories.",
    children=(
        Command(
            "list",
            "ls",
            help="The brokers, what they hold, and which one is the controller.",
            handler="pk.cli.commands.brokers:list_brokers",
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk brokers list", "pk brokers list -f wide --sort -log_bytes"),
        ),
        Command(
            "describe",
            help="Address, rack, features, log directories and own configs of brokers.",
            handler="pk.cli.commands.brokers:describe",
            arguments=(_IDS,),
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk brokers describe 2",),
        ),
        Command(
            "logdirs",
            "log-dirs",
            help="Log directories: room on their disks, and what lies in them.",
            handler="pk.cli.commands.brokers:logdirs",
            arguments=(_IDS,),
            options=(
                Option(
                    "-t",
                    "--topic",
                    "--topic-list",
                    value="TOPIC",
                    kind="list",
                    repeat=True,
                    dest="topics",
                    help="Only replicas of these topics, one by one.",
                    complete="topic",
                ),
                Option("--replicas", help="Each replica instead of totals."),
                *WATCHABLE,
                *CONNECTION,
            ),
            examples=(
                "pk brokers logdirs",
                "pk brokers logdirs 1 --replicas --sort -bytes --limit 20",
                "pk brokers logdirs -t orders",
            ),
        ),
    ),
)

CLUSTER = Group(
    "cluster",
    help="The cluster as a whole: describe, health, quorum, features.",
    children=(
        Command(
            "describe",
            help="Its id, brokers, controller, topics, partitions and their health.",
            handler="pk.cli.commands.cluster:describe",
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk cluster describe",),
        ),
        Command(
            "health",
            help="What is wrong, and why; exit code 1 when something is.",
            handler="pk.cli.commands.health:health",
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk cluster health", "pk cluster health -f json || alert"),
        ),
        Command(
            "quorum",
            help="Who is controller, and how far each node has followed the metadata log.",
            handler="pk.cli.commands.cluster:quorum",
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk cluster quorum",),
        ),
        Command(
            "features",
            help="Features: list, upgrade, downgrade.",
            handler="pk.cli.commands.features:features",
            arguments=(
                Argument(
                    "ACTION",
                    optional=True,
                    help="list (default), upgrade, downgrade or disable.",
                    complete="feature-action",
                ),
                Argument(
                    "FEATURE",
                    many=True,
                    optional=True,
                    help="NAME=LEVEL, or NAME for the highest level that all brokers support.",
                    complete="feature",
                ),
            ),
            options=(
                Option("--unsafe", help="Downgrade even where metadata is lost by it."),
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk cluster features",
                "pk cluster features upgrade metadata.version --dry-run",
                "pk cluster features downgrade transaction.version=1",
            ),
        ),
    ),
)
