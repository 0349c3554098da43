"""Tiered storage in a run: a store beside the cluster, and the invariants of the two tiers.

The store is slow, unavailable for a while, fails before or after an operation, or executes it after
the caller has given up; it returns parts of objects, and its lists are late. It keeps everything
that it has confirmed. A broker that is cut off from the others still reaches it.

Two invariants hold at every moment. The records that a replica lacks on its disk, from the start of
the log on, are in the store with the same bytes, according to the metadata, which is the same for
every broker. And the start of a log moves only by its retention, by DeleteRecords, or to the first
record on some disk when remote storage is turned off. After the end of the faults, the store has
exactly the segments that the metadata lists, and no objects of topics that are deleted or no longer
tiered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final, NamedTuple
from unittest.mock import patch
from zlib import crc32

import trio
from sim.chronicle import Violation
from sim.clients import Consumer, fetch_once
from sim.history import Batch, History, Key
from sim.network import Network
from sim.nodes import SimNode
from sim.processes import OWNER, Process

from pk.core.broker.broker import Broker
from pk.core.broker.offload import offload
from pk.core.broker.remote import deleted_topics, remote_log_manager, tasks
from pk.core.broker.remote.metadata_topic import RemoteLogMetadataTopic
from pk.core.broker.replication import remote_log
from pk.core.broker.replication.partition import Partition
from pk.core.broker.upkeep.retention import copies_to_remote
from pk.core.log.files import Data
from pk.core.log.remote.copying import next_to_copy
from pk.core.log.remote.metadata import (
    PartitionDelete,
    Record,
    RemoteSegment,
    SegmentState,
    decode_record,
)
from pk.core.log.remote.segment_object import find_tail
from pk.core.log.remote.segments import RemoteSegments, in_lineage
from pk.core.log.remote.storage import (
    RemoteObjectMissing,
    RemoteStorageError,
    StoredObject,
    segment_name,
)
from pk.core.meta.image import MetadataImage
from pk.core.record.batch import BatchHeader, CorruptBatch, check_crc, iter_headers, records
from pk.core.values import REMOTE_METADATA_TOPIC, TopicIdPartition, Uuid

TOPIC: Final = "tiered"
PARTITIONS: Final = 2
NOW_MS: Final = 1_700_000_000_000
"""The time of day at the begin of a run."""

KEYS: Final = {
    "remote.log.storage.system.enable": "true",
    "pk.remote.url": "memory:///",
    "pk.remote.metadata.partitions": "2",
    "pk.remote.metadata.replication.factor": "3",
    "remote.log.manager.task.interval.ms": "700",
    "log.retention.check.interval.ms": "900",
}

AWAY_AFTER_S: Final = 6.0
"""Between two absences of the store, on average."""
LATE_S: Final = 3.0
"""The longest delay of a list."""
UNDER_WAY_S: Final = 6.0
"""The longest delay of a request after its caller has given up."""
AGAIN_CHANCE: Final = 0.2
CRASH_CHANCE: Final = 0.1
CRASH_ALL_CHANCE: Final = 0.25
REREADER_CHANCE: Final = 0.8
SCAN_S: Final = 5.0
"""How often a leader looks for objects that are no segments."""
GONE_S: Final = 2.0
"""How long a topic must be gone before its segments are deleted."""


class _Object(NamedTuple):
    data: bytes
    stored_s: float


class RemoteStore:
    """The store of a run, outside every process."""

    def __init__(self, random: Random, network: Network) -> None:
        self.random = random
        self.network = network
        self.objects: dict[str, _Object] = {}
        self.calm = False
        """Whether the faults are over."""
        self.asked = 0
        self.failed = 0
        self.crash_chance = 0.0
        """How likely a broker crashes at each step of a copy or a deletion."""
        self.crash: Callable[[str, str], None] = lambda host, step: None
        """Called with a host that is to crash, and the step at which it is."""
        self.crash_all: Callable[[str, str], None] = lambda host, step: None
        """The same if all brokers are to crash."""
        self.deleted: Callable[[str], None] = lambda name: None
        """Called when an object is gone."""
        self._deleted: dict[str, _Object] = {}
        self._away: dict[str, float] = {}
        self._failing = random.choice((0.0, 0.05, 0.3))
        self._partial = random.choice((0.0, 0.1, 0.3))
        self._slow_s = random.choice((0.005, 0.05, 0.5))

    async def run(self, nodes: list[SimNode]) -> None:
        """Be away now and then, for all or for some, until cancelled."""
        while True:
            await trio.sleep(self.random.expovariate(1 / AWAY_AFTER_S))
            hosts = [n.host for n in nodes if self.random.random() < 0.7]
            seconds = self.random.choice((0.3, 2.0, 6.0))
            self._away |= dict.fromkeys(hosts, trio.current_time() + seconds)
            self.network.chronicle.note("store", f"is away for {hosts} for {seconds} s")

    def mend(self) -> None:
        """The faults are over."""
        self.calm = True
        self._away.clear()

    def step(self, host: str, what: str) -> bool:
        """A broker is at a step of a copy or a deletion: it may crash there, or all do. Returns
        whether that is tried."""
        if self.calm or self.random.random() >= self.crash_chance:
            return False
        crash = self.crash_all if self.random.random() < CRASH_ALL_CHANCE else self.crash
        self.network.after(0.0, lambda: crash(host, f"leader, {what}"))
        return True

    def delay(self) -> float:
        """How long a request or an answer is under way."""
        slow = 0.02 if self.calm else self._slow_s
        return self.random.expovariate(1 / slow)

    def fate(self, host: str) -> str:
        """The fate of a request: it is "done", fails "before" or "after" that, or is done
        "late"."""
        self.asked += 1
        if self._away.get(host, 0.0) > trio.current_time():
            self.failed += 1
            return "before"
        if self.calm or self.random.random() >= self._failing:
            return "done"
        self.failed += 1
        return self.random.choice(("before", "after", "late"))

    def put(self, name: str, data: bytes) -> None:
        self.objects[name] = _Object(data, trio.current_time())
        self.network.chronicle.note("store", f"has {name}")

    def delete(self, name: str) -> None:
        found = self.objects.pop(name, None)
        if found is not None:
            self._deleted[name] = _Object(found.data, trio.current_time())
            self.network.chronicle.note("store", f"has {name} no more")
            self.deleted(name)

    def part(self, data: bytes) -> bytes:
        """The part of an answer that arrives."""
        if data and not self.calm and self.random.random() < self._partial:
            return data[: self.random.randrange(len(data))]
        return data

    def list(self, prefix: str) -> Iterator[StoredObject]:
        late = trio.current_time() - LATE_S
        for objects, is_there in ((self.objects, True), (self._deleted, False)):
            for name, (data, stored_s) in list(objects.items()):
                is_late = stored_s > late and self.random.random() < 0.5
                if name.startswith(f"{prefix}/") and is_there is not is_late:
                    yield StoredObject(name, len(data), NOW_MS + int(stored_s * 1000))


class ProcessStorage:
    """The store as one process sees it (`RemoteStorage`)."""

    def __init__(self, store: RemoteStore, process: Process) -> None:
        self._store = store
        self._process = process

    def _do(self, what: str, effect: Callable[[], Any]) -> Any:
        if not self._process.alive:
            raise RemoteStorageError("the process is dead")
        fate = self._store.fate(self._process.host)
        if self._store.step(self._process.host, f"before {what}") and fate == "done":
            fate = self._store.random.choice(("done", "late"))  # it is under way already
        if fate == "late":
            late_s = self._store.random.random() * UNDER_WAY_S
            self._store.network.after(late_s, effect)
        if fate in ("before", "late"):
            raise RemoteStorageError(f"{what}: the store fails")
        result = effect()
        self._store.step(self._process.host, f"after {what}")
        if fate == "after":
            raise RemoteStorageError(f"{what}: the store fails, and has done it")
        return result

    def put(self, name: str, pieces: Callable[[], Iterable[Data]]) -> None:
        data = b"".join(pieces())
        self._do("put", lambda: self._store.put(name, data))

    def get(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        def read() -> bytes:
            if name not in self._store.objects:
                raise RemoteObjectMissing(name)
            data = self._store.objects[name].data
            return self._store.part(data[start:][:length])

        if self._store.fate(self._process.host) != "done":
            raise RemoteStorageError("get: the store fails")
        return read()

    def delete(self, name: str) -> None:
        self._do("delete", lambda: self._store.delete(name))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        yield from self._do("list", lambda: list(self._store.list(prefix)))


class TrueStorage:
    """The store without its faults, for checks."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store

    def get(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        return self._store.objects[name].data[start:][:length]

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for name, found in self._store.objects.items():
            if name.startswith(prefix):
                stored_ms = NOW_MS + int(found.stored_s * 1000)
                yield StoredObject(name, len(found.data), stored_ms)


class LateConsumer(Consumer):
    """Reads everything when the faults are over."""

    async def run(self) -> None:
        while not self.idle:  # noqa: ASYNC110 - the simulation sets it
            await trio.sleep(0.2)
        await super().run()


class Rereader(Consumer):
    """Begins again from the beginning now and then, also while the store fails."""

    async def run(self) -> None:
        await self.places(self.topic, len(self.positions))
        while True:
            if not await fetch_once(self, self.topic, self.positions, self.wait_ms):
                await self.pause()
                await self.refresh([self.topic])
            if not self.idle and self.random.random() < AGAIN_CHANCE:
                self.positions = dict.fromkeys(self.positions, 0)


class Tiers:
    """The invariants of the tiers of `TOPIC`."""

    def __init__(self, history: History, store: RemoteStore, nodes: list[SimNode]) -> None:
        self.history = history
        self.store = store
        self.retention_ms = -1
        """The topic's shortest retention that may have been in force."""
        self.retention_bytes = -1
        """The same."""
        self.segments: dict[TopicIdPartition, RemoteSegments] = {}
        """The segments of the committed metadata, as far as some broker has read it."""
        self._nodes = nodes
        self._values: dict[tuple[int, int], bytes] = {}
        self._read_to: dict[int, int] = {}
        self._stamps: dict[Key, list[tuple[int, int]]] = {}
        self._seen: dict[Partition, tuple[int, int, int]] = {}
        self._verified: set[str] = set()
        self._changed = False
        self._deleted_to: dict[Key, int] = {}
        """How far DeleteRecords was asked to delete."""
        self._given_up: dict[Key, int] = {}
        """The highest local start of a log while remote storage was turned off somewhere, or some
        broker did not know yet that the segments of before are deleted."""
        self._void: set[Uuid] = set()
        """The segments that the topic had while remote storage was turned off."""
        self._local_starts: dict[Key, int] = {}
        """The highest local start that was seen."""
        history.committed = self._committed
        store.deleted = lambda name: self._change()

    def _change(self) -> None:
        self._changed = True

    @property
    def holds(self) -> bool:
        """Whether anything is promised."""
        return not {TOPIC, REMOTE_METADATA_TOPIC} & self.history.unsafe

    def begin_again(self, history: History) -> None:
        """Another cluster takes over the topic."""
        self.history = history
        history.committed = self._committed
        self.segments.clear()
        self._values.clear()
        self._read_to.clear()
        self._seen.clear()
        self._verified.clear()
        self._given_up.clear()
        self._void.clear()
        self._local_starts.clear()

    # --- allowed deletions ---

    def may_start(self, key: Key, offset: int) -> None:
        """DeleteRecords is about to be asked for."""
        self._deleted_to[key] = max(self._deleted_to.get(key, 0), offset)

    def may_expire(self, configs: dict[str, str]) -> None:
        """The retention is about to be changed."""
        for name, value in configs.items():
            known, new = getattr(self, name.replace(".", "_"), None), int(value)
            if known is not None and new >= 0:
                setattr(self, name.replace(".", "_"), new if known < 0 else min(known, new))

    @property
    def is_off(self) -> bool:
        """Whether remote storage is turned off for the topic."""
        return _is_off(self.history.metadata.image)

    @property
    def is_deleted(self) -> bool:
        """Whether the store has nothing of the topic, and the metadata list nothing."""
        return not any(f"/{TOPIC}-" in name for name in self.store.objects) and not any(
            len(of) for of in self.segments.values() if of.partition.topic == TOPIC
        )

    def _committed(self, key: Key, header: BatchHeader) -> None:
        if self.history.topic_of(key) == TOPIC:
            stamp = (header.next_offset, header.max_timestamp)
            self._stamps.setdefault(key, []).append(stamp)

    # --- the metadata ---

    def read(self, number: int, data: bytes) -> None:
        """A broker is about to replay committed records of a partition of the metadata topic."""
        if not self.holds:
            return
        for position, header in iter_headers(data):
            try:
                check_crc(data, position, header)
            except CorruptBatch:
                return  # damaged on the leader's disk: the broker reads it again
            if header.is_control:
                continue
            for record in records(data[position : position + header.size], header):
                value = bytes(record.value or b"")
                known = self._values.setdefault((number, record.offset), value)
                if known != value:
                    raise Violation(
                        "all brokers read the same metadata",
                        f"offset {record.offset} of {REMOTE_METADATA_TOPIC}-{number}",
                        REMOTE_METADATA_TOPIC,
                    )
                if record.offset >= self._read_to.get(number, 0):
                    self._read_to[number] = record.offset + 1
                    self._replay(value)

    def _replay(self, value: bytes) -> None:
        found = decode_record(value)
        if found is not None:
            key = found.partition.key
            self.segments.setdefault(key, RemoteSegments(found.partition)).replay(found)
            self._changed = True

    # --- at every moment ---

    def replicas(self) -> Iterator[tuple[SimNode, Broker, Partition]]:
        """The replicas of the topic on brokers that run."""
        for node in self._nodes:
            broker = node.broker
            if broker is None or not node.config.is_broker:
                continue
            for number in range(PARTITIONS):
                partition = broker.data.replicas.find(TOPIC, number)
                if partition is not None and partition.offline is None:
                    yield node, broker, partition

    def look(self) -> None:
        """Between two messages."""
        changed = []
        off = self.is_off
        for node, broker, partition in self.replicas():
            state = partition.log.state
            self._follow_local_start(partition, off or _is_off(broker.image))
            starts = (state.log_start_offset, state.local_log_start_offset, partition.leader_epoch)
            if self._seen.get(partition) != starts:
                self._seen[partition] = starts
                self._start_moved(partition)
                changed.append((node, partition))
        if self._changed:
            self._changed = False
            changed = [(node, partition) for node, _, partition in self.replicas()]
        for node, partition in changed:
            if self.holds and partition.log.state.dead is None and _knows_its_epochs(partition):
                self._check(node, partition)

    def deleted_before(self, partition: Partition) -> None:
        """The log of a replica begins later than before, maybe. Its broker may delete segments in
        the store for that, and crash, before `look` sees it."""
        if partition.tp.topic == TOPIC:
            self._follow_local_start(partition, self.is_off)
            self._start_moved(partition)

    def _follow_local_start(self, partition: Partition, off: bool) -> None:
        key = (partition.topic_id, partition.tp.partition)
        local_start = partition.log.state.local_log_start_offset
        self._local_starts[key] = max(local_start, self._local_starts.get(key, 0))
        remote = partition.remote
        if off or not partition.config.remote_storage_enable:
            self._void |= {segment.id for segment in self.segments.get(TopicIdPartition(*key), ())}
        elif remote is None or not any(segment.id in self._void for segment in remote.segments):
            return
        # A broker may drop local records that it considers copied, as if it had done so earlier.
        self._given_up[key] = self._local_starts[key]

    def _start_moved(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.tp.partition)
        start, known = partition.log.state.log_start_offset, self.history.starts.get(key, 0)
        if start <= known or not self.holds:
            return
        self.history.starts[key] = start
        known = max(known, self._deleted_to.get(key, 0), self._given_up.get(key, 0))
        if start > known and 0 <= self.retention_bytes <= self._bytes_from(partition, start):
            return
        now_ms = NOW_MS + int(trio.current_time() * 1000)
        for following, stamp in self._stamps.get(key, []):
            if known < following <= start and (
                self.retention_ms < 0 or now_ms - stamp <= self.retention_ms
            ):
                raise Violation(
                    "a log starts where its retention says",
                    f"{partition.tp} at n{partition.node_id} starts at {start}; the batch before"
                    f" {following} is {now_ms - stamp} ms old, retention.ms={self.retention_ms}",
                    TOPIC,
                )

    def _bytes_from(self, partition: Partition, start: int) -> int:
        """The largest size that a broker may compute for the log from `start` on: records in both
        tiers count twice."""
        key = TopicIdPartition(partition.topic_id, partition.tp.partition)
        remote = [s.size for s in self.segments.get(key, ()) if s.end_offset >= start]
        return sum(remote) + sum(s.size for s in partition.log.state.segments)

    def _check(self, node: SimNode, partition: Partition) -> None:
        key = (partition.topic_id, partition.tp.partition)
        state = partition.log.state
        starts = self.history.starts.get(key, 0), self._given_up.get(key, 0)
        at = self._covered(partition, max(*starts, state.log_start_offset))
        if at < state.local_log_start_offset:
            raise Violation(
                "what no disk has is in the store",
                f"{partition.tp} at {node.host}: offset {at} is in neither tier; the log starts at"
                f" {state.log_start_offset}, locally at {state.local_log_start_offset}",
                TOPIC,
            )

    def _covered(self, partition: Partition, start: int) -> int:
        """The offset from `start` on that is not in the store, as far as a replica needs it."""
        state = partition.log.state
        key = TopicIdPartition(partition.topic_id, partition.tp.partition)
        segments = self.segments.get(key)
        at = start
        if segments is None:
            return at
        lineage = state.epochs.entries
        for found in in_lineage(segments, lineage, start, state.log_end_offset):
            if at >= state.local_log_start_offset:
                break
            if not self._is_stored(partition, found.segment):
                break
            at = found.end_offset + 1
        return at

    def _name(self, segment: RemoteSegment) -> str:
        return segment_name(self.history.metadata.image.cluster_id, segment)

    def _is_stored(self, partition: Partition, segment: RemoteSegment) -> bool:
        """Whether the store has a segment. Its batches are those that were committed."""
        name = self._name(segment)
        if name not in self.store.objects:
            return False
        if name in self._verified:
            return True
        self._verified.add(name)
        data = self.store.objects[name].data
        tail = find_tail(TrueStorage(self.store), name, len(data))  # type: ignore[arg-type]
        known = self.history.partition((partition.topic_id, partition.tp.partition))
        at = segment.start_offset
        for position, header in iter_headers(data[: tail.size]):
            raw = data[position : position + header.size]
            found = Batch(header.base_offset, header.next_offset, crc32(raw), header.leader_epoch)
            if header.base_offset != at or known.at(at) != found:
                raise Violation(
                    "the store has what was committed",
                    f"{name}: {found} where {known.at(at)} is committed",
                    TOPIC,
                )
            at = header.next_offset
        if at != segment.end_offset + 1:
            raise Violation(
                "the store has what was committed", f"{name} ends at {at}: {segment}", TOPIC
            )
        return True

    # --- when the faults are over ---

    def unfinished(self) -> str:
        """A problem that is left; "" if there is none."""
        if not self.holds:
            return ""
        for node, _, partition in self.replicas():
            state = partition.log.state
            local_start = state.local_log_start_offset
            if not partition.config.remote_storage_enable and state.log_start_offset < local_start:
                return (
                    f"{partition.tp} at {node.host} starts at {state.log_start_offset}, and has"
                    f" records from {local_start} on"
                )
            if not partition.leads:
                continue
            if self._covered(partition, state.log_start_offset) < state.local_log_start_offset:
                return f"{partition.tp} at {node.host}: its start {state.log_start_offset} is gone"
            if not copies_to_remote(partition):
                continue
            remote = partition.remote
            if remote is None:
                return f"{partition.tp} at {node.host} knows no remote segments"
            copied = remote.copied_to(partition.log)
            stable = state.last_stable_offset(partition.high_watermark)
            if next_to_copy(state.segments, copied + 1, stable) is not None:
                return f"{partition.tp} at {node.host} is copied to {copied} only"
        image = self.history.metadata.image
        listed = [s for of in self.segments.values() for s in of]
        for segment in listed:
            if not _is_tiered(image, segment.partition.topic_id):
                return f"{self._name(segment)}: its topic is not tiered any more"
            if segment.state is not SegmentState.COPY_FINISHED:
                return f"{self._name(segment)}: {segment.state.name}"
        names = {self._name(segment) for segment in listed}
        if orphans := self.store.objects.keys() - names:
            return f"the store has {min(orphans)}, which is no segment"
        if lost := names - self.store.objects.keys():
            return f"the store has lost {min(lost)}"
        return ""


def _is_off(image: MetadataImage) -> bool:
    return TOPIC in image.topics and not _is_tiered(image, image.topics[TOPIC].topic_id)


def _is_tiered(image: MetadataImage, topic_id: Uuid) -> bool:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        return False
    return image.topic_configs(topic.name).get("remote.storage.enable") == "true"


def _knows_its_epochs(partition: Partition) -> bool:
    """Whether a replica knows the leader epochs of its whole log. A replica that lost them with a
    file reads them from the store before it serves the records there."""
    state, remote = partition.log.state, partition.remote
    if partition.leads and remote is not None and remote.is_current:
        return True
    lineage = state.epochs.entries
    return bool(lineage) and lineage[0].start_offset <= state.log_start_offset


@contextmanager
def hooks(tiers: Tiers, fail: Callable[[BaseException], None]) -> Iterator[None]:
    """Make requests to the store take time, and observe the metadata that brokers read, and the
    starts to which they move logs."""
    delete_before = Partition.delete_before

    def started(self: Partition, offset: int) -> None:
        delete_before(self, offset)
        try:
            tiers.deleted_before(self)
        except Violation as e:
            fail(e)

    replay = RemoteLogMetadataTopic._replay

    async def witnessed(self: RemoteLogMetadataTopic, data: bytes, tail: Any) -> None:
        number = next(number for number, known in self._tails.items() if known is tail)
        try:
            tiers.read(number, data)
        except Violation as e:
            fail(e)
        await replay(self, data, tail)

    write = RemoteLogMetadataTopic.write

    async def noted(self: RemoteLogMetadataTopic, record: Record) -> None:
        await write(self, record)
        process = OWNER.get()
        if process is not None and not isinstance(record, PartitionDelete):
            tiers.store.step(process.host, f"after {record.state.name}")

    async def slow(
        fn: Callable[..., Any],
        *args: Any,
        directory: str = "",
        limiter: trio.CapacityLimiter | None = None,
    ) -> Any:
        if limiter is None:
            return await offload(fn, *args, directory=directory)
        # Like a thread, it cannot be cancelled.
        with trio.CancelScope(shield=True):
            async with limiter:
                await trio.sleep(tiers.store.delay())
                try:
                    return fn(*args)
                finally:
                    await trio.sleep(tiers.store.delay())

    with (
        patch.object(Partition, "delete_before", started),
        patch.object(RemoteLogMetadataTopic, "_replay", witnessed),
        patch.object(RemoteLogMetadataTopic, "write", noted),
        patch.object(tasks, "offload", slow),
        patch.object(remote_log, "offload", slow),
        patch.object(remote_log_manager, "SCAN_S", SCAN_S),
        patch.object(deleted_topics, "DELETION_DELAY_S", GONE_S),
        patch.object(deleted_topics, "LATE_OBJECTS_S", LATE_S + UNDER_WAY_S),
        patch.object(deleted_topics, "FORGET_S", SCAN_S),
    ):
        yield
