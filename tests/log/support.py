"""Helpers for the tests of the log: batches, and logs on a memory disk."""

from pk.core.log import log_loader
from pk.core.log.config import LogConfig
from pk.core.log.disk import Disk, MemoryDisk
from pk.core.log.log import Appended, Log, Origin
from pk.core.log.state import LogIdentity
from pk.core.record.batch import BatchHeader, iter_headers, read_header
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.values import TopicPartition

TP = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
PATH = "/data/t-0"
NOW = 1_000_000


def make_batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    timestamps: list[int] | None = None,
    size: int = 20,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """A batch of `count` records with values of `size` bytes."""
    times = timestamps or [timestamp] * count
    return build_batch(
        [(time, b"%d" % i, b"v" * size, ()) for i, time in enumerate(times)],
        base_offset,
        leader_epoch,
        producer_id,
        producer_epoch,
        sequence,
        transactional=transactional,
    )


def append(
    log: Log,
    batch: bytearray | None = None,
    *,
    epoch: int = 0,
    now_ms: int = NOW,
    origin: Origin = Origin.CLIENT,
) -> Appended:
    """Append a batch as the leader."""
    batch = make_batch() if batch is None else batch
    return log.appender.append_as_leader(batch, read_header(batch), epoch, now_ms, origin=origin)


def end_transaction(
    log: Log, producer_id: int, *, commit: bool, producer_epoch: int = 0, coordinator_epoch: int = 0
) -> Appended:
    """Append the marker that ends a producer's transaction."""
    batch = end_transaction_batch(commit, coordinator_epoch, producer_id, producer_epoch, NOW)
    return append(log, batch, origin=Origin.COORDINATOR)


def open_log(
    disk: Disk | None = None,
    *,
    path: str = PATH,
    tp: TopicPartition = TP,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    config: LogConfig | None = None,
) -> Log:
    """A log on `disk`, created if missing."""
    disk = MemoryDisk() if disk is None else disk
    disk.make(path)
    known = log_loader.Known(
        clean, recovery_point=recovery_point, log_start_offset=log_start_offset
    )
    identity = LogIdentity(disk, path, tp, TOPIC_ID)
    return log_loader.open_log(identity, config or LogConfig(), NOW, known)


def durable(disk: MemoryDisk, path: str = "/data") -> None:
    """Make the names above a log's directory durable, as its directory's owner does."""
    disk.sync_dir("")
    disk.sync_dir(path)


def headers_of(log: Log) -> list[BatchHeader]:
    """The header of every batch of the log, read segment by segment."""
    return [
        header
        for segment in log.state.segments
        for _, header in iter_headers(segment.file.pread(segment.size, 0))
    ]
