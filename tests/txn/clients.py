"""A transactional producer that sends requests by hand to a cluster in memory, and readers that see
the records it left."""

from __future__ import annotations

from typing import Any

import trio
from broker.cluster import Cluster

from pk.core.errors import ErrorCode
from pk.core.meta.events import FeatureChanged
from pk.core.meta.features import TRANSACTION_VERSION
from pk.core.record.batch import iter_headers, records
from pk.core.record.build import build_batch
from pk.core.values import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pk.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pk.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pk.core.wire.messages.end_txn import EndTxnRequest
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pk.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

E = ErrorCode
AGAIN = frozenset(
    {
        E.CONCURRENT_TRANSACTIONS,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.NOT_LEADER_OR_FOLLOWER,
        E.NETWORK_EXCEPTION,
        E.REQUEST_TIMED_OUT,
    }
)
"""Errors after which a client asks again."""

KEYS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


async def prepare(
    cluster: Cluster, *, version: int = 2, nodes: tuple[int, ...] = (1, 2, 3)
) -> None:
    """Internal topics of one partition led by the first node, a topic "t" of two, led by two
    nodes."""
    await cluster.decide(FeatureChanged(TRANSACTION_VERSION, version))
    configs = {"min.insync.replicas": "2"} if len(nodes) > 2 else {}
    await cluster.create(*nodes, topic=TRANSACTIONS_TOPIC, configs=configs)
    await cluster.create(*nodes, topic=OFFSETS_TOPIC, configs=configs)
    await cluster.create(*nodes, topic="t", configs=configs)
    await cluster.create(*nodes[::-1], topic="u", configs=configs)


def leader(cluster: Cluster, topic: str, number: int = 0) -> int:
    """The id of the partition's leader."""
    found = cluster.image.partition(topic, number)
    assert found is not None
    return found.leader


class TransactionalProducer:
    """One instance of a producer; `second` for the protocol of KIP-890."""

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str = "tx",
        *,
        second: bool = True,
        timeout_ms: int = 60_000,
    ) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.second = second
        self.timeout_ms = timeout_ms
        self.producer_id = self.epoch = -1
        self.sequences: dict[str, int] = {}

    async def _until_told(self, topic: str, request: Any, version: int) -> Any:
        """The answer of the leader of `topic`, asked until it is not one to ask again after."""
        while True:
            node = leader(self.cluster, topic)
            if node > 0 and self.cluster._members[node].broker is not None:
                answer = await self.cluster.ask(node, request, version)
                if not set(codes(answer)) & AGAIN:
                    return answer
            await trio.sleep(0.02)

    async def init(self) -> ErrorCode:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        answer = await self._until_told(TRANSACTIONS_TOPIC, request, 5)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences = {}
        return ErrorCode(answer.error_code)

    async def add(self, *topics: str) -> ErrorCode:
        """AddPartitionsToTxn, of the first protocol."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=t, partitions=[0]) for t in topics],
        )
        return first_error(await self._until_told(TRANSACTIONS_TOPIC, request, 3))

    def batch(self, topic: str, *values: bytes) -> ProduceRequest:
        sequence = self.sequences.get(topic, 0)
        self.sequences[topic] = sequence + len(values)
        data = build_batch(
            [(-1, None, v, ()) for v in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        partitions = [PartitionProduceData(index=0, records=data)]
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
        )

    async def send(self, topic: str, *values: bytes) -> ErrorCode:
        """Produce into partition 0 of a topic."""
        request = self.batch(topic, *values)
        return first_error(await self._until_told(topic, request, 12 if self.second else 10))

    async def commit_offset(
        self, group: str, offset: int, *, generation: int = -1, member: str = ""
    ) -> ErrorCode:
        """Send TxnOffsetCommit for t-0, and before it the requests that it requires."""
        if not self.second:
            request: Any = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group,
            )
            error = first_error(await self._until_told(TRANSACTIONS_TOPIC, request, 3))
            if error:
                return error
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=generation,
            member_id=member,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        version = 5 if self.second else 3
        return first_error(await self._until_told(OFFSETS_TOPIC, request, version))

    def end_request(self, *, commit: bool = True) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )

    async def end(self, *, commit: bool = True) -> ErrorCode:
        request = self.end_request(commit=commit)
        answer = await self._until_told(TRANSACTIONS_TOPIC, request, 5 if self.second else 4)
        if self.second and not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences = {}
        return ErrorCode(answer.error_code)


def codes(answer: Any) -> list[int]:
    """Every error code in an answer."""
    found: list[int] = []
    for name in answer.FIELDS:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.append(value)
        elif isinstance(value, list):
            for one in value:
                if hasattr(one, "FIELDS"):
                    found += codes(one)
    return found


def first_error(answer: Any) -> ErrorCode:
    """The first error in an answer, if it has any."""
    return next((ErrorCode(code) for code in codes(answer) if code), ErrorCode.NONE)


async def fetched(
    cluster: Cluster, topic: str, *, committed: bool, offset: int = 0
) -> tuple[list[bytes | None], int]:
    """The records of partition 0 that a reader of either isolation level sees, and the last stable
    offset."""
    request = FetchRequest(
        max_wait_ms=0,
        isolation_level=1 if committed else 0,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
                ],
            )
        ],
    )
    answer = await cluster.ask(leader(cluster, topic), request, 11)
    data = answer.responses[0].partitions[0]
    assert not data.error_code, ErrorCode(data.error_code)
    return seen(data), data.last_stable_offset


def seen(data: Any) -> list[bytes | None]:
    """The values in a partition's answer, without those of aborted transactions, as a client leaves
    them out."""
    aborted = sorted(data.aborted_transactions or (), key=lambda a: a.first_offset)
    dropping: set[int] = set()
    values: list[bytes | None] = []
    raw = bytes(data.records or b"")
    for position, header in iter_headers(raw):
        while aborted and aborted[0].first_offset <= header.last_offset:
            dropping.add(aborted.pop(0).producer_id)
        if header.is_control:
            dropping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropping):
            found = records(raw[position : position + header.size], header)
            values += [record.value for record in found]
    return values


async def committed_offset(
    cluster: Cluster, group: str, *, require_stable: bool = False
) -> int | ErrorCode:
    """The offset that a group has committed for t-0, or the error."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group,
                topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])],
            )
        ],
        require_stable=require_stable,
    )
    answer = await cluster.ask(leader(cluster, OFFSETS_TOPIC), request, 8)
    (partition,) = answer.groups[0].topics[0].partitions
    if partition.error_code:
        return ErrorCode(partition.error_code)
    return partition.committed_offset
