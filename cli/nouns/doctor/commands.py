"""`pk doctor`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated, Literal

from pk.cli.command_line.declare import Noun, Option, Running
from pk.cli.command_line.option_sets import Connection, Listing, Watch
from pk.cli.nouns.doctor.rows import CheckRow, FindingRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

DOCTOR = Noun("doctor")

CheckName = Literal[
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
]
"""The checks of `pk.cli.diagnosis.checks`, which is not imported here; a test holds them equal."""


@DOCTOR.command(
    takes=(Listing, Watch, Connection),
    examples=(
        "pk doctor --fail-on never",
        "pk doctor --check retention-risk --check hanging-transactions",
        "pk doctor --fail-on warning -f json || alert",
        "pk doctor --list",
    ),
    notes=(
        "Looks and changes nothing; joins no group. Only what the chosen checks need is "
        "asked. A record of a lagging group lives at least until its own time plus "
        "retention.ms: that is the time left that retention-risk tells."
    ),
    shows={"": FindingRow, "list": CheckRow},
)
def doctor(
    context: "Context",
    check: Annotated[
        tuple[CheckName, ...],
        Option("--check", value="NAME", help="Only this check; may be given again."),
    ] = (),
    list: Annotated[
        bool, Option("--list", help="The checks there are, with what each looks for.")
    ] = False,
    fail_on: Annotated[
        Literal["error", "warning", "note", "never"],
        Option(
            "--fail-on",
            value="SEVERITY",
            help="What makes the exit code 1: error (default), warning, note, or never.",
        ),
    ] = "error",
) -> Running:
    """What is wrong with the cluster or soon will be, each with a command that mends it."""
    from pk.cli.nouns.doctor.doctor import doctor

    return doctor(context, check=check, list_checks=list, fail_on=fail_on)
