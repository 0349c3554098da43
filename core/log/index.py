"""The two sparse indexes of every segment, in Kafka's formats.

    .index       (last offset of a batch - base offset) int32, position of that batch int32
    .timeindex   timestamp int64, (offset - base offset) int32: the latest so far, and the end of
                 the batch that had it first

An index is either *in memory* (for the active segment: two arrays, lookups without I/O) or *on
disk* (for all others: a binary search with small reads, so that a lookup in a large log reads only
kilobytes).

New entries of an index in memory are written to disk when the segment is flushed, rolled or closed,
not one by one. So appending a batch costs one write. Kafka maps its indexes, which delays writes in
the same way. After a crash, Kafka rebuilds the indexes of all segments above the recovery point,
and so does pk; the recovery point moves only after the entries are written.

As in Kafka, the files of the active segment have their full length from the first append on
(`segment.index.bytes`, with a hole that takes no space), and are trimmed when the segment is rolled
or the log is closed. After a crash, the empty entries at the end are cut off when the file is first
used (`cut_empty`).

Threads: one thread appends; others may look up and `write` at the same time. Arrays only grow, the
second column last, and a reader takes the length from the last column; `write` and `trim` need the
segment's lock.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from sys import byteorder
from typing import Final, NamedTuple

from pk.core.log.files import File

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")
BLOCK_ENTRIES: Final = 256
"""A binary search on disk stops when this many entries are left, and reads them at once."""


class TimestampOffset(NamedTuple):
    """A timestamp, and the offset of the batch that first had it."""

    timestamp: int
    offset: int


class IndexFile:
    """The file of an index: the number of entries written to it, and the hole after them."""

    entry: Struct

    def __init__(self, file: File, base_offset: int, size: int) -> None:
        self.file = file
        self.base_offset = base_offset
        self._written = size // self.entry.size
        """The number of entries in the file."""
        self._stale = False
        """Whether the file has contents other than its first `_written` entries and possibly a
        hole."""
        self._allocated = 0
        """The length of the file with its hole; 0 for a file without a hole."""

    def allocate(self, length: int, size: int | None = None) -> None:
        """Extend the file to `length` bytes, rounded down to whole entries, until `trim` is called.
        `size` is its current size, if known. Raises OSError."""
        self._allocated = length - length % self.entry.size
        if (self.file.size() if size is None else size) < self._allocated:
            self.file.extend(self._allocated)

    def trim(self) -> None:
        """Truncate the file after its last entry, to remove the hole that `allocate` added. Raises
        OSError."""
        if self._allocated:
            self._allocated = 0
            if self.file.size() > self._written * self.entry.size:
                self._cut(self._written)

    def cut_empty(self) -> None:
        """Remove the empty entries that a crash left at the end of the file. Raises OSError."""
        size, empty = self.entry.size, bytes(self.entry.size)
        # A single empty entry may be real: a record of 1 January 1970.
        if self._written < 2 or self.file.pread(size, (self._written - 1) * size) != empty:
            return
        low, high = 0, self._written
        while low < high:  # entries increase, so only the first could be a real empty one
            middle = (low + high) // 2
            if self.file.pread(size, middle * size) == empty:
                high = middle
            else:
                low = middle + 1
        self._cut(low)

    def _cut(self, count: int) -> None:
        """Truncate the file to `count` entries."""
        self._written = count
        self.file.truncate(count * self.entry.size)
        if self._allocated:
            self.file.extend(self._allocated)

    def _put(self, data: bytes, count: int) -> None:
        """Append entries to the file, which then has `count`."""
        self.file.pwrite(data, self._written * self.entry.size)
        if self._stale:
            self._cut(count)
            self._stale = False
        self._written = count


class OffsetIndex(IndexFile):
    """Maps an offset to the position of a batch at or before it. Offsets here are absolute."""

    entry = OFFSET_ENTRY

    def __init__(self, file: File, base_offset: int, size: int) -> None:
        super().__init__(file, base_offset, size)
        self._offsets: array[int] | None = None
        self._positions: array[int] | None = None

    @property
    def entries(self) -> int:
        """The number of entries."""
        positions = self._positions
        return self._written if positions is None else len(positions)

    def load(self) -> None:
        """Load the index into memory, to append to it. Raises OSError."""
        if self._positions is None:
            data = self.file.pread(self._written * OFFSET_ENTRY.size, 0) if self._written else b""
            both = array("i", data)
            if byteorder == "little":
                both.byteswap()
            self._offsets, self._positions = both[0::2], both[1::2]

    def start(self) -> None:
        """Start with an empty index in memory. The next `write` replaces the contents of the
        file."""
        self._written = 0
        self._stale = True
        self._offsets, self._positions = array("i"), array("i")

    def append(self, offset: int, position: int) -> None:
        """Add an entry to the index in memory."""
        assert self._offsets is not None and self._positions is not None
        self._offsets.append(offset - self.base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """Return the position of the last indexed batch that ends at or before `offset`; 0 if there
        is none. Raises OSError."""
        return self.entry_before(offset)[1]

    def entry_before(self, offset: int) -> tuple[int, int]:
        """Return the last entry (offset, position) that is not above `offset`; (base offset, 0) if
        there is none. Raises OSError."""
        wanted, base = offset - self.base_offset, self.base_offset
        offsets, positions = self._offsets, self._positions
        if offsets is not None and positions is not None:
            i = bisect_right(offsets, wanted, 0, len(positions)) - 1
            return (offsets[i] + base, positions[i]) if i >= 0 else (base, 0)
        entry = search(self.file, OFFSET_ENTRY, self._written, wanted)
        return (entry[0] + base, entry[1]) if entry is not None else (base, 0)

    def last(self) -> tuple[int, int]:
        """Return the last entry's offset and position; (base offset, 0) if there is none. Raises
        OSError."""
        offsets, positions = self._offsets, self._positions
        if offsets is not None and positions is not None:
            return (
                (offsets[-1] + self.base_offset, positions[-1])
                if positions
                else (self.base_offset, 0)
            )
        entry = read_last(self.file, OFFSET_ENTRY, self._written)
        return (
            (entry[0] + self.base_offset, entry[1]) if entry is not None else (self.base_offset, 0)
        )

    def entry_after(self, position: int) -> tuple[int, int] | None:
        """Return the first entry (offset, position) of a batch that begins at or after `position`.
        Raises OSError."""
        offsets, positions = self._offsets, self._positions
        if offsets is not None and positions is not None:
            i = bisect_left(positions, position)
            return (offsets[i] + self.base_offset, positions[i]) if i < len(positions) else None
        low, high = 0, self._written
        while low < high:
            middle = (low + high) // 2
            entry = OFFSET_ENTRY.unpack(
                self.file.pread(OFFSET_ENTRY.size, middle * OFFSET_ENTRY.size)
            )
            if entry[1] < position:
                low = middle + 1
            else:
                high = middle
        if low == self._written:
            return None
        entry = OFFSET_ENTRY.unpack(self.file.pread(OFFSET_ENTRY.size, low * OFFSET_ENTRY.size))
        return self.base_offset + entry[0], entry[1]

    def truncate(self, offset: int) -> None:
        """Drop the entries of batches that end at or after `offset`. The index must be in memory.
        Raises OSError."""
        assert self._offsets is not None and self._positions is not None
        keep = bisect_right(self._offsets, offset - self.base_offset - 1)
        del self._offsets[keep:], self._positions[keep:]
        if self._written > keep:
            self._cut(keep)

    def write(self) -> None:
        """Write new entries to the file. Raises OSError."""
        offsets, positions = self._offsets, self._positions
        if offsets is None or positions is None:
            return
        count = len(positions)
        self._written = kept(self.file, self._written, OFFSET_ENTRY)
        if count > self._written or self._stale:
            fresh = array("i", bytes(8 * (count - self._written)))
            fresh[0::2] = offsets[self._written : count]
            fresh[1::2] = positions[self._written : count]
            if byteorder == "little":
                fresh.byteswap()
            self._put(fresh.tobytes(), count)

    def unload(self) -> None:
        """Drop the index from memory, after it was written."""
        self._offsets = self._positions = None


class TimeIndex(IndexFile):
    """Maps a timestamp to the offset up to which no timestamp is later. Offsets here are
    absolute."""

    entry = TIME_ENTRY

    def __init__(self, file: File, base_offset: int, size: int) -> None:
        super().__init__(file, base_offset, size)
        self._timestamps: array[int] | None = None
        self._offsets: array[int] | None = None

    @property
    def entries(self) -> int:
        """The number of entries."""
        offsets = self._offsets
        return self._written if offsets is None else len(offsets)

    def load(self) -> None:
        """Load the index into memory, to append to it. Raises OSError."""
        if self._offsets is None:
            data = self.file.pread(self._written * TIME_ENTRY.size, 0) if self._written else b""
            timestamps, offsets = array("q"), array("i")
            for timestamp, offset in TIME_ENTRY.iter_unpack(data):
                timestamps.append(timestamp)
                offsets.append(offset)
            self._timestamps, self._offsets = timestamps, offsets

    def start(self) -> None:
        """Start with an empty index in memory. The next `write` replaces the contents of the
        file."""
        self._written = 0
        self._stale = True
        self._timestamps, self._offsets = array("q"), array("i")

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is later than the last one. The index must be in memory."""
        timestamps, offsets = self._timestamps, self._offsets
        assert timestamps is not None and offsets is not None
        if timestamp > (timestamps[-1] if timestamps else -1):
            timestamps.append(timestamp)
            offsets.append(offset - self.base_offset)

    def around(self, timestamp: int) -> tuple[TimestampOffset | None, TimestampOffset | None]:
        """Return the last entry that is earlier than `timestamp`, and the first that is not; None
        for an entry that does not exist. Raises OSError.

        An entry is written together with one of the offset index, but only if a later timestamp has
        come since the previous entry. So the first batch that reaches `timestamp` is at most one
        entry of the offset index before the second entry returned. With timestamps out of order
        there may be a gigabyte between two entries here, which need not be searched.
        """
        timestamps, offsets = self._timestamps, self._offsets
        if timestamps is not None and offsets is not None:
            count = len(offsets)
            i = bisect_left(timestamps, timestamp, 0, count)
            before = (timestamps[i - 1], offsets[i - 1]) if i else None
            entry = (timestamps[i], offsets[i]) if i < count else None
        else:
            before, entry = search_around(self.file, TIME_ENTRY, self._written, timestamp)
        return (
            None if before is None else self._absolute(before),
            None if entry is None else self._absolute(entry),
        )

    def last(self) -> TimestampOffset:
        """Return the last entry; (-1, base offset) if there is none. Raises OSError."""
        timestamps, offsets = self._timestamps, self._offsets
        if timestamps is not None and offsets is not None:
            return self._absolute((timestamps[-1], offsets[-1]) if offsets else None)
        return self._absolute(read_last(self.file, TIME_ENTRY, self._written))

    def truncate(self, offset: int) -> None:
        """Drop the entries at or after `offset`. The index must be in memory. Raises OSError."""
        assert self._timestamps is not None and self._offsets is not None
        keep = bisect_right(self._offsets, offset - self.base_offset - 1)
        del self._timestamps[keep:], self._offsets[keep:]
        if self._written > keep:
            self._cut(keep)

    def drop_last(self) -> None:
        """Drop the last entry. The index must be in memory. Raises OSError."""
        assert self._timestamps is not None and self._offsets is not None
        del self._timestamps[-1], self._offsets[-1]
        if self._written > len(self._offsets):
            self._cut(len(self._offsets))

    def write(self) -> None:
        """Write new entries to the file. Raises OSError."""
        timestamps, offsets = self._timestamps, self._offsets
        if timestamps is None or offsets is None:
            return
        count = len(offsets)
        self._written = kept(self.file, self._written, TIME_ENTRY)
        if count > self._written or self._stale:
            pairs = zip(
                timestamps[self._written : count], offsets[self._written : count], strict=True
            )
            self._put(b"".join(TIME_ENTRY.pack(*pair) for pair in pairs), count)

    def unload(self) -> None:
        """Drop the index from memory, after it was written."""
        self._timestamps = self._offsets = None

    def _absolute(self, entry: tuple[int, ...] | None) -> TimestampOffset:
        if entry is None:
            return TimestampOffset(-1, self.base_offset)
        return TimestampOffset(entry[0], entry[1] + self.base_offset)


def kept(file: File, written: int, entry: Struct) -> int:
    """Return how many of `written` entries are still in the file. If another program has removed or
    truncated it, returns 0 and closes it, so that the next use opens it by its name. Raises
    OSError."""
    if not written or file.size() >= written * entry.size:
        return written
    file.close()
    return 0


def search(file: File, entry: Struct, count: int, wanted: int) -> tuple[int, ...] | None:
    """Find the last of the file's first `count` entries whose first field is not above `wanted`."""
    found = None
    for fields in _block(file, entry, count, wanted):
        if fields[0] > wanted:
            break
        found = fields
    return found


def search_around(
    file: File, entry: Struct, count: int, wanted: int
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Find, among the file's first `count` entries, the last one whose first field is below
    `wanted`, and the one after it."""
    before = None
    for fields in _block(file, entry, count, wanted - 1):
        if fields[0] >= wanted:
            return before, fields
        before = fields
    return before, None


def _block(file: File, entry: Struct, count: int, wanted: int) -> Iterable[tuple[int, ...]]:
    """Read a few entries that include the last one that is not above `wanted`, and the one after
    it."""
    low, high, size = 0, count, entry.size
    # All entries before low are not above wanted; all from high on are above it.
    while high - low > BLOCK_ENTRIES:
        middle = (low + high) // 2
        if entry.unpack(file.pread(size, middle * size))[0] <= wanted:
            low = middle
        else:
            high = middle
    high = min(high + 1, count)
    return entry.iter_unpack(file.pread((high - low) * size, low * size)) if count else ()


def read_last(file: File, entry: Struct, count: int) -> tuple[int, ...] | None:
    """Read the last of the file's first `count` entries."""
    return entry.unpack(file.pread(entry.size, (count - 1) * entry.size)) if count else None


def is_sane(
    offset_index: OffsetIndex, time_index: TimeIndex, offset_bytes: int, time_bytes: int
) -> bool:
    """Return whether the two index files of a segment pass Kafka's checks: they have whole entries,
    and the last entry is not before the base offset. Raises OSError."""
    if offset_bytes % OFFSET_ENTRY.size or time_bytes % TIME_ENTRY.size:
        return False
    base = offset_index.base_offset
    try:
        offset_index.cut_empty()
        time_index.cut_empty()
        if time_bytes and not time_index.entries:
            return False  # the entries for which it was extended were never written
        if offset_index.entries and offset_index.last()[0] < base:
            return False
        last = time_index.last()
    except StructError:
        return False  # truncated since its size was read
    if time_index.entries and last.offset < base:
        return False
    return last.timestamp >= -1
