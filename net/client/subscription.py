"""What a consumer reads: the state of each partition it has, and the answers of brokers that wait
to be handed out."""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from pk.core.errors import KafkaError
from pk.core.record.batch import BatchHeader, Record, check_crc, iter_headers, records
from pk.core.record.build import ControlType, control_type
from pk.core.values import NO_EPOCH, TopicPartition, new_tuple

NO_POSITION: Final = -1


class ConsumerRecord(NamedTuple):
    """A record as it was read. `timestamp` is in ms since 1970, -1 for none; `leader_epoch` is that
    of its batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    topic: str
    partition: int
    timestamp_type: int
    """0: the producer's time; 1: the time of the append."""

    leader_epoch: int


class FetchedBatch(NamedTuple):
    """A whole record batch as it came from the broker, for who reads columns or passes bytes on.

    Records below `start_offset` in it were not asked for: fetches begin at a batch's start.
    """

    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    start_offset: int
    log_start_offset: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1
    """Of the partition, as its last fetch had them; -1 if they are not known."""


class Chunk:
    """What one Fetch brought for one partition: batches, read from front to back.

    With `aborted` (read_committed) the records of aborted transactions are left out: a producer's
    batches from the transaction's first offset up to its abort marker.
    """

    __slots__ = ("_aborted", "_aborting", "_index", "batches", "data", "partition")

    def __init__(
        self,
        partition: TopicPartition,
        data: memoryview,
        aborted: list[tuple[int, int]] | None,
    ) -> None:
        self.partition = partition
        self.data = data
        self.batches = list(iter_headers(data))
        self._index = 0
        self._aborted = deque(sorted(aborted or ()))
        """(first offset, producer id) of aborted transactions not yet met."""

        self._aborting: set[int] | None = None if aborted is None else set()

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; only where there is one."""
        return self.batches[-1][1].next_offset

    @property
    def exhausted(self) -> bool:
        return self._index >= len(self.batches)

    def next_batch(self, position: int) -> tuple[BatchHeader, memoryview] | None:
        """The next batch that has data from `position` on. None at the end."""
        while self._index < len(self.batches):
            at, header = self.batches[self._index]
            self._index += 1
            if header.last_offset < position:
                continue
            data = self.data[at : at + header.size]
            if self._aborting is not None and self._is_aborted(header, data):
                continue
            if not header.is_control:
                return header, data
        return None

    def _is_aborted(self, header: BatchHeader, data: memoryview) -> bool:
        assert self._aborting is not None
        while self._aborted and self._aborted[0][0] <= header.last_offset:
            self._aborting.add(self._aborted.popleft()[1])
        if not header.is_transactional:
            return False
        if header.is_control:
            marker = next(records(data, header), None)
            if marker is not None and control_type(marker) == ControlType.ABORT:
                self._aborting.discard(header.producer_id)
            return False
        return header.producer_id in self._aborting

    def step_back(self) -> None:
        """Meet the batch that was taken last once more."""
        self._index -= 1

    def size_left(self) -> int:
        """Bytes of the batches not taken yet."""
        if self.exhausted:
            return 0
        return len(self.data) - self.batches[self._index][0]


Reading = tuple[BatchHeader, Iterator[Record], memoryview]
"""A batch being handed out: its header, the records left, its bytes."""


class PartitionState:
    """A partition that the consumer has: where it is, and what has been fetched for it."""

    __slots__ = (
        "buffered_bytes",
        "chunks",
        "failed",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "not_before",
        "partition",
        "paused",
        "position",
        "position_epoch",
        "preferred_replica",
        "preferred_until",
        "reading",
        "reset_to",
        "revoking",
        "version",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.position = NO_POSITION
        """The offset of the next record to hand out."""

        self.position_epoch = NO_EPOCH
        """The leader epoch of the record before it."""

        self.fetch_offset = NO_POSITION
        """The offset to fetch next: ahead of the position by what is buffered."""

        self.leader_epoch = NO_EPOCH
        """The epoch of the leader that the position was last checked against."""

        self.reset_to: int | None = None
        """The timestamp (or special one) by which to look up the position."""

        self.paused = False
        self.revoking = False
        self.failed = False
        """The lookup of its position failed for good; tried again after the failure was raised."""

        self.chunks: deque[Chunk] = deque()
        self.reading: Reading | None = None
        """The batch that is being handed out record by record."""

        self.buffered_bytes = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.not_before = 0.0
        self.version = 0
        """Changes with each seek: an answer to an older one is dropped."""

    @property
    def has_position(self) -> bool:
        return self.position != NO_POSITION and self.reset_to is None

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Go on at `offset`; what is buffered is dropped."""
        self._drop()
        self.position = self.fetch_offset = offset
        self.position_epoch = epoch
        self.leader_epoch = NO_EPOCH
        self.reset_to = None

    def seek_later(self, timestamp: int) -> None:
        """Go on at the offset that `timestamp` stands for, once it has been looked up."""
        self._drop()
        self.reset_to = timestamp

    def _drop(self) -> None:
        self.chunks.clear()
        self.reading = None
        self.buffered_bytes = 0
        self.failed = False
        self.not_before = 0.0
        self.preferred_replica = -1
        self.version += 1

    def add(self, chunk: Chunk) -> None:
        """Buffer what was fetched."""
        self.chunks.append(chunk)
        self.buffered_bytes += len(chunk.data)
        self.fetch_offset = chunk.next_offset

    def take_batch(self, check_crcs: bool) -> FetchedBatch | None:
        """The next whole batch, or what is left of the one being read. The position moves beyond
        it.

        Raises CorruptBatch.
        """
        if self.reading is None:
            self.reading = self._start_batch(check_crcs)
        if self.reading is None:
            return None
        header, _, data = self.reading
        batch = FetchedBatch(
            self.partition,
            header,
            data,
            self.position,
            self.log_start_offset,
            self.last_stable_offset,
            self.high_watermark,
        )
        self._end_batch(header)
        return batch

    def take_records(self, out: list[ConsumerRecord], room: int, check_crcs: bool) -> int:
        """Append up to `room` records to `out`; how many fewer may follow.

        Raises KafkaError if a batch is corrupt: the position is then at the first record that
        cannot be read. It is not raised while there are records before it to return.
        """
        while room > 0:
            try:
                if self.reading is None:
                    self.reading = self._start_batch(check_crcs)
                if self.reading is None:
                    return room
                room = self._read_on(self.reading, out, room)
            except KafkaError:
                self._step_back()
                if out:
                    return 0
                raise
        return room

    def _read_on(self, reading: "Reading", out: list[ConsumerRecord], room: int) -> int:
        header, source, _ = reading
        tail = (*self.partition, int(header.timestamp_type), header.leader_epoch)
        make = new_tuple
        if self.position <= header.base_offset and header.count <= room:
            taken = [make(ConsumerRecord, record + tail) for record in source]
            out += taken
            self._end_batch(header)
            return room - len(taken)
        position = self.position
        for record in source:
            if record[0] < position:
                continue
            out.append(make(ConsumerRecord, record + tail))
            self._move(record[0] + 1, header.leader_epoch)
            room -= 1
            if not room:
                return 0
        self._end_batch(header)
        return room

    def _start_batch(self, check_crcs: bool) -> "Reading | None":
        while self.chunks:
            chunk = self.chunks[0]
            found = chunk.next_batch(self.position)
            if found is not None:
                header, data = found
                if check_crcs:
                    try:
                        check_crc(data, 0, header)
                    except KafkaError:
                        chunk.step_back()
                        raise
                self._count(chunk)
                return header, records(data, header), data
            self._finish(chunk)
        return None

    def _end_batch(self, header: BatchHeader) -> None:
        self.reading = None
        self._move(header.next_offset, header.leader_epoch)
        if self.chunks and self.chunks[0].exhausted:
            self._finish(self.chunks[0])

    def _step_back(self) -> None:
        """Have a batch that could not be read met again by the next read."""
        if self.reading is not None:
            self.reading = None
            self.chunks[0].step_back()

    def _count(self, chunk: Chunk) -> None:
        others = sum(len(c.data) for c in self.chunks if c is not chunk)
        self.buffered_bytes = others + chunk.size_left()

    def _finish(self, chunk: Chunk) -> None:
        """Done with a chunk, whose last batches may have held nothing for us."""
        self.chunks.popleft()
        self.buffered_bytes = sum(len(c.data) for c in self.chunks)
        last = chunk.batches[-1][1]
        if last.next_offset > self.position:
            self._move(last.next_offset, last.leader_epoch)

    def _move(self, position: int, epoch: int) -> None:
        self.position = position
        self.position_epoch = epoch

    @property
    def lag(self) -> int | None:
        """Records behind the end as of the last fetch, None before there was one."""
        if not self.has_position or self.high_watermark < 0:
            return None
        return max(0, self.high_watermark - self.position)
