"""A partition that nobody leads holds up no other, and is read once somebody leads it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from client.support import ScriptedBroker, scripted_broker, trio_test

from pk.core.errors import ErrorCode
from pk.core.record.build import build_batch
from pk.core.values import TopicPartition
from pk.core.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pk.core.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pk.core.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.results import ListedOffset

TOPIC_ID = bytes(15) + b"\1"
LED, DEAD = TopicPartition("t", 0), TopicPartition("t", 1)
CONFIG = {"auto.offset.reset": "earliest", "retry.backoff.ms": 1, "retry.backoff.max.ms": 10}


def _asked(request: Any) -> list[Any]:
    return [partition for topic in request.topics for partition in topic.partitions]


class Two:
    """Two partitions of a topic on one broker; of each, who leads it and in which epoch, and what it holds."""

    def __init__(self) -> None:
        self.leaders = [1, 1]
        self.epoch = 0
        self.records = [1, 1]
        self.broker: ScriptedBroker | None = None

    async def handle(self, request: Any, version: int) -> Any:
        return getattr(self, f"_{type(request).__name__}")(request)

    def _MetadataRequest(self, _: Any) -> MetadataResponse:
        assert self.broker is not None
        return MetadataResponse(
            controller_id=1,
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.broker.port)],
            topics=[
                MetadataResponseTopic(
                    name="t",
                    topic_id=TOPIC_ID,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=number,
                            leader_id=leader,
                            leader_epoch=self.epoch,
                            error_code=0 if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                        )
                        for number, leader in enumerate(self.leaders)
                    ],
                )
            ],
        )

    def _ListOffsetsRequest(self, request: Any) -> ListOffsetsResponse:
        answers = [
            ListOffsetsPartitionResponse(partition_index=p.partition_index, offset=0)
            for p in _asked(request)
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])

    def _OffsetForLeaderEpochRequest(self, request: Any) -> OffsetForLeaderEpochResponse:
        answers = [
            EpochEndOffset(
                partition=p.partition,
                leader_epoch=p.leader_epoch,
                end_offset=self.records[p.partition],
            )
            for p in _asked(request)
        ]
        topic = OffsetForLeaderTopicResult(topic="t", partitions=answers)
        return OffsetForLeaderEpochResponse(topics=[topic])

    def _FetchRequest(self, request: Any) -> FetchResponse:
        answers = []
        for p in _asked(request):
            data = PartitionData(
                partition_index=p.partition, high_watermark=self.records[p.partition]
            )
            if self.leaders[p.partition] < 0:
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif p.fetch_offset < self.records[p.partition]:
                record = (0, None, b"%d" % p.partition, ())
                data.records = memoryview(
                    build_batch([record], base_offset=p.fetch_offset, leader_epoch=self.epoch)
                )
            answers.append(data)
        return FetchResponse(
            responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=answers)]
        )


async def read_of(consumer: Consumer) -> list[bytes | None]:
    with trio.fail_after(10):
        return [record.value for record in await consumer.poll()]


@trio_test
async def test_a_partition_without_a_leader_at_first_is_read_when_it_gets_one() -> None:
    cluster = Two()
    cluster.leaders[1] = -1
    async with scripted_broker(cluster.handle) as cluster.broker:
        async with open_consumer(cluster.broker.address, CONFIG) as consumer:
            consumer.assign([LED, DEAD])
            assert await read_of(consumer) == [b"0"]
            assert consumer.position_nowait(DEAD) is None
            cluster.leaders[1] = 1
            assert await read_of(consumer) == [b"1"]


@trio_test
async def test_a_leader_that_is_lost_while_it_is_read_holds_up_no_other_and_may_return() -> None:
    cluster = Two()
    async with scripted_broker(cluster.handle) as cluster.broker:
        async with open_consumer(cluster.broker.address, CONFIG) as consumer:
            consumer.assign([LED, DEAD])
            read: list[bytes | None] = []
            while len(read) < 2:
                read += await read_of(consumer)
            # Both have a new epoch, so that both positions are to be checked; of one nobody can tell.
            cluster.epoch, cluster.leaders[1] = 1, -1
            await consumer.cluster.refresh(["t"])
            cluster.records = [2, 2]
            assert await read_of(consumer) == [b"0"]
            cluster.epoch, cluster.leaders[1] = 2, 1
            assert await read_of(consumer) == [b"1"]


@pytest.mark.parametrize("leader", [-1, 1])
@trio_test
async def test_what_a_program_asks_for_itself_still_ends_with_an_error(leader: int) -> None:
    cluster = Two()
    cluster.leaders[1] = leader
    async with scripted_broker(cluster.handle) as cluster.broker:
        config = CONFIG | {"default.api.timeout.ms": 200}
        async with open_consumer(cluster.broker.address, config) as consumer:
            found = (await consumer.end_offsets([DEAD]))[DEAD]
            assert isinstance(found, ListedOffset) == (leader >= 0)
