"""The index of aborted transactions of a segment (`.txnindex`, KIP-98), in Kafka's format.

    version int16 = 0, producer id int64, first offset int64, last offset int64 (of the marker),
    last stable offset int64

A transaction is in the index of the segment with its marker. Readers of committed records get the
transactions that overlap the fetched range, and drop their records. Aborts are rare, so every entry
is written immediately, and reads load the whole file; without entries there is no file.

A reader that gets too few entries takes aborted records for committed ones. So an index that was
removed, truncated or overwritten is *lost*: nothing is read from it until the log has rebuilt it.
The loss is noticed while the log is open, if the segment's other indexes are missing too, and after
a clean shutdown (txnindex_sizes.py). If a crash loses only this file, only `pk log verify` notices,
as in Kafka.
"""

import threading
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from pk.core.log.files import File

ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first record, its marker, and the last stable offset after it
    ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndexLost(Exception):
    """The index of the segment that begins at `base_offset` does not have its written contents."""

    def __init__(self, base_offset: int) -> None:
        super().__init__(base_offset)
        self.base_offset = base_offset


class TxnIndex:
    """The aborted transactions whose markers are in one segment."""

    def __init__(self, file: File, base_offset: int, size: int) -> None:
        self.file = file
        self.base_offset = base_offset
        self.dirty = False
        """Whether entries were written since the last sync."""
        self.lost = size % ENTRY.size != 0
        self.lock = threading.RLock()
        """Held while entries are appended and the index is rebuilt."""
        self._size = size - size % ENTRY.size
        self._last = -1
        """The marker's offset in the last entry that was written since the index was opened."""

    @property
    def size(self) -> int:
        """The size of the entries in bytes."""
        return self._size

    @property
    def empty(self) -> bool:
        """Whether the index has no entry, so that its file may not exist."""
        return self._size == 0 and not self.lost

    @property
    def intact(self) -> bool:
        """Whether the file still has all written entries, judging by its size. Raises OSError."""
        return not self.lost and (not self._size or self.file.size() >= self._size)

    def append(self, aborted: AbortedTxn) -> None:
        """Add an entry, in the order of markers. A lost index is not changed, since rebuilding it
        will find the marker in the log. If this raises OSError, the index is lost."""
        with self.lock:
            if self.lost or aborted.last_offset <= self._last:
                return
            if not self.intact:
                self.lost = True
                return
            try:
                self.file.pwrite(ENTRY.pack(VERSION, *aborted), self._size)
            except BaseException:  # only on failure, since reader threads see it
                self.lost = True
                raise
            self._size += ENTRY.size
            self._last = aborted.last_offset
            self.dirty = True

    def all(self) -> list[AbortedTxn]:
        """Read all entries. Raises OSError, TxnIndexLost."""
        size = self._size
        if self.lost:  # checked only here, since a rebuild may finish at any moment
            raise TxnIndexLost(self.base_offset)
        try:
            data = self.file.pread(size, 0) if size else b""
        except FileNotFoundError:
            data = b""
        whole = data[: len(data) - len(data) % ENTRY.size]
        found = [AbortedTxn(*fields[1:]) for fields in ENTRY.iter_unpack(whole)]
        if self.lost or len(data) < size or not self._can_be(data, found):
            self.lost = True
            raise TxnIndexLost(self.base_offset)
        return found

    def _can_be(self, data: bytes, found: list[AbortedTxn]) -> bool:
        """Return whether entries are plausible: of the known version, in order, and within the
        segment."""
        if any(data[at : at + 2] != b"\0\0" for at in range(0, len(data), ENTRY.size)):
            return False
        due = self.base_offset
        for _, first, last, _ in found:
            if last < due or first >= last:
                return False
            due = last + 1
        return True

    def replace(self, entries: Sequence[AbortedTxn]) -> None:
        """Replace all entries, and sync the file, but not its name. Raises OSError."""
        with self.lock:
            self.file.close()  # the file may refer to a removed name
            data = b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)
            if data or self.file.size():
                self.file.pwrite(data, 0)
                self.file.truncate(len(data))
                self.file.sync()
            self._size = len(data)
            self._last = max((entry.last_offset for entry in entries), default=-1)
            self.dirty = self.lost = False

    def clear(self) -> None:
        """Drop all entries. Raises OSError."""
        with self.lock:
            if (self._size or self.lost) and self.file.size():
                self.file.truncate(0)
                self.dirty = True
            self._size, self._last, self.lost = 0, -1, False

    def truncate(self, offset: int) -> None:
        """Drop the transactions that ended at or after `offset`. Raises OSError."""
        if self.empty:
            return
        try:
            kept = [aborted for aborted in self.all() if aborted.last_offset < offset]
        except TxnIndexLost:
            return  # it will be rebuilt from the remaining log
        if len(kept) * ENTRY.size < self._size:
            self._size = len(kept) * ENTRY.size
            self._last = kept[-1].last_offset if kept else -1
            self.file.truncate(self._size)
            self.dirty = True
