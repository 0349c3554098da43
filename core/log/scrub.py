"""Reads closed segments to find damage, and validates the replacement of a damaged one.

Both are generators that read with blocking calls, for a thread: each step yields the number of
bytes read since the previous one, so that the caller can pace them. The checks are those of
`pk log verify`, without records and indexes: a broker detects a wrong index when it uses it.
"""

from collections.abc import Collection, Generator
from typing import Final, NamedTuple

from pk.core.log import aborted
from pk.core.log.cleaned_segment import CleanedSegment
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.log import Log
from pk.core.log.segment import Segment
from pk.core.log.tools.batch_check import BatchCheck
from pk.core.log.tools.inspect import Scan
from pk.core.log.txnindex import AbortedTxn, TxnIndexLost
from pk.core.record.batch import MAGIC, CorruptBatch, check_crc, read_header

STEP_BYTES: Final = 1 << 16
"""The number of bytes read in one step, except for larger batches. A step of small batches takes
some 2 ms."""
_UNCOVERED_BYTES: Final = 16
"""The first bytes of a batch that its CRC does not cover: offset, length and leader epoch."""


class Damaged(NamedTuple):
    """The first damage that was found in a segment."""

    position: int
    what: str
    """A description of the damage."""


def find_damage(
    segment: Segment, size: int, following: int, epochs: LeaderEpochs
) -> Generator[int, None, Damaged | None]:
    """Read the first `size` bytes of a closed segment. Returns the first damage, if any.
    `following` is the base offset of the next segment, and `epochs` are those of the log. Raises
    OSError."""
    scan, reported = Scan(segment.file, size=size), 0
    check = BatchCheck(epochs, segment.base_offset, all_epochs=True)
    for batch in scan:
        wrong = check.check(batch.header, following)
        if (error := batch.crc_error) is not None:
            wrong.append(error)
        if wrong:
            return Damaged(batch.position, wrong[0])
        if scan.end_position - reported >= STEP_BYTES:
            yield scan.end_position - reported
            reported = scan.end_position
    if scan.problems:
        return Damaged(scan.problems[0].position, scan.problems[0].what)
    yield scan.end_position - reported
    return None


class Replaced(NamedTuple):
    """A damaged segment that will be replaced."""

    segment: Segment
    size: int
    """The size in bytes of the segment when it was found damaged."""
    following: int
    """The base offset of the next segment."""
    start_offset: int
    """The first offset of the segment that the leader has."""
    compacted: bool
    """Whether records may have been compacted away from the leader's copy."""


def find_replacement_problem(
    copy: Segment, replaced: Replaced, epochs: LeaderEpochs
) -> Generator[int, None, str | None]:
    """Read the leader's copy of a damaged segment. Returns why the copy cannot replace the segment,
    or None if it can. Raises OSError.

    Every batch must be valid, in order, and of the right epoch. Without compaction both copies have
    the same batches at the same positions, so valid batches of the segment must be the same in the
    copy: a gap in the leader's log must not become a gap here.
    """
    old, size = replaced.segment, replaced.size
    begins_later = replaced.start_offset > old.base_offset
    shift = max(size - copy.size, 0) if begins_later else 0
    may_skip = replaced.compacted or (copy.size == size and not begins_later)
    if not replaced.compacted and copy.size + shift < size:
        return f"it has {copy.size} bytes, of which {size} are here"
    scan, reported = Scan(copy.file, size=copy.size), 0
    check = BatchCheck(epochs, old.base_offset, all_epochs=True)
    due = max(old.base_offset, replaced.start_offset)
    for batch in scan:
        header = batch.header
        wrong = check.check(header, replaced.following)
        if (error := batch.crc_error) is not None:
            wrong.append(error)
        elif header.magic != MAGIC:
            wrong.append(f"its message format is v{header.magic}")
        elif header.base_offset > due and not may_skip:
            wrong.append(f"begins at offset {header.base_offset}, but {due} is due")
        elif not replaced.compacted and _is_different_batch(
            batch.data, _read(old, header.size, batch.position + shift)
        ):
            wrong.append("this replica has a different valid batch here")
        if wrong:
            return f"at position {batch.position}: {wrong[0]}"
        due = check.next_offset
        if scan.end_position - reported >= STEP_BYTES:
            yield scan.end_position - reported
            reported = scan.end_position
    if scan.problems:
        return f"at position {scan.problems[0].position}: {scan.problems[0].what}"
    if due < replaced.following and not may_skip:
        return f"it ends at offset {due}, before {replaced.following}"
    return None


def _read(segment: Segment, length: int, position: int) -> bytes:
    try:
        return segment.file.pread(length, position)
    except FileNotFoundError:  # the missing file is the damage
        return b""


def _is_different_batch(theirs: bytes, ours: bytes) -> bool:
    """Return whether our bytes at the position of a valid batch are a valid batch too, but a
    different one."""
    if ours == theirs:
        return False
    try:
        check_crc(ours, 0, read_header(ours))
    except CorruptBatch:
        return False
    return ours[_UNCOVERED_BYTES:] != theirs[_UNCOVERED_BYTES:]


def aborted_in(
    log: Log, old: Segment, writer: CleanedSegment, markers: Collection[int]
) -> list[AbortedTxn]:
    """Find the aborted transactions of the segment that replaces `old`: those whose markers, at the
    offsets `markers`, are in it. Raises OSError, CorruptBatch."""
    try:
        return [one for one in old.txn_index.all() if one.last_offset in markers]
    except TxnIndexLost:
        writer.flush()
    return aborted.within(log.state, writer.segment)
