"""The classic group protocol, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest
from group.scenario import START_MS, Scenario, classic_of, subscription

from pk.core.errors import ErrorCode
from pk.core.group.any_group import GroupType
from pk.core.group.classic.group import TRANSITIONS, State
from pk.core.group.records import decode_record
from pk.core.group.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from pk.core.wire.messages.describe_groups import DescribedGroup
from pk.core.wire.messages.offsets_topic import GroupMetadataValue

NONE = ErrorCode.NONE


@pytest.fixture
def s() -> Scenario:
    return Scenario()


def last_value(s: Scenario) -> GroupMetadataValue:
    record = decode_record(*s.log[-1])
    assert record is not None and isinstance(record.value, GroupMetadataValue)
    return record.value


def describe(s: Scenario) -> DescribedGroup:
    return s.take(s.machine.describe(GroupType.CLASSIC, "g", s.now_ms))


def test_the_table_of_states_is_kafkas() -> None:
    before = {
        state: {s for s, following in TRANSITIONS.items() if state in following} for state in State
    }
    assert before[State.EMPTY] == {State.PREPARING_REBALANCE}
    assert before[State.PREPARING_REBALANCE] == {
        State.STABLE,
        State.COMPLETING_REBALANCE,
        State.EMPTY,
    }
    assert before[State.COMPLETING_REBALANCE] == {State.PREPARING_REBALANCE}
    assert before[State.STABLE] == {State.COMPLETING_REBALANCE}
    assert before[State.DEAD] == set(State)


class TestJoin:
    def test_a_new_member_has_to_come_back_with_the_id_it_is_given(self, s: Scenario) -> None:
        required = s.join()
        assert (required.error_code, required.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-id1")
        assert s.state == "Empty"
        assert isinstance(s.join(required.member_id), int), "waits"

    def test_before_version_4_it_joins_at_once(self, s: Scenario) -> None:
        token = s.join(version=3)
        joined = s.after(3000)[token]
        assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 1, "c-id1")

    def test_a_static_member_joins_at_once(self, s: Scenario) -> None:
        token = s.join(instance_id="i")
        joined = s.after(3000)[token]
        assert joined.member_id == "i-id1"
        assert joined.members[0].group_instance_id == "i"

    def test_an_unknown_id_is_refused_and_makes_no_group(self, s: Scenario) -> None:
        assert s.join("who").error_code == ErrorCode.UNKNOWN_MEMBER_ID
        s.join()
        assert s.join("who").error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert s.join("who", group="h").error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert list(s.machine.groups) == ["g"]

    @pytest.mark.parametrize("session_ms", [5999, 1_800_001])
    def test_the_session_timeout_has_bounds(self, s: Scenario, session_ms: int) -> None:
        assert s.join(session_ms=session_ms).error_code == ErrorCode.INVALID_SESSION_TIMEOUT

    @pytest.mark.parametrize(
        "said",
        [
            {"client_id": "c" * 32_731},
            {"client_id": "é" * 16_366},
            {"instance_id": "i" * 32_731},
            {"protocol_type": "p" * 32_768},
            {"protocols": [("p" * 32_768, b"")]},
        ],
        ids=lambda said: next(iter(said)),
    )
    def test_what_no_record_can_hold_is_refused(self, s: Scenario, said: dict[str, Any]) -> None:
        assert s.join(**said).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert not s.machine.groups

    def test_the_longest_client_id_has_a_record(self) -> None:
        member = "00000000-0000-0000-0000-000000000000"
        s = Scenario()
        s.machine.classic._new_id = lambda: member
        token = s.join(client_id="c" * 32_730, version=3)
        joined = s.after(3000)[token]
        assert s.sync(joined.member_id, 1, {joined.member_id: b"x"}).assignment == b"x"
        assert len(last_value(s).members[0].member_id) == 32_767

    def test_a_protocol_that_is_named_twice_counts_once(self, s: Scenario) -> None:
        twice = [("range", subscription("t")), ("range", subscription("u"))]
        tokens = [s.join(version=3, protocols=twice), s.join(version=3)]
        answers = s.after(6000)
        assert [(answers[t].error_code, answers[t].protocol_name) for t in tokens] == [
            (NONE, "range"),
            (NONE, "range"),
        ]

    def test_the_group_needs_an_id(self, s: Scenario) -> None:
        assert s.join(group="").error_code == ErrorCode.INVALID_GROUP_ID

    @pytest.mark.parametrize(("protocol_type", "protocols"), [("", [("a", b"")]), ("consumer", [])])
    def test_an_empty_group_wants_protocols(
        self, s: Scenario, protocol_type: str, protocols: list[tuple[str, bytes]]
    ) -> None:
        joined = s.join(protocol_type=protocol_type, protocols=protocols)
        assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_members_need_a_protocol_in_common(self, s: Scenario) -> None:
        s.join_new(protocols=[("range", b"")])
        refused: list[dict[str, Any]] = [
            {"protocols": [("sticky", b"")]},
            {"protocols": [("range", b"")], "protocol_type": "connect"},
        ]
        for options in refused:
            assert s.join(**options).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_the_leader_hears_of_everybody_and_the_others_of_nobody(self, s: Scenario) -> None:
        first, first_token = s.join_new()
        second, second_token = s.join_new()
        answers = s.after(6000)
        led, followed = answers[first_token], answers[second_token]
        assert led.leader == followed.leader == first
        assert [m.member_id for m in led.members] == [first, second]
        assert followed.members == []
        assert (followed.generation_id, followed.protocol_name) == (1, "range")
        assert s.state == "CompletingRebalance"

    def test_the_protocol_is_voted_for(self, s: Scenario) -> None:
        for names in ("ab", "abc", "bca"):
            s.join_new(protocols=[(n, b"") for n in names])
        answers = s.after(9000)
        assert {a.protocol_name for a in answers.values()} == {"a"}, "c is not spoken by all"

    def test_in_version_0_the_session_timeout_is_the_rebalance_timeout_too(
        self, s: Scenario
    ) -> None:
        s.join(version=0, session_ms=7000, rebalance_ms=-1)
        assert classic_of(s.machine).rebalance_timeout_ms == 7000


class TestInitialDelay:
    def test_it_is_waited_out(self, s: Scenario) -> None:
        _, token = s.join_new()
        assert s.after(2999) == {}
        assert list(s.after(1)) == [token]

    def test_each_newcomer_extends_it_up_to_the_rebalance_timeout(self, s: Scenario) -> None:
        s.join_new(rebalance_ms=8000)
        for _ in range(2):
            assert s.after(2000) == {}
            s.join_new(rebalance_ms=8000)
        # It begins at 0, and is extended at 3,000 to 6,000 and then to 8,000, when the time is used
        # up.
        assert s.after(3999) == {}
        assert len(s.after(1)) == 3

    def test_it_does_not_end_with_the_session_of_who_never_came_back_with_an_id(self) -> None:
        s = Scenario(GroupSettings(initial_rebalance_delay_ms=8000))
        s.join(session_ms=6000)
        _, token = s.join_new()
        assert s.after(7999) == {}
        assert list(s.after(1)) == [token]

    def test_without_it_the_join_phase_ends_at_once(self) -> None:
        s = Scenario(GroupSettings(initial_rebalance_delay_ms=0))
        _, token = s.join_new()
        assert list(s.after(0)) == [token]


class TestSync:
    def test_everybody_gets_what_the_leader_assigned(self, s: Scenario) -> None:
        ids = [s.join_new()[0] for _ in range(3)]
        s.after(9000)
        tokens = [s.sync(m, 1) for m in ids[1:]]
        assert all(isinstance(t, int) for t in tokens)
        led = s.sync(ids[0], 1, {ids[0]: b"x", ids[1]: b"y"})
        assert led.assignment == b"x"
        assert [s.answers[t].assignment for t in tokens] == [b"y", b""]
        assert led.protocol_name == "range"
        assert s.state == "Stable"

    def test_who_comes_late_still_gets_it(self, s: Scenario) -> None:
        ids = [s.join_new()[0] for _ in range(2)]
        s.after(9000)
        s.sync(ids[0], 1, {ids[1]: b"y"})
        assert s.sync(ids[1], 1).assignment == b"y"

    def test_what_is_refused(self, s: Scenario) -> None:
        (member,) = s.stable(1)
        for error, options in (
            (ErrorCode.ILLEGAL_GENERATION, {"generation": 2}),
            (ErrorCode.UNKNOWN_MEMBER_ID, {"member_id": "who"}),
            (ErrorCode.UNKNOWN_MEMBER_ID, {"group": "h"}),
            (ErrorCode.INVALID_GROUP_ID, {"group": ""}),
            (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, {"protocol": "sticky"}),
            (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, {"protocol_type": "connect"}),
            (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, {"protocol": None}),
        ):
            request = {"member_id": member, "generation": 1, **options}
            assert s.sync(**request).error_code == error, options
        assert s.sync(member, 1, protocol=None, protocol_type=None, version=4).error_code == NONE

    def test_during_the_join_phase(self, s: Scenario) -> None:
        ids = s.stable(2)
        s.join_new()
        assert s.sync(ids[0], 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_a_newcomer_sends_those_who_wait_back_to_join(self, s: Scenario) -> None:
        ids = [s.join_new()[0] for _ in range(2)]
        s.after(9000)
        token = s.sync(ids[1], 1)
        s.join_new()
        assert s.answers[token].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert s.state == "PreparingRebalance"

    def test_who_does_not_sync_in_time_is_dropped(self, s: Scenario) -> None:
        ids = [s.join_new(rebalance_ms=20_000)[0] for _ in range(2)]
        s.after(6000)
        token = s.sync(ids[1], 1)
        for _ in range(2):
            s.after(9000)
            assert s.heartbeat(ids[0], 1) == NONE, "alive, but it never assigns"
        assert s.after(2000)[token].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert list(classic_of(s.machine).members) == ids[1:]

    def test_the_refused_record_leaves_the_leader_to_try_again(self, s: Scenario) -> None:
        (member,) = [s.join_new()[0]]
        s.after(3000)
        s.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
        assert s.sync(member, 1, {member: b"x"}) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert s.state == "CompletingRebalance"
        s.refuse = None
        assert s.sync(member, 1, {member: b"x"}).assignment == b"x"
        assert s.state == "Stable"


class TestRejoin:
    def test_a_static_member_whose_return_cannot_be_written_keeps_its_old_id(
        self, s: Scenario
    ) -> None:
        s.join(instance_id="i")
        s.after(3000)
        group = classic_of(s.machine)
        (old,) = group.members
        s.sync(old, 1, {old: b"x"}, instance_id="i")
        s.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
        s.join(instance_id="i")
        assert list(group.members) == [old] and group.leader == old
        assert s.heartbeat(old, 1, "i") == NONE
        s.refuse = None
        s.join(instance_id="i")
        (new,) = group.members
        assert new != old
        assert s.heartbeat(old, 1, "i") == ErrorCode.FENCED_INSTANCE_ID

    def test_a_follower_that_says_the_same_is_answered_at_once(self, s: Scenario) -> None:
        ids = s.stable(2)
        joined = s.join(ids[1])
        assert (joined.generation_id, joined.members, joined.leader) == (1, [], ids[0])
        assert s.state == "Stable"

    def test_the_leader_starts_a_rebalance_by_it(self, s: Scenario) -> None:
        ids = s.stable(2)
        token = s.join(ids[0])
        assert s.state == "PreparingRebalance"
        assert s.heartbeat(ids[1], 1) == ErrorCode.REBALANCE_IN_PROGRESS
        joined = s.join(ids[1])
        assert (joined.generation_id, s.answers[token].generation_id) == (2, 2)

    def test_new_metadata_start_one_too(self, s: Scenario) -> None:
        ids = s.stable(2)
        assert isinstance(s.join(ids[1], protocols=[("range", subscription("t", "u"))]), int)
        assert s.state == "PreparingRebalance"

    def test_in_the_sync_phase_a_lost_answer_is_given_again(self, s: Scenario) -> None:
        ids = [s.join_new()[0] for _ in range(2)]
        s.after(9000)
        again = s.rejoin(*ids)
        assert [len(a.members) for a in again] == [2, 0]
        assert s.state == "CompletingRebalance"
        assert isinstance(s.join(ids[1], protocols=[("range", b"\0\0")]), int)
        assert s.state == "PreparingRebalance"

    def test_a_repeated_request_takes_the_place_of_the_first(self, s: Scenario) -> None:
        member, token = s.join_new()
        again = s.join(member)
        assert s.after(0) == {}
        assert s.answers[token].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert s.after(3000)[again].error_code == NONE

    def test_who_does_not_rejoin_in_time_is_dropped(self, s: Scenario) -> None:
        ids = s.stable(2, rebalance_ms=20_000)
        token = s.join(ids[1], protocols=[("range", b"\0\0")], rebalance_ms=20_000)
        for _ in range(2):
            s.after(9000)
            s.heartbeat(ids[0], 1)
        joined = s.after(2000)[token]
        assert (joined.leader, joined.generation_id) == (ids[1], 2)
        assert s.heartbeat(ids[0], 1) == ErrorCode.UNKNOWN_MEMBER_ID


class TestHeartbeat:
    def test_silence_ends_a_member(self, s: Scenario) -> None:
        ids = s.stable(2)
        s.after(5000)
        assert s.heartbeat(ids[0], 1) == NONE
        s.after(5001)
        assert list(classic_of(s.machine).members) == ids[:1]
        assert s.heartbeat(ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert s.heartbeat(ids[1], 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_what_is_refused(self, s: Scenario) -> None:
        (member,) = s.stable(1)
        assert s.heartbeat(member, 2) == ErrorCode.ILLEGAL_GENERATION
        assert s.heartbeat("who", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert s.heartbeat(member, 1, group="h") == ErrorCode.UNKNOWN_MEMBER_ID
        assert s.heartbeat(member, 1, group="") == ErrorCode.INVALID_GROUP_ID
        assert s.heartbeat(member, 1, "i") == ErrorCode.UNKNOWN_MEMBER_ID

    def test_who_waits_here_is_alive(self, s: Scenario) -> None:
        ids = s.stable(2)
        token = s.join(ids[0], session_ms=6000, rebalance_ms=40_000)
        for _ in range(4):
            s.after(8000)
            s.heartbeat(ids[1], 1)
        assert token not in s.answers and ids[0] in classic_of(s.machine).members

    def test_a_pending_id_expires(self, s: Scenario) -> None:
        s.join()
        s.after(9999)
        assert classic_of(s.machine).pending_join == {"c-id1"}
        s.after(1)
        assert classic_of(s.machine).pending_join == set()
        assert s.join("c-id1").error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_pending_id_holds_the_join_phase_up(self, s: Scenario) -> None:
        ids = s.stable(1)
        s.join()
        token = s.join(ids[0])
        assert isinstance(token, int)
        assert token in s.after(10_000)

    def test_a_new_member_that_waits_is_given_five_minutes(self, s: Scenario) -> None:
        ids = s.stable(1, rebalance_ms=1_000_000)
        _, token = s.join_new()
        waited_ms = 0
        while token not in s.answers and waited_ms < 2 * NEW_MEMBER_JOIN_TIMEOUT_MS:
            s.after(5000)
            waited_ms += 5000
            s.heartbeat(ids[0], 1)
        assert waited_ms == NEW_MEMBER_JOIN_TIMEOUT_MS
        assert s.answers[token].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_commit_is_a_sign_of_life(self, s: Scenario) -> None:
        (member,) = s.stable(1)
        for _ in range(3):
            s.after(9000)
            assert s.commit({("t", 0): 1}, member_id=member, generation=1) == [NONE]
        assert s.heartbeat(member, 1) == NONE


class TestLeave:
    def test_the_others_rebalance(self, s: Scenario) -> None:
        ids = s.stable(2)
        assert s.leave(ids[1]) == [NONE]
        assert s.heartbeat(ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert s.join(ids[0]).generation_id == 2

    def test_the_last_one_leaves_an_empty_group(self, s: Scenario) -> None:
        ids = s.stable(2)
        assert s.leave(*ids) == [NONE, NONE]
        assert s.state == "Empty"
        value = last_value(s)
        assert (value.generation, value.members, value.protocol_type) == (2, [], "consumer")
        assert (value.protocol, value.leader) == (None, None)
        assert value.current_state_timestamp == s.now_ms

    @pytest.mark.parametrize("version", [0, 2])
    def test_one_member_in_old_versions(self, s: Scenario, version: int) -> None:
        (member,) = s.stable(1)
        assert s.leave("who", version=version) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert s.leave(member, version=version) == [NONE]

    def test_what_is_refused_one_by_one(self, s: Scenario) -> None:
        ids = s.stable(1)
        codes = s.leave("who", ("", "nobody"), ("", None), (ids[0], "i"), ids[0])
        assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 4 + [NONE]
        assert s.leave("who", group="h") == [ErrorCode.UNKNOWN_MEMBER_ID]

    def test_nobody_is_meant_by_neither_an_id_nor_an_instance(self, s: Scenario) -> None:
        s.join(instance_id="")
        assert s.leave(("", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
        assert s.leave(("", "")) == [NONE]

    def test_a_pending_member_may_leave(self, s: Scenario) -> None:
        member = s.join().member_id
        assert s.leave(member) == [NONE]
        assert s.join(member).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_who_leaves_while_it_waits_is_told(self, s: Scenario) -> None:
        member, token = s.join_new()
        s.leave(member)
        assert s.answers[token].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_leader_leaves_and_another_leads(self, s: Scenario) -> None:
        ids = s.stable(3)
        s.leave(ids[0])
        s.join(ids[1])
        assert s.join(ids[2]).leader == ids[1]


class TestStatic:
    """KIP-345 and KIP-814."""

    @pytest.fixture
    def ids(self, s: Scenario) -> list[str]:
        first = s.join(instance_id="a")
        second = s.join(instance_id="b")
        answers = s.after(6000)
        ids = [answers[first].member_id, answers[second].member_id]
        s.sync(ids[1], 1, instance_id="b")
        s.sync(ids[0], 1, {ids[0]: b"x", ids[1]: b"y"}, instance_id="a")
        return ids

    def test_who_returns_gets_a_new_id_and_its_old_assignment(
        self, s: Scenario, ids: list[str]
    ) -> None:
        records = len(s.log)
        joined = s.join(instance_id="b")
        assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 1, ids[0])
        assert joined.member_id not in ids
        assert s.state == "Stable"
        assert len(s.log) == records + 1
        assert [m.member_id for m in last_value(s).members] == [ids[0], joined.member_id]
        assert s.sync(joined.member_id, 1, instance_id="b").assignment == b"y"

    def test_the_old_id_is_fenced(self, s: Scenario, ids: list[str]) -> None:
        s.join(instance_id="b")
        fenced = ErrorCode.FENCED_INSTANCE_ID
        assert s.heartbeat(ids[1], 1, "b") == fenced
        assert s.join(ids[1], instance_id="b").error_code == fenced
        assert s.sync(ids[1], 1, instance_id="b").error_code == fenced
        assert s.leave((ids[1], "b")) == [fenced]
        assert s.heartbeat(ids[1], 1) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_returning_leader_skips_the_assignment(self, s: Scenario, ids: list[str]) -> None:
        joined = s.join(instance_id="a")
        assert joined.skip_assignment
        assert joined.leader == joined.member_id
        assert len(joined.members) == 2

    def test_before_version_9_it_does_not_hear_that_it_leads(
        self, s: Scenario, ids: list[str]
    ) -> None:
        joined = s.join(instance_id="a", version=8)
        assert (joined.leader, joined.members, joined.skip_assignment) == (ids[0], [], False)

    def test_a_change_of_the_chosen_protocol_rebalances(self, s: Scenario) -> None:
        both = [("range", b"\0\0"), ("sticky", b"\0\0")]
        tokens = [s.join(instance_id=i, protocols=both) for i in "abc"]
        answers = s.after(9000)
        s.sync(answers[tokens[0]].member_id, 1, {}, instance_id="a")
        assert s.join(instance_id="b", protocols=both[::-1]).generation_id == 1
        assert s.state == "Stable", "range still has two votes of three"
        assert isinstance(s.join(instance_id="b", protocols=both[1:]), int)
        assert s.state == "PreparingRebalance"

    def test_in_the_join_phase_who_waited_is_fenced(self, s: Scenario) -> None:
        token = s.join(instance_id="a")
        again = s.join(instance_id="a")
        assert s.answers[token].error_code == ErrorCode.FENCED_INSTANCE_ID
        assert s.after(6000)[again].member_id == "a-id2"

    def test_in_the_sync_phase_everybody_joins_again(self, s: Scenario) -> None:
        tokens = [s.join(instance_id=i) for i in "ab"]
        answers = s.after(6000)
        waiting = s.sync(answers[tokens[1]].member_id, 1, instance_id="b")
        s.join(instance_id="a")
        assert s.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert s.state == "PreparingRebalance"

    def test_it_keeps_its_place_when_it_misses_a_rebalance(
        self, s: Scenario, ids: list[str]
    ) -> None:
        s.join(ids[0], instance_id="a", rebalance_ms=7000)
        for _ in range(10):
            s.after(6000)
            s.heartbeat(ids[1], classic_of(s.machine).generation, "b")
        assert set(classic_of(s.machine).static_members) == {"a", "b"}

    def test_its_session_ends_as_any(self, s: Scenario, ids: list[str]) -> None:
        s.after(10_001)
        assert classic_of(s.machine).static_members == {}

    def test_an_admin_removes_it_by_its_instance_id(self, s: Scenario, ids: list[str]) -> None:
        assert s.leave(("", "b")) == [NONE]
        assert classic_of(s.machine).static_members == {"a": ids[0]}

    def test_a_new_one_beside_the_others_rebalances(self, s: Scenario, ids: list[str]) -> None:
        assert isinstance(s.join(instance_id="c"), int)
        assert s.state == "PreparingRebalance"


class TestSize:
    def test_a_full_group_takes_no_member(self) -> None:
        s = Scenario(GroupSettings(max_size=2))
        s.stable(2)
        assert s.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

    def test_while_it_forms_those_who_wait_count(self) -> None:
        s = Scenario(GroupSettings(max_size=2))
        first, second, third = (s.join().member_id for _ in range(3))
        s.join(first)
        s.join(second)
        assert s.join(third).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert classic_of(s.machine).pending_join == set()

    def test_a_loaded_group_that_is_too_large_rebalances(self) -> None:
        s = Scenario()
        ids = s.stable(3)
        s.settings = GroupSettings(max_size=2)
        s.restart()
        assert s.heartbeat(ids[0], 1) == ErrorCode.REBALANCE_IN_PROGRESS
        answers = [s.join(m) for m in ids]
        assert answers[2].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


class TestRecords:
    def test_a_group_begins_with_an_empty_record(self, s: Scenario) -> None:
        s.join()
        key, value = s.log[0]
        assert key == b"\0\x02\0\x01g"
        assert value is not None and value[:2] == b"\0\x03", "version 3"
        group = last_value(s)
        assert (group.generation, group.protocol_type, group.members) == (0, "", [])
        assert (group.protocol, group.leader) == (None, None)
        assert group.current_state_timestamp == START_MS
        assert len(s.log) == 1

    def test_a_generation_is_written_with_its_assignments(self, s: Scenario) -> None:
        ids = s.stable(2)
        value = last_value(s)
        assert (value.generation, value.protocol, value.leader) == (1, "range", ids[0])
        assert [(m.member_id, m.assignment) for m in value.members] == [
            (ids[0], b"0"),
            (ids[1], b"1"),
        ]
        assert value.members[0].client_host == "/1.2.3.4"
        assert (value.members[0].session_timeout, value.members[0].rebalance_timeout) == (
            10_000,
            60_000,
        )

    def test_a_new_coordinator_knows_the_group_and_gives_every_member_a_whole_session(
        self, s: Scenario
    ) -> None:
        ids = s.stable(2)
        s.after(9000)
        s.restart()
        assert s.state == "Stable"
        assert s.sync(ids[1], 1).assignment == b"1"
        s.after(9999)
        assert [s.heartbeat(m, 1) for m in ids] == [NONE, NONE]
        s.after(10_001)
        assert s.state == "Empty"

    def test_a_rebalance_under_way_is_forgotten(self, s: Scenario) -> None:
        ids = s.stable(2)
        s.join(ids[0])
        s.restart()
        assert s.state == "Stable"
        assert s.heartbeat(ids[0], 1) == NONE

    def test_describe_tells_metadata_only_when_stable(self, s: Scenario) -> None:
        ids = s.stable(2)
        stable = describe(s)
        assert (stable.group_state, stable.protocol_data) == ("Stable", "range")
        assert stable.members[1].member_metadata == subscription("t")
        assert stable.members[1].member_assignment == b"1"
        s.join(ids[0])
        preparing = describe(s)
        assert (preparing.group_state, preparing.protocol_data) == ("PreparingRebalance", "")
        assert preparing.members[1].member_metadata == b""
