"""Reads partitions for every kind of reader: consumers' fetches, followers' fetches, share groups.

A request reads in *rounds*: it reads what is available from each of its partitions, and if that is
not enough, it waits and begins another round. A round never waits for the disk. If finding the
records would, the partition is left out and recorded as *cold*; `warm_up` reads such data in
threads, and the next round finds it in the page cache. Records in remote storage are fetched in the
same way. A round returns slices: ranges of files that the kernel sends by itself.

How far a reader may read depends on its kind (`FetchIsolation`). The bytes of a round are limited
over all its partitions, but its first batch is always sent whole, even beyond the limit (KIP-74);
otherwise a client with a small buffer would never get further.
"""

from collections.abc import Callable, Hashable
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeAlias

import trio

from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.remote_log import RemoteLog, RemoteReadResult, as_error
from pk.core.errors import ErrorCode, KafkaError, without_frames
from pk.core.log.epochs import EpochEnd
from pk.core.log.failures import storage_errors
from pk.core.log.file_slices import EMPTY, BytesSlice, Slice
from pk.core.log.log import Log
from pk.core.log.non_blocking import WouldBlock
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import CODEC_BITS
from pk.core.record.compress import Codec
from pk.core.values import NO_EPOCH

_CODEC_AT = 22
"""The position in a batch of the byte whose low bits are the codec."""


class FetchIsolation(Enum):
    """The limit at which a reader must stop."""

    HIGH_WATERMARK = 0
    """The limit of a consumer."""
    LAST_STABLE_OFFSET = 1
    """The limit of a read_committed consumer."""
    LOG_END = 2
    """The limit of a follower."""


class ReadResult(NamedTuple):
    """The records of one partition for a reader."""

    records: Slice = EMPTY
    aborted: list[AbortedTxn] | None = None
    """The aborted transactions whose records a read_committed reader must skip."""


_RemoteKey: TypeAlias = tuple[Hashable, int]
"""The partition's key in the request, and the offset."""


class _RemoteRead(NamedTuple):
    """A read from remote storage that a request needs."""

    remote: RemoteLog
    log: Log
    bytes_max: int


class Reader:
    """The reads of one request, round by round."""

    __slots__ = (
        "_bytes_left",
        "_bytes_max",
        "_cold",
        "_committed",
        "_every_first_whole",
        "_reads_zstd",
        "_remote",
        "_remote_found",
        "_up_to",
        "_warmed",
        "bytes",
    )

    def __init__(
        self,
        isolation: FetchIsolation,
        bytes_max: int,
        *,
        committed: bool = False,
        first_batch_of_each: bool = False,
        reads_zstd: bool = True,
    ) -> None:
        """Create a reader of at most `bytes_max` bytes a round.

        `committed`: the reader returns aborted transactions. `first_batch_of_each`: each
        partition's first batch is sent whole, not only the first of all. `reads_zstd`: whether the
        client supports that codec.
        """
        self._up_to = isolation
        self._bytes_max = bytes_max
        self._committed = committed
        self._every_first_whole = first_batch_of_each
        self._reads_zstd = reads_zstd
        self._cold: list[tuple[Hashable, Callable[[], object], str]] = []
        self._warmed: set[Hashable] = set()
        self._remote: dict[_RemoteKey, _RemoteRead] = {}
        self._remote_found: dict[_RemoteKey, RemoteReadResult | KafkaError | None] = {}
        self._bytes_left = bytes_max
        self.bytes = 0
        """The number of bytes that this round has read."""

    @property
    def is_cold(self) -> bool:
        """Whether this round left out something that `warm_up` must read first."""
        return bool(self._cold or self._remote)

    def begin_round(self) -> None:
        """Begin the next round."""
        self._cold, self._remote = [], {}
        self._bytes_left, self.bytes = self._bytes_max, 0

    async def warm_up(self) -> None:
        """Read, in threads, the data for which the last round would have waited. The next round
        finds it in the page cache."""
        for key, read, directory in self._cold:
            self._warmed.add(key)
            try:
                await offload(read, directory=directory)
            except KafkaError:
                continue  # the next round fails too, and reports the error
        if self._remote:
            async with trio.open_nursery() as nursery:
                for key, wanted in self._remote.items():
                    nursery.start_soon(self._fetch_remote, key, wanted)

    async def _fetch_remote(self, key: _RemoteKey, wanted: _RemoteRead) -> None:
        """Fetch from remote storage the records that the last round omitted. If they do not arrive
        in time, the partition is empty for this request."""
        remote = wanted.remote

        async def fetch() -> None:
            try:
                found = await remote.fetch(wanted.log, key[1], wanted.bytes_max, self._committed)
            except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
                self._remote_found[key] = as_error(e)
            else:
                self._remote_found[key] = found

        self._remote_found[key] = None
        await remote.reads.run_within(remote.reads.fetch_wait_s, fetch)

    def end_of(self, partition: Partition) -> int:
        """Return the offset at which this reader must stop."""
        if self._up_to is FetchIsolation.LOG_END:
            return partition.log.state.log_end_offset
        if self._up_to is FetchIsolation.HIGH_WATERMARK:
            return partition.high_watermark
        return partition.log.state.last_stable_offset(partition.high_watermark)

    def read(self, key: Hashable, partition: Partition, offset: int, bytes_max: int) -> ReadResult:
        """Return the batches of `partition` from the one that contains `offset` on, as far as this
        reader may read: at most `bytes_max` bytes, and no more than the round has left. `key`
        identifies the partition in this request. The result is empty if there is nothing yet, if
        the first batch does not fit, or if the data is cold.

        Raises KafkaError: OFFSET_OUT_OF_RANGE, OFFSET_NOT_AVAILABLE beyond what a follower has,
        KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE.
        """
        log = partition.log
        if not partition.leads and offset > log.state.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "not replicated to this broker yet")
        nothing = ReadResult(EMPTY, [] if self._committed else None)
        end = self.end_of(partition)
        if offset >= end and log.state.log_start_offset <= offset <= log.state.log_end_offset:
            return nothing
        limit = min(self._bytes_left, bytes_max)
        minimum_one = self.bytes == 0 or self._every_first_whole
        if limit <= 0 and not minimum_one:
            return nothing
        if log.state.log_start_offset <= offset < log.state.local_log_start_offset:
            if partition.remote is None:
                raise KafkaError(
                    ErrorCode.REPLICA_NOT_AVAILABLE, "remote segments are not known yet"
                )
            return self._read_remote(key, partition.remote, log, offset, limit)
        warmed = key in self._warmed
        read = (
            log.reader.read(offset, limit, end, minimum_one=minimum_one)
            if warmed
            else log.reader.read_nowait(offset, limit, end, minimum_one=minimum_one)
        )
        if read is None:
            self._defer(key, log, partial(log.reader.read, offset, limit, end, recheck=True))
            return nothing
        if not self._reads_zstd and _holds_zstd(log, read.slice):
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Fetch version 10")
        aborted = nothing.aborted
        if self._committed and read.slice.length:
            try:
                aborted = log.reader.aborted_transactions(offset, read, may_block=warmed)
            except WouldBlock:
                self._defer(key, log, partial(log.reader.aborted_transactions, offset, read))
                return nothing
        self.bytes += read.slice.length
        self._bytes_left -= read.slice.length
        return ReadResult(read.slice, aborted)

    def _read_remote(
        self, key: Hashable, remote: RemoteLog, log: Log, offset: int, limit: int
    ) -> ReadResult:
        """Return the records that were fetched from remote storage, or leave the partition out
        until then. Raises KafkaError."""
        if (key, offset) not in self._remote_found:
            self._remote[key, offset] = _RemoteRead(remote, log, limit)
            return ReadResult(EMPTY, [] if self._committed else None)
        found = self._remote_found[key, offset]
        if isinstance(found, KafkaError):
            raise without_frames(found)
        if found is None:
            return ReadResult(EMPTY, [] if self._committed else None)
        self.bytes += found.records.length
        self._bytes_left -= found.records.length
        if not self._reads_zstd and _holds_zstd(log, found.records):
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Fetch version 10")
        return ReadResult(found.records, found.aborted)

    def _defer(self, key: Hashable, log: Log, read: Callable[[], object]) -> None:
        self._cold.append((key, read, log.log_dir.path))


def check_may_read(partition: Partition, current_leader_epoch: int, *, from_follower: bool) -> None:
    """Raise the error that prevents a client with `current_leader_epoch` (-1: none) from reading
    here: no leader, a fenced or an unknown epoch (KIP-320). `from_follower`: any replica may serve
    (KIP-392)."""
    if from_follower and not partition.leads:
        partition.check_readable(current_leader_epoch)
    else:
        partition.check_leader(current_leader_epoch)


def divergence(log: Log, offset: int, last_fetched_epoch: int) -> EpochEnd | None:
    """Return the offset at which a reader's log diverges from ours, found by the epoch of its last
    record before `offset` (KIP-595), or None if it does not. An epoch of -1 is not checked. Raises
    KafkaError(OFFSET_OUT_OF_RANGE) if the offset is unknown."""
    if last_fetched_epoch == NO_EPOCH:
        return None
    found = log.state.end_offset_for_epoch(last_fetched_epoch)
    if found.end_offset < 0 or found.epoch < 0 or offset < log.state.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    diverges = found.epoch < last_fetched_epoch or found.end_offset < offset
    return found if diverges else None


def _holds_zstd(log: Log, records: Slice) -> bool:
    """Return whether the first batch is compressed with zstd. Raises StorageError."""
    if isinstance(records, BytesSlice):
        head = records.data[_CODEC_AT : _CODEC_AT + 1]
    else:
        with storage_errors(log.state.directory, "read"):
            head = records.file.pread(1, records.position + _CODEC_AT)
    return bool(head) and head[0] & CODEC_BITS == Codec.ZSTD
