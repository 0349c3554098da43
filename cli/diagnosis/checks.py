"""All checks of `pk doctor`, in the order in which they are shown."""

from collections.abc import Callable, Iterable
from typing import Final

from pk.cli.diagnosis import (
    agreement,
    balance,
    healthy,
    readers,
    recovery,
    remote,
    replication,
    security,
)
from pk.cli.diagnosis.snapshot import QUORUM, SEVERITIES, Check, ClusterSnapshot, Finding

REASSIGNMENTS: Final = "reassignments"
"""Always requested. It has a name for the checks that report nothing without it."""

CONFIGS: Final = "configs"
BROKERS: Final = "brokers"
DIRS: Final = "log directories"
THROTTLES: Final = "throttles"
OFFSETS: Final = "offsets"
TIMES: Final = "record times"
GROUPS: Final = "groups"
TRANSACTIONS: Final = "transactions"
ACLS: Final = "ACLs"
USERS: Final = "users"
CERTIFICATES: Final = "certificates"
RECOVERIES: Final = "logs of replicas"
REMOTE: Final = "remote storage"
"""The data that a check may need, beyond the brokers and topics that are always requested."""


def _check(
    name: str,
    run: Callable[[ClusterSnapshot], Iterable[Finding]],
    *needs: str,
    healthy: Callable[[ClusterSnapshot], str] | None = None,
) -> Check:
    assert run.__doc__ is not None
    help_line = " ".join(run.__doc__.split()).rstrip(".")
    return Check(name, help_line, frozenset(needs), run, healthy)


CHECKS: Final = (
    _check("controller", agreement.controller, QUORUM, healthy=healthy.controller),
    _check("brokers-down", replication.brokers_down, BROKERS, healthy=healthy.brokers),
    _check("offline-partitions", replication.offline, healthy=healthy.leaders),
    _check("awaited-logs", recovery.awaited_logs, RECOVERIES),
    _check("stopped-replicas", recovery.stopped_replicas, RECOVERIES),
    _check("damaged-replicas", recovery.damaged_replicas, RECOVERIES),
    _check("remote-restore", remote.awaiting_restore, REMOTE),
    _check("remote-storage", remote.not_copied, REMOTE),
    _check("under-min-isr", replication.under_min_isr, CONFIGS, healthy=healthy.min_isr),
    _check("under-replicated", replication.under_replicated, CONFIGS, healthy=healthy.replicas),
    _check("offline-directories", balance.offline_directories, DIRS, healthy=healthy.directories),
    _check("full-disks", balance.full_disks, DIRS, healthy=healthy.disks),
    _check("stuck-moves", replication.stuck_moves, REASSIGNMENTS, healthy=healthy.moves),
    _check(
        "orphan-throttles",
        replication.orphan_throttles,
        REASSIGNMENTS,
        THROTTLES,
        healthy=healthy.throttles,
    ),
    _check("offset-out-of-range", readers.out_of_range, GROUPS, OFFSETS),
    _check("retention-risk", readers.retention_risk, GROUPS, OFFSETS, CONFIGS, DIRS),
    _check("hanging-transactions", agreement.hanging_transactions, TRANSACTIONS, OFFSETS, BROKERS),
    _check("old-transactions", agreement.old_transactions, TRANSACTIONS, OFFSETS, BROKERS),
    _check("remote-orphans", remote.orphans, REMOTE),
    _check("remote-copy-disabled", remote.copy_disabled, REMOTE),
    _check(
        "no-spare-replica", replication.no_spare_replica, CONFIGS, healthy=healthy.spare_replicas
    ),
    _check("single-replica", replication.single_replica, healthy=healthy.several_replicas),
    _check("internal-topics", replication.internal_topics, healthy=healthy.internal_topics),
    _check("one-rack", replication.one_rack),
    _check("unclean-election", replication.unclean_election, CONFIGS),
    _check("one-copy-acks", replication.one_copy_acks, CONFIGS),
    _check("preferred-leaders", balance.preferred_leaders, healthy=healthy.preferred_leaders),
    _check("leader-skew", balance.leader_skew),
    _check("replica-skew", balance.replica_skew),
    _check("disk-skew", balance.disk_skew, DIRS),
    _check("empty-brokers", balance.empty_brokers),
    _check("groups-without-members", readers.groups_without_members, GROUPS, OFFSETS),
    _check("dead-groups", readers.dead_groups, GROUPS, OFFSETS),
    _check("unread-topics", readers.unread_topics, GROUPS, OFFSETS),
    _check("mixed-versions", agreement.mixed_versions, BROKERS),
    _check("features-behind", agreement.features_behind, BROKERS),
    _check("metadata-lag", agreement.metadata_lag, QUORUM, healthy=healthy.metadata),
    _check("clock-skew", agreement.clock_skew, QUORUM),
    _check("future-records", agreement.future_records, TIMES),
    _check("certificates-end", security.certificates_end, CERTIFICATES),
    _check("public-plaintext", security.public_plaintext, BROKERS),
    _check("unsigned-tokens", security.unsigned_tokens, BROKERS),
    _check("everyone-may-write", security.everyone_may_write, ACLS),
    _check("acls-without-resource", security.acls_without_resource, ACLS),
    _check("users-without-password", security.users_without_password, ACLS, USERS, BROKERS),
)


def diagnose(snapshot: ClusterSnapshot, checks: Iterable[Check] = CHECKS) -> list[Finding]:
    """The findings of the checks, the most severe first."""
    found = [finding for check in checks for finding in check.run(snapshot)]
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
