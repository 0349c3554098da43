"""Tells the controller how far a broker's logs go, and what was found wrong with them
(core/meta/unclean_recovery.py), or why it follows no further (core/meta/stopped_followers.py).

pk only. KIP-966 has the controller ask for the same by GetReplicaLogInfo, which
Apache Kafka does not serve.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uuid


@struct
class ReplicaLog(Struct):
    """One of `TopicLogs.partitions`."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = -1
    """Of the partition: nothing was appended to the log or cut from it in this epoch."""
    last_epoch: Int32 = -1
    """The leader epoch of the last batch; -1 if there is none."""
    end_offset: Int64 = -1
    """Behind the last whole batch; -1 if the log cannot be read."""
    start_offset: Int64 = -1
    high_watermark: Int64 = -1
    """As last checkpointed."""
    damage: Int8 = 0
    """What recovery found wrong (core/log/damaged.py); 0 for nothing, and for a torn end."""
    kept_bytes: Int64 = 0
    """How much recovery cut off and kept beside the log."""
    stopped: bool = False
    """Whether the broker follows no further, because it would have to cut what is committed."""
    cut_offset: Int64 = -1
    """Where such a follower would have to cut its log; -1 for others, as below."""
    leader_end_offset: Int64 = -1
    """The end of its leader's log, as the leader told it; -1 while that is not known."""
    leader_last_epoch: Int32 = -1
    """The leader epoch of the last batch of its leader's log."""
    damaged_segments: Int32 = 0
    """Closed segments that the broker found damaged while it ran, and has not replaced yet; the end
    of the log is whole all the same."""


@struct
class TopicLogs(Struct):
    """One of `PkReplicaLogsRequest.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[ReplicaLog] = field(default_factory=list)


@message(versions=(0, 0))
class PkReplicaLogsRequest(Request["PkReplicaLogsResponse"]):
    """The request of PkReplicaLogs."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[TopicLogs] = field(default_factory=list)


@struct
class PartitionResult(Struct):
    """One of `TopicResult.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    may_cut: bool = False
    """Whether a follower that stopped goes on: it cuts its log, and keeps what it cuts off."""
    why: str = ""
    """What the comparison of its log with its leader's came to, for people."""


@struct
class TopicResult(Struct):
    """One of `PkReplicaLogsResponse.topics`."""

    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(versions=(0, 0))
class PkReplicaLogsResponse(Response):
    """The response of PkReplicaLogs."""

    error_code: Int16 = 0
    topics: list[TopicResult] = field(default_factory=list)
