"""Metadata (3), versions 0–13: the brokers, and the leaders of partitions. It is every client's
first request.

In v0 an empty list means all topics; from v1 on null means all, and an empty list none. v4 can
forbid the creation of unknown topics (KIP-204), v5 has offline replicas (KIP-112), v7 leader epochs
(KIP-320), v8 authorized operations (KIP-430), v10 topic ids, which can be requested from v12 on
(KIP-516), v13 an error for the whole request.

An unknown topic is created if `auto.create.topics.enable` and the request allow it. The response to
that request is UNKNOWN_TOPIC_OR_PARTITION, as in Apache Kafka, and the topic appears afterwards:
clients retry.
"""

from collections.abc import Collection, Iterable
from typing import Final

import trio

from pk.core.api.authorization import allows, allows_cluster, cluster_operations, is_on
from pk.core.api.authorized import NOT_ASKED, TOPIC_OPERATIONS
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.image import MetadataImage, PartitionImage, TopicImage
from pk.core.meta.topic_names import is_name
from pk.core.values import METADATA_TOPIC, NO_LEADER, NO_NODE, ZERO_UUID, Uuid
from pk.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_VERSION_NULL_IS_ALL: Final = 1
_VERSION_LISTENER_NOT_FOUND: Final = 6
_VERSION_TOPIC_IDS: Final = 12

Alive = dict[int, tuple[str, int, str | None]]
"""Unfenced brokers that are reachable on the client's listener: host, port, rack."""

_UNDESCRIBED: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)

LARGE_ANSWERS_MAX: Final = 4
"""The number of responses with all topics of a large cluster that are built at the same time: each
takes memory."""

LARGE_PARTITIONS: Final = 500
"""The number of partitions above which responses with all topics count as large."""

_large_answers: trio.lowlevel.RunVar[trio.Semaphore] = trio.lowlevel.RunVar("metadata_at_work")


async def handle(context: Context, request: MetadataRequest) -> MetadataResponse:
    """Describe the topics of the image. If the connection to another broker was just lost, wait for
    the new leaders, since a client that learns of the old leader may not ask again for a second.

    Raises KafkaError(INVALID_REQUEST) for a topic without name and id, or with an id before version
    12.
    """
    recently_fenced: Collection[int] = frozenset()
    if len(context.broker.image.brokers) > 1:
        # The client may have just lost its leader. Then this broker has lost it, too, and the end
        # of that connection may arrive together with the client's request.
        await trio.lowlevel.checkpoint()
        await context.broker.cluster.disconnected_leaders.wait_for_decision()
        recently_fenced = context.broker.cluster.recently_fenced.nodes()
    if (
        _wants_all(request, context.api_version)
        and context.broker.image.partition_count > LARGE_PARTITIONS
    ):
        async with _limit():
            return await _answer(context, request, recently_fenced)
    answer = await _answer(context, request, recently_fenced)
    await _create_missing(context, request)
    return answer


def _limit() -> trio.Semaphore:
    try:
        return _large_answers.get()
    except LookupError:
        limit = trio.Semaphore(LARGE_ANSWERS_MAX)
        _large_answers.set(limit)
        return limit


async def _create_missing(context: Context, request: MetadataRequest) -> None:
    """Create unknown topics. This begins only after the response is built, because the response
    says that they are unknown."""
    if not (request.allow_auto_topic_creation and context.broker.config.auto_create_topics_enable):
        return
    missing: list[str] = []
    for topic in request.topics or ():
        await let_others_run()
        if (
            topic.name
            and topic.topic_id == ZERO_UUID
            and topic.name not in context.broker.image.topics
            and topic.name != METADATA_TOPIC
            and is_name(topic.name)
            and _may_create(context, topic.name)
        ):
            missing.append(topic.name)
    context.broker.cluster.topics_on_demand.create(missing)


def _may_create(context: Context, name: str) -> bool:
    """Return whether the client's request may create a missing topic."""
    return (
        not is_on(context)
        or allows_cluster(context, Operation.CREATE, log=False)
        or allows(context, Operation.CREATE, ResourceType.TOPIC, name)
    ) and allows(context, Operation.DESCRIBE, ResourceType.TOPIC, name, log=False)


def _wants_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (not request.topics and version < _VERSION_NULL_IS_ALL)


async def _answer(
    context: Context, request: MetadataRequest, recently_fenced: Collection[int]
) -> MetadataResponse:
    """Build the response from one image, regardless of changes in the meantime."""
    image = context.broker.image
    version = context.api_version
    alive = _endpoints(image, context.listener)
    named = alive | _endpoints(image, context.listener, recently_fenced)
    brokers = [
        MetadataResponseBroker(node_id=node, host=host, port=port, rack=rack)
        for node, (host, port, rack) in sorted(named.items())
    ]
    wanted = request.topics
    answers: list[MetadataResponseTopic] = []
    if wanted is None or _wants_all(request, version):
        for topic in image.topics.values():
            await let_others_run()
            if _is_visible(context, topic):
                answers.append(await _topic(topic, alive, version))
    else:
        requested = _requested_topics(wanted, version)
        for name, topic_id in requested:
            await let_others_run()
            answers.append(await _topic_response(context, request, name, topic_id, image, alive))
    if request.include_topic_authorized_operations:
        await _add_operations(context, answers)
    cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=controller_of(context),
        topics=answers,
        cluster_authorized_operations=cluster_operations(context) if cluster else NOT_ASKED,
    )


def _is_visible(context: Context, topic: TopicImage) -> bool:
    """Return whether a client that requests all topics may see this one."""
    return not is_on(context) or allows(
        context, Operation.DESCRIBE, ResourceType.TOPIC, topic.name, log=False
    )


async def _add_operations(context: Context, answers: Iterable[MetadataResponseTopic]) -> None:
    """Add the client's authorized operations to each topic that it may describe (KIP-430)."""
    authorization = context.broker.authorization
    for topic in answers:
        await let_others_run()
        if topic.error_code not in _UNDESCRIBED:
            topic.topic_authorized_operations = authorization.operations(
                context, ResourceType.TOPIC, topic.name or "", TOPIC_OPERATIONS
            )


def controller_of(context: Context) -> int:
    """Return the broker that clients treat as the controller: the active controller if it is a live
    broker. Otherwise it is this broker, or any live one, which forwards requests to the
    controller."""
    image, node = context.broker.image, context.broker.node_id
    for candidate in (image.controller_id, node, *sorted(image.brokers)):
        broker = image.brokers.get(candidate)
        if broker is not None and not broker.fenced:
            return candidate
    return NO_NODE


def _endpoints(image: MetadataImage, listener: str, fenced: Collection[int] | None = None) -> Alive:
    """Return the unfenced brokers (or those in `fenced`) that are reachable on `listener`: host,
    port, rack."""
    found: Alive = {}
    for node, broker in image.brokers.items():
        wanted = not broker.fenced if fenced is None else node in fenced
        endpoint = broker.endpoint(listener) if wanted else None
        if endpoint is not None:
            found[node] = endpoint.host, endpoint.port, broker.rack
    return found


def _requested_topics(
    wanted: Iterable[MetadataRequestTopic], version: int
) -> dict[tuple[str | None, Uuid], None]:
    """Return (name, id) of each topic once. An id takes precedence over a name. Raises
    KafkaError(INVALID_REQUEST)."""
    requested: dict[tuple[str | None, Uuid], None] = {}
    for topic in wanted:
        by_id = topic.topic_id != ZERO_UUID
        if (by_id or topic.name is None) and version < _VERSION_TOPIC_IDS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"version {version} cannot ask for topics by their id"
            )
        if not by_id and topic.name is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic has neither a name nor an id")
        requested[None if by_id else topic.name, topic.topic_id] = None
    return requested


async def _topic_response(
    context: Context,
    request: MetadataRequest,
    name: str | None,
    topic_id: Uuid,
    image: MetadataImage,
    alive: Alive,
) -> MetadataResponseTopic:
    topic = image.topic_by_id(topic_id) if name is None else image.topics.get(name)
    requested = topic.name if topic is not None else name
    if requested is not None and not allows(
        context, Operation.DESCRIBE, ResourceType.TOPIC, requested
    ):
        # An id is not secret, but a name is, so the response has only the request's name.
        return MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id
        )
    if topic is not None:
        return await _topic(topic, alive, context.api_version)
    if name is None:
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
        )
    code = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    creates = request.allow_auto_topic_creation and context.broker.config.auto_create_topics_enable
    if creates and not _may_create(context, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return MetadataResponseTopic(error_code=code, name=name)


async def _topic(
    topic: TopicImage,
    alive: Alive,
    version: int,
) -> MetadataResponseTopic:
    partitions: list[MetadataResponsePartition] = []
    for partition in topic.partitions:
        await let_others_run()
        partitions.append(_partition(partition, alive, version))
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
    )


def _partition(
    partition: PartitionImage,
    alive: Alive,
    version: int,
) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    offline = [node for node in replicas if node not in alive]
    leader, code = partition.leader, 0
    if leader not in alive:
        known = leader != NO_LEADER and version >= _VERSION_LISTENER_NOT_FOUND
        code = ErrorCode.LISTENER_NOT_FOUND if known else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    elif version == 0 and offline:
        # Clients of version 0.8 look up every replica in the list of brokers, and fail if one is
        # missing.
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    if version == 0:
        replicas = [node for node in replicas if node in alive]
        isr = [node for node in isr if node in alive]
    return MetadataResponsePartition(
        error_code=code,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )


def error_response(request: MetadataRequest, error: KafkaError, version: int) -> MetadataResponse:
    """Return the same error for every requested topic and, if the version supports it, for the
    whole request."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=error.code,
                # Before version 12 a name cannot be null.
                name=topic.name if version >= _VERSION_TOPIC_IDS else topic.name or "",
                topic_id=topic.topic_id,
            )
            for topic in request.topics or ()
        ],
        error_code=error.code,
    )
