"""Opening a log: which files its directory holds, which can be trusted, and where it ends.

After a clean shutdown nothing is read. What the log holds was noted when it was closed
(closed_logs.py). Where that is missing, or the files have changed since, the directory is listed;
the snapshot that closing wrote carries the end offset in its name, and the recovery point says the
same. Everything else waits for its first use.

After a crash everything above the recovery point is suspect: from the segment that holds it on,
every batch is read and checked (size, magic, CRC, offsets and leader epochs that grow), the indexes
are rebuilt, and at the first batch that is not whole the log is cut and later segments go. What is
below the recovery point was synced before that moved; of that it is only seen that no segment is
missing.

Where a cut takes more than the torn end that a crash leaves, the log is marked as damaged, and what
is cut off is kept (damaged.py).

No CRC covers a batch's offset and its leader epoch. One that stands out from those before and
behind it is wrong, and the log is cut before it: a log that claims a later end or epoch than it has
would be taken for the longest (core/meta/unclean_recovery.py).

The state of producers is the newest snapshot that can be read, not above the end, and the headers
behind it.
"""

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, field

from pk.core.log.checked_bytes import READ_BYTES, checked_batches, header_of
from pk.core.log.checkpoints import PARTITION_METADATA
from pk.core.log.damaged import MARK, Damage, Keeper
from pk.core.log.epochs import EpochStart, LeaderEpochs
from pk.core.log.files import Disk
from pk.core.log.oldformat import begins_with_message
from pk.core.log.producers import EMPTY_SNAPSHOT_BYTES, CorruptSnapshot, Producers
from pk.core.log.reindex import OFFSETS_MAX
from pk.core.log.segment import (
    DELETED,
    INDEX,
    LOG,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    BatchPlace,
    Segment,
    file_name,
)
from pk.core.log.txnindex import AbortedTxn
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
"""Suffixes of files that a crash left half made or half removed."""

EPOCHS_FILE: Final = "leader-epoch-checkpoint"

UNMEASURED_NAMES: Final = (EPOCHS_FILE, PARTITION_METADATA)
"""Their size tells nothing: two looks less for each of 50,000 logs."""


class Found(Struct):
    """The files of a partition's directory."""

    segments: dict[int, dict[str, int]] = field(default_factory=new_dict)
    """Base offset → size by suffix."""
    modified_ms: dict[int, int] = field(default_factory=new_dict)
    snapshots: list[int] = field(default_factory=new_list)
    snapshot_bytes: dict[int, int] = field(default_factory=new_dict)
    leftovers: list[str] = field(default_factory=new_list)
    widowed: list[int] = field(default_factory=new_list)
    """Base offsets of segments whose log is gone and whose indexes are not, though no crash while
    it was dropped explains that."""
    swaps: list[str] = field(default_factory=new_list)
    """Every name, if one says that a crash cut a swap short (swap.py)."""
    has_epochs: bool = False
    is_marked: bool = False
    """Whether the log was found damaged before (damaged.py)."""


class Contents(NamedTuple):
    """What a log that was closed holds, as far as opening it needs to know."""

    found: Found
    end_offset: int
    epochs: LeaderEpochs


class Cut(NamedTuple):
    """What recovery did, the end of the log and how much it took away; and what it saw in the
    batches that are left of those it checked, so that they are not read again."""

    end_offset: int
    bytes_cut: int
    segments_dropped: int
    epochs: Sequence[EpochStart] = ()
    """The leader epochs of these batches, each as it began; they only rise."""
    has_producers: bool = True
    """Whether one of them is of an idempotent producer, or ends a transaction."""
    rewritten: bool = False
    """Whether a segment held messages of an old format: its files are others now."""


class Progress(Protocol):
    """Receives the progress of recovery, in bytes of records; called from several threads."""

    def due(self, count: int) -> None:
        """Add to the number of bytes to check."""
        ...

    def checked(self, count: int) -> None:
        """So many more have been."""
        ...


PROGRESS_BYTES: Final = 16 << 20
"""Checked between two words of it."""


def find(disk: Disk, directory: str) -> Found:
    """List a partition's directory. Raises OSError."""
    found = Found()
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
            if not any(name.startswith(file_name(base, LOG)) for name in names):
                found.widowed.append(base)
    last = max(found.segments, default=-1)
    # The last one may have been made just before the crash.
    found.widowed = sorted(base for base in found.widowed if base < last)
    return found


def clean_end_offset(found: Found, segments: list[Segment], recovery_point: int) -> int | None:
    """The end of a log that was closed cleanly, if its directory tells without a read."""
    last = segments[-1]
    if not last.size:
        return last.base_offset
    newest = found.snapshots[-1] if found.snapshots else -1
    return newest if newest == recovery_point and newest > last.base_offset else None


def walked_end_offset(segment: Segment) -> int:
    """The end of a log whose last segment can be trusted, from its index and the headers behind.
    Raises OSError."""
    segment.check_indexes()
    end = segment.base_offset
    for position, header in segment.headers_at_end():
        if position + header.size <= segment.size:  # else it is torn
            end = header.next_offset
    return end


def check_segment(
    segment: Segment,
    index_interval_bytes: int,
    progress: Progress | None = None,
    following: Sequence[Segment] = (),
    keeper: Keeper | None = None,
    *,
    dense: bool = False,
    latest: int = NO_EPOCH,
    limit: int | None = None,
) -> Cut:
    """Read a segment whole, rebuild its indexes, cut it where it stops being a log: at the latest
    where the first of those begins that are `following`. `keeper` hears of what is cut off.
    `dense`: no offset was ever removed from the log. `latest` is the leader epoch of the batch
    before it, where that is known. Nothing from position `limit` on is looked at. Raises OSError.

    The segment is active afterwards, its index of aborted transactions empty.
    """
    head, outdated = segment.file.pread(min(READ_BYTES, segment.size), 0), 0
    if rewritten := begins_with_message(head):
        outdated, head = segment.modernize(mend=True) or 0, b""
    offset_max = (following[0].base_offset if following else segment.base_offset + OFFSETS_MAX) - 1
    segment.rebuild_started()
    end_offset, end_position, reported, size = segment.base_offset, 0, 0, segment.size
    epochs, has_producers, epoch_before = list[EpochStart](), False, latest
    leap: _Leap | None = None
    odd: int | None = None
    with contextlib.suppress(CorruptBatch):
        end = segment.size if limit is None else limit
        for position, header in checked_batches(segment.file, 0, end, head):
            if leap is not None and leap.is_odd(header):
                odd = leap.position
                break
            if header.base_offset < end_offset or header.last_offset > offset_max:
                break
            if header.leader_epoch < NO_EPOCH:
                break
            leap = None
            if header.base_offset > end_offset or header.leader_epoch != latest:
                leap = _Leap(position, end_offset, latest, header)
            place = BatchPlace(header.last_offset, header.base_offset, position)
            segment.note(place, header.size, header.max_timestamp, index_interval_bytes)
            end_offset, end_position = header.next_offset, position + header.size
            if header.leader_epoch > latest:
                latest = header.leader_epoch
                epochs.append(EpochStart(latest, header.base_offset))
            if header.producer_id >= 0 or header.attributes & CONTROL_BIT:
                has_producers = True
            if progress is not None and end_position - reported >= PROGRESS_BYTES:
                progress.checked(end_position - reported)
                reported = end_position
        else:
            if leap is not None and leap.is_odd_at_end(following, dense=dense):
                odd = leap.position
    if odd is not None and limit is None and not rewritten:
        return check_segment(
            segment, index_interval_bytes, progress, following, keeper,
            dense=dense, latest=epoch_before, limit=odd,
        )  # fmt: skip
    if progress is not None:
        progress.checked(size - reported)
    cut = segment.size - end_position
    if cut:
        if keeper is not None:
            keeper.cut(segment, end_position, end_offset, [*following])
        segment.truncate_bytes(end_position)
    segment.checked.add(0, end_position)
    segment.txn_index.clear()
    return Cut(end_offset, cut + outdated, 0, epochs, has_producers, rewritten)


class _Leap(NamedTuple):
    """A batch that begins behind the end of the one before it, or is of another leader epoch."""

    position: int
    offset: int
    """Where the batch before ended."""
    epoch: int
    """The latest leader epoch before."""
    header: BatchHeader

    def is_odd(self, following: BatchHeader) -> bool:
        """Whether this one stands out from the batches before and behind it."""
        count = self.header.last_offset_delta + 1
        if following.base_offset < self.header.next_offset:
            return following.base_offset == self.offset + count
        epoch, own = following.leader_epoch, self.header.leader_epoch
        return max(self.epoch, 0) <= epoch < own or 0 <= own < self.epoch <= epoch

    def is_odd_at_end(self, following: Sequence[Segment], *, dense: bool) -> bool:
        """The same of the last batch of a segment, by the first batch of the next one."""
        for segment in following[:1]:
            chunk = segment.file.pread(HEADER_BYTES, 0)
            if len(chunk) == HEADER_BYTES and chunk[MAGIC_AT] == MAGIC:
                return self.is_odd(header_of(chunk, 0))
        return dense and self.header.base_offset > self.offset


def has_no_producers(found: Found, checked: Cut) -> bool:
    """Whether no snapshot and no batch that was checked knows a producer."""
    return not checked.has_producers and all(
        size == EMPTY_SNAPSHOT_BYTES for size in found.snapshot_bytes.values()
    )


def suspect_from(segments: list[Segment], recovery_point: int) -> int:
    """The index of the segment from which on a crash leaves nothing certain."""
    return max(bisect_right([s.base_offset for s in segments], recovery_point) - 1, 0)


def recover(
    disk: Disk,
    directory: str,
    segments: list[Segment],
    recovery_point: int,
    index_interval_bytes: int,
    progress: Progress | None = None,
    keeper: Keeper | None = None,
    *,
    dense: bool = False,
) -> tuple[list[Segment], Cut]:
    """Check everything from the segment that holds the recovery point on; the segments that are
    left, the last of them active. `keeper` hears of what is cut off; `dense` as in `check_segment`.
    Raises OSError.

    A segment ends where the next begins; if it does not, what lay between is lost, and what follows
    must go too. (Where compaction took the end of a segment that does not hold, but then the
    recovery point is above it.)
    """
    first = suspect_from(segments, recovery_point)
    if first and segments[first].base_offset == recovery_point:
        segments[first - 1].seal_again()
    if progress is not None:
        progress.due(sum(segment.size for segment in segments[first:]))
    cut_bytes, epochs, has_producers, rewritten = 0, list[EpochStart](), False, False
    for i in range(first, len(segments)):
        rest = segments[i + 1 :]
        following = rest[0].base_offset if rest else None
        latest = epochs[-1].epoch if epochs else NO_EPOCH
        cut = check_segment(
            segments[i], index_interval_bytes, progress, rest, keeper, dense=dense, latest=latest
        )
        cut_bytes += cut.bytes_cut
        epochs += [e for e in cut.epochs if not epochs or e.epoch > epochs[-1].epoch]
        has_producers |= cut.has_producers
        rewritten |= cut.rewritten
        if following is None or cut.end_offset != following:
            if keeper is not None and keeper.mark is None and any(one.size for one in rest):
                keeper.found(Damage.MISSING_FILE, cut.end_offset, rest[-1].base_offset)
            for gone in rest:
                cut_bytes += gone.size
                for path in (
                    gone.rename(directory, DELETED) if keeper is None else keeper.drop(gone)
                ):
                    disk.remove(path)
            done = Cut(cut.end_offset, cut_bytes, len(rest), epochs, has_producers, rewritten)
            return segments[: i + 1], done
        segments[i].deactivate()
    raise AssertionError("a log has at least one segment")


def hole_below(segments: list[Segment], offset: int) -> int | None:
    """Where the first segment begins that does not begin where the one before it ends, of those
    that begin at `offset` or before it; None if all do. For logs of which no offset was ever
    removed. Raises OSError."""
    for segment, following in pairwise(segments):
        if following.base_offset > offset:
            break
        end = segment.base_offset
        with contextlib.suppress(CorruptBatch):
            end = walked_end_offset(segment)
        if end != following.base_offset:
            return following.base_offset
    return None


def batches_between(
    segments: list[Segment], start: int, end: int
) -> Iterator[tuple[BatchHeader, Record | None]]:
    """The headers of the batches in [start, end), with the record of those that are control
    batches. Raises OSError."""
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else end
        if following <= start or not segment.size:
            continue
        segment.check_indexes()
        if segment.base_offset >= end:
            return
        place = segment.locate(start) if start > segment.base_offset else BatchPlace(0, 0, 0)
        if place is None:
            continue
        for position, header in segment.headers(place.position, chunk_bytes=1 << 16):
            if header.base_offset >= end:
                return
            marker = None
            if header.attributes & CONTROL_BIT:
                marker = next(records(segment.batch_at(position, header)), None)
            yield header, marker


def load_producers(
    disk: Disk,
    directory: str,
    snapshots: list[int],
    segments: list[Segment],
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    *,
    quiet_from: int | None = None,
) -> tuple[Producers, list[AbortedTxn]]:
    """The state of producers at `end_offset`, and the transactions whose abort was met on the way;
    snapshots that cannot be read are removed, from the disk and from `snapshots`. From `quiet_from`
    on, if it is given, no batch is of a producer: these are not read. Raises OSError."""
    producers = Producers(log_start_offset)
    for offset in reversed(snapshots.copy()):
        if offset > end_offset:
            continue
        path = f"{directory}/{file_name(offset, SNAPSHOT)}"
        try:
            producers = Producers.from_snapshot(disk.read(path), offset, now_ms)
            break
        except FileNotFoundError:
            snapshots.remove(offset)
        except CorruptSnapshot:
            disk.remove(path)
            snapshots.remove(offset)
    start = max(producers.next_offset, segments[0].base_offset)
    end = end_offset if quiet_from is None else min(quiet_from, end_offset)
    aborted = list(producers.replay(batches_between(segments, start, end), now_ms))
    producers.next_offset = end_offset
    return producers, aborted


def aborted_within(
    disk: Disk,
    directory: str,
    snapshots: list[int],
    segments: list[Segment],
    segment: Segment,
    end_offset: int,
    now_ms: int,
) -> list[AbortedTxn]:
    """The aborted transactions whose markers are in `segment`, one of `segments`, which end at
    `end_offset`: from the snapshot that was taken when it began, and the segment's batches. Raises
    OSError, CorruptBatch."""
    base = segment.base_offset
    after = next((s.base_offset for s in segments if s.base_offset > base), end_offset)
    producers, _ = load_producers(disk, directory, [*snapshots], segments, base, base, now_ms)
    return list(producers.replay(batches_between(segments, base, after), now_ms))


def epochs_on_disk(disk: Disk, directory: str) -> LeaderEpochs:
    """The leader epochs as their checkpoint has them. Raises OSError, ValueError."""
    return LeaderEpochs.parse(disk.read(f"{directory}/{EPOCHS_FILE}"))


def load_epochs(
    disk: Disk, directory: str, has_file: bool, segments: list[Segment], end_offset: int
) -> LeaderEpochs:
    """The leader epochs from their checkpoint; from the batches where there is none that can be
    read. Raises OSError."""
    if has_file:
        with contextlib.suppress(ValueError):
            return epochs_on_disk(disk, directory)
    epochs = LeaderEpochs()
    for header, _ in batches_between(segments, segments[0].base_offset, end_offset):
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)
    return epochs
