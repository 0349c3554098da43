"""Metadata, DescribeCluster and DescribeTopicPartitions: answers as Apache Kafka 4.3.1 gives them,
version by version."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from api.admin import Admin, asking
from each import for_each
from group.brokers import simulated

from pk.core.api.authorized import Operation
from pk.core.broker.requests.auto_topic_creation import MAX_IN_FLIGHT
from pk.core.errors import ErrorCode
from pk.core.meta.events import BrokerChanged, BrokerRegistered, Endpoint, PartitionChanged
from pk.core.meta.image import MetadataImage
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.describe_cluster import DescribeClusterRequest
from pk.core.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pk.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)

UNASKED = -(1 << 31)


def of(*names: str | None, create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create
    )


def by_id(topic_id: bytes, name: str | None = None) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=name)])


def codes(topics: list[MetadataResponseTopic]) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in topics}


@for_each("version", range(14))
def test_every_version_tells_of_a_topic(version: int) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            await admin.create("t", 2)
            request = of("t", create=True)
            answer = await admin.ask(request, version)
            (broker,) = answer.brokers
            assert (broker.node_id, broker.host, broker.port) == (1, "here", 9092)
            assert answer.controller_id == (1 if version >= 1 else -1)
            assert answer.cluster_id == ("test" if version >= 2 else None)
            (topic,) = answer.topics
            made = admin.broker.image.topics["t"]
            assert (topic.name, topic.error_code) == ("t", 0)
            assert topic.topic_id == (made.topic_id if version >= 10 else ZERO_UUID)
            assert topic.topic_authorized_operations == UNASKED
            assert answer.cluster_authorized_operations == UNASKED
            for number, partition in enumerate(topic.partitions):
                assert (partition.partition_index, partition.error_code) == (number, 0)
                assert partition.leader_epoch == (0 if version >= 7 else -1)
                assert partition.leader_id == 1
                assert partition.replica_nodes == partition.isr_nodes == [1]
                assert partition.offline_replicas == []

    main()


@simulated
async def test_none_and_all_are_said_in_two_ways() -> None:
    async with asking() as admin:
        await admin.create("a")
        await admin.create("b")
        assert len((await admin.ask(of(create=True), 0)).topics) == 2
        assert (await admin.ask(of(create=True), 1)).topics == []
        for version in (1, 4, 9, 13):
            answer = await admin.ask(MetadataRequest(topics=None), version)
            assert codes(answer.topics) == {"a": 0, "b": 0}


@simulated
async def test_unknown_topics_are_unknown_where_none_are_made() -> None:
    async with asking() as admin:
        answer = await admin.ask(of("nope", "a b", "", "__cluster_metadata"))
        assert codes(answer.topics) == {
            "nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "__cluster_metadata": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert answer.error_code == 0 and admin.broker.image.topics == {}
    async with asking(auto_create_topics_enable="false") as admin:
        answer = await admin.ask(of("nope", create=True))
        assert codes(answer.topics) == {"nope": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert admin.broker.image.topics == {}


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_unknown_topics_are_made_after_the_answer(version: int) -> None:
    """Apache Kafka 4.3.1 does the same: a client that has just deleted a topic must not see it
    again at once."""

    @simulated
    async def main() -> None:
        async with asking(num_partitions="3") as admin:
            answer = await admin.ask(of("new", "new", "a b", create=True), version)
            assert codes(answer.topics) == {
                "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            }
            assert len(answer.topics) == 2 and answer.topics[0].partitions == []
            await appears(admin, "new")
            answer = await admin.ask(of("new", create=True), version)
            assert codes(answer.topics) == {"new": 0} and len(answer.topics[0].partitions) == 3
            assert admin.broker.data.replicas.partition("new", 2).leads

    main()


async def appears(admin: Admin, name: str) -> None:
    """Wait until the broker knows the topic."""
    await admin.broker.purgatory.until(
        lambda: name in admin.broker.image.topics, (MetadataImage,), trio.current_time() + 60
    )
    assert name in admin.broker.image.topics


@simulated
async def test_a_topic_that_many_ask_for_is_made_once() -> None:
    async with asking() as admin:
        decided = admin.broker.image.offset
        for _ in range(50):
            answer = await admin.ask(of("new", create=True))
            assert codes(answer.topics) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert admin.broker.cluster.topics_on_demand.in_flight == {"new"}
        await appears(admin, "new")
        assert admin.broker.image.offset - decided < 10
        await trio.testing.wait_all_tasks_blocked()
        assert admin.broker.cluster.topics_on_demand.in_flight == set()


@simulated
async def test_topics_that_are_being_made_are_limited() -> None:
    async with asking() as admin:
        for first in range(0, MAX_IN_FLIGHT + 400, 400):
            names = [f"t{n}" for n in range(first, first + 400)]
            answer = await admin.ask(of(*names, create=True))
            assert set(codes(answer.topics).values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(admin.broker.cluster.topics_on_demand.in_flight) == MAX_IN_FLIGHT


@simulated
async def test_a_topic_that_cannot_be_made_stays_unknown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with asking(default_replication_factor="2") as admin:
        for _ in range(3):
            answer = await admin.ask(of("new", create=True))
            assert codes(answer.topics) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            await trio.testing.wait_all_tasks_blocked()
        assert admin.broker.cluster.topics_on_demand.in_flight == set()
        # A client asks again every 100 ms; the log says it once.
        assert len([r for r in caplog.records if "new was not created" in r.getMessage()]) == 1


@simulated
async def test_the_offsets_topic_is_made_as_an_internal_one() -> None:
    async with asking() as admin:
        await admin.ask(of("__consumer_offsets", create=True))
        await appears(admin, "__consumer_offsets")
        answer = await admin.ask(of("__consumer_offsets"))
        assert answer.topics[0].is_internal and len(answer.topics[0].partitions) == 3
        own = admin.broker.image.topic_configs("__consumer_offsets")
        assert own["cleanup.policy"] == "compact"


@simulated
async def test_topics_are_asked_for_by_id() -> None:
    async with asking() as admin:
        await admin.create("t")
        topic_id = admin.broker.image.topics["t"].topic_id
        for version in (12, 13):
            (topic,) = (await admin.ask(by_id(topic_id), version)).topics
            assert (topic.name, topic.topic_id, topic.error_code) == ("t", topic_id, 0)
            (topic,) = (await admin.ask(by_id(b"x" * 16, "t"), version)).topics
            assert (topic.name, topic.topic_id) == (None, b"x" * 16)
            assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        for version in (10, 11):
            answer = await admin.ask(by_id(topic_id), version)
            assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST
            assert answer.topics[0].topic_id == topic_id and answer.brokers == []
        answer = await admin.ask(by_id(ZERO_UUID), 13)
        assert answer.topics[0].error_code == answer.error_code == ErrorCode.INVALID_REQUEST


@simulated
async def test_operations_are_told_to_who_asks() -> None:
    async with asking() as admin:
        await admin.create("t")
        request = of("t", "nope")
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = True
        answer = await admin.ask(request, 8)
        assert {t.topic_authorized_operations for t in answer.topics} == {3576}
        assert answer.cluster_authorized_operations == 8096
        assert 3576 >> Operation.DELETE & 1 and not 3576 >> Operation.CLUSTER_ACTION & 1


async def two_more(admin: Admin) -> None:
    """Brokers 2 (fenced) and 3 (on another listener only), which both hold partition 0 of t."""
    await admin.create("t")
    topic_id = admin.broker.image.topics["t"].topic_id
    await admin.decide(
        BrokerRegistered(2, 900, bytes(16), (Endpoint("PLAINTEXT", "b", 2, 0),), "rack"),
        BrokerRegistered(3, 901, bytes(16), (Endpoint("OTHER", "c", 3, 0),), fenced=False),
        PartitionChanged(topic_id, 0, replicas=(1, 2, 3), isr=(1, 2, 3)),
    )


@simulated
async def test_brokers_that_are_away_are_not_told_of() -> None:
    async with asking() as admin:
        await two_more(admin)
        answer = await admin.ask(of("t"))
        assert [b.node_id for b in answer.brokers] == [1]
        (partition,) = answer.topics[0].partitions
        assert partition.replica_nodes == partition.isr_nodes == [1, 2, 3]
        assert partition.offline_replicas == [2, 3] and partition.error_code == 0
        answer = await admin.ask(of("t", create=True), 0)
        (partition,) = answer.topics[0].partitions
        assert partition.replica_nodes == partition.isr_nodes == [1]
        assert partition.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
        answer = await admin.ask(of("t"), listener="OTHER")
        assert [(b.node_id, b.host) for b in answer.brokers] == [(3, "c")]


@simulated
async def test_a_leader_that_is_away_is_no_leader() -> None:
    async with asking() as admin:
        await two_more(admin)
        topic_id = admin.broker.image.topics["t"].topic_id
        for leader, version, code in (
            (3, 13, ErrorCode.LISTENER_NOT_FOUND),
            (3, 5, ErrorCode.LEADER_NOT_AVAILABLE),
            (-1, 13, ErrorCode.LEADER_NOT_AVAILABLE),
        ):
            await admin.decide(PartitionChanged(topic_id, 0, leader=leader))
            (partition,) = (await admin.ask(of("t"), version)).topics[0].partitions
            assert (partition.leader_id, partition.error_code) == (-1, code)


# --- DescribeCluster ---


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(version: int) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            await two_more(admin)
            answer = await admin.ask(DescribeClusterRequest(), version)
            assert (answer.cluster_id, answer.controller_id, answer.error_code) == ("test", 1, 0)
            assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [(1, "here", 9092)]
            assert answer.cluster_authorized_operations == UNASKED

    main()


@simulated
async def test_fenced_brokers_are_described_to_who_asks() -> None:
    async with asking() as admin:
        await two_more(admin)
        request = DescribeClusterRequest(
            include_fenced_brokers=True, include_cluster_authorized_operations=True
        )
        answer = await admin.ask(request)
        assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [(1, False), (2, True)]
        assert answer.brokers[1].rack == "rack"
        assert answer.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    "kind, code",
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_an_endpoint_of_another_type_is_refused(kind: int, code: ErrorCode) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            answer = await admin.ask(DescribeClusterRequest(endpoint_type=kind))
            assert answer.error_code == code and answer.error_message

    main()


@simulated
async def test_a_controller_that_is_away_is_replaced_by_who_answers() -> None:
    async with asking() as admin:
        image = admin.broker.image
        assert (await admin.ask(of())).controller_id == 1
        await admin.decide(BrokerChanged(1, image.brokers[1].broker_epoch, fenced=True))
        assert (await admin.ask(of())).controller_id == -1


# --- DescribeTopicPartitions ---


def pages(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    at = Cursor(topic_name=cursor[0], partition_index=cursor[1]) if cursor else None
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=at,
    )


@simulated
async def test_partitions_are_described_in_order_of_names() -> None:
    async with asking() as admin:
        await admin.create("b", 2)
        await admin.create("a")
        answer = await admin.ask(pages("b", "nope", "a b", "a", "a"))
        assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [
            ("a", 0, 1),
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
            ("b", 0, 2),
            ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        ]
        assert answer.next_cursor is None
        assert {t.topic_authorized_operations for t in answer.topics} == {3576}
        partition = answer.topics[2].partitions[1]
        assert (partition.partition_index, partition.leader_id, partition.leader_epoch) == (1, 1, 0)
        assert partition.eligible_leader_replicas == partition.last_known_elr == []
        assert answer.topics[0].topic_id == admin.broker.image.topics["a"].topic_id
        answer = await admin.ask(pages())
        assert [t.name for t in answer.topics] == ["a", "b"]


@pytest.mark.parametrize("limit", [-1, 0, 1, 2, 3, 5, 100])
@pytest.mark.parametrize("of_all", [False, True])
def test_pages_make_the_whole(limit: int, of_all: bool) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            for name, partitions in (("a", 1), ("b", 4), ("c", 2)):
                await admin.create(name, partitions)
            seen: list[tuple[str, int]] = []
            cursor: tuple[str, int] | None = None
            for _ in range(20):
                names = [] if of_all else ["c", "a", "b"]
                answer = await admin.ask(pages(*names, limit=limit, cursor=cursor))
                page = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
                assert 0 < len(page) <= max(limit, 1)
                seen += page
                if answer.next_cursor is None:
                    break
                cursor = answer.next_cursor.topic_name, answer.next_cursor.partition_index
            assert seen == [("a", 0), *(("b", n) for n in range(4)), ("c", 0), ("c", 1)]

    main()


@simulated
async def test_the_broker_limits_a_page() -> None:
    async with asking(max_request_partition_size_limit="2") as admin:
        await admin.create("a", 5)
        answer = await admin.ask(pages("a", limit=100))
        assert len(answer.topics[0].partitions) == 2
        assert answer.next_cursor is not None and answer.next_cursor.partition_index == 2


@simulated
async def test_a_cursor_points_to_what_is_asked_for() -> None:
    async with asking() as admin:
        await admin.create("a", 3)
        await admin.create("c")
        for cursor in (("a", -1), ("b", 0)):
            answer = await admin.ask(pages("a", "c", cursor=cursor))
            assert {t.error_code for t in answer.topics} == {ErrorCode.INVALID_REQUEST}
        answer = await admin.ask(pages("a", cursor=("a", 7)))
        assert [(t.name, t.error_code, t.partitions) for t in answer.topics] == [("a", 0, [])]
        # The cursor's topic has been deleted, so the next one follows.
        answer = await admin.ask(pages(cursor=("b", 1)))
        assert [t.name for t in answer.topics] == ["c"]


@simulated
async def test_who_is_away_is_described_as_offline() -> None:
    async with asking() as admin:
        await two_more(admin)
        (partition,) = (await admin.ask(pages("t"))).topics[0].partitions
        assert partition.offline_replicas == [2] and partition.error_code == 0
        topic_id = admin.broker.image.topics["t"].topic_id
        await admin.decide(PartitionChanged(topic_id, 0, leader=-1, elr=(3,), last_known_elr=(2,)))
        (partition,) = (await admin.ask(pages("t"))).topics[0].partitions
        assert (partition.leader_id, partition.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([3], [2])
