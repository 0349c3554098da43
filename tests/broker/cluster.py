"""Brokers that replicate from each other in one process: disks and connections in memory, and an
image that the test drives.

There is no controller. Tests commit events by `decide`, which every broker that is not `lagging`
gets as an image; what leaders ask by AlterPartition is decided by the controller's own pure
functions over that image. Requests and answers pass through the codec both ways.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from inspect import isawaitable
from random import Random
from typing import Any

import trio
import trio.testing
from trio_clock import TrioClock

from pk.core.api.index import APIS as ALL_APIS
from pk.core.broker.assembly import Environment, assemble
from pk.core.broker.background import Background
from pk.core.broker.broker import Broker
from pk.core.broker.controller.controller_client import Client
from pk.core.broker.peers import Answered, PeerLost
from pk.core.broker.replication.partition import Partition
from pk.core.broker.requests.context import Context
from pk.core.broker.state import BrokerState
from pk.core.broker.upkeep.scrubber import Scrubber
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.log_dirs import LogDirs
from pk.core.log.memory_disk import MemoryDisk
from pk.core.log.remote.storage import RemoteStorage
from pk.core.meta import unclean_recovery
from pk.core.meta.alter_partition import alter_partition
from pk.core.meta.directories import assign_directories
from pk.core.meta.events import (
    BROKER,
    TOPIC,
    BrokerChanged,
    BrokerRegistered,
    ClusterCreated,
    ConfigChanged,
    Endpoint,
    Event,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
)
from pk.core.meta.image import MetadataImage
from pk.core.record.batch import iter_headers, records
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.wire.codec import decode_whole, encode
from pk.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pk.core.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from pk.core.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from pk.core.wire.messages.pk_replica_logs import PkReplicaLogsRequest
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

APIS = {api.key: api for api in ALL_APIS}
CONTROLLER = 0
FETCH = 1
PRODUCE_VERSION = 12
PRODUCER_IDS = 10
"""The size of a block of producer ids."""

CONFIG = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


@dataclass
class Member:
    """One broker of the cluster, running or not."""

    node: int
    disk: MemoryDisk
    rack: str | None = None
    broker: Broker | None = None
    dirs: LogDirs | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event = field(default_factory=trio.Event)


class Cluster:
    """See the top of this file. Nodes count from 1."""

    def __init__(self, nursery: trio.Nursery, config: dict[str, str]) -> None:
        self.image = MetadataImage().apply([ClusterCreated("test")])
        self.lagging: set[int] = set()
        """Nodes that get no images."""
        self.parted: set[frozenset[int]] = set()
        """Pairs of nodes that cannot talk to each other; 0 is the controller."""
        self.altered: list[AlterPartitionRequest] = []
        self.assigned: list[AssignReplicasToDirsRequest] = []
        self.reported: list[PkReplicaLogsRequest] = []
        self.alter_errors: list[int] = []
        """Errors with which the next AlterPartition requests are answered, for each partition."""
        self.spoil: Callable[[int, bytes], bytes] | None = None
        """Given an API key and an answer as bytes, returns the bytes that arrive."""
        self.fetch_version = APIS[FETCH].versions[1]
        self.asked: list[tuple[int, int, Any]] = []
        """(from, to, request) of the requests between brokers."""
        self.before: Callable[[int, int, Any], Any] | None = None
        """Awaited with (from, to, request) before a broker's request is handled."""
        self._config = config
        self._nursery = nursery
        self._members: dict[int, Member] = {}
        self._channels: list[_Channel] = []
        self.producer_ids = 1000
        """The last block of producer ids that was given to a broker."""
        self._ids = Random(1)
        self.remote_storage: RemoteStorage | None = None
        """The store that brokers started from now on copy segments to."""

    # --- nodes ---

    async def start(self, node: int, rack: str | None = None) -> Broker:
        """Start a broker, with what its disk holds, and register it."""
        member = self._members.get(node) or Member(node, MemoryDisk(), rack)
        self._members[node] = member
        member.scope, member.ended = trio.CancelScope(), trio.Event()
        await self._nursery.start(self._run, member)
        assert member.broker is not None
        assert member.dirs is not None
        await self.decide(
            BrokerRegistered(
                node,
                self.image.offset,
                self._ids.randbytes(16),
                (Endpoint("PLAINTEXT", f"b{node}", 9092, 0),),
                rack=member.rack,
                log_dirs=tuple(d.directory_id for d in member.dirs.usable),
                fenced=False,
            ),
            registering=node,
        )
        return member.broker

    async def _run(self, member: Member, *, task_status: trio.TaskStatus[None]) -> None:
        config = BrokerConfig.parse({**CONFIG, "node.id": str(member.node), **self._config})
        random = Random(member.node)
        dirs = member.dirs = LogDirs.open(
            member.disk,
            config.log_dirs,
            cluster_id="test",
            node_id=member.node,
            holder="a test",
            new_id=lambda: random.randbytes(16),
        )
        broker = member.broker = assemble(
            Environment(
                BrokerState(config, node_id=member.node, cluster_id="test"),
                Background(),
                dirs,
                TrioClock(),
                random,
                _ControllerClient(self, member.node),
                _Peers(self, member.node),
                remote_storage=self.remote_storage,
            ),
            served=[(api.key, *api.versions) for api in ALL_APIS],
        )
        with member.scope:
            async with trio.open_nursery() as nursery:
                broker.start(nursery)
                task_status.started()
                await trio.sleep_forever()
        member.ended.set()

    def scrubber(self, node: int) -> Scrubber:
        """A scrubber of a broker that is up; it stops with the broker. It repairs at once, and
        reads the segments that are due when `check` is called."""
        broker = self.broker(node)
        scrubber = Scrubber(
            broker.state,
            broker.data.replicas,
            _Peers(self, node),
            broker.data.replica_logs,
            lambda: broker.config,
        )
        broker.background.start_soon(scrubber.run)
        return scrubber

    async def crash(self, node: int, *, power: bool = True) -> None:
        """End a broker at once. With `power`, its unsynced data is lost."""
        member = self._members[node]
        member.scope.cancel()
        await member.ended.wait()
        assert member.dirs is not None
        self.cut_channels(node)
        member.dirs.release()
        member.broker = None
        if power:
            member.disk.crash()
        await self.decide(BrokerChanged(node, self.image.brokers[node].broker_epoch, fenced=True))

    async def stop(self, node: int) -> None:
        """End a broker in order."""
        member = self._members[node]
        assert member.broker is not None and member.dirs is not None
        marks = {p.tp: p.high_watermark for p in member.broker.data.replicas}
        member.scope.cancel()
        await member.ended.wait()
        self.cut_channels(node)
        member.dirs.close(marks, member.broker.broker_epoch)
        member.broker = None
        await self.decide(BrokerChanged(node, self.image.brokers[node].broker_epoch, fenced=True))

    def broker(self, node: int) -> Broker:
        """A broker that runs."""
        broker = self._members[node].broker
        assert broker is not None
        return broker

    def members(self) -> list[Member]:
        """All brokers, running or not."""
        return list(self._members.values())

    def disk(self, node: int) -> MemoryDisk:
        """The disk of a node."""
        return self._members[node].disk

    def partition(self, node: int, topic: str = "t", number: int = 0) -> Partition:
        """A replica."""
        return self.broker(node).data.replicas.partition(topic, number)

    def part(self, *nodes: int) -> None:
        """Cut each of these off from all others, and from the controller."""
        for node in nodes:
            for other in (CONTROLLER, *self._members):
                if other != node:
                    self.parted.add(frozenset((node, other)))
            self.cut_channels(node)

    def heal(self) -> None:
        """Everybody can talk to everybody."""
        self.parted.clear()

    def cut_channels(self, node: int) -> None:
        """Break the connections of a node."""
        for channel in self._channels:
            if node in (channel.asker, channel.asked):
                channel.close()
        self._channels = [channel for channel in self._channels if channel.usable]

    # --- the controller ---

    async def decide(self, *events: Event, registering: int | None = None) -> None:
        """Commit events, and have the brokers follow."""
        self.image = self.image.apply(events)
        for node, member in list(self._members.items()):
            if member.broker is None or node in self.lagging:
                continue
            if node == registering:
                member.broker.state.broker_epoch = self.image.brokers[node].broker_epoch
            await member.broker.publish(self.image)

    async def catch_up(self, node: int) -> None:
        """A lagging node gets images again."""
        self.lagging.discard(node)
        await self.broker(node).publish(self.image)

    async def create(
        self,
        *replicas: int,
        topic: str = "t",
        isr: tuple[int, ...] | None = None,
        leader: int | None = None,
        partitions: int = 1,
        configs: dict[str, str] | None = None,
    ) -> bytes:
        """A topic; its id."""
        topic_id = self._ids.randbytes(16)
        leader = replicas[0] if leader is None else leader
        await self.decide(
            TopicCreated(topic, topic_id),
            *(
                PartitionCreated(topic_id, n, replicas, replicas if isr is None else isr, leader)
                for n in range(partitions)
            ),
            *(ConfigChanged(TOPIC, topic, key, value) for key, value in (configs or {}).items()),
        )
        return topic_id

    async def fence(self, node: int, fenced: bool = True) -> None:
        """Take a broker for dead, or alive, and nothing else."""
        epoch = self.image.brokers[node].broker_epoch
        await self.decide(BrokerChanged(node, epoch, fenced=fenced))

    async def change(self, topic: str = "t", number: int = 0, **changed: Any) -> None:
        """Commit a change of a partition. With `lossy` the change is an unclean election: the
        leader may lack acknowledged records."""
        topic_id = self.image.topics[topic].topic_id
        if changed.pop("lossy", False):
            known = self.image.partition(topic, number)
            assert known is not None
            changed["unclean_epoch"] = known.leader_epoch + 1
        await self.decide(PartitionChanged(topic_id, number, **changed))

    async def configure(self, name: str, key: str, value: str, kind: int = TOPIC) -> None:
        """Set a key of a topic, or of a broker ("" for all)."""
        assert kind in (TOPIC, BROKER)
        await self.decide(ConfigChanged(kind, name, key, value))

    def isr(self, topic: str = "t", number: int = 0) -> tuple[int, ...]:
        """The committed ISR."""
        found = self.image.partition(topic, number)
        assert found is not None
        return found.isr

    async def alter(self, asker: int, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """The controller's answer."""
        self.altered.append(request)
        if self.alter_errors:
            code = self.alter_errors.pop(0)
            return AlterPartitionResponse(
                topics=[
                    ResponseTopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            ResponsePartitionData(
                                partition_index=p.partition_index, error_code=code
                            )
                            for p in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        decision = alter_partition(self.image, request, self.broker(asker).config, 3)
        self._nursery.start_soon(self.decide, *decision.records)
        return decision.reply

    # --- clients ---

    async def ask(self, node: int, request: Any, version: int, **context: Any) -> Any:
        """The answer of a broker to a client, both as they look after the wire."""
        return await self.call(node, request, version, context)

    async def call(
        self, node: int, request: Any, version: int, context: dict[str, Any] | None = None
    ) -> Any:
        """Have a broker handle a request."""
        answer = await self.handle(node, request, version, context or {})
        return decode_whole(type(answer), encode(answer, version), version)

    async def handle(self, node: int, request: Any, version: int, context: dict[str, Any]) -> Any:
        """The answer before it is encoded."""
        api = APIS[request.API_KEY]
        received = decode_whole(type(request), bytearray(encode(request, version)), version)
        of_request = Context(self.broker(node), api.key, version, **context)
        try:
            answer = api.handle(of_request, received)
            work = getattr(answer, "work", answer)
            while isawaitable(work):
                work = await work
            return work
        except KafkaError as e:
            return api.error_response(received, e, version)

    async def produce(
        self,
        node: int,
        *values: bytes,
        topic: str = "t",
        number: int = 0,
        acks: int = -1,
        timeout_ms: int = 1000,
        codec: Codec = Codec.NONE,
        **fields: Any,
    ) -> int:
        """Produce one batch; the error code."""
        now_ms = self.broker(node).clock.now_ms()
        data = build_batch([(now_ms, None, v, ()) for v in values], codec=codec, **fields)
        partitions = [PartitionProduceData(index=number, records=data)]
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name=topic, partition_data=partitions)],
        )
        answer = await self.ask(node, request, PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0].error_code

    # --- looking ---

    def content(self, node: int, topic: str = "t", number: int = 0) -> bytes:
        """The bytes of a replica's log."""
        log = self.partition(node, topic, number).log
        return b"".join(s.file.pread(s.size, 0) for s in log.state.segments)

    def values(self, node: int, topic: str = "t", number: int = 0) -> list[bytes | None]:
        """The values of the records in a replica's log."""
        data = self.content(node, topic, number)
        return [
            record.value
            for position, header in iter_headers(data)
            for record in records(data[position : position + header.size], header)
        ]

    async def until(self, condition: Callable[[], bool], within_s: float = 120) -> None:
        """Let time pass until it holds."""
        with trio.fail_after(within_s):
            while not condition():  # noqa: ASYNC110 (many things change it, on a clock that jumps)
                await trio.sleep(0.001)

    async def settled_from(self, offset: int, *nodes: int) -> None:
        """Until these replicas have one end, watermark and start; they hold the same from `offset`
        on."""

        def same() -> bool:
            held = [self.partition(node) for node in nodes]
            ends = {p.log.state.log_end_offset for p in held} | {p.high_watermark for p in held}
            return len(ends) == 1 and {p.log.state.log_start_offset for p in held} == {offset}

        await self.until(same)
        logs = [self.partition(node).log for node in nodes]
        held = [
            log.reader.read(offset, 1 << 30, log.state.log_end_offset).slice.read() for log in logs
        ]
        assert len(set(held)) == 1

    async def settled(self, *nodes: int, topic: str = "t", number: int = 0) -> None:
        """Until these replicas hold the same, and the high watermark is at the end everywhere."""

        def same() -> bool:
            held = [self.partition(node, topic, number) for node in nodes]
            ends = {p.log.state.log_end_offset for p in held} | {p.high_watermark for p in held}
            return len(ends) == 1

        await self.until(same)
        assert len({self.content(node, topic, number) for node in nodes}) == 1


class _Channel:
    """One connection from a broker to another."""

    def __init__(self, cluster: Cluster, asker: int, asked: int) -> None:
        self.asker, self.asked = asker, asked
        self.usable = True
        self._cluster = cluster
        self._lost = trio.Event()
        self._tell: Callable[[], None] = lambda: None

    def when_lost(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def version_of(self, api_key: int) -> int:
        return self._cluster.fetch_version if api_key == FETCH else APIS[api_key].versions[1]

    async def request(self, request: Any, *, timeout_ms: float, version: int | None = None) -> Any:
        cluster = self._cluster
        version = self.version_of(request.API_KEY) if version is None else version
        cluster.asked.append((self.asker, self.asked, request))
        answered: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def handle() -> None:
                if cluster.before is not None:
                    await cluster.before(self.asker, self.asked, request)
                if cluster._members[self.asked].broker is None:
                    return  # it died before it read this
                answer = await cluster.handle(self.asked, request, version, {})
                data = encode(answer, version)
                if cluster.spoil is not None:
                    data = cluster.spoil(request.API_KEY, data)
                answered.append(decode_whole(type(answer), data, version))
                nursery.cancel_scope.cancel()

            async def lose() -> None:
                with trio.move_on_after(timeout_ms / 1000):
                    await self._lost.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(handle)
            nursery.start_soon(lose)
        if not answered or self._lost.is_set():
            if self.usable:
                self._tell()
            self.close()
            raise PeerLost(f"broker {self.asked} is lost")
        return answered[0]

    def send(self, request: Any, *, timeout_ms: float, then: Answered) -> None:
        async def ask() -> None:
            try:
                answer, error = await self.request(request, timeout_ms=timeout_ms), None
            except Exception as e:  # noqa: BLE001 (whoever asked raises it)
                answer, error = None, e
            then(answer, error)

        trio.lowlevel.spawn_system_task(ask, context=copy_context())

    def close(self) -> None:
        self.usable = False
        self._lost.set()


class _Peers:
    """How one broker reaches the others."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._cluster = cluster
        self._node = node

    async def connect(self, host: str, port: int, *, timeout_ms: float) -> _Channel:
        await trio.lowlevel.checkpoint()
        asked = int(host.removeprefix("b"))
        cluster = self._cluster
        if frozenset((self._node, asked)) in cluster.parted:
            raise PeerLost(f"broker {asked} does not answer")
        if cluster._members[asked].broker is None:
            raise PeerLost(f"broker {asked} is missing", refused=True)
        channel = _Channel(cluster, self._node, asked)
        cluster._channels.append(channel)
        return channel


class _ControllerClient:
    """How one broker reaches the controller."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._cluster = cluster
        self._node = node

    async def request(self, request: Any, *, timeout_ms: float) -> Any:
        await trio.lowlevel.checkpoint()
        cluster = self._cluster
        if frozenset((self._node, CONTROLLER)) in cluster.parted:
            await trio.sleep(timeout_ms / 1000)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        if isinstance(request, AssignReplicasToDirsRequest):
            cluster.assigned.append(request)
            config = cluster.broker(self._node).config
            decision = assign_directories(cluster.image, request, config)
            await cluster.decide(*decision.records)
            return decision.reply
        if isinstance(request, PkReplicaLogsRequest):
            cluster.reported.append(request)
            decision = unclean_recovery.report(
                cluster.image, request, cluster.broker(self._node).config
            )
            await cluster.decide(*decision.records)
            return decision.reply
        if isinstance(request, AllocateProducerIdsRequest):
            cluster.producer_ids += PRODUCER_IDS
            return AllocateProducerIdsResponse(
                producer_id_start=cluster.producer_ids, producer_id_len=PRODUCER_IDS
            )
        return await cluster.alter(self._node, request)

    async def forward(self, client: Client, request: Any, *, timeout_ms: float) -> Any:
        raise AssertionError("no test passes on a client's request")


@asynccontextmanager
async def running_cluster(
    config: dict[str, str] | None = None, /, *, brokers: int = 3, racks: str = "", **keys: str
) -> AsyncIterator[Cluster]:
    """Brokers 1 to `brokers`, in the `racks` of one letter each; in `config` and `keys` a dot is
    two underscores."""
    given = {"log.dirs": "/data"}
    given |= {name.replace("__", "."): value for name, value in {**(config or {}), **keys}.items()}
    async with trio.open_nursery() as nursery:
        cluster = Cluster(nursery, given)
        for node in range(1, brokers + 1):
            await cluster.start(node, racks[node - 1] if racks else None)
        yield cluster
        nursery.cancel_scope.cancel()
