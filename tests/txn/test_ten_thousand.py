"""Ten thousand open transactions at one broker: they are described and listed, time out, and leave
nothing behind."""

from __future__ import annotations

import pytest
import trio
from broker.cluster import Cluster, running_cluster
from group.brokers import simulated
from txn.clients import prepare

from pk.core.broker.replication.partition import READ_COMMITTED
from pk.core.record.build import build_batch
from pk.core.wire.messages.describe_transactions import DescribeTransactionsRequest
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.list_transactions import ListTransactionsRequest
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

COUNT = 10_000
IDS = [f"tx-{n}" for n in range(COUNT)]
TIMEOUT_MS = 600_000
EXPIRY_MS = 3_600_000
KEYS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "60000",
    "transactional.id.expiration.ms": str(EXPIRY_MS),
}


async def begin(cluster: Cluster, transactional_id: str) -> None:
    """A transaction with one record in t-0."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
    )
    given = await cluster.ask(1, request, 5)
    assert given.error_code == 0
    records = build_batch(
        [(-1, None, b"v", ())],
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    answer = await cluster.ask(
        1,
        ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name="t", partition_data=[PartitionProduceData(index=0, records=records)]
                )
            ],
        ),
        12,
    )
    assert answer.responses[0].partition_responses[0].error_code == 0


async def states(cluster: Cluster) -> list[str]:
    """The state of each, as one DescribeTransactions says."""
    answer = await cluster.ask(1, DescribeTransactionsRequest(transactional_ids=IDS), 0)
    assert [one.transactional_id for one in answer.transaction_states] == IDS
    assert {one.error_code for one in answer.transaction_states} == {0}
    return [one.transaction_state for one in answer.transaction_states]


async def listed(cluster: Cluster, *state: str) -> set[str]:
    answer = await cluster.ask(1, ListTransactionsRequest(state_filters=list(state)), 1)
    return {one.transactional_id for one in answer.transaction_states}


@pytest.mark.slow
@simulated
async def test_ten_thousand_open_transactions_are_described_time_out_and_are_forgotten() -> None:
    async with running_cluster(KEYS, brokers=1) as cluster:
        await prepare(cluster, nodes=(1,))
        for transactional_id in IDS:
            await begin(cluster, transactional_id)
        assert await states(cluster) == ["Ongoing"] * COUNT
        assert await listed(cluster, "Ongoing") == set(IDS)
        assert cluster.partition(1, "t").end_offset(READ_COMMITTED) == 0
        # Another coordinator takes over with all of them open.
        await cluster.crash(1, power=False)
        await cluster.start(1)
        await cluster.until(lambda: cluster.broker(1).groups.transactions.at(0).is_active)
        assert await states(cluster) == ["Ongoing"] * COUNT
        await trio.sleep(TIMEOUT_MS / 1000 + 60)
        assert await states(cluster) == ["CompleteAbort"] * COUNT
        partition = cluster.partition(1, "t")
        assert partition.end_offset(READ_COMMITTED) == partition.high_watermark == 2 * COUNT
        await trio.sleep(EXPIRY_MS / 1000 + 600)
        assert await listed(cluster) == set()
