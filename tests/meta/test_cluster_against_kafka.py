"""The results of pk's decisions, compared with those of an Apache Kafka cluster: the same steps,
the same partitions and the same errors.

The steps that tell most are those of which a client sees the state in between: a reassignment to a
broker that is down stays under way; replicas that leave a small ISR stay eligible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clients import apache_kafka
from clients.fixtures import Kafka
from meta import test_reassignment
from meta.test_against_kafka import Asking
from meta.world import CONFIG, alter_isr, cluster, create, fence, first, topic

from pk.core.meta import brokers, elections, features, reassignment
from pk.core.meta.image import MetadataImage
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pk.core.wire.messages.create_topics import CreateTopicsRequest
from pk.core.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pk.core.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pk.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest
from pk.core.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(apache_kafka.available() is not None, reason="needs java and mvn"),
]

PATIENCE_S = 120.0
NODES = {1, 2, 3, 4, 5}


@pytest.fixture(scope="module")
def apache() -> Iterator[apache_kafka.ApacheKafka]:
    # Five JVMs on a busy machine: no broker or controller must be taken for dead.
    properties = {
        "broker.session.timeout.ms": "6000",
        "broker.heartbeat.interval.ms": "500",
        "controller.quorum.election.timeout.ms": "5000",
        "controller.quorum.fetch.timeout.ms": "10000",
    }
    with apache_kafka.ApacheKafka(len(NODES), properties=properties, heap="256m") as peer:
        yield peer


@pytest.fixture
def asking(apache: apache_kafka.ApacheKafka) -> Iterator[Asking]:
    with Asking(Kafka("apache", f"127.0.0.1:{apache.port(1)}", apache.log_dir(1))) as one:
        yield one


def eventually(check: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)  # a cluster of processes is asked again: it sends no event


def make(asking: Asking, name: str, *nodes: int, isr_min: int = 1) -> None:
    own: dict[str, str | None] = {"min.insync.replicas": str(isr_min)}
    wanted = topic(name, -1, -1, {0: list(nodes)}, own)
    (made,) = asking.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
    assert made.error_code == 0, made.error_message


def reported(asking: Asking, name: str) -> tuple[Any, ...]:
    """The answer of DescribeTopicPartitions; a broker may not know a new topic yet."""
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)])
    found = asking.ask(request).topics[0].partitions
    if not found:
        return ([],)
    partition = found[0]
    return (
        list(partition.replica_nodes),
        set(partition.isr_nodes),
        partition.leader_id,
        set(partition.eligible_leader_replicas or ()),
        list(partition.last_known_elr or ()),
    )


def ours(image: MetadataImage) -> tuple[Any, ...]:
    p = first(image)
    last = p.last_known_elr[:1] if p.leader < 0 else ()  # theirs is the last leader alone
    return list(p.replicas), set(p.isr), p.leader, set(p.elr), list(last)


def alike(asking: Asking, name: str, image: MetadataImage, ordered: int = 99) -> None:
    """Wait until they say the same; of the replicas those behind the first `ordered` in any
    order."""

    def theirs() -> tuple[Any, ...]:
        replicas, *rest = reported(asking, name)
        return replicas[:ordered], sorted(replicas), *rest

    replicas, *rest = ours(image)
    mine = (replicas[:ordered], sorted(replicas), *rest)
    eventually(lambda: theirs() == mine, lambda: (theirs(), mine))


def world(*nodes: int, isr_min: int = 1) -> MetadataImage:
    own: dict[str, str | None] = {"min.insync.replicas": str(isr_min)}
    image, _ = create(cluster(*[None] * 5), topic("t", -1, -1, {0: list(nodes)}, own))
    return image


def reassignment_of(name: str, replicas: list[int] | None, **fields: Any) -> Any:
    one = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=[one])], timeout_ms=30_000, **fields
    )


def listed(answer: Any) -> list[Any]:
    return [
        (sorted(p.replicas), sorted(p.adding_replicas), sorted(p.removing_replicas))
        for t in answer.topics
        for p in t.partitions
    ]


def have_down(apache: apache_kafka.ApacheKafka, *nodes: int) -> None:
    """Kill these brokers, and start those that are down and are not among them. They stay so: a
    start costs more than what most tests ask."""
    running = apache.running
    for node in running.intersection(nodes):
        apache.kill(node)
    if missing := NODES - running.union(nodes):
        for node in missing:
            apache.start(node, wait=False)
        apache.wait_until_ready()


def test_reassignments_are_refused_with_the_same_codes(asking: Asking) -> None:
    make(asking, "refused", 1, 2, 3)
    cases: list[tuple[str, list[int] | None, bool]] = [
        ("refused", [], True),
        ("refused", [1, 1], True),
        ("refused", [1, 9], True),
        ("refused", [1, -1], True),
        ("refused", [4, 5], False),
        ("refused", None, True),
        ("unknown", [4, 5], True),
        ("unknown", None, True),
        ("refused", [3, 2, 1], False),
    ]
    image = world(1, 2, 3)
    for name, replicas, may_change in cases:
        request = reassignment_of(name, replicas, allow_replication_factor_change=may_change)
        (theirs,) = asking.ask(request).responses[0].partitions
        _, code = test_reassignment.reassign(
            image,
            replicas,
            name="t" if name == "refused" else "u",
            factor_may_change=may_change,
        )
        assert theirs.error_code == code, (name, replicas, may_change, theirs.error_message)


def test_elections_are_answered_with_the_same_codes(asking: Asking) -> None:
    make(asking, "elected", 1, 2, 3)
    image = world(1, 2, 3)
    for kind, name, partition in (
        (0, "t", 0),
        (1, "t", 0),
        (0, "t", 7),
        (1, "u", 0),
        (2, "t", 0),
    ):

        def request(called: str, kind: int = kind, partition: int = partition) -> Any:
            one = TopicPartitions(topic=called, partitions=[partition])
            return ElectLeadersRequest(
                election_type=kind, topic_partitions=[one], timeout_ms=30_000
            )

        theirs = asking.ask(request("elected" if name == "t" else "unknown"))
        mine = elections.elect_leaders(image, request(name), CONFIG).reply
        codes = [
            (answer.error_code, [p.error_code for t in results for p in t.partition_result])
            for answer in (theirs, mine)
            for results in [answer.replica_election_results]
        ]
        assert codes[0] == codes[1], (kind, name, partition)


def test_features_are_refused_with_the_same_codes(asking: Asking) -> None:
    for name, level, kind in (
        ("unknown.feature", 1, 1),
        ("unknown.feature", -1, 1),
        ("unknown.feature", 1, 9),
        ("unknown.feature", 1, 2),
    ):
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(
            feature_updates=[update], validate_only=True, timeout_ms=30_000
        )
        mine = features.update_features(cluster(), request).reply
        assert asking.ask(request).error_code == mine.error_code, (name, level, kind)


def test_an_unknown_broker_cannot_be_unregistered(asking: Asking) -> None:
    request = UnregisterBrokerRequest(broker_id=99)
    mine = brokers.unregister_broker(cluster(), request, CONFIG).reply
    assert asking.ask(request).error_code == mine.error_code


def test_who_leaves_a_small_isr_stays_eligible(
    apache: apache_kafka.ApacheKafka, asking: Asking
) -> None:
    have_down(apache)
    for name, isr_min, nodes in (("two", 2, (4, 5, 1)), ("one", 1, (4, 5)), ("many", 3, (5, 4))):
        make(asking, name, *nodes, isr_min=isr_min)
    images = {
        "two": world(4, 5, 1, isr_min=2),
        "one": world(4, 5, isr_min=1),
        "many": world(5, 4, isr_min=3),
    }
    for name, image in images.items():
        alike(asking, name, image)
    for node in (4, 5):
        have_down(apache, *range(4, node + 1))
        for name, image in images.items():
            images[name] = fence(image, node)
            alike(asking, name, images[name])


def test_a_reassignment_to_a_broker_that_is_down_stays_under_way(
    apache: apache_kafka.ApacheKafka, asking: Asking
) -> None:
    have_down(apache, 5)
    make(asking, "moving", 1, 2, 3)
    image = world(1, 2, 3)

    def step(replicas: list[int] | None, *isr: int) -> None:
        nonlocal image
        (answer,) = asking.ask(reassignment_of("moving", replicas)).responses[0].partitions
        image, code = test_reassignment.reassign(image, replicas)
        assert answer.error_code == code, (replicas, answer.error_message)
        if isr:
            image, _ = alter_isr(image, *isr)
        # Those that are to go Apache sorts; we keep their order, to which a cancelling goes back.
        alike(asking, "moving", image, 99 if replicas is None else len(replicas))
        topics = [ListPartitionReassignmentsTopics(name="moving", partition_indexes=[0])]
        theirs = asking.ask(ListPartitionReassignmentsRequest(topics=topics, timeout_ms=30_000))
        mine = reassignment.list_reassignments(image, ListPartitionReassignmentsRequest())
        assert listed(theirs) == listed(mine), replicas

    image = fence(image, 5)
    step([5, 4], 1, 2, 3, 4)
    step([5])
    step([4, 5])
    step(None)
    step([1, 5])
    step(None)
    step([3, 2, 1])
    step([2, 1])
