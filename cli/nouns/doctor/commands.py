"""The commands of `pk doctor`, with their options."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.doctor.rows import CheckRow, FindingRow
from pk.cli.options.option_sets import Connection, Listing, Watch
from pk.cli.options.parameters import Option

DOCTOR = Noun("doctor")

CheckName = Literal[
    "controller",
    "brokers-down",
    "offline-partitions",
    "awaited-logs",
    "stopped-replicas",
    "damaged-replicas",
    "remote-restore",
    "remote-storage",
    "under-min-isr",
    "under-replicated",
    "offline-directories",
    "full-disks",
    "stuck-moves",
    "orphan-throttles",
    "offset-out-of-range",
    "retention-risk",
    "hanging-transactions",
    "old-transactions",
    "remote-orphans",
    "remote-copy-disabled",
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
    "certificates-end",
    "public-plaintext",
    "unsigned-tokens",
    "everyone-may-write",
    "acls-without-resource",
    "users-without-password",
]
"""The names of the checks in `pk.cli.diagnosis.checks`, which help must not import; a test compares
them."""


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Arguments of `pk doctor`."""

    check: Annotated[
        tuple[CheckName, ...],
        Option("--check", value="NAME", help="Only this check (--list lists them); repeatable."),
    ] = ()
    list_checks: Annotated[
        bool, Option("--list", help="List the checks, and what each looks for.")
    ] = False
    fail_on: Annotated[
        Literal["error", "warning", "note", "never"],
        Option(
            "--fail-on",
            value="SEVERITY",
            help=(
                "The lowest severity that makes the exit code 1: error (default), warning, "
                "note, or never."
            ),
        ),
    ] = "error"


DOCTOR.command(
    help="Show current and likely problems of the cluster, each with a fix.",
    worker="doctor:doctor",
    arguments=Doctor,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk doctor --fail-on never",
        "pk doctor --check retention-risk --check hanging-transactions",
        "pk doctor --fail-on warning -f json || alert",
        "pk doctor --list",
    ),
    notes=(
        "Read-only; joins no group. Requests only what the chosen checks need. A record that a "
        "group has not read is kept at least until its timestamp plus retention.ms: "
        "retention-risk shows the time left until then."
    ),
    shows={"": FindingRow, "list_checks": CheckRow},
)
