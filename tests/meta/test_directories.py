"""Log directories fail, and replicas move between them (KIP-858)."""

from __future__ import annotations

import pytest
from meta.world import (
    CONFIG,
    alter_isr,
    beat,
    cluster,
    create,
    first,
    register,
    registration,
    topic,
)

from pk.core.errors import ErrorCode
from pk.core.meta import directories
from pk.core.meta.directory_id import LOST, MIGRATING
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)

Code = ErrorCode


def disk(node: int, letter: str) -> bytes:
    return bytes([node]) + letter.encode() * 15


def world(isr_min: int = 1) -> MetadataImage:
    """Brokers 1 to 3 with directories a and b, topic t on all of them."""
    image = cluster()
    for node in (1, 2, 3):
        log_dirs = [disk(node, "a"), disk(node, "b")]
        image, _ = register(image, registration(node, node, log_dirs=log_dirs))
        image, _ = beat(image, node)
    own: dict[str, str | None] = {"min.insync.replicas": str(isr_min)}
    image, (answer,) = create(image, topic("t", -1, -1, {0: [1, 2, 3]}, own))
    assert answer.error_code == 0
    return image


def assign(
    image: MetadataImage, node: int, directory: bytes, *, partition: int = 0, **fields: int | bytes
) -> tuple[MetadataImage, int]:
    """The image after a broker told of its replica's directory, and the code."""
    known = image.brokers.get(node)
    given = {"broker_epoch": known.broker_epoch if known is not None else 0, **fields}
    topic_id = given.pop("topic_id", image.topics["t"].topic_id)
    assert isinstance(topic_id, bytes)
    wanted = TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=partition)])
    request = AssignReplicasToDirsRequest(
        broker_id=node, directories=[DirectoryData(id=directory, topics=[wanted])], **given
    )
    decision = directories.assign_directories(image, request, CONFIG)
    after, reply = image.apply(decision.records), decision.reply
    if reply.error_code:
        return after, reply.error_code
    assert reply.directories[0].id == directory
    return after, reply.directories[0].topics[0].partitions[0].error_code


def test_a_broker_tells_where_its_replica_is() -> None:
    image, code = assign(world(), 2, disk(2, "a"))
    assert code == 0
    assert first(image).directories == (bytes(16), disk(2, "a"), bytes(16))
    assert first(image).leader_epoch == 0 and first(image).isr == (1, 2, 3)
    again, code = assign(image, 2, disk(2, "a"))
    assert (code, again.offset) == (0, image.offset)
    moved, _ = assign(image, 2, disk(2, "b"))
    assert first(moved).directory(2) == disk(2, "b") and first(moved).isr == (1, 2, 3)


@pytest.mark.parametrize(
    "node, fields, code",
    [
        (2, {"broker_epoch": 99}, Code.STALE_BROKER_EPOCH),
        (9, {}, Code.STALE_BROKER_EPOCH),
        (2, {"topic_id": b"x" * 16}, Code.UNKNOWN_TOPIC_ID),
        (2, {"partition": 1}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (4, {}, Code.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_a_broker_tells_is_refused(node: int, fields: dict, code: ErrorCode) -> None:
    image, _ = register(world(), registration(4, 4, log_dirs=[disk(4, "a")]))
    after, found = assign(image, node, disk(2, "a"), **fields)
    assert (found, after.offset) == (code, image.offset)


def placed(isr_min: int = 1) -> MetadataImage:
    image = world(isr_min)
    for node in (1, 2, 3):
        image, _ = assign(image, node, disk(node, "a"))
    return image


def test_a_failed_directory_costs_its_replicas_their_place_and_nobody_else() -> None:
    image, _ = create(placed(), topic("u", -1, -1, {0: [1, 2]}))
    image, reply = beat(image, 1, offline_log_dirs=[disk(1, "a")])
    assert not reply.is_fenced and image.brokers[1].log_dirs == (disk(1, "b"),)
    assert (first(image).leader, first(image).isr) == (2, (2, 3))
    assert first(image, "u").leader == 1, "where its replica is was not told: not there"
    again, _ = beat(image, 1, offline_log_dirs=[disk(1, "a")])
    assert again.offset == image.offset, "told already"
    _, answer = alter_isr(image, 2, 3, 1)
    assert answer.error_code == Code.INELIGIBLE_REPLICA


def test_a_replica_in_a_failed_directory_waits_for_it() -> None:
    image = placed(isr_min=3)
    image, _ = beat(image, 1, offline_log_dirs=[disk(1, "a")])
    assert (first(image).isr, first(image).elr) == ((2, 3), (1,))
    for node in (2, 3):
        image, _ = beat(image, node, want_fence=True)
    assert (first(image).leader, first(image).elr) == (-1, (1, 2, 3))
    epoch = image.brokers[1].broker_epoch
    both = [disk(1, "a"), disk(1, "b")]
    image, _ = register(image, registration(1, 9, previous=epoch, log_dirs=both))
    image, _ = beat(image, 1)
    assert (first(image).leader, first(image).isr) == (1, (1,)), "the directory is back"


def test_a_new_replica_is_not_taken_for_the_one_in_a_directory_that_is_gone() -> None:
    image = placed(isr_min=3)
    image, _ = beat(image, 1, offline_log_dirs=[disk(1, "a")])
    for node in (2, 3):
        image, _ = beat(image, node, want_fence=True)
    after, code = assign(image, 1, disk(1, "b"))
    assert code == 0 and (first(after).leader, first(after).elr) == (-1, (2, 3))


def test_nor_does_an_empty_replica_lead_because_it_led_last() -> None:
    image = placed()
    image, _ = alter_isr(image, 1)
    image, _ = beat(image, 1, offline_log_dirs=[disk(1, "a")])
    assert (first(image).leader, first(image).elr, first(image).last_known_elr) == (-1, (1,), (1,))
    image, _ = assign(image, 1, disk(1, "b"))
    assert (first(image).leader, first(image).elr, first(image).last_known_elr) == (-1, (), ())


@pytest.mark.parametrize("directory", [LOST, disk(1, "x")])
def test_a_replica_that_is_told_to_be_lost_leaves_the_isr(directory: bytes) -> None:
    image, code = assign(world(), 1, directory)
    assert code == 0 and (first(image).leader, first(image).isr) == (2, (2, 3))


def test_a_directory_that_is_not_known_is_believed_to_work() -> None:
    image, _ = assign(world(), 1, MIGRATING)
    assert first(image).leader == 1


def test_directories_go_with_their_replicas() -> None:
    from pk.core.meta.reassignment import alter_reassignments
    from pk.core.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    image = placed()
    one = ReassignablePartition(partition_index=0, replicas=[3, 1])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[one])]
    )
    image = image.apply(alter_reassignments(image, request, CONFIG).records)
    assert first(image).replicas == (3, 1)
    assert first(image).directories == (disk(3, "a"), disk(1, "a"))
