"""Decisions about topics: create, delete, add partitions. Pure: (image, request) → events and the
reply.

Each topic in a request is decided separately and has its own error in the reply.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property

from pk.core.config import TOPIC_KEYS, BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta import configs
from pk.core.meta.events import (
    TOPIC,
    ConfigChanged,
    Event,
    PartitionCreated,
    TopicCreated,
    TopicDeleted,
)
from pk.core.meta.image import MetadataImage, TopicImage
from pk.core.meta.placement import RandomSource, place
from pk.core.meta.reassignment import check_replicas, target
from pk.core.meta.topic_names import UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, check_name
from pk.core.quota.mutations import Mutations
from pk.core.values import METADATA_TOPIC, ZERO_UUID, Uuid, uuid_text
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from pk.core.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pk.core.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

PARTITIONS_PER_REQUEST_MAX = 10_000
"""The maximum number of partitions that one request may create, as in Kafka."""


class TopicsRequest:
    """Values that are computed once for all topics of a CreateTopics request, which may name
    thousands."""

    def __init__(self, image: MetadataImage, config: BrokerConfig, random: RandomSource) -> None:
        self.image, self.config, self.random = image, config, random
        self.budget = PARTITIONS_PER_REQUEST_MAX
        """The number of partitions that the request may still create."""
        self._described: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    @cached_property
    def _names_in_metrics(self) -> dict[str, str]:
        return {t.replace(".", "_"): t for t in self.image.topics if "." in t or "_" in t}

    def collision(self, name: str) -> str | None:
        """Return an existing topic whose metrics would collide with those of a topic `name`, or
        None. Names of metrics have '_' for '.'."""
        if "." not in name and "_" not in name:
            return None
        return self._names_in_metrics.get(name.replace(".", "_"))

    def described(self, own: dict[str, str]) -> list[CreatableTopicConfigs]:
        """Describe every key of a topic that sets `own`."""
        key = tuple(sorted(own.items()))
        found = self._described.get(key)
        if found is None:
            described = configs.describe_topic(own, self.config)
            found = self._described[key] = [
                CreatableTopicConfigs(
                    name=name,
                    value=described[name].value,
                    read_only=False,
                    config_source=described[name].source,
                    is_sensitive=TOPIC_KEYS[name].sensitive,
                )
                for name in sorted(TOPIC_KEYS)
            ]
        return found


def create_topics(
    image: MetadataImage,
    request: CreateTopicsRequest,
    config: BrokerConfig,
    random: RandomSource,
    mutations: Mutations | None = None,
) -> Decision[Event, CreateTopicsResponse]:
    """Decide a CreateTopics request; the reply is its response, with all fields of version 7."""
    decision: Decision[Event, CreateTopicsResponse] = Decision()
    if mutations is not None:
        mutations.begin()
    names = Counter(topic.name for topic in request.topics)
    results: list[CreatableTopicResult] = []
    topics_request = TopicsRequest(image, config, random)
    for topic in request.topics:
        if names[topic.name] > 1:
            names[topic.name] = -1
            results.append(
                _refused(
                    topic.name,
                    KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
                )
            )
        elif names[topic.name] == 1:
            try:
                events = _create(topics_request, topic)
                count = sum(isinstance(e, PartitionCreated) for e in events)
                if mutations is not None:
                    mutations.take(count)
            except KafkaError as e:
                results.append(_refused(topic.name, e))
                continue
            topics_request.budget -= count
            if not request.validate_only:
                decision.records += events
            results.append(_created(topics_request, topic, events, request.validate_only))
    decision.reply = CreateTopicsResponse(topics=results)
    return decision


def _create(topics_request: TopicsRequest, topic: CreatableTopic) -> list[Event]:
    name, image = topic.name, topics_request.image
    check_new(topics_request, name)
    changes = own_configs(
        name, [(one.name, one.value) for one in topic.configs], topics_request.config
    )
    topic_id = new_topic_id(image, topics_request.random)
    replicas = _replicas_of(topics_request, topic)
    events: list[Event] = [TopicCreated(name, topic_id)]
    events += partitions_created(image, topic_id, 0, replicas)
    events += changes
    return events


def check_new(topics_request: TopicsRequest, name: str) -> None:
    """Raise KafkaError if a topic with this name cannot be created."""
    check_name(name)
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    if name in topics_request.image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if (other := topics_request.collision(name)) is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def new_topic_id(image: MetadataImage, random: RandomSource) -> Uuid:
    """Return an unused topic id. As in Kafka, its text never begins with '-', which tools would
    take for an option."""
    while True:
        topic_id = random.randbytes(16)
        # Ids of fifteen zero bytes and one more are reserved, for example for the cluster's own
        # log.
        taken = topic_id[:15] == bytes(15) or topic_id in image.topics_by_id
        if not taken and not uuid_text(topic_id).startswith("-"):
            return topic_id


def own_configs(
    name: str, pairs: Iterable[tuple[str, str | None]], config: BrokerConfig
) -> list[ConfigChanged]:
    """Return the configs that a new topic sets. Raises KafkaError."""
    given: dict[str, str] = {}
    for key, value in pairs:
        if value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {key}"
            )
        given[key] = value
    configs.check_topic(given, config)
    return [ConfigChanged(TOPIC, name, key, value) for key, value in given.items()]


def _replicas_of(topics_request: TopicsRequest, topic: CreatableTopic) -> list[tuple[int, ...]]:
    image, config = topics_request.image, topics_request.config
    count, factor = topic.num_partitions, topic.replication_factor
    if topic.assignments:
        for value, what in ((factor, "replication factor"), (count, "numPartitions")):
            if value != -1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        _check_budget(len(topic.assignments), topics_request.budget)
        return _assigned(image, topic)
    if factor != -1 and factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count != -1 and count <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = config.num_partitions if count == -1 else count
    factor = config.default_replication_factor if factor == -1 else factor
    _check_budget(count, topics_request.budget)
    return place(image.brokers.values(), count, factor, topics_request.random)


def _check_budget(count: int, budget: int) -> None:
    """Take `count` from the request's `budget` of partitions. Raises POLICY_VIOLATION if it is
    exceeded."""
    if count > budget:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        )


def _assigned(image: MetadataImage, topic: CreatableTopic) -> list[tuple[int, ...]]:
    by_partition: dict[int, tuple[int, ...]] = {}
    for assignment in topic.assignments:
        number = assignment.partition_index
        if number in by_partition:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {number} is assigned twice"
            )
        by_partition[number] = tuple(assignment.broker_ids)
    if sorted(by_partition) != list(range(len(by_partition))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    replicas = [by_partition[number] for number in range(len(by_partition))]
    _check_assignment(image, replicas, len(replicas[0]))
    return replicas


def _check_assignment(
    image: MetadataImage, replicas: Sequence[tuple[int, ...]], factor: int
) -> None:
    for nodes in replicas:
        check_replicas(image, nodes)
        if len(nodes) != factor:
            wrong = f"has {len(nodes)} replicas for a partition where others have {factor}"
        elif not any(image.brokers[node].may_lead for node in nodes):
            wrong = "has a partition none of whose brokers is alive"
        else:
            continue
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the manual assignment {wrong}")


def partitions_created(
    image: MetadataImage, topic_id: Uuid, first: int, replicas: Sequence[tuple[int, ...]]
) -> Iterator[PartitionCreated]:
    """Return events for new partitions. All live replicas begin in the ISR, and the first of them
    leads."""
    for number, nodes in enumerate(replicas, first):
        isr = tuple(n for n in nodes if image.brokers[n].may_lead)
        yield PartitionCreated(topic_id, number, nodes, isr, isr[0])


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message, configs=[]
    )


def _created(
    topics_request: TopicsRequest,
    topic: CreatableTopic,
    events: Sequence[Event],
    validate_only: bool,
) -> CreatableTopicResult:
    partitions = [e for e in events if isinstance(e, PartitionCreated)]
    own = {e.key: e.value or "" for e in events if isinstance(e, ConfigChanged)}
    return CreatableTopicResult(
        name=topic.name,
        topic_id=ZERO_UUID if validate_only else partitions[0].topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=topics_request.described(own),
    )


def delete_topics(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    config: BrokerConfig,
    mutations: Mutations | None = None,
) -> Decision[Event, DeleteTopicsResponse]:
    """Decide a DeleteTopics request, with names (up to version 5) or with names or ids (version
    6)."""
    decision: Decision[Event, DeleteTopicsResponse] = Decision()
    if mutations is not None:
        mutations.begin()
    asked = request.topics.copy()
    for name in request.topic_names:
        asked.append(DeleteTopicState(name=name))
    seen = Counter(_identity(state, _resolve(image, state)) for state in asked)
    results: list[DeletableTopicResult] = []
    for state in asked:
        topic = _resolve(image, state)
        key = _identity(state, topic)
        count, seen[key] = seen[key], -1
        if count < 0:
            continue
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        results.append(result)
        try:
            topic = _to_delete(state, topic, count, config)
            if mutations is not None:
                mutations.take(len(topic.partitions))
        except KafkaError as e:
            result.error_code, result.error_message = e.code, e.message
            if topic is not None:
                result.name, result.topic_id = topic.name, topic.topic_id
            continue
        result.name, result.topic_id = topic.name, topic.topic_id
        decision.records.append(TopicDeleted(topic.topic_id))
    decision.reply = DeleteTopicsResponse(responses=results)
    return decision


def _resolve(image: MetadataImage, state: DeleteTopicState) -> TopicImage | None:
    if state.name is None:
        return image.topic_by_id(state.topic_id)
    return image.topics.get(state.name) if state.topic_id == ZERO_UUID else None


def _identity(state: DeleteTopicState, topic: TopicImage | None) -> Hashable:
    """Return a key that is equal for two entries that mean the same topic, by name or by id."""
    return topic.topic_id if topic is not None else (state.name, state.topic_id)


def _to_delete(
    state: DeleteTopicState, topic: TopicImage | None, count: int, config: BrokerConfig
) -> TopicImage:
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or its id")
    if state.name is None and state.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "neither a name nor an id was given")
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if topic is None:
        by_id = state.name is None
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(code, UNKNOWN_TOPIC_ID if by_id else UNKNOWN_TOPIC)
    if not config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
    return topic


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    random: RandomSource,
    mutations: Mutations | None = None,
) -> Decision[Event, CreatePartitionsResponse]:
    """Decide a CreatePartitions request."""
    decision: Decision[Event, CreatePartitionsResponse] = Decision()
    if mutations is not None:
        mutations.begin()
    names = Counter(topic.name for topic in request.topics)
    results: list[CreatePartitionsTopicResult] = []
    budget = PARTITIONS_PER_REQUEST_MAX
    for topic in request.topics:
        count, names[topic.name] = names[topic.name], -1
        if count < 0:
            continue
        result = CreatePartitionsTopicResult(name=topic.name)
        results.append(result)
        known = image.topics.get(topic.name)
        # Set the error without raising it: a request may name thousands of unknown topics.
        if count > 1:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "Duplicate topic name."
            continue
        if known is None:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = UNKNOWN_TOPIC
            continue
        try:
            events = _add_partitions(image, known, topic, budget, random)
            if mutations is not None:
                mutations.take(len(events))
        except KafkaError as e:
            result.error_code, result.error_message = e.code, e.message
            continue
        budget -= len(events)
        if not request.validate_only:
            decision.records += events
    decision.reply = CreatePartitionsResponse(results=results)
    return decision


def _add_partitions(
    image: MetadataImage,
    topic: TopicImage,
    wanted: CreatePartitionsTopic,
    budget: int,
    random: RandomSource,
) -> list[PartitionCreated]:
    have = len(topic.partitions)
    more = wanted.count - have
    if more <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic already has {have} partition(s)."
            if more == 0
            else f"The topic {topic.name} currently has {have} partition(s); "
            f"{wanted.count} would not be an increase.",
        )
    _check_budget(more, budget)
    factor = len(target(topic.partitions[0]))
    if wanted.assignments is not None:
        if len(wanted.assignments) != more:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {more} additional partition(s), but only "
                f"{len(wanted.assignments)} assignment(s) were specified.",
            )
        replicas = [tuple(a.broker_ids) for a in wanted.assignments]
        _check_assignment(image, replicas, factor)
    else:
        replicas = place(image.brokers.values(), more, factor, random, have)
    return list(partitions_created(image, topic.topic_id, have, replicas))
