"""The common part of OffsetCommit, TxnOffsetCommit and OffsetDelete. The handler makes the results
for partitions that do not exist, and for topics that the client may not read. The group's
coordinator decides about the other partitions, and both results are merged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from pk.core.api.authorization import allows
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.group.offsets import CommitRecords
from pk.core.group.records import Record
from pk.core.meta.image import TopicImage


class Named(Protocol):
    """A topic in a request or a response, with its partitions."""

    name: str
    partitions: list[Any]


class Request(Protocol):
    """An OffsetCommit, TxnOffsetCommit or OffsetDelete request."""

    topics: list[Any]


T = TypeVar("T", bound=Named)
Answer = Callable[[Any, list[Any]], T]
"""(topic of the request, results for its partitions) → the topic's result."""


async def remove_missing(
    context: Context,
    request: Request,
    answer: Answer[T],
    partition_answer: Callable[..., object],
    *,
    by_id: bool = False,
    complete: Callable[[Any, TopicImage], None] | None = None,
) -> list[T]:
    """Remove from the request everything that does not exist, or that the client may not read.
    Returns the results for the removed parts.

    A topic without partitions is left out, as in Apache Kafka; one that does not exist gets a
    result. `partition_answer` is the class of a partition's result. `by_id`: the request uses topic
    ids; `complete` adds missing fields to a topic.
    """
    image = context.broker.image
    refused: list[T] = []
    kept: list[Any] = []
    for topic in request.topics:
        known = image.topic_by_id(topic.topic_id) if by_id else image.topics.get(topic.name)
        error, count = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0
        if known is not None:
            count = len(known.partitions)
            if complete is not None:
                complete(topic, known)
        if by_id and known is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not allows(context, Operation.READ, ResourceType.TOPIC, topic.name):
            error, count = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0
        existing: list[Any] = []
        missing: list[object] = []
        for partition in topic.partitions:
            index = partition.partition_index
            if 0 <= index < count:
                existing.append(partition)
            else:
                missing.append(partition_answer(partition_index=index, error_code=error))
            await let_others_run()
        if missing or not count:
            refused.append(answer(topic, missing))
            topic.partitions = existing
        if existing:
            kept.append(topic)
        await let_others_run()
    request.topics = kept
    return refused


async def build_commit_records(records: Iterable[Record], reply: Any = None) -> CommitRecords:
    """Build and encode the records of offsets before the coordinator decides about them. `reply` is
    the reply to the commit."""
    prepared_records = CommitRecords(reply)
    for record in records:
        prepared_records.add(record)
        await let_others_run()
    return prepared_records


def merged(
    refused: list[T], decided: list[T], key: Callable[[T], Hashable] = attrgetter("name")
) -> list[T]:
    """Return the handler's and the coordinator's results, with each topic once."""
    found: dict[Hashable, T] = {}
    for topic in chain(refused, decided):
        same = found.setdefault(key(topic), topic)
        if same is not topic:
            same.partitions += topic.partitions
    topics = list(found.values())
    return topics
