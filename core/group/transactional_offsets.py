"""TxnOffsetCommit: offsets that count once the transaction which commits them does (KIP-98,
KIP-447).

The member, its generation and the group are looked at as for OffsetCommit, so that a member which
has lost its partitions cannot commit for them. Two things differ: a client older than KIP-447 names
no member, and may commit into a group that has some, since its transactional id is what fences it;
and a rebalance under way is no reason to refuse, since the transaction could not be finished
otherwise. The commit is no sign of life of the member.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import AnyGroup, CheckPartition, Committer
from pk.core.group.offsets import utf16_units
from pk.core.group.records import offset_commit
from pk.core.group.settings import Step
from pk.core.values import ZERO_UUID, Uuid
from pk.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_VERSION: Final = -1
"""Stands in for the version of an OffsetCommit."""


def check(request: TxnOffsetCommitRequest, group: AnyGroup | None) -> CheckPartition | None:
    """Raise what a commit in a transaction is refused with: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID. Returns what checks each partition, None where nothing is left to check."""
    if group is None:
        if request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return None
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        NO_VERSION,
        transactional=True,
    )
    with _as_generations():
        check_partition = group.check_commit(committer)
    if check_partition is None:
        return None

    def check_quietly(topic: str, topic_id: Uuid, partition: int) -> None:
        with _as_generations():
            check_partition(topic, topic_id, partition)

    return check_quietly


@contextmanager
def _as_generations() -> Generator[None]:
    """Transactional producers know generations only: a stale member epoch is ILLEGAL_GENERATION to
    them."""
    try:
        yield
    except KafkaError as e:
        if e.code == ErrorCode.STALE_MEMBER_EPOCH:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, e.message) from e
        raise


def commit(
    request: TxnOffsetCommitRequest,
    topic_ids: Mapping[str, Uuid],
    check_partition: CheckPartition | None,
    metadata_max: int,
    step: Step,
) -> None:
    """Decide to keep what the request commits, under the producer whose transaction it is.
    `metadata_max` bounds an offset's metadata, in UTF-16 units."""
    step.producer_id, step.producer_epoch = request.producer_id, request.producer_epoch
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partitions:
            metadata, error = partition.committed_metadata or "", ErrorCode.NONE
            if len(metadata) * 2 > metadata_max and utf16_units(metadata) > metadata_max:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                if check_partition is not None:
                    topic_id = topic_ids.get(topic.name, ZERO_UUID)
                    check_partition(topic.name, topic_id, partition.partition_index)
                step.records.append(
                    offset_commit(
                        request.group_id,
                        topic.name,
                        partition.partition_index,
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp_ms=step.now_ms,
                        topic_id=ZERO_UUID,
                    )
                )
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
    step.reply = response
