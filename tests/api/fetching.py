"""Helpers for the tests of Fetch: batches, requests, and the records in an answer."""

import time
from typing import Any

from nodes import Caller

from pk.core.record.batch import iter_headers, records
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

NOW_MS = int(time.time() * 1000)
MAX = 1 << 20


async def produce(
    caller: Caller, *batches: bytes | bytearray, topic: str = "t", partition: int = 0
) -> None:
    for data in batches:
        response = await caller.call(
            ProduceRequest(
                transactional_id=None,
                acks=-1,
                timeout_ms=60_000,
                topic_data=[
                    TopicProduceData(
                        name=topic,
                        partition_data=[PartitionProduceData(index=partition, records=data)],
                    )
                ],
            ),
            9,
        )
        assert response.responses[0].partition_responses[0].error_code == 0


def batch(*values: bytes, at_ms: int = NOW_MS, codec: Codec = Codec.NONE) -> bytearray:
    return build_batch(
        [(at_ms + i, None, value, ()) for i, value in enumerate(values)], codec=codec
    )


def fetch(
    *wanted: tuple[int, int], topic: str = "t", topic_id: bytes = bytes(16), **fields: Any
) -> FetchRequest:
    """`wanted`: (partition, offset)."""
    per_partition = {
        name: fields.pop(name)
        for name in ("current_leader_epoch", "partition_max_bytes", "last_fetched_epoch")
        if name in fields
    }
    common: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MAX}
    common |= {"session_epoch": -1} | fields
    each: dict[str, Any] = {"partition_max_bytes": MAX} | per_partition
    return FetchRequest(
        **common,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        **each,
                    )
                    for partition, offset in wanted
                ],
            )
        ]
        if wanted
        else [],
    )


def only(response: Any) -> Any:
    """The response's only partition."""
    assert response.error_code == 0
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def offsets(data: Any) -> list[int]:
    """Offsets of the records of every whole batch."""
    found: list[int] = []
    if data:
        view = memoryview(bytes(data))
        for position, header in iter_headers(view):
            if position + header.size <= len(view):
                found += [
                    r.offset for r in records(view[position : position + header.size], header)
                ]
    return found
