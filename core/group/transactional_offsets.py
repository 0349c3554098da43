"""TxnOffsetCommit: offsets that take effect when the transaction that commits them commits (KIP-98,
KIP-447).

The member, its generation and the group are checked as for OffsetCommit, so that a member that has
lost its partitions cannot commit for them. There are two differences. A client older than KIP-447
names no member, and may commit to a group that has members, because its transactional id fences it.
And a rebalance in progress is no reason to refuse, because the transaction could not be completed
otherwise. The commit does not count as a heartbeat of the member.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import AnyGroup, CheckPartition, Committer
from pk.core.group.offsets import CommitRecords, metadata_error
from pk.core.group.records import Record, offset_commit
from pk.core.group.settings import DecisionBuilder
from pk.core.values import ZERO_UUID, Uuid
from pk.core.wire.messages.offsets_topic import OffsetCommitValue
from pk.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_VERSION: Final = -1
"""The version in a `Committer` that commits without a version of OffsetCommit."""


def check(request: TxnOffsetCommitRequest, group: AnyGroup | None) -> CheckPartition | None:
    """Raise the error with which a commit in a transaction is refused: ILLEGAL_GENERATION,
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. Returns a check of each partition, or None if no further
    check is needed."""
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
    """Raise ILLEGAL_GENERATION in place of STALE_MEMBER_EPOCH: transactional producers know only
    generations."""
    try:
        yield
    except KafkaError as e:
        if e.code == ErrorCode.STALE_MEMBER_EPOCH:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, e.message) from e
        raise


def commit_records(
    request: TxnOffsetCommitRequest,
    metadata_max: int,
    now_ms: int,
    response: TxnOffsetCommitResponse,
) -> Iterator[Record]:
    """Yield the records of a commit in a transaction, and fill `response`. An offset whose metadata
    is too large gets an error and no record. `metadata_max` is the limit in UTF-16 units."""
    for topic in request.topics:
        answer = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partitions:
            index, metadata = partition.partition_index, partition.committed_metadata or ""
            error = metadata_error(metadata, metadata_max)
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=error)
            )
            if error is ErrorCode.NONE:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                )
                yield offset_commit(request.group_id, topic.name, index, value)


def commit(
    request: TxnOffsetCommitRequest,
    topic_ids: Mapping[str, Uuid],
    check_partition: CheckPartition | None,
    prepared: CommitRecords,
    decision: DecisionBuilder,
) -> None:
    """Decide to store the offsets of the request as pending, under the transaction's producer id.
    `prepared` are its records and response, created by `commit_records`."""
    decision.producer_id, decision.producer_epoch = request.producer_id, request.producer_epoch
    if check_partition is not None:
        for topic in prepared.reply.topics:
            topic_id = topic_ids.get(topic.name, ZERO_UUID)
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    check_partition(topic.name, topic_id, partition.partition_index)
    decision.records, decision.framed, decision.reply = (
        prepared.records,
        prepared.framed,
        prepared.reply,
    )
