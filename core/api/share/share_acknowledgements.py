"""The common part of ShareFetch and ShareAcknowledge: the member's session, and its
acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pk.core.api.authorization import allows
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.broker.share.share_partition import Stored
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.share.partition_state import Acknowledgement, AcknowledgeType
from pk.core.share.sessions import SessionKey
from pk.core.values import TopicIdPartition

Acknowledgements = Mapping[TopicIdPartition, list[Any]]
"""The batches of acknowledgements in a request, by partition."""

LEADER_ERRORS: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Leader(NamedTuple):
    """The current leader of a partition, and its endpoint (KIP-951)."""

    leader_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the key of the request's session. Raises INVALID_REQUEST."""
    if group_id is None or not member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return SessionKey(group_id, member_id)


async def acknowledgements_of(topics: Iterable[Any]) -> dict[TopicIdPartition, list[Any]]:
    """Return the acknowledgements in a request, by partition."""
    acknowledgements: dict[TopicIdPartition, list[Any]] = {}
    for topic, partition in ((t, p) for t in topics for p in t.partitions):
        await let_others_run()
        if partition.acknowledgement_batches:
            tp = TopicIdPartition(topic.topic_id, partition.partition_index)
            acknowledgements[tp] = partition.acknowledgement_batches
    return acknowledgements


async def acknowledge(
    context: Context, key: SessionKey, acknowledgements: Acknowledgements, *, renews: bool
) -> dict[TopicIdPartition, KafkaError | None]:
    """Store a member's acknowledgements, for all partitions at the same time. Returns the errors by
    partition. `renews`: whether this request may renew locks."""
    found: dict[TopicIdPartition, KafkaError | None] = {}
    waiting: dict[TopicIdPartition, Stored] = {}
    for tp, batches in acknowledgements.items():
        await let_others_run()
        found[tp] = None
        try:
            check_read(context, tp)
            _check(batches, renews=renews)
            share_partition = context.broker.groups.share_partitions.find(key.group_id, tp)
            if share_partition.is_loading:
                await share_partition.wait_until_loaded()
            stored = share_partition.acknowledge(
                key.member_id,
                [
                    Acknowledgement(one.first_offset, one.last_offset, one.acknowledge_types)
                    for one in batches
                ],
            )
            if stored is not None:
                waiting[tp] = stored
        except KafkaError as e:
            found[tp] = without_frames(e)
    for tp, stored in waiting.items():
        try:
            await stored.wait()
        except KafkaError as e:
            found[tp] = without_frames(e)
    return found


def check_read(context: Context, tp: TopicIdPartition) -> None:
    """Raise TOPIC_AUTHORIZATION_FAILED if the client may not read a topic. A topic that does not
    exist raises nothing."""
    topic = context.broker.image.topic_by_id(tp.topic_id)
    if topic is not None and not allows(context, Operation.READ, ResourceType.TOPIC, topic.name):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _check(batches: Iterable[Any], *, renews: bool) -> None:
    """Raise INVALID_REQUEST for acknowledgements that are invalid for any share partition."""
    highest = AcknowledgeType.RENEW if renews else AcknowledgeType.REJECT
    previous = -1
    for one in batches:
        size = one.last_offset - one.first_offset + 1
        if (
            size < 1
            or one.first_offset <= previous
            or len(one.acknowledge_types) not in (1, size)
            or min(one.acknowledge_types) < 0
            or max(one.acknowledge_types) > highest
        ):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        previous = one.last_offset


def leader_of(context: Context, tp: TopicIdPartition) -> Leader | None:
    """Return the leader of a partition, or None if it has none, or none with a known endpoint."""
    broker = context.broker
    topic = broker.image.topic_by_id(tp.topic_id)
    led = None if topic is None else broker.state.leader_of(topic.name, tp.partition)
    if led is None:
        return None
    endpoint = broker.state.endpoint(led[0], context.listener)
    return None if endpoint is None else Leader(*led, *endpoint)
