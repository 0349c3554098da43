"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, as decisions (KIP-62,
345, 394, 559, 800, 814).

A rebalance has two phases. *Join*: the group is PreparingRebalance. Every member's JoinGroup waits
until all members have joined, or until the longest rebalance timeout expires and the missing
members are removed. Then the generation rises, a protocol is chosen by vote, and all members are
answered, the leader with everyone's metadata. *Sync*: the group is CompletingRebalance. Every
member's SyncGroup waits until the leader's SyncGroup delivers the assignments, which are written to
the log. With that record the group becomes Stable.

The rebalance of an empty group is special: all members join at nearly the same time when a service
starts, so the join phase lasts at least `group.initial.rebalance.delay.ms`, and is extended while
new members join, up to the rebalance timeout.

Four timers run: a member's session; the time that a new or pending member has to continue; the join
phase; the sync phase. A member with a waiting request counts as alive even if its session has
expired.
"""

from __future__ import annotations

from typing import Any, Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.classic.describe import describe
from pk.core.group.classic.group import ClassicGroup, Member, State, Token
from pk.core.group.join import Join
from pk.core.group.records import Record, empty_group_metadata
from pk.core.group.registry import Groups
from pk.core.group.settings import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    Client,
    DecisionBuilder,
    GroupSettings,
    NewId,
)
from pk.core.group.timer_keys import DOWNGRADED, JOIN, SESSION, SYNC
from pk.core.meta.image import Changes, MetadataImage
from pk.core.values import STRING_BYTES_MAX
from pk.core.wire.messages.describe_groups import DescribedGroup
from pk.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pk.core.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from pk.core.wire.messages.offsets_topic import GroupMetadataKey, GroupMetadataValue
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SKIP_ASSIGNMENT_SINCE: Final = 9
PROTOCOL_MANDATORY_SINCE: Final = 5
"""The first version of SyncGroup that must contain the protocol type and name (KIP-559)."""

NAME_BYTES_MAX: Final = STRING_BYTES_MAX - len("-00000000-0000-0000-0000-000000000000")
"""The maximum length of the client id or instance id with which a member id begins."""


class ClassicGroups:
    """All classic groups of one partition of `__consumer_offsets`. Every method that decides takes
    a `DecisionBuilder` and fills it."""

    def __init__(self, settings: GroupSettings, new_id: NewId, groups: Groups) -> None:
        self.settings = settings
        self.groups = groups
        self._new_id = new_id
        self._loading = True
        """Whether the log is being loaded. Meanwhile, a record contains a group's whole state;
        afterwards, it confirms a decision of this coordinator."""

    # JoinGroup

    def join(self, join: Join, decision: DecisionBuilder) -> None:
        """Decide JoinGroup, which is answered now or later."""
        request, token = join.request, join.token
        error = self._join_refusal(request, join.client)
        if error is not None:
            decision.answer(token, _join_error(request.member_id, error))
            return
        group = self.groups.get_of(ClassicGroup, request.group_id)
        created = False
        if group is None:
            if request.member_id:
                decision.answer(token, _join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
                return
            group = ClassicGroup(request.group_id, state_timestamp_ms=decision.now_ms)
            self.groups.put(group)
            created = True
        if not self._has_room(group, request.member_id):
            group.remove(request.member_id)
            decision.answer(token, _join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
        elif not group.supports(request.protocol_type, [p.name for p in request.protocols]):
            decision.answer(
                token, _join_error(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            )
        elif request.member_id:
            self._join_known(group, join, decision)
        else:
            self._join_new(group, join, decision)
        if created and not decision.records:
            decision.records.append(empty_group_metadata(group.group_id, group.state_timestamp_ms))

    def _join_refusal(self, request: JoinGroupRequest, client: Client) -> ErrorCode | None:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        settings = self.settings
        if not (
            settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= settings.max_session_timeout_ms
        ):
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if not _fits_a_record(request, client):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return None

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether `group.max.size` allows this member to join. While a rebalance is being prepared,
        only waiting members count, so a group that has become too large drops the last members to
        rejoin."""
        size_max = self.settings.max_size
        member = group.members.get(member_id)
        if group.state is State.PREPARING_REBALANCE:
            return (member is not None and member.awaits_join) or group.joining < size_max
        if group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            return member is not None or len(group.members) < size_max
        return True

    def _join_new(self, group: ClassicGroup, join: Join, decision: DecisionBuilder) -> None:
        instance_id = join.request.group_instance_id
        named = join.client.client_id if instance_id is None else instance_id
        member_id = f"{named}-{self._new_id()}"
        if instance_id is not None and instance_id in group.static_members:
            self._rejoin_static(group, join, member_id, decision)
        elif join.needs_member_id:
            group.pending_join.add(member_id)
            timer = (SESSION, group.group_id, member_id)
            decision.schedule(timer, join.request.session_timeout_ms)
            decision.answer(join.token, _join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
        else:
            self._add(group, join, member_id, decision)

    def _join_known(self, group: ClassicGroup, join: Join, decision: DecisionBuilder) -> None:
        request, token, member_id = join.request, join.token, join.request.member_id
        if member_id in group.pending_join:
            if request.group_instance_id is not None:
                decision.answer(token, _join_error(member_id, ErrorCode.UNKNOWN_SERVER_ERROR))
                return
            self._add(group, join, member_id, decision)
            return
        try:
            member = group.check_member(member_id, request.group_instance_id)
        except KafkaError as e:
            decision.answer(token, _join_error(member_id, ErrorCode(e.code)))
            return
        same = member.protocols == join.protocols
        leads = group.leader == member_id
        if group.state is State.COMPLETING_REBALANCE and same:
            # The member may have missed the response, so repeat it.
            decision.answer(token, _joined(group, member, with_members=leads))
        elif group.state is State.STABLE and same and not leads:
            decision.answer(token, _joined(group, member, with_members=False))
        else:
            # A leader that joins again requests a rebalance, even with the same metadata, because
            # topics may have changed.
            superseded = group.update(member, join, token)
            decision.answer(superseded, _join_error(member_id, ErrorCode.REBALANCE_IN_PROGRESS))
            self._rebalance_or_complete(group, decision)

    def _add(
        self, group: ClassicGroup, join: Join, member_id: str, decision: DecisionBuilder
    ) -> None:
        request, client = join.request, join.client
        member = Member(
            member_id,
            request.group_instance_id,
            client.client_id,
            client.client_host,
            join.rebalance_timeout_ms,
            request.session_timeout_ms,
            join.protocols,
            is_new=True,
        )
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member, join.token)
        decision.schedule((SESSION, group.group_id, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance_or_complete(group, decision)

    def _rejoin_static(
        self, group: ClassicGroup, join: Join, member_id: str, decision: DecisionBuilder
    ) -> None:
        """Let a static member that has restarted without its id take its old place under a new id
        (KIP-345)."""
        instance_id, version, token = join.request.group_instance_id, join.version, join.token
        assert instance_id is not None
        leader_before = group.leader
        old, member = group.replace_static(instance_id, member_id)
        decision.answer(old.join_token, _join_error(old.member_id, ErrorCode.FENCED_INSTANCE_ID))
        decision.answer(old.sync_token, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        decision.cancel((SESSION, group.group_id, old.member_id))
        if old.member_id in group.pending_sync:
            group.pending_sync.discard(old.member_id)
            group.pending_sync.add(member_id)
        keeps_generation = group.state is State.STABLE
        group.update(member, join, None if keeps_generation else token)
        decision.schedule((SESSION, group.group_id, member_id), member.session_timeout_ms)
        if keeps_generation and group.select_protocol() == group.protocol:
            # The other members need not know of the new id, but the log must contain it before the
            # response.
            decision.revert = lambda: group.undo_replace_static(old, member)
            decision.records.append(
                group.record({m.member_id: m.assignment for m in group.members.values()})
            )
            leads = group.leader == member_id and version >= SKIP_ASSIGNMENT_SINCE
            response = _joined(group, member, with_members=leads)
            response.skip_assignment = leads
            if version < SKIP_ASSIGNMENT_SINCE:
                # The member must not learn that it leads, or it would compute an assignment again.
                # Therefore it gets the leader's old id (KIP-814).
                response.leader = leader_before or ""
            decision.answer(token, response)
            return
        if keeps_generation:
            member.join_token = token
            group.joining += 1
        if group.state is State.PREPARING_REBALANCE:
            self._maybe_complete_join(group, decision)
        else:
            # In the sync phase, the leader may already be assigning partitions to the old id, so
            # all members rejoin.
            self._prepare(group, decision)

    # The join phase

    def _rebalance_or_complete(self, group: ClassicGroup, decision: DecisionBuilder) -> None:
        if group.can_rebalance:
            self._prepare(group, decision)
        else:
            self._maybe_complete_join(group, decision)

    def _prepare(self, group: ClassicGroup, decision: DecisionBuilder) -> None:
        """Begin a rebalance."""
        if group.state is State.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                self._answer_sync(
                    group,
                    member,
                    SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS),
                    decision,
                )
        group.pending_sync.clear()
        decision.cancel((SYNC, group.group_id))
        initial = group.state is State.EMPTY
        group.become(State.PREPARING_REBALANCE, decision.now_ms)
        if initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            group.new_member_added = False
            group.initial_delay_ms = delay_ms
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            decision.schedule((JOIN, group.group_id), delay_ms)
        elif group.all_joined:
            self._complete_join(group, decision)
        else:
            decision.schedule((JOIN, group.group_id), group.rebalance_timeout_ms)

    def _maybe_complete_join(self, group: ClassicGroup, decision: DecisionBuilder) -> None:
        if (
            group.state is State.PREPARING_REBALANCE
            and group.previous_state is not State.EMPTY
            and group.all_joined
        ):
            self._complete_join(group, decision)

    def _initial_delay_expired(self, group: ClassicGroup, decision: DecisionBuilder) -> None:
        if not group.new_member_added or group.initial_remaining_ms == 0:
            self._complete_join(group, decision)
            return
        group.new_member_added = False
        delay_ms = min(self.settings.initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        decision.schedule((JOIN, group.group_id), delay_ms)

    def _complete_join(self, group: ClassicGroup, decision: DecisionBuilder) -> None:
        """End the join phase: remove members that have not joined (static members stay), and begin
        the next generation."""
        decision.cancel((JOIN, group.group_id))
        absent = [m for m in group.members.values() if not (m.awaits_join or m.is_static)]
        for member in absent:
            group.remove(member.member_id)
            decision.cancel((SESSION, group.group_id, member.member_id))
        if group.members and not group.elect_joined_leader():
            # There are only static members, and none has rejoined: wait until their sessions
            # expire.
            decision.schedule((JOIN, group.group_id), group.rebalance_timeout_ms)
            return
        group.next_generation(decision.now_ms)
        if group.state is State.EMPTY:
            decision.records.append(group.record({}))
            return
        for member in group.members.values():
            joined = _joined(group, member, with_members=group.leader == member.member_id)
            decision.answer(group.take_join_token(member), joined)
            member.is_new = False
            group.pending_sync.add(member.member_id)
            self._restart_session(group, member, decision)
        decision.schedule((SYNC, group.group_id), group.rebalance_timeout_ms)

    # SyncGroup

    def sync(
        self, request: SyncGroupRequest, version: int, token: Token, decision: DecisionBuilder
    ) -> None:
        """Decide SyncGroup, which is answered through `token`, now or later."""
        group = self.groups.get_of(ClassicGroup, request.group_id)
        try:
            if not request.group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID)
            if version >= PROTOCOL_MANDATORY_SINCE and (
                request.protocol_type is None or request.protocol_name is None
            ):
                raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group is None or group.state is State.EMPTY:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            member = group.check_member(request.member_id, request.group_instance_id)
            _check_sync(group, request)
        except KafkaError as e:
            decision.answer(token, SyncGroupResponse(error_code=e.code))
            return
        self._remove_pending_sync(group, member, decision)
        if group.state is State.STABLE:
            decision.answer(token, _synced(group, member.assignment))
            return
        decision.answer(
            member.sync_token, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        )
        member.sync_token = token
        if group.leader == member.member_id:
            assignments = {a.member_id: a.assignment for a in request.assignments}
            decision.records.append(group.record(assignments))
            for each in group.members.values():
                response = _synced(group, assignments.get(each.member_id, b""))
                self._answer_sync(group, each, response, decision)

    def _remove_pending_sync(
        self, group: ClassicGroup, member: Member, decision: DecisionBuilder
    ) -> None:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            decision.cancel((SYNC, group.group_id))

    def _sync_timed_out(self, group: ClassicGroup, decision: DecisionBuilder) -> None:
        """End a sync phase that has lasted too long: remove the members that did not sync, and make
        the others rejoin."""
        if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_sync:
            return
        for member_id in sorted(group.pending_sync):
            group.remove(member_id)
            decision.cancel((SESSION, group.group_id, member_id))
        self._prepare(group, decision)

    def _answer_sync(
        self,
        group: ClassicGroup,
        member: Member,
        response: SyncGroupResponse,
        decision: DecisionBuilder,
    ) -> None:
        token, member.sync_token = member.sync_token, None
        if token is not None:
            decision.answer(token, response)
            self._restart_session(group, member, decision)

    # Heartbeat and LeaveGroup

    def heartbeat(self, request: HeartbeatRequest, decision: DecisionBuilder) -> None:
        """Decide Heartbeat. Raises INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        ILLEGAL_GENERATION."""
        group = self.groups.get_of(ClassicGroup, request.group_id)
        if group is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
            )
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        self._restart_session(group, member, decision)
        decision.reply = HeartbeatResponse()
        if group.state is State.PREPARING_REBALANCE:
            decision.reply.error_code = ErrorCode.REBALANCE_IN_PROGRESS

    def leave(self, request: LeaveGroupRequest, version: int, decision: DecisionBuilder) -> None:
        """Decide LeaveGroup, which names members by id or, from an admin, static members by
        instance id alone (KIP-345)."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get_of(ClassicGroup, request.group_id)
        identities = (
            request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]
        )
        results: list[MemberResponse] = []
        left = False
        for identity in identities:
            error = self._leave(group, identity, decision)
            left = left or error == ErrorCode.NONE
            results.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error,
                )
            )
        if version >= 3:
            decision.reply = LeaveGroupResponse(members=results)
        else:
            decision.reply = LeaveGroupResponse(error_code=results[0].error_code)
        if group is not None and left:
            if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
                self._prepare(group, decision)
            else:
                self._maybe_complete_join(group, decision)

    def _leave(
        self, group: ClassicGroup | None, identity: MemberIdentity, decision: DecisionBuilder
    ) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id:
            if instance_id is None or instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[instance_id]
        elif member_id in group.pending_join:
            group.remove(member_id)
            decision.cancel((SESSION, group.group_id, member_id))
            return ErrorCode.NONE
        error = group.member_error(member_id, instance_id)
        if error is not None:
            return error
        decision.cancel((SESSION, group.group_id, member_id))
        self._remove_member(group, group.members[member_id], decision)
        return ErrorCode.NONE

    def _remove_member(
        self, group: ClassicGroup, member: Member, decision: DecisionBuilder
    ) -> None:
        """Remove a member. Its waiting requests are answered with UNKNOWN_MEMBER_ID, so that it
        joins again."""
        decision.answer(group.take_join_token(member), _join_error("", ErrorCode.UNKNOWN_MEMBER_ID))
        decision.answer(
            member.sync_token, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        )
        group.remove(member.member_id)

    def rebalance(self, group_id: str, decision: DecisionBuilder) -> None:
        """Begin a rebalance that no member has requested."""
        group = self.groups.get_of(ClassicGroup, group_id)
        if group is not None and group.state is State.STABLE:
            self._prepare(group, decision)

    # Timers

    def restart_session(
        self, group: ClassicGroup, member_id: str, decision: DecisionBuilder
    ) -> None:
        """Restart a member's session after a commit, which counts as a heartbeat."""
        self._restart_session(group, group.members[member_id], decision)

    def _restart_session(
        self, group: ClassicGroup, member: Member, decision: DecisionBuilder
    ) -> None:
        decision.timers.append(
            (
                (SESSION, group.group_id, member.member_id),
                decision.now_ms + member.session_timeout_ms,
            )
        )

    def fire(self, key: tuple[Any, ...], decision: DecisionBuilder) -> None:
        """See `GroupsOfType`."""
        if key[0] == DOWNGRADED:
            self.rebalance(key[1], decision)
            return
        group = self.groups.get_of(ClassicGroup, key[1])
        if group is None:
            return
        if key[0] == SESSION:
            self._session_expired(group, key[2], decision)
        elif key[0] == SYNC:
            self._sync_timed_out(group, decision)
        elif group.state is State.PREPARING_REBALANCE:
            if group.previous_state is State.EMPTY:
                self._initial_delay_expired(group, decision)
            else:
                self._complete_join(group, decision)

    def _session_expired(
        self, group: ClassicGroup, member_id: str, decision: DecisionBuilder
    ) -> None:
        if member_id in group.pending_join:
            group.remove(member_id)
        else:
            member = group.members.get(member_id)
            if member is None or not member.heartbeat_is_due:
                return
            self._remove_member(group, member, decision)
            if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
                self._prepare(group, decision)
                return
        self._maybe_complete_join(group, decision)

    # The log

    def replay(self, record: Record) -> None:
        """See `GroupsOfType`."""
        key, value = record
        assert isinstance(key, GroupMetadataKey)
        group = self.groups.get_of(ClassicGroup, key.group)
        if value is None:
            if group is not None:
                del self.groups[key.group]
                group.become(State.DEAD, group.state_timestamp_ms)
            return
        assert isinstance(value, GroupMetadataValue)
        if self._loading or group is None:
            self.groups.put(ClassicGroup.loaded(key.group, value))
        else:
            group.replayed(value)

    def loaded(self, decision: DecisionBuilder) -> None:
        """See `GroupsOfType`."""
        self._loading = False
        for group in self.groups.all_of(ClassicGroup):
            for member in group.members.values():
                self._restart_session(group, member, decision)
            if len(group.members) > self.settings.max_size and group.can_rebalance:
                self._prepare(group, decision)

    # The cluster

    def follow(self, image: MetadataImage, delta: Changes, decision: DecisionBuilder) -> None:
        """See `GroupsOfType`. Does nothing: the members watch their topics themselves."""

    # Descriptions

    def describe(self, group_id: str) -> DescribedGroup:
        """See `GroupsOfType`."""
        return describe(self.groups.find_of(ClassicGroup, group_id))


def _fits_a_record(request: JoinGroupRequest, client: Client) -> bool:
    """Whether the group's record can hold the member's strings. The longest is its future member
    id."""
    instance_id = request.group_instance_id
    named = client.client_id if instance_id is None else instance_id
    texts = [request.protocol_type, *(p.name for p in request.protocols)]
    return len(named.encode()) <= NAME_BYTES_MAX and all(
        len(text.encode()) <= STRING_BYTES_MAX for text in texts
    )


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for asked, have in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol),
    ):
        if asked is not None and have is not None and asked != have:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)


def _joined(group: ClassicGroup, member: Member, *, with_members: bool) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=group.response_members() if with_members else [],
    )


def _join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)


def _synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment
    )
