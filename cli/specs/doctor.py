"""`pk doctor` and `pk why`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CONNECTION, GROUP_NAMED, PARTITIONS_OF_TOPICS, WATCHABLE

CHECK_NAMES = (
    "controller",
    "brokers-down",
    "offline-partitions",
    "under-min-isr",
    "under-replicated",
    "offline-directories",
    "full-disks",
    "stuck-moves",
    "orphan-throttles",
    "offset-out-of-range",
    "retention-risk",
    "hanging-transactions",
    "no-spare-replica",
    "single-replica",
    "internal-topics",
    "one-rack",
    "unclean-election",
    "one-copy-acks",
    "preferred-leaders",
    "leader-skew",
    "replica-skew",
    "disk-skew",
    "empty-brokers",
    "groups-without-members",
    "dead-groups",
    "unread-topics",
    "mixed-versions",
    "features-behind",
    "metadata-lag",
    "clock-skew",
    "future-records",
)
"""The checks of `pk.cli.diagnosis.checks`, which help and completion do not import; a test holds them equal."""

DOCTOR = Command(
    "doctor",
    help="What is wrong with the cluster or soon will be, each with a command that mends it.",
    handler="pk.cli.nouns.doctor.doctor:doctor",
    options=(
        Option(
            "--check",
            value="NAME",
            choices=CHECK_NAMES,
            repeat=True,
            help="Only this check; may be given again.",
        ),
        Option("--list", help="The checks there are, with what each looks for."),
        Option(
            "--fail-on",
            value="SEVERITY",
            choices=("error", "warning", "note", "never"),
            default="error",
            help="What makes the exit code 1: error (default), warning, note, or never.",
        ),
        *WATCHABLE,
        *CONNECTION,
    ),
    examples=(
        "pk doctor --fail-on never",
        "pk doctor --check retention-risk --check hanging-transactions",
        "pk doctor --fail-on warning -f json || alert",
        "pk doctor --list",
    ),
    notes=(
        "Looks and changes nothing; joins no group. Only what the chosen checks need is asked. A record of a lagging group "
        "lives at least until its own time plus retention.ms: that is the time left that retention-risk tells."
    ),
    shows={"": "severity check what why fix subjects:[str]", "list": "check help"},
)

_PARTITION_WHY = Command(
    "partition",
    "partitions",
    help="Why a partition is under-replicated, offline or below min.insync.replicas.",
    handler="pk.cli.nouns.why.partition:why_partition",
    arguments=(
        Argument(
            "PARTITION",
            many=True,
            help="Partitions such as orders/0, or topics: those of its partitions that ail.",
            complete="partition",
        ),
    ),
    options=(*WATCHABLE, *CONNECTION),
    examples=("pk why partition orders/0", "pk why partition orders -f json"),
    shows="partition state verdict evidence:[{about what}] next:[str]",
    rows="partition state verdict next:[str]",
)
_LAG_WHY = Command(
    "lag",
    "group",
    help="Why a group lags: stopped, stuck, rebalancing, idle members, skew, no commits.",
    handler="pk.cli.nouns.why.lag:why_lag",
    arguments=(Argument("GROUP", help="The group.", complete="group"),),
    options=(
        GROUP_NAMED,
        PARTITIONS_OF_TOPICS,
        Option(
            "--for",
            value="SECONDS",
            kind="number",
            default=6.0,
            dest="seconds",
            help="How long to look at what moves and what does not (default: 6; 0 for one look).",
        ),
        *WATCHABLE,
        *CONNECTION,
    ),
    examples=("pk why lag billing", "pk why lag billing -t orders:3 --for 10"),
    shows="group state verdict lag:int evidence:[{about what}] next:[str]",
    rows="group state verdict next:[str]",
)
_CONFIG_WHY = Command(
    "config",
    "configs",
    help="Why a config has the value it has: the layer that won, and those beneath.",
    handler="pk.cli.nouns.why.config:why_config",
    arguments=(
        Argument("NAME", help="A topic; with --type, a broker's id or a group.", complete="topic"),
        Argument("KEY", help="The config's key.", complete="config-key"),
    ),
    options=(
        Option(
            "--type",
            value="TYPE",
            choices=("topic", "broker", "group"),
            default="topic",
            help="What NAME is: topic (default), broker or group.",
        ),
        *WATCHABLE,
        *CONNECTION,
    ),
    examples=(
        "pk why config orders retention.ms",
        "pk why config --type broker 1 log.retention.ms",
    ),
    shows="resource state verdict key value source layers:[{layer key value wins:bool}] evidence:[{about what}] "
    "next:[str]",
    rows="resource state verdict next:[str]",
)

WHY = Group(
    "why",
    help="Why something is as it is: a partition, a group's lag, a config.",
    children=(_PARTITION_WHY, _LAG_WHY, _CONFIG_WHY),
)
