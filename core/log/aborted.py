"""The aborted transactions of a log, from its segments' indexes. Lost indexes are rebuilt from the
log.

Rebuilding an index reads all headers of its segment and of the segments before it, back to a
producer snapshot. So an index is never rebuilt on the event loop, only in code that may block
(`keep`, when a log is synced or closed).
"""

import logging

from pk.core.log import lookup, recovery
from pk.core.log.segment import Segment
from pk.core.log.state import LogState
from pk.core.log.txnindex import AbortedTxn, TxnIndexLost
from pk.core.record.batch import CorruptBatch

logger = logging.getLogger("pk.log")


def between(log: LogState, offset: int, end: int) -> list[AbortedTxn]:
    """Return the aborted transactions with records in [offset, end), in the order of their markers.
    Raises OSError, and CorruptBatch if an index is lost and the batches cannot be read."""
    while True:
        try:
            return lookup.aborted_transactions(log.segments, offset, end)
        except TxnIndexLost as e:
            for segment in log.segments:
                if segment.base_offset == e.base_offset:
                    restore(log, segment)


def within(log: LogState, segment: Segment) -> list[AbortedTxn]:
    """Find the aborted transactions whose markers are in `segment`, which is a segment of the log,
    or a copy that will replace one. They are derived from the producer state at its start and from
    its batches. Raises OSError, CorruptBatch."""
    base = segment.base_offset
    after = next((s.base_offset for s in log.segments if s.base_offset > base), log.log_end_offset)
    batches = recovery.batches_between([segment], base, after)
    return list(log.producers_at(base).replay(batches, log.opened_ms))


def restore(log: LogState, segment: Segment) -> None:
    """Rebuild the index of `segment` if it is lost. Raises OSError, CorruptBatch."""
    index = segment.txn_index
    with index.lock:
        if index.intact:
            return
        found = within(log, segment)
        index.replace(found)
        log.names_changed |= bool(found)
    if found:
        logger.warning(
            "%s: rebuilt the lost index of aborted transactions, with %d entries",
            segment.file.path,
            len(found),
        )


def keep(log: LogState, *segments: Segment) -> None:
    """Ensure that the indexes of `segments` exist before the segments count as durable. The index
    of a segment that cannot be read stays lost. Raises OSError."""
    for segment in segments:
        try:
            restore(log, segment)
        except CorruptBatch as e:
            logger.error("%s: aborted transactions could not be indexed: %s", segment.file.path, e)
