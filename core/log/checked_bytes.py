"""Tracks which bytes of a segment are known to be valid batches, and which are known to be damaged.

A fetch goes from the file to the socket without being inspected, so the bytes must be checked
earlier. Appending and recovery check each batch's CRC. Batches that were in a segment when it was
opened, or that come from the disk again because the page cache had dropped them, are checked when
they are first read (`Segment.checked_length`), in the thread that waits for the disk in any case.
Kafka's brokers do not check them: each consumer must detect a flipped bit.

Runs begin and end at batch boundaries. A run may be too short without harm: bytes outside of runs
are checked again.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from pk.core.log.files import File
from pk.core.record.batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    crc_of,
)

READ_BYTES: Final = 1 << 20
"""Bytes read at a time; a larger batch is read in pieces."""

RUNS_MAX: Final = 1000
"""The maximum number of runs. Further runs are not recorded: the reads are scattered, and may wait
for another check."""

_make_header = BatchHeader._make


def checked_batches(
    file: File, position: int, end: int, chunk: bytes = b""
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch from `position` on that ends at or before `end`.
    `chunk` is data that was already read from `position`. Raises CorruptBatch at a damaged batch
    (an impossible header or a wrong CRC), and OSError."""
    chunk_at = position
    while end - position >= HEADER_BYTES:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = file.pread(min(READ_BYTES, end - position), position), position, 0
            if len(chunk) < HEADER_BYTES:
                return  # the file was truncated in the meantime
        base, length, epoch, magic, crc, attributes, delta, *rest = HEADER.unpack_from(chunk, at)
        size = length + LENGTH_END
        if size < HEADER_BYTES or magic != MAGIC or delta < 0:
            raise CorruptBatch(f"{file.path} at position {position}: no batch")
        if size > end - position:
            return
        if at + size > len(chunk):
            wanted = min(READ_BYTES, end - position)
            chunk, chunk_at, at = file.pread(wanted, position), position, 0
        actual = _crc(file, position, size, chunk, at)
        if actual != crc:
            raise CorruptBatch(
                f"{file.path} at position {position}: "
                f"CRC is {actual:08x}, the batch at offset {base} says {crc:08x}"
            )
        yield position, _make_header((base, size, epoch, magic, crc, attributes, delta, *rest))
        position += size


def header_of(chunk: bytes, at: int) -> BatchHeader:
    """Unpack the bytes at `at` as a batch header, even if they are not one."""
    base, length, *rest = HEADER.unpack_from(chunk, at)
    return _make_header((base, length + LENGTH_END, *rest))


def has_its_crc(file: File, position: int, header: BatchHeader, chunk: bytes, at: int) -> bool:
    """Return whether a batch, at `position` in the file and at `at` in `chunk`, matches the CRC in
    its header. Raises OSError."""
    return _crc(file, position, header.size, chunk, at) == header.crc


def _crc(file: File, position: int, size: int, chunk: bytes, at: int) -> int:
    """Compute the CRC of the batch that begins at `at` in `chunk`. The part of it that is not in
    `chunk` is read in pieces."""
    with memoryview(chunk) as view:
        crc = crc_of(view[at + ATTRIBUTES_AT : at + size])
        done = min(len(chunk) - at, size)
    while done < size:
        piece = file.pread(min(READ_BYTES, size - done), position + done)
        if not piece:
            break
        crc = crc_of(piece, crc)
        done += len(piece)
    return crc


class CheckedBytes:
    """The bytes of one segment that are known to be valid. The event loop and threads use it
    without a lock: tuples are replaced as a whole, and a change lost to a race only costs another
    check."""

    __slots__ = ("_from", "_runs", "damaged")

    def __init__(self, size: int) -> None:
        """`size` bytes are in the segment already. Later bytes are checked by the code that appends
        them."""
        self._from = size
        self._runs: tuple[tuple[int, int], ...] = ()
        self.damaged: dict[int, str] = {}
        """Position of a batch → its damage."""

    def end(self, position: int, size: int) -> int:
        """Return the end of the valid bytes from `position` on, or `position` if the bytes there
        are unchecked. `size` is the segment's size."""
        if position >= self._from:
            return size
        runs = self._runs
        i = bisect_right(runs, (position, size)) - 1
        if i < 0 or runs[i][1] <= position:
            return position
        end = runs[i][1]
        return size if end >= self._from else end

    def add(self, start: int, end: int) -> None:
        """Record that the bytes from `start` to `end` were checked."""
        runs: list[tuple[int, int]] = []
        for run in self._runs:
            if run[1] < start or run[0] > end:
                runs.append(run)
            else:
                start, end = min(start, run[0]), max(end, run[1])
        if end >= self._from:
            self._from = min(self._from, start)
        elif len(runs) < RUNS_MAX:
            runs.append((start, end))
        self._runs = tuple(sorted(run for run in runs if run[0] < self._from))

    def forget(self, start: int, end: int) -> None:
        """Mark the bytes from `start` to `end` as unchecked, since they will be read from the disk
        again."""
        known = [*self._runs]
        if self._from < end:
            known.append((self._from, end))
            self._from = end
        runs: list[tuple[int, int]] = []
        for run in known:
            runs += [(run[0], min(run[1], start)), (max(run[0], end), run[1])]
        self._runs = tuple(sorted(run for run in runs if run[0] < run[1]))

    def cut(self, size: int) -> None:
        """Forget the bytes from `size` on: the segment was truncated there, and the next append
        writes there."""
        self._from = min(self._from, size)
        self._runs = tuple((a, min(b, size)) for a, b in self._runs if a < self._from)
        self.damaged = {at: why for at, why in self.damaged.items() if at < size}
