"""Two equal nodes, one with the fast path of Produce and one without. Both get the same bytes, and
their answers and logs are compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import nodes
import trio
import trio.testing
from nodes import NewTopics, caller_of, config_of, decide, make_topic
from stream_transport import StreamTransport

from pk.core.api.index import APIS
from pk.core.api.records.produce_fast_path.fast_path import ProduceFastPath
from pk.core.auth.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from pk.core.broker.broker import Broker
from pk.core.broker.requests.context import Context
from pk.core.config.views import STANDARD_AUTHORIZER
from pk.core.log.memory_disk import MemoryDisk
from pk.core.meta.acls import create_acls
from pk.core.meta.client_quotas import alter
from pk.core.quota.entity import PRODUCER_BYTE_RATE, USER
from pk.core.values import OFFSETS_TOPIC
from pk.core.wire.header import frame_request
from pk.core.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.net.connection.connection import Connection, Limits
from pk.net.frames import RequestMemory
from pk.net.node import Node

NOW_MS = 1_700_000_000_000
VERSION_TOPIC_ID = 13
LAST_ID = 0x5EED5EED
"""The correlation id of the request that ends a burst."""

SIZE_BYTES = 4
"""The size before every request."""
ACLS = {
    "authorizer__class__name": STANDARD_AUTHORIZER,
    "allow__everyone__if__no__acl__found": "true",
}
"""The keys of a node on which `Side.forbid` has an effect."""
A_SECOND = {"quota__window__num": "2", "quota__window__size__seconds": "1"}
"""The keys of a node whose quotas look at one second: see `Side.limit`."""

Records = bytes | bytearray | None
Topics = Sequence[tuple[str, Sequence[tuple[int, Records]]]]
"""(topic, its (partition, records))."""


class StoppedClock:
    """It is always the same time of day."""

    def now_ms(self) -> int:
        return NOW_MS

    def time(self) -> float:
        return trio.current_time()


class QuotaClock(StoppedClock):
    """Stands still between two bursts, so that a rate does not depend on how long they took."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def time(self) -> float:
        return self.now_s


@dataclass
class Side:
    """One of the two nodes."""

    node: Node
    fast: bool
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    accepted: int = 0
    """How many requests the fast path accepted."""
    quota_clock: QuotaClock = field(default_factory=QuotaClock)

    def __post_init__(self) -> None:
        self.broker.client_quotas._clock = self.quota_clock

    @property
    def broker(self) -> Broker:
        return self.node.broker

    def frame(
        self,
        version: int,
        topics: Topics,
        correlation_id: int = 1,
        *,
        acks: int = -1,
        timeout_ms: int = 60_000,
        client_id: str | None = "test",
        transactional_id: str | None = None,
    ) -> bytes:
        """A Produce request for this node, which has ids of its own for its topics."""
        by_id = version >= VERSION_TOPIC_ID
        data = [
            TopicProduceData(
                name="" if by_id else name,
                topic_id=self.topic_ids.get(name, bytes(15) + b"\1") if by_id else bytes(16),
                partition_data=[PartitionProduceData(index=n, records=r) for n, r in partitions],
            )
            for name, partitions in topics
        ]
        request = ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=data
        )
        return frame_request(request, version, correlation_id, client_id)

    async def make_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        async with caller_of(self.node) as caller:
            self.topic_ids[name] = await make_topic(caller, name, partitions, **configs)

    async def forbid(self, *topics: str) -> None:
        """Deny writing to these topics from now on. The node needs an authorizer."""
        rules = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                PatternType.LITERAL,
                "User:*",
                "*",
                Operation.WRITE,
                Permission.DENY,
            )
            for topic in topics
        ]
        answers = await decide(self.broker, lambda image: create_acls(image, rules))
        assert answers == [None] * len(rules)

    async def limit(self, burst: bytes) -> int:
        """Set a quota that these Produce requests, if nothing was sent for long, just exceed, and
        only with the last. How long their client must then wait, in ms: 1 or a few more. The node
        needs `A_SECOND`."""
        self.quota_clock.now_s += 1000
        count = charged(burst)
        rate = int(count / 1.001)
        entry = EntryData(
            entity=[EntityData(entity_type=USER, entity_name=None)],
            ops=[OpData(key=PRODUCER_BYTE_RATE, value=rate)],
        )
        request = AlterClientQuotasRequest(entries=[entry])
        answer = await decide(self.broker, lambda image: alter(image, request))
        assert not answer.entries[0].error_code
        return round((count - rate) / rate * 1000)

    def log_of(self, topic: str, partition: int) -> bytes:
        """All batches of a partition."""
        log = self.broker.data.replicas.partition(topic, partition).log
        return b"".join(
            segment.file.pread(segment.size, 0) for segment in log.state.segments if segment.size
        )

    @asynccontextmanager
    async def connected(
        self, parked_max: int = 100, slice_s: float = 3600.0
    ) -> AsyncIterator[Client]:
        """A connection to the node, without a socket."""
        ours, theirs = trio.testing.memory_stream_pair()
        context = Context(self.broker, client_host="/test")
        connection = Connection(
            StreamTransport(theirs),
            {api.key: api for api in APIS},
            Limits(RequestMemory(1 << 30), 100 << 20, parked_max, slice_s),
            context,
            "test",
        )
        if self.fast:
            connection._fast_path = Counting(context, self)
        elif self.broker.config.pk_produce_fast_path_enable:
            connection._fast_path = None  # the other side is the same node
        assert (connection._fast_path is not None) == self.fast
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.serve)
            yield Client(ours, self, connection)
            await ours.aclose()


class Counting(ProduceFastPath):
    """Counts the requests that are accepted."""

    __slots__ = ("_side",)

    def __init__(self, context: Context, side: Side) -> None:
        super().__init__(context)
        self._side = side

    def accept(self, data: bytearray, start: int, end: int) -> bool:
        accepted = super().accept(data, start, end)
        self._side.accepted += accepted
        return accepted


@dataclass
class Client:
    """The other end of a connection."""

    stream: trio.abc.Stream
    side: Side
    connection: Connection

    async def exchange(self, burst: bytes, pieces: Sequence[int] = ()) -> bytes:
        """Send all of it, cut at `pieces`. Returns the answers, with the ids of topics replaced by
        their names."""
        last = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        burst += frame_request(last, 3, LAST_ID, "test")
        answers = bytearray()

        async def send() -> None:
            begin = 0
            try:
                for end in sorted({*(at % len(burst) for at in pieces), len(burst)}):
                    await self.stream.send_all(burst[begin:end])
                    if pieces:
                        await trio.testing.wait_all_tasks_blocked()
                    begin = end
            except trio.BrokenResourceError:
                pass  # closed: the answers show it

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            while LAST_ID.to_bytes(4, "big") not in answers:
                try:
                    data = await self.stream.receive_some()
                except trio.BrokenResourceError:
                    data = b""
                if not data:
                    answers += b"CLOSED"
                    break
                answers += data
        answers = answers.split(LAST_ID.to_bytes(4, "big"))[0]
        for name, topic_id in self.side.topic_ids.items():
            answers = answers.replace(topic_id, f"<{name}>".encode())
        return bytes(answers)


def charged(burst: bytes) -> int:
    """How many bytes its requests are, as quotas count them."""
    total = at = 0
    while at < len(burst):
        size = int.from_bytes(burst[at : at + SIZE_BYTES], "big")
        total += size
        at += SIZE_BYTES + size
    return total


@asynccontextmanager
async def two_sides(
    disks: Sequence[MemoryDisk] = (), /, **keys: str
) -> AsyncIterator[tuple[Side, Side]]:
    """The node with the fast path, and the one without; `keys` as `config_of` takes them."""
    async with trio.open_nursery() as nursery:
        sides: list[Side] = []
        for disk in disks or (MemoryDisk(), MemoryDisk()):
            fast = not sides
            switch = {"pk__produce__fast__path__enable": str(fast).lower()}
            config = config_of("/data,/more", **keys, **switch)
            node = Node(config, disk=disk, clock=StoppedClock())
            ready = trio.Event()
            nursery.start_soon(node.run, lambda _, ready=ready: ready.set())
            await ready.wait()
            sides.append(Side(node, fast))
        try:
            yield sides[0], sides[1]
        finally:
            for side in sides:
                side.node.stop()


TOPICS: NewTopics = {
    "t": (4, {}),
    "other": (1, {}),
    "compacted": (1, {"cleanup__policy": "compact"}),
    "small": (1, {"max__message__bytes": "200"}),
    "stamped": (1, {"message__timestamp__type": "LogAppendTime"}),
    "zipped": (1, {"compression__type": "gzip"}),
    "synced": (1, {"flush__messages": "1"}),
    "rolled": (1, {"segment__index__bytes": "36", "index__interval__bytes": "0"}),
    OFFSETS_TOPIC: (1, {}),
    "n" * 249: (1, {}),
}


async def make_topics(sides: Sequence[Side]) -> None:
    """Create the topics to which the tests write."""
    for side in sides:
        async with caller_of(side.node) as caller:
            side.topic_ids |= await nodes.make_topics(caller, TOPICS)


def held(side: Side) -> dict[str, bytes]:
    """The bytes of all logs."""
    return {
        str(partition.tp): side.log_of(partition.tp.topic, partition.tp.partition)
        for partition in side.broker.data.replicas
    }
