"""The invariants: the history of a run, as seen through its cluster and its clients, and the checks
on it.

Two kinds of facts are recorded as they become true, and may never change again: the events of the
metadata log once an append of them returned, and the batches of a partition once some leader's high
watermark passed them. Everything later is checked against them: the replicas' records below their
watermarks, the records that a new leader and every in-sync replica must have, and the answers that
clients get and the records that they read.

The promise of acks=all has bounds: fewer than min.insync.replicas of ISR and ELR lose unsynced
bytes at once. A fault beyond them is reported to the history (`Partition.promised`), which from
then on checks only the form of that partition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from sim.chronicle import Chronicle, Violation
from sim.processes import OWNER, Process

from pk.core.log.damaged import kept_files
from pk.core.log.failures import StorageError
from pk.core.meta.events import Event
from pk.core.meta.image import ContradictoryEvent, MetadataImage, PartitionImage, changes
from pk.core.record.batch import BatchHeader, CorruptBatch, iter_headers
from pk.core.values import NO_LEADER, Uuid

if TYPE_CHECKING:
    from pk.core.broker.broker import Broker
    from pk.core.broker.replication.partition import Partition
    from pk.core.log.log import Log

READ_BYTES = 1 << 22

Key = tuple[Uuid, int]
"""(topic id, partition)."""


class Batch(NamedTuple):
    """A committed batch."""

    base: int
    next: int
    crc: int
    """The CRC of all its bytes, including the leader epoch."""
    leader_epoch: int


@dataclass(slots=True)
class PartitionHistory:
    """The known facts about one partition."""

    name: str
    promised: bool = True
    """Whether acks=all still promises anything after what befell the replicas."""
    bases: list[int] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    end: int = 0
    """Records below it are committed."""
    leaders: dict[int, Process] = field(default_factory=dict)
    """The process that appended in a leader epoch."""
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    """The last committed sequence of each producer in each of its epochs."""
    offsets: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """Producer, epoch and last sequence of a committed batch → its first offset."""

    def at(self, offset: int) -> Batch | None:
        """The committed batch that holds `offset`."""
        i = bisect_right(self.bases, offset) - 1
        return self.batches[i] if i >= 0 and offset < self.batches[i].next else None


@dataclass(slots=True)
class _Seen:
    """The state of a replica in one process when it was last observed."""

    epoch: int = -1
    watermark: int = -1
    end: int = 0
    leads: bool = False
    whole: bool = True
    """Whether its log was not known as damaged: a cut below its watermark marks it."""
    verified: int = 0
    """The offset up to which its log was checked against the committed batches."""


class Metadata:
    """The metadata log as it became true."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.image = MetadataImage()
        """After the last event that is known to be durable."""
        self._images: dict[int, MetadataImage] = {0: self.image}
        self._tried: dict[int, list[list[Event]]] = {}
        self._published: dict[Process, int] = {}
        self._answered: set[int] = set()
        """The offsets at which appends returned."""

    def trying(self, process: Process, epoch: int, offset: int, events: list[Event]) -> None:
        """An append begins: whether it happened may never be known."""
        self._tried.setdefault(offset, []).append(events)

    def appended(self, process: Process, epoch: int, offset: int, events: list[Event]) -> None:
        """An append returned: its events are there for ever."""
        if not events:
            return
        if offset < self.image.offset:
            if not self._known(offset, events):
                raise Violation(
                    "metadata log",
                    f"{process} wrote over offset {offset}; it ends at {self.image.offset}",
                )
            return
        if offset > self.image.offset:
            raise Violation("metadata log", f"{process} left a gap before {offset}")
        self._answered.add(offset)
        self._advance(self.image.apply(events), events)

    def _known(self, offset: int, events: list[Event]) -> bool:
        """Whether these events are at `offset` since a process loaded them, and no other knows yet
        that they are: who appended may stand still before the answer comes."""
        before, after = self._images.get(offset), self._images.get(offset + len(events))
        if before is None or offset in self._answered:
            return False
        self._answered.add(offset)
        return after is not None and before.apply(events) == after

    def loaded(self, process: Process, image: MetadataImage, durable: int) -> None:
        """A controller read the log: the `durable` events of when it asked are there, and what else
        was tried at most."""
        if image.offset < durable:
            raise Violation(
                "metadata log",
                f"{process} loads {image.offset} events where {durable} were appended",
            )
        if self.image.offset < image.offset:
            appended = self._way(self.image, image)
            if appended is None:
                raise Violation("metadata log", f"{process} loads events that were never appended")
            for events in appended:
                self._advance(self.image.apply(events), events)
        self._same(process, image)

    def _way(self, image: MetadataImage, goal: MetadataImage) -> list[list[Event]] | None:
        """The tried appends that lead from one image to another. If there are several at one
        offset, one of them happened, and only the end shows which."""
        for events in self._tried.get(image.offset, []):
            try:
                grown = image.apply(events)
            except ContradictoryEvent:
                continue  # it was meant for what another append there would have left
            if grown.offset == goal.offset and grown == goal:
                return [events]
            rest = self._way(grown, goal) if grown.offset < goal.offset else None
            if rest is not None:
                return [events, *rest]
        return None

    def published(self, process: Process, image: MetadataImage) -> None:
        """A broker put an image in force."""
        last = self._published.get(process, -1)
        if image.offset == last or image.offset == 0:
            return
        if image.offset < last:
            raise Violation("metadata log", f"{process} went back from {last} to {image.offset}")
        self._published[process] = image.offset
        if image.offset > self.image.offset:
            raise Violation(
                "metadata log",
                f"{process} acts upon {image.offset} events, {self.image.offset} are durable",
            )
        self._same(process, image)

    def _same(self, process: Process, image: MetadataImage) -> None:
        known = self._images.get(image.offset)
        if known is None:
            raise Violation(
                "metadata log", f"{process} has an image amid an append: {image.offset}"
            )
        if known != image:
            raise Violation("metadata log", f"{process} has another image at {image.offset}")

    def _advance(self, image: MetadataImage, events: list[Event]) -> None:
        before, self.image = self.image, image
        self._images[image.offset] = image
        chronicle = self._history.chronicle
        for event in events:
            chronicle.note("metadata", f"{image.offset} {event!r}"[:300])
        for change in changes(before, image).partitions:
            self._check(image, change.topic.name, change.new)
            self._history.names[change.topic.topic_id] = change.topic.name
            self._history.dirty.add((change.topic.topic_id, change.new.partition))

    def _check(self, image: MetadataImage, topic: str, found: PartitionImage) -> None:
        where = f"{topic}-{found.partition}"
        if len(set(found.replicas)) != len(found.replicas) or len(set(found.isr)) != len(found.isr):
            raise Violation("isr", f"{where}: one broker twice: {found}", topic)
        if not set(found.isr) <= set(found.replicas):
            raise Violation("isr", f"{where}: ISR {found.isr} of replicas {found.replicas}", topic)
        if set(found.isr) & set(found.elr) or not set(found.elr) <= set(found.replicas):
            raise Violation("isr", f"{where}: ISR {found.isr}, ELR {found.elr}", topic)
        if found.leader != NO_LEADER:
            if found.leader not in found.isr:
                raise Violation("isr", f"{where}: {found.leader} leads, ISR {found.isr}", topic)
            leader = image.brokers.get(found.leader)
            if leader is None or leader.fenced:
                raise Violation("isr", f"{where}: led by {found.leader}, which is fenced", topic)


class History:
    """See the top of this file."""

    def __init__(self, chronicle: Chronicle, names: dict[Uuid, str]) -> None:
        self.chronicle = chronicle
        self.names = names
        """Topics by their ids."""
        self.metadata = Metadata(self)
        self.partitions: dict[Key, PartitionHistory] = {}
        self.dirty: set[Key] = set()
        """Partitions whose in-sync replicas must be checked."""
        self.unsafe: set[str] = set()
        """Topics that a fault put beyond their promise."""
        self.compacts = False
        """Whether internal topics are compacted: then their committed records stay, but not the
        batches."""
        self.rotten: dict[tuple[int, Key], int] = {}
        """Broker and partition with a damaged closed segment → the next segment's base offset."""
        self.flipped: set[int] = set()
        """Brokers whose files a wreck changed. A start does not check data below the recovery
        point; a read does."""
        self.unreadable: set[Key] = set()
        """Partitions of which a replica has been damaged: a leader may have refused to read it."""
        self.starts: dict[Key, int] = {}
        """The start offset of a log whose beginning was deleted."""
        self.committed: Callable[[Key, BatchHeader], None] = lambda key, header: None
        """Called with each batch that is committed."""
        self._seen: dict[Process, dict[Partition, _Seen]] = {}

    def partition(self, key: Key) -> PartitionHistory:
        """The history of one partition."""
        found = self.partitions.get(key)
        if found is None:
            name = f"{self.names.get(key[0], key[0].hex()[:6])}-{key[1]}"
            found = self.partitions[key] = PartitionHistory(name)
            found.promised = self.topic_of(key) not in self.unsafe
        return found

    def topic_of(self, key: Key) -> str:
        """The topic's name."""
        return self.names.get(key[0], "")

    def unpromise(self, topic: str, why: str) -> None:
        """A fault went beyond what acks=all promises for this topic."""
        if topic not in self.unsafe:
            self.unsafe.add(topic)
            self.chronicle.note("history", f"{topic} is beyond its promise: {why}")
            for key, found in self.partitions.items():
                if self.topic_of(key) == topic:
                    found.promised = False

    # --- what the brokers let be seen ---

    def leader_appended(self, partition: Partition, epoch: int) -> None:
        """A leader appended in `epoch`: no other ever does."""
        process = OWNER.get()
        if process is None or not process.alive:
            return
        known = self.partition((partition.topic_id, partition.tp.partition))
        leader = known.leaders.setdefault(epoch, process)
        if leader is not process:
            raise Violation(
                "one leader an epoch",
                f"{known.name}: epoch {epoch} had {leader!r}, and {process!r} appends in it",
                partition.tp.topic,
            )

    def observe(self, process: Process, broker: Broker) -> None:
        """Look at everything that one broker holds."""
        self.metadata.published(process, broker.image)
        seen = self._seen.get(process)
        if seen is None:
            seen = self._seen[process] = {}
        for partition in broker.data.replicas:
            last = seen.get(partition)
            if last is None:
                last = seen[partition] = _Seen()
            end, watermark = partition.log.state.log_end_offset, partition.high_watermark
            if (
                watermark != last.watermark
                or end != last.end
                or partition.leader_epoch != last.epoch
                or partition.leads != last.leads
            ) and partition.offline is None:
                self._replica_moved(process, broker, partition, last, end, watermark)

    def mended(self, node_id: int, log: Log, image: PartitionImage, kept: bool) -> None:
        """A replica that was found damaged counts as whole again. The bytes that recovery cut off
        (`kept`) stay until it is in sync with another replica."""
        in_sync = node_id in image.isr and len(image.isr) > 1
        if kept and not in_sync and not kept_files(log.state.disk, log.state.directory):
            raise Violation(
                "what is cut off is kept", f"{log.state.tp} at {node_id}", log.state.tp.topic
            )

    def damaged(self, partition: Partition, following: int) -> None:
        """A closed segment of a replica is damaged, behind which the next begins at `following`:
        what lies below cannot be read until it is repaired."""
        key = (partition.topic_id, partition.tp.partition)
        self.rotten[partition.node_id, key] = following
        self.unreadable.add(key)

    def repaired(self, process: Process | None, partition: Partition) -> None:
        """Nothing of a replica is damaged any more: all of it is read once more."""
        key = (partition.topic_id, partition.tp.partition)
        del self.rotten[partition.node_id, key]
        for replica, last in self._seen.get(process, {}).items() if process is not None else ():
            if replica.tp == partition.tp and replica.topic_id == partition.topic_id:
                last.verified, last.watermark = 0, -1

    def forget(self, process: Process) -> None:
        """The process is gone."""
        self._seen.pop(process, None)

    def _replica_moved(
        self,
        process: Process,
        broker: Broker,
        partition: Partition,
        last: _Seen,
        end: int,
        watermark: int,
    ) -> None:
        key = (partition.topic_id, partition.tp.partition)
        known, epoch, topic = self.partition(key), partition.leader_epoch, partition.tp.topic
        where = f"{known.name} at {process}"
        if epoch < last.epoch:
            raise Violation("epochs rise", f"{where}: {last.epoch} → {epoch}", topic)
        if watermark > end:
            raise Violation("HW ≤ LEO", f"{where}: HW {watermark}, LEO {end}", topic)
        # Beyond the promise an unclean leader may have its followers truncate committed records.
        may_fall = not partition.leads and not known.promised
        if epoch == last.epoch and watermark < last.watermark and not may_fall:
            raise Violation(
                "HW never falls within an epoch",
                f"{where}: {last.watermark} → {watermark} in epoch {epoch}",
                topic,
            )
        if (epoch, partition.leads) != (last.epoch, last.leads):
            role = "leads" if partition.leads else f"follows {partition.leader}"
            self.chronicle.note(
                process.name, f"{known.name}: {role}, epoch {epoch}, LEO {end}, HW {watermark}"
            )
        if end < last.end:
            self.chronicle.note(process.name, f"{known.name}: cut from {last.end} to {end}")
            self._may_cut(where, partition, end, last)
            if end < last.verified and known.promised:
                raise Violation(
                    "nothing below HW is cut", f"{where}: {last.verified} → {end}", topic
                )
            last.verified = min(last.verified, end)
        # One that led when it was last seen may have moved its watermark before it heard that it
        # does not.
        may_commit = partition.leads or last.leads
        last.epoch, last.leads, last.end, last.watermark = epoch, partition.leads, end, watermark
        last.whole = partition.log.mark is None
        image = self.metadata.image.topics_by_id.get(key[0])
        newest = image.partition(key[1]) if image is not None else None
        if known.promised:
            must = watermark
            if partition.leads and newest is not None and newest.leader_epoch == epoch:
                must = max(must, known.end)
                if end < known.end:
                    raise Violation(
                        "nothing committed is lost",
                        f"{where} leads epoch {epoch} with LEO {end}; {known.end} is committed",
                        topic,
                    )
            self._verify(where, known, partition, last, must, may_commit)
            self.dirty.add(key)

    @staticmethod
    def _may_cut(where: str, partition: Partition, end: int, last: _Seen) -> None:
        """Even beyond the promise, a follower with a whole log truncates committed records only if
        an election gave them up, or they were deleted."""
        log, image = partition.log, partition.image
        given_up = image is not None and image.unclean_epoch > log.state.last_batch_epoch
        is_deleted = log.state.log_start_offset >= last.watermark
        is_whole = last.whole and log.state.epochs.latest <= partition.leader_epoch
        if end < last.watermark and is_whole and not given_up and not is_deleted:
            raise Violation(
                "a whole follower keeps what was committed",
                f"{where}: cut to {end}, HW {last.watermark}",
                partition.tp.topic,
            )

    def _verify(
        self,
        where: str,
        known: PartitionHistory,
        partition: Partition,
        last: _Seen,
        end: int,
        may_commit: bool,
    ) -> None:
        """Check a replica's log below `end` against the committed batches. A leader's batches may
        be new."""
        key = (partition.topic_id, partition.tp.partition)
        readable = self.rotten.get((partition.node_id, key), 0)
        state = partition.log.state
        start = max(last.verified, state.log_start_offset, state.local_log_start_offset, readable)
        while start < end:
            try:
                data = partition.log.reader.read(start, READ_BYTES, end).slice.read()
            except StorageError:
                return  # its disk has failed: it serves no client any more
            except CorruptBatch:
                if partition.node_id not in self.flipped:
                    raise
                if start >= known.end:
                    return
                start = known.end  # no client gets the damaged records from it, either
                continue
            for position, header in iter_headers(data):
                # A crash can make a replica forget that it dropped the records before a start.
                due = max(start, self.starts.get(key, 0))
                if header.base_offset > due and not self._may_have_holes(partition):
                    raise Violation(
                        "offsets are dense",
                        f"{where}: {header.base_offset} where {start} is due",
                        partition.tp.topic,
                    )
                if header.next_offset > start:
                    raw = memoryview(data)[position : position + header.size]
                    self._committed(where, known, partition, header, crc32(raw), may_commit)
                start = max(start, header.next_offset)
            if not data and self._may_have_holes(partition):
                break
            if not data:
                raise Violation("HW ≤ LEO", f"{where}: nothing to read at {start} below {end}")
        last.verified = max(last.verified, end)

    def _may_have_holes(self, partition: Partition) -> bool:
        return self.compacts and partition.tp.topic.startswith("__")

    def _committed(
        self,
        where: str,
        known: PartitionHistory,
        partition: Partition,
        header: BatchHeader,
        crc: int,
        may_commit: bool,
    ) -> None:
        found = Batch(header.base_offset, header.next_offset, crc, header.leader_epoch)
        topic = partition.tp.topic
        if header.base_offset < known.end:
            was = known.at(header.base_offset)
            if was != found and not self._may_have_holes(partition):
                raise Violation(
                    "replicas agree below HW", f"{where}: {found} where {was} is committed", topic
                )
            return
        if not may_commit:
            raise Violation(
                "a follower's HW is its leader's",
                f"{where}: {found} below its HW; {known.end} is committed",
                topic,
            )
        if (
            header.base_offset != known.end
            and partition.log.state.log_start_offset < header.base_offset
        ):
            raise Violation("offsets are dense", f"{where}: {found} after {known.end}", topic)
        if (
            header.producer_id >= 0
            and header.base_sequence >= 0
            and not partition.tp.topic.startswith("__")
        ):
            producer = (header.producer_id, header.producer_epoch)
            last = known.sequences.get(producer, -1)
            # A producer whose records are all deleted is unknown, and may begin with any number.
            start = self.starts.get((partition.topic_id, partition.tp.partition), 0)
            is_known = known.offsets.get((*producer, last), start) >= start
            if header.base_sequence != last + 1 and is_known:
                raise Violation(
                    "no record twice or out of order",
                    f"{where}: producer {header.producer_id} has sequence {header.base_sequence}"
                    f" after {last} at offset {header.base_offset}",
                    topic,
                )
            known.sequences[producer] = header.last_sequence
            known.offsets[*producer, header.last_sequence] = header.base_offset
        known.bases.append(found.base)
        known.batches.append(found)
        known.end = found.next
        self.committed((partition.topic_id, partition.tp.partition), header)

    def check_in_sync(self, brokers: dict[int, tuple[Process, Broker]]) -> None:
        """Every in-sync replica has all that is committed. `brokers` are those that are running."""
        image = self.metadata.image
        for topic_id, number in sorted(self.dirty):
            known = self.partitions.get((topic_id, number))
            topic = image.topics_by_id.get(topic_id)
            found = topic.partition(number) if topic is not None else None
            if known is None or not known.promised or topic is None or found is None:
                continue
            for node_id in found.isr:
                process, broker = brokers.get(node_id, (None, None))
                registered = image.brokers.get(node_id)
                if broker is None or registered is None:
                    continue
                if registered.broker_epoch != broker.broker_epoch:
                    continue
                replica = broker.data.replicas.find(topic.name, number)
                if replica is None or replica.topic_id != topic_id or replica.offline is not None:
                    continue
                if replica.awaits_restore:
                    continue
                if replica.log.state.log_end_offset < known.end:
                    raise Violation(
                        "an in-sync replica has all that is committed",
                        f"{known.name} at {process}: LEO {replica.log.state.log_end_offset}"
                        f" of {known.end}; ISR {found.isr}, leader {found.leader}",
                        topic.name,
                    )
        self.dirty.clear()

    # --- answers to clients ---

    def acknowledged(
        self, key: Key, offset: int, producer_id: int, sequence: int, epoch: int = 0
    ) -> None:
        """A producer was told that its batch, with this last sequence, is safe at `offset` (-1:
        where is not said)."""
        known = self.partition(key)
        if not known.promised:
            return
        if known.sequences.get((producer_id, epoch), -1) < sequence:
            raise Violation(
                "what is acknowledged is committed",
                f"{known.name}: producer {producer_id} sequence {sequence} at {offset};"
                f" {known.end} is committed",
                self.topic_of(key),
            )
        at = known.offsets.get((producer_id, epoch, sequence))
        if offset >= 0 and offset != at:
            raise Violation(
                "what is acknowledged is committed",
                f"{known.name}: producer {producer_id} sequence {sequence} is acknowledged at"
                f" {offset}, and committed at {at}",
                self.topic_of(key),
            )

    def read(self, who: str, key: Key, position: int, records: Any, watermark: int) -> int:
        """Check the `records` that a consumer at `position` got. Returns its next position."""
        known = self.partition(key)
        topic = self.topic_of(key)
        if known.promised and watermark > known.end:
            raise Violation(
                "clients see only what is committed",
                f"{known.name}: {who} is told HW {watermark}; {known.end} is committed",
                topic,
            )
        for at, header in iter_headers(records):
            if header.next_offset <= position:
                continue
            if known.promised:
                raw = memoryview(records)[at : at + header.size]
                found = Batch(
                    header.base_offset, header.next_offset, crc32(raw), header.leader_epoch
                )
                if known.at(header.base_offset) != found:
                    raise Violation(
                        "clients see only what is committed",
                        f"{known.name}: {who} reads {found}; committed is"
                        f" {known.at(header.base_offset)}",
                        topic,
                    )
                if header.base_offset > max(position, self.starts.get(key, 0)):
                    raise Violation(
                        "offsets are dense",
                        f"{known.name}: {who} at {position} gets {header.base_offset}",
                        topic,
                    )
            position = header.next_offset
        return position
