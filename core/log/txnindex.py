"""The index of aborted transactions beside a segment (`.txnindex`, KIP-98), in Kafka's format.

    version int16 = 0, producer id int64, first offset int64, last offset int64 (of the marker), last stable offset int64

A transaction stands in the index of the segment that holds its marker. Readers of committed records are given those that
overlap what they fetched, and drop their records. Aborts are rare, so every entry is written when it happens, and reads
take the whole file; where none was ever written there is no file.
"""

from struct import Struct
from typing import Final, NamedTuple

from pk.core.log.files import File

ENTRY: Final = Struct(">hqqqq")


class AbortedTxn(NamedTuple):
    """An aborted transaction: its first record, its marker, and the last stable offset once it was over."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The aborted transactions whose markers are in one segment."""

    def __init__(self, file: File, size: int) -> None:
        self.file = file
        self._size = size - size % ENTRY.size
        self.dirty = False
        """Whether something was written since the last sync."""

    @property
    def empty(self) -> bool:
        """Whether it has no entry, and perhaps no file."""
        return self._size == 0

    def append(self, aborted: AbortedTxn) -> None:
        """Add an entry; they come in the order of their markers. Raises OSError."""
        self.file.pwrite(ENTRY.pack(0, *aborted), self._size)
        self._size += ENTRY.size
        self.dirty = True

    def all(self) -> list[AbortedTxn]:
        """Every entry. Raises OSError."""
        if not self._size:
            return []
        data = self.file.pread(self._size, 0)
        whole = len(data) - len(data) % ENTRY.size
        return [AbortedTxn(*fields[1:]) for fields in ENTRY.iter_unpack(data[:whole])]

    def truncate(self, offset: int) -> None:
        """Drop the transactions that ended at or after `offset`. Raises OSError."""
        if self._size:
            kept = sum(aborted.last_offset < offset for aborted in self.all())
            if kept * ENTRY.size < self._size:
                self._size = kept * ENTRY.size
                self.file.truncate(self._size)
                self.dirty = True
