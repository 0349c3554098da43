"""Streams groups of KIP-1071: StreamsGroupHeartbeat as decisions, and the timeouts of members.

A heartbeat may carry the member's topology, its description and its current tasks, and shows that
it is alive. The coordinator answers with the member's epoch and, if they changed, its tasks.
Between request and response, there are these steps:

1. The member is created or changed; the first member sets the group's topology.
2. The topology is applied to the topics of the cluster, if one of them changed (configured.py).
   Anything missing becomes a status in the response; missing internal topics are an effect: the
   broker creates them (`CreateInternalTopics`).
3. If any of this changed, the group epoch goes up.
4. If the group epoch is ahead of the target assignment, the assignor computes a new one: here for a
   small group, off the loop for a large one. A new group waits for more members first, and there is
   a minimum interval between two assignments.
5. The member takes the next step towards its target (reconcile.py).

A decision reads the group as it was; later steps get the changes of earlier ones as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.group.modern_groups import NEVER_MS, ModernGroups
from pk.core.group.records import Record
from pk.core.group.registry import Groups, not_of_type
from pk.core.group.settings import Client, DecisionBuilder, GroupSettings, StreamsGroupSettings
from pk.core.group.streams import records
from pk.core.group.streams.configured import ConfiguredTopology, configure
from pk.core.group.streams.describe import describe
from pk.core.group.streams.group import StreamsGroup
from pk.core.group.streams.internal_topics import CreateInternalTopics, InternalTopics
from pk.core.group.streams.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    NO_TOPOLOGY_EPOCH,
    MemberState,
    StreamsMember,
)
from pk.core.group.streams.partition_counts import StatusCode
from pk.core.group.streams.reconcile import Target, reconcile
from pk.core.group.streams.replay import replay
from pk.core.group.streams.request import (
    check_epoch,
    check_request,
    check_tasks,
    member_updates,
    owned_by,
)
from pk.core.group.streams.sticky import (
    StreamsGroupSpec,
    StreamsMemberSpec,
    SubtopologySpec,
    assign,
)
from pk.core.group.streams.tasks import NO_TASKS, HeldTasks, Tasks
from pk.core.group.streams.topology import Topology, topology_of_request
from pk.core.group.timer_keys import INITIAL_DELAY, REBALANCE, SESSION
from pk.core.group.topics import Topics
from pk.core.machine import Compute, Decision
from pk.core.meta.image import Changes, MetadataImage
from pk.core.wire.messages.streams_group_describe import DescribedGroup
from pk.core.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from pk.core.wire.schema import Message

INLINE_WORK_MAX: Final = 500
"""The largest group whose target assignment is computed on the loop, in units of
`StreamsGroupSpec.work`, which take 10 to 20 µs each."""

STANDBY_REPLICAS: Final = "num.standby.replicas"
"""The only config of the assignor."""


class _Configured(NamedTuple):
    """The result of the part of steps 1 and 2 that concerns the topology."""

    topology: Topology
    configured: ConfiguredTopology
    metadata_hash: int


class StreamsGroups(ModernGroups[StreamsGroup, StreamsGroupSettings]):
    """The streams groups of one partition of `__consumer_offsets`. Every method that decides fills
    a `DecisionBuilder`."""

    def __init__(self, settings: GroupSettings, groups: Groups, topics: Topics) -> None:
        """Create the groups. `topics` are the cluster's; their owner keeps them up to date."""
        super().__init__(StreamsGroup, settings.streams, groups, topics, records)
        self.internal_topics = InternalTopics()
        self._delayed: set[str] = set()
        """Soft: new groups that wait for more members."""

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic, or None if it does not exist."""
        found = self.topics.image.topics.get(topic)
        return None if found is None else len(found.partitions)

    # --- heartbeats ---

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, decision: DecisionBuilder
    ) -> None:
        """Decide StreamsGroupHeartbeat 0.

        Raises INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, GROUP_ID_NOT_FOUND,
        GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
        """
        check_request(request)
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            self._leave(request, decision)
            return
        group_id, member_id = request.group_id, request.member_id
        joins = request.member_epoch == JOIN_EPOCH
        group = self._group(group_id, joins, decision)
        member = group.members.get(member_id) if joins else group.member(member_id)
        member = member or StreamsMember(member_id)
        owned = owned_by(request)
        check_epoch(member, request.member_epoch, owned)
        updated = replace(member, **member_updates(request, client))
        changed = updated != member
        if changed:
            decision.records.append(records.member_metadata(group_id, updated))
        response = StreamsGroupHeartbeatResponse(member_id=member_id)
        statuses: list[Status] = []
        response.status = statuses
        found = self._configure(group, request, updated, statuses, decision)
        if found.configured.is_ready:
            subtopologies = found.configured.subtopologies or {}
            check_tasks(request.active_tasks, subtopologies)
            check_tasks(request.standby_tasks, subtopologies)
        epoch = self._epoch(group, found, changed, decision)
        own = self.settings_of(group_id)
        if group.is_empty and own.initial_rebalance_delay_ms > 0:
            self._delay(group_id, own.initial_rebalance_delay_ms, decision)
        target = self._target(group, epoch, updated, found.configured, statuses, decision)
        moved = self._reconcile(group, updated, target, owned, decision)
        decision.schedule((SESSION, group_id, member_id), own.session_timeout_ms)
        if request.shutdown_application:
            group.shutdown_member_id = group.shutdown_member_id or member_id
        response.member_epoch = moved.member_epoch
        response.heartbeat_interval_ms = own.heartbeat_interval_ms
        if joins or moved.assigned != member.assigned:
            _set_tasks(response, moved.assigned)
            group.endpoints.changed(moved)
        self._set_endpoints(request, response, group, moved, found.configured)
        self._add_problem_statuses(response, group, found.configured, own, statuses, decision)
        decision.reply = response

    def _group(self, group_id: str, joins: bool, decision: DecisionBuilder) -> StreamsGroup:
        """Return the group. A member that joins creates a missing group, or replaces an empty
        classic group.

        Raises GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED.
        """
        group = self.groups.get(group_id)
        if group is None and not joins:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
        if group is None:
            group = StreamsGroup(group_id)
        elif joins and group.type is GroupType.CLASSIC and group.is_empty:
            decision.records += group.tombstones()
            group = StreamsGroup(group_id)
        elif not isinstance(group, StreamsGroup):
            raise not_of_type(group_id, GroupType.STREAMS)
        if joins:
            self.check_room(group)
        return group

    # --- the topology ---

    def _configure(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        updated: StreamsMember,
        statuses: list[Status],
        decision: DecisionBuilder,
    ) -> _Configured:
        """Decide the part of steps 1 and 2 of a heartbeat that concerns the topology."""
        topology = self._topology(group, request, decision)
        known = group.topology
        if known is not None and updated.topology_epoch < known.epoch:
            _add_status(
                statuses,
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {updated.topology_epoch} is behind the group's "
                f"topology epoch {known.epoch}.",
            )
        metadata_hash, configured = group.metadata_hash, group.configured
        if known is None or configured is None or group.must_refresh(decision.now_ms):
            metadata_hash = self.topics.hash_of(set(topology.required_topics))
            if known is None or configured is None or metadata_hash != group.metadata_hash:
                configured = configure(topology, self.partition_count)
                group.configure(configured)
        return _Configured(topology, configured, metadata_hash)

    def _topology(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, decision: DecisionBuilder
    ) -> Topology:
        """Return the group's topology. If the group has none, the one in the request becomes the
        group's."""
        known = group.topology
        if request.topology is None:
            if known is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    "The topology is null and the group topology is also null.",
                )
            return known
        sent = topology_of_request(request.topology)
        if known is None:
            decision.records.append(records.topology(group.group_id, sent))
            return sent
        if known.epoch <= sent.epoch and not known.equals(sent):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def _epoch(
        self, group: StreamsGroup, found: _Configured, changed: bool, decision: DecisionBuilder
    ) -> int:
        """Decide step 3 of a heartbeat. Returns the group's epoch, which goes up if anything
        changed."""
        validated = found.topology.epoch if found.configured.is_ready else NO_TOPOLOGY_EPOCH
        configs = self._assignment_configs(group.group_id)
        epoch = group.epoch
        if (
            changed
            or found.metadata_hash != group.metadata_hash
            or validated != group.validated_topology_epoch
            or configs != group.assignment_configs
        ):
            epoch += 1
            decision.records.append(
                records.group_epoch(group.group_id, epoch, found.metadata_hash, validated, configs)
            )
        group.refreshed(decision.now_ms + NEVER_MS, epoch)
        return epoch

    def _assignment_configs(self, group_id: str) -> dict[str, str]:
        return {STANDBY_REPLICAS: str(self.settings_of(group_id).num_standby_replicas)}

    # --- the target assignment ---

    def _delay(self, group_id: str, delay_ms: int, decision: DecisionBuilder) -> None:
        if group_id not in self._delayed:
            self._delayed.add(group_id)
            decision.revert = lambda: self._delayed.discard(group_id)
            decision.schedule((INITIAL_DELAY, group_id), delay_ms)

    def _target(
        self,
        group: StreamsGroup,
        epoch: int,
        updated: StreamsMember,
        configured: ConfiguredTopology,
        statuses: list[Status],
        decision: DecisionBuilder,
    ) -> Target:
        """Decide step 4 of a heartbeat. Returns the target of `updated`."""
        group_id, member_id = group.group_id, updated.member_id
        last = Target(group.assignment_epoch, group.target_of(member_id))
        if group_id in self._delayed:
            _add_status(
                statuses,
                StatusCode.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured initial rebalance delay.",
            )
            return Target(group.assignment_epoch, NO_TASKS)
        if group.assignment_epoch >= epoch:
            return last
        if self.keeps_interval(group, decision.now_ms):
            _add_status(
                statuses,
                StatusCode.ASSIGNMENT_DELAYED,
                "Assignment delayed due to the configured assignment interval.",
            )
            return last
        members = group.members | {member_id: updated}
        configs = self._assignment_configs(group_id)
        assignments = self._assign(group, epoch, members, configured, configs, decision)
        if assignments is None:
            _add_status(
                statuses,
                StatusCode.ASSIGNMENT_DELAYED,
                "Assignment delayed until it is computed.",
            )
            return last
        return Target(epoch, assignments[member_id])

    def _assign(
        self,
        group: StreamsGroup,
        epoch: int,
        members: Mapping[str, StreamsMember],
        configured: ConfiguredTopology,
        configs: Mapping[str, str],
        decision: DecisionBuilder,
    ) -> Mapping[str, Tasks] | None:
        """Compute the target assignment of `epoch`. Returns None if that is done off the loop."""
        group_id = group.group_id
        if not configured.is_ready:
            assignments: Mapping[str, Tasks] = dict.fromkeys(members, NO_TASKS)
        else:
            spec = StreamsGroupSpec(
                {
                    m: StreamsMemberSpec(each.process_id, group.target_of(m))
                    for m, each in members.items()
                },
                {
                    name: SubtopologySpec(each.tasks, each.is_stateful)
                    for name, each in (configured.subtopologies or {}).items()
                },
                int(configs.get(STANDBY_REPLICAS, "0")),
            )
            if spec.work > INLINE_WORK_MAX:
                self._compute_target(group_id, spec, configured, epoch, decision)
                return None
            assignments = assign(spec)
        decision.records += self.target_records(group, assignments, epoch, decision.now_ms)
        return assignments

    def _compute_target(
        self,
        group_id: str,
        spec: StreamsGroupSpec,
        configured: ConfiguredTopology,
        epoch: int,
        decision: DecisionBuilder,
    ) -> None:
        """Compute an assignment off the loop, unless one is being computed."""
        if group_id not in self._computing:
            self.compute(
                group_id,
                decision,
                Compute(
                    lambda: assign(spec),
                    lambda machine, assignments, now_ms: machine.streams.assigned(
                        group_id, assignments, configured, epoch, now_ms
                    ),
                ),
            )

    def assigned(
        self,
        group_id: str,
        assignments: Mapping[str, Tasks],
        configured: ConfiguredTopology,
        epoch: int,
        now_ms: int,
    ) -> Decision[Record, None]:
        """Write a target assignment that was computed off the loop for the topology
        `configured`."""
        decision = DecisionBuilder(now_ms=now_ms)
        self._computing.discard(group_id)
        group = self.groups.get_of(StreamsGroup, group_id)
        if group is None or not group.assignment_epoch < epoch <= group.epoch:
            return decision
        now = group.configured
        if now is not None and now.subtopologies != configured.subtopologies:
            return decision  # It may contain tasks that no longer exist.
        kept = {m: tasks for m, tasks in assignments.items() if m in group.members}
        decision.records = self.target_records(group, kept, epoch, now_ms)
        return decision

    def _reconcile(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        target: Target,
        owned: Tasks | None,
        decision: DecisionBuilder,
    ) -> StreamsMember:
        """Decide step 5 of a heartbeat. Raises FENCED_MEMBER_EPOCH."""
        moved = reconcile(member, target, group, owned)
        if moved != member:
            decision.records.append(records.current_assignment(group.group_id, moved))
            key = (REBALANCE, group.group_id, moved.member_id)
            if moved.state is MemberState.UNREVOKED_TASKS:
                decision.schedule(key, moved.rebalance_timeout_ms)
            else:
                decision.cancel(key)
        return moved

    # --- the response ---

    def _set_endpoints(
        self,
        request: StreamsGroupHeartbeatRequest,
        response: StreamsGroupHeartbeatResponse,
        group: StreamsGroup,
        moved: StreamsMember,
        configured: ConfiguredTopology,
    ) -> None:
        if group.endpoints.epoch != request.endpoint_information_epoch:
            others = [m for m in group.members.values() if m.member_id != moved.member_id]
            response.partitions_by_user_endpoint = group.endpoints.all(
                [*others, moved], configured, self.partition_count
            )
        if self.groups.get(group.group_id) is group:
            response.endpoint_information_epoch = group.endpoints.epoch

    def _add_problem_statuses(
        self,
        response: StreamsGroupHeartbeatResponse,
        group: StreamsGroup,
        configured: ConfiguredTopology,
        own: StreamsGroupSettings,
        statuses: list[Status],
        decision: DecisionBuilder,
    ) -> None:
        group_id = group.group_id
        problem = configured.problem
        if problem is not None:
            detail = problem.detail
            if configured.to_create:
                detail += self.internal_topics.failures(
                    group_id, configured.to_create, decision.now_ms
                )
                effect = self.internal_topics.create(
                    group_id, configured.to_create, 2 * own.heartbeat_interval_ms, decision.now_ms
                )
                if effect is not None:
                    decision.effects.append(effect)
            _add_status(statuses, problem.code, detail)
        if group.shutdown_member_id is not None:
            _add_status(
                statuses,
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and "
                "requested a shutdown for the entire application.",
            )

    def topics_created(
        self, effect: CreateInternalTopics, refused: Mapping[str, str], decision: DecisionBuilder
    ) -> None:
        """Apply the result of a `CreateInternalTopics`: the reasons why topics were not created, by
        topic."""
        self.internal_topics.created(effect, refused, decision.now_ms)

    # --- leaving members and timers ---

    def _leave(self, request: StreamsGroupHeartbeatRequest, decision: DecisionBuilder) -> None:
        group = self.groups.find_of(StreamsGroup, request.group_id)
        if request.shutdown_application:
            group.shutdown_member_id = group.shutdown_member_id or request.member_id
        self.fence(group, [group.member(request.member_id)], decision)
        decision.reply = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )

    def fence(
        self, group: StreamsGroup, members: Sequence[StreamsMember], decision: DecisionBuilder
    ) -> None:
        """Remove members that left, whose session or rebalance timeout expired, or that broke the
        rules of the protocol."""
        group_id, epoch = group.group_id, group.epoch
        for member in members:
            epoch += 1
            decision.records += records.member_tombstones(group_id, member.member_id)
            decision.records.append(
                records.group_epoch(
                    group_id,
                    epoch,
                    group.metadata_hash,
                    group.validated_topology_epoch,
                    group.assignment_configs,
                )
            )
            for timer in (SESSION, REBALANCE):
                decision.cancel((timer, group_id, member.member_id))

    def fire(self, key: tuple[Any, ...], decision: DecisionBuilder) -> None:
        """See `GroupsOfType`."""
        if key[0] == INITIAL_DELAY:
            self._delay_expired(key[1], decision)
            return
        group = self.groups.get_of(StreamsGroup, key[1])
        member = group.members.get(key[2]) if group is not None else None
        if group is None or member is None:
            return
        if key[0] != REBALANCE or member.state is MemberState.UNREVOKED_TASKS:
            self.fence(group, [member], decision)

    def _delay_expired(self, group_id: str, decision: DecisionBuilder) -> None:
        """Assign the tasks of a new group that has waited long enough for more members."""
        self._delayed.discard(group_id)
        group = self.groups.get_of(StreamsGroup, group_id)
        if group is None or group.is_empty or group.configured is None:
            return
        if group.assignment_epoch < group.epoch:
            self._assign(
                group,
                group.epoch,
                group.members,
                group.configured,
                group.assignment_configs,
                decision,
            )

    def loaded(self, decision: DecisionBuilder) -> None:
        """See `GroupsOfType`."""
        for group in self.groups.all_of(StreamsGroup):
            session_ms = self.settings_of(group.group_id).session_timeout_ms
            for member_id, member in group.members.items():
                decision.schedule((SESSION, group.group_id, member_id), session_ms)
                if member.state is MemberState.UNREVOKED_TASKS:
                    decision.schedule(
                        (REBALANCE, group.group_id, member_id), member.rebalance_timeout_ms
                    )

    # --- the cluster ---

    def follow(self, image: MetadataImage, delta: Changes, decision: DecisionBuilder) -> None:
        """See `GroupsOfType`. Groups whose topics changed check them at the next heartbeat."""
        self.use_cluster_settings(image)
        self.internal_topics.keep_only(self.groups)
        changed = delta.topics_reassigned
        if changed:
            for group in self.groups.all_of(StreamsGroup):
                if group.topology is None or not changed.isdisjoint(group.topology.required_topics):
                    group.request_refresh()

    # --- records and descriptions ---

    def replay_value(self, group: StreamsGroup, key: Message, value: Message) -> None:
        """See `ModernGroups`."""
        replay(group, key, value)

    def describe(self, group_id: str) -> DescribedGroup:
        """See `GroupsOfType`."""
        return describe(self.groups.find_of(StreamsGroup, group_id))


def _add_status(statuses: list[Status], code: StatusCode, detail: str) -> None:
    statuses.append(Status(status_code=code, status_detail=detail))


def _set_tasks(response: StreamsGroupHeartbeatResponse, held: HeldTasks) -> None:
    response.active_tasks = _ids({s: list(epochs) for s, epochs in held.active.items()})
    response.standby_tasks = _ids(held.standby)
    response.warmup_tasks = _ids(held.warmup)


def _ids(tasks: Mapping[str, Any]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=sorted(tasks[subtopology_id]))
        for subtopology_id in sorted(tasks)
    ]
