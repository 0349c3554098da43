"""A scripted cluster whose partitions may have no leader."""

from __future__ import annotations

from typing import Any

from net_client.support import ScriptedBroker

from pk.core.errors import ErrorCode
from pk.core.record.build import build_batch
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
from pk.net.client.results import LATEST

TOPIC_ID = bytes(15) + b"\1"
KNOWN = (1, 2, 3, 18, 23)
"""The APIs that it answers."""


def _asked(request: Any) -> list[Any]:
    return [partition for topic in request.topics for partition in topic.partitions]


class Two:
    """Two partitions of a topic on one broker: the leader, the epoch and the records of each."""

    def __init__(self) -> None:
        self.leaders = [1, 1]
        self.epoch = 0
        self.records = [1, 1]
        self.ends: dict[int, list[int]] = {}
        """The end offsets of earlier epochs."""

        self.silent: set[int] = set()
        """The partitions whose leader never sends a record."""

        self.deleted = False
        """Whether the topic is gone."""

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
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.deleted else 0,
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
            ListOffsetsPartitionResponse(
                partition_index=p.partition_index,
                offset=self.records[p.partition_index] if p.timestamp == LATEST else 0,
            )
            for p in _asked(request)
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])

    def _OffsetForLeaderEpochRequest(self, request: Any) -> OffsetForLeaderEpochResponse:
        answers = [
            EpochEndOffset(
                partition=p.partition,
                leader_epoch=p.leader_epoch,
                end_offset=self.ends.get(p.leader_epoch, self.records)[p.partition],
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
            elif p.partition not in self.silent and p.fetch_offset < self.records[p.partition]:
                record = (0, None, b"%d" % p.partition, ())
                data.records = memoryview(
                    build_batch([record], base_offset=p.fetch_offset, leader_epoch=self.epoch)
                )
            answers.append(data)
        return FetchResponse(
            responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=answers)]
        )
