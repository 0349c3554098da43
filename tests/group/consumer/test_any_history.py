"""Consumer groups under anything that may happen, in any order.

Whatever clients do: no partition has two holders at any time, the log tells all, and when everybody
does as told the group settles with every partition read.
"""

from __future__ import annotations

from typing import Any

from group.consumer.world import Member, World
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pk.core.errors import ErrorCode
from pk.core.group.consumer.group import ConsumerGroup
from pk.core.group.machine import GroupMachine
from pk.core.group.settings import ConsumerGroupSettings, GroupSettings

MEMBERS = st.sampled_from(["a", "b", "c", "d"])
TOPICS = st.lists(st.sampled_from(["t", "u", "v"]), min_size=1, unique=True)
REGEXES = st.sampled_from(["", "t|u", "v.*", ".*"])

HEARTBEATS_TO_SETTLE = 8
"""The number of heartbeats of each member since the last member was missed."""


def durable(group: ConsumerGroup) -> Any:
    """The group's state that survives its coordinator."""
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.members,
        group.target,
        group.resolved,
        group.static_members,
    )


class Anything(RuleBasedStateMachine):
    """Members come, obey or not, change their mind, leave, fall silent; topics come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(
            GroupSettings(consumer=ConsumerGroupSettings(max_size=4)),
            {"t": 4, "u": 2},
        )
        self.members: dict[str, Member] = {}

    @rule(name=MEMBERS, topics=TOPICS, static=st.booleans(), regex=REGEXES)
    def join(self, name: str, topics: list[str], static: bool, regex: str) -> None:
        fields: dict[str, Any] = {"instance_id": f"i-{name}"} if static else {}
        if regex:
            fields["subscribed_topic_regex"] = regex
        member = Member(self.world, f"{name}-{len(self.world.log)}", topics, **fields)
        member.join()
        if member.error is None:
            old = self.members.pop(name, None)
            if old is not None:
                old.holds = {} if static else old.holds
            self.members[name] = member

    @rule(name=MEMBERS, times=st.integers(1, 3))
    def beat(self, name: str, times: int) -> None:
        for _ in range(times):
            if name in self.members:
                self._after(self.members[name].beat)

    def _after(self, do: Any) -> None:
        do()
        for name, member in list(self.members.items()):
            if member.error in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            ):
                member.holds = {}
                del self.members[name]

    @rule(name=MEMBERS, topics=TOPICS, regex=REGEXES)
    def subscribe(self, name: str, topics: list[str], regex: str) -> None:
        member = self.members.get(name)
        if member is not None:
            self._after(
                lambda: member.beat(subscribed_topic_names=topics, subscribed_topic_regex=regex)
            )

    @rule(name=MEMBERS, obeys=st.booleans())
    def disobey(self, name: str, obeys: bool) -> None:
        if name in self.members:
            self.members[name].obeys = obeys

    @rule(name=MEMBERS, for_good=st.booleans())
    def leave(self, name: str, for_good: bool) -> None:
        member = self.members.pop(name, None)
        if member is not None:
            static = "instance_id" in member.fields
            member.leave(-1 if for_good or not static else -2)

    @rule(wait_ms=st.sampled_from([500, 1000, 12_000, 50_000]))
    def wait(self, wait_ms: int) -> None:
        self.world.after(wait_ms)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(partitions=st.integers(1, 5))
    @precondition(lambda self: "v" not in self.world.image.topics)
    def create(self, partitions: int) -> None:
        self.world.create("v", partitions)

    @rule()
    @precondition(lambda self: "v" in self.world.image.topics)
    def delete(self) -> None:
        self.world.delete("v")

    @rule()
    @precondition(lambda self: len(self.world.image.topics["t"].partitions) < 8)
    def grow(self) -> None:
        self.world.grow("t", len(self.world.image.topics["t"].partitions) + 1)

    def _member_ids(self) -> set[str]:
        group = self.world.machine.groups.get_of(ConsumerGroup, "g")
        return set() if group is None else set(group.members)

    @rule()
    def settle(self) -> None:
        """Everybody obeys for a while."""
        for member in self.members.values():
            member.obeys = True
        left = HEARTBEATS_TO_SETTLE
        while left:
            before = self._member_ids()
            self.world.after(1001)
            for member in list(self.members.values()):
                self._after(member.beat)
            left = left - 1 if self._member_ids() == before else HEARTBEATS_TO_SETTLE
        group = self.world.machine.groups.get_of(ConsumerGroup, "g")
        if group is None or group.members.keys() != {m.member_id for m in self.members.values()}:
            return  # a member that left is not yet missed, and may keep others out
        if any(m.member_epoch == -2 for m in group.members.values()):
            return
        assert group.state_name in ("Stable", "Empty")
        for name, member in self.members.items():
            assigned = group.members[member.member_id].assigned
            assert {t: sorted(ps) for t, ps in member.holds.items() if ps} == {
                t: sorted(ps) for t, ps in assigned.items()
            }, name
        topics = self.world.image.topics
        read = {topics[t].topic_id for t in group.subscriptions() if t in topics}
        given = sorted(
            (t, p) for m in group.members.values() for t in m.assigned for p in m.assigned[t]
        )
        by_id = self.world.image.topics_by_id
        assert given == sorted((t, p) for t in read for p in range(len(by_id[t].partitions)))

    @invariant()
    def a_partition_has_one_holder(self) -> None:
        group = self.world.machine.groups.get_of(ConsumerGroup, "g")
        if group is None:
            return
        held = [
            (t, p)
            for m in group.members.values()
            for held in (m.assigned, m.revoking)
            for t, partitions in held.items()
            for p in partitions
        ]
        assert len(held) == len(set(held))
        assert all(group.is_held(t, p) for t, p in held)
        targets = [(t, p) for own in group.target.values() for t in own for p in own[t]]
        assert len(targets) == len(set(targets))
        assert group.target.keys() <= group.members.keys()
        assert set(group.static_members.values()) <= group.members.keys()
        assert group.assignment_epoch <= group.epoch

    @invariant()
    def what_clients_hold_the_group_knows(self) -> None:
        group = self.world.machine.groups.get_of(ConsumerGroup, "g")
        for member in self.members.values():
            known = group.members.get(member.member_id) if group is not None else None
            if known is not None and known.member_epoch == member.epoch and member.obeys:
                for t, partitions in member.holds.items():
                    for p in partitions:
                        assert known.epoch_of(t, p) is not None

    @invariant()
    def the_log_tells_all(self) -> None:
        fresh = GroupMachine(self.world.settings, lambda: "unused")
        for offset, (key, value) in enumerate(self.world.log):
            record = fresh.decode(key, value)
            assert record is not None
            fresh.replay(record, offset)
        live = self.world.machine.groups.all_of(ConsumerGroup)
        replayed = fresh.groups.all_of(ConsumerGroup)
        assert [durable(g) for g in replayed] == [durable(g) for g in live]


TestAnything = Anything.TestCase
