"""Whatever clients do: a coordinator that reads the log knows what the one before it knew."""

from __future__ import annotations

from typing import Any

from effort import examples
from group.scenario import Scenario, classic_of, subscription
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from pk.core.errors import ErrorCode
from pk.core.group.classic.group import ClassicGroup, State
from pk.core.group.machine import GroupMachine
from pk.core.group.settings import GroupSettings

GROUPS = st.sampled_from(["g", "h"])
TOPICS = st.sampled_from(["t", "u"])


def durable(machine: GroupMachine) -> Any:
    """The state that survives a coordinator: offsets, and each group's last record."""
    groups = {group.group_id: group.committed for group in machine.groups.all_of(ClassicGroup)}
    return machine.offsets.committed, {i: value for i, value in groups.items() if value is not None}


class Anything(RuleBasedStateMachine):
    """Clients that join, sync, beat, leave, commit, delete and fall silent in any order."""

    members = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.s = Scenario(
            GroupSettings(
                initial_rebalance_delay_ms=1000,
                max_size=3,
                offsets_retention_ms=100_000,
                offsets_retention_check_interval_ms=30_000,
            )
        )

    def _generation(self, group: str) -> int:
        found = self.s.machine.groups.get_of(ClassicGroup, group)
        return found.generation if found is not None else 0

    @rule(target=members, group=GROUPS, version=st.sampled_from([0, 3, 9]), topic=TOPICS)
    def join_new(self, group: str, version: int, topic: str) -> tuple[str, str, str | None]:
        answer = self.s.join(
            group=group, version=version, protocols=[("range", subscription(topic))]
        )
        if isinstance(answer, ErrorCode):
            return group, "", None
        if isinstance(answer, int):  # it waits: its id is the last that was made
            return group, next(reversed(classic_of(self.s.machine, group).members)), None
        return group, answer.member_id, None

    @rule(target=members, group=GROUPS, instance=st.sampled_from(["i", "j"]))
    def join_static(self, group: str, instance: str) -> tuple[str, str, str | None]:
        self.s.join(group=group, instance_id=instance)
        static = classic_of(self.s.machine, group).static_members
        return group, static.get(instance, ""), instance

    @rule(member=members, topic=TOPICS)
    def rejoin(self, member: tuple[str, str, str | None], topic: str) -> None:
        group, member_id, instance = member
        if member_id:
            self.s.join(
                member_id,
                group=group,
                instance_id=instance,
                protocols=[("range", subscription(topic))],
            )

    @rule(member=members)
    def sync(self, member: tuple[str, str, str | None]) -> None:
        group, member_id, instance = member
        found = self.s.machine.groups.get_of(ClassicGroup, group)
        assignments = {m: m.encode() for m in found.members} if found is not None else {}
        self.s.sync(
            member_id, self._generation(group), assignments, group=group, instance_id=instance
        )

    @rule(member=members)
    def beat(self, member: tuple[str, str, str | None]) -> None:
        group, member_id, instance = member
        self.s.heartbeat(member_id, self._generation(group), instance, group)

    @rule(member=members)
    def leave(self, member: tuple[str, str, str | None]) -> None:
        group, member_id, instance = member
        self.s.leave((member_id, instance), group=group)

    @rule(member=members, topic=TOPICS, retention_ms=st.sampled_from([-1, 5000]))
    def commit(self, member: tuple[str, str, str | None], topic: str, retention_ms: int) -> None:
        group, member_id, _ = member
        self.s.commit(
            {(topic, 0): self.s.now_ms},
            member_id=member_id,
            generation=self._generation(group),
            group=group,
            retention_ms=retention_ms,
            version=4,
        )

    @rule(group=GROUPS, topic=TOPICS)
    def commit_from_outside(self, group: str, topic: str) -> None:
        self.s.commit({(topic, 1): self.s.now_ms}, group=group)

    @rule(group=GROUPS)
    def delete(self, group: str) -> None:
        self.s.take(self.s.machine.delete_group(group, self.s.now_ms))

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        self.s.delete_topic(topic, bytes(16))

    @rule(wait_ms=st.sampled_from([0, 999, 1000, 5000, 11_000, 70_000, 400_000]))
    def pass_time(self, wait_ms: int) -> None:
        self.s.after(wait_ms)

    @rule(refused=st.booleans())
    def refuse_appends(self, refused: bool) -> None:
        self.s.refuse = ErrorCode.NOT_ENOUGH_REPLICAS if refused else None

    @rule()
    def move_the_coordinator(self) -> None:
        self.s.restart()

    @invariant()
    def the_log_tells_all(self) -> None:
        fresh = GroupMachine(self.s.settings, lambda: "unused")
        for offset, (key, value) in enumerate(self.s.log):
            record = fresh.decode(key, value)
            assert record is not None
            fresh.replay(record, offset)
        assert durable(fresh) == durable(self.s.machine)
        for group in fresh.groups.all_of(ClassicGroup):
            live = classic_of(self.s.machine, group.group_id)
            if live.state is State.STABLE:
                assert described(group) == described(live)

    @invariant()
    def groups_make_sense(self) -> None:
        for group in self.s.machine.groups.all_of(ClassicGroup):
            joining = [m for m in group.members.values() if m.awaits_join]
            assert group.joining == len(joining)
            assert (group.state is State.EMPTY) <= (not group.members)
            assert not group.members or group.leader in group.members
            assert set(group.static_members.values()) <= group.members.keys()
            assert group.pending_sync <= group.members.keys()
            assert not group.pending_join & group.members.keys()
            counted = {n: c for n, c in group.supported.items() if c}
            assert counted == ({"range": len(group.members)} if group.members else {})
            if joining:
                assert group.state is State.PREPARING_REBALANCE
                assert ("join", group.group_id) in self.s.timers, "a join phase ends"

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        """Every request that waits belongs to a member that somebody will answer."""
        waiting = {
            token
            for group in self.s.machine.groups.all_of(ClassicGroup)
            for m in group.members.values()
            for token in (m.join_token, m.sync_token)
            if token is not None
        }
        assert not waiting & self.s.answers.keys()


def described(group: ClassicGroup) -> Any:
    """A stable group, from any source."""
    members = {
        m.member_id: (m.instance_id, m.assignment, m.session_timeout_ms, m.rebalance_timeout_ms)
        for m in group.members.values()
    }
    return group.generation, group.protocol, group.protocol_type, members


TestAnything = Anything.TestCase
TestAnything.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
