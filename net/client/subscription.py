"""The state of each partition that a consumer reads, and its fetched data."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from pk.core.errors import KafkaError
from pk.core.record.batch import (
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    Record,
    TimestampType,
    check_crc,
    iter_headers,
    records,
)
from pk.core.record.build import ControlType, control_type
from pk.core.values import NO_EPOCH, TopicPartition, new_tuple

NO_POSITION: Final = -1
_OLD_MAGICS: Final = (0, 1)
"""The versions of the message format before the record batch (Kafka 0.11)."""


class ConsumerRecord(NamedTuple):
    """A consumed record. `timestamp` is in ms since 1970, -1 for none; `leader_epoch` is the epoch
    of its batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    topic: str
    partition: int
    timestamp_type: TimestampType
    """The clock of `timestamp`: the producer's, or the broker's at the time of the append."""

    leader_epoch: int


OnRecords = Callable[[Sequence[ConsumerRecord], int], None]
"""A function that is called with the records that a poll returns, one or more, and the time at
which the poll began (ns since 1970)."""


class FetchedBatch(NamedTuple):
    """A whole record batch as the broker sent it, for callers that read columns or pass bytes on.
    Messages of the older formats v0 and v1 are converted to batches.

    The batch may begin with records below `start_offset` that were not requested, since a fetch
    begins at the start of a batch.
    """

    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    start_offset: int
    log_start_offset: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1
    """The high watermark as of the last fetch, like the two offsets above; -1 if unknown."""


class Chunk:
    """The batches of one partition in one Fetch response, read from front to back.

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
        if len(data) > MAGIC_AT and data[MAGIC_AT] in _OLD_MAGICS:
            data = _upgraded(data)
        self.data = data
        self.batches = list(iter_headers(data))
        self._index = 0
        self._aborted = deque(sorted(aborted or ()))
        """(first offset, producer id) of aborted transactions that begin later in the chunk."""

        self._aborting: set[int] | None = None if aborted is None else set()

    @property
    def next_offset(self) -> int:
        """The offset after the last batch. There must be at least one."""
        return self.batches[-1][1].next_offset

    @property
    def exhausted(self) -> bool:
        return self._index >= len(self.batches)

    def next_batch(self, position: int) -> tuple[BatchHeader, memoryview] | None:
        """Return the next batch with records at or after `position`; None at the end."""
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
        """Step back to the batch that was taken last."""
        self._index -= 1

    def size_left(self) -> int:
        """Return the number of bytes of the batches that are not taken yet."""
        if self.exhausted:
            return 0
        return len(self.data) - self.batches[self._index][0]


def _upgraded(data: memoryview) -> memoryview:
    """Return the messages of formats v0 and v1 at the start of `data` as record batches, followed
    by the record batches after them. Stops before a corrupt message; raises its error if it is the
    first."""
    from pk.core.record.convert import upgrade

    batches: list[bytearray | memoryview] = []
    end = 0
    try:
        for position, batch in upgrade(data):
            batches.append(batch)
            end = position
    except KafkaError:
        if not batches:
            raise
        return memoryview(b"".join(batches))
    if len(data) - end > MAGIC_AT and data[end + MAGIC_AT] == MAGIC:
        batches.append(data[end:])
    return memoryview(b"".join(batches))


Reading = tuple[BatchHeader, memoryview, Iterator[Record], tuple[object, ...]]
"""A batch that is being read: its header, its bytes, the remaining records, and the fields of
`ConsumerRecord` that all records share."""


class PartitionState:
    """A partition of the consumer: its position and its buffered data."""

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
        """The offset of the next record to return."""

        self.position_epoch = NO_EPOCH
        """The leader epoch of the record before the position."""

        self.fetch_offset = NO_POSITION
        """The offset to fetch next. It is ahead of the position by the buffered records."""

        self.leader_epoch = NO_EPOCH
        """The epoch of the leader that the position was last validated against."""

        self.reset_to: int | None = None
        """The timestamp, or special timestamp, to look up the position by."""

        self.paused = False
        self.revoking = False
        self.failed = False
        """Whether the lookup of the position failed for good. It is retried after the error was
        raised."""

        self.chunks: deque[Chunk] = deque()
        self.reading: Reading | None = None
        """The batch that is being read record by record."""

        self.buffered_bytes = 0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.not_before = 0.0
        self.version = 0
        """Changes with each seek. A response to a request with an older version is dropped."""

    @property
    def has_position(self) -> bool:
        return self.position != NO_POSITION and self.reset_to is None

    @property
    def has_data(self) -> bool:
        """Return whether there are fetched batches that may be returned now."""
        return (
            (self.reading is not None or bool(self.chunks))
            and not self.paused
            and self.position != NO_POSITION
            and self.reset_to is None
        )

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at `offset` and drop buffered data."""
        self._drop()
        self.position = self.fetch_offset = offset
        self.position_epoch = epoch
        self.leader_epoch = NO_EPOCH
        self.reset_to = None

    def seek_later(self, timestamp: int) -> None:
        """Continue at the offset for `timestamp`, once it has been looked up."""
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
        """Buffer a fetched chunk."""
        self.chunks.append(chunk)
        self.buffered_bytes += len(chunk.data)
        self.fetch_offset = chunk.next_offset

    def take_batch(self, check_crcs: bool) -> FetchedBatch | None:
        """Return the next whole batch, or the rest of the batch being read, and move the position
        past it. Raises KafkaError.
        """
        # A batch that is taken whole is decoded by its reader, not here.
        found = self._next_batch(check_crcs) if self.reading is None else self.reading[:2]
        if found is None:
            return None
        header, data = found
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

    def take_record(self) -> ConsumerRecord | None:
        """Return the next record of the batch being read. Returns None if there is none, or if it
        cannot be read: `take_records` then continues, or raises the error."""
        if self.reading is None or self.paused:
            return None
        header, _, source, tail = self.reading
        position = self.position
        try:
            for record in source:
                offset = record[0]
                if offset >= position:
                    self.position, self.position_epoch = offset + 1, header.leader_epoch
                    return new_tuple(ConsumerRecord, record + tail)
        except KafkaError:
            self._step_back()
        return None

    def take_records(self, out: list[ConsumerRecord], room: int, check_crcs: bool) -> int:
        """Append up to `room` records to `out`. Returns the remaining room.

        Raises KafkaError if a batch is corrupt; the position is then at the first record that
        cannot be read. If there are records before that one, they are returned first, without an
        error.
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
        header, _, source, tail = reading
        make = new_tuple
        position = self.position
        if position <= header.base_offset and header.count <= room:
            taken = [make(ConsumerRecord, record + tail) for record in source]
            out += taken
            self._end_batch(header)
            return room - len(taken)
        for record in source:
            offset = record[0]
            if offset < position:
                continue
            out.append(make(ConsumerRecord, record + tail))
            self.position, self.position_epoch = offset + 1, header.leader_epoch
            room -= 1
            if not room:
                return 0
        self._end_batch(header)
        return room

    def _start_batch(self, check_crcs: bool) -> "Reading | None":
        """Decode the next batch. Raises KafkaError."""
        found = self._next_batch(check_crcs)
        if found is None:
            return None
        header, data = found
        try:
            source = records(data, header)
        except KafkaError:
            self.chunks[0].step_back()
            raise
        tail = (*self.partition, header.timestamp_type, header.leader_epoch)
        return header, data, source, tail

    def _next_batch(self, check_crcs: bool) -> tuple[BatchHeader, memoryview] | None:
        """Return the header and bytes of the next batch; None if none is buffered. Raises
        KafkaError."""
        while self.chunks:
            chunk = self.chunks[0]
            try:
                found = chunk.next_batch(self.position)
                if found is not None and check_crcs:
                    check_crc(found[1], 0, found[0])
            except KafkaError:
                chunk.step_back()
                raise
            if found is not None:
                self._count(chunk)
                return found
            self._finish(chunk)
        return None

    def _end_batch(self, header: BatchHeader) -> None:
        self.reading = None
        self._move(header.next_offset, header.leader_epoch)
        if self.chunks and self.chunks[0].exhausted:
            self._finish(self.chunks[0])

    def _step_back(self) -> None:
        """Make the next read retry the batch that could not be read."""
        if self.reading is not None:
            self.reading = None
            self.chunks[0].step_back()

    def _count(self, chunk: Chunk) -> None:
        others = sum(len(c.data) for c in self.chunks if c is not chunk)
        self.buffered_bytes = others + chunk.size_left()

    def _finish(self, chunk: Chunk) -> None:
        """Finish a chunk. Its last batches may have had no records to return."""
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
        """Return the lag as of the last fetch, in records; None before the first."""
        if not self.has_position or self.high_watermark < 0:
            return None
        return max(0, self.high_watermark - self.position)
