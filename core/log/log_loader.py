"""Opens a log: reads the files of its directory, and repairs them after a crash.

A log that was closed is used as it is. Otherwise its segments are checked from the recovery point
on (recovery.py), a torn tail is truncated, and its producers, aborted transactions and leader
epochs are rebuilt. Lost data is marked (damaged.py).
"""

import contextlib
import logging
from typing import NamedTuple

from pk.core.log import recovery, swap
from pk.core.log.config import LogConfig
from pk.core.log.damaged import Damage, Keeper, kept_files, read_mark
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.failures import storage_errors
from pk.core.log.files import Disk
from pk.core.log.log import Log
from pk.core.log.producers import EMPTY_SNAPSHOT_BYTES, Producers
from pk.core.log.segment import Segment
from pk.core.log.state import UNREAD_EPOCH, LogIdentity, LogState
from pk.core.record.batch import CorruptBatch
from pk.core.values import NO_EPOCH, NO_OFFSET

logger = logging.getLogger("pk.log")


class Known(NamedTuple):
    """Facts about a log that come from outside its directory."""

    clean: bool = False
    """Whether the log was closed cleanly, by `Log.close`."""
    contents: recovery.Contents | None = None
    """The contents of a closed log, if they were noted."""
    recovery_point: int = 0
    log_start_offset: int = 0
    remote_start: int | None = None
    """The start of the log as a whole, whose first segments may be in remote storage."""
    high_watermark: int = NO_OFFSET
    """The last checkpointed high watermark."""
    end_offset: int = NO_OFFSET
    """The log end when it was closed, if its files have changed since."""
    first_offset: int = NO_OFFSET
    """The base offset of the first segment at that time."""
    damage: Damage = Damage.NONE
    """The damage to record if the log must be created again."""
    compacted: bool = False
    """Whether compaction has removed offsets."""
    must_verify: bool = False
    """Whether the note of the clean shutdown lacks this log, so that its files must show that it
    still ends where it did."""


def open_log(
    identity: LogIdentity,
    config: LogConfig,
    now_ms: int,
    known: Known = Known(),
    progress: recovery.Progress | None = None,
) -> Log:
    """Open a log. Its directory must exist; an empty one becomes an empty log.

    A log that was not closed cleanly is checked and repaired, which is reported to `progress`.
    Batches below the recovery point are read only if an index, or a file with producers or epochs,
    is missing. If one of them is damaged, the whole log is checked. Raises StorageError.
    """
    disk, directory, *_ = identity
    with storage_errors(directory, "open"):
        found = _find(disk, directory, known.contents, now_ms)
        segments = _segments_of(disk, directory, found, now_ms)
        known = known._replace(compacted=known.compacted or config.compact)
        if known.clean:
            known = _verified(found, segments, known)
        keeper = Keeper(disk, directory, known.high_watermark)
        if not known.clean and segments:
            segments = _without_hole(keeper, found, segments, known)
            known = known._replace(recovery_point=_checked_from(found, segments, known))
        start = known.log_start_offset
        if new := not segments:
            segments.append(Segment(disk, directory, start, {}, now_ms))
            if known.damage and not keeper.mark and not found.is_marked:
                keeper.mark_damaged(known.damage, start, start)
        state = LogState(identity, config, segments, now_ms)
        state.snapshots = found.snapshots
        state.has_epochs_file = found.has_epochs
        log = Log(state)
        try:
            _fill(log, found, keeper, known, progress, new=new)
        except CorruptBatch as e:
            if known.clean or known.recovery_point == 0:
                raise
            logger.warning("%s; checking all of %s", e, directory)
            for segment in segments:
                segment.close()
            known = known._replace(recovery_point=0)
            return open_log(identity, config, now_ms, known, progress)
        return log


def _fill(
    log: Log,
    found: recovery.LogFiles,
    keeper: Keeper,
    known: Known,
    progress: recovery.Progress | None,
    *,
    new: bool,
) -> None:
    """Read the state of a log from its files, or repair it. Creates the files of a `new` log.
    Raises OSError, StorageError, and CorruptBatch if a batch that was not checked is damaged."""
    state, start = log.state, known.log_start_offset
    if new:
        _create(log, start)
    elif known.clean:
        _take_closed(log, found, known)
    else:
        _recover(log, found, keeper, known, progress)
    _take_mark(log, keeper, found)
    log.durability.start(min(known.recovery_point, state.log_end_offset))
    if start > state.log_end_offset:
        _restart(log, start, state.opened_ms)
    else:
        state.begin_at(max(start, state.segments[0].base_offset))
        if known.remote_start is not None:
            state.log_start_offset = min(known.remote_start, state.local_log_start_offset)
        if not known.clean and not new:
            _rebuild(log, found, known.recovery_point)


def _find(
    disk: Disk, directory: str, contents: recovery.Contents | None, now_ms: int
) -> recovery.LogFiles:
    """Find the log's files, after completing a swap and removing leftovers. Raises OSError."""
    found = recovery.find(disk, directory) if contents is None else contents.found
    if found.swaps:
        swap.complete(disk, directory, found.swaps, now_ms)
        found = recovery.find(disk, directory)
    for name in found.leftovers:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(f"{directory}/{name}")
    return found


def _segments_of(
    disk: Disk, directory: str, found: recovery.LogFiles, now_ms: int
) -> list[Segment]:
    segments: list[Segment] = []
    for base, sizes in sorted(found.segments.items()):
        segment = Segment(disk, directory, base, sizes, now_ms)
        segment.modified_ms = found.modified_ms[base]
        segments.append(segment)
    return segments


def _create(log: Log, offset: int) -> None:
    """Create the files of a new log that begins at `offset`. Raises OSError."""
    state = log.state
    log.segments.create(state.segments[0])
    state.names_changed = state.changed = True
    state.producers = Producers(offset)
    state.replace_epochs(LeaderEpochs(), UNREAD_EPOCH, dirty=False)
    state.log_end_offset = offset


def _take_closed(log: Log, found: recovery.LogFiles, known: Known) -> None:
    """Read the state of a log that was closed cleanly. Raises OSError."""
    state = log.state
    if known.contents is not None:
        end = known.contents.end_offset
        state.replace_epochs(known.contents.epochs, UNREAD_EPOCH, dirty=False)
    elif (end := recovery.clean_end_offset(found, state.segments, known.recovery_point)) is None:
        end = recovery.scanned_end_offset(state.segments[-1])
    state.log_end_offset = end
    log.snapshot_bytes = found.snapshot_bytes.get(end, 0)
    if log.snapshot_bytes == EMPTY_SNAPSHOT_BYTES:
        state.producers = Producers(end)


def _take_mark(log: Log, keeper: Keeper, found: recovery.LogFiles) -> None:
    """Set the log's mark: the damage found now, or when the log was opened before. Raises
    OSError."""
    disk, directory = log.state.disk, log.state.directory
    log.mark = keeper.mark
    if found.is_marked and keeper.mark is None:
        log.mark = read_mark(disk, directory)
    if log.mark is not None:
        log.kept_bytes = sum(kept_files(disk, directory).values())


def _restart(log: Log, offset: int, now_ms: int) -> None:
    """Restart a log that ends before its start offset, because its end is lost and the segments
    before it had been deleted. It begins at `offset`, as before, so that no offset is assigned to
    another record. Raises StorageError."""
    logger.warning(
        "%s ends at %d, before the log start offset %d of the checkpoint: restarting it there, "
        "empty",
        log.state.tp,
        log.state.log_end_offset,
        offset,
    )
    log.segments.restart_at(offset, now_ms)
    log.segments.remove_deleted()
    log.durability.flush(force=True)


def _recover(
    log: Log,
    found: recovery.LogFiles,
    keeper: Keeper,
    known: Known,
    progress: recovery.Progress | None,
) -> None:
    """Check the segments, and truncate a torn tail. Raises OSError."""
    state = log.state
    state.changed = True
    recovering = recovery.Recovery(
        keeper, state.config.index_interval_bytes, progress, dense=not known.compacted
    )
    state.segments, log.recovered = recovering.run(state.segments, known.recovery_point)
    end, ended = log.recovered.end_offset, max(known.high_watermark, known.end_offset)
    epochs = log.recovered.epochs
    if keeper.mark is not None or end < ended:
        damage, lost = (keeper.mark or (Damage.SHORT,))[0], ended
        if keeper.mark is not None:
            lost = keeper.mark.lost_offset
        keeper.mark_damaged(damage, end, lost, epochs[-1].epoch if epochs else NO_EPOCH)
    last = state.segments[-1]
    sizes = None if log.recovered.rewritten else found.segments[last.base_offset]
    last.allocate_indexes(log.segments.index_bytes_max, sizes)
    state.log_end_offset = log.recovered.end_offset


def _rebuild(log: Log, found: recovery.LogFiles, recovery_point: int) -> None:
    """Rebuild producers, aborted transactions and leader epochs of a log that was not closed
    cleanly. Raises OSError."""
    state, recovered = log.state, log.recovered
    assert recovered is not None
    first = state.segments[recovery.suspect_from(state.segments, recovery_point)]
    if first is state.segments[0] and recovery.has_no_producers(found, recovered):
        # The snapshots contain no producers and can stay: removing them would take most of the
        # recovery of a small log.
        log.durability.remove_snapshots(
            [offset for offset in state.snapshots if offset > state.log_end_offset]
        )
        state.producers = Producers(state.log_end_offset)
    else:
        _rebuild_producers(log, first, recovered)
    if first.base_offset:
        epochs = state.read_epochs(first.base_offset)
        epochs.truncate_end(first.base_offset)  # the batches are more accurate
    else:  # the batches have all epochs
        epochs = LeaderEpochs()
        state.replace_epochs(epochs, UNREAD_EPOCH, dirty=state.has_epochs_file)
    for epoch, start_offset in recovered.epochs:
        if epoch > epochs.latest:
            epochs.assign(epoch, start_offset)
    epochs.truncate_start(state.log_start_offset)


def _rebuild_producers(log: Log, first: Segment, recovered: recovery.RecoveryResult) -> None:
    """Rebuild the producers from the snapshots up to `first`, the first segment that was checked,
    and from the batches. Raises OSError."""
    state = log.state
    log.durability.remove_snapshots(
        [offset for offset in state.snapshots if offset > first.base_offset]
    )
    quiet_from = None if recovered.has_producers else first.base_offset
    state.producers, ended = state.load_producers(quiet_from)
    for transaction in ended:
        if transaction.last_offset >= first.base_offset:
            state.segment_of(transaction.last_offset).txn_index.append(transaction)


def _verified(found: recovery.LogFiles, segments: list[Segment], known: Known) -> Known:
    """Check the files of a log that was closed cleanly. If they have changed since, if segments are
    missing, or if the log does not reach its noted end, it counts as not closed and must be
    checked. Raises OSError."""
    if known.end_offset >= 0:
        return known._replace(clean=False)
    if not (known.must_verify and segments):
        return known
    end = recovery.clean_end_offset(found, segments, known.recovery_point)
    if _holes(found, segments, known):
        ended = known.recovery_point if end is None else end
        return known._replace(end_offset=ended, clean=False)
    if end is not None and end < known.recovery_point:  # its last segment is empty now
        return known._replace(end_offset=known.recovery_point, clean=False)
    if end is not None and segments[-1].size:
        with contextlib.suppress(CorruptBatch):
            if recovery.scanned_end_offset(segments[-1]) >= end:
                return known
        return known._replace(end_offset=end, clean=False)
    return known


def _without_hole(
    keeper: Keeper, found: recovery.LogFiles, segments: list[Segment], known: Known
) -> list[Segment]:
    """Return the segments. If the first is missing, drop the others, which are not a log without
    it, and return none. Raises OSError."""
    first = segments[0].base_offset
    begins = min([b for b in (*found.without_log, known.first_offset) if b >= 0], default=first)
    if begins >= first:
        return segments
    keeper.mark_damaged(
        Damage.MISSING_FILE, begins, max(segments[-1].base_offset, known.end_offset)
    )
    for segment in segments:
        for path in keeper.drop(segment):
            with contextlib.suppress(FileNotFoundError):
                keeper.disk.remove(path)
    return []


def _checked_from(found: recovery.LogFiles, segments: list[Segment], known: Known) -> int:
    """Return the offset from which to check the log: 0 if the log has changed since it was closed;
    otherwise the recovery point, or an offset before the first missing segment. Raises OSError."""
    if not segments or known.end_offset >= 0:
        return 0
    holes = _holes(found, segments, known)
    return min([known.recovery_point, *(hole - 1 for hole in holes)])


def _holes(found: recovery.LogFiles, segments: list[Segment], known: Known) -> list[int]:
    """Return the base offsets of segments that are missing or that follow a missing one. Raises
    OSError."""
    holes = list(found.without_log)
    if not known.compacted:
        hole = recovery.hole_below(segments, known.recovery_point)
        holes += [] if hole is None else [hole]
    return holes
