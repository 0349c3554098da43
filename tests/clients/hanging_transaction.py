"""A transaction that hangs: a partition holds it open, and its coordinator never heard of it."""

import time

from pk.core.record.build import build_batch
from pk.core.values import TopicPartition
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.net.client.admin import open_admin
from pk.net.client.results import CoordinatorType

HANGS_S = 4000


async def hang(bootstrap: str, topic: str) -> None:
    """Write a record of a transaction that its coordinator never hears of, an hour and more ago."""
    async with open_admin(bootstrap) as admin:
        cluster = admin.cluster
        node = await cluster.coordinator(topic, CoordinatorType.TRANSACTION)
        identity = await cluster.request(
            InitProducerIdRequest(transactional_id=topic, transaction_timeout_ms=60_000),
            node_id=node,
            high=5,
        )
        assert identity.error_code == 0
        batch = build_batch(
            [(int(time.time() * 1000) - HANGS_S * 1000, None, b"lost", ())],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=topic,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
                )
            ],
        )
        await cluster.refresh([topic])
        leader, _ = cluster.metadata.leader(TopicPartition(topic, 0))
        answer = await cluster.request(request, node_id=leader, high=11)
        assert answer.responses[0].partition_responses[0].error_code == 0
