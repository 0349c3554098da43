"""What an image says about a request: whether it shows what was done, and, of one that had to be asked twice, whether an error
is only the trace of our own first try.

`before` is the image when the request was first passed on. What is judged is what a request makes: a topic that was missing
and is there, of the shape asked for; one that was there and is gone. For requests that say what is to be so (configs,
elections by name, features), the second try says the same as the first, and there is nothing to explain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pk.core.config import TOPIC_KEYS, BrokerConfig
from pk.core.errors import ErrorCode
from pk.core.meta.describe import describe_topic
from pk.core.meta.image import MetadataImage, TopicImage
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from pk.core.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from pk.core.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


@dataclass(frozen=True, slots=True)
class Suspect:
    """An error of which our own first try may be the cause."""

    explained: Callable[[MetadataImage], bool]
    """Whether an image shows that it was."""
    mend: Callable[[MetadataImage], None]
    """Make the success of it that it is."""


def shows(request: object, response: object, image: MetadataImage) -> bool:
    """Whether `image` shows the topics and partitions that were made, and no more those that were deleted."""
    match request, response:
        case CreateTopicsRequest(), CreateTopicsResponse():
            return request.validate_only or all(
                topic.error_code or topic.name in image.topics for topic in response.topics
            )
        case DeleteTopicsRequest(), DeleteTopicsResponse():
            return not any(
                not gone.error_code and _same(image, gone.name, gone.topic_id)
                for gone in response.responses
            )
        case CreatePartitionsRequest(), CreatePartitionsResponse():
            wanted = {topic.name: topic.count for topic in request.topics}
            return request.validate_only or all(
                grown.error_code or _count(image, grown.name) >= wanted.get(grown.name, 0)
                for grown in response.results
            )
    return True


def _same(image: MetadataImage, name: str | None, topic_id: bytes) -> bool:
    if topic_id != ZERO_UUID:
        return topic_id in image.topics_by_id
    return name in image.topics


def _count(image: MetadataImage, name: str) -> int:
    topic = image.topics.get(name)
    return len(topic.partitions) if topic is not None else 0


def suspects(
    request: object, response: object, before: MetadataImage, config: BrokerConfig
) -> Iterator[Suspect]:
    """The errors in `response` that may be of our own making."""
    match request, response:
        case CreateTopicsRequest(), CreateTopicsResponse():
            yield from _created(request, response, before, config)
        case DeleteTopicsRequest(), DeleteTopicsResponse():
            yield from _deleted(response, before)
        case CreatePartitionsRequest(), CreatePartitionsResponse():
            yield from _grown(request, response, before)
        case AlterPartitionReassignmentsRequest(), AlterPartitionReassignmentsResponse():
            yield from _cancelled(response, before)
        case ElectLeadersRequest(), ElectLeadersResponse():
            yield from _elected(response, before)
        case UnregisterBrokerRequest(), UnregisterBrokerResponse():
            yield from _unregistered(request, response, before)


def _created(
    request: CreateTopicsRequest,
    response: CreateTopicsResponse,
    before: MetadataImage,
    config: BrokerConfig,
) -> Iterator[Suspect]:
    wanted = {topic.name: topic for topic in request.topics}
    for result in response.topics:
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS or result.name in before.topics:
            continue
        asked = wanted[result.name]

        def explained(image: MetadataImage, asked: CreatableTopic = asked) -> bool:
            topic = image.topics.get(asked.name)
            return topic is not None and _is_as_asked(image, topic, asked)

        def mend(image: MetadataImage, result: CreatableTopicResult = result) -> None:
            _describe(result, image, config)

        yield Suspect(explained, mend)


def _is_as_asked(image: MetadataImage, topic: TopicImage, asked: CreatableTopic) -> bool:
    replicas = [partition.replicas for partition in topic.partitions]
    if asked.assignments:
        given = {a.partition_index: tuple(a.broker_ids) for a in asked.assignments}
        if given != dict(enumerate(replicas)):
            return False
    elif asked.num_partitions not in (-1, len(replicas)) or asked.replication_factor not in (
        -1,
        len(replicas[0]),
    ):
        return False
    return image.topic_configs(topic.name) == {c.name: c.value for c in asked.configs}


def _describe(result: CreatableTopicResult, image: MetadataImage, config: BrokerConfig) -> None:
    topic = image.topics[result.name]
    described = describe_topic(image.topic_configs(topic.name), config)
    result.error_code, result.error_message = 0, None
    result.topic_id = topic.topic_id
    result.num_partitions = len(topic.partitions)
    result.replication_factor = len(topic.partitions[0].replicas)
    result.configs = [
        CreatableTopicConfigs(
            name=name,
            value=described[name].value,
            config_source=described[name].source,
            is_sensitive=TOPIC_KEYS[name].sensitive,
        )
        for name in sorted(TOPIC_KEYS)
    ]


def _deleted(response: DeleteTopicsResponse, before: MetadataImage) -> Iterator[Suspect]:
    for result in response.responses:
        if result.error_code not in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ):
            continue
        by_id = result.topic_id != ZERO_UUID
        topic = (
            before.topic_by_id(result.topic_id) if by_id else before.topics.get(result.name or "")
        )
        if topic is None:
            continue

        def explained(image: MetadataImage, topic: TopicImage = topic) -> bool:
            return topic.topic_id not in image.topics_by_id

        def mend(image: MetadataImage, topic: TopicImage = topic, result=result) -> None:
            result.error_code, result.error_message = 0, None
            result.name, result.topic_id = topic.name, topic.topic_id

        yield Suspect(explained, mend)


def _grown(
    request: CreatePartitionsRequest, response: CreatePartitionsResponse, before: MetadataImage
) -> Iterator[Suspect]:
    wanted = {topic.name: topic.count for topic in request.topics}
    for result in response.results:
        count = wanted.get(result.name, 0)
        if (
            result.error_code != ErrorCode.INVALID_PARTITIONS
            or not 0 < _count(before, result.name) < count
        ):
            continue

        def explained(image: MetadataImage, name: str = result.name, count: int = count) -> bool:
            return _count(image, name) == count

        def mend(image: MetadataImage, result=result) -> None:
            result.error_code, result.error_message = 0, None

        yield Suspect(explained, mend)


def _cancelled(
    response: AlterPartitionReassignmentsResponse, before: MetadataImage
) -> Iterator[Suspect]:
    for topic in response.responses:
        for result in topic.partitions:
            was = before.partition(topic.name, result.partition_index)
            if (
                result.error_code != ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                or was is None
                or not (was.adding or was.removing)
            ):
                continue

            def explained(
                image: MetadataImage, name: str = topic.name, number: int = was.partition
            ) -> bool:
                now = image.partition(name, number)
                return now is not None and not (now.adding or now.removing)

            def mend(image: MetadataImage, result=result) -> None:
                result.error_code, result.error_message = 0, None

            yield Suspect(explained, mend)


def _elected(response: ElectLeadersResponse, before: MetadataImage) -> Iterator[Suspect]:
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            was = before.partition(topic.topic, result.partition_id)
            if result.error_code != ErrorCode.ELECTION_NOT_NEEDED or was is None:
                continue

            def explained(
                image: MetadataImage,
                name: str = topic.topic,
                number: int = was.partition,
                epoch: int = was.leader_epoch,
            ) -> bool:
                now = image.partition(name, number)
                return now is not None and now.leader_epoch > epoch

            def mend(image: MetadataImage, result=result) -> None:
                result.error_code, result.error_message = 0, None

            yield Suspect(explained, mend)


def _unregistered(
    request: UnregisterBrokerRequest, response: UnregisterBrokerResponse, before: MetadataImage
) -> Iterator[Suspect]:
    node = request.broker_id
    if response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED and node in before.brokers:

        def mend(image: MetadataImage) -> None:
            response.error_code, response.error_message = 0, None

        yield Suspect(lambda image: node not in image.brokers, mend)
