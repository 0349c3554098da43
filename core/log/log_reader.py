"""Reads a log: batches from an offset, offsets by time, aborted transactions.

Every method may be called in a thread while the event loop appends (see log.py), and raises
StorageError if the disk cannot be read.
"""

import contextlib

from pk.core.log import aborted, lookup
from pk.core.log.failures import StorageError, is_fault, storage_errors
from pk.core.log.file_slices import EMPTY
from pk.core.log.lookup import FetchSlice, FoundTimestamp, LogView
from pk.core.log.non_blocking import WouldBlock, non_blocking
from pk.core.log.state import LogState
from pk.core.log.txnindex import AbortedTxn, TxnIndexLost


class LogReader:
    """Reads from one log."""

    __slots__ = ("_log",)

    def __init__(self, log: LogState) -> None:
        self._log = log

    def read(
        self,
        offset: int,
        bytes_max: int,
        offset_end: int,
        *,
        minimum_one: bool = True,
        recheck: bool = False,
    ) -> FetchSlice:
        """Read batches from the one that contains `offset`, up to but excluding the first one at or
        after `offset_end` (high watermark, last stable offset or log end).

        Returns at most `bytes_max` bytes, so the last batch may be incomplete. With `minimum_one`
        the first batch is always complete (KIP-74); without it, nothing is returned if the first
        batch does not fit. Data that was never checked is checked; with `recheck`, data that must
        be read from the disk again is too. The result ends before a damaged batch. It is empty if
        `offset` is not below `offset_end`. Raises KafkaError(OFFSET_OUT_OF_RANGE) outside of the
        log, StorageError, CorruptBatch.
        """
        segments = self._log.segments
        active_size = segments[-1].size
        end = self._log.log_end_offset
        if offset < self._log.local_log_start_offset or offset > end:
            raise self._log.out_of_range(offset)
        if offset >= offset_end or offset == end:
            return FetchSlice(EMPTY, offset)
        try:
            view = LogView(segments, active_size, end)
            return lookup.read(
                view, offset, bytes_max, offset_end, minimum_one=minimum_one, recheck=recheck
            )
        except OSError as e:
            raise StorageError(self._log.directory, "read", e, not is_fault(e)) from e

    def read_bytes(self, offset: int, bytes_max: int, offset_end: int) -> bytes:
        """Return the bytes that `read` finds, with `recheck`. Raises the same errors."""
        found = self.read(offset, bytes_max, offset_end, recheck=True).slice
        with storage_errors(self._log.directory, "read"):
            return bytes(found.read())

    def read_nowait(
        self, offset: int, bytes_max: int, offset_end: int, *, minimum_one: bool = True
    ) -> FetchSlice | None:
        """Like `read`, but returns None if finding the position needs the disk; then call `read` in
        a thread."""
        if self.is_hot(offset):
            return self.read(offset, bytes_max, offset_end, minimum_one=minimum_one)
        try:
            with non_blocking():
                return self.read(
                    offset, bytes_max, offset_end, minimum_one=minimum_one, recheck=True
                )
        except WouldBlock:
            return None

    def is_hot(self, offset: int) -> bool:
        """Return whether `read` finds the position of `offset` without I/O. (`Slice.resident` says
        the same of the bytes.)"""
        return offset >= self._log.log_end_offset or self._log.segments[-1].is_recent(offset)

    def offset_for_time(self, timestamp: int) -> FoundTimestamp | None:
        """Find the first record that is not earlier than `timestamp`; None if there is none. Raises
        StorageError."""
        with storage_errors(self._log.directory, "look up a time"):
            return lookup.offset_for_time(self._log.segments, timestamp, self._log.log_start_offset)

    def max_timestamp(self) -> FoundTimestamp | None:
        """Find the first record with the latest timestamp (KIP-734); None if no record has one.
        Raises StorageError."""
        with storage_errors(self._log.directory, "look up the latest time"):
            return lookup.max_timestamp(self._log.segments)

    def aborted_transactions(
        self, offset: int, fetched: FetchSlice, *, may_block: bool = True
    ) -> list[AbortedTxn]:
        """Return the aborted transactions that a read_committed reader must skip in `fetched`,
        which was read from `offset`.

        Raises StorageError; CorruptBatch if an index was lost and cannot be rebuilt; WouldBlock if
        an index must be rebuilt or is not in memory and the caller passed `may_block=False` (then
        call it again in a thread).
        """
        if not fetched.length or all(segment.txn_index.empty for segment in self._log.segments):
            return []
        waiting = contextlib.nullcontext() if may_block else non_blocking()
        with storage_errors(self._log.directory, "read aborted transactions"), waiting:
            beyond = lookup.offset_beyond(self._log.segments, fetched, self._log.log_end_offset)
            if may_block:
                return aborted.between(self._log, offset, beyond)
            try:
                return lookup.aborted_transactions(self._log.segments, offset, beyond)
            except TxnIndexLost:
                raise WouldBlock from None
