"""Compaction (Apache's log cleaner): keeps the last record of every key, with its offset.

There are two passes. The first reads the dirty part and puts the last offset of each key into a map
of bounded memory. The second reads the log from its beginning, leaves out records that are older
than the map's offset for their key, and merges adjacent small segments. So no search through
earlier records is needed for any key.

Other data that is kept:

    tombstones (null values)   for `delete.retention.ms` from the round that first read them: it
                               writes the end of that time into their batch as its delete horizon,
                               after which a later round drops them
    ends of transactions       while a record of the transaction is kept, then until their own
                               delete horizon
    batches without records    if they carry the last sequence of an active producer, or the
                               round's last offset

Records without a key and records of aborted transactions are removed. A full map ends the round at
the offset reached.

`clean` is a generator over blocking file work: its caller (a separate process, or a thread) runs
the steps one by one, paces them by the bytes that they report, and may stop after any step. A
finished group of segments is one new segment, whose synced `.cleaned` files are next to the old
ones; swap.py replaces the group with it. Nothing here changes the log itself.
"""

import contextlib
from collections.abc import Generator, Iterable, Iterator
from itertools import zip_longest
from typing import Final, NamedTuple, TypeAlias

from pk.core.log.cleaned_segment import CleanedSegment, remove_cleaned
from pk.core.log.compaction.batch_filter import Entry, emptied, entries, filtered
from pk.core.log.compaction.job import Job
from pk.core.log.compaction.keymap import KeyMap
from pk.core.log.files import Disk, File
from pk.core.log.segment import LOG, Part, file_name
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_END,
    LOGGED_BYTES_MAX,
    BatchHeader,
    CorruptBatch,
    body,
    check_crc,
    read_header,
    records,
)
from pk.core.record.build import ControlType, control_type

GROUP_SEGMENTS_MAX: Final = 64
"""The maximum number of segments merged into one, since all their files are renamed in one turn of
the event loop."""

_INT32_MAX: Final = (1 << 31) - 1


class Worked(NamedTuple):
    """The number of bytes read and written since the last step."""

    bytes: int


class Cleaned(NamedTuple):
    """A group of segments is compacted: the `.cleaned` files are durable, and may replace
    `replaced`."""

    base_offset: int
    replaced: tuple[Part, ...]
    sizes: dict[str, int]
    """The sizes of the `.cleaned` files, by suffix."""


class Done(NamedTuple):
    """The round has ended: all records below `first_dirty_offset` are compacted."""

    first_dirty_offset: int
    keys: int
    full: bool
    """Whether the map was full, so that another round is needed."""


Step: TypeAlias = Worked | Cleaned | Done


def clean(disk: Disk, job: Job) -> Generator[Step, None, None]:
    """Run the job, step by step. The last step is Done. Raises OSError, and CorruptBatch or
    KafkaError if a batch is invalid."""
    keys = KeyMap(job.keys_max)
    full = yield from _map(disk, job, keys)
    end = keys.latest + 1 if full else job.end_offset
    transactions = Transactions(job.aborted)
    for group in groups(job, end):
        yield from _clean_group(disk, job, group, keys, transactions)
    yield Done(end, len(keys), full)


class Transactions:
    """Tracks which batches belong to aborted transactions, and which markers end a transaction that
    has no records left."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._due = sorted(aborted, key=lambda a: -a.first_offset)
        self._aborting: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()
        """Producers with batches in their transaction that is open at the current position."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Process a batch of data. Returns whether its transaction was aborted."""
        self._go_to(header.last_offset)
        if not header.is_transactional:
            return False
        self._seen.add(header.producer_id)
        return header.producer_id in self._aborting

    def ended(
        self, header: BatchHeader, kind: ControlType | None
    ) -> tuple[bool, AbortedTxn | None]:
        """Process a control batch. Returns whether no batch of its transaction is left, and the
        aborted transaction to index, if any."""
        self._go_to(header.last_offset)
        if kind is ControlType.ABORT:
            aborted = self._aborting.pop(header.producer_id, None)
            left = header.producer_id in self._seen and aborted is not None
            self._seen.discard(header.producer_id)
            return not left, aborted if left else None
        if kind is ControlType.COMMIT:
            left = header.producer_id in self._seen
            self._seen.discard(header.producer_id)
            return not left, None
        return False, None

    def _go_to(self, offset: int) -> None:
        due = self._due
        while due and due[-1].first_offset <= offset:
            aborted = due.pop()
            self._aborting.setdefault(aborted.producer_id, aborted)


def groups(job: Job, end: int) -> Iterator[tuple[Part, ...]]:
    """Yield groups of adjacent segments below `end` that fit into one segment."""
    group: list[Part] = []
    size = index_bytes = time_index_bytes = 0
    for i, part in enumerate(job.parts):
        if part.base_offset >= end:
            break
        after = job.parts[i + 1].base_offset if i + 1 < len(job.parts) else job.end_offset
        if group and (
            size + part.size > job.segment_bytes
            or index_bytes + part.index_bytes > job.index_bytes_max
            or time_index_bytes + part.time_index_bytes > job.index_bytes_max
            or after - 1 - group[0].base_offset > _INT32_MAX
            or len(group) >= GROUP_SEGMENTS_MAX
        ):
            yield tuple(group)
            group.clear()
            size = index_bytes = time_index_bytes = 0
        group.append(part)
        size += part.size
        index_bytes += part.index_bytes
        time_index_bytes += part.time_index_bytes
    if group:
        yield tuple(group)


def _map(disk: Disk, job: Job, keys: KeyMap) -> Generator[Worked, None, bool]:
    """Fill the map. Returns whether it became full."""
    first = job.first_dirty_offset
    # Skip earlier transactions: their markers are not read here, so they would seem to stay open.
    transactions = Transactions(a for a in job.aborted if a.last_offset >= first)
    ends = _ends(job)
    for part in job.parts:
        if ends[part] <= first:
            continue
        unpaced = 0
        with _reading(disk, job, part) as file:
            for header, batch in _batches(file, part, ends[part], job.buffer_bytes):
                unpaced += header.size
                if header.attributes & CONTROL_BIT:
                    transactions.ended(header, _marker(batch, header))
                elif (
                    not transactions.is_aborted(header)
                    and header.last_offset >= first
                    and not _note(header, batch, keys, first)
                ):
                    return True
                keys.latest = max(keys.latest, header.last_offset)
                if unpaced >= job.buffer_bytes:
                    yield Worked(unpaced)
                    unpaced = 0
        yield Worked(unpaced)
    return False


def _note(header: BatchHeader, batch: bytes, keys: KeyMap, first: int) -> bool:
    """Put the keys of a batch into the map. Returns False if it became full."""
    base, put = header.base_offset, keys.put
    for _, _, delta, key, _ in entries(bytes(body(batch, header, LOGGED_BYTES_MAX)), header.count):
        if key is not None and base + delta >= first and not put(key, base + delta):
            return False
    return True


def _clean_group(
    disk: Disk,
    job: Job,
    group: tuple[Part, ...],
    keys: KeyMap,
    transactions: Transactions,
) -> Iterator[Step]:
    base = group[0].base_offset
    remove_cleaned(disk, job.directory, base)
    ends = _ends(job)
    writer = CleanedSegment(
        disk, job.directory, base, job.now_ms, job.index_interval_bytes, job.buffer_bytes
    )
    try:
        for part in group:
            unpaced = 0
            with _reading(disk, job, part) as file:
                for header, batch in _batches(file, part, ends[part], job.buffer_bytes):
                    kept, aborted = _clean_batch(job, header, batch, keys, transactions)
                    if aborted is not None:
                        writer.index_aborted(aborted)
                    unpaced += header.size
                    if kept is not None:
                        writer.add(kept)
                        unpaced += len(kept)
                    if unpaced >= job.buffer_bytes:
                        yield Worked(unpaced)
                        unpaced = 0
            yield Worked(unpaced)
        yield Cleaned(base, group, writer.finish())
    finally:
        writer.close()


def _clean_batch(
    job: Job,
    header: BatchHeader,
    batch: bytes,
    keys: KeyMap,
    transactions: Transactions,
) -> tuple[bytes | bytearray | None, AbortedTxn | None]:
    """Compact a batch. Returns the rest of it, and the aborted transaction that its marker ends, if
    that must be indexed."""
    horizon, now_ms = header.delete_horizon_ms, job.now_ms
    aborted = None
    over = horizon is not None and horizon <= now_ms
    if header.attributes & CONTROL_BIT:
        nothing_left, aborted = transactions.ended(header, _marker(batch, header))
        drop = nothing_left and over
    else:
        nothing_left = False
        drop = transactions.is_aborted(header)
    kept: bytes | bytearray | None = None
    if not drop and header.count:

        def choose(there: list[Entry]) -> list[Entry]:
            if header.attributes & CONTROL_BIT:
                return there
            return _last(there, header.base_offset, keys, drop_tombstones=over)

        kept, _ = filtered(batch, header, choose, now_ms + job.delete_retention_ms, nothing_left)
    if kept is None and (_is_last_of_producer(job, header) or header.last_offset == keys.latest):
        kept = emptied(header)
    return kept, aborted


def _last(there: list[Entry], base: int, keys: KeyMap, *, drop_tombstones: bool) -> list[Entry]:
    """Select the records whose key has no later record in the map. (Hot: one iteration per record
    of the log.)"""
    latest, last = keys.latest, keys.last
    kept: list[Entry] = []
    for entry in there:
        _, _, delta, key, has_value = entry
        offset = base + delta
        if offset > latest or (
            key is not None and offset >= last(key) and (has_value or not drop_tombstones)
        ):
            kept.append(entry)
    return kept


def _is_last_of_producer(job: Job, header: BatchHeader) -> bool:
    """Return whether the batch has the last sequence of an active producer or, if none is known, a
    marker of its epoch."""
    if header.producer_id < 0:
        return False
    for producer_id, last_offset, epoch in job.producers:
        if producer_id == header.producer_id:
            if last_offset >= 0:
                return header.last_offset == last_offset
            return header.is_control and header.producer_epoch == epoch
    return False


def _marker(batch: bytes, header: BatchHeader) -> ControlType | None:
    record = next(records(batch, header), None)
    return control_type(record) if record is not None else None


@contextlib.contextmanager
def _reading(disk: Disk, job: Job, part: Part) -> Generator[File]:
    file = disk.open(f"{job.directory}/{file_name(part.base_offset, LOG)}")
    try:
        yield file
    finally:
        file.close()


def _ends(job: Job) -> dict[Part, int]:
    """Return the offset at which each part ends, which is the start of the next one."""
    return {
        part: following.base_offset if following is not None else job.end_offset
        for part, following in zip_longest(job.parts, job.parts[1:])
    }


def _batches(
    file: File, part: Part, end_offset: int, buffer_bytes: int
) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the header and the bytes of each batch. Checks the CRC and the offsets, which the CRC
    does not cover: they must increase from the part's base offset and stay below `end_offset`.
    Raises OSError, CorruptBatch."""
    position, chunk, chunk_at = 0, b"", 0
    size, offset = part.size, part.base_offset
    while position < size:
        at = position - chunk_at
        length = HEADER_BYTES
        if at + LENGTH_END <= len(chunk):
            length = (
                int.from_bytes(chunk[at + 8 : at + LENGTH_END], "big", signed=True) + LENGTH_END
            )
        if at + max(length, HEADER_BYTES) > len(chunk):
            chunk_at, at = position, 0
            chunk = file.pread(min(max(buffer_bytes, length), size - position), position)
            length = int.from_bytes(chunk[8:LENGTH_END], "big", signed=True) + LENGTH_END
            if length > len(chunk) and len(chunk) < size - position:
                chunk = file.pread(min(length, size - position), position)
        try:
            header = read_header(chunk, at)
            check_crc(chunk, at, header)
        except CorruptBatch as e:
            raise CorruptBatch(f"{file.path} at position {position}: {e}") from e
        if not offset <= header.base_offset <= header.last_offset < end_offset:
            raise CorruptBatch(
                f"{file.path} at position {position}: offsets {header.base_offset} to "
                f"{header.last_offset}, {offset} to {end_offset - 1} could be"
            )
        offset = header.next_offset
        yield header, chunk[at : at + header.size]
        position += header.size
