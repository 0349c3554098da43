"""`pk doctor`."""

from pk.cli.grammar import Command, Option
from pk.cli.specs.common import CONNECTION, WATCHABLE

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
    handler="pk.cli.commands.doctor:doctor",
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
