"""One streams group: the state in its records, and the state derived from it.

The *group epoch* counts the changes that require a new assignment: a member joined, left or
changed, a topic of the topology changed, or the group's configs did. The *target assignment* is
computed for an epoch, and each member adopts it independently (member.py). Only `replay_…` changes
the durable state. The soft state consists of the topology as applied to the cluster's topics, the
time of the next check of them, endpoints, and the member that requested a shutdown of the
application.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import CheckPartition, Committer, GroupType
from pk.core.group.modern_group import ModernGroup, RecordKeys
from pk.core.group.records import Record
from pk.core.group.streams.configured import ConfiguredTopology
from pk.core.group.streams.endpoints import Endpoints
from pk.core.group.streams.member import (
    LEAVE_EPOCH,
    MemberState,
    StreamsMember,
)
from pk.core.group.streams.records import group_tombstones
from pk.core.group.streams.tasks import HOLDS_NONE, NO_TASKS, Tasks
from pk.core.group.streams.topology import Topology
from pk.core.values import NO_EPOCH, Uuid
from pk.core.wire.messages import offsets_topic_streams as wire

STREAMS_COMMIT_SINCE: Final = 9
"""The first version of OffsetCommit that may contain a member epoch."""


class StreamsGroupState(StrEnum):
    """The states of a group, with the names that Kafka prints."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """The cluster lacks topics of the topology."""
    ASSIGNING = "Assigning"
    """The target assignment is older than the group epoch."""
    RECONCILING = "Reconciling"
    """At least one member has not adopted all of its target."""
    STABLE = "Stable"


class StreamsGroup(ModernGroup[StreamsMember, Tasks]):
    """A streams group."""

    type: ClassVar[GroupType] = GroupType.STREAMS
    KEYS = RecordKeys(
        wire.StreamsGroupMetadataKey,
        wire.StreamsGroupMemberMetadataKey,
        wire.StreamsGroupCurrentMemberAssignmentKey,
        wire.StreamsGroupTargetAssignmentMemberKey,
        wire.StreamsGroupTargetAssignmentMetadataKey,
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.validated_topology_epoch = 0
        """The epoch of the topology that was validated against the cluster's topics, or -1 for
        none."""
        self.assignment_configs: Mapping[str, str] = {}
        """The configs for which the last epoch was decided."""
        self.topology: Topology | None = None
        self.configured: ConfiguredTopology | None = None
        self.endpoints = Endpoints()
        self.shutdown_member_id: str | None = None
        """The member that requested a shutdown of the whole application."""
        self._active: dict[str, dict[int, str]] = {}
        """The process that has each active task, by subtopology id and partition."""
        self._copies: dict[str, dict[int, list[str]]] = {}
        """The processes that have standby and warm-up tasks, by subtopology id and partition."""

    # --- as a group of any type ---

    @property
    def state(self) -> StreamsGroupState:
        """The group's state."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(m.is_reconciled_to(self.assignment_epoch) for m in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """The state, named as in ListGroups."""
        return self.state.value

    def is_subscribed(self, topic: str) -> bool:
        """Whether the application reads `topic`, and has members."""
        return bool(self.members) and self.topology is not None and topic in self.topology.readers

    def check_commit(self, committer: Committer) -> CheckPartition | None:
        """See `AnyGroup`. Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.

        An older epoch is accepted for a partition whose task the member has held since then
        (KIP-1251).
        """
        if committer.epoch < 0 and not self.members:
            return None
        outside = committer.member_id == "" and committer.instance_id is None
        if committer.transactional and committer.epoch == NO_EPOCH and outside:
            return None
        member = self.member(committer.member_id)
        if not committer.transactional and committer.version < STREAMS_COMMIT_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                (
                    "OffsetCommit version 9 or above must be used by members using the streams "
                    "group protocol"
                ),
            )
        if committer.epoch == member.member_epoch:
            return None
        if committer.epoch > member.member_epoch:
            raise _stale(
                f"Received member epoch {committer.epoch} is newer than current member epoch "
                f"{member.member_epoch}."
            )
        topology = self.topology
        if topology is None:
            raise _stale("Topology is not available for offset commit validation.")

        def check(topic: str, topic_id: Uuid, partition: int) -> None:
            reader = topology.readers.get(topic)
            if reader is None:
                raise _stale(f"Topic {topic} is not in the topology.")
            held_since = member.epoch_of(reader, partition)
            if held_since is None:
                raise _stale(
                    f"Task {reader}-{partition} is not assigned or pending revocation for member."
                )
            if committer.epoch < held_since:
                raise _stale(
                    f"Received member epoch {committer.epoch} is older than assignment epoch "
                    f"{held_since} for task {reader}-{partition}."
                )

        return check

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See `AnyGroup`. Raises UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise _stale(
                f"The received member epoch {member_epoch} does not match the expected member "
                f"epoch {member.member_epoch}."
            )

    def check_offset_delete(self) -> None:
        """Allow it: OffsetDelete itself refuses the topics that the application reads."""

    def expires_from(self, commit_timestamp_ms: int) -> int | None:
        """Return the commit's time."""
        return commit_timestamp_ms

    def tombstones(self) -> list[Record]:
        """Return the records that delete the group."""
        return group_tombstones(self.group_id)

    # --- members ---

    def target_of(self, member_id: str) -> Tasks:
        """Return a member's tasks in the target assignment."""
        return self.target.get(member_id, NO_TASKS)

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """Return the process that has the active task, or None."""
        return self._active.get(subtopology_id, {}).get(partition)

    def has_copy(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Whether a process has a standby or warm-up task."""
        return process_id in self._copies.get(subtopology_id, {}).get(partition, ())

    # --- the topology ---

    def configure(self, configured: ConfiguredTopology) -> None:
        """Set the topology as applied to the topics of the cluster."""
        self.configured = configured
        self.endpoints.forget_all()

    # --- the log ---

    def replay_epoch(
        self,
        epoch: int,
        metadata_hash: int,
        validated_topology_epoch: int,
        assignment_configs: Mapping[str, str],
    ) -> None:
        """Set the group epoch."""
        self.epoch, self.metadata_hash = epoch, metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.assignment_configs = assignment_configs

    def replay_topology(self, topology: Topology | None) -> None:
        """Set the group's topology, or, given None, remove it."""
        self.topology = topology

    def replay_member(self, member_id: str, fields: Mapping[str, Any]) -> None:
        """Set some fields of a member."""
        old = self.members.get(member_id)
        new = replace(StreamsMember(member_id) if old is None else old, **fields)
        self._release(old)
        self.members[member_id] = new
        self._hold(new)
        self.endpoints.forget(member_id)

    def replay_assignment_tombstone(self, member_id: str) -> None:
        """Clear the tasks of a member that leaves."""
        if member_id in self.members:
            self.replay_member(
                member_id,
                {
                    "member_epoch": LEAVE_EPOCH,
                    "previous_epoch": LEAVE_EPOCH,
                    "assigned": HOLDS_NONE,
                    "revoking": HOLDS_NONE,
                    "state": MemberState.STABLE,
                },
            )

    def replay_member_tombstone(self, member_id: str) -> None:
        """Remove a member."""
        self._release(self.members.pop(member_id, None))
        self.target.pop(member_id, None)
        self.endpoints.forget(member_id)
        if not self.members:
            self.shutdown_member_id = None

    def replay_tombstone(self, key: Any) -> None:
        """See `ModernGroup`."""
        if isinstance(key, wire.StreamsGroupTopologyKey):
            self.replay_topology(None)
        else:
            super().replay_tombstone(key)

    def _hold(self, member: StreamsMember) -> None:
        process_id = member.process_id
        if not process_id:
            return  # The member's own record comes later.
        for held in (member.assigned, member.revoking):
            for subtopology_id, partitions in held.active.items():
                self._active.setdefault(subtopology_id, {}).update(
                    dict.fromkeys(partitions, process_id)
                )
            for copies in (held.standby, held.warmup):
                for subtopology_id, partitions in copies.items():
                    holders = self._copies.setdefault(subtopology_id, {})
                    for partition in partitions:
                        holders.setdefault(partition, []).append(process_id)

    def _release(self, member: StreamsMember | None) -> None:
        if member is None or not member.process_id:
            return
        process_id = member.process_id
        for held in (member.assigned, member.revoking):
            for subtopology_id, partitions in held.active.items():
                holders = self._active.get(subtopology_id, {})
                for partition in partitions:
                    if holders.get(partition) == process_id:
                        del holders[partition]
            for copies in (held.standby, held.warmup):
                for subtopology_id, partitions in copies.items():
                    sharers = self._copies.get(subtopology_id, {})
                    for partition in partitions:
                        processes = sharers.get(partition, [])
                        if process_id in processes:
                            processes.remove(process_id)
                        if not processes:
                            sharers.pop(partition, None)


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)
