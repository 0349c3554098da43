"""Reads remote segments by the same code as local ones: a `Segment` whose files are in the store.

Records are fetched in chunks, and the chunks used last are kept in memory. So a consumer that reads
a segment in sequence makes one request for each `CHUNK_BYTES`, independent of its fetch sizes, and
consumers of the same records share them. The indexes come with the tail of the object, in one
request, and are kept too.

A consumer that reads in sequence waits for the store only once if the next chunks are fetched while
it consumes the last ones: `ahead` says which chunks are due.

Threads: any thread may read. If two readers need the same chunk at the same time, one requests it
and the other waits.
"""

from __future__ import annotations

import errno
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from pk.core.log import lookup
from pk.core.log.file_slices import BytesSlice, Slice
from pk.core.log.files import Data, Disk, Entry, File, Lock, Stamp, ignore_failed_read
from pk.core.log.lookup import FetchSlice, FoundTimestamp
from pk.core.log.non_blocking import WouldBlock, reads
from pk.core.log.remote.metadata import RemoteSegment
from pk.core.log.remote.segment_object import Tail, read_tail
from pk.core.log.remote.storage import Content, RemoteStorage, RemoteStorageError, segment_name
from pk.core.log.segment import INDEX, LOG, TIME_INDEX, TXN_INDEX, Segment
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import HEADER_BYTES, CorruptBatch
from pk.core.values import Uuid

CHUNK_BYTES: Final = 4 << 20
CHUNKS_BYTES_MAX: Final = 64 << 20
"""The memory for chunks of records, in bytes."""
AHEAD: Final = 2
"""The number of chunks fetched ahead of a consumer. They are wasted if it stops reading."""
AHEAD_MAX: Final = 4
"""The maximum number of chunks that are fetched ahead and not read yet, for all consumers
together."""

LAST_MAX: Final = 1000

K = TypeVar("K")
V = TypeVar("V")


class _Cache(Generic[K, V]):
    """The values used last, as many as fit into `bytes_max`. The newest value is always kept."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._bytes = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._mutex:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        with self._mutex:
            self._drop(key)
            self._values[key] = (value, size)
            self._bytes += size
            while self._bytes > self.bytes_max and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def remove(self, wanted: Callable[[K], bool]) -> None:
        with self._mutex:
            for key in [key for key in self._values if wanted(key)]:
                self._drop(key)

    def _drop(self, key: K) -> None:
        old = self._values.pop(key, None)
        if old is not None:
            self._bytes -= old[1]


class RemoteReader:
    """Reads the remote segments of a cluster. Its methods block, and raise RemoteStorageError and
    CorruptBatch."""

    def __init__(
        self,
        storage: RemoteStorage,
        cluster_id: Callable[[], str],
        *,
        index_bytes_max: int,
        fetched: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`cluster_id` returns the id of the cluster, once it is known. `index_bytes_max` limits
        the indexes that are kept in memory. `fetched` is called with the number of bytes of each
        chunk that comes from the store, in the thread that requested it."""
        self._storage = storage
        self._cluster_id = cluster_id
        self._fetched = fetched
        self._segments: _Cache[Uuid, Segment] = _Cache(index_bytes_max)
        self._chunks: _Cache[tuple[Uuid, int], Content] = _Cache(CHUNKS_BYTES_MAX)
        self._mutex = threading.Lock()
        self._in_progress: dict[tuple[Uuid, int], Future[Content]] = {}
        self._last: _Cache[Uuid, int] = _Cache(LAST_MAX)
        """Segment → the last chunk of it that was read."""
        self._unused: set[tuple[Uuid, int]] = set()
        """The chunks that were fetched ahead, and that no consumer has read yet."""

    def limit_indexes(self, bytes_max: int) -> None:
        """Change the limit of the indexes that are kept in memory, in bytes."""
        self._segments.bytes_max = bytes_max

    def forget(self, segment_id: Uuid) -> None:
        """Drop the cached data of a deleted segment."""
        self._segments.remove(lambda key: key == segment_id)
        self._chunks.remove(lambda key: key[0] == segment_id)

    def name_of(self, remote: RemoteSegment) -> str:
        """Return the name of the segment's object."""
        return segment_name(self._cluster_id(), remote)

    def tail(self, remote: RemoteSegment) -> Tail:
        """Read the tail of a segment's object. It is not kept in memory."""
        return read_tail(self._storage, self.name_of(remote), remote.size)

    def read(
        self, remote: RemoteSegment, offset: int, offset_end: int, bytes_max: int
    ) -> FetchSlice:
        """Read the batches from the one that contains `offset`, up to but excluding the first one
        at or after `offset_end`, at most `bytes_max` bytes. The first batch is always whole. Empty
        if compaction removed the rest of the segment."""
        segment, end = self._segment(remote), remote.end_offset + 1
        found = lookup.read(
            lookup.LogView([segment], remote.size, end),
            offset,
            bytes_max,
            min(offset_end, end),
            minimum_one=True,
            recheck=False,
        )
        if found.length:
            self._note_read(remote.id, found)
            if not reads.non_blocking:
                self._check_following(remote, segment, found.end_position)
        return found

    def _note_read(self, segment_id: Uuid, found: FetchSlice) -> None:
        """Remember the last chunk that a consumer has read, for `ahead`."""
        first = (found.end_position - found.length) // CHUNK_BYTES
        last = (found.end_position - 1) // CHUNK_BYTES
        self._last.put(segment_id, last, 1)
        with self._mutex:
            self._unused.difference_update((segment_id, n) for n in range(first, last + 1))

    def _check_following(self, remote: RemoteSegment, segment: Segment, position: int) -> None:
        """Check the CRCs after `position`, at which a read ended, as far as the records are in
        memory. This thread had to check the records before `position` in any case, and now the next
        reads need no check."""
        begin = segment.checked.end(position - 1, remote.size)  # a batch begins here
        number = begin // CHUNK_BYTES
        while self._chunks.get((remote.id, number)) is not None:
            number += 1
        length = min(number * CHUNK_BYTES, remote.size) - begin
        if length >= HEADER_BYTES:
            # If this fails, so will the read that needs these records.
            with suppress(CorruptBatch, RemoteStorageError):
                segment.checked_length(begin, length, remote.end_offset + 1, recheck=False)

    def read_beyond(
        self, remote: RemoteSegment, offset: int, offset_end: int, bytes_max: int
    ) -> tuple[FetchSlice, int]:
        """Like `read`, and also return an offset above all of the records."""
        fetched = self.read(remote, offset, offset_end, bytes_max)
        if not fetched.length:
            return fetched, offset
        beyond = lookup.offset_beyond([self._segment(remote)], fetched, remote.end_offset + 1)
        return fetched, beyond

    def aborted_within(
        self, remote: RemoteSegment, offset: int, end: int
    ) -> tuple[list[AbortedTxn], bool]:
        """Return the aborted transactions in this segment's index with records in [offset, end),
        and whether later segments may have more."""
        segment = self._segment(remote)
        found = segment.txn_index.all()
        more = all(aborted.last_stable_offset < end for aborted in found)
        return lookup.aborted_transactions([segment], offset, end), more

    def offset_for_time(
        self, remote: RemoteSegment, timestamp: int, from_offset: int
    ) -> FoundTimestamp | None:
        """Find the first record at or after `from_offset` that is not earlier than `timestamp`."""
        return lookup.offset_for_time([self._segment(remote)], timestamp, from_offset)

    def max_timestamp(self, remote: RemoteSegment) -> FoundTimestamp | None:
        """Find the first record with the latest timestamp of the segment."""
        return lookup.max_timestamp([self._segment(remote)])

    def _segment(self, remote: RemoteSegment) -> Segment:
        known = self._segments.get(remote.id)
        if known is None:
            if reads.non_blocking:
                raise WouldBlock
            tail = self.tail(remote)
            known = self._open(remote, tail)
            self._segments.put(remote.id, known, tail.index_bytes)
        return known

    def _open(self, remote: RemoteSegment, tail: Tail) -> Segment:
        name = self.name_of(remote)
        records = _RemoteFile(name, tail.size, tail.head, self._read_of(remote, name))
        indexes = {INDEX: tail.offset_index, TIME_INDEX: tail.time_index}
        if tail.txn_index:
            indexes[TXN_INDEX] = tail.txn_index
        disk = _RemoteDisk(records, indexes)
        sizes = {LOG: tail.size, **{suffix: len(data) for suffix, data in indexes.items()}}
        return Segment(disk, "", remote.start_offset, sizes, 0)

    def _read_of(self, remote: RemoteSegment, name: str) -> Callable[[int, int], Content]:
        """Return a function that reads records of the segment by position and length."""
        segment_id, size = remote.id, remote.size

        def read(position: int, length: int) -> Content:
            end = min(position + length, size)
            pieces: list[Content] = []
            while position < end:
                number, at = divmod(position, CHUNK_BYTES)
                chunk = self._load(segment_id, name, number, size)
                piece = memoryview(chunk)[at : at + end - position]
                pieces.append(piece)
                position += len(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)

        return read

    def _load(self, segment_id: Uuid, name: str, number: int, size: int) -> Content:
        """Get a chunk from memory, from a thread that is fetching it, or from the store."""
        key, mine = (segment_id, number), Future[Content]()
        with self._mutex:
            chunk = self._chunks.get(key)
            if chunk is not None:
                return chunk
            if reads.non_blocking:
                raise WouldBlock
            in_progress = self._in_progress.get(key)
            if in_progress is None:
                self._in_progress[key] = mine
        if in_progress is not None:
            return in_progress.result()
        try:
            chunk = self._fetch(name, number, size)
            self._chunks.put(key, chunk, len(chunk))
            mine.set_result(chunk)
            return chunk
        except BaseException as e:
            mine.set_exception(e)
            raise
        finally:
            with self._mutex:
                del self._in_progress[key]

    def _fetch(self, name: str, number: int, size: int) -> Content:
        start = number * CHUNK_BYTES
        wanted = min(CHUNK_BYTES, size - start)
        chunk = self._storage.get(name, start, wanted)
        self._fetched(len(chunk))
        if len(chunk) < wanted:
            raise RemoteStorageError(
                f"{name}: {len(chunk)} of {wanted} bytes at {start} were received"
            )
        return chunk

    # --- ahead of consumers ---

    def ahead(self, remote: RemoteSegment) -> list[int]:
        """Return the chunks of a segment to fetch ahead of the consumer that has just read it. If
        it does not read in sequence, there are none."""
        last, segment_id = self._last.get(remote.id), remote.id
        if last is None or (last and self._chunks.get((segment_id, last - 1)) is None):
            return []
        due: list[int] = []
        with self._mutex:
            self._unused = {
                key for key in self._unused if key in self._in_progress or self._chunks.get(key)
            }
            for number in range(last + 1, last + 1 + AHEAD):
                key = (segment_id, number)
                is_there = key in self._unused or key in self._in_progress or self._chunks.get(key)
                is_part = number * CHUNK_BYTES < remote.size
                if is_part and not is_there and len(self._unused) < AHEAD_MAX:
                    self._unused.add(key)
                    due.append(number)
        return due

    def load_ahead(self, remote: RemoteSegment, number: int) -> None:
        """Fetch a chunk that `ahead` returned."""
        self._load(remote.id, self.name_of(remote), number, remote.size)


def remote_file(storage: RemoteStorage, name: str, tail: Tail) -> File:
    """Return the records of an object as a file. Nothing is kept in memory."""

    def read(position: int, length: int) -> Content:
        return storage.get(name, position, min(length, max(tail.size - position, 0)))

    return _RemoteFile(name, tail.size, tail.head, read)


def _read_only() -> OSError:
    return OSError(errno.EROFS, "remote segments are not written")


class _ReadOnlyFile:
    """A file of a `_RemoteDisk`. Every operation that would change it fails."""

    path: str

    def pwrite(self, data: Data, position: int) -> None:
        raise _read_only()

    def pwritev(self, pieces: Sequence[Data], position: int) -> None:
        raise _read_only()

    def truncate(self, length: int) -> None:
        raise _read_only()

    def allocate(self, length: int) -> None:
        raise _read_only()

    def extend(self, length: int) -> None:
        raise _read_only()

    def rename(self, path: str) -> None:
        raise _read_only()

    def sync(self) -> None: ...
    def close(self) -> None: ...
    def pin(self) -> None: ...
    def unpin(self) -> None: ...

    def fileno(self) -> int | None:
        return None

    def resident(self, position: int, length: int) -> bool:
        return True

    def pread(self, length: int, position: int) -> bytes:
        raise NotImplementedError

    def slice(self, position: int, length: int) -> Slice:
        return BytesSlice(self.pread(length, position))


class _BytesFile(_ReadOnlyFile):
    """An index in memory."""

    def __init__(self, path: str, content: bytes | None) -> None:
        self.path = path
        self._content = content

    def pread(self, length: int, position: int) -> bytes:
        if self._content is None:
            raise FileNotFoundError(errno.ENOENT, "no such index", self.path)
        return self._content[position : position + length]

    def size(self) -> int:
        return len(self._content or b"")


class _RemoteFile(_ReadOnlyFile):
    """The records in the store."""

    def __init__(
        self, path: str, size: int, head: bytes, read: Callable[[int, int], Content]
    ) -> None:
        self.path = path
        self._size = size
        self._head = head
        self._read = read

    def pread(self, length: int, position: int) -> bytes:
        if position + length <= len(self._head):
            return self._head[position : position + length]
        return bytes(self._read(position, length))

    def slice(self, position: int, length: int) -> Slice:
        """Like `pread`, but chunks in memory are not copied."""
        return BytesSlice(self._read(position, length))

    def size(self) -> int:
        return self._size


class _RemoteDisk(Disk):
    """The files of one remote segment, by their suffixes."""

    read_failed = staticmethod(ignore_failed_read)

    def __init__(self, records: _RemoteFile, indexes: dict[str, bytes]) -> None:
        self._records = records
        self._indexes = indexes

    def open(self, path: str) -> Any:
        suffix = path[path.rindex(".") :]
        if suffix == LOG:
            return self._records
        return _BytesFile(f"{self._records.path}{suffix}", self._indexes.get(suffix))

    def exists(self, path: str) -> bool:
        return True

    def list(self, path: str, unmeasured: Collection[str] = ()) -> dict[str, Entry]:
        raise _read_only()

    def stamp(self, path: str) -> Stamp:
        raise _read_only()

    def make(self, path: str) -> None:
        raise _read_only()

    def rename(self, old: str, new: str) -> None:
        raise _read_only()

    def remove(self, path: str) -> None:
        raise _read_only()

    def remove_tree(self, path: str) -> None:
        raise _read_only()

    def sync_dir(self, path: str) -> None:
        raise _read_only()

    def sync_all(self, paths: Collection[str]) -> bool:
        return False

    def read(self, path: str) -> bytes:
        raise _read_only()

    def write(
        self, path: str, data: bytes, *, sync: bool = True, sync_name: bool | None = None
    ) -> None:
        raise _read_only()

    def lock(self, path: str, text: str) -> Lock:
        raise _read_only()

    def free_bytes(self, path: str) -> tuple[int, int]:
        raise _read_only()
