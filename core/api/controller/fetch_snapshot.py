"""FetchSnapshot (59), versions 0–1: a snapshot of the metadata log, in pieces (KIP-630). v1 has
directories (KIP-853).

A Fetch of the metadata log returns the existing snapshots. The bytes are one document of
`core/meta/snapshot.py`; a piece may begin and end anywhere in it.
"""

from pk.core.api.controller.metadata_fetch import controller_in_epoch, newest_image
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import METADATA_TOPIC
from pk.core.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LeaderIdAndEpoch,
    PartitionSnapshot,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
    SnapshotId,
)


def handle(context: Context, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Return the part of a snapshot that begins at the requested position."""
    image = newest_image(context)
    if request.cluster_id is not None and request.cluster_id != image.cluster_id:
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    response = FetchSnapshotResponse()
    remaining = request.max_bytes
    for topic in request.topics:
        answer = ResponseTopicSnapshot(name=topic.name)
        response.topics.append(answer)
        for wanted in topic.partitions:
            part = ResponsePartitionSnapshot(
                index=wanted.partition,
                snapshot_id=SnapshotId(
                    end_offset=wanted.snapshot_id.end_offset, epoch=wanted.snapshot_id.epoch
                ),
                current_leader=LeaderIdAndEpoch(
                    leader_id=image.controller_id, leader_epoch=image.controller_epoch
                ),
            )
            answer.partitions.append(part)
            try:
                _fill(context, topic.name, wanted, part, remaining)
            except KafkaError as e:
                part.error_code = e.code
            remaining -= len(part.unaligned_records)
    return response


def _fill(
    context: Context,
    topic: str,
    wanted: PartitionSnapshot,
    part: ResponsePartitionSnapshot,
    bytes_max: int,
) -> None:
    """Fill in a part of the snapshot. Raises KafkaError if the snapshot or the position does not
    exist."""
    if topic != METADATA_TOPIC or wanted.partition != 0:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    controller = controller_in_epoch(context, wanted.current_leader_epoch)
    snapshot = controller.feed.find_snapshot(
        wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch
    )
    if snapshot is None:
        raise KafkaError(ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= wanted.position < len(snapshot.data):
        raise KafkaError(ErrorCode.POSITION_OUT_OF_RANGE)
    part.size, part.position = len(snapshot.data), wanted.position
    end = wanted.position + max(bytes_max, 0)
    part.unaligned_records = memoryview(snapshot.data)[wanted.position : end]
