"""Finds a controller's newest snapshot of the metadata log, through the controller's own listener.

The brokers have no API for it. A follower learns of the snapshot when it is too far behind
(KIP-630): if its Fetch names an offset and epoch that the log no longer holds, the response names
the snapshot to load instead. The first batch of a KRaft snapshot has the time of its creation; only
that batch is read.
"""

from typing import Any, Final

from pk.core.errors import ErrorCode
from pk.core.values import METADATA_TOPIC, Uuid
from pk.net.client import results as r
from pk.net.client.admin_operations.base import AdminBase, check
from pk.net.client.connection import Connection

METADATA_TOPIC_ID: Final[Uuid] = bytes(15) + b"\x01"
_BYTES_MAX = 4096
"""Enough for the first batch and the control record at the head of the snapshot."""

_OFFSET, _EPOCH = 1, 0
"""A position that no log with a snapshot still holds."""


class MetadataOperations(AdminBase):
    """The part of `Admin` that asks a controller directly."""

    async def describe_metadata_snapshot(
        self, quorum: r.QuorumDescription
    ) -> r.MetadataSnapshot | None:
        """Return the newest snapshot of the quorum's leader; None if it has none, or none in
        Kafka's format.

        Raises ConnectFailed if the controller cannot be reached in the same way as the brokers, and
        KafkaError.
        """
        node = _node_of(quorum)
        if node is None:
            return None
        connection = await self.cluster.connection_to(node, "controller")
        response = await connection.request(_fetch(quorum.leader_epoch), low=12)
        check(response, "Fetch")
        (found,) = [p for t in response.responses for p in t.partitions]
        check(found, "Fetch")
        if found.snapshot_id.end_offset < 0:
            return None
        made_ms = await _made_ms(connection, quorum.leader_epoch, found.snapshot_id)
        if made_ms is None:
            return None
        return r.MetadataSnapshot(found.snapshot_id.end_offset, found.snapshot_id.epoch, made_ms)


def _node_of(quorum: r.QuorumDescription) -> r.Node | None:
    for listener in quorum.nodes.get(quorum.leader_id, ()):
        host, _, port = listener.partition("://")[2].rpartition(":")
        if host and port.isdecimal():
            return r.Node(quorum.leader_id, host.strip("[]"), int(port))
    return None


def _fetch(epoch: int) -> Any:
    from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    partition = FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=_OFFSET,
        last_fetched_epoch=_EPOCH,
        partition_max_bytes=_BYTES_MAX,
    )
    topic = FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return FetchRequest(max_bytes=_BYTES_MAX, topics=[topic])


async def _made_ms(connection: Connection, epoch: int, snapshot: Any) -> int | None:
    """Return the creation time of a snapshot; None if the snapshot does not begin with a record
    batch."""
    from pk.core.wire.messages.fetch_snapshot import (
        FetchSnapshotRequest,
        PartitionSnapshot,
        SnapshotId,
        TopicSnapshot,
    )

    wanted = PartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
    )
    request = FetchSnapshotRequest(
        max_bytes=_BYTES_MAX, topics=[TopicSnapshot(name=METADATA_TOPIC, partitions=[wanted])]
    )
    response = await connection.request(request)
    check(response, "FetchSnapshot")
    (piece,) = [p for t in response.topics for p in t.partitions]
    if piece.error_code == ErrorCode.SNAPSHOT_NOT_FOUND:
        return None
    check(piece, "FetchSnapshot")
    from pk.core.record.batch import (
        CorruptBatch,
        read_header,
    )  # lazily: most commands read no records

    data = bytes(piece.unaligned_records)
    try:
        return read_header(data).base_timestamp
    except CorruptBatch:
        return None
