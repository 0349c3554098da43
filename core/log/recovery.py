"""Opens a log: finds the files in its directory, and decides which of them can be trusted and at
which offset the log ends.

After a clean shutdown nothing is read, since a note was written when the log was closed
(closed_logs.py). If the note is missing, or the files have changed since, the directory is listed:
the end offset is in the name of the snapshot that was written at close, and equals the recovery
point. Everything else is read at first use.

After a crash everything above the recovery point is suspect. From the segment that contains it on,
every batch is read and checked (size, magic, CRC, increasing offsets and leader epochs) and the
indexes are rebuilt; at the first incomplete batch the log is truncated and later segments are
dropped. Data below the recovery point was synced before the recovery point moved, so only missing
segments are detected there.

If more must be truncated than the torn tail that a crash leaves, the log is marked as damaged, and
the truncated data is kept (damaged.py).

The CRC of a batch does not cover its offset and leader epoch. If they do not fit those of the
batches before and after it, they are wrong, and the log is truncated before that batch: a log with
a wrongly high end or epoch would be considered the longest (core/meta/unclean_recovery.py).

The producer state comes from the newest readable snapshot that is not above the end, and the
headers after it.
"""

import contextlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, field

from pk.core.log.checked_bytes import READ_BYTES, checked_batches, header_of
from pk.core.log.checkpoints import PARTITION_METADATA
from pk.core.log.damaged import MARK, Damage, Keeper
from pk.core.log.epochs import EpochStart, LeaderEpochs
from pk.core.log.files import Disk
from pk.core.log.oldformat import begins_with_message
from pk.core.log.producers import EMPTY_SNAPSHOT_BYTES
from pk.core.log.reindex import OFFSETS_MAX
from pk.core.log.segment import (
    DELETED,
    INDEX,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    BatchPosition,
    Segment,
    file_name,
)
from pk.core.record.batch import (
    CONTROL_BIT,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    CorruptBatch,
    Record,
    records,
)
from pk.core.values import NO_EPOCH, new_dict, new_list

LEFTOVERS: Final = (DELETED, ".cleaned", ".tmp")
"""Suffixes of files that a crash left incomplete or that were due to be removed."""

EPOCHS_FILE: Final = "leader-epoch-checkpoint"

UNMEASURED_NAMES: Final = (EPOCHS_FILE, PARTITION_METADATA)
"""Names whose size is not needed, which saves two system calls for each of 50,000 logs."""


class LogFiles(Struct):
    """The files of a partition's directory."""

    segments: dict[int, dict[str, int]] = field(default_factory=new_dict)
    """Base offset → the sizes of the segment's files by suffix."""
    modified_ms: dict[int, int] = field(default_factory=new_dict)
    snapshots: list[int] = field(default_factory=new_list)
    snapshot_bytes: dict[int, int] = field(default_factory=new_dict)
    leftovers: list[str] = field(default_factory=new_list)
    without_log: list[int] = field(default_factory=new_list)
    """Base offsets of segments that have indexes but no log, although no crash while they were
    dropped explains it."""
    swaps: list[str] = field(default_factory=new_list)
    """All names in the directory, if one shows that a crash interrupted a swap (swap.py); otherwise
    none."""
    has_epochs: bool = False
    is_marked: bool = False
    """Whether the log was found damaged before (damaged.py)."""


class Contents(NamedTuple):
    """The contents of a closed log that are needed to open it."""

    found: LogFiles
    end_offset: int
    epochs: LeaderEpochs


class RecoveryResult(NamedTuple):
    """The result of recovery: the end of the log, the amount truncated, and facts about the
    remaining batches that were checked, so that they need not be read again."""

    end_offset: int
    bytes_cut: int
    segments_dropped: int
    epochs: Sequence[EpochStart] = ()
    """The start of each leader epoch in these batches; epochs only rise."""
    has_producers: bool = True
    """Whether one of these batches belongs to an idempotent producer, or ends a transaction."""
    rewritten: bool = False
    """Whether a segment had messages of an old format, and so has new files."""


class Progress(Protocol):
    """Receives the progress of recovery, in bytes of records. Several threads call it."""

    def due(self, count: int) -> None:
        """Add to the number of bytes to check."""
        ...

    def checked(self, count: int) -> None:
        """Add to the number of bytes checked."""
        ...


PROGRESS_BYTES: Final = 16 << 20
"""The number of bytes checked between two reports."""


def find(disk: Disk, directory: str) -> LogFiles:
    """List a partition's directory. Raises OSError."""
    found = LogFiles()
    names = disk.list(directory, UNMEASURED_NAMES)
    if any(name.endswith(".swap") for name in names):
        found.swaps = list(names)
    for name, entry in names.items():
        stem, dot, rest = name.partition(".")
        if dot and len(stem) == 20 and stem.isdigit():
            suffix = dot + rest
            if suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                found.segments.setdefault(int(stem), {})[suffix] = entry.size
                if suffix == LOG:
                    found.modified_ms[int(stem)] = entry.modified_ms
            elif suffix == SNAPSHOT:
                found.snapshots.append(int(stem))
                found.snapshot_bytes[int(stem)] = entry.size
            elif name.endswith(LEFTOVERS):
                found.leftovers.append(name)
        elif name == EPOCHS_FILE:
            found.has_epochs = True
        elif name == MARK:
            found.is_marked = True
        elif name.endswith(LEFTOVERS):
            found.leftovers.append(name)
    for base, sizes in list(found.segments.items()):
        if LOG not in sizes:  # an index whose log is gone
            found.leftovers += [file_name(base, suffix) for suffix in sizes]
            del found.segments[base]
            if not _is_being_dropped(names, base, sizes):
                found.without_log.append(base)
    last = max(found.segments, default=-1)
    # The last one may have been created just before the crash.
    found.without_log = sorted(base for base in found.without_log if base < last)
    return found


def _is_being_dropped(names: Collection[str], base: int, kinds: Iterable[str]) -> bool:
    """Return whether a segment has indexes of these kinds but no log because a crash interrupted
    its removal, which renames the log first. Files that have all been renamed belong to an earlier
    segment, such as one that compaction replaced."""
    log = file_name(base, LOG)
    suffixes = [name.removeprefix(log) for name in names if name.startswith(log)]
    # The earlier segment may have had no index of aborted transactions.
    asked = [kind for kind in kinds if kind != TXN_INDEX] or [TXN_INDEX]
    return any(
        file_name(base, kind) + suffix not in names
        for kind in asked
        for suffix in suffixes
        if suffix.endswith(DELETED)
    )


def clean_end_offset(found: LogFiles, segments: list[Segment], recovery_point: int) -> int | None:
    """Return the end of a cleanly closed log if the names and sizes of its files show it, otherwise
    None."""
    last = segments[-1]
    if not last.size:
        return last.base_offset
    newest = found.snapshots[-1] if found.snapshots else -1
    return newest if newest == recovery_point and newest > last.base_offset else None


def scanned_end_offset(segment: Segment) -> int:
    """Find the end of a log whose last segment can be trusted, from its index and the headers after
    the last entry. Raises OSError."""
    segment.check_indexes()
    end = segment.base_offset
    for position, header in segment.headers_at_end():
        if position + header.size <= segment.size:  # otherwise it is torn
            end = header.next_offset
    return end


class _Discontinuity(NamedTuple):
    """A batch that does not begin at the end of the previous one, or that changes the leader
    epoch."""

    position: int
    offset: int
    """The end of the previous batch."""
    epoch: int
    """The latest leader epoch before it."""
    header: BatchHeader

    def is_inconsistent(self, following: BatchHeader) -> bool:
        """Return whether the batch fits neither the batch before it nor `following`."""
        count = self.header.last_offset_delta + 1
        if following.base_offset < self.header.next_offset:
            return following.base_offset == self.offset + count
        epoch, own = following.leader_epoch, self.header.leader_epoch
        return max(self.epoch, 0) <= epoch < own or 0 <= own < self.epoch <= epoch

    def is_inconsistent_at_end(self, following: Sequence[Segment], *, dense: bool) -> bool:
        """Like `is_inconsistent`, for the last batch of a segment, which is compared with the first
        batch of the next segment."""
        for segment in following[:1]:
            chunk = segment.file.pread(HEADER_BYTES, 0)
            if len(chunk) == HEADER_BYTES and chunk[MAGIC_AT] == MAGIC:
                return self.is_inconsistent(header_of(chunk, 0))
        return dense and self.header.base_offset > self.offset


def has_no_producers(found: LogFiles, checked: RecoveryResult) -> bool:
    """Return whether no snapshot and no checked batch has a producer."""
    return not checked.has_producers and all(
        size == EMPTY_SNAPSHOT_BYTES for size in found.snapshot_bytes.values()
    )


def suspect_from(segments: list[Segment], recovery_point: int) -> int:
    """Return the index of the first segment that a crash may have affected."""
    return max(bisect_right([s.base_offset for s in segments], recovery_point) - 1, 0)


class Recovery(NamedTuple):
    """Checks and repairs the segments of a log that was not closed."""

    keeper: Keeper
    """Called before data is truncated."""
    index_interval_bytes: int
    progress: Progress | None = None
    dense: bool = False
    """Whether no offset was ever removed from the log."""

    def run(
        self, segments: list[Segment], recovery_point: int
    ) -> tuple[list[Segment], RecoveryResult]:
        """Check everything from the segment that contains the recovery point on. Returns the
        remaining segments, the last of which is active. Raises OSError.

        A segment must end at the offset at which the next one begins. Otherwise, the data in
        between is lost, and everything after it must be dropped, too. (Compaction may remove the
        end of a segment, but then the recovery point is above it.)
        """
        first = suspect_from(segments, recovery_point)
        if first and segments[first].base_offset == recovery_point:
            segments[first - 1].repair_seal()
        if self.progress is not None:
            self.progress.due(sum(segment.size for segment in segments[first:]))
        cut_bytes, epochs, has_producers, rewritten = 0, list[EpochStart](), False, False
        for i in range(first, len(segments)):
            rest = segments[i + 1 :]
            cut = self._check(segments[i], rest, epochs[-1].epoch if epochs else NO_EPOCH)
            cut_bytes += cut.bytes_cut
            epochs += [e for e in cut.epochs if not epochs or e.epoch > epochs[-1].epoch]
            has_producers |= cut.has_producers
            rewritten |= cut.rewritten
            if not rest or cut.end_offset != rest[0].base_offset:
                cut_bytes += sum(gone.size for gone in rest)
                self._drop(rest, cut.end_offset)
                done = RecoveryResult(
                    cut.end_offset, cut_bytes, len(rest), epochs, has_producers, rewritten
                )
                return segments[: i + 1], done
            segments[i].deactivate()
        raise AssertionError("a log has at least one segment")

    def _drop(self, segments: list[Segment], end_offset: int) -> None:
        """Drop the segments after the end of the log. Raises OSError."""
        keeper = self.keeper
        if keeper.mark is None and any(one.size for one in segments):
            keeper.mark_damaged(Damage.MISSING_FILE, end_offset, segments[-1].base_offset)
        for gone in segments:
            for path in keeper.drop(gone):
                keeper.disk.remove(path)

    def _check(
        self, segment: Segment, following: list[Segment], latest: int, limit: int | None = None
    ) -> RecoveryResult:
        """Read a whole segment, rebuild its indexes, and truncate it after its last valid batch. A
        batch is not valid if it reaches the first segment in `following`, or lies at or after
        position `limit`. `latest` is the leader epoch of the previous batch, if known. Raises
        OSError.

        Afterwards the segment is active, and its index of aborted transactions is empty.
        """
        head, outdated = segment.file.pread(min(READ_BYTES, segment.size), 0), 0
        if rewritten := begins_with_message(head):
            outdated, head = segment.modernize(repair=True) or 0, b""
        offset_max = (
            following[0].base_offset if following else segment.base_offset + OFFSETS_MAX
        ) - 1
        segment.rebuild_started()
        end_offset, end_position, reported, size = segment.base_offset, 0, 0, segment.size
        epochs, has_producers, epoch_before = list[EpochStart](), False, latest
        discontinuity: _Discontinuity | None = None
        odd: int | None = None
        with contextlib.suppress(CorruptBatch):
            end = segment.size if limit is None else limit
            for position, header in checked_batches(segment.file, 0, end, head):
                if discontinuity is not None and discontinuity.is_inconsistent(header):
                    odd = discontinuity.position
                    break
                if header.base_offset < end_offset or header.last_offset > offset_max:
                    break
                if header.leader_epoch < NO_EPOCH:
                    break
                discontinuity = None
                if header.base_offset > end_offset or header.leader_epoch != latest:
                    discontinuity = _Discontinuity(position, end_offset, latest, header)
                place = BatchPosition(header.last_offset, header.base_offset, position)
                segment.note(place, header.size, header.max_timestamp, self.index_interval_bytes)
                end_offset, end_position = header.next_offset, position + header.size
                if header.leader_epoch > latest:
                    latest = header.leader_epoch
                    epochs.append(EpochStart(latest, header.base_offset))
                if header.producer_id >= 0 or header.attributes & CONTROL_BIT:
                    has_producers = True
                if self.progress is not None and end_position - reported >= PROGRESS_BYTES:
                    self.progress.checked(end_position - reported)
                    reported = end_position
            else:
                if discontinuity is not None and discontinuity.is_inconsistent_at_end(
                    following, dense=self.dense
                ):
                    odd = discontinuity.position
        if odd is not None and limit is None and not rewritten:
            return self._check(segment, following, epoch_before, odd)
        if self.progress is not None:
            self.progress.checked(size - reported)
        cut = segment.size - end_position
        if cut:
            self.keeper.prepare_truncation(segment, end_position, end_offset, following)
            segment.truncate_bytes(end_position)
        segment.checked.add(0, end_position)
        segment.txn_index.clear()
        return RecoveryResult(end_offset, cut + outdated, 0, epochs, has_producers, rewritten)


def hole_below(segments: list[Segment], offset: int) -> int | None:
    """Return the base offset of the first segment, of those at or below `offset`, that does not
    begin at the end of the previous one; None if there is none. Only for logs from which no offset
    was ever removed. Raises OSError."""
    for segment, following in pairwise(segments):
        if following.base_offset > offset:
            break
        end = segment.base_offset
        with contextlib.suppress(CorruptBatch):
            end = scanned_end_offset(segment)
        if end != following.base_offset:
            return following.base_offset
    return None


def batches_between(
    segments: list[Segment], start: int, end: int
) -> Iterator[tuple[BatchHeader, Record | None]]:
    """Yield the header of each batch in [start, end), with the record if it is a control batch.
    Raises OSError, and KafkaError if that record is damaged."""
    for segment, position, header in _headers_between(segments, start, end):
        marker = None
        if header.attributes & CONTROL_BIT:
            marker = next(records(segment.batch_at(position, header)), None)
        yield header, marker


def _headers_between(
    segments: list[Segment], start: int, end: int
) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """Yield the segment, position and header of each batch in [start, end). Raises OSError."""
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else end
        if following <= start or not segment.size:
            continue
        segment.check_indexes()
        if segment.base_offset >= end:
            return
        place = segment.locate(start) if start > segment.base_offset else BatchPosition(0, 0, 0)
        if place is None:
            continue
        for position, header in segment.headers(place.position, chunk_bytes=1 << 16):
            if header.base_offset >= end:
                return
            yield segment, position, header


def epochs_on_disk(disk: Disk, directory: str) -> LeaderEpochs:
    """Read the leader epochs from their checkpoint. Raises OSError, ValueError."""
    return LeaderEpochs.parse(disk.read(f"{directory}/{EPOCHS_FILE}"))


def load_epochs(
    disk: Disk,
    directory: str,
    has_file: bool,
    segments: list[Segment],
    start_offset: int,
    end_offset: int,
) -> LeaderEpochs:
    """Read the leader epochs from their checkpoint, or from the batches if it is missing or
    unreadable. After a crash, the checkpoint may begin after `start_offset`, the start of the log,
    because a move of the start was not noted yet. The epochs before that come from the batches.
    Raises OSError."""
    base = segments[0].base_offset
    if has_file:
        with contextlib.suppress(ValueError):
            epochs, start = epochs_on_disk(disk, directory), max(base, start_offset)
            if epochs.entries and start < epochs.entries[0].start_offset:
                end = epochs.entries[0].start_offset
                epochs.precede(_epochs_between(segments, start, end))
            return epochs
    epochs = LeaderEpochs()
    epochs.precede(_epochs_between(segments, base, end_offset))
    return epochs


def _epochs_between(segments: list[Segment], start: int, end: int) -> list[EpochStart]:
    """Read the leader epochs of the batches in [start, end). Raises OSError."""
    found: list[EpochStart] = []
    for _, _, header in _headers_between(segments, start, end):
        epoch = header.leader_epoch
        if epoch > (found[-1].epoch if found else NO_EPOCH):
            found.append(EpochStart(epoch, max(header.base_offset, start)))
    return found
