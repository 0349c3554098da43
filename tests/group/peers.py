"""Whom a conversation is held with: our broker, or one behind sockets."""

from __future__ import annotations

import struct
from typing import Any

import trio
from group.brokers import TestBroker

from pk.core.record.batch import iter_headers, records
from pk.core.values import OFFSETS_TOPIC, coordinator_partition
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.describe_groups import DescribeGroupsRequest
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

Pair = tuple[bytes | None, bytes | None]


def pairs(data: bytes | memoryview) -> list[Pair]:
    """Keys and values, without the ends of transactions that other groups left in the partition."""
    view = memoryview(data)
    return [
        (record.key, record.value)
        for position, header in iter_headers(data)
        if not header.is_control
        for record in records(view[position : position + header.size], header)
    ]


class Ours:
    """Our broker, called without a socket."""

    def __init__(self, test: TestBroker) -> None:
        self._test = test

    async def ask(self, request: Any, version: int, who: str = "c") -> Any:
        return await self._test.ask(request, version, client_id=who)

    async def records(self, group_id: str) -> list[Pair]:
        coordinator = self._test.broker.groups.coordinators.coordinator(group_id)
        log = coordinator.partition.log
        return pairs(log.reader.read(0, 1 << 30, log.state.log_end_offset).slice.read())


class Theirs:
    """A broker behind sockets: one connection for each who speaks."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._partitions = 0
        self._streams: dict[str, trio.SocketStream] = {}

    async def ask(self, request: Any, version: int, who: str = "c") -> Any:
        if who not in self._streams:
            self._streams[who] = await trio.open_tcp_stream(*self._address)
        stream = self._streams[who]
        await stream.send_all(frame_request(request, version, 1, who))
        (size,) = struct.unpack(">i", await self._exactly(stream, 4))
        body = await self._exactly(stream, size)
        key = request.API_KEY
        _, position = parse_response_header(body, key, version)
        return decode_whole(MESSAGES[key].response, body, version, position)

    @staticmethod
    async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            some = await stream.receive_some(count - len(data))
            assert some, "the broker closed the connection"
            data += some
        return bytes(data)

    async def until_it_coordinates(self, group_id: str) -> None:
        """Until the offsets topic is there and the group's partition is loaded."""
        await self.ask(FindCoordinatorRequest(coordinator_keys=[group_id]), 6)
        while True:
            described = await self.ask(DescribeGroupsRequest(groups=[group_id]), 0)
            if described.groups[0].error_code == 0:
                break
            await trio.sleep(0.1)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=OFFSETS_TOPIC)])
        self._partitions = len((await self.ask(asked, 8)).topics[0].partitions)

    async def records(self, group_id: str) -> list[Pair]:
        number = coordinator_partition(group_id, self._partitions)
        partition = FetchPartition(partition=number, partition_max_bytes=1 << 30)
        request = FetchRequest(
            max_bytes=1 << 30,
            min_bytes=0,
            topics=[FetchTopic(topic=OFFSETS_TOPIC, partitions=[partition])],
        )
        answer = await self.ask(request, 12)
        return pairs(answer.responses[0].partitions[0].records or b"")

    async def close(self) -> None:
        for stream in self._streams.values():
            await stream.aclose()
