"""The pace of `--throttle auto`, plans that run in steps of a few moves, and the mark that a
throttle leaves."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pk.cli.cluster import rollback_files
from pk.cli.cluster.throttle_marks import marked
from pk.cli.cluster.throttles import Throttled
from pk.cli.nouns.reassign.pace import CEILING, FLOOR, START_RATE, Pace, sample, worst
from pk.cli.nouns.reassign.plan import Change, first_moves
from pk.core.values import TopicPartition
from pk.net.client.results import PartitionDescription

A, B, C = (TopicPartition("t", n) for n in range(3))


def described(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(0, leader, 1, replicas, isr)


# The pace


def test_the_pace_grows_while_what_is_given_is_used() -> None:
    pace = Pace(START_RATE)
    assert pace.step(used=9e6, lacking=[], behind=0) == "there is capacity"
    assert pace.rate == 15_000_000
    assert pace.step(used=1e6, lacking=[], behind=0) is None  # something else holds it back
    assert pace.rate == 15_000_000


def test_the_pace_is_halved_when_another_replica_suffers() -> None:
    pace = Pace(START_RATE)
    pace.step(used=0, lacking=[A], behind=0)  # A was out of sync before the move
    assert pace.rate == START_RATE
    assert pace.step(used=9e9, lacking=[A, B], behind=0) == "other replicas fell out of sync"
    assert pace.rate == START_RATE // 2
    assert pace.step(used=9e9, lacking=[A], behind=5000) == "other replicas fall behind"
    assert pace.step(used=9e9, lacking=[A], behind=900) == "there is capacity"


def test_who_came_back_and_leaves_again_suffers_again() -> None:
    pace = Pace(START_RATE)
    for lacking in ([A], []):
        pace.step(used=0, lacking=lacking, behind=0)
    assert pace.step(used=0, lacking=[A], behind=0) == "other replicas fell out of sync"


@given(
    st.lists(
        st.tuples(st.floats(0, 1e12), st.sets(st.sampled_from([A, B, C])), st.integers(0, 10**6))
    )
)
def test_the_pace_stays_within_its_bounds(
    steps: list[tuple[float, set[TopicPartition], int]],
) -> None:
    pace = Pace(START_RATE)
    for used, lacking, behind in steps:
        before = pace.rate
        why = pace.step(used=used, lacking=lacking, behind=behind)
        assert FLOOR <= pace.rate <= CEILING
        assert (why is None) == (pace.rate == before)


def test_the_sample_is_of_what_lies_beside_the_moves() -> None:
    partitions = {TopicPartition("t", n): described(1, (1, 2), (1, 2)) for n in range(500)}
    partitions[TopicPartition("far", 0)] = described(3, (3, 4), (3, 4))
    partitions[TopicPartition("alone", 0)] = described(1, (1,), (1,))
    found = sample(partitions, [A], [1])
    assert 30 < len(found) <= 60 and A not in found
    assert {tp.topic for tp in found} == {"t"}


def test_the_worst_follower_is_one_that_is_in_sync() -> None:
    partitions = {A: described(1, (1, 2, 3), (1, 2)), B: described(1, (1, 2), (1, 2))}
    assert worst(partitions, {A: {1: 100, 2: 90, 3: 5}, B: {1: 50}}) == 10
    assert worst(partitions, {}) == 0


# A few moves at a time


def test_the_smallest_moves_come_first_and_orders_cost_nothing() -> None:
    changes = [
        Change(A, (1, 2), (3, 2), 900),
        Change(B, (1, 2), (3, 2), 100),
        Change(C, (1, 2), (2, 1), 5000),
    ]
    assert [c.tp for c in first_moves(changes, 1)] == [B, C]
    assert [c.tp for c in first_moves(changes, 2)] == [A, B, C]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10**9)), max_size=20), st.integers(1, 9)
)
def test_no_more_replicas_are_copied_than_asked_for(
    sizes: list[tuple[int, int]], most: int
) -> None:
    changes = [
        Change(TopicPartition("t", n), (1,), tuple(range(1, 2 + new)), size)
        for n, (new, size) in enumerate(sizes)
    ]
    kept = first_moves(changes, most)
    assert sum(len(c.adding) for c in kept) <= most
    assert [c.tp for c in kept] == sorted(c.tp for c in kept)
    left_out = [c for c in changes if c not in kept]
    assert all(sum(len(c.adding) for c in kept) + len(c.adding) > most for c in left_out)


# The mark


@pytest.fixture
def stamps() -> "itertools.count[int]":
    return itertools.count(1)


def test_a_throttle_leaves_a_mark_for_as_long_as_it_is_set(stamps: "itertools.count[int]") -> None:
    assert not marked()
    throttled = Throttled(5, {1: {"leader.replication.throttled.rate": None}})
    rollback = rollback_files.Rollback(
        rollback_files.new_path(next(stamps)), "cluster", 1, {A: (1,)}, {A: (2,)}, throttled
    )
    rollback_files.write(rollback)
    assert marked()
    rollback_files.write(rollback._replace(throttled=Throttled()))
    assert not marked()
    rollback_files.write(rollback._replace(throttled=Throttled(), finished="done"))
    assert not marked() and len(rollback_files.rollbacks("cluster")) == 1


def test_a_file_that_knows_of_a_throttle_is_never_tidied_away(
    stamps: "itertools.count[int]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollback_files, "_KEEP_FILES", 1)
    throttled = Throttled(5, {1: {"leader.replication.throttled.rate": None}})
    kept = [
        rollback_files.Rollback(
            rollback_files.new_path(next(stamps)), "c", 1, {}, {}, throttled, "done"
        )
        for _ in range(3)
    ]
    for rollback in kept:
        rollback_files.write(rollback)
    rollback_files.delete_oldest("c")
    assert len(rollback_files.rollbacks("c")) == 3 and marked()
    for rollback in kept:
        rollback_files.write(rollback._replace(throttled=Throttled()))
    rollback_files.delete_oldest("c")
    assert len(rollback_files.rollbacks("c")) == 1 and not marked()
