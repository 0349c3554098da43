"""The aborted transactions of a log, from the indexes of its segments; what is lost of those is
read from the log again.

Rebuilding an index reads the headers of its whole segment, and of those before it back to a
producer snapshot: never on the event loop, but for what may wait (`keep`, when a log is synced or
closed).
"""

import logging

from pk.core.log import lookup, recovery
from pk.core.log.segment import Segment
from pk.core.log.state import LogState
from pk.core.log.txnindex import AbortedTxn, TxnIndexLost
from pk.core.record.batch import CorruptBatch

logger = logging.getLogger("pk.log")


def between(log: LogState, offset: int, end: int) -> list[AbortedTxn]:
    """The aborted transactions with records in [offset, end), in the order of their markers. Raises
    OSError, and CorruptBatch if an index is lost and what it was made from cannot be read."""
    while True:
        try:
            return lookup.aborted_transactions(log.segments, offset, end)
        except TxnIndexLost as e:
            for segment in log.segments:
                if segment.base_offset == e.base_offset:
                    restore(log, segment)


def restore(log: LogState, segment: Segment) -> None:
    """Rebuild the index of `segment`, if it is lost. Raises OSError, CorruptBatch."""
    index = segment.txn_index
    with index.lock:
        if index.intact:
            return
        found = recovery.aborted_within(
            log.disk,
            log.directory,
            log.snapshots,
            log.segments,
            segment,
            log.log_end_offset,
            log.opened_ms,
        )
        index.replace(found)
        log.names_changed |= bool(found)
    if found:
        logger.warning(
            "%s: rebuilt the lost index of aborted transactions, with %d entries",
            segment.file.path,
            len(found),
        )


def keep(log: LogState, *segments: Segment) -> None:
    """See to it that the indexes of `segments` are there, before that counts as durable. Where a
    segment cannot be read its index stays lost. Raises OSError."""
    for segment in segments:
        try:
            restore(log, segment)
        except CorruptBatch as e:
            logger.error("%s: aborted transactions could not be indexed: %s", segment.file.path, e)
