"""A log of several segments, and its copies in a store."""

from log.support import NOW, TP, append, make_batch, open_log

from pk.core.log.appender import Origin
from pk.core.log.config import LogConfig
from pk.core.log.log import Log
from pk.core.log.remote.copying import epochs_between, next_to_copy, tail_of
from pk.core.log.remote.metadata import RemotePartition, RemoteSegment, SegmentState
from pk.core.log.remote.segment_object import pieces
from pk.core.log.remote.storage import RemoteStorage, SegmentName
from pk.core.record.build import end_transaction_batch

PARTITION = RemotePartition(TP.topic, bytes(16), TP.partition)


def a_log(segment_bytes: int = 2000) -> Log:
    """A log of several segments, with two epochs, transactions and rising timestamps."""
    log = open_log(config=LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200))
    for number in range(60):
        epoch = number // 25
        count = 1 + number % 3
        append(log, make_batch(count, timestamp=NOW + 10 * number, size=50), epoch=epoch)
        if number % 4 == 0:
            sent = make_batch(
                producer_id=7, producer_epoch=0, sequence=number // 4, transactional=True
            )
            append(log, sent, epoch=epoch)
        if number % 4 == 2:
            marker = end_transaction_batch(number % 8 == 2, 0, 7, 0, NOW)
            append(log, marker, epoch=epoch, origin=Origin.COORDINATOR)
    return log


def copy_all(log: Log, storage: RemoteStorage) -> list[RemoteSegment]:
    """Copy every closed segment."""
    copied: list[RemoteSegment] = []
    at = 0
    while (found := next_to_copy(log.state.segments, at, log.state.log_end_offset)) is not None:
        segment, at = found
        tail = tail_of(log, segment, at - 1, log.state.epochs.entries)
        remote = RemoteSegment(
            PARTITION, bytes([len(copied)]) * 16, segment.base_offset, at - 1, 1,
            tail.max_timestamp, 0, epochs_between(tail.epochs, segment.base_offset, at - 1),
            segment.size, SegmentState.COPY_FINISHED,
        )  # fmt: skip
        name = SegmentName("c", PARTITION, remote.start_offset, remote.id)
        storage.put(str(name), pieces(segment.file, tail))
        copied.append(remote)
    return copied
