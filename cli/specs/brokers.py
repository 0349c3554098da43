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
            handler="pk.cli.nouns.brokers.brokers:list_brokers",
            shows=(
                "broker:int host? port:int? rack? controller:bool state leaders:int replicas:int "
                "log_bytes:int? fenced:bool? supports? metadata_offset:int? usable_bytes:int?"
            ),
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk brokers list", "pk brokers list -f wide --sort -log_bytes"),
        ),
        Command(
            "describe",
            help="Address, rack, features, log directories and own configs of brokers.",
            handler="pk.cli.nouns.brokers.brokers:describe",
            shows=(
                "broker:int host? port:int? rack? controller:bool state leaders:int replicas:int "
                "log_bytes:int? fenced:bool? supports? metadata_offset:int? usable_bytes:int? "
                "features:[{feature finalized:int min_supported:int max_supported:int}] "
                "log_dirs:[{broker:int path state replicas:int bytes:int total_bytes:int? "
                "usable_bytes:int? used_percent:int? arriving:int}] configs:[{config value? "
                "source}]"
            ),
            rows=(
                "broker:int host? port:int? rack? controller:bool state leaders:int replicas:int "
                "log_bytes:int? fenced:bool? supports? metadata_offset:int? usable_bytes:int?"
            ),
            arguments=(_IDS,),
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk brokers describe 2",),
        ),
        Command(
            "logdirs",
            "log-dirs",
            help="Log directories: room on their disks, and what lies in them.",
            handler="pk.cli.nouns.brokers.brokers:logdirs",
            shows={
                "": (
                    "broker:int path state replicas:int bytes:int total_bytes:int? usable_bytes:int? "
                    "used_percent:int? arriving:int"
                ),
                "replicas": "broker:int path topic partition:int bytes:int offset_lag:int arriving:bool",
                "topics": "broker:int path topic partition:int bytes:int offset_lag:int arriving:bool",
            },
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
    "clusters",
    help="The cluster as a whole: describe, health, quorum, features.",
    children=(
        Command(
            "describe",
            help="Its id, brokers, controller, topics, partitions and their health.",
            handler="pk.cli.nouns.cluster.cluster:describe",
            shows=(
                "cluster_id? controller_id:int? topics:int partitions:int "
                "under_replicated:int offline:int brokers:[{broker:int host? port:int? rack? "
                "controller:bool state leaders:int replicas:int fenced:bool?}]"
            ),
            rows=(
                "broker:int host? port:int? rack? controller:bool state leaders:int replicas:int "
                "fenced:bool?"
            ),
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk cluster describe",),
        ),
        Command(
            "health",
            help="What is wrong, and why; exit code 1 when something is.",
            handler="pk.cli.nouns.cluster.health:health",
            shows="healthy:bool problems:int warnings:int checks:[{check state what next?}]",
            rows="check state what next?",
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk cluster health", "pk cluster health -f json || alert"),
        ),
        Command(
            "quorum",
            help="Who is controller, and how far each node has followed the metadata log.",
            handler="pk.cli.nouns.cluster.cluster:quorum",
            shows=(
                "cluster_id? leader_id:int leader_epoch:int high_watermark:int lag_max:int? "
                "snapshot_offset:int? snapshot_age_ms:int? nodes:[{node:int role "
                "log_end_offset:int? lag:int? caught_up_ms:int? fetched_ms:int? "
                "applied_offset:int? endpoints:[str] directory_id?}]"
            ),
            rows=(
                "node:int role log_end_offset:int? lag:int? caught_up_ms:int? fetched_ms:int? "
                "applied_offset:int? endpoints:[str] directory_id?"
            ),
            options=(*WATCHABLE, *CONNECTION),
            examples=("pk cluster quorum",),
        ),
        Command(
            "features",
            help="Features: list, upgrade, downgrade.",
            handler="pk.cli.nouns.cluster.features:features",
            shows={
                "": "feature level:int name? min_supported:int? max_supported:int? epoch:int? note?",
                "action=upgrade|downgrade|disable": "feature from:int to:int result error?",
            },
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
                "pk cluster features upgrade eligible.leader.replicas.version --dry-run",
                "pk cluster features list -f json",
            ),
        ),
    ),
)
