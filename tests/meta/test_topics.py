"""Creating, growing and deleting topics: the decisions and refusals, with Kafka's error codes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from each import for_each
from meta.world import CONFIG, alter, cluster, create, topic

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.meta import topics
from pk.core.meta.describe import Source
from pk.core.meta.events import TOPIC
from pk.core.meta.image import MetadataImage
from pk.core.values import ZERO_UUID, uuid_text
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

ONE = cluster(None)
THREE = cluster(None, None, None)
FENCED = cluster(None, None, fenced=(2,))

REFUSED: list[Any] = [
    (ONE, topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ONE, topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ONE, topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ONE, topic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ONE, topic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ONE, topic("é"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (ONE, topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
    (ONE, topic(partitions=0), ErrorCode.INVALID_PARTITIONS),
    (ONE, topic(partitions=-2), ErrorCode.INVALID_PARTITIONS),
    (ONE, topic(partitions=0, factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (ONE, topic(partitions=10_001), ErrorCode.POLICY_VIOLATION),
    (ONE, topic("t", -1, -1, {i: [1] for i in range(10_001)}), ErrorCode.POLICY_VIOLATION),
    (ONE, topic(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (ONE, topic(factor=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
    (ONE, topic(factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
    (cluster(None, fenced=(1,)), topic(), ErrorCode.INVALID_REPLICATION_FACTOR),
    (cluster(), topic(), ErrorCode.INVALID_REPLICATION_FACTOR),
    (ONE, topic(assigned={0: [1]}), ErrorCode.INVALID_REQUEST),
    (ONE, topic(partitions=-1, assigned={0: [1]}), ErrorCode.INVALID_REQUEST),
    (ONE, topic(factor=-1, assigned={0: [1]}), ErrorCode.INVALID_REQUEST),
    (ONE, topic("t", -1, -1, {0: [1], 2: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (ONE, topic("t", -1, -1, {1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (ONE, topic("t", -1, -1, {0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (ONE, topic("t", -1, -1, {0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (ONE, topic("t", -1, -1, {0: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (ONE, topic("t", -1, -1, {0: [-1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (THREE, topic("t", -1, -1, {0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (FENCED, topic("t", -1, -1, {0: [2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (ONE, topic(own={"nope": "1"}), ErrorCode.INVALID_CONFIG),
    (ONE, topic(own={"retention.ms": "abc"}), ErrorCode.INVALID_CONFIG),
    (ONE, topic(own={"retention.ms": "-5"}), ErrorCode.INVALID_CONFIG),
    (ONE, topic(own={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
    (ONE, topic(own={"cleanup.policy": "x"}), ErrorCode.INVALID_CONFIG),
    (ONE, topic(own={"segment.bytes": "100"}), ErrorCode.INVALID_CONFIG),
    (ONE, topic(own={"compression.gzip.level": "0"}), ErrorCode.INVALID_CONFIG),
    (ONE, topic(own={"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG),
    (
        ONE,
        topic(own={"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "3"}),
        ErrorCode.INVALID_CONFIG,
    ),
    (ONE, topic(own={"leader.replication.throttled.replicas": "x"}), ErrorCode.INVALID_CONFIG),
]


@for_each("image, wanted, code", REFUSED)
def test_a_topic_is_refused(image: MetadataImage, wanted: Any, code: ErrorCode) -> None:
    after, (result,) = create(image, wanted)
    assert after is not image or after == image
    assert after.topics == {} and result.error_code == code
    assert result.name == wanted.name and result.error_message
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])


@pytest.mark.parametrize(
    "own",
    [
        {"cleanup.policy": ""},
        {"cleanup.policy": "delete,delete"},
        {"leader.replication.throttled.replicas": "*"},
        {"leader.replication.throttled.replicas": "0:1, 1:2"},
        {"follower.replication.throttled.replicas": "none"},
        {"local.retention.ms": "99999999999"},
        {"compression.gzip.level": "-1"},
    ],
)
def test_keys_that_a_topic_may_have(own: dict[str, str | None]) -> None:
    after, (result,) = create(ONE, topic(own=own))
    assert result.error_code == 0 and after.topic_configs("t") == own


def test_a_topic_is_created() -> None:
    after, (result,) = create(THREE, topic("t", 6, 2, own={"retention.ms": "5"}))
    made = after.topics["t"]
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (6, 2)
    assert result.topic_id == made.topic_id != ZERO_UUID
    assert sorted(p.leader for p in made.partitions) == [1, 1, 2, 2, 3, 3]
    for number, p in enumerate(made.partitions):
        assert p.partition == number and p.isr == p.replicas and p.leader == p.replicas[0]
        assert (p.leader_epoch, p.partition_epoch) == (0, 0)
    assert result.configs is not None
    described = {c.name: (c.value, c.config_source, c.read_only) for c in result.configs}
    assert described["retention.ms"] == ("5", Source.TOPIC, False)
    assert described["cleanup.policy"] == ("delete", Source.DEFAULT, False)
    assert list(described) == sorted(described) and len(described) == 33


def test_defaults_are_the_brokers() -> None:
    config = BrokerConfig.parse({"num.partitions": "4", "default.replication.factor": "3"})
    _, (result,) = create(THREE, topic("t", -1, -1), config=config)
    assert (result.num_partitions, result.replication_factor) == (4, 3)


def test_an_assignment_is_kept_and_who_is_fenced_is_not_in_sync() -> None:
    after, (result,) = create(FENCED, topic("t", -1, -1, {1: [1, 2], 0: [2, 1]}))
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    first, second = after.topics["t"].partitions
    assert (first.replicas, first.isr, first.leader) == ((2, 1), (1,), 1)
    assert (second.replicas, second.isr, second.leader) == ((1, 2), (1,), 1)


def test_partitions_are_spread_over_brokers_and_racks_and_led_by_who_is_alive() -> None:
    image = cluster("a", "b", "c", "a", fenced=(4,))
    image, (result,) = create(image, topic("t", 9, 3))
    assert result.error_code == 0
    leaders = [p.leader for p in image.topics["t"].partitions]
    assert {leaders.count(node) for node in (1, 2, 3)} == {3}
    for partition in image.topics["t"].partitions:
        assert set(partition.replicas) == {1, 2, 3} and partition.leader == partition.replicas[0]
        assert set(partition.isr) == {1, 2, 3}
    image, (result,) = create(image, topic("u", 3, 4))
    for partition in image.topics["u"].partitions:
        assert partition.replicas[3] == 4 and 4 not in partition.isr


def test_validation_changes_nothing_and_answers_the_same() -> None:
    after, (result,) = create(THREE, topic("t", 6, 2), validate_only=True)
    assert after.topics == {} and after.offset == THREE.offset
    assert (result.error_code, result.num_partitions, result.topic_id) == (0, 6, ZERO_UUID)


def test_a_topic_named_twice_is_refused_once_and_the_others_are_made() -> None:
    after, results = create(ONE, topic("d"), topic("e"), topic("d"), topic("d"))
    assert [(r.name, r.error_code) for r in results] == [("d", ErrorCode.INVALID_REQUEST), ("e", 0)]
    assert set(after.topics) == {"e"}


def test_names_that_exist_or_collide_are_refused() -> None:
    image, _ = create(ONE, topic("a.b"))
    _, results = create(image, topic("a.b"), topic("a_b"), topic("a-b"), topic("axb"))
    assert [r.error_code for r in results] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        0,
        0,
    ]
    # Two of one request do not see each other; Kafka lets them be as well.
    _, results = create(ONE, topic("m.a"), topic("m_a"))
    assert [r.error_code for r in results] == [0, 0]


def test_refusals_have_apache_s_words_which_scripts_match() -> None:
    image, _ = create(ONE, topic("a.b"))
    _, results = create(image, topic("a.b"), topic("a_b"), topic("none", 0), topic("few", factor=3))
    assert [r.error_message for r in results] == [
        "Topic 'a.b' already exists.",
        "Topic 'a_b' collides with existing topic: a.b",
        "Number of partitions was set to an invalid non-positive value.",
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot "
        + "be reached because only 1 broker(s) are registered.",
    ]


def test_a_request_makes_ten_thousand_partitions_at_most() -> None:
    after, results = create(ONE, topic("a", 6000), topic("b", 4000), topic("c", 1))
    assert [r.error_code for r in results] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert after.partition_count == 10_000


def test_ids_are_new_and_print_without_a_leading_dash() -> None:
    answers = [b"\xf8" + bytes(15), bytes(16), bytes(15) + b"\x01", b"\x01" * 16, b"\x02" * 16]

    class Scripted(Random):
        def randbytes(self, n: int) -> bytes:
            return answers.pop(0)

    assert uuid_text(answers[0]).startswith("-")
    image, _ = create(ONE, topic())
    image = MetadataImage(topics_by_id={b"\x01" * 16: image.topics["t"]})
    assert topics.new_topic_id(image, Scripted()) == b"\x02" * 16


# --- deleting ---


def delete(image: MetadataImage, *states: Any, config: BrokerConfig = CONFIG) -> Any:
    by_name = [s for s in states if isinstance(s, str)]
    request = DeleteTopicsRequest(
        topic_names=by_name, topics=[s for s in states if not isinstance(s, str)]
    )
    decision = topics.delete_topics(image, request, config)
    return image.apply(decision.records), decision.reply.responses


def named(name: str | None = None, topic_id: bytes = ZERO_UUID) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=topic_id)


def test_topics_are_deleted_by_name_and_by_id_with_their_keys() -> None:
    image, _ = create(ONE, topic("a", own={"retention.ms": "1"}), topic("b"), topic("c"))
    b = image.topics["b"].topic_id
    after, results = delete(image, "a", named(topic_id=b))
    assert set(after.topics) == {"c"} and after.configs == {}
    assert {(r.name, r.error_code) for r in results} == {("a", 0), ("b", 0)}
    assert {r.topic_id for r in results} == {image.topics["a"].topic_id, b}


@pytest.mark.parametrize(
    "states, codes",
    [
        (["nope"], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ([""], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        (["nope", "nope"], [ErrorCode.INVALID_REQUEST]),
        (["t", "t", "t"], [ErrorCode.INVALID_REQUEST]),
        ([named()], [ErrorCode.INVALID_REQUEST]),
        ([named("t", b"x" * 16)], [ErrorCode.INVALID_REQUEST]),
        ([named(topic_id=b"x" * 16)], [ErrorCode.UNKNOWN_TOPIC_ID]),
        ([named(topic_id=b"x" * 16)] * 2, [ErrorCode.INVALID_REQUEST]),
    ],
)
def test_a_deletion_is_refused(states: list[Any], codes: list[ErrorCode]) -> None:
    image, _ = create(ONE, topic())
    after, results = delete(image, *states)
    assert [r.error_code for r in results] == codes and set(after.topics) == {"t"}
    assert all(r.error_message for r in results)


def test_a_topic_by_name_and_by_id_in_one_request_is_not_deleted() -> None:
    image, _ = create(ONE, topic())
    after, results = delete(image, named("t"), named(topic_id=image.topics["t"].topic_id))
    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST]
    assert set(after.topics) == {"t"}


def test_deletion_may_be_forbidden() -> None:
    image, _ = create(ONE, topic())
    config = BrokerConfig.parse({"delete.topic.enable": "false"})
    after, results = delete(image, "t", "nope", config=config)
    assert [r.error_code for r in results] == [
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert set(after.topics) == {"t"}


# --- growing ---


def grow(image: MetadataImage, *wanted: Any, validate_only: bool = False) -> Any:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if nodes is None
                else [CreatePartitionsAssignment(broker_ids=n) for n in nodes],
            )
            for name, count, nodes in wanted
        ],
        validate_only=validate_only,
    )
    decision = topics.create_partitions(image, request, Random(1))
    return image.apply(decision.records), decision.reply.results


def test_partitions_are_added() -> None:
    image, _ = create(THREE, topic("t", 2, 2))
    after, (result,) = grow(image, ("t", 5, None))
    assert (result.error_code, result.error_message) == (0, None)
    partitions = after.topics["t"].partitions
    assert partitions[:2] == image.topics["t"].partitions and len(partitions) == 5
    assert all(len(p.replicas) == 2 for p in partitions)
    after, (result,) = grow(image, ("t", 3, [[3, 1]]))
    assert after.topics["t"].partitions[2].replicas == (3, 1)
    after, (result,) = grow(image, ("t", 3, None), validate_only=True)
    assert result.error_code == 0 and after.offset == image.offset


@for_each(
    "wanted, code",
    [
        (("t", 2, None), ErrorCode.INVALID_PARTITIONS),
        (("t", 1, None), ErrorCode.INVALID_PARTITIONS),
        (("t", -1, None), ErrorCode.INVALID_PARTITIONS),
        (("nope", 3, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[1], [1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 100_000, None), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_a_growth_is_refused(wanted: Any, code: ErrorCode) -> None:
    image, _ = create(THREE, topic("t", 2, 1))
    after, (result,) = grow(image, wanted)
    assert result.error_code == code and after.topics == image.topics
    assert result.name == wanted[0] and result.error_message


def test_a_growth_named_twice_is_refused_once() -> None:
    image, _ = create(THREE, topic("t"))
    after, results = grow(image, ("t", 3, None), ("t", 4, None))
    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUEST]
    assert after.topics == image.topics


def test_keys_of_a_deleted_topic_do_not_come_back() -> None:
    image, _ = create(ONE, topic())
    image, _ = alter(image, TOPIC, "t", ("retention.ms", 0, "7"))
    image, _ = delete(image, "t")
    image, (result,) = create(image, topic(), seed=2)
    assert result.error_code == 0 and image.topic_configs("t") == {}
