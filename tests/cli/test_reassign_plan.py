"""The guarantees of a plan for any cluster: no replica is lost, racks stay separate, few replicas
move, and the load is even."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.cli.cluster.replicas import Replicas
from pk.cli.nouns.reassign.plan import (
    Change,
    Intent,
    PlanError,
    State,
    broker_changes,
    changes_of,
    plan,
    transfer_s,
)
from pk.core.values import TopicPartition

BROKERS = tuple(range(1, 8))


def tps(count: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, n) for n in range(count)]


def even(count: int, brokers: Replicas, factor: int) -> dict[TopicPartition, Replicas]:
    """Partitions spread over the brokers as a controller does it."""
    n = len(brokers)
    return {
        tp: tuple(brokers[(i + j) % n] for j in range(factor)) for i, tp in enumerate(tps(count))
    }


@st.composite
def clusters(draw: st.DrawFn) -> State:
    brokers = BROKERS[: draw(st.integers(2, 7))]
    racks: dict[int, str | None] = {b: draw(st.sampled_from("abc")) for b in brokers}
    if draw(st.booleans()):
        racks = dict.fromkeys(brokers)
    replicas = {}
    for topic in ("a", "b")[: draw(st.integers(1, 2))]:
        for n in range(draw(st.integers(1, 12))):
            size = draw(st.integers(1, min(3, len(brokers))))
            replicas[TopicPartition(topic, n)] = tuple(draw(st.permutations(brokers))[:size])
    sizes = {tp: draw(st.integers(0, 1000)) for tp in replicas}
    return State(racks, replicas, sizes)


def after(state: State, new: dict[TopicPartition, Replicas]) -> dict[TopicPartition, Replicas]:
    return {**state.replicas, **new}


def moves(state: State, new: dict[TopicPartition, Replicas]) -> int:
    return sum(len(set(r) - set(state.replicas[tp])) for tp, r in new.items())


def spread(counts: Counter[int], brokers: Replicas) -> int:
    held = [counts[b] for b in brokers]
    return max(held) - min(held)


def replica_counts(replicas: dict[TopicPartition, Replicas]) -> Counter[int]:
    return Counter(b for r in replicas.values() for b in r)


def leader_counts(replicas: dict[TopicPartition, Replicas]) -> Counter[int]:
    return Counter(r[0] for r in replicas.values())


def best_leader_spread(replicas: list[Replicas]) -> int:
    """The smallest sum of squares of the brokers' leaders for any choice of preferred leaders."""
    return min(sum(n * n for n in Counter(choice).values()) for choice in product(*replicas))


@given(clusters(), st.data())
def test_draining_loses_nothing_and_moves_only_what_must_leave(
    state: State, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(state.racks)))
    left = [b for b in state.racks if b != gone]
    intent = Intent(drain=(gone,))
    if any(len(r) > len(left) for r in state.replicas.values()):
        with pytest.raises(PlanError, match="replicas, and only these brokers|no broker is left"):
            plan(state, intent)
        return
    new = plan(state, intent)
    assert set(new) == {tp for tp, r in state.replicas.items() if gone in r}
    for tp, replicas in new.items():
        before = state.replicas[tp]
        assert len(set(replicas)) == len(replicas) == len(before)
        assert gone not in replicas
        assert set(before) - {gone} < set(replicas) or set(before) == {gone}


@given(clusters(), st.data())
def test_a_new_replica_goes_to_a_rack_of_its_own_while_there_is_one(
    state: State, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(state.racks)))
    left = {b: rack for b, rack in state.racks.items() if b != gone}
    if any(len(r) > len(left) for r in state.replicas.values()):
        return
    for tp, replicas in plan(state, Intent(drain=(gone,))).items():
        if None in state.racks.values():
            continue
        kept = [b for b in state.replicas[tp] if b != gone]
        (added,) = set(replicas) - set(kept)
        kept_racks = {state.racks[b] for b in kept}
        if any(rack not in kept_racks for b, rack in left.items() if b not in kept):
            assert state.racks[added] not in kept_racks


@given(clusters(), st.data())
def test_a_replication_factor_is_reached_with_as_few_moves_as_can_be(
    state: State, data: st.DataObject
) -> None:
    wanted = data.draw(st.integers(1, len(state.racks)))
    new = plan(state, Intent(replication_factor=wanted))
    for tp, before in state.replicas.items():
        now = new.get(tp, before)
        assert len(now) == len(set(now)) == wanted
        assert len(set(now) & set(before)) == min(len(before), wanted)
        assert tp in new or len(before) == wanted


@given(clusters(), st.data())
def test_to_keeps_replicas_already_in_place(state: State, data: st.DataObject) -> None:
    most = max(len(r) for r in state.replicas.values())
    to = data.draw(st.permutations(sorted(state.racks)))[: data.draw(st.integers(most, 7))]
    new = plan(state, Intent(to=tuple(to)))
    for tp, before in state.replicas.items():
        now = new.get(tp, before)
        assert set(now) <= set(to) and len(now) == len(before)
        assert set(before) & set(to) <= set(now)
        assert tp in new or set(before) <= set(to)


@given(clusters())
def test_balanced_replicas_differ_by_one_with_the_fewest_moves(state: State) -> None:
    state = state._replace(racks=dict.fromkeys(state.racks))
    new = plan(state, Intent(balance="replicas"))
    brokers = tuple(state.racks)
    counts = replica_counts(after(state, new))
    assert spread(counts, brokers) <= 1
    before = replica_counts(dict(state.replicas))
    low, more = divmod(sum(before.values()), len(brokers))
    targets = sorted((before[b] for b in brokers), reverse=True)
    fewest = sum(max(0, n - low - (i < more)) for i, n in enumerate(targets))
    assert moves(state, new) >= fewest
    for tp, replicas in new.items():
        assert len(set(replicas)) == len(replicas) == len(state.replicas[tp])


def test_balance_needs_no_more_moves_than_the_surplus() -> None:
    state = State(dict.fromkeys(range(1, 7)), even(30, (1, 2, 3), 3))
    new = plan(state, Intent(balance="replicas"))
    assert moves(state, new) == 45
    assert spread(replica_counts(after(state, new)), tuple(range(1, 7))) == 0


@given(clusters())
def test_balance_keeps_racks_apart(state: State) -> None:
    if None in state.racks.values():
        return
    for intent in (Intent(balance="all"), Intent(balance="bytes")):
        for tp, replicas in plan(state, intent).items():
            before = {state.racks[b] for b in state.replicas[tp]}
            assert len({state.racks[b] for b in replicas}) >= len(before)


@given(clusters())
def test_balanced_leaders_are_as_even_as_any_choice_makes_them(state: State) -> None:
    replicas = dict(list(state.replicas.items())[:8])
    state = state._replace(replicas=replicas)
    new = after(state, plan(state, Intent(balance="leaders")))
    assert {tp: set(r) for tp, r in new.items()} == {tp: set(r) for tp, r in replicas.items()}
    reached = sum(n * n for n in leader_counts(new).values())
    assert reached == best_leader_spread(list(replicas.values()))


@given(clusters())
def test_balanced_bytes_never_widen_the_gap(state: State) -> None:
    def gap(replicas: dict[TopicPartition, Replicas]) -> int:
        held = dict.fromkeys(state.racks, 0)
        for tp, r in replicas.items():
            for b in r:
                held[b] += state.sizes[tp]
        return max(held.values()) - min(held.values())

    new = plan(state, Intent(balance="bytes"))
    assert gap(after(state, new)) <= gap(dict(state.replicas))


@given(clusters())
def test_planning_again_changes_nothing(state: State) -> None:
    for intent in (
        Intent(balance="all"),
        Intent(balance="replicas"),
        Intent(to=tuple(state.racks)),
    ):
        new = after(state, plan(state, intent))
        again = plan(state._replace(replicas=new), intent)
        assert moves(state._replace(replicas=new), again) == 0


def test_fifty_partitions_go_to_three_other_brokers_evenly() -> None:
    state = State(dict.fromkeys(range(1, 7)), even(50, (1, 2, 3), 3))
    new = after(state, plan(state, Intent(to=(4, 5, 6))))
    assert replica_counts(new) == {4: 50, 5: 50, 6: 50}
    assert spread(leader_counts(new), (4, 5, 6)) == 1


def test_a_new_broker_takes_its_share_of_replicas_and_leaders_and_nobody_else_moves() -> None:
    state = State(dict.fromkeys((1, 2, 3, 4)), even(60, (1, 2, 3), 2))
    new = plan(state, Intent(add=(4,)))
    assert moves(state, new) == 30
    assert all(set(r) - set(state.replicas[tp]) == {4} for tp, r in new.items())
    counts = replica_counts(after(state, new))
    assert counts == {1: 30, 2: 30, 3: 30, 4: 30}
    assert spread(leader_counts(after(state, new)), (1, 2, 3, 4)) <= 1


def test_only_the_selected_partitions_change() -> None:
    state = State(dict.fromkeys((1, 2, 3)), {**even(6, (1, 2), 2), TopicPartition("u", 0): (1, 2)})
    assert set(plan(state, Intent(drain=(1,)), tps(6))) == set(tps(6))
    assert plan(state, Intent(drain=(1,)), []) == {}


def test_a_partition_that_does_not_change_keeps_its_order() -> None:
    replicas = {TopicPartition("t", 0): (3, 1, 2), TopicPartition("t", 1): (3, 1, 2)}
    state = State(dict.fromkeys((1, 2, 3, 4)), replicas)
    assert plan(state, Intent(to=(1, 2, 3))) == {}
    assert plan(state, Intent(drain=(4,))) == {}


def test_fewer_replicas_give_up_the_dead_then_the_ones_behind_then_a_shared_rack() -> None:
    (tp,) = tps(1)
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "b"}
    dead = State(racks, {tp: (9, 1, 2)})
    assert plan(dead, Intent(replication_factor=2)) == {tp: (1, 2)}
    behind = State(racks, {tp: (1, 2, 3)}, in_sync={tp: (1, 3)})
    assert plan(behind, Intent(replication_factor=2)) == {tp: (1, 3)}
    shared = State(racks, {tp: (1, 2, 3)})
    assert 1 in plan(shared, Intent(replication_factor=2))[tp]


def test_given_assignments_are_taken_to_the_letter() -> None:
    state = State(dict.fromkeys((1, 2, 3)), even(3, (1, 2, 3), 2))
    a, b, c = tps(3)
    assert plan(state, Intent(exact={a: (3, 1), b: state.replicas[b]})) == {a: (3, 1)}
    for wrong, said in (
        ({TopicPartition("t", 9): (1,)}, "Partition t/9 does not exist"),
        ({a: (1, 1)}, "a broker twice"),
        ({a: (7,)}, "broker 7 is missing"),
        ({a: ()}, "at least one"),
    ):
        with pytest.raises(PlanError, match=said):
            plan(state, Intent(exact=wrong))
    dead = State({1: None, 2: None}, {c: (1, 9)})
    assert plan(dead, Intent(exact={c: (9, 2)})) == {c: (9, 2)}


@pytest.mark.parametrize(
    ("intent", "said"),
    [
        (Intent(to=(8,)), "Broker 8 is missing or fenced; available: 1, 2, 3"),
        (Intent(add=(8,)), "Broker 8"),
        (Intent(drain=(8,)), "Broker 8 does not exist"),
        (Intent(drain=(1,), add=(1,)), "filled and drained"),
        (Intent(replication_factor=4), "t/0 needs 4 replicas.*--rf 3"),
        (Intent(drain=(1, 2, 3)), "t/0: no broker is left that could hold a replica; `pk brokers"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(intent: Intent, said: str) -> None:
    state = State(dict.fromkeys((1, 2, 3)), even(3, (1, 2, 3), 2))
    with pytest.raises(PlanError, match=said):
        plan(state, intent)


def test_bytes_brokers_and_time() -> None:
    a, b = tps(2)
    state = State(dict.fromkeys((1, 2, 3)), {a: (1, 2), b: (2, 1)}, {a: 100, b: 40})
    changes = changes_of(state, {a: (3, 2), b: (2, 3)})
    assert changes[0] == Change(a, (1, 2), (3, 2), 100)
    assert [(c.adding, c.removing, c.moves_leader, c.bytes) for c in changes] == [
        ((3,), (1,), True, 100),
        ((3,), (1,), False, 40),
    ]
    brokers = {c.broker: c for c in broker_changes(state, changes, {a: 1, b: 2})}
    assert brokers[1].replicas == (2, 0) and brokers[1].leaders == (1, 0)
    assert brokers[3].bytes == (0, 140) and brokers[3].bytes_in == 140
    assert (brokers[1].bytes_out, brokers[2].bytes_out) == (100, 40)
    assert transfer_s(brokers.values(), 14) == 10.0
