"""Replicas move: every step of a reassignment, cancelled and changed ones, and the errors."""

from __future__ import annotations

from typing import Any

import pytest
from each import for_each
from meta.world import CONFIG, alter_isr, cluster, create, fence, first, topic

from pk.core.errors import ErrorCode
from pk.core.meta import reassignment
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from pk.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

Code = ErrorCode


def world(*nodes: int, isr_min: int = 1, unclean: bool = False) -> MetadataImage:
    own: dict[str, str | None] = {"min.insync.replicas": str(isr_min)}
    if unclean:
        own["unclean.leader.election.enable"] = "true"
    image, (answer,) = create(
        cluster(*[None] * 7), topic("t", -1, -1, {0: list(nodes or (1, 2, 3))}, own)
    )
    assert answer.error_code == 0
    return image


def reassign(
    image: MetadataImage,
    replicas: list[int] | None,
    *,
    name: str = "t",
    partition: int = 0,
    factor_may_change: bool = True,
) -> tuple[MetadataImage, int]:
    """The image after a request, and the code for the partition."""
    one = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=factor_may_change,
        topics=[ReassignableTopic(name=name, partitions=[one])],
    )
    decision = reassignment.alter_reassignments(image, request, CONFIG)
    reply = decision.reply
    assert isinstance(reply, AlterPartitionReassignmentsResponse) and reply.error_code == 0
    return image.apply(decision.records), reply.responses[0].partitions[0].error_code


def state(image: MetadataImage) -> tuple[Any, ...]:
    p = first(image)
    return p.replicas, p.adding, p.removing, p.isr, p.leader


def test_a_reassignment_runs_until_the_new_replicas_are_in_sync() -> None:
    image, code = reassign(world(), [4, 5, 6])
    assert code == 0
    assert state(image) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3), (1, 2, 3), 1)
    assert first(image).leader_epoch == 0
    image, answer = alter_isr(image, 1, 2, 3, 4, 5)
    assert (answer.error_code, first(image).reassigning) == (0, True)
    image, answer = alter_isr(image, 1, 2, 3, 4, 5, 6)
    assert answer.error_code == Code.NEW_LEADER_ELECTED, "who asked leads no longer"
    assert state(image) == ((4, 5, 6), (), (), (4, 5, 6), 4)
    assert first(image).leader_epoch == 1


def test_a_leader_that_stays_keeps_leading_in_a_new_epoch() -> None:
    image, _ = reassign(world(), [4, 1])
    assert state(image) == ((4, 1, 2, 3), (4,), (2, 3), (1, 2, 3), 1)
    image, answer = alter_isr(image, 1, 2, 3, 4)
    assert (answer.error_code, answer.leader_epoch, answer.isr) == (0, 1, [1, 4])
    assert state(image) == ((4, 1), (), (), (1, 4), 1)


@pytest.mark.parametrize("order", [[3, 2, 1], [1, 2], [1]])
def test_what_needs_no_new_replica_is_done_at_once(order: list[int]) -> None:
    image, code = reassign(world(), order)
    partition = first(image)
    assert code == 0 and not partition.reassigning
    assert partition.replicas == tuple(order)
    assert partition.leader == 1 and set(partition.isr) == set(order)
    assert partition.leader_epoch == (len(order) < 3), "a replica that is gone ends the epoch"


def test_removing_waits_until_those_that_stay_are_in_sync() -> None:
    image, _ = alter_isr(world(), 1)
    image, _ = reassign(image, [1, 2])
    assert state(image) == ((1, 2, 3), (), (3,), (1,), 1)
    image, _ = alter_isr(image, 1, 2)
    assert state(image) == ((1, 2), (), (), (1, 2), 1)


def test_the_same_assignment_is_no_change() -> None:
    image = world()
    after, code = reassign(image, [1, 2, 3])
    assert (code, after.offset) == (0, image.offset)


def test_a_cancelled_reassignment_goes_back() -> None:
    image, _ = reassign(world(), [4, 5])
    image, _ = alter_isr(image, 1, 2, 3, 4)
    image, code = reassign(image, None)
    assert code == 0 and state(image) == ((1, 2, 3), (), (), (1, 2, 3), 1)
    assert first(image).leader_epoch == 1
    image, code = reassign(image, None)
    assert code == Code.NO_REASSIGNMENT_IN_PROGRESS


def test_a_changed_reassignment_still_knows_what_it_goes_back_to() -> None:
    image, _ = reassign(world(), [4, 5, 6])
    image, _ = alter_isr(image, 1, 2, 3, 4)
    image, code = reassign(image, [4, 7])
    assert code == 0
    partition = first(image)
    assert partition.replicas == (4, 7, 5, 6, 1, 2, 3)
    assert (partition.adding, partition.removing) == ((4, 5, 6, 7), (1, 2, 3, 5, 6))
    assert reassignment.original(partition) == (1, 2, 3)
    assert reassignment.target(partition) == (4, 7)
    back, _ = reassign(image, None)
    assert state(back) == ((1, 2, 3), (), (), (1, 2, 3), 1)
    forth, _ = alter_isr(image, 1, 2, 3, 4, 7)
    assert state(forth) == ((4, 7), (), (), (4, 7), 4)
    home, _ = reassign(image, [1, 2, 3])
    assert state(home) == ((1, 2, 3), (), (), (1, 2, 3), 1)


@pytest.mark.parametrize("unclean", [False, True])
def test_no_cancelling_takes_away_what_alone_has_everything(unclean: bool) -> None:
    image, _ = reassign(world(isr_min=2, unclean=unclean), [4, 5])
    image, _ = alter_isr(image, 1, 2, 3, 4)
    for node in (2, 3):
        image = fence(image, node)
    assert first(image).isr == (1, 4)
    after, code = reassign(image, None)
    assert code == (Code.NONE if unclean else Code.INVALID_REPLICA_ASSIGNMENT)
    assert first(after).reassigning == (not unclean)
    image = fence(image, 1)
    after, code = reassign(image, None)
    assert code == (Code.NONE if unclean else Code.INVALID_REPLICA_ASSIGNMENT)


def test_new_replicas_that_hold_nothing_yet_never_hinder_a_cancelling() -> None:
    image, _ = reassign(world(isr_min=2), [4, 5])
    image, _ = alter_isr(image, 1)
    image, code = reassign(image, None)
    assert code == 0 and state(image) == ((1, 2, 3), (), (), (1,), 1)
    assert first(image).elr == (2, 3)


@for_each(
    "replicas, options, code",
    [
        ([], {}, Code.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], {}, Code.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], {}, Code.INVALID_REPLICA_ASSIGNMENT),
        ([1, -1], {}, Code.INVALID_REPLICA_ASSIGNMENT),
        ([4, 5], {"factor_may_change": False}, Code.INVALID_REPLICATION_FACTOR),
        ([4, 5, 6], {"factor_may_change": False}, Code.NONE),
        ([4, 5, 6], {"name": "u"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ([4, 5, 6], {"partition": 1}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (None, {}, Code.NO_REASSIGNMENT_IN_PROGRESS),
        (None, {"name": "u"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_reassignments_are_refused(replicas: Any, options: Any, code: ErrorCode) -> None:
    image = world()
    after, found = reassign(image, replicas, **options)
    assert found == code and (after.offset > image.offset) == (code == Code.NONE)


def test_the_factor_that_may_not_change_is_that_of_the_target() -> None:
    image, _ = reassign(world(), [4, 5])
    assert reassign(image, [6, 7], factor_may_change=False)[1] == Code.NONE
    assert reassign(image, [4, 5, 6], factor_may_change=False)[1] == Code.INVALID_REPLICATION_FACTOR


def test_a_request_may_name_a_partition_twice() -> None:
    image = world()
    both = [
        ReassignablePartition(partition_index=0, replicas=[4]),
        ReassignablePartition(partition_index=0, replicas=None),
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=both)]
    )
    decision = reassignment.alter_reassignments(image, request, CONFIG)
    codes = [p.error_code for p in decision.reply.responses[0].partitions]
    assert codes == [0, 0]
    assert state(image.apply(decision.records)) == ((1, 2, 3), (), (), (1, 2, 3), 1)


def test_what_is_under_way_is_listed() -> None:
    image, _ = create(world(), topic("u", 2, 3))
    image, _ = reassign(image, [4, 1])

    def listed(asked: dict[str, list[int]] | None) -> list[tuple[Any, ...]]:
        wanted = (
            None
            if asked is None
            else [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in asked.items()
            ]
        )
        request = ListPartitionReassignmentsRequest(topics=wanted)
        answer = reassignment.list_reassignments(image, request)
        return [
            (t.name, p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)
            for t in answer.topics
            for p in t.partitions
        ]

    one = ("t", 0, [4, 1, 2, 3], [4], [2, 3])
    assert (
        listed(None) == listed({"t": [0], "u": [0, 1]}) == listed({"t": [0, 7], "x": [0]}) == [one]
    )
    assert listed({"u": [0]}) == listed({}) == []


def test_new_partitions_get_the_factor_of_the_target() -> None:
    from random import Random

    from pk.core.meta.topics import create_partitions
    from pk.core.wire.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    image, _ = reassign(world(), [4, 5])
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)]
    )
    image = image.apply(create_partitions(image, request, Random(1)).records)
    assert len(image.topics["t"].partitions[1].replicas) == 2
