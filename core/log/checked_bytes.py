"""Which bytes of a segment are known to be sound batches, and which are known not to be.

A fetch goes from the file to the socket without a look at it, so somebody else must have looked.
The code that appends checks each batch's CRC, and recovery does; what lay in a segment when it was
opened, and what comes from the disk again because the page cache had let it go, is checked when it
is read for the first time (`Segment.checked_length`), in the thread that waits for the disk anyway.
Kafka's brokers look at none of it and leave a flipped bit to each consumer.

Runs begin and end where batches do. A run is never wrong for being too short: what is not in one is
looked at again.
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
"""Read at a time; of a batch that is larger, in pieces."""

RUNS_MAX: Final = 1000
"""More than that are forgotten: somebody reads here and there, and may wait again."""

_make_header = BatchHeader._make


def checked_batches(
    file: File, position: int, end: int, chunk: bytes = b""
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from `position` on that ends by `end`; `chunk` is what has
    been read from there already. Raises CorruptBatch at one that is damaged: a header that cannot
    be, a CRC that is wrong; OSError."""
    chunk_at = position
    while end - position >= HEADER_BYTES:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = file.pread(min(READ_BYTES, end - position), position), position, 0
            if len(chunk) < HEADER_BYTES:
                return  # the file was cut meanwhile
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
    """What would be a batch's header at `at`, whatever it says."""
    base, length, *rest = HEADER.unpack_from(chunk, at)
    return _make_header((base, length + LENGTH_END, *rest))


def has_its_crc(file: File, position: int, header: BatchHeader, chunk: bytes, at: int) -> bool:
    """Whether the bytes of a batch at `position` of the file, and at `at` in `chunk`, have the CRC
    that its header says. Raises OSError."""
    return _crc(file, position, header.size, chunk, at) == header.crc


def _crc(file: File, position: int, size: int, chunk: bytes, at: int) -> int:
    """Of the batch whose begin lies at `at` in `chunk`; the rest is read in pieces."""
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
    """What is known of one segment. The loop and threads call it without a lock: tuples are
    replaced whole, and a change that gets lost between two of them costs another look."""

    __slots__ = ("_from", "_runs", "damaged")

    def __init__(self, size: int) -> None:
        """`size` bytes were there before; what is appended behind them is checked by who does
        it."""
        self._from = size
        self._runs: tuple[tuple[int, int], ...] = ()
        self.damaged: dict[int, str] = {}
        """Position of a batch → what is wrong with it."""

    def end(self, position: int, size: int) -> int:
        """Up to where all is sound from `position` on; `position` itself where nothing is known of
        it. `size` is the segment's."""
        if position >= self._from:
            return size
        runs = self._runs
        i = bisect_right(runs, (position, size)) - 1
        if i < 0 or runs[i][1] <= position:
            return position
        end = runs[i][1]
        return size if end >= self._from else end

    def add(self, start: int, end: int) -> None:
        """All of it was checked."""
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
        """It comes from the disk again: what was known is not any more."""
        known = [*self._runs]
        if self._from < end:
            known.append((self._from, end))
            self._from = end
        runs: list[tuple[int, int]] = []
        for run in known:
            runs += [(run[0], min(run[1], start)), (max(run[0], end), run[1])]
        self._runs = tuple(sorted(run for run in runs if run[0] < run[1]))

    def cut(self, size: int) -> None:
        """The segment ends at `size` now, and will be written on from there."""
        self._from = min(self._from, size)
        self._runs = tuple((a, min(b, size)) for a, b in self._runs if a < self._from)
        self.damaged = {at: why for at, why in self.damaged.items() if at < size}
