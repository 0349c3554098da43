"""The assignors without Java: cases with Java's recorded answers, and the invariants of any
assignment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from each import for_each
from hypothesis import assume, given
from hypothesis import strategies as st
from net_client.assignment.cases import Group, run

from pk.core.errors import ProtocolError
from pk.core.group.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_cooperative_user_data,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)
from pk.core.values import TopicPartition
from pk.net.client.assignment.assignors import ASSIGNORS, RebalanceProtocol

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "golden" / "assignors.json").read_text()
)

names = st.text("abcxyz", min_size=1, max_size=3)
partitions = st.lists(st.builds(TopicPartition, names, st.integers(0, 20)), max_size=20)


def test_the_golden_cases_cover_every_assignor() -> None:
    assert {g["case"]["assignor"] for g in GOLDEN} == set(ASSIGNORS)
    assert len(GOLDEN) >= 60


@for_each("golden", GOLDEN)
def test_as_java_answered(golden: dict[str, Any]) -> None:
    assert run(golden["case"]) == golden["expected"]


@given(st.integers(400, 1_000_000))
def test_every_partition_goes_to_one_member_that_wants_it(seed: int) -> None:
    group = Group(seed)
    for _ in range(3):
        case = group.case()
        # Java takes members that want nothing for members that want what the next one wants, and so
        # do we.
        assume(all(said["topics"] for said in case["members"].values()))
        given_to = run(case)
        assert given_to.keys() == case["members"].keys()
        everything = [(t, p) for partitions in given_to.values() for t, p in partitions]
        assert len(everything) == len(set(everything))
        for member, assigned in given_to.items():
            said = case["members"][member]
            # Java, and therefore pk, may return to a member the partitions it had before it missed
            # a rebalance, although it no longer subscribes to their topic.
            assert all(p[0] in said["topics"] or p in said["owned"] for p in assigned)
        wanted = {t for said in case["members"].values() for t in said["topics"]}
        expected = {
            (t, i)
            for t, all_racks in case["topics"].items()
            if t in wanted
            for i in range(len(all_racks))
        }
        left = expected - set(everything)
        if case["assignor"] == "cooperative-sticky":
            held = {tuple(p) for said in case["members"].values() for p in said["owned"]}
            assert left <= held, "what is not given, somebody has to let go first"
        else:
            assert not left
        group.assigned(given_to)


@given(st.integers(0, 40), st.integers(1, 9), st.sampled_from(sorted(ASSIGNORS)))
def test_members_of_one_topic_differ_by_one_at_most(
    count: int, members: int, assignor: str
) -> None:
    subscriptions = {f"m{i}": Subscription(("t",)) for i in range(members)}
    assigned = ASSIGNORS[assignor].assign({"t": count}, subscriptions)
    sizes = [len(p) for p in assigned.values()]
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1


def test_a_partition_changes_hands_in_two_rebalances() -> None:
    assignor = ASSIGNORS["cooperative-sticky"]
    everything = tuple(TopicPartition("t", p) for p in range(4))
    first = {"a": Subscription(("t",), None, everything, 1), "b": Subscription(("t",))}
    assigned = assignor.assign({"t": 4}, first)
    assert assigned == {"a": list(everything[:2]), "b": []}
    second = {
        "a": Subscription(("t",), None, everything[:2], 2),
        "b": Subscription(("t",), None, (), 2),
    }
    assert assignor.assign({"t": 4}, second) == {
        "a": list(everything[:2]),
        "b": list(everything[2:]),
    }


def test_what_each_can_serve() -> None:
    cooperative = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    for name, assignor in ASSIGNORS.items():
        assert assignor.name == name
        assert assignor.protocols == (
            cooperative if name == "cooperative-sticky" else (RebalanceProtocol.EAGER,)
        )


def test_no_member_gets_nothing() -> None:
    for assignor in ASSIGNORS.values():
        assert assignor.assign({"t": 3}, {}) == {}


def test_topics_that_do_not_exist_are_left_out() -> None:
    for assignor in ASSIGNORS.values():
        subscriptions = {"a": Subscription(("gone", "t")), "b": Subscription(("gone",))}
        assert assignor.assign({"t": 1}, subscriptions) == {"a": [TopicPartition("t", 0)], "b": []}


class TestBytes:
    @given(partitions, st.integers(0, 3), st.integers(-1, 9), st.none() | names)
    def test_a_subscription_comes_back(
        self, owned: list[TopicPartition], version: int, generation: int, rack: str | None
    ) -> None:
        said = Subscription(("a", "b"), b"x", tuple(sorted(owned)), generation, rack)
        read = decode_subscription(encode_subscription(said, version))
        assert (read.topics, read.user_data) == (said.topics, said.user_data)
        assert read.owned == (said.owned if version >= 1 else ())
        assert read.generation == (generation if version >= 2 else -1)
        assert read.rack == (rack if version >= 3 else None)

    @given(partitions)
    def test_an_assignment_comes_back(self, given_to: list[TopicPartition]) -> None:
        assert sorted(decode_assignment(encode_assignment(given_to))) == sorted(given_to)

    def test_a_version_from_the_future_is_read_as_far_as_we_know(self) -> None:
        said = encode_subscription(Subscription(("t",), rack="r"))
        assert decode_subscription(b"\0\x09" + said[2:] + b"more").rack == "r"

    def test_a_member_that_was_left_out_has_nothing(self) -> None:
        assert decode_assignment(b"") == []

    @pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\x01"])
    def test_damage_is_reported(self, data: bytes) -> None:
        with pytest.raises(ProtocolError):
            decode_subscription(data)

    @given(partitions, st.integers(-1, 9))
    def test_sticky_user_data_come_back(self, owned: list[TopicPartition], generation: int) -> None:
        data = encode_sticky_user_data(owned, generation)
        read, read_generation = decode_sticky_user_data(data)
        assert (sorted(read), read_generation) == (sorted(owned), generation)
        assert decode_sticky_user_data(data[:-4])[1] == -1, "version 0 has no generation"

    @given(st.binary(max_size=40))
    def test_user_data_that_cannot_be_read_are_none(self, data: bytes) -> None:
        read, generation = decode_sticky_user_data(data)
        assert isinstance(generation, int) and len(read) <= len(data)
        assert isinstance(decode_cooperative_user_data(data), int)

    @pytest.mark.parametrize(
        "data",
        [
            b"\xff\xff\xff\xff",
            b"\x7f\xff\xff\xff",
            b"\0\0\0\x01\0\x05t",
            b"\0\0\0\x01\xff\xff\0\0\0\0",
            b"\0\0\0\x01\0\x01t\xff\xff\xff\xff",
            b"\0\0\0\x01\0\x01t\x7f\xff\xff\xff",
        ],
    )
    def test_lies_in_sticky_user_data(self, data: bytes) -> None:
        assert decode_sticky_user_data(data) == ([], -1)
