"""A segment: a section of the log in one file, with its indexes. The last segment, which grows, is
*active*.

Finding a batch. The sparse index gives a batch at or before the offset; from there the headers are
followed. The active segment also keeps the positions of the last few thousand batches (`recent`),
so that a consumer at the tail, as most are, needs only a bisect and no I/O.

Threads. One thread appends and rolls. Others may `locate`, read and `write_indexes` at the same
time: `recent` is replaced, not shortened in place, and `size` is set after the bytes and the
position are there. Truncation excludes everything else.
"""

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from errno import ENOENT
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple, TypeVar

from pk.core.log import reindex
from pk.core.log.checked_bytes import CheckedBytes, checked_batches
from pk.core.log.files import Data, Disk, File
from pk.core.log.index import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetIndex,
    TimeIndex,
    TimestampOffset,
    is_sane,
)
from pk.core.log.non_blocking import WouldBlock, reads
from pk.core.log.oldformat import holds_messages, rewrite
from pk.core.log.txnindex import TxnIndex
from pk.core.record.batch import HEADER, HEADER_BYTES, LENGTH_END, MAGIC, BatchHeader, CorruptBatch

logger = logging.getLogger("pk.log")

T = TypeVar("T")

RECENT_MAX: Final = 8192
READ_BYTES: Final = 8192
"""The number of bytes to read at a time when headers are followed: a little more than the distance
between two index entries."""
LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
)
DELETED: Final = ".deleted"
"""The suffix of a file that is due to be removed. A start removes such files."""

_INT64_MAX: Final = (1 << 63) - 1

_PEEK: Final = Struct(">qi4xb6xi")
_make_header = BatchHeader._make


class BatchPosition(NamedTuple):
    """The position of a batch in its segment."""

    last_offset: int
    base_offset: int
    position: int


class Part(NamedTuple):
    """A summary of a closed segment: its base offset, and the bytes of its records and indexes."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


def file_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file: twenty digits and the suffix."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """One segment. Every method may raise OSError, and those that read may raise CorruptBatch."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        sizes: dict[str, int],
        now_ms: int,
        name_suffix: str = "",
    ) -> None:
        """`sizes` has the sizes of the existing files by suffix. `name_suffix` is appended to the
        names of all files."""

        def at(suffix: str) -> str:
            return f"{directory}/{file_name(base_offset, suffix)}{name_suffix}"

        self.base_offset = base_offset
        self._disk = disk
        self.file = disk.open(at(LOG))
        self.index = OffsetIndex(disk.open(at(INDEX)), base_offset, sizes.get(INDEX, 0))
        self.time_index = TimeIndex(
            disk.open(at(TIME_INDEX)), base_offset, sizes.get(TIME_INDEX, 0)
        )
        self.txn_index = TxnIndex(disk.open(at(TXN_INDEX)), base_offset, sizes.get(TXN_INDEX, 0))
        self.size = sizes.get(LOG, 0)
        self.created_ms = now_ms
        self.modified_ms = now_ms
        if self.size and not (INDEX in sizes and TIME_INDEX in sizes):
            self.txn_index.lost = True  # it may have been lost with the others
        self.first_timestamp: int | None = None
        """The max timestamp of the first batch, on which rolling by time is based. None while
        unknown."""
        self.active = False
        self._sizes: dict[str, int] | None = sizes if self.size else None
        """The sizes of the index files, until the indexes have been checked."""
        self._max_timestamp: TimestampOffset | None = (
            None if self.size else TimestampOffset(-1, base_offset)
        )
        self._bytes_since_index = 0
        self._allocated = False
        """Whether the log file is larger than the data written to it."""
        self._index_bytes_due = 0
        """The size to which the first append extends the index files."""
        self.index_bytes = 0
        """The size of the larger index while the segment is active. When this index is full, the
        log rolls."""
        self.recent: list[BatchPosition] = []
        self.checked = CheckedBytes(self.size)
        self._index_proved = not self.size
        """Whether the offset index was created or compared with the log since the segment was
        opened."""
        self.times_proved = not self.size
        """Whether the time index was."""
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Segment({self.file.path!r})"

    # --- the active segment ---

    def activate(self, allocate_bytes: int = 0, index_bytes: int = 0) -> None:
        """Make this the active segment: load the indexes into memory, and extend their files to
        `index_bytes`. Those of an empty segment are extended by the first append, because creating
        files takes longer. Creates a missing log file, of `allocate_bytes`."""
        self.check_indexes()
        if not self.size:
            self._create(allocate_bytes)
            self._index_bytes_due = index_bytes
        else:
            self.index.load()
            self.time_index.load()
            if self.first_timestamp is None:
                self.first_timestamp = self.header_at(0).max_timestamp
            self.allocate_indexes(index_bytes)
        self._max_timestamp = self.max_timestamp
        self._count_index()
        self.active = True

    def _create(self, allocate_bytes: int) -> None:
        """Create the log file. If the disk has no room for it, remove it again: the previous
        segment continues, and contains the offset that is the name of this file."""
        self.file.pwrite(b"", 0)
        if allocate_bytes:
            try:
                self.file.allocate(allocate_bytes)
            except OSError:
                self.file.close()
                self._disk.remove(self.file.path)
                raise
            self._allocated = True
        self.index.start()
        self.time_index.start()

    def allocate_indexes(self, length: int, sizes: Mapping[str, int] | None = None) -> None:
        """Extend each index file to `length` bytes, rounded down to whole entries, until `trim` is
        called. If `length` is 0, the files stay unchanged. `sizes` has the sizes of the segment's
        files, if they were just listed."""
        if length:
            known = sizes or {}
            with self._lock:
                self.index.allocate(length, known.get(INDEX))
                self.time_index.allocate(length, known.get(TIME_INDEX))
        self._index_bytes_due = 0

    def deactivate(self) -> None:
        """Make the segment inactive: finish its files, and drop both indexes from memory."""
        self.finish()
        self.rest()

    def finish(self) -> None:
        """Complete the files: add the last entry to the time index, and remove allocated space that
        is not used."""
        self.seal()
        self.write_indexes()
        self.trim()

    def trim(self) -> None:
        """Remove allocated space that is not used. The indexes must have been written."""
        if self._allocated:
            self.file.truncate(self.size)
            self._allocated = False
        with self._lock:
            self.index.trim()
            self.time_index.trim()

    def rest(self) -> None:
        """Drop the indexes from memory. They must have been written."""
        self.active = False
        self.index.unload()
        self.time_index.unload()
        self.recent = []

    def seal(self) -> None:
        """Add the latest timestamp to the time index, so that it is known without reading the
        log."""
        if self.active and self.size:
            self.time_index.maybe_append(*self.max_timestamp)

    def repair_seal(self) -> None:
        """Repeat `seal` after a crash, for the segment that ends at the recovery point. All of it
        was synced except the entry that `seal` wrote when the log rolled, which may be missing or
        invalid."""
        self.check_indexes()
        self.index.load()
        self.time_index.load()
        while self.time_index.entries:
            timestamp, offset = self.time_index.last()
            place = self.locate(offset)
            if (
                place is not None
                and place.last_offset == offset
                and self.header_at(place.position).max_timestamp == timestamp
            ):
                break
            self.time_index.drop_last()
        self._max_timestamp = self._find_max_timestamp()
        self.active = True
        self.deactivate()

    def append(
        self,
        data: Data,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        index_interval_bytes: int,
    ) -> None:
        """Write one batch at the end. After an OSError, undo it with `truncate_bytes`."""
        position = self.size
        if not position:
            self.allocate_indexes(self._index_bytes_due)
        self.file.pwrite(data, position)
        self.note(
            BatchPosition(last_offset, base_offset, position),
            len(data),
            max_timestamp,
            index_interval_bytes,
        )
        self.size = position + len(data)

    def append_run(
        self,
        batches: Sequence[Data],
        places: Sequence[BatchPosition],
        max_timestamps: Sequence[int],
        index_interval_bytes: int,
    ) -> None:
        """Write several batches, at consecutive `places`, in one write at the end of a nonempty
        segment. Equivalent to `append` for each. After an OSError, undo them with
        `truncate_bytes`."""
        position = self.size
        if len(batches) == 1:
            self.file.pwrite(batches[0], position)
        else:
            self.file.pwritev(batches, position)
        # The same as `note` for each batch, with attributes in local variables.
        known, since_index = self._max_timestamp, self._bytes_since_index
        assert known is not None
        for batch, place, max_timestamp in zip(batches, places, max_timestamps, strict=True):
            if max_timestamp > known[0]:
                known = self._max_timestamp = TimestampOffset(max_timestamp, place[0])
            if since_index > index_interval_bytes:
                self.index.append(place[0], place[2])
                self.time_index.maybe_append(known[0], known[1])
                since_index = 0
                self._count_index()
            size = len(batch)
            since_index += size
            position += size
        self._bytes_since_index, self.size = since_index, position
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamps[0]
        self.recent += places
        if len(self.recent) > RECENT_MAX:
            self.recent = self.recent[-(RECENT_MAX // 2) :]

    def note(
        self, place: BatchPosition, size: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Add a batch to the indexes in memory."""
        known = self._max_timestamp
        assert known is not None
        if max_timestamp > known[0]:
            known = self._max_timestamp = TimestampOffset(max_timestamp, place[0])
        if self._bytes_since_index > index_interval_bytes:
            self.index.append(place[0], place[2])
            self.time_index.maybe_append(known[0], known[1])
            self._bytes_since_index = 0
            self._count_index()
        self._bytes_since_index += size
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        recent = self.recent
        recent.append(place)
        if len(recent) > RECENT_MAX:
            self.recent = recent[RECENT_MAX // 2 :]

    def rebuild_started(self) -> None:
        """Clear the indexes in memory, so that `note` can rebuild them."""
        self._sizes = None
        self.index.start()
        self.time_index.start()
        self._max_timestamp = TimestampOffset(-1, self.base_offset)
        self._bytes_since_index = self.index_bytes = 0
        self.first_timestamp = None
        self.recent = []
        self._index_proved = self.active = True

    def write_indexes(self) -> None:
        """Write new entries to the index files, without syncing them."""
        with self._lock:
            self.index.write()
            self.time_index.write()

    def sync(self) -> None:
        """Make the log and its indexes durable, after `write_indexes`."""
        self.file.sync()
        if self.index.entries:
            self._sync_index(self.index.file)
        if self.time_index.entries:
            self._sync_index(self.time_index.file)
        if self.txn_index.dirty:
            self.txn_index.dirty = False
            self.txn_index.file.sync()

    def close(self) -> None:
        """Close the files, after the last read in flight."""
        for file in self.files:
            file.close()

    def truncate_bytes(self, size: int) -> None:
        """Truncate the log file, but no index, to `size` bytes, to undo a failed append. Syncs the
        file, since the recovery point may already be there: otherwise a crash after the next roll
        could restore these bytes, and recovery would not check them."""
        self.file.truncate(size)
        self.file.sync()
        self.size = size
        self.checked.cut(size)

    def truncate(self, place: BatchPosition) -> None:
        """Drop the batch at `place` and all batches after it. The segment must be active."""
        assert self.active
        self.truncate_bytes(place.position)
        self.recent = [other for other in self.recent if other.position < place.position]
        self.index.truncate(place.base_offset)
        self.time_index.truncate(place.base_offset)
        self.txn_index.truncate(place.base_offset)
        self._bytes_since_index = 0
        self._count_index()
        if not self.size:
            self.first_timestamp = None
        self._max_timestamp = self._find_max_timestamp()

    def rename(self, directory: str, suffix: str = "") -> list[str]:
        """Move the existing files to `directory`, with `suffix` added to their names. Returns the
        new paths."""
        moved: list[str] = []
        for kind, file in zip((LOG, INDEX, TIME_INDEX, TXN_INDEX), self.files, strict=True):
            path = f"{directory}/{file_name(self.base_offset, kind)}{suffix}"
            try:
                file.rename(path)
            except FileNotFoundError:
                continue
            moved.append(path)
        return moved

    def moved(self, directory: str) -> None:
        """Use the new name of the partition's directory."""
        for file in self.files:
            file.path = f"{directory}/{file.path.rpartition('/')[2]}"

    # --- reading ---

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The latest timestamp in the segment, and the last offset of the batch that first had it;
        (-1, …) if no record has a timestamp."""
        if self._max_timestamp is None:
            last = self.query_index(lambda: self.time_index.last())
            self._max_timestamp = self._max_timestamp or last
        return self._max_timestamp

    def locate(self, offset: int) -> BatchPosition | None:
        """Find the first batch that ends at or after `offset`; None if all batches end before
        it."""
        recent = self.recent
        if recent and offset >= recent[0][1]:
            i = bisect_left(recent, (offset,))
            return recent[i] if i < len(recent) else None
        position = self.begin_at(offset)
        end, read = self.size, self.file.pread
        chunk, chunk_at, at_once, next_offset = b"", position, READ_BYTES, self.base_offset
        while position + HEADER_BYTES <= end:
            at = position - chunk_at
            if at + _PEEK.size > len(chunk):
                chunk, chunk_at, at = read(min(at_once, end - position), position), position, 0
                if len(chunk) < _PEEK.size:
                    return None
            base, length, magic, delta = _PEEK.unpack_from(chunk, at)
            if length < HEADER_BYTES - LENGTH_END or magic != MAGIC or base < next_offset:
                raise self.no_batch(position)
            if base + delta >= offset:
                return BatchPosition(base + delta, base, position)
            position += length + LENGTH_END
            next_offset = base + delta + 1
            at_once = READ_BYTES if length < READ_BYTES else HEADER_BYTES
        return None

    def no_batch(self, position: int) -> CorruptBatch:
        """Return the error for an impossible batch at `position`."""
        return CorruptBatch(f"{self.file.path} at position {position}: no batch that belongs there")

    def size_at(self, place: BatchPosition) -> int:
        """Return the size in bytes of the batch at `place`."""
        recent = self.recent
        if recent and place.position >= recent[0].position:
            i = bisect_left(recent, (place.last_offset + 1,))
            return (recent[i].position if i < len(recent) else self.size) - place.position
        return self.header_at(place.position).size

    def checked_length(self, position: int, length: int, end_offset: int, *, recheck: bool) -> int:
        """Return how many of the `length` bytes from `position`, the start of a batch, are valid
        batches that may be read.

        These are all bytes if their CRCs are known to be right (and, with `recheck`, the bytes are
        still in the page cache). Otherwise the batches are checked, and the valid bytes end before
        a damaged one. Their offsets, which the CRC does not cover, must increase and be below
        `end_offset`. Raises CorruptBatch if the first batch is damaged, and WouldBlock.
        """
        known = self.checked
        end = known.end(position, self.size)
        if end > position:
            length = min(length, end - position)
            if not recheck or self.active or self.file.resident(position, length):
                return length
            known.forget(position, position + length)
        if why := known.damaged.get(position):
            raise CorruptBatch(why)
        if reads.non_blocking:
            raise WouldBlock
        checked_end, offset = position, self.base_offset
        try:
            if self.header_at(position).size > self.size - position:
                raise self.no_batch(position)
            for at, header in checked_batches(self.file, position, position + length):
                if header.base_offset < offset or header.last_offset >= end_offset:
                    raise CorruptBatch(
                        f"{self.file.path} at position {at}: offsets {header.base_offset} to "
                        f"{header.last_offset}, {offset} to {end_offset - 1} could be"
                    )
                checked_end, offset = at + header.size, header.next_offset
        except CorruptBatch as e:
            known.damaged[checked_end] = e.message or str(e)
            logger.error("%s", e.message)
            if checked_end == position:
                raise
        known.add(position, checked_end)
        return checked_end - position

    def is_recent(self, offset: int) -> bool:
        """Return whether `locate` needs no I/O."""
        recent = self.recent
        return bool(recent) and offset >= recent[0][1]

    def header_at(self, position: int) -> BatchHeader:
        """Read the header of the batch at `position`."""
        for _, header in self.headers(position, chunk_bytes=HEADER_BYTES):
            return header
        raise self.no_batch(position)

    def headers(
        self, position: int = 0, *, chunk_bytes: int = READ_BYTES, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch from `position` to `end` (default: the
        segment's end). Does not check CRCs."""
        end = self.size if end is None else end
        chunk, chunk_at, at_once = b"", position, chunk_bytes
        while position + HEADER_BYTES <= end:
            at = position - chunk_at
            if at + HEADER_BYTES > len(chunk):
                count = min(at_once, end - position)
                chunk, chunk_at, at = self.file.pread(count, position), position, 0
                if len(chunk) < HEADER_BYTES:
                    return
            base, length, epoch, magic, *rest = HEADER.unpack_from(chunk, at)
            if length < HEADER_BYTES - LENGTH_END or magic != MAGIC:
                raise self.no_batch(position)
            yield position, _make_header((base, length + LENGTH_END, epoch, magic, *rest))
            position += length + LENGTH_END
            # With large batches, the bytes after a header are not another header.
            at_once = chunk_bytes if length < chunk_bytes else HEADER_BYTES

    def offset_after(self, position: int) -> int | None:
        """Return an offset at or after the end of every batch that starts before `position`; None
        if the index does not show one."""
        entry = self.query_index(lambda: self.index.entry_after(position))
        if entry is None or not (self._index_proved or self._is_batch(entry[1], entry[0])):
            return None
        return entry[0]

    def headers_at_end(self) -> Iterator[tuple[int, BatchHeader]]:
        """Like `headers`, from the last indexed batch on."""
        return self.headers(self.begin_at(_INT64_MAX))

    def batch_at(self, position: int, header: BatchHeader) -> bytes:
        """Read the bytes of the batch at `position`."""
        return self.file.pread(header.size, position)

    # --- inside ---

    def _count_index(self) -> None:
        self.index_bytes = max(
            self.index.entries * OFFSET_ENTRY.size, self.time_index.entries * TIME_ENTRY.size
        )

    @property
    def files(self) -> tuple[File, File, File, File]:
        """The files of records, offset index, time index and aborted transactions. The last one may
        not exist."""
        return (self.file, self.index.file, self.time_index.file, self.txn_index.file)

    def check_indexes(self) -> None:
        """Check the files once, at first use: rebuild indexes that are missing or implausible, and
        convert a log file in an old message format. Raises CorruptBatch if that file is damaged."""
        sizes = self._sizes
        if sizes is None:
            return
        if reads.non_blocking:
            raise WouldBlock  # a bad index is rebuilt from the whole segment
        with self._lock:
            if self._sizes is None:
                return
            index_bytes, time_bytes = sizes.get(INDEX, -1), sizes.get(TIME_INDEX, -1)
            missing = INDEX not in sizes or TIME_INDEX not in sizes
            missing |= self.modernize() is not None
            if missing or not is_sane(self.index, self.time_index, index_bytes, time_bytes):
                self._rebuild()
            self._sizes = None

    def modernize(self, *, repair: bool = False) -> int | None:
        """Rewrite a log file in an old message format as record batches (see oldformat.py), and
        remove its indexes. Returns how many bytes at its end were left out, or None if it has no
        such messages. The segment must not have readers yet."""
        if not holds_messages(self.file):
            return None
        logger.info("%s contains messages in an old format; rewriting it", self.file.path)
        indexes = (self.index.file.path, self.time_index.file.path)
        cut = rewrite(self._disk, self.file.path, indexes, repair=repair)
        for file in self.files[:3]:
            file.close()  # they refer to the previous files
        self.size = self.file.size()
        self.checked = CheckedBytes(self.size)
        return cut

    def _rebuild(self) -> None:
        """Rebuild both indexes from the headers, as far as the headers can be read. Readers use the
        old indexes in the meantime."""
        self.index, self.time_index, self._max_timestamp = reindex.rebuilt(
            self.headers(chunk_bytes=1 << 16), self.index, self.time_index
        )
        self._index_proved = self.times_proved = True

    def query_index(self, ask: Callable[[], T]) -> T:
        """Return the result of a query to an index. If its file is missing or truncated, rebuild it
        first."""
        self.check_indexes()
        try:
            return ask()
        except (FileNotFoundError, StructError):
            self._restore_indexes()
        return ask()

    def begin_at(self, offset: int) -> int:
        """Return the position of a batch from which to search for `offset`. This is the position in
        the index, after checking that a matching batch starts there: otherwise readers would skip
        records without noticing."""
        entry, position = self.query_index(lambda: self.index.entry_before(offset))
        if not position or self._index_proved or self._is_batch(position, entry):
            return position
        self._verify_index(position)
        return self.query_index(lambda: self.index.lookup(offset)) if self._index_proved else 0

    def _is_batch(self, position: int, offset_max: int) -> bool:
        """Return whether a batch begins at `position`, at or before offset `offset_max`."""
        head = self.file.pread(_PEEK.size, position) if 0 < position < self.size else b""
        if len(head) < _PEEK.size:
            return False
        base, length, magic, _ = _PEEK.unpack(head)
        return magic == MAGIC and self.base_offset <= base <= offset_max and length > 0

    def _verify_index(self, position: int) -> None:
        """Rebuild the index if it, and not the log, is wrong at `position`, where they disagree. If
        the log is wrong, the index remains useful, since it leads to the data after the damage."""
        if reads.non_blocking:
            raise WouldBlock
        if self.active:
            return
        with self._lock:
            if reindex.is_wrong_at(position, self.headers(chunk_bytes=1 << 16)):
                logger.warning("%s is corrupt; rebuilding it", self.index.file.path)
                self._rebuild()
            self._index_proved = True

    def rebuild_indexes(self, why: str) -> None:
        """Rebuild the wrong indexes of a closed segment. Do not call this on the event loop."""
        if reads.non_blocking:
            raise WouldBlock
        if not self.active:
            with self._lock:
                logger.warning("%s is corrupt; rebuilding it", why)
                self._rebuild()

    def _restore_indexes(self) -> None:
        """Rebuild the indexes of a closed segment. Raises FileNotFoundError if the segment is
        gone."""
        if self.active or not self._disk.exists(self.file.path):
            raise FileNotFoundError(ENOENT, "an index is gone", self.index.file.path)
        logger.warning("%s: an index is missing; rebuilding it", self.file.path)
        with self._lock:
            self._sizes = {}
        self.check_indexes()

    def _sync_index(self, file: File) -> None:
        try:
            file.sync()
        except FileNotFoundError:
            self._restore_indexes()
            file.sync()

    def _find_max_timestamp(self) -> TimestampOffset:
        """Find the latest timestamp after a truncation, in the last entry of the time index and the
        batches after it."""
        found = self.time_index.last()
        for _, header in self.headers(self.begin_at(found.offset)):
            if header.max_timestamp > found.timestamp:
                found = TimestampOffset(header.max_timestamp, header.last_offset)
        return found
