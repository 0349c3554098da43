"""Finds out which offsets of tiered topics are in remote storage, and which are on the leader's
disk."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import trio

from pk.cli.nouns.topics.rows import TiersOfPartition
from pk.cli.phrases import partition_name
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers

_ASKED: Final = (r.EARLIEST, r.EARLIEST_LOCAL, r.LATEST_TIERED, r.LATEST)


def is_tiered(configs: Iterable[r.ConfigEntry]) -> bool:
    """Whether a topic with these configs has tiered storage."""
    return any(e.name == "remote.storage.enable" and e.value == "true" for e in configs)


async def tiers_of(
    context: Context, admin: Admin, topics: Sequence[r.TopicDescription]
) -> dict[str, list[TiersOfPartition]]:
    """The tiers of all partitions with a leader, by topic. Reports partitions that do not answer,
    and records the failure. Raises KafkaError and ClientError."""
    found: dict[str, list[TiersOfPartition]] = {topic.name: [] for topic in topics}
    partitions = [
        TopicPartition(topic.name, p.partition)
        for topic in topics
        for p in topic.partitions
        if p.leader_id >= 0
    ]
    if not partitions:
        return found
    offsets = await _offsets(admin, partitions)
    for tp in partitions:
        errors = [answers.errors[tp] for answers in offsets.values() if tp in answers.errors]
        if (error := next((e for e in errors if not _is_too_new(e)), None)) is not None:
            context.failed(error, partition_name(tp))
            found[tp.topic].append(_unknown(tp, error))
            continue
        known = {
            when: answers.ok[tp].offset for when, answers in offsets.items() if tp in answers.ok
        }
        found[tp.topic].append(_row(tp, known))
    return found


async def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition]
) -> dict[int, Answers[TopicPartition, r.ListedOffset]]:
    """The answers, by the special timestamp of the request."""
    found: dict[int, Answers[TopicPartition, r.ListedOffset]] = {}

    async def ask(when: int) -> None:
        found[when] = await admin.list_offsets(dict.fromkeys(partitions, when))

    async with trio.open_nursery() as nursery:
        for when in _ASKED:
            nursery.start_soon(ask, when)
    return found


def _row(tp: TopicPartition, offsets: Mapping[int, int]) -> TiersOfPartition:
    start = offsets.get(r.EARLIEST)
    local_start = offsets.get(r.EARLIEST_LOCAL)
    last = offsets.get(r.LATEST_TIERED)
    if start is not None and last is not None and last < start:
        last = None  # no offsets, or only those that are being deleted
    # A new leader may not know yet which offsets were copied.
    is_remote = last is not None or None not in (start, local_start) and start != local_start
    return {
        "partition": tp.partition,
        "remote_start": start if is_remote else None,
        "remote_last": last,
        "local_start": local_start,
        "local_end": offsets.get(r.LATEST),
        "error": None,
    }


def _is_too_new(error: Exception) -> bool:
    """Whether the broker is too old for a special timestamp: Apache Kafka before 3.9 does not have
    -5."""
    return isinstance(error, KafkaError) and error.code == ErrorCode.UNSUPPORTED_VERSION


def _unknown(tp: TopicPartition, error: Exception) -> TiersOfPartition:
    return {
        "partition": tp.partition,
        "remote_start": None,
        "remote_last": None,
        "local_start": None,
        "local_end": None,
        "error": error_name(error),
    }
