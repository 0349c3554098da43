"""A segment: one stretch of the log in one file, with its indexes beside it. The last one, which
grows, is *active*.

Finding a batch. The sparse index gives a batch at or before the offset; from there headers are
walked. For the active segment the positions of the last few thousand batches are kept as well
(`recent`): a consumer at the tail, which is most of them, costs a bisect and no I/O.

Threads. One thread appends and rolls. Others may `locate`, read and `write_indexes` meanwhile:
`recent` is replaced, not shortened in place, and `size` is set after the bytes and the position are
there. Truncation excludes everything else.
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
from pk.core.log.oldformat import holds_messages, rewrite
from pk.core.log.patience import WouldWait, patience
from pk.core.log.txnindex import TxnIndex
from pk.core.record.batch import HEADER, HEADER_BYTES, LENGTH_END, MAGIC, BatchHeader, CorruptBatch

logger = logging.getLogger("pk.log")

T = TypeVar("T")

RECENT_MAX: Final = 8192
READ_BYTES: Final = 8192
"""Of headers at a time: a little more than lies between two entries of the index."""
LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = (
    ".log",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
)
DELETED: Final = ".deleted"
"""Suffix of a file whose removal is due; found at start it is removed."""

_INT64_MAX: Final = (1 << 63) - 1

_PEEK: Final = Struct(">qi4xb6xi")
_make_header = BatchHeader._make


class BatchPlace(NamedTuple):
    """The position of a batch in its segment."""

    last_offset: int
    base_offset: int
    position: int


class Part(NamedTuple):
    """Immutable summary of a closed segment: its base offset, and the bytes of its records and
    indexes."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


def file_name(base_offset: int, suffix: str) -> str:
    """The name of a segment's file: twenty digits and the suffix."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """One segment. Every method may raise OSError; the reading ones CorruptBatch."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        sizes: dict[str, int],
        now_ms: int,
        name_suffix: str = "",
    ) -> None:
        """`sizes` are those of its files by suffix, for those that exist; `name_suffix` ends all
        their names."""

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
            self.txn_index.lost = True  # it may have gone with the others
        self.first_timestamp: int | None = None
        """The max timestamp of the first batch: what rolling by time goes by. None while
        unknown."""
        self.active = False
        self._sizes: dict[str, int] | None = sizes if self.size else None
        """The sizes of the index files until they were checked."""
        self._max_timestamp: TimestampOffset | None = (
            None if self.size else TimestampOffset(-1, base_offset)
        )
        self._bytes_since_index = 0
        self._allocated = False
        """Whether its file is larger than what was written to it."""
        self._index_bytes_due = 0
        """What the index files are to have from the first append on."""
        self.index_bytes = 0
        """The size of the larger index, while active: a full one is a reason to roll."""
        self.recent: list[BatchPlace] = []
        self.checked = CheckedBytes(self.size)
        self._index_proved = not self.size
        """Whether the offset index was made, or held against the log, since this was opened."""
        self.times_proved = not self.size
        """The same of the time index."""
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Segment({self.file.path!r})"

    # --- the active segment ---

    def activate(self, allocate_bytes: int = 0, index_bytes: int = 0) -> None:
        """Make it the one that grows: indexes come into memory, their files get `index_bytes`
        (those of an empty segment with the first append: making a file costs more than that).
        Creates its file if need be, with `allocate_bytes`."""
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
        """Without room nothing is left: a later segment of this name would hold other offsets than
        it says."""
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
        """Give each index file its full length, as far as whole entries go, until `trim`; 0: leave
        them as they are. `sizes` are those of the segment's files, where they were just listed."""
        if length:
            known = sizes or {}
            with self._lock:
                self.index.allocate(length, known.get(INDEX))
                self.time_index.allocate(length, known.get(TIME_INDEX))
        self._index_bytes_due = 0

    def deactivate(self) -> None:
        """Let it rest: its files are finished, and both indexes leave memory."""
        self.finish()
        self.rest()

    def finish(self) -> None:
        """Bring its files to what they are at rest: the time index gets its last entry, nothing
        more is allocated."""
        self.seal()
        self.write_indexes()
        self.trim()

    def trim(self) -> None:
        """Give back what was allocated and not used; the indexes have been written."""
        if self._allocated:
            self.file.truncate(self.size)
            self._allocated = False
        with self._lock:
            self.index.trim()
            self.time_index.trim()

    def rest(self) -> None:
        """Its indexes, which have been written, leave memory."""
        self.active = False
        self.index.unload()
        self.time_index.unload()
        self.recent = []

    def seal(self) -> None:
        """Note the latest timestamp in the time index, so that it is known without reading the
        log."""
        if self.active and self.size:
            self.time_index.maybe_append(*self.max_timestamp)

    def seal_again(self) -> None:
        """After a crash, for the segment that ends at the recovery point: all of it was synced but
        the entry that `seal` wrote when the log rolled, which may be missing or garbage."""
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
        """Write one batch at the end; what it leaves after an OSError is undone by
        `truncate_bytes`."""
        position = self.size
        if not position:
            self.allocate_indexes(self._index_bytes_due)
        self.file.pwrite(data, position)
        self.note(
            BatchPlace(last_offset, base_offset, position),
            len(data),
            max_timestamp,
            index_interval_bytes,
        )
        self.size = position + len(data)

    def append_run(
        self,
        batches: Sequence[Data],
        places: Sequence[BatchPlace],
        max_timestamps: Sequence[int],
        index_interval_bytes: int,
    ) -> None:
        """Write several batches, at `places` one after another, by one write at the end of a
        segment that has some already. What it leaves after an OSError is undone by
        `truncate_bytes`. As `append` for each."""
        position = self.size
        if len(batches) == 1:
            self.file.pwrite(batches[0], position)
        else:
            self.file.pwritev(batches, position)
        # As `note` for each, its attributes in variables.
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
        self, place: BatchPlace, size: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Take a batch into the indexes, which are in memory."""
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
        """Empty the indexes, for `note` to fill them again."""
        self._sizes = None
        self.index.start()
        self.time_index.start()
        self._max_timestamp = TimestampOffset(-1, self.base_offset)
        self._bytes_since_index = self.index_bytes = 0
        self.first_timestamp = None
        self.recent = []
        self._index_proved = self.active = True

    def write_indexes(self) -> None:
        """Bring the index files up to date, without syncing them."""
        with self._lock:
            self.index.write()
            self.time_index.write()

    def sync(self) -> None:
        """Make log and indexes durable; `write_indexes` comes first."""
        self.file.sync()
        if self.index.entries:
            self._sync_index(self.index.file)
        if self.time_index.entries:
            self._sync_index(self.time_index.file)
        if self.txn_index.dirty:
            self.txn_index.dirty = False
            self.txn_index.file.sync()

    def close(self) -> None:
        """Let the files go, after the last reader in flight."""
        for file in self.files:
            file.close()

    def truncate_bytes(self, size: int) -> None:
        """Cut the log file to `size` bytes, and no index: to undo an append that failed. Synced,
        since the recovery point may be there already: a crash after the next roll would bring the
        bytes back where no check looks."""
        self.file.truncate(size)
        self.file.sync()
        self.size = size
        self.checked.cut(size)

    def truncate(self, place: BatchPlace) -> None:
        """Drop the batch at `place` and all behind it; the segment is active."""
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
        """Move its files that exist to `directory`, under their names with `suffix`; the new
        paths."""
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
        """Take the new name of its directory."""
        for file in self.files:
            file.path = f"{directory}/{file.path.rpartition('/')[2]}"

    # --- looking ---

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The latest timestamp within, and the last offset of the batch that first had it; (-1, …)
        if none has one."""
        if self._max_timestamp is None:
            last = self.ask_index(lambda: self.time_index.last())
            self._max_timestamp = self._max_timestamp or last
        return self._max_timestamp

    def locate(self, offset: int) -> BatchPlace | None:
        """The first batch that ends at or after `offset`; None if all end before it."""
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
                return BatchPlace(base + delta, base, position)
            position += length + LENGTH_END
            next_offset = base + delta + 1
            at_once = READ_BYTES if length < READ_BYTES else HEADER_BYTES
        return None

    def no_batch(self, position: int) -> CorruptBatch:
        """What lies at `position` cannot be."""
        return CorruptBatch(f"{self.file.path} at position {position}: no batch that belongs there")

    def size_at(self, place: BatchPlace) -> int:
        """The size in bytes of the batch at `place`."""
        recent = self.recent
        if recent and place.position >= recent[0].position:
            i = bisect_left(recent, (place.last_offset + 1,))
            return (recent[i].position if i < len(recent) else self.size) - place.position
        return self.header_at(place.position).size

    def checked_length(self, position: int, length: int, end_offset: int, *, wary: bool) -> int:
        """How many of the `length` bytes from `position`, where a batch begins, are batches that a
        reader may have.

        All of them, where their CRCs are known to be right (and, if `wary`, they did not leave the
        page cache). Else they are looked at: whole batches up to one that is damaged. Their
        offsets, which no CRC covers, must grow and lie below `end_offset`. Raises CorruptBatch
        if the first is damaged, and WouldWait.
        """
        known = self.checked
        end = known.end(position, self.size)
        if end > position:
            length = min(length, end - position)
            if not wary or self.active or self.file.resident(position, length):
                return length
            known.forget(position, position + length)
        if why := known.damaged.get(position):
            raise CorruptBatch(why)
        if patience.spent:
            raise WouldWait
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
        """Whether `locate` answers without I/O."""
        recent = self.recent
        return bool(recent) and offset >= recent[0][1]

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch at `position`."""
        for _, header in self.headers(position, chunk_bytes=HEADER_BYTES):
            return header
        raise self.no_batch(position)

    def headers(
        self, position: int = 0, *, chunk_bytes: int = READ_BYTES, end: int | None = None
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` to `end` (the segment's). CRCs are not
        looked at."""
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
            # Where batches are large, what follows a header is no other header.
            at_once = chunk_bytes if length < chunk_bytes else HEADER_BYTES

    def offset_after(self, position: int) -> int | None:
        """An offset before which all batches end that begin before `position`; None if the index
        does not tell."""
        entry = self.ask_index(lambda: self.index.entry_after(position))
        if entry is None or not (self._index_proved or self._is_batch(entry[1], entry[0])):
            return None
        return entry[0]

    def headers_at_end(self) -> Iterator[tuple[int, BatchHeader]]:
        """As `headers`, from the last batch on that is indexed."""
        return self.headers(self.begin_at(_INT64_MAX))

    def batch_at(self, position: int, header: BatchHeader) -> bytes:
        """The bytes of the batch at `position`."""
        return self.file.pread(header.size, position)

    # --- inside ---

    def _count_index(self) -> None:
        self.index_bytes = max(
            self.index.entries * OFFSET_ENTRY.size, self.time_index.entries * TIME_ENTRY.size
        )

    @property
    def files(self) -> tuple[File, File, File, File]:
        """Of records, offset index, time index and aborted transactions; the last need not
        exist."""
        return (self.file, self.index.file, self.time_index.file, self.txn_index.file)

    def check_indexes(self) -> None:
        """Look at files that were found, once: rebuild indexes that are missing or cannot be right,
        and a log that holds messages of an old format. Raises CorruptBatch if that is
        damaged."""
        sizes = self._sizes
        if sizes is None:
            return
        if patience.spent:
            raise WouldWait  # a bad index is rebuilt from the whole segment
        with self._lock:
            if self._sizes is None:
                return
            index_bytes, time_bytes = sizes.get(INDEX, -1), sizes.get(TIME_INDEX, -1)
            missing = INDEX not in sizes or TIME_INDEX not in sizes
            missing |= self.modernize() is not None
            if missing or not is_sane(self.index, self.time_index, index_bytes, time_bytes):
                self._rebuild()
            self._sizes = None

    def modernize(self, *, mend: bool = False) -> int | None:
        """Rewrite it as record batches if it holds messages of an old format (see oldformat.py):
        how many bytes at its end were left out. None if there was nothing to do. No reader has
        it yet, and its indexes are gone."""
        if not holds_messages(self.file):
            return None
        logger.info("%s contains messages in an old format; rewriting it", self.file.path)
        indexes = (self.index.file.path, self.time_index.file.path)
        cut = rewrite(self._disk, self.file.path, indexes, mend=mend)
        for file in self.files[:3]:
            file.close()  # they are of what was there before
        self.size = self.file.size()
        self.checked = CheckedBytes(self.size)
        return cut

    def _rebuild(self) -> None:
        """Both indexes from the headers, as far as those can be read. Readers have the old ones
        meanwhile."""
        self.index, self.time_index, self._max_timestamp = reindex.rebuilt(
            self.headers(chunk_bytes=1 << 16), self.index, self.time_index
        )
        self._index_proved = self.times_proved = True

    def ask_index(self, ask: Callable[[], T]) -> T:
        """What an index says; a missing or truncated file is rebuilt first."""
        self.check_indexes()
        try:
            return ask()
        except (FileNotFoundError, StructError):
            self._indexes_lost()
        return ask()

    def begin_at(self, offset: int) -> int:
        """The position of a batch from which on `offset` can be found: what the index says, if a
        batch starts there that it can mean. Else readers would pass over records and never know."""
        entry, position = self.ask_index(lambda: self.index.entry_before(offset))
        if not position or self._index_proved or self._is_batch(position, entry):
            return position
        self._judge_index(position)
        return self.ask_index(lambda: self.index.lookup(offset)) if self._index_proved else 0

    def _is_batch(self, position: int, offset_max: int) -> bool:
        """Whether a batch lies at `position` that begins at `offset_max` or before."""
        head = self.file.pread(_PEEK.size, position) if 0 < position < self.size else b""
        if len(head) < _PEEK.size:
            return False
        base, length, magic, _ = _PEEK.unpack(head)
        return magic == MAGIC and self.base_offset <= base <= offset_max and length > 0

    def _judge_index(self, position: int) -> None:
        """The index and the log do not agree at `position`: rebuild it, if it is the index that is
        wrong. If not, it is of use as it is: it leads to what lies behind the damage."""
        if patience.spent:
            raise WouldWait
        if self.active:
            return
        with self._lock:
            if reindex.is_wrong_at(position, self.headers(chunk_bytes=1 << 16)):
                logger.warning("%s is corrupt; rebuilding it", self.index.file.path)
                self._rebuild()
            self._index_proved = True

    def remake_indexes(self, why: str) -> None:
        """Rebuild the wrong indexes of a closed segment. Not on the loop."""
        if patience.spent:
            raise WouldWait
        if not self.active:
            with self._lock:
                logger.warning("%s is corrupt; rebuilding it", why)
                self._rebuild()

    def _indexes_lost(self) -> None:
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
            self._indexes_lost()
            file.sync()

    def _find_max_timestamp(self) -> TimestampOffset:
        """After a truncation: the time index's last entry, and what is behind it."""
        found = self.time_index.last()
        for _, header in self.headers(self.begin_at(found.offset)):
            if header.max_timestamp > found.timestamp:
                found = TimestampOffset(header.max_timestamp, header.last_offset)
        return found
