"""The server-side assignors: Apache's answers, and the invariants of their assignments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from each import for_each
from group.consumer.server_cases import ASSIGNORS, Case, ChangingGroup, printed, spec

from pk.core.group.assignor import GroupSpec, MemberSpec
from pk.core.group.consumer.ranges import ServerRangeAssignor
from pk.core.group.consumer.uniform import UniformAssignor
from pk.core.group.metadata_hash import group_hash, topic_hash
from pk.core.values import TopicIdPartition, uuid_from_text

GOLDEN = Path(__file__).parents[2] / "golden" / "server_assignors.json"
T, U = bytes(15) + b"\1", bytes(15) + b"\2"


@for_each("case", json.loads(GOLDEN.read_text()), ids=lambda _: "")
def test_apaches_answers(case: dict[str, Any]) -> None:
    asked: Case = case["case"]
    assert printed(ASSIGNORS[asked["assignor"]].assign(spec(asked))) == case["expected"]


@for_each("racks", [False, True])
@for_each("seed", range(60))
def test_every_partition_has_one_reader_of_its_topic(seed: int, racks: bool) -> None:
    group = ChangingGroup(seed, racks=racks)
    for _ in range(6):
        case = group.case()
        asked = spec(case)
        given = ASSIGNORS[case["assignor"]].assign(asked)
        seen = [(t, p) for own in given.values() for t, ps in own.items() for p in ps]
        read = {t for m in asked.members.values() for t in m.topics}
        assert sorted(seen) == sorted((t, p) for t in read for p in range(asked.partitions[t]))
        for member_id, own in given.items():
            assert set(own) <= asked.members[member_id].topics
        if case["alike"] and case["assignor"] == "uniform":
            loads = [sum(map(len, given.get(m, {}).values())) for m in asked.members]
            assert max(loads) - min(loads) <= 1
        group.assigned(printed(given))


@for_each("seed", range(40))
def test_uniform_moves_nothing_when_nothing_changes(seed: int) -> None:
    group = ChangingGroup(seed)
    group.assignor = "uniform"
    asked = spec(group.case())
    given = UniformAssignor().assign(asked)
    again = GroupSpec(
        {
            m: MemberSpec(s.topics, given.get(m, {}), s.instance_id, s.rack)
            for m, s in asked.members.items()
        },
        asked.partitions,
    )
    assert printed(UniformAssignor().assign(again)) == printed(given)


def _racked(assigned: dict[str, frozenset[int]] | None = None) -> GroupSpec:
    """Two members in two racks, one topic whose even partitions are in one rack."""
    targets = assigned or {}
    return GroupSpec(
        {
            name: MemberSpec(
                frozenset({T}), {T: targets[name]} if name in targets else {}, None, rack
            )
            for name, rack in (("a", "east"), ("b", "west"))
        },
        {T: 6},
        {TopicIdPartition(T, p): frozenset({"east" if p % 2 else "west"}) for p in range(6)},
    )


def test_who_has_a_rack_reads_what_is_near() -> None:
    near = {"a": {T: frozenset({1, 3, 5})}, "b": {T: frozenset({0, 2, 4})}}
    assert UniformAssignor().assign(_racked()) == near
    assert ServerRangeAssignor().assign(_racked()) == near


def test_what_is_far_is_given_up_first() -> None:
    given = UniformAssignor().assign(_racked({"a": frozenset(range(6))}))
    assert given["a"] == {T: frozenset({1, 3, 5})}


def test_topics_that_are_split_alike_stay_so_with_racks() -> None:
    one = _racked()
    racks = {TopicIdPartition(t, p): r for t in (T, U) for (_, p), r in one.racks.items()}
    members = {m: MemberSpec(frozenset({T, U}), {}, None, s.rack) for m, s in one.members.items()}
    given = ServerRangeAssignor().assign(GroupSpec(members, {T: 6, U: 6}, racks))
    assert given["a"] == {T: frozenset({1, 3, 5}), U: frozenset({1, 3, 5})}


def test_the_hash_of_what_a_group_reads() -> None:
    """The first value is what Apache Kafka 4.3.1 makes of it."""
    topic_id = uuid_from_text("LV3M44y9f_WgAM98CzlhYQ")
    one = topic_hash("täglich", topic_id, [["b", "a"], []])
    assert one == topic_hash("täglich", topic_id, [["a", "b"], []]) == HASH_OF_ONE
    assert group_hash({}) == 0
    assert group_hash({"b": 1, "a": 2}) == group_hash({"a": 2, "b": 1}) == HASH_OF_TWO


HASH_OF_ONE = 108152989531125656
HASH_OF_TWO = -336420445500852088
