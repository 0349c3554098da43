"""Elections on request, and those that need no request."""

from __future__ import annotations

from typing import Any

import pytest
from each import for_each
from meta.world import (
    CONFIG,
    alter_isr,
    cluster,
    create,
    fence,
    first,
    topic,
    unfence,
)

from pk.core.errors import ErrorCode
from pk.core.meta import elections
from pk.core.meta.events import PartitionChanged
from pk.core.meta.image import MetadataImage
from pk.core.meta.partition_rules import PartitionRules
from pk.core.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)

PREFERRED, UNCLEAN = 0, 1
Code = ErrorCode


def world(*nodes: int) -> MetadataImage:
    image, (answer,) = create(
        cluster(None, None, None), topic("t", -1, -1, {0: list(nodes or (1, 2, 3))})
    )
    assert answer.error_code == 0
    return image


def elect(
    image: MetadataImage, kind: int, asked: dict[str, list[int]] | None
) -> tuple[MetadataImage, ElectLeadersResponse]:
    wanted = (
        None
        if asked is None
        else [TopicPartitions(topic=name, partitions=numbers) for name, numbers in asked.items()]
    )
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted)
    decision = elections.elect_leaders(image, request, CONFIG)
    return image.apply(decision.records), decision.reply


def codes(reply: ElectLeadersResponse) -> list[int]:
    return [p.error_code for t in reply.replica_election_results for p in t.partition_result]


def moved() -> MetadataImage:
    """t-0 is led by 2, and 1, its preferred leader, is in sync again."""
    image = unfence(fence(world(), 1), 1)
    image, answer = alter_isr(image, 2, 3, 1)
    assert answer.error_code == 0
    return image


def dead() -> MetadataImage:
    """t-0 waits for 1, which is the only one that has everything; 2 is alive."""
    return unfence(fence(fence(fence(world(), 3), 2), 1), 2)


@for_each(
    "image, kind, asked, code, leader",
    [
        (world(), PREFERRED, {"t": [0]}, Code.ELECTION_NOT_NEEDED, 1),
        (moved(), PREFERRED, {"t": [0]}, Code.NONE, 1),
        (fence(world(), 1), PREFERRED, {"t": [0]}, Code.PREFERRED_LEADER_NOT_AVAILABLE, 2),
        (dead(), PREFERRED, {"t": [0]}, Code.PREFERRED_LEADER_NOT_AVAILABLE, -1),
        (world(), PREFERRED, {"t": [1]}, Code.UNKNOWN_TOPIC_OR_PARTITION, 1),
        (world(), PREFERRED, {"u": [0]}, Code.UNKNOWN_TOPIC_OR_PARTITION, 1),
        (moved(), UNCLEAN, {"t": [0]}, Code.ELECTION_NOT_NEEDED, 2),
        (dead(), UNCLEAN, {"t": [0]}, Code.NONE, 2),
        (fence(dead(), 2), UNCLEAN, {"t": [0]}, Code.ELIGIBLE_LEADERS_NOT_AVAILABLE, -1),
        (dead(), UNCLEAN, {"u": [0]}, Code.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ],
)
def test_each_partition_is_answered(
    image: MetadataImage, kind: int, asked: Any, code: ErrorCode, leader: int
) -> None:
    after, reply = elect(image, kind, asked)
    assert (reply.error_code, codes(reply), first(after).leader) == (0, [code], leader)
    assert (after.offset > image.offset) == (code == Code.NONE)


def test_an_unclean_election_makes_the_leader_the_isr() -> None:
    partition = first(elect(dead(), UNCLEAN, {"t": [0]})[0])
    assert (partition.isr, partition.elr, partition.recovering) == ((2,), (), True)


def test_asked_for_all_only_those_that_change_are_answered() -> None:
    image, _ = create(moved(), topic("u", 3, 2))
    after, reply = elect(image, PREFERRED, None)
    assert [(t.topic, codes(reply)) for t in reply.replica_election_results] == [("t", [0])]
    assert first(after).leader == 1
    assert elect(after, PREFERRED, None)[1].replica_election_results == []


def test_another_type_of_election_is_refused() -> None:
    after, reply = elect(moved(), 2, {"t": [0, 1]})
    assert reply.error_code == Code.INVALID_REQUEST and first(after).leader == 2
    assert codes(reply) == [Code.INVALID_REQUEST] * 2
    assert elect(moved(), 2, None)[1].replica_election_results == []


def test_a_partition_named_twice_changes_once() -> None:
    image = moved()
    after, reply = elect(image, PREFERRED, {"t": [0, 0]})
    assert codes(reply) == [0, 0] and after.offset == image.offset + 1


def test_leaders_go_back_to_where_they_are_preferred() -> None:
    image, _ = create(cluster(None, None, None), topic("t", 30, 3))
    image = unfence(fence(image, 1), 1)
    assert all(p.leader != 1 for p in image.topics["t"].partitions)
    assert elections.rebalance_leaders(image, CONFIG).records == [], "it is not in sync yet"
    topic_id = image.topics["t"].topic_id
    image = image.apply([PartitionChanged(topic_id, p, isr=(2, 3, 1)) for p in range(30)])
    decision = elections.rebalance_leaders(image, CONFIG)
    assert decision.reply is False
    image = image.apply(decision.records)
    assert all(p.leader == p.preferred_leader for p in image.topics["t"].partitions)
    assert elections.rebalance_leaders(image, CONFIG).records == []


def test_many_leaders_go_back_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "ELECTIONS_MAX", 4)
    image, _ = create(cluster(None, None), topic("t", 20, 2))
    topic_id = image.topics["t"].topic_id
    image = image.apply([PartitionChanged(topic_id, p, leader=2) for p in range(20)])
    steps = []
    more = True
    while more:
        decision = elections.rebalance_leaders(image, CONFIG)
        image, more = image.apply(decision.records), decision.reply
        steps.append(len(decision.records))
    assert steps == [4, 4, 2]
    assert all(p.leader == p.preferred_leader for p in image.topics["t"].partitions)


def test_offline_partitions_get_a_leader_where_the_configs_allow_it() -> None:
    image = dead()
    assert elections.elect_offline(image, CONFIG).reply == 0
    config = CONFIG.parse({"node.id": "1", "unclean.leader.election.enable": "true"})
    decision = elections.elect_offline(image, config)
    assert decision.reply == 1 and first(image.apply(decision.records)).leader == 2


def test_who_has_nothing_to_do_with_a_partition_does_not_move_it() -> None:
    image = world(1, 2)
    rules = PartitionRules(image, CONFIG)
    assert list(elections.broker_unfenced(image, rules, 3)) == []
    assert list(elections.remove_from_isrs(image, rules, 3)) == []
    assert list(elections.broker_registered(image, rules, 3, clean=False)) == []
