"""Groups that change their protocol with members in them, in both directions (KIP-848)."""

from __future__ import annotations

from group.consumer.world import Member, World
from group.scenario import classic_of, subscription
from msgspec.structs import replace

from pk.core.errors import ErrorCode
from pk.core.group.consumer_protocol import (
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from pk.core.group.settings import ConsumerGroupSettings, GroupSettings, MigrationPolicy
from pk.core.values import TopicPartition
from pk.core.wire.messages.join_group import JoinGroupResponse


def world_with(policy: str = "bidirectional", **fields: int) -> World:
    consumer = ConsumerGroupSettings(
        assignment_interval_ms=0, migration_policy=MigrationPolicy(policy)
    )
    settings = GroupSettings(initial_rebalance_delay_ms=3000, consumer=consumer)
    return World(replace(settings, **fields))


class Classic:
    """A client of the classic protocol, cooperative, in a group of either type."""

    def __init__(
        self, world: World, *, rebalance_ms: int = 60_000, instance_id: str | None = None
    ) -> None:
        self.world = world
        self.rebalance_ms = rebalance_ms
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.holds: list[TopicPartition] = []

    def protocols(self) -> list[tuple[str, bytes]]:
        said = encode_subscription(Subscription(("t",), owned=tuple(self.holds)))
        return [("cooperative-sticky", said)]

    def join(self) -> None:
        """Both steps of a new member, or the one of an old one, and SyncGroup."""
        if not self.member_id and self.instance_id is None:
            self.member_id = self.ask_to_join().member_id
        joined = self.ask_to_join()
        assert joined.error_code == ErrorCode.NONE
        self.member_id, self.generation = joined.member_id, joined.generation_id
        self.sync()

    def ask_to_join(self) -> JoinGroupResponse:
        return self.world.join(
            self.member_id,
            protocols=self.protocols(),
            rebalance_ms=self.rebalance_ms,
            instance_id=self.instance_id,
        )

    def sync(self) -> None:
        answer = self.world.sync(
            self.member_id,
            self.generation,
            protocol="cooperative-sticky",
            instance_id=self.instance_id,
        )
        if answer.error_code == ErrorCode.NONE:
            self.holds = decode_assignment(answer.assignment)

    def beat(self) -> int:
        """Heartbeat; joins again when told to."""
        code = self.world.heartbeat(self.member_id, self.generation, self.instance_id)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        return code


def classic_group(world: World, members: int = 2) -> list[Classic]:
    """A stable classic group whose leader split `t` evenly."""
    ids = [world.join_new(protocols=[("range", subscription("t"))])[0] for _ in range(members)]
    world.after(6000)
    group = classic_of(world.machine)
    each = 6 // members
    given = {
        m: [TopicPartition("t", p) for p in range(i * each, (i + 1) * each)]
        for i, m in enumerate(ids)
    }
    for member_id in ids[1:]:
        world.sync(member_id, group.generation)
    world.sync(ids[0], group.generation, {m: encode_assignment(ps) for m, ps in given.items()})
    clients = []
    for member_id in ids:
        client = Classic(world)
        client.member_id, client.generation = member_id, group.generation
        client.holds = given[member_id]
        client.protocols = lambda: [("range", subscription("t"))]  # type: ignore[method-assign]
        clients.append(client)
    return clients


def held(*members: Member | Classic) -> list[tuple[str, int]]:
    return sorted(
        (t, p) for m in members for t, p in (m.partitions if isinstance(m, Member) else m.holds)
    )


ALL = [("t", p) for p in range(6)]


class TestUpgrade:
    def test_members_go_on_and_make_room_for_the_new_one(self) -> None:
        world = world_with()
        a, b = classic_group(world)
        assert a.generation == 1
        new = world.member("new")
        assert new.error is None and new.partitions == []
        group = world.group
        assert (group.classic_members, len(group.members)) == (2, 3)
        assert [g.group_type for g in world.listed()] == ["consumer"]
        types = {m.member_id: m.member_type for m in world.described().members}
        assert types == {a.member_id: 0, b.member_id: 0, "new": 1}
        for _ in range(6):
            for classic in (a, b):
                # eager members of `range` own nothing when they join again
                code = world.heartbeat(classic.member_id, classic.generation)
                if code == ErrorCode.REBALANCE_IN_PROGRESS:
                    classic.holds = []
                    answer = world.join(classic.member_id, protocols=[("range", subscription("t"))])
                    classic.generation = answer.generation_id
                    synced = world.sync(classic.member_id, classic.generation)
                    classic.holds = decode_assignment(synced.assignment)
            new.beat()
        assert held(a, b, new) == ALL
        assert world.described().group_state == "Stable"

    def test_it_outlives_the_coordinator(self) -> None:
        world = world_with()
        a, _ = classic_group(world)
        new = world.member("new")
        world.restart()
        assert world.group.classic_members == 2
        assert world.heartbeat(a.member_id, a.generation) == ErrorCode.REBALANCE_IN_PROGRESS
        new.beat()
        assert new.error is None

    def test_who_waits_in_a_rebalance_is_sent_back_to_join(self) -> None:
        world = world_with()
        a, b = classic_group(world)
        token = world.join(a.member_id, protocols=[("range", subscription("t"))])
        world.member("new")
        assert world.answers[token].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert b.member_id in world.group.members

    def test_a_policy_may_forbid_it(self) -> None:
        world = world_with("downgrade")
        classic_group(world)
        assert world.member("new").error == ErrorCode.GROUP_ID_NOT_FOUND
        assert [g.group_type for g in world.listed()] == ["classic"]

    def test_a_group_of_no_consumers_or_with_data_of_its_own_stays(self) -> None:
        world = world_with()
        world.stable(1)  # assigned b"0": no assignment that consumers write
        assert world.member("new").error == ErrorCode.GROUP_ID_NOT_FOUND

        world = world_with()
        ids = [world.join_new(protocol_type="connect", protocols=[("x", b"")])[0]]
        world.after(6000)
        world.sync(ids[0], 1, {ids[0]: b""}, protocol_type="connect", protocol="x")
        assert world.member("new").error == ErrorCode.GROUP_ID_NOT_FOUND

    def test_offsets_stay(self) -> None:
        world = world_with()
        a, _ = classic_group(world)
        world.commit({("t", 0): 7}, member_id=a.member_id, generation=1)
        world.member("new")
        assert world.fetch() == {("t", 0): 7}


class TestTogether:
    def test_both_protocols_share_a_group(self) -> None:
        world = world_with()
        a = world.member("a")
        b = Classic(world)
        b.join()
        for _ in range(5):
            a.beat()
            b.beat()
        assert held(a, b) == ALL and len(a.partitions) == 3
        assert world.described().group_state == "Stable"
        assert b.generation == world.group.epoch

    def test_a_classic_member_is_told_when_to_join_and_dropped_when_it_does_not(self) -> None:
        world = world_with()
        a = world.member("a")
        b = Classic(world, rebalance_ms=20_000)
        b.join()
        for _ in range(5):
            a.beat()
            b.beat()
        world.create("u", 1)
        a.subscribe("t", "u")
        assert world.heartbeat(b.member_id, b.generation) == ErrorCode.REBALANCE_IN_PROGRESS
        for _ in range(3):
            world.after(8000)
            a.beat()
            world.heartbeat(b.member_id, b.generation)
        assert list(world.group.members) == ["a"]

    def test_a_classic_member_that_does_not_sync_is_dropped(self) -> None:
        world = world_with()
        a = world.member("a")
        required = world.join(protocols=[("range", subscription("t"))])
        assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
        world.join(
            required.member_id,
            protocols=[("range", subscription("t"))],
            session_ms=60_000,
            rebalance_ms=5000,
        )
        assert len(world.group.members) == 2
        world.after(5001)
        assert list(world.group.members) == ["a"]
        a.beat()

    def test_a_join_that_is_refused_changes_nothing(self) -> None:
        world = world_with()
        a = world.member("a")
        b = Classic(world, instance_id="i")
        b.join()
        for _ in range(5):
            a.beat()
            b.beat()
        world.lose_state(b.member_id)
        took_over = Classic(world, instance_id="i")
        took_over.holds = b.holds
        assert took_over.ask_to_join().error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert set(world.group.members) == {"a", b.member_id}
        for _ in range(5):
            world.after(10_000)
            a.beat()
        assert set(world.group.members) == {"a"}, "its session has gone on"

    def test_errors_of_the_classic_protocol(self) -> None:
        world = world_with()
        a = world.member("a")
        b = Classic(world)
        b.join()
        assert world.heartbeat("a", a.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.heartbeat(b.member_id, b.generation + 1) == ErrorCode.ILLEGAL_GENERATION
        assert world.heartbeat("who", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.sync("a", a.epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        wrong = world.sync(b.member_id, b.generation, protocol="range")
        assert wrong.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        refused = world.join(protocol_type="connect", protocols=[("x", b"")])
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        other = world.join(protocols=[("range", subscription("t"))])
        assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_no_classic_member_joins_where_migration_is_disabled(self) -> None:
        world = world_with("disabled")
        world.member("a")
        refused = world.join(protocols=[("range", subscription("t"))])
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_an_admin_takes_members_of_both_protocols_out(self) -> None:
        world = world_with("disabled")
        world.member("a", instance_id="i")
        world.member("b")
        assert world.leave(("", "i"), "b", "who") == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ]
        assert world.described().group_state == "Empty"


class TestDowngrade:
    def together(self, policy: str = "bidirectional") -> tuple[World, Member, Classic]:
        world = world_with(policy)
        a = world.member("a")
        b = Classic(world)
        b.join()
        for _ in range(5):
            a.beat()
            b.beat()
        assert held(a, b) == ALL
        return world, a, b

    def test_the_last_member_of_the_consumer_protocol_goes(self) -> None:
        world, a, b = self.together()
        epoch = world.group.epoch
        a.leave()
        assert [g.group_type for g in world.listed()] == ["classic"]
        group = classic_of(world.machine)
        assert (group.generation, group.state_name) == (epoch, "Stable")
        assert group.protocol == "cooperative-sticky"
        assert decode_assignment(group.members[b.member_id].assignment) == b.holds
        world.after(1)
        assert group.state_name == "PreparingRebalance"
        assert world.heartbeat(b.member_id, epoch) == ErrorCode.REBALANCE_IN_PROGRESS
        token = world.join(b.member_id, protocols=b.protocols())
        assert token.generation_id == epoch + 1 and token.leader == b.member_id

    def test_or_is_silent(self) -> None:
        world, _, b = self.together()
        for _ in range(10):
            world.after(5000)
            world.heartbeat(b.member_id, b.generation)
        assert [g.group_type for g in world.listed()] == ["classic"]

    def test_a_static_member_comes_back_with_the_classic_protocol(self) -> None:
        world = world_with()
        a = world.member("a", instance_id="i")
        held_before = a.partitions
        a.leave(-2)
        joined = world.join(instance_id="i", protocols=[("range", subscription("t"))])
        assert joined.error_code == ErrorCode.NONE
        world.after(1)
        assert [g.group_type for g in world.listed()] == ["classic"]
        group = classic_of(world.machine)
        (member,) = group.members.values()
        assert member.instance_id == "i"
        assert decode_assignment(member.assignment) == [TopicPartition(*p) for p in held_before]
        # With no member left, the assignment stays, and as in Apache Kafka there is no rebalance.
        assert group.state_name == "Stable"
        assert world.heartbeat(member.member_id, group.generation, "i") == ErrorCode.NONE

    def test_it_outlives_the_coordinator(self) -> None:
        world, a, b = self.together()
        a.leave()
        world.restart()
        group = classic_of(world.machine)
        assert list(group.members) == [b.member_id]

    def test_a_policy_may_forbid_it(self) -> None:
        world, a, b = self.together("upgrade")
        a.leave()
        assert [g.group_type for g in world.listed()] == ["consumer"]
        for _ in range(3):
            b.beat()
        assert held(b) == ALL

    def test_there_and_back(self) -> None:
        world, a, b = self.together()
        a.leave()
        world.after(1)
        joined = world.join(b.member_id, protocols=b.protocols())
        b.generation = joined.generation_id
        given = encode_assignment([TopicPartition(*p) for p in ALL])
        world.sync(b.member_id, b.generation, {b.member_id: given}, protocol="cooperative-sticky")
        b.holds = [TopicPartition(*p) for p in ALL]
        again = world.member("again")
        assert again.error is None
        for _ in range(6):
            again.beat()
            b.beat()
        assert held(again, b) == ALL and len(b.holds) == 3
