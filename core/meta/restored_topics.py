"""Decisions about topics of a lost cluster, which are restored from its segments in remote storage.

A restored topic keeps its old id, because the names of the objects contain it. A partition with
segments begins in a leader epoch above theirs, and with only its leader in the ISR, because the
other replicas are empty until they have fetched from it. The image keeps the list of objects
(`RestoredLog`), and the leader restores the log from them before it leads
(core/broker/remote/partition_restorer.py).

The segments contain producer ids of the lost cluster. From now on this cluster allocates higher
ones. The ids that it had allocated before belong to other producers; `RestoredLog.producer_id_next`
is the bound.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import (
    Event,
    PartitionCreated,
    ProducerIdsAllocated,
    RestoredLog,
    TopicCreated,
)
from pk.core.meta.image import MetadataImage
from pk.core.meta.placement import RandomSource, place
from pk.core.meta.topics import TopicsRequest, check_new, own_configs, partitions_created
from pk.core.values import NO_EPOCH, NO_NODE, ZERO_UUID
from pk.core.wire.messages.pk_restore_topics import (
    PkRestoreTopicsRequest,
    PkRestoreTopicsResponse,
    RestoredTopic,
    RestoredTopicResult,
)


def restore_topics(
    image: MetadataImage,
    request: PkRestoreTopicsRequest,
    config: BrokerConfig,
    random: RandomSource,
) -> Decision[Event, PkRestoreTopicsResponse]:
    """Decide a PkRestoreTopics request; the reply is its response. A topic that already exists with
    the same id is left unchanged, without an error."""
    decision: Decision[Event, PkRestoreTopicsResponse] = Decision()
    decision.reply = response = PkRestoreTopicsResponse()
    topics_request = TopicsRequest(image, config, random)
    names = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        result = RestoredTopicResult(name=topic.name)
        response.topics.append(result)
        known = image.topics.get(topic.name)
        if known is not None and known.topic_id == topic.topic_id:
            continue
        try:
            if names[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            decision.records += _restore(topics_request, topic)
        except KafkaError as e:
            result.error_code, result.error_message = e.code, e.message
    if decision.records and request.producer_id_next > image.producer_id_next:
        decision.records.append(ProducerIdsAllocated(NO_NODE, NO_EPOCH, request.producer_id_next))
    return decision


def _restore(topics_request: TopicsRequest, topic: RestoredTopic) -> list[Event]:
    image, config = topics_request.image, topics_request.config
    check_new(topics_request, topic.name)
    if topic.topic_id == ZERO_UUID or topic.topic_id in image.topics_by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "another topic has its id, or it has none")
    if not topic.partitions:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "a topic needs partitions")
    changes = own_configs(topic.name, [(one.name, one.value) for one in topic.configs], config)
    if not any(one.key == "remote.storage.enable" and one.value == "true" for one in changes):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "a restored topic has remote.storage.enable")
    factor = topic.replication_factor
    factor = config.default_replication_factor if factor == -1 else factor
    if factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    replicas = place(image.brokers.values(), len(topic.partitions), factor, topics_request.random)
    return [
        TopicCreated(topic.name, topic.topic_id),
        *_partitions(image, topic, replicas),
        *changes,
    ]


def _partitions(
    image: MetadataImage, topic: RestoredTopic, replicas: Sequence[tuple[int, ...]]
) -> Iterator[PartitionCreated]:
    created = partitions_created(image, topic.topic_id, 0, replicas)
    for one, wanted in zip(created, topic.partitions, strict=True):
        if wanted.end_offset < 0:
            yield one
            continue
        yield PartitionCreated(
            one.topic_id,
            one.partition,
            one.replicas,
            (one.leader,),
            one.leader,
            wanted.last_epoch + 1,
            restored=RestoredLog(
                wanted.end_offset,
                tuple(wanted.cluster_ids),
                tuple(wanted.left_out),
                image.producer_id_next,
                wanted.start_offset,
            ),
        )
