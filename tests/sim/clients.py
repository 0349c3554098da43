"""Clients of a simulated cluster, small and strict. The answers that they get go to the history.

They use the newest versions of requests through the same channels as the brokers, keep to the
protocol's order (a window of produces on one connection, sent again from the first that failed),
and never give up. After the end of the faults they must complete everything that they began.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import trio
from sim.chronicle import Chronicle, Violation
from sim.history import History, Key
from sim.network import Address, Network
from sim.peers import SimChannel, SimPeers
from sim.processes import Process

from pk.core.broker.peers import PeerLost
from pk.core.errors import ErrorCode, error_name
from pk.core.record.build import build_batch
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

REQUEST_MS: Final = 4_000
PRODUCE_MS: Final = 3_000
PAUSE_S: Final = 0.15

AGAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Errors after which a client tries again after a while, with fresh metadata."""


@dataclass(frozen=True, slots=True)
class Place:
    """A partition's leader."""

    key: Key
    topic: str
    leader: int
    epoch: int


class SimClient:
    """The common part of all clients: finding the brokers and sending them requests."""

    def __init__(
        self,
        name: str,
        network: Network,
        history: History,
        bootstrap: dict[int, Address],
        random: Random,
    ) -> None:
        self.process = Process(name, name)
        self.history = history
        self.chronicle: Chronicle = history.chronicle
        self.random = random
        self.idle = False
        """No new work; started work is completed."""
        self._peers = SimPeers(network, self.process)
        self._bootstrap = bootstrap
        self._channels: dict[int, SimChannel] = {}
        self._places: dict[tuple[str, int], Place] = {}

    def note(self, text: str) -> None:
        """A line of the timeline."""
        self.chronicle.note(self.process.name, text)

    async def channel(self, node_id: int) -> SimChannel:
        """A connection to a broker. Raises PeerLost."""
        known = self._channels.get(node_id)
        if known is not None and known.usable:
            return known
        if node_id not in self._bootstrap:
            raise PeerLost(f"no broker {node_id}")
        host, port = self._bootstrap[node_id]
        made = await self._peers.connect(host, port, timeout_ms=2_000)
        self._channels[node_id] = made
        return made

    async def ask(self, node_id: int, request: Any, timeout_ms: float = REQUEST_MS) -> Any:
        """One answer. Raises PeerLost."""
        channel = await self.channel(node_id)
        return await channel.request(request, timeout_ms=timeout_ms)

    async def ask_any(self, request: Any, timeout_ms: float = REQUEST_MS) -> Any:
        """An answer of some broker. Raises PeerLost."""
        return await self.ask(self.random.choice(list(self._bootstrap)), request, timeout_ms)

    async def pause(self) -> None:
        """Before something is tried again."""
        await trio.sleep(PAUSE_S * (0.5 + self.random.random()))

    async def refresh(self, topics: list[str]) -> None:
        """Ask some broker for the topics' leaders. If no broker answers, the known leaders stay."""
        try:
            answer = await self.ask_any(
                MetadataRequest(
                    topics=[MetadataRequestTopic(name=name) for name in topics],
                    allow_auto_topic_creation=False,
                )
            )
        except PeerLost:
            return
        for topic in answer.topics:
            if topic.error_code or topic.name is None:
                continue
            self.history.names.setdefault(topic.topic_id, topic.name)
            for one in topic.partitions:
                at = (topic.name, one.partition_index)
                known = self._places.get(at)
                key = (topic.topic_id, one.partition_index)
                if known is None or known.key != key or known.epoch <= one.leader_epoch:
                    self._places[at] = Place(key, topic.name, one.leader_id, one.leader_epoch)

    async def places(self, topic: str, partitions: int) -> list[Place]:
        """All partitions of a topic, once that many are known."""
        while True:
            await self.refresh([topic])
            found = [self._places.get((topic, i)) for i in range(partitions)]
            known = [place for place in found if place is not None]
            if len(known) == partitions:
                return known
            await self.pause()

    def place(self, topic: str, partition: int) -> Place:
        """The last known leader of a partition."""
        return self._places[topic, partition]


@dataclass(slots=True)
class Sent:
    """A batch that is not acknowledged yet."""

    sequence: int
    count: int
    data: bytes


@dataclass(slots=True)
class Stream:
    """The batches that a producer writes into one partition."""

    topic: str
    partition: int
    next_sequence: int = 0
    acknowledged: int = 0
    window: list[Sent] = field(default_factory=list)


class IdempotentProducer(SimClient):
    """acks=all, `enable.idempotence`: everything arrives once and in order."""

    def __init__(
        self, *args: Any, topic: str, partitions: int, in_flight: int, rate_s: float
    ) -> None:
        super().__init__(*args)
        self.topic = topic
        self.in_flight = in_flight
        self.rate_s = rate_s
        self.producer_id = -1
        self.producer_epoch = -1
        self.streams = [Stream(topic, i) for i in range(partitions)]

    @property
    def done(self) -> bool:
        """Whether nothing is unacknowledged."""
        return self.producer_id >= 0 and not any(stream.window for stream in self.streams)

    async def run(self) -> None:
        """Produce for ever."""
        await self._init()
        await self.places(self.topic, len(self.streams))
        async with trio.open_nursery() as nursery:
            for stream in self.streams:
                nursery.start_soon(self._produce, stream)

    async def _init(self) -> None:
        while self.producer_id < 0:
            try:
                answer = await self.ask_any(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                )
            except PeerLost:
                await self.pause()
                continue
            if answer.error_code:
                await self.pause()
                continue
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.note(f"has producer id {self.producer_id}")

    async def _produce(self, stream: Stream) -> None:
        random = self.random
        while True:
            await trio.sleep(self.rate_s * random.random() * 2)
            if not self.idle:
                # A broker that does not know a producer takes any sequence (KIP-360): the first
                # batch goes alone, or a leader that is new between the first and the second would
                # begin with the second.
                most = self.in_flight if stream.acknowledged else 1
                for _ in range(random.randint(1, most) - len(stream.window)):
                    stream.window.append(self._batch(stream))
            while stream.window and not await self._send(stream):
                await self.pause()
                await self.refresh([self.topic])

    def _batch(self, stream: Stream) -> Sent:
        random = self.random
        count = random.choice((1, 1, 1, 2, 3))
        now_ms = 1_700_000_000_000 + int(trio.current_time() * 1000)
        records = [
            (
                now_ms,
                None,
                f"{self.process.name} {stream.partition} {stream.next_sequence + i} ".encode()
                + b"." * random.randrange(200),
                (),
            )
            for i in range(count)
        ]
        data = build_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=stream.next_sequence,
        )
        sent = Sent(stream.next_sequence, count, bytes(data))
        stream.next_sequence += count
        return sent

    async def _send(self, stream: Stream) -> bool:
        """Send the whole window in order; whether all of it was acknowledged."""
        place = self.place(self.topic, stream.partition)
        window = list(stream.window)
        try:
            channel = await self.channel(place.leader)
            asked = [
                channel.submit(produce_request(place, sent.data, -1, PRODUCE_MS)) for sent in window
            ]
            answers = [await channel.wait(one, REQUEST_MS) for one in asked]
        except PeerLost:
            return False
        failed = False
        for sent, answer in zip(window, answers, strict=True):
            (one,) = answer.responses[0].partition_responses
            if one.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._acknowledged(stream, place, sent, one.base_offset)
            else:
                self._refused(stream, place, sent, one.error_code, failed)
                failed = True
        return not stream.window

    def _acknowledged(self, stream: Stream, place: Place, sent: Sent, offset: int) -> None:
        self.history.acknowledged(
            place.key, offset, self.producer_id, sent.sequence + sent.count - 1
        )
        stream.window.remove(sent)
        stream.acknowledged += sent.count

    def _refused(self, stream: Stream, place: Place, sent: Sent, code: int, behind: bool) -> None:
        known = self.history.partition(place.key)
        if code in AGAIN or (behind and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            return
        if known.promised:
            raise Violation(
                "a producer's retries succeed",
                f"{self.process}: {known.name} sequence {sent.sequence}: {error_name(code)}",
                self.topic,
            )
        # Its records are lost beyond the promise, so it begins again.
        stream.window.clear()


def produce_request(place: Place, data: bytes, acks: int, timeout_ms: int) -> ProduceRequest:
    """One batch for one partition."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=place.topic,
                topic_id=place.key[0],
                partition_data=[PartitionProduceData(index=place.key[1], records=memoryview(data))],
            )
        ],
    )


class PlainProducer(SimClient):
    """acks=1, no idempotence: nothing is promised, and nothing may break by it."""

    def __init__(self, *args: Any, topic: str, partitions: int, rate_s: float) -> None:
        super().__init__(*args)
        self.topic = topic
        self.partitions = partitions
        self.rate_s = rate_s

    async def run(self) -> None:
        """Produce for ever."""
        await self.places(self.topic, self.partitions)
        number = 0
        while True:
            await trio.sleep(self.rate_s * self.random.random() * 2)
            if self.idle:
                continue
            number += 1
            place = self.place(self.topic, self.random.randrange(self.partitions))
            now_ms = 1_700_000_000_000 + int(trio.current_time() * 1000)
            value = f"{self.process.name} {number}".encode()
            data = bytes(build_batch([(now_ms, None, value, ())]))
            try:
                request = produce_request(place, data, 1, PRODUCE_MS)
                answer = await self.ask(place.leader, request)
            except PeerLost:
                await self.refresh([self.topic])
                continue
            (one,) = answer.responses[0].partition_responses
            if one.error_code:
                await self.refresh([self.topic])


class Consumer(SimClient):
    """Reads every partition of a topic from its beginning, by assignment."""

    def __init__(self, *args: Any, topic: str, partitions: int, wait_ms: int = 500) -> None:
        super().__init__(*args)
        self.topic = topic
        self.wait_ms = wait_ms
        self.positions = dict.fromkeys(range(partitions), 0)

    async def run(self) -> None:
        """Read for ever."""
        await self.places(self.topic, len(self.positions))
        while True:
            if not await fetch_once(self, self.topic, self.positions, self.wait_ms):
                await self.pause()
                await self.refresh([self.topic])


async def fetch_once(
    client: SimClient, topic: str, positions: dict[int, int], wait_ms: int
) -> bool:
    """Fetch from every leader once, and move the positions; whether all went well."""
    by_leader: dict[int, list[Place]] = {}
    for partition in positions:
        place = client.place(topic, partition)
        by_leader.setdefault(place.leader, []).append(place)
    good = True
    asked = []
    for leader, places in by_leader.items():
        try:
            channel = await client.channel(leader)
            asked.append((channel, channel.submit(fetch_request(places, positions, wait_ms))))
        except PeerLost:
            good = False
    for channel, pending in asked:
        try:
            answer = await channel.wait(pending, REQUEST_MS)
        except PeerLost:
            good = False
            continue
        for responded in answer.responses:
            for one in responded.partitions:
                good &= _take(client, topic, positions, one)
    return good


def fetch_request(places: list[Place], positions: dict[int, int], wait_ms: int) -> FetchRequest:
    """One topic's partitions at one leader, without a session."""
    first = places[0]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=first.topic,
                topic_id=first.key[0],
                partitions=[
                    FetchPartition(
                        partition=place.key[1],
                        current_leader_epoch=place.epoch,
                        fetch_offset=positions[place.key[1]],
                        partition_max_bytes=1 << 18,
                    )
                    for place in places
                ],
            )
        ],
    )


def _take(client: SimClient, topic: str, positions: dict[int, int], one: Any) -> bool:
    """Take in what came of one partition; whether it was no error."""
    if one.partition_index not in positions:
        return True
    place = client.place(topic, one.partition_index)
    if one.error_code in AGAIN:
        return False
    position = positions[one.partition_index]
    newest = client.history.metadata.image.partition(topic, one.partition_index)
    if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and (
        newest is None or newest.leader_epoch != place.epoch
    ):
        # A leader that stood still knows less than we; a whole client goes by epochs (KIP-320).
        return False
    if one.error_code == ErrorCode.CORRUPT_MESSAGE and place.key in client.history.unreadable:
        return False  # until another replica leads
    if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        start = client.history.starts.get(place.key, 0)
        if position < start:
            positions[one.partition_index] = start
            return False
    if one.error_code:
        if client.history.partition(place.key).promised:
            raise Violation(
                "a consumer reads on",
                f"{client.process}: {topic}-{one.partition_index} at {position}:"
                f" {error_name(one.error_code)}",
                topic,
            )
        if one.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            positions[one.partition_index] = 0
        return False
    positions[one.partition_index] = client.history.read(
        str(client.process), place.key, position, one.records or b"", one.high_watermark
    )
    return True
