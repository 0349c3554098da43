"""Share groups of KIP-932: ShareGroupHeartbeat as decisions, the timeouts of members, and the
creation of share partitions.

A heartbeat may carry the member's description, and shows that it is alive. The coordinator answers
with the member's epoch and, if it changed, the assignment. Between request and response, there are
these steps, each of which writes records:

1. The member is created or changed; if this changes the group's topics, the group epoch goes up.
2. If the group epoch is ahead of the target assignment, and the last one is old enough, the
   assignor computes a new one: here for a small group, off the loop for a large one.
3. The member takes its target.
4. Share partitions without a start offset are recorded as *initializing*, and the share coordinator
   initializes them on request (`InitializeShareState`). Once they are recorded as *initialized*,
   the
   next heartbeat assigns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.group.assignor import Assignment, GroupSpec, MemberSpec
from pk.core.group.modern_groups import NEVER_MS, ModernGroups
from pk.core.group.records import Record
from pk.core.group.registry import Groups, not_of_type
from pk.core.group.settings import Client, DecisionBuilder, GroupSettings, ShareGroupSettings
from pk.core.group.share import records
from pk.core.group.share.describe import describe
from pk.core.group.share.effects import InitializeShareState
from pk.core.group.share.group import ShareGroup
from pk.core.group.share.member import JOIN_EPOCH, LEAVE_EPOCH, ShareMember
from pk.core.group.share.records import SharedTopic, StatePartitions
from pk.core.group.share.replay import replay
from pk.core.group.share.simple import SimpleAssignor
from pk.core.group.timer_keys import SESSION
from pk.core.group.topics import Topics
from pk.core.machine import Compute, Decision
from pk.core.meta.image import Changes, MetadataImage
from pk.core.values import NO_OFFSET, STRING_BYTES_MAX, Uuid
from pk.core.wire.messages.share_group_describe import DescribedGroup
from pk.core.wire.messages.share_group_heartbeat import Assignment as WireAssignment
from pk.core.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from pk.core.wire.schema import Message

INLINE_WORK_MAX: Final = 2000
"""The largest group whose target assignment is computed on the loop, in units of `GroupSpec.work`,
which take 1 to 2 µs each."""
REQUEST_RETRY_MS: Final = 30_000
"""The time after which a request that the share coordinator has not answered is repeated, as in
Kafka."""

ASSIGNOR: Final = SimpleAssignor()


class ShareGroups(ModernGroups[ShareGroup, ShareGroupSettings]):
    """The share groups of one partition of `__consumer_offsets`. Every method that decides fills a
    `DecisionBuilder`."""

    def __init__(self, settings: GroupSettings, groups: Groups, topics: Topics) -> None:
        """Create the groups. `topics` are the cluster's; their owner keeps them up to date."""
        super().__init__(ShareGroup, settings.share, groups, topics, records)
        self._requested_at_ms: dict[str, dict[Uuid, int]] = {}
        """Soft: when the share coordinator was requested to initialize share partitions, by group
        and topic."""

    # --- heartbeats ---

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, decision: DecisionBuilder
    ) -> None:
        """Decide ShareGroupHeartbeat 1.

        Raises INVALID_REQUEST, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
        FENCED_MEMBER_EPOCH.
        """
        _check_request(request)
        group_id, member_id = request.group_id, request.member_id
        if request.member_epoch == LEAVE_EPOCH:
            group = self.groups.find_of(ShareGroup, group_id)
            self.fence(group, group.member(member_id), decision)
            decision.cancel((SESSION, group_id, member_id))
            decision.reply = ShareGroupHeartbeatResponse(
                member_id=member_id, member_epoch=LEAVE_EPOCH
            )
            return
        joins = request.member_epoch == JOIN_EPOCH
        group = self._group(group_id, joins)
        self.check_room(group, member_id)
        member = ShareMember(member_id) if joins else group.member(member_id)
        member = group.members.get(member_id, member)
        _check_epoch(member, request.member_epoch)
        updated = replace(member, **_member_updates(request, client))
        moved, epoch = self._advance(group, member, updated, decision)
        own = self.settings_of(group_id)
        decision.schedule((SESSION, group_id, member_id), own.session_timeout_ms)
        response = ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=moved.member_epoch,
            heartbeat_interval_ms=own.heartbeat_interval_ms,
        )
        is_full = request.subscribed_topic_names is not None
        if joins or is_full or moved.assigned != member.assigned:
            response.assignment = WireAssignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in moved.assigned.items()
                ]
            )
        decision.reply = response
        self._initialize(group, epoch, group.subscriptions(member, updated), decision)

    def _group(self, group_id: str, joins: bool) -> ShareGroup:
        group = self.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is not None:
            raise not_of_type(group_id, GroupType.SHARE)
        if not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return ShareGroup(group_id)

    def _advance(
        self,
        group: ShareGroup,
        member: ShareMember,
        updated: ShareMember,
        decision: DecisionBuilder,
    ) -> tuple[ShareMember, int]:
        """Decide steps 1 to 3 of a heartbeat that changes `member` to `updated`. Returns the member
        after these steps, and the group's epoch."""
        group_id = group.group_id
        if updated != member or updated.member_id not in group.members:
            decision.records.append(records.member_metadata(group_id, updated))
        subscription_changed = updated.topics != member.topics
        epoch = group.epoch
        due = group.assignment_epoch < epoch
        bump = subscription_changed or (group.lacks_assignment and not due)
        if bump or group.must_refresh(decision.now_ms):
            metadata_hash = self.topics.hash_of(group.subscriptions(member, updated))
            if bump or metadata_hash != group.metadata_hash:
                epoch += 1
                decision.records.append(records.group_epoch(group_id, epoch, metadata_hash))
            group.refreshed(decision.now_ms + NEVER_MS, epoch)
        target_epoch, target = self._target(group, epoch, updated, decision)
        wanted = {t: ps for t, ps in target.items() if self.topics.name(t) in updated.topics}
        if updated.member_epoch != target_epoch:
            moved = replace(
                updated,
                member_epoch=target_epoch,
                previous_epoch=max(updated.member_epoch, 0),
                assigned=wanted,
            )
        elif subscription_changed and wanted != updated.assigned:
            moved = replace(updated, assigned=wanted)
        else:
            return updated, epoch
        decision.records.append(records.current_assignment(group_id, moved))
        return moved, epoch

    # --- the target assignment ---

    def _target(
        self, group: ShareGroup, epoch: int, updated: ShareMember, decision: DecisionBuilder
    ) -> tuple[int, Assignment]:
        """Return the epoch of the target assignment and the partitions that it gives to
        `updated`."""
        member_id = updated.member_id
        if not self.target_is_due(group, epoch, decision.now_ms):
            return group.assignment_epoch, group.target_of(member_id)
        spec = self._spec(group, updated)
        assignable = {
            topic_id: found.partitions
            for topic_id, found in group.state_partitions.initialized.items()
        }
        if spec.work > INLINE_WORK_MAX:
            group_id = group.group_id
            self.compute(
                group_id,
                decision,
                Compute(
                    lambda: ASSIGNOR.assign(spec, assignable),
                    lambda machine, assignments, now_ms: machine.share.assigned(
                        group_id, assignments, epoch, now_ms
                    ),
                ),
            )
            return group.assignment_epoch, group.target_of(member_id)
        assignments = ASSIGNOR.assign(spec, assignable)
        decision.records += self.target_records(group, assignments, epoch, decision.now_ms)
        return epoch, assignments[member_id]

    def _spec(self, group: ShareGroup, updated: ShareMember) -> GroupSpec:
        """Return the assignor's input, with `updated` in place of its earlier version."""
        ids: dict[frozenset[str], frozenset[Uuid]] = {}
        specs: dict[str, MemberSpec] = {}
        for member_id, member in (group.members | {updated.member_id: updated}).items():
            known = ids.get(member.topics)
            if known is None:
                known = ids[member.topics] = self.topics.ids(member.topics)
            specs[member_id] = MemberSpec(known, group.target_of(member_id))
        read = set[Uuid]().union(*ids.values())
        counts = {t: len(self.topics.image.topics_by_id[t].partitions) for t in read}
        return GroupSpec(specs, counts)

    def assigned(
        self, group_id: str, assignments: Mapping[str, Assignment], epoch: int, now_ms: int
    ) -> Decision[Record, None]:
        """Write a target assignment that was computed off the loop."""
        decision = DecisionBuilder(now_ms=now_ms)
        self._computing.discard(group_id)
        group = self.groups.get_of(ShareGroup, group_id)
        if group is not None and group.assignment_epoch < epoch <= group.epoch:
            kept = {m: assignment for m, assignment in assignments.items() if m in group.members}
            decision.records = self.target_records(group, kept, epoch, now_ms)
        return decision

    # --- initialization of share partitions ---

    def _initialize(
        self, group: ShareGroup, state_epoch: int, read: Iterable[str], decision: DecisionBuilder
    ) -> None:
        """Decide step 4 of a heartbeat: initialize share partitions of the subscribed topics that
        are not initialized."""
        offsets: dict[Uuid, dict[int, int]] = {}
        state = group.state_partitions
        initializing = dict(state.initializing)
        for name in sorted(read):
            topic = self.topics.image.topics.get(name)
            if topic is None:
                continue
            topic_id = topic.topic_id
            known: set[int] = set()
            if topic_id in state.initialized:
                known |= state.initialized[topic_id].partitions
            if topic_id in state.initializing and self._was_requested(
                group, topic_id, decision.now_ms
            ):
                known |= state.initializing[topic_id].partitions
            lacking = {p.partition for p in topic.partitions} - known
            if lacking:
                offsets[topic_id] = dict.fromkeys(sorted(lacking), NO_OFFSET)
                before = state.initializing.get(topic_id, SharedTopic(name, frozenset()))
                initializing[topic_id] = SharedTopic(name, before.partitions | lacking)
        if offsets:
            self._request_initialization(group, state_epoch, offsets, initializing, decision)

    def _request_initialization(
        self,
        group: ShareGroup,
        state_epoch: int,
        offsets: Mapping[Uuid, Mapping[int, int]],
        initializing: Mapping[Uuid, SharedTopic],
        decision: DecisionBuilder,
    ) -> None:
        state = group.state_partitions
        deleting = {t: name for t, name in state.deleting.items() if t not in offsets}
        after = StatePartitions(initializing, state.initialized, deleting)
        decision.records.append(records.state_partitions(group.group_id, after))
        decision.effects.append(InitializeShareState(group.group_id, state_epoch, offsets))
        self._note_requested(group, offsets, decision.now_ms)

    def _note_requested(self, group: ShareGroup, topic_ids: Iterable[Uuid], now_ms: int) -> None:
        asked = self._requested_at_ms.setdefault(group.group_id, {})
        asked.update(dict.fromkeys(topic_ids, now_ms))

    def _was_requested(self, group: ShareGroup, topic_id: Uuid, now_ms: int) -> bool:
        asked_ms = self._requested_at_ms.get(group.group_id, {}).get(topic_id)
        return asked_ms is not None and now_ms < asked_ms + REQUEST_RETRY_MS

    def initialized(
        self,
        group_id: str,
        done: Mapping[Uuid, frozenset[int]],
        failed: Mapping[Uuid, frozenset[int]],
        decision: DecisionBuilder,
    ) -> None:
        """Apply the result of an `InitializeShareState`. Failed partitions may be retried."""
        group = self.groups.get_of(ShareGroup, group_id)
        asked = self._requested_at_ms.pop(group_id, {})
        if group is None:
            return
        state = group.state_partitions
        initializing, initialized = dict(state.initializing), dict(state.initialized)
        for topic_id, partitions in done.items():
            waiting = initializing.get(topic_id)
            if waiting is None:
                continue  # The topic, or the group's offsets for it, were deleted in the meantime.
            before = initialized.get(topic_id, SharedTopic(waiting.name, frozenset()))
            initialized[topic_id] = SharedTopic(
                waiting.name, before.partitions | (partitions & waiting.partitions)
            )
        for topic_id in {*done, *failed}:
            waiting = initializing.pop(topic_id, None)
            if waiting is None:
                continue
            answered = done.get(topic_id, frozenset()) | failed.get(topic_id, frozenset())
            if left := waiting.partitions - answered:
                initializing[topic_id] = SharedTopic(waiting.name, left)
            asked.pop(topic_id, None)
        if asked:
            self._requested_at_ms[group_id] = asked
        after = StatePartitions(initializing, initialized, state.deleting)
        if after != state:
            decision.records.append(records.state_partitions(group_id, after))

    def retry_initialization(self, decision: DecisionBuilder) -> None:
        """Repeat the requests of an earlier coordinator, after the partition was loaded."""
        for group in self.groups.all_of(ShareGroup):
            state = group.state_partitions
            offsets: dict[Uuid, dict[int, int]] = {}
            for topic_id, found in state.initializing.items():
                lacking = found.partitions
                if topic_id in state.initialized:
                    lacking -= state.initialized[topic_id].partitions
                if lacking and topic_id in self.topics.image.topics_by_id:
                    offsets[topic_id] = dict.fromkeys(sorted(lacking), NO_OFFSET)
            if offsets:
                decision.effects.append(InitializeShareState(group.group_id, group.epoch, offsets))
                self._note_requested(group, offsets, decision.now_ms)

    # --- altering and deleting offsets ---

    def begin_alter(
        self, group_id: str, offsets: Mapping[Uuid, Mapping[int, int]], decision: DecisionBuilder
    ) -> None:
        """Decide AlterShareGroupOffsets: sets the start offsets of partitions that exist, and
        creates the group if missing. Replies with the `InitializeShareState` to carry out, or None
        if there is nothing to do.

        Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
        """
        group = self._group(group_id, joins=True)
        _check_empty(group)
        if not offsets:
            return
        state = group.state_partitions
        initializing = dict(state.initializing)
        for topic_id, partitions in offsets.items():
            name = self.topics.name(topic_id) or ""
            before = initializing.get(topic_id, SharedTopic(name, frozenset()))
            initializing[topic_id] = SharedTopic(name, before.partitions | partitions.keys())
        deleting = {t: name for t, name in state.deleting.items() if t not in offsets}
        after = StatePartitions(initializing, state.initialized, deleting)
        decision.records.append(records.state_partitions(group_id, after))
        state_epoch = group.epoch
        if any(NO_OFFSET in partitions.values() for partitions in offsets.values()):
            # Without a new epoch, share coordinators would take the request for a repetition.
            state_epoch += 1
            decision.records.append(records.group_epoch(group_id, state_epoch, group.metadata_hash))
        decision.reply = InitializeShareState(group_id, state_epoch, offsets)

    def begin_delete(
        self, group_id: str, topic_ids: Sequence[Uuid], decision: DecisionBuilder
    ) -> None:
        """Decide DeleteShareGroupOffsets: the share coordinator will delete the share partitions of
        these topics. Replies with the partitions to delete, by topic id. Topics without share
        partitions are left out.

        Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
        """
        group = self.groups.find_of(ShareGroup, group_id)
        _check_empty(group)
        state = group.state_partitions
        found: dict[Uuid, frozenset[int]] = {}
        for topic_id in topic_ids:
            if topic_id in state.initialized:
                found[topic_id] = state.initialized[topic_id].partitions
            elif topic_id in state.deleting:
                found[topic_id] = self._all_partitions(topic_id)
        names = {t: self.topics.name(t) or "" for t in found}
        decision.reply = found
        if found:
            decision.records.append(
                records.state_partitions(
                    group_id,
                    StatePartitions(
                        state.initializing,
                        {t: one for t, one in state.initialized.items() if t not in found},
                        {**state.deleting, **names},
                    ),
                )
            )

    def begin_delete_group(self, group_id: str, decision: DecisionBuilder) -> None:
        """Decide DeleteGroups for a share group: all of its share partitions must be deleted.
        Replies as `begin_delete`.

        Raises NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.
        """
        group = self.groups.find_of(ShareGroup, group_id)
        _check_empty(group)
        state = group.state_partitions
        found: dict[Uuid, frozenset[int]] = {}
        names: dict[Uuid, str] = {}
        for topics in (state.initializing, state.initialized):
            for topic_id, one in topics.items():
                found[topic_id] = found.get(topic_id, frozenset()) | one.partitions
                names[topic_id] = one.name
        for topic_id, name in state.deleting.items():
            found.setdefault(topic_id, self._all_partitions(topic_id))
            names.setdefault(topic_id, name)
        decision.reply = {
            topic_id: partitions for topic_id, partitions in found.items() if partitions
        }
        if found:
            decision.records.append(
                records.state_partitions(group_id, StatePartitions(deleting=names))
            )

    def deleted(self, group_id: str, topic_ids: Iterable[Uuid], decision: DecisionBuilder) -> None:
        """Note that the share coordinator has deleted the share partitions of these topics."""
        group = self.groups.get_of(ShareGroup, group_id)
        if group is not None:
            state = group.state_partitions
            gone = set(topic_ids)
            deleting = {t: name for t, name in state.deleting.items() if t not in gone}
            if deleting != state.deleting:
                after = StatePartitions(state.initializing, state.initialized, deleting)
                decision.records.append(records.state_partitions(group_id, after))

    def _all_partitions(self, topic_id: Uuid) -> frozenset[int]:
        topic = self.topics.image.topics_by_id.get(topic_id)
        return frozenset() if topic is None else frozenset(p.partition for p in topic.partitions)

    # --- leaving members and timers ---

    def fence(self, group: ShareGroup, member: ShareMember, decision: DecisionBuilder) -> None:
        """Remove a member that left or whose session expired."""
        group_id = group.group_id
        decision.records += records.member_tombstones(group_id, member.member_id)
        metadata_hash = self.topics.hash_of(group.subscriptions(member))
        decision.records.append(records.group_epoch(group_id, group.epoch + 1, metadata_hash))

    def fire(self, key: tuple[Any, ...], decision: DecisionBuilder) -> None:
        """See `GroupsOfType`. The only timer is a member's session."""
        group = self.groups.get_of(ShareGroup, key[1])
        member = group.members.get(key[2]) if group is not None else None
        if group is not None and member is not None:
            self.fence(group, member, decision)

    def loaded(self, decision: DecisionBuilder) -> None:
        """See `GroupsOfType`. Repeats an earlier coordinator's requests to share coordinators."""
        for group in self.groups.all_of(ShareGroup):
            session_ms = self.settings_of(group.group_id).session_timeout_ms
            for member_id in group.members:
                decision.schedule((SESSION, group.group_id, member_id), session_ms)
        self.retry_initialization(decision)

    # --- the cluster ---

    def follow(self, image: MetadataImage, delta: Changes, decision: DecisionBuilder) -> None:
        """See `GroupsOfType`. Groups whose topics changed check them at the next heartbeat. Share
        partitions of deleted topics are deleted here; their share coordinators delete them too."""
        self.use_cluster_settings(image)
        deleted = {topic.topic_id for topic in delta.topics_deleted}
        changed = delta.topics_reassigned
        if not changed:
            return
        for group in self.groups.all_of(ShareGroup):
            if not changed.isdisjoint(group.topics):
                group.request_refresh()
            after = group.state_partitions.without(deleted)
            if after != group.state_partitions:
                decision.records.append(records.state_partitions(group.group_id, after))

    # --- records and descriptions ---

    def replay_value(self, group: ShareGroup, key: Message, value: Message) -> None:
        """See `ModernGroups`."""
        replay(group, key, value)

    def describe(self, group_id: str) -> DescribedGroup:
        """See `GroupsOfType`."""
        group = self.groups.find_of(ShareGroup, group_id)
        return describe(group, self.topics, ASSIGNOR.name)


def _check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST for a request that no group accepts."""
    if not request.member_id.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not request.group_id.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."
        )
    if request.member_epoch < LEAVE_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def _member_updates(request: ShareGroupHeartbeatRequest, client: Client) -> dict[str, Any]:
    """Return the fields of the member that the request sets. The others stay as they are."""
    updates: dict[str, Any] = {
        "client_id": client.client_id[:STRING_BYTES_MAX],
        "client_host": client.client_host,
    }
    if request.rack_id is not None:
        updates["rack_id"] = request.rack_id
    if request.subscribed_topic_names is not None:
        updates["topics"] = frozenset(request.subscribed_topic_names)
    return updates


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise FENCED_MEMBER_EPOCH for an epoch other than the member's. The previous epoch is
    accepted, because the response with the new one may have been lost."""
    if epoch in (JOIN_EPOCH, member.member_epoch, member.previous_epoch):
        return
    compared = "greater" if epoch > member.member_epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {compared} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.member_epoch}). The member must abandon all its "
        "partitions and rejoin.",
    )


def _check_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
