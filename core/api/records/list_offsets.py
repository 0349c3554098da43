"""ListOffsets (2), versions 0–11: the offset at a time, or at a special timestamp.

KIP-79 (by time), KIP-98 (v2: isolation), KIP-207 (a new leader that does not know its high
watermark), KIP-320 (v4: epochs), KIP-734 (v7: -3), KIP-405 (v8: -4, v9: -5), KIP-1005, KIP-1023
(v11: -6).

Version 0 is older than timestamps in records. It requests up to `max_num_offsets` offsets: the base
offsets of segments that were last written at or before the time, newest first, and the log end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pk.core.api.authorization import allows
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.remote_log import as_error
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log import recovery
from pk.core.log.failures import StorageError
from pk.core.log.log import Log
from pk.core.log.lookup import FoundTimestamp
from pk.core.values import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

MAX_TIMESTAMP: Final = -3
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

FIRST_VERSION: Final = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
VERSION_ONE_OFFSET: Final = 1
VERSION_LEADER_EPOCH: Final = 4
VERSION_OFFSET_NOT_AVAILABLE: Final = 5
CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2

FoundOffset = tuple[int, int, int]
"""(offset, timestamp, leader epoch); -1 if unknown."""
NOT_FOUND: Final[FoundOffset] = (-1, -1, -1)


async def handle(context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look up the offset for every partition. Each partition has its own error."""
    response = ListOffsetsResponse()
    seen: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for key in ((t.name, p.partition_index) for t in request.topics for p in t.partitions):
        (repeated if key in seen else seen).add(key)
    for topic, requested, answer in _each(request, response):
        await let_others_run()
        try:
            if (topic, requested.partition_index) in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "the request has a partition twice")
            if not allows(context, Operation.DESCRIBE, ResourceType.TOPIC, topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            if context.api_version < VERSION_ONE_OFFSET:
                answer.old_style_offsets = await _offsets_before(context, request, topic, requested)
                continue
            found = await _find(context, request, topic, requested)
            answer.offset, answer.timestamp, epoch = found
            if context.api_version >= VERSION_LEADER_EPOCH:
                answer.leader_epoch = epoch
        except KafkaError as e:
            answer.error_code = e.code
    return response


def _each(
    request: ListOffsetsRequest, response: ListOffsetsResponse
) -> Iterator[tuple[str, ListOffsetsPartition, ListOffsetsPartitionResponse]]:
    """Yield each topic and requested partition, with its result, which is already in `response`."""
    for topic in request.topics:
        answers: list[ListOffsetsPartitionResponse] = []
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        for requested in topic.partitions:
            answers.append(ListOffsetsPartitionResponse(partition_index=requested.partition_index))
            yield topic.name, requested, answers[-1]


async def _find(
    context: Context, request: ListOffsetsRequest, topic: str, requested: ListOffsetsPartition
) -> FoundOffset:
    """Return the offset that `requested` requests. Raises KafkaError."""
    timestamp = requested.timestamp
    if timestamp < EARLIEST_PENDING_UPLOAD or context.api_version < FIRST_VERSION.get(timestamp, 1):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition = context.broker.data.replicas.partition(topic, requested.partition_index)
    if request.replica_id == DEBUGGING_CONSUMER:
        partition.check_readable(requested.current_leader_epoch)
        end = partition.log.state.log_end_offset
    else:
        partition.check_leader(requested.current_leader_epoch)
        end = (
            partition.end_offset(request.isolation_level)
            if request.replica_id == CONSUMER
            else partition.log.state.log_end_offset
        )
    # KIP-207: the previous leader may have acknowledged records above the high watermark that this
    # broker knows.
    out_of_range = (
        request.replica_id == CONSUMER and partition.high_watermark < partition.epoch_start_offset
    )
    if timestamp == LATEST_TIMESTAMP and out_of_range:
        raise _not_available(context)
    log = partition.log
    if timestamp == LATEST_TIMESTAMP:
        return (
            end,
            -1,
            log.state.epochs.epoch_of(end)
            if end < log.state.log_end_offset
            else log.state.epochs.latest,
        )
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        local = timestamp == EARLIEST_LOCAL_TIMESTAMP
        start = log.state.local_log_start_offset if local else log.state.log_start_offset
        return start, -1, log.state.epochs.epoch_of(start)
    if timestamp == LATEST_TIERED:
        return _latest_tiered(partition)
    if timestamp == EARLIEST_PENDING_UPLOAD:
        return _earliest_pending_upload(partition)
    found = await _search(partition, end, timestamp)
    if found is NOT_FOUND and out_of_range:
        raise _not_available(context)
    return found


def _not_available(context: Context) -> KafkaError:
    """Return the error until the high watermark has reached the offset at which the leader epoch
    began."""
    if context.api_version >= VERSION_OFFSET_NOT_AVAILABLE:
        return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)


def _latest_tiered(partition: Partition) -> FoundOffset:
    """Return the last offset in remote storage."""
    if partition.remote is None:
        return NOT_FOUND
    offset, epoch = partition.remote.highest_copied(partition.log)
    return offset, -1, epoch


def _earliest_pending_upload(partition: Partition) -> FoundOffset:
    """Return the first offset that is not in remote storage yet."""
    log, remote = partition.log, partition.remote
    if remote is None or not partition.config.remote_storage_enable:
        return NOT_FOUND
    copied, _ = remote.highest_copied(log)
    if copied < 0 and log.state.local_log_start_offset != log.state.log_start_offset:
        return NOT_FOUND  # copies exist that this leader does not know yet
    offset = max(copied + 1, log.state.log_start_offset)
    return offset, -1, log.state.epochs.epoch_of(offset)


async def _search(partition: Partition, end: int, timestamp: int) -> FoundOffset:
    """Search the log for a time, its remote segments first. A record at or after offset `end` does
    not count as found. Raises KafkaError."""
    log = partition.log
    local_start = log.state.local_log_start_offset
    found: FoundTimestamp | None = None
    if log.state.log_start_offset < local_start:
        found = await _search_remote(partition, local_start, timestamp)
    if found is None or timestamp == MAX_TIMESTAMP:
        reader = log.reader
        search = (
            reader.max_timestamp
            if timestamp == MAX_TIMESTAMP
            else lambda: reader.offset_for_time(timestamp)
        )
        local = await offload(search, directory=log.log_dir.path)
        if found is None or (local is not None and local.timestamp > found.timestamp):
            found = local
    if found is None or found.offset >= end:
        return NOT_FOUND
    return found.offset, found.timestamp, found.leader_epoch


async def _search_remote(
    partition: Partition, local_start: int, timestamp: int
) -> FoundTimestamp | None:
    """Search the remote segments, for at most `remote.list.offsets.request.timeout.ms`. Raises
    KafkaError."""
    log, remote = partition.log, partition.remote
    if remote is None:
        raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, "remote segments are not known yet")
    outcome: list[FoundTimestamp | KafkaError | None] = []

    async def search() -> None:
        try:
            if timestamp == MAX_TIMESTAMP:
                found = await remote.max_timestamp(log, local_start)
            else:
                found = await remote.offset_for_time(log, timestamp, local_start)
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            outcome.append(as_error(e))
        else:
            outcome.append(found)

    if not await remote.reads.run_within(remote.reads.search_wait_s, search):
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    if isinstance(found := outcome[0], KafkaError):
        raise found
    return found


async def _offsets_before(
    context: Context, request: ListOffsetsRequest, topic: str, requested: ListOffsetsPartition
) -> list[int]:
    """Return the offsets for version 0, in descending order. A consumer gets no offset above the
    high watermark. Raises KafkaError."""
    partition = context.broker.data.replicas.partition(topic, requested.partition_index)
    if request.replica_id != DEBUGGING_CONSUMER:
        partition.check_leader()
    log, timestamp = partition.log, requested.timestamp
    now_ms = context.broker.clock.now_ms()
    if timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
        starts = _segment_starts(log, {}, now_ms, now_ms)
        if timestamp == EARLIEST_TIMESTAMP:
            starts = starts[-1:]
    else:
        modified_ms = await offload(_modified_ms, log, directory=log.log_dir.path)
        starts = _segment_starts(log, modified_ms, timestamp, now_ms)
    starts = starts[: max(requested.max_num_offsets, 0)]
    if request.replica_id == CONSUMER and any(o > partition.high_watermark for o in starts):
        offset_limit = [offset for offset in starts if offset <= partition.high_watermark]
        starts = [partition.high_watermark, *offset_limit]
    return starts


def _segment_starts(
    log: Log, modified_ms: dict[int, int], timestamp: int, now_ms: int
) -> list[int]:
    """Return the first offsets of segments and the log end, newest first, beginning with the last
    segment that was not written to after `timestamp`."""
    segments = log.state.segments
    positions = [
        (max(s.base_offset, log.state.log_start_offset), modified_ms.get(s.base_offset, now_ms))
        for s in segments
    ]
    if segments[-1].size:
        positions.append((log.state.log_end_offset, now_ms))
    last = max((i for i, (_, time_ms) in enumerate(positions) if time_ms <= timestamp), default=-1)
    return [offset for offset, _ in reversed(positions[: last + 1])]


def _modified_ms(log: Log) -> dict[int, int]:
    """Return the time of the last write to each segment, by base offset. If the file system does
    not know it (a segment in memory), it is the time of the latest record. Raises StorageError."""
    try:
        modified_ms = recovery.find(log.state.disk, log.state.directory).modified_ms
        return {
            segment.base_offset: modified_ms.get(segment.base_offset)
            or segment.max_timestamp.timestamp
            for segment in log.state.segments
        }
    except OSError as e:
        raise StorageError(log.state.directory, "list", e) from e
