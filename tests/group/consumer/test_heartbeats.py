"""Consumer groups of KIP-848: joining, following a target, leaving, being fenced."""

from __future__ import annotations

from typing import Any

import pytest
from group.consumer.world import AT_ONCE, Member, World

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.group.modern_group import FIRST_EPOCH
from pk.core.group.settings import ConsumerGroupSettings, GroupSettings
from pk.core.values import Uuid
from pk.core.wire.messages.consumer_group_heartbeat import TopicPartitions


def gather_replies(*members: Member) -> list[tuple[str, int]]:
    return sorted(p for m in members for p in m.partitions)


class TestJoining:
    def test_the_first_member_gets_everything_with_its_first_heartbeat(self) -> None:
        world = World()
        a = world.member("a")
        assert a.partitions == [("t", p) for p in range(6)]
        assert (a.epoch, world.group.epoch, world.group.assignment_epoch) == (2, 2, 2)
        assert world.described().group_state == "Stable"

    def test_a_second_member_waits_until_the_first_has_given_up_its_half(self) -> None:
        world = World()
        a = world.member("a")
        b = world.member("b")
        assert b.partitions == [] and b.epoch == 3
        assert world.described().group_state == "Reconciling"
        a.beat()  # hears what to give up
        assert len(a.partitions) == 3 and a.epoch == 2
        b.beat()
        assert b.partitions == [], "a has not said yet that it gave up anything"
        a.beat()
        assert a.epoch == 3
        b.beat()
        assert len(b.partitions) == 3
        assert gather_replies(a, b) == [("t", p) for p in range(6)]
        assert world.described().group_state == "Stable"

    def test_an_old_client_is_given_its_id(self) -> None:
        world = World()
        answer = world.beat(
            version=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
        )
        assert not isinstance(answer, ErrorCode)
        assert answer.member_id == "id1" and answer.heartbeat_interval_ms == 5000

    def test_topics_that_do_not_exist_yet_are_waited_for(self) -> None:
        world = World()
        a = world.member("a", ["later"])
        assert a.partitions == [] and a.epoch == 2
        world.create("later", 2)
        a.beat()
        assert a.partitions == [("later", 0), ("later", 1)] and a.epoch == 3

    def test_a_group_has_room_for_so_many(self) -> None:
        world = World(GroupSettings(consumer=ConsumerGroupSettings(max_size=1)))
        world.member("a")
        assert world.member("b").error == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert world.member("a").error is None, "it is one of them"

    @pytest.mark.parametrize(
        ("fields", "error"),
        [
            ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"group": " "}, ErrorCode.INVALID_REQUEST),
            ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
            ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
            ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
            ({"topic_partitions": [TopicPartitions()]}, ErrorCode.INVALID_REQUEST),
            ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
            ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
            ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
            ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
            ({"subscribed_topic_regex": "["}, ErrorCode.INVALID_REGULAR_EXPRESSION),
            ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
            ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ],
    )
    def test_what_is_refused(self, fields: dict[str, Any], error: ErrorCode) -> None:
        said: dict[str, Any] = {
            "member_id": "a",
            "rebalance_timeout_ms": 1000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        }
        world = World()
        assert world.beat(**(said | fields)) == error
        assert not world.log


class TestEpochs:
    def test_one_that_is_ahead_or_behind_is_fenced_and_joins_again(self) -> None:
        world = World()
        a = world.member("a")
        for epoch in (1, 3):
            assert world.beat(member_id="a", member_epoch=epoch) == ErrorCode.FENCED_MEMBER_EPOCH
        a.join()
        assert len(a.partitions) == 6 and a.epoch == 2

    def test_the_one_before_will_do_where_the_answer_was_lost(self) -> None:
        world = World()
        a = world.member("a")
        before = dict(a.holds)
        world.create("u", 1)
        a.subscribe("t", "u")  # epoch 3, which the client does not hear
        a.epoch, a.holds = 2, before
        a.beat()
        assert a.error is None and a.epoch == 3
        a.epoch = 2
        a.holds = {b"x" * 16: [0]}
        a.beat()
        assert a.error == ErrorCode.FENCED_MEMBER_EPOCH

    def test_an_unknown_member_must_join(self) -> None:
        world = World()
        world.member("a")
        assert world.beat(member_id="b", member_epoch=2) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_answer_tells_the_assignment_only_when_it_changed_or_was_asked_for(self) -> None:
        world = World()
        world.member("a")
        quiet = world.beat(member_id="a", member_epoch=2)
        assert not isinstance(quiet, ErrorCode) and quiet.assignment is None
        full = world.beat(
            member_id="a",
            member_epoch=2,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert not isinstance(full, ErrorCode) and full.assignment is not None


class TestTime:
    def test_a_silent_member_is_dropped_after_its_session(self) -> None:
        world = World()
        a, b = world.member("a"), world.member("b")
        world.settle(a, b)
        world.after(30_000)
        a.beat()
        world.after(20_000)
        assert list(world.group.members) == ["a"]
        a.beat()
        assert len(a.partitions) == 6

    def test_one_that_does_not_give_up_in_time_is_dropped(self) -> None:
        world = World()
        a, b = world.member("a"), world.member("b")
        a.obeys = False
        for _ in range(7):
            world.after(10_000)
            a.beat()
            b.beat()
        assert list(world.group.members) == ["b"]
        assert a.error == ErrorCode.UNKNOWN_MEMBER_ID
        b.beat()
        assert len(b.partitions) == 6

    def test_targets_are_made_once_an_interval(self) -> None:
        world = World(GroupSettings(consumer=ConsumerGroupSettings(assignment_interval_ms=1000)))
        a = world.member("a")
        b = world.member("b")
        assert world.group.assignment_epoch == 2 and world.group.epoch == 3
        assert world.described().group_state == "Assigning"
        assert b.epoch == 2 and b.partitions == []
        world.after(1000)
        a.beat()
        assert world.group.assignment_epoch == 3
        world.settle(a, b)
        assert len(a.partitions) == len(b.partitions) == 3

    def test_the_cluster_may_change_the_interval(self) -> None:
        world = World(GroupSettings(consumer=ConsumerGroupSettings(assignment_interval_ms=1000)))
        world.member("a")
        world.configure_cluster({"group.consumer.assignment.interval.ms": "0"})
        world.member("b")
        assert world.group.assignment_epoch == world.group.epoch == 3

    def test_a_new_coordinator_gives_everybody_a_whole_session(self) -> None:
        world = World()
        a, b = world.member("a"), world.member("b")
        world.settle(a, b)
        world.after(40_000)
        world.restart()
        world.after(40_000)
        a.beat()
        assert a.error is None
        world.after(10_000)
        assert list(world.group.members) == ["a"]


class TestLeaving:
    def test_its_partitions_go_to_the_others(self) -> None:
        world = World()
        a, b = world.member("a"), world.member("b")
        world.settle(a, b)
        b.leave()
        a.beat()
        assert len(a.partitions) == 6
        a.leave()
        assert world.described().group_state == "Empty"
        assert [g.group_state for g in world.listed()] == ["Empty"]

    def test_a_static_member_that_is_back_in_time_has_what_it_had(self) -> None:
        world = World()
        a = world.member("a", instance_id="i")
        b = world.member("b", instance_id="j")
        world.settle(a, b)
        held, epoch = b.partitions, world.group.epoch
        again = Member(world, "b2", instance_id="j")
        again.join()
        assert again.error == ErrorCode.UNRELEASED_INSTANCE_ID
        b.leave(-2)
        again.join()
        assert again.partitions == held and world.group.epoch == epoch
        b.beat()
        assert b.error == ErrorCode.FENCED_INSTANCE_ID
        a.beat()
        assert len(a.partitions) == 3

    def test_a_static_member_that_stays_away_is_dropped(self) -> None:
        world = World()
        a = world.member("a", instance_id="i")
        a.leave(-2)
        world.after(45_000)
        assert world.described().members == []


class TestSubscriptions:
    def test_a_topic_that_is_dropped_is_taken_away_at_once(self) -> None:
        world = World(topics={"t": 2, "u": 2})
        a = world.member("a", ["t", "u"])
        a.subscribe("u")
        assert a.partitions == [("u", 0), ("u", 1)]

    def test_a_topic_that_grows_or_goes_is_noticed(self) -> None:
        world = World(topics={"t": 2, "u": 2})
        a = world.member("a", ["t", "u"])
        world.grow("t", 3)
        a.beat()
        assert len(a.partitions) == 5
        world.delete("u")
        a.beat()
        assert a.partitions == [("t", 0), ("t", 1), ("t", 2)]

    def test_what_does_not_concern_the_group_is_not_looked_at(self) -> None:
        world = World()
        a = world.member("a")
        written = len(world.log)
        world.create("other", 1)
        a.beat()
        assert len(world.log) == written and a.epoch == 2

    def test_members_may_ask_for_an_assignor(self) -> None:
        world = World(topics={"t": 3, "u": 3})
        a = world.member("a", ["t", "u"], server_assignor="range")
        b = world.member("b", ["t", "u"], server_assignor="range")
        world.settle(a, b)
        assert a.partitions == [("t", 0), ("t", 1), ("u", 0), ("u", 1)]
        assert world.described().assignor_name == "range"


class TestRegexes:
    def test_an_expression_reads_what_it_matches_now_and_later(self) -> None:
        world = World(topics={"a1": 1, "a2": 1, "b": 1})
        a = Member(world, "a", None, subscribed_topic_regex="a[0-9]")
        a.join()
        assert a.partitions == [("a1", 0), ("a2", 0)]
        world.create("a3", 1)
        world.create("xa4", 1)
        world.after(10_001)
        a.beat()
        assert a.partitions == [("a1", 0), ("a2", 0), ("a3", 0)]
        world.delete("a1")
        world.after(10_001)
        a.beat()
        assert a.partitions == [("a2", 0), ("a3", 0)]

    def test_the_last_member_takes_its_expression_along(self) -> None:
        world = World(topics={"a1": 1, "b": 1})
        a = Member(world, "a", None, subscribed_topic_regex="a.*")
        a.join()
        b = world.member("b", ["b"])
        world.settle(a, b)
        assert list(world.group.resolved) == ["a.*"]
        a.leave()
        assert not world.group.resolved
        world.restart()
        assert not world.group.resolved

    def test_names_and_an_expression_add_up(self) -> None:
        world = World(topics={"a1": 1, "b": 1})
        a = world.member("a", ["b"], subscribed_topic_regex="a.*")
        assert a.partitions == [("a1", 0), ("b", 0)]
        a.beat(subscribed_topic_regex="")
        assert a.partitions == [("b", 0)]

    @pytest.mark.thorough
    def test_many_topics_are_searched_off_the_loop(self) -> None:
        world = World(topics={f"a{i}": 1 for i in range(6000)})
        a = Member(world, "a", None, subscribed_topic_regex="a[0-9]")
        a.join()
        assert a.partitions == [] and len(world.computing) == 1
        world.compute()
        a.beat()
        assert len(a.partitions) == 10


class TestLargeGroups:
    def test_the_target_is_made_off_the_loop(self) -> None:
        world = World(topics={"t": 3000})
        a = world.member("a")
        assert a.partitions == [] and len(world.computing) == 1
        b = world.member("b")
        assert len(world.computing) == 1, "one at a time"
        world.compute()
        a.beat()
        assert len(a.partitions) == 3000, "b came later"
        world.settle(a, b)
        assert len(a.partitions) == len(b.partitions) == 1500

    def test_who_left_meanwhile_gets_nothing(self) -> None:
        world = World(topics={"t": 3000})
        a, b = world.member("a"), world.member("b")
        world.settle(a, b)
        world.grow("t", 3100)
        a.beat()
        assert world.computing
        b.leave()
        world.compute()
        assert "b" not in world.group.target
        world.settle(a)
        assert len(a.partitions) == 3100

    def test_who_was_replaced_meanwhile_hands_its_part_on(self) -> None:
        world = World(topics={"t": 3000})
        a = world.member("a", instance_id="i")
        b = world.member("b", instance_id="j")
        world.settle(a, b)
        world.grow("t", 3100)
        a.beat()
        b.leave(-2)
        c = world.member("c", instance_id="j")
        world.compute()
        assert "b" not in world.group.target
        world.settle(a, c)
        assert len(a.partitions) == len(c.partitions) == 1550

    def test_a_refused_append_starts_it_again(self) -> None:
        world = World(topics={"t": 3000})
        world.refuse = ErrorCode.NOT_COORDINATOR
        a = world.member("a")
        assert not world.computing
        world.refuse = None
        a.join()
        world.settle(a)
        assert len(a.partitions) == 3000

    def test_a_heartbeat_that_is_refused_leaves_it_to_the_next(self) -> None:
        world = World(topics={"t": 3000})
        a = world.member("a")
        world.settle(a)
        world.lose_state("a")
        world.grow("t", 3100)
        a.beat()
        assert a.error == ErrorCode.FENCED_MEMBER_EPOCH and not world.computing
        a.join()
        world.settle(a)
        assert len(a.partitions) == 3100

    def test_a_thousand_members_settle(self) -> None:
        world = World(
            GroupSettings(consumer=ConsumerGroupSettings(assignment_interval_ms=1000)),
            {"t": 2000},
        )
        members = [world.member(f"m{i}") for i in range(1000)]
        assert world.group.assignment_epoch == FIRST_EPOCH, "all of it is made off the loop"
        world.compute()
        for _ in range(3):
            world.after(1001)
            for member in members:
                member.beat()
            world.compute()
        for member in members:
            member.beat()
        assert world.described().group_state == "Stable"
        assert {len(member.partitions) for member in members} == {2}


class TestGroupsOfAnyType:
    def test_a_name_belongs_to_one_type(self) -> None:
        world = World()
        a = world.member("a")
        assert [(g.group_type, g.protocol_type) for g in world.listed()] == [
            ("consumer", "consumer")
        ]
        with pytest.raises(KafkaError, match="Group g is not a classic group") as refused:
            world.machine.describe(GroupType.CLASSIC, "g", world.now_ms)
        assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND
        assert world.delete_group() == ErrorCode.NON_EMPTY_GROUP
        a.leave()
        assert world.delete_group() == ErrorCode.NONE
        with pytest.raises(KafkaError, match="Group g not found") as gone:
            world.described()
        assert gone.value.code == ErrorCode.GROUP_ID_NOT_FOUND
        world.restart()
        assert not world.machine.groups

    def test_an_empty_group_makes_room_for_the_other_type(self) -> None:
        world = World()
        world.member("a").leave()
        world.join_new()
        assert [g.group_type for g in world.listed()] == ["classic"]
        world.restart()
        assert [g.group_type for g in world.listed()] == ["classic"]
        world.member("a", group="g")
        assert [g.group_type for g in world.listed()] == ["consumer"]
        world.restart()
        assert [g.group_type for g in world.listed()] == ["consumer"]

    def test_offsets_are_committed_by_member_epoch(self) -> None:
        world = World()
        a, b = world.member("a"), world.member("b")
        topic_id = world.image.topics["t"].topic_id
        world.settle(a, b)
        where = a.partitions[0]

        def commit(epoch: int, partition: tuple[str, int] = where, **fields: Any) -> Any:
            member_id = fields.pop("member_id", "a")
            return world.commit(
                {partition: 5},
                member_id=member_id,
                generation=epoch,
                topic_id=topic_id,
                **fields,
            )

        assert commit(3) == [ErrorCode.NONE]
        assert commit(2) == [ErrorCode.NONE], "a has held it since epoch 2 (KIP-1251)"
        assert commit(2, b.partitions[0], member_id="b") == ErrorCode.STALE_MEMBER_EPOCH
        assert commit(2, b.partitions[0]) == ErrorCode.STALE_MEMBER_EPOCH
        assert commit(4) == ErrorCode.STALE_MEMBER_EPOCH
        assert commit(3, version=8) == ErrorCode.UNSUPPORTED_VERSION
        assert commit(3, member_id="c") == ErrorCode.UNKNOWN_MEMBER_ID
        assert commit(-1, member_id="") == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.fetch_as("a", 3) == 0
        assert world.fetch_as("a", 2) == ErrorCode.STALE_MEMBER_EPOCH
        assert world.fetch_as("c", 2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert world.fetch_as(None, -1) == 0
        a.leave()
        b.leave()
        assert commit(-1, member_id="") == [ErrorCode.NONE]

    def test_offsets_expire_but_not_those_of_topics_that_are_read(self) -> None:
        world = World(
            GroupSettings(
                offsets_retention_ms=100_000,
                offsets_retention_check_interval_ms=10_000,
                consumer=AT_ONCE.consumer,
            )
        )
        a = world.member("a")
        ids: list[Uuid] = [bytes(16)]
        world.commit({("t", 0): 1, ("u", 0): 1}, member_id="a", generation=a.epoch, topic_id=ids[0])
        for _ in range(12):
            world.after(10_000)
            a.beat()
        assert world.fetch() == {("t", 0): 1}
        a.leave()
        world.after(120_000)
        assert world.fetch() == {} and not world.machine.groups
        world.restart()
        assert not world.machine.groups

    def test_groups_may_have_their_own_times(self) -> None:
        world = World()
        world.configure("g", {"consumer.session.timeout.ms": "50000"})
        world.configure("g", {"consumer.heartbeat.interval.ms": "6000"})
        world.member("a")
        answer = world.beat(member_id="a", member_epoch=2)
        assert not isinstance(answer, ErrorCode) and answer.heartbeat_interval_ms == 6000
        world.after(46_000)
        assert world.group.members
        world.after(5000)
        assert not world.group.members
