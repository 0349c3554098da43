"""OffsetCommit, TxnOffsetCommit and OffsetDelete of what does not exist, or of nothing: the answers
are those of Apache Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest
from group.brokers import running, simulated

from pk.core.errors import ErrorCode
from pk.core.wire.messages import offset_commit as commits
from pk.core.wire.messages import offset_delete as removals
from pk.core.wire.messages import txn_offset_commit as transactions
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest

NONE, MISSING = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_MEMBER = ErrorCode.UNKNOWN_MEMBER_ID

Named = list[tuple[str, list[int]]]
"""[(topic, indexes of partitions)]"""


def commit(topics: Named, member: str = "") -> Any:
    return commits.OffsetCommitRequest(
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=3 if member else -1,
        topics=[
            commits.OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    commits.OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )


def commit_as_a_member(topics: Named) -> Any:
    return commit(topics, "m")


def commit_in_a_transaction(topics: Named) -> Any:
    return transactions.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        topics=[
            transactions.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    transactions.TxnOffsetCommitRequestPartition(partition_index=index)
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )


def remove(topics: Named) -> Any:
    return removals.OffsetDeleteRequest(
        group_id="g",
        topics=[
            removals.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    removals.OffsetDeleteRequestPartition(partition_index=index)
                    for index in indexes
                ],
            )
            for name, indexes in topics
        ],
    )


@pytest.mark.parametrize("ask", [commit, commit_as_a_member, commit_in_a_transaction, remove])
@pytest.mark.parametrize(
    ("topics", "answers"),
    [
        ([("t", [])], []),
        ([("nope", [])], [("nope", [])]),
        ([("nope", [0]), ("t", []), ("nope", [0])], [("nope", [(0, MISSING), (0, MISSING)])]),
    ],
)
def test_nothing_that_exists(ask: Any, topics: Named, answers: Any) -> None:
    @simulated
    async def main() -> None:
        async with running() as test:
            await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
            await test.create_topics("t")
            assert (await test.ask(commit([("t", [0])]), 9)).topics[0].partitions[0].error_code == 0
            answer = await test.ask(ask(topics), {8: 9, 28: 3, 47: 0}[ask(topics).API_KEY])
            assert [
                (topic.name, [(p.partition_index, p.error_code) for p in topic.partitions])
                for topic in answer.topics
            ] == answers

    main()


@pytest.mark.parametrize(
    ("ask", "error"), [(commit, NONE), (commit_as_a_member, UNKNOWN_MEMBER), (remove, NONE)]
)
def test_both_answers_become_one(ask: Any, error: ErrorCode) -> None:
    @simulated
    async def main() -> None:
        async with running() as test:
            await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
            await test.create_topics("t")
            assert (await test.ask(commit([("t", [0])]), 9)).topics[0].partitions[0].error_code == 0
            topics: Named = [("nope", [0]), ("t", [0, 9]), ("t", [0])]
            answer = await test.ask(ask(topics), 0 if ask is remove else 9)
            assert [
                (topic.name, [(p.partition_index, p.error_code) for p in topic.partitions])
                for topic in answer.topics
            ] == [("nope", [(0, MISSING)]), ("t", [(9, MISSING), (0, error), (0, error)])]

    main()
