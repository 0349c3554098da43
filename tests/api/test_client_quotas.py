"""The answers of pk, and of Apache Kafka if there is one, to a client that exceeds its quota; and
the throttling of such a client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from clients.fixtures import Kafka, fresh_name
from clients.topics import wait_until
from meta.test_against_kafka import Asking
from meta.test_client_quotas import altering, describing, entry

from pk.core.errors import ErrorCode
from pk.core.quota.entity import CLIENT_ID, USER
from pk.core.record.build import build_batch
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

ANONYMOUS = "ANONYMOUS"
FIRST_SIZE = 4


class Client(Asking):
    """A connection whose client id is its own."""

    def __init__(self, kafka: Kafka, client_id: str) -> None:
        super().__init__(kafka)
        self.client_id = client_id

    def send(self, request: Any, version: int) -> int:
        """Send a request; its size as quotas count it."""
        frame = frame_request(request, version, 1, self.client_id)
        self._socket.sendall(frame)
        return len(frame) - FIRST_SIZE

    def receive(self, request: Any, version: int) -> Any:
        """The answer to it."""
        frame = self._read(int.from_bytes(self._read(4), "big"))
        key = request.API_KEY
        _, position = parse_response_header(frame, key, version)
        return decode_whole(MESSAGES[key].response, frame, version, position)

    def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(request, version)


def batch(size: int) -> bytes:
    return bytes(build_batch([(int(time.time() * 1000), None, bytes(size), ())]))


def produce(topic: str, size: int, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch(size))
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch(topic: str, offset: int = 0) -> FetchRequest:
    wish = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[FetchTopic(topic=topic, partitions=[wish])],
    )


def create(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    wanted = [
        CreatableTopic(name=n, num_partitions=partitions, replication_factor=1) for n in names
    ]
    return CreateTopicsRequest(topics=wanted, timeout_ms=30_000)


@pytest.fixture
def topic(kafka: Kafka) -> Iterator[str]:
    name = fresh_name("quotas")
    with Asking(kafka) as asking:
        assert asking.ask(create(name)).topics[0].error_code == 0
        yield name
        asking.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000))


def wait_until_known(asking: Asking, client: str) -> None:
    wait_until(
        "the broker knows the quota",
        lambda: bool(asking.ask(describing((CLIENT_ID, 0, client))).entries),
    )


@pytest.fixture
def limited(kafka: Kafka) -> Iterator[Any]:
    """Sets a quota for a fresh client id, waits until the broker knows it, and gives a
    connection."""
    left: list[Any] = []

    def set_quota(key: str, value: float, user: str | None = None) -> Client:
        client = fresh_name("client")
        names = {CLIENT_ID: client} if user is None else {USER: user, CLIENT_ID: client}
        with Asking(kafka) as asking:
            asking.ask(altering(entry(names, (key, value))))
            wait_until_known(asking, client)
            # Apache Kafka describes a quota a moment before it is in force; but before the next
            # change.
            asking.ask(altering(entry({CLIENT_ID: f"{client}-after"}, (key, value))))
            wait_until_known(asking, f"{client}-after")
            asking.ask(altering(entry({CLIENT_ID: f"{client}-after"}, (key, None))))
        found = Client(kafka, client)
        left.append((names, key, found))
        return found

    yield set_quota
    for names, key, client in left:
        client.__exit__()
        with Asking(kafka) as asking:
            asking.ask(altering(entry(names, (key, None))))


def first_known(client: Client, topic: str) -> None:
    """Wait until the broker serves the topic: the request before may have been too early for Apache
    Kafka.

    The client that waits is not the measured one, since the time since a client's first request is
    part of its rate.
    """

    def served() -> bool:
        answer = client.call(produce(topic, 1), 9)
        return answer.responses[0].partition_responses[0].error_code == 0

    wait_until("the topic has a leader", served)


@pytest.mark.parametrize("version", [3, 7, 12])
def test_a_producer_learns_how_long_to_wait(
    kafka: Kafka, topic: str, limited: Any, version: int
) -> None:
    with Client(kafka, "unlimited") as other:
        first_known(other, topic)
    client = limited("producer_byte_rate", 1000)
    request = produce(topic, 60_000)
    size = client.send(request, version)
    answer = client.receive(request, version)
    assert answer.responses[0].partition_responses[0].error_code == 0
    # (rate - quota) / quota * window; the rate is the number of bytes over ten of the eleven
    # samples.
    assert answer.throttle_time_ms == pytest.approx((size / 10 - 1000) / 1000 * 10_000, rel=0.02)


def test_a_user_and_its_client_id_come_before_the_client_id(
    kafka: Kafka, topic: str, limited: Any
) -> None:
    with Client(kafka, "unlimited") as other:
        first_known(other, topic)
    client = limited("producer_byte_rate", 2000, user=ANONYMOUS)
    size = client.send(produce(topic, 40_000), 9)
    throttled_ms = client.receive(produce(topic, 1), 9).throttle_time_ms
    assert throttled_ms == pytest.approx((size / 10 - 2000) / 2000 * 10_000, rel=0.02)


def test_one_that_asks_for_no_answer_is_held_back_too(
    kafka: Kafka, topic: str, limited: Any
) -> None:
    with Client(kafka, "unlimited") as other:
        first_known(other, topic)
    client = limited("producer_byte_rate", 50_000)
    began = time.monotonic()
    client.send(produce(topic, 520_000, acks=0), 9)
    client.call(ApiVersionsRequest(), 0)
    assert time.monotonic() - began > 0.1


def test_the_next_request_waits_for_as_long_as_the_answer_says(
    kafka: Kafka, topic: str, limited: Any
) -> None:
    with Client(kafka, "unlimited") as other:
        first_known(other, topic)
    client = limited("producer_byte_rate", 50_000)
    began = time.monotonic()
    request = produce(topic, 520_000)
    client.send(request, 9)
    client.send(ApiVersionsRequest(), 0)
    throttled_ms = client.receive(request, 9).throttle_time_ms
    assert throttled_ms > 100
    client.receive(ApiVersionsRequest(), 0)
    assert time.monotonic() - began >= throttled_ms / 1000 - 0.002


def test_a_consumer_that_must_wait_gets_nothing_meanwhile(
    kafka: Kafka, topic: str, limited: Any
) -> None:
    with Client(kafka, "unlimited") as other:
        first_known(other, topic)
        answer = other.call(produce(topic, 30_000), 9)
        last = answer.responses[0].partition_responses[0].base_offset
    client = limited("consumer_byte_rate", 1000)
    # A window allows 10,000 bytes; the first batch comes whole all the same, if it comes.
    answer = client.call(fetch(topic, last), 12)
    assert answer.responses == []
    assert answer.session_id == 0
    assert answer.throttle_time_ms == pytest.approx((30_000 / 10 - 1000) / 1000 * 10_000, rel=0.05)


def test_a_fetch_is_as_large_as_its_quota_allows(kafka: Kafka, topic: str, limited: Any) -> None:
    with Client(kafka, "unlimited") as other:
        first_known(other, topic)
        for _ in range(10):
            other.call(produce(topic, 3000), 9)
    client = limited("consumer_byte_rate", 1000)
    # Together with the fields around the records, the largest answer is just above the quota: the
    # client gets it after a moment.
    while not (answer := client.call(fetch(topic, 1), 12)).responses:
        assert 0 < answer.throttle_time_ms < 200
    records = answer.responses[0].partitions[0].records
    assert 3000 < len(records) <= 10_000


def test_what_one_answer_may_hold_is_shared_by_the_connections_of_a_client(
    kafka: Kafka, topic: str, limited: Any
) -> None:
    with Client(kafka, "unlimited") as unlimited:
        first_known(unlimited, topic)
    client = limited("producer_byte_rate", 1000)
    with Client(kafka, client.client_id) as other:
        assert other.call(produce(topic, 8000), 9).throttle_time_ms == 0
        assert client.call(produce(topic, 8000), 9).throttle_time_ms > 1000


def test_changes_of_topics_are_refused_from_the_versions_on_that_know_it(
    kafka: Kafka, limited: Any
) -> None:
    client = limited("controller_mutation_rate", 1.0)
    names = [fresh_name("mutated") for _ in range(4)]
    exceeded = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    with Client(kafka, client.client_id) as again, Client(kafka, client.client_id) as old:
        answer = client.call(create(*names[:2], partitions=46), 7)
        assert sorted(topic.error_code for topic in answer.topics) == [0, exceeded]
        (refused,) = [topic for topic in answer.topics if topic.error_code]
        assert refused.error_message is None
        assert 0 < answer.throttle_time_ms <= 35_000
        made = next(topic.name for topic in answer.topics if not topic.error_code)
        more = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=made, count=47, assignments=None)],
            timeout_ms=30_000,
        )
        answer = again.call(more, 3)
        assert [(r.error_code, r.error_message) for r in answer.results] == [(exceeded, None)]
        assert 0 < answer.throttle_time_ms <= 35_000
        # An old client knows no such error: it gets its topic, and waits.
        answer = old.call(create(names[2]), 5)
        assert [topic.error_code for topic in answer.topics] == [0]
        assert 0 < answer.throttle_time_ms <= 36_000
    with Client(kafka, client.client_id) as last:
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=made)], timeout_ms=30_000)
        answer = last.call(gone, 6)
        assert [(r.error_code, r.error_message) for r in answer.responses] == [(exceeded, None)]
    with Asking(kafka) as asking:
        gone.topics.append(DeleteTopicState(name=names[2]))
        assert [result.error_code for result in asking.ask(gone).responses] == [0, 0]


def test_the_time_of_requests_is_limited(limited: Any) -> None:
    client = limited("request_percentage", 0.001)
    throttled_ms = 0
    for _ in range(1000):
        throttled_ms = client.call(ApiVersionsRequest(), 3).throttle_time_ms
        if throttled_ms:
            break
    assert 0 < throttled_ms <= 1000, "a sample at most"
