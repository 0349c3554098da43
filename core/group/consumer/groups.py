"""Consumer groups of KIP-848: ConsumerGroupHeartbeat as decisions, and the timeouts of members.

A heartbeat may carry the member's description (when it joins or changes its subscription) and its
current partitions, and shows that it is alive. The coordinator answers with the member's epoch and,
if it changed, the assignment. Between request and response, there are up to four steps, each of
which writes records:

1. The member is created or changed; if this changes the group's topics, the group epoch goes up.
2. The expressions among the subscriptions are resolved, if they are new or topics were added.
3. If the group epoch is ahead of the target assignment, and the last one is old enough, the
   assignor computes a new one: here for a small group, off the loop for a large one. In that case,
   the heartbeat uses the old target, and members get the new one in later heartbeats.
4. The member takes the next step towards its target (reconcile.py).

A decision reads the group as it was; later steps get the changes of earlier ones as arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.group.assignor import Assignment, GroupSpec
from pk.core.group.consumer import records
from pk.core.group.consumer.conversion import (
    classic_record,
    may_downgrade,
    upgrade,
)
from pk.core.group.consumer.describe import describe
from pk.core.group.consumer.group import ConsumerGroup, Resolved, topics_of
from pk.core.group.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
)
from pk.core.group.consumer.reconcile import Owned, Target, reconcile
from pk.core.group.consumer.regex import check_regex, matching
from pk.core.group.consumer.replay import replay
from pk.core.group.consumer.request import (
    check_epoch,
    check_instance,
    check_request,
    differs,
    is_full,
    member_updates,
    owned_by,
)
from pk.core.group.consumer.target import (
    SERVER_ASSIGNORS,
    group_spec,
    without_departed,
)
from pk.core.group.modern_groups import NEVER_MS, ModernGroups
from pk.core.group.records import Record
from pk.core.group.registry import Groups, not_of_type
from pk.core.group.settings import (
    Client,
    ConsumerGroupSettings,
    DecisionBuilder,
    GroupSettings,
    NewId,
)
from pk.core.group.timer_keys import DOWNGRADED, JOIN, REBALANCE, REPLACED, SESSION, SYNC
from pk.core.group.topics import Topics
from pk.core.machine import Compute, Decision
from pk.core.meta.image import Changes, MetadataImage
from pk.core.wire.messages.consumer_group_describe import DescribedGroup
from pk.core.wire.messages.consumer_group_heartbeat import (
    Assignment as WireAssignment,
)
from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pk.core.wire.schema import Message

REGEX_REFRESH_PAUSE_MS: Final = 10_000
"""The minimum pause between two resolutions of a group's expressions."""
INLINE_WORK_MAX: Final = 2000
"""The largest group whose target assignment is computed on the loop, in units of `GroupSpec.work`,
which take 1 to 2 µs each."""
INLINE_MATCHES_MAX: Final = 5000
"""The maximum number of matches of an expression with a topic that are computed on the loop, at
half a µs each."""


class Advance(NamedTuple):
    """The result of the first three steps of a heartbeat."""

    target: Target
    epoch: int
    """The group's epoch after this heartbeat."""
    read: frozenset[str]
    """The topics that the member is subscribed to now."""
    subscription_changed: bool


class ConsumerGroups(ModernGroups[ConsumerGroup, ConsumerGroupSettings]):
    """The consumer groups of one partition of `__consumer_offsets`. Every method that decides fills
    a `DecisionBuilder`."""

    def __init__(
        self, settings: GroupSettings, new_id: NewId, groups: Groups, topics: Topics
    ) -> None:
        """Create the groups. `topics` are the cluster's; their owner keeps them up to date."""
        super().__init__(ConsumerGroup, settings.consumer, groups, topics, records)
        self.settings = settings
        self.new_id = new_id

    # Heartbeats

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client: Client,
        decision: DecisionBuilder,
    ) -> None:
        """Decide ConsumerGroupHeartbeat 0–1.

        Raises INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
        UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
        INVALID_REGULAR_EXPRESSION.
        """
        check_request(request, version, self.settings.consumer.assignors)
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            self._leave(request, decision)
            return
        joins = request.member_epoch == JOIN_EPOCH
        group = self._group(request.group_id, joins, decision)
        self.check_room(group, request.member_id)
        member_id = request.member_id or self.new_id()
        member = self._member(group, request, member_id, joins, decision)
        owned = owned_by(request)
        updates = member_updates(request, client)
        updated = replace(member, **updates) if differs(member, updates) else member
        updated = self.reconcile(
            group, updated, self.advance(group, member, updated, decision), owned, decision
        )
        own = self.settings_of(group.group_id)
        decision.schedule((SESSION, group.group_id, member_id), own.session_timeout_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=updated.member_epoch,
            heartbeat_interval_ms=own.heartbeat_interval_ms,
        )
        if joins or is_full(request) or member.assigned != updated.assigned:
            response.assignment = WireAssignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in updated.assigned.items()
                ]
            )
        decision.reply = response

    def _group(self, group_id: str, joins: bool, decision: DecisionBuilder) -> ConsumerGroup:
        """Return the group. A member that joins creates a missing group, and replaces an empty
        classic group or upgrades one with members."""
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            if joins:
                return ConsumerGroup(group_id)
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if not joins or group.type is not GroupType.CLASSIC:
            raise not_of_type(group_id, GroupType.CONSUMER)
        if group.is_empty:
            decision.records += group.tombstones()
            return ConsumerGroup(group_id)
        return upgrade(group, self.topics, self.settings.consumer, decision)

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        joins: bool,
        decision: DecisionBuilder,
    ) -> ConsumerMember:
        if request.instance_id is not None:
            return self.static_member(
                group, request.instance_id, member_id, request, joins=joins, decision=decision
            )
        member = group.members.get(member_id)
        if member is None:
            if not joins:
                return group.member(member_id)  # This raises UNKNOWN_MEMBER_ID.
            return ConsumerMember(member_id)
        check_epoch(member, request.member_epoch, owned_by(request))
        return member

    def static_member(
        self,
        group: ConsumerGroup,
        instance_id: str,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest | None,
        *,
        joins: bool,
        decision: DecisionBuilder,
    ) -> ConsumerMember:
        """Return the member of `instance_id`. A member that joins replaces the earlier one.

        `request` is None for a member of the classic protocol. Raises UNKNOWN_MEMBER_ID,
        FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH.
        """
        holder = group.static_member(instance_id)
        if not joins:
            if holder is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown."
                )
            check_instance(holder, member_id, instance_id)
            if request is not None:
                check_epoch(holder, request.member_epoch, owned_by(request))
            return holder
        if holder is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if (
            request is not None
            and holder.classic is None
            and holder.member_epoch != LEAVE_STATIC_EPOCH
        ):
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {holder.member_id} member.",
            )
        # The new member keeps the partitions of the earlier one.
        heir = replace(holder, member_id=member_id, member_epoch=JOIN_EPOCH, previous_epoch=0)
        group_id = group.group_id
        decision.records += [
            *records.member_tombstones(group_id, holder.member_id),
            records.member_metadata(group_id, heir),
            records.target_member(group_id, member_id, group.target_of(holder)),
            records.current_assignment(group_id, heir),
        ]
        if holder.member_id != member_id:
            self._cancel_timers(group_id, holder.member_id, decision)
        return heir

    # Epochs and assignments

    def advance(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        decision: DecisionBuilder,
    ) -> Advance:
        """Decide steps 1 to 3 of a heartbeat that changes `member` to `updated`.

        Raises INVALID_REGULAR_EXPRESSION.
        """
        group_id = group.group_id
        if updated is not member:
            decision.records.append(records.member_metadata(group_id, updated))
        names_changed = updated.topics != member.topics
        regex_changed = updated.regex != member.regex
        resolved, rematched = self._resolve(group, member, updated, decision)
        # The epoch rises when a new expression is resolved, not before.
        known = not updated.regex or updated.regex in resolved
        bump = names_changed or rematched or (regex_changed and known)
        epoch = group.epoch
        if bump or group.must_refresh(decision.now_ms):
            read = group.subscriptions((member,), (updated,), resolved)
            metadata_hash = self.topics.hash_of(read)
            if bump or metadata_hash != group.metadata_hash:
                epoch += 1
                decision.records.append(records.group_epoch(group_id, epoch, metadata_hash))
            group.refreshed(decision.now_ms + NEVER_MS, epoch)
            if group.has_partition_metadata:
                decision.records.append(records.partition_metadata_tombstone(group_id))
        return Advance(
            self._target(group, epoch, member, updated, resolved, decision),
            epoch,
            topics_of(updated, resolved),
            names_changed or regex_changed,
        )

    def _resolve(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        decision: DecisionBuilder,
    ) -> tuple[Mapping[str, Resolved], bool]:
        """Return the topics that the expressions match, and whether these have just changed."""
        old, new = member.regex, updated.regex
        is_new = new != old and new != "" and not group.regexes[new]
        if is_new:
            check_regex(new)
        resolved: Mapping[str, Resolved] = group.resolved
        if old and old != new and group.regexes[old] == 1 and old in resolved:
            decision.records.append(records.regex_tombstone(group.group_id, old))
            resolved = {regex: found for regex, found in resolved.items() if regex != old}
        wanted = {regex for regex in group.regexes if regex != old or group.regexes[old] > 1}
        if new:
            wanted.add(new)
        if (
            not wanted
            or group.group_id in self._computing
            or not self._must_resolve(wanted, resolved, decision.now_ms)
        ):
            return resolved, False
        image, may_describe = self.topics.image, decision.may_describe
        if len(wanted) * len(image.topics) > INLINE_MATCHES_MAX:
            self.compute(
                group.group_id,
                decision,
                Compute(
                    lambda: matching(wanted, image.topics, may_describe),
                    lambda machine, found, now_ms: machine.consumer.matched(
                        group.group_id, found, image.offset, now_ms
                    ),
                ),
            )
            return resolved, False
        found = matching(sorted(wanted), image.topics, may_describe)
        decision.records += self._resolved_records(group, found, image.offset, decision.now_ms)
        now = {
            regex: Resolved(topics, image.offset, decision.now_ms)
            for regex, topics in found.items()
        }
        rematched = any(
            regex not in resolved or resolved[regex].topics != topics
            for regex, topics in found.items()
        )
        return now, rematched

    def _must_resolve(
        self, wanted: set[str], resolved: Mapping[str, Resolved], now_ms: int
    ) -> bool:
        if not wanted <= resolved.keys():
            return True
        last = next(iter(resolved.values()))
        if now_ms <= last.timestamp_ms + REGEX_REFRESH_PAUSE_MS:
            return False
        return (
            last.version < self.topics.new_topics_at
            or now_ms > last.timestamp_ms + self.settings.consumer.regex_refresh_interval_ms
        )

    def _resolved_records(
        self,
        group: ConsumerGroup,
        found: Mapping[str, frozenset[str]],
        version: int,
        now_ms: int,
    ) -> list[Record]:
        return [
            records.resolved_regex(group.group_id, regex, topics, version, now_ms)
            for regex, topics in found.items()
        ]

    def matched(
        self, group_id: str, found: Mapping[str, frozenset[str]], version: int, now_ms: int
    ) -> Decision[Record, None]:
        """Write the topics of a group's expressions, which were resolved off the loop. If they
        changed, a new epoch begins."""
        decision = DecisionBuilder(now_ms=now_ms)
        self._computing.discard(group_id)
        group = self.groups.get_of(ConsumerGroup, group_id)
        if group is None:
            return decision
        found = {regex: topics for regex, topics in found.items() if group.regexes[regex]}
        decision.records += self._resolved_records(group, found, version, now_ms)
        resolved = dict(group.resolved)
        changed = False
        for regex, topics in found.items():
            changed |= regex not in resolved or resolved[regex].topics != topics
            resolved[regex] = Resolved(topics, version, now_ms)
        metadata_hash = self.topics.hash_of(group.subscriptions(resolved=resolved))
        if changed or metadata_hash != group.metadata_hash:
            epoch = group.epoch + 1
            decision.records.append(records.group_epoch(group_id, epoch, metadata_hash))
            group.refreshed(now_ms + NEVER_MS, epoch)
        return decision

    def _target(
        self,
        group: ConsumerGroup,
        epoch: int,
        member: ConsumerMember,
        updated: ConsumerMember,
        resolved: Mapping[str, Resolved],
        decision: DecisionBuilder,
    ) -> Target:
        if not self.target_is_due(group, epoch, decision.now_ms):
            return Target(group.assignment_epoch, group.target_of(updated))
        spec = group_spec(group, self.topics, resolved, updated)
        default = self.settings.consumer.assignors[0]
        assignor = SERVER_ASSIGNORS[group.preferred_assignor(default, member, updated)]
        if spec.work > INLINE_WORK_MAX:
            self.compute(
                group.group_id,
                decision,
                Compute(
                    lambda: assignor.assign(spec),
                    lambda machine, assignments, now_ms: machine.consumer.assigned(
                        group.group_id, spec, assignments, epoch, now_ms
                    ),
                ),
            )
            return Target(group.assignment_epoch, group.target_of(updated))
        assignments = assignor.assign(spec)
        decision.records += self.target_records(group, assignments, epoch, decision.now_ms)
        return Target(epoch, assignments[updated.member_id])

    def assigned(
        self,
        group_id: str,
        spec: GroupSpec,
        assignments: Mapping[str, Assignment],
        epoch: int,
        now_ms: int,
    ) -> Decision[Record, None]:
        """Write a target assignment that was computed off the loop for the group as described by
        `spec`."""
        decision = DecisionBuilder(now_ms=now_ms)
        self._computing.discard(group_id)
        group = self.groups.get_of(ConsumerGroup, group_id)
        if group is not None and group.assignment_epoch < epoch <= group.epoch:
            kept = without_departed(group, spec, assignments)
            decision.records = self.target_records(group, kept, epoch, now_ms)
        return decision

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        advance: Advance,
        owned: Owned | None,
        decision: DecisionBuilder,
    ) -> ConsumerMember:
        """Decide step 4 of a heartbeat. Raises FENCED_MEMBER_EPOCH."""
        target = advance.target
        if not advance.subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        moved = reconcile(
            member,
            target,
            self.topics.ids(advance.read).__contains__,
            group.is_held,
            owned,
            subscription_changed=advance.subscription_changed,
        )
        if moved != member:
            decision.records.append(records.current_assignment(group.group_id, moved))
            if moved.classic is None:
                key = (REBALANCE, group.group_id, moved.member_id)
                if moved.state is MemberState.UNREVOKED_PARTITIONS:
                    decision.schedule(key, moved.rebalance_timeout_ms)
                else:
                    decision.cancel(key)
        return moved

    # Leaving members

    def _leave(self, request: ConsumerGroupHeartbeatRequest, decision: DecisionBuilder) -> None:
        group = self.groups.find_of(ConsumerGroup, request.group_id)
        decision.reply = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is None:
            self.fence(group, [group.member(request.member_id)], decision)
            return
        member = group.static_member(request.instance_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown."
            )
        check_instance(member, request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            # The replacing member begins at epoch 0, and may commit offsets for its partitions at
            # once.
            kept = {topic_id: dict.fromkeys(ps, 0) for topic_id, ps in member.assigned.items()}
            gone = replace(member, member_epoch=LEAVE_STATIC_EPOCH, assigned=kept, revoking={})
            decision.records.append(records.current_assignment(group.group_id, gone))
        else:
            self.fence(group, [member], decision)

    def fence(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], decision: DecisionBuilder
    ) -> None:
        """Remove members that left, whose session or rebalance timeout expired, or that broke the
        rules of the protocol. If only members of the classic protocol remain, the group may become
        a classic one."""
        if not members:
            return
        group_id = group.group_id
        gone = {member.member_id for member in members}
        for member_id in gone:
            self._cancel_timers(group_id, member_id, decision)
        if may_downgrade(group, gone, self.settings):
            self._downgrade(group, gone, decision)
            return
        for member in members:
            decision.records += records.member_tombstones(group_id, member.member_id)
        going = Counter(member.regex for member in members if member.regex)
        for regex, count in going.items():
            if group.regexes[regex] == count:
                decision.records.append(records.regex_tombstone(group_id, regex))
        metadata_hash = self.topics.hash_of(group.subscriptions(members))
        decision.records.append(records.group_epoch(group_id, group.epoch + 1, metadata_hash))

    def _downgrade_if_due(self, group_id: str, decision: DecisionBuilder) -> None:
        """Convert the group to a classic one, if allowed, after a classic member replaced the last
        member of the consumer protocol. The assignment stays, because no member has left."""
        group = self.groups.get_of(ConsumerGroup, group_id)
        if group is not None and may_downgrade(group, (), self.settings):
            self._downgrade(group, set(), decision)

    def _downgrade(self, group: ConsumerGroup, gone: set[str], decision: DecisionBuilder) -> None:
        staying = [m for m in group.members.values() if m.member_id not in gone]
        decision.records += group.tombstones()
        decision.records.append(classic_record(group, staying, self.topics, decision.now_ms))
        for member in staying:
            assert member.classic is not None
            for timer in (REBALANCE, JOIN, SYNC):
                decision.cancel((timer, group.group_id, member.member_id))
            decision.schedule(
                (SESSION, group.group_id, member.member_id), member.classic.session_timeout_ms
            )
        if gone:
            decision.schedule((DOWNGRADED, group.group_id), 0)

    def _cancel_timers(self, group_id: str, member_id: str, decision: DecisionBuilder) -> None:
        for timer in (SESSION, REBALANCE, JOIN, SYNC):
            decision.cancel((timer, group_id, member_id))

    # Timers

    def fire(self, key: tuple[Any, ...], decision: DecisionBuilder) -> None:
        """See `GroupsOfType`."""
        if key[0] == REPLACED:
            self._downgrade_if_due(key[1], decision)
            return
        group = self.groups.get_of(ConsumerGroup, key[1])
        member = group.members.get(key[2]) if group is not None else None
        if group is None or member is None:
            return
        if key[0] == JOIN:
            group.joining.discard(member.member_id)
        if key[0] != REBALANCE or member.state is MemberState.UNREVOKED_PARTITIONS:
            self.fence(group, [member], decision)

    def loaded(self, decision: DecisionBuilder) -> None:
        """See `GroupsOfType`."""
        for group in self.groups.all_of(ConsumerGroup):
            session_ms = self.settings_of(group.group_id).session_timeout_ms
            for member in group.members.values():
                classic = member.classic
                decision.schedule(
                    (SESSION, group.group_id, member.member_id),
                    session_ms if classic is None else classic.session_timeout_ms,
                )
                if member.state is MemberState.UNREVOKED_PARTITIONS and classic is None:
                    decision.schedule(
                        (REBALANCE, group.group_id, member.member_id),
                        member.rebalance_timeout_ms,
                    )

    # The cluster

    def follow(self, image: MetadataImage, delta: Changes, decision: DecisionBuilder) -> None:
        """See `GroupsOfType`. Groups whose topics changed check them at the next heartbeat."""
        self.use_cluster_settings(image)
        changed = delta.topics_reassigned
        if changed:
            for group in self.groups.all_of(ConsumerGroup):
                if group.reads_any(changed):
                    group.request_refresh()

    # Records and descriptions

    def replay_value(self, group: ConsumerGroup, key: Message, value: Message) -> None:
        """See `ModernGroups`."""
        replay(group, key, value)

    def describe(self, group_id: str) -> DescribedGroup:
        """See `GroupsOfType`."""
        group = self.groups.find_of(ConsumerGroup, group_id)
        return describe(group, self.topics, self.settings.consumer.assignors[0])
