"""Reports to the controller the ends of a broker's logs, and their damage
(core/meta/unclean_recovery.py), or why it has stopped following (core/meta/stopped_followers.py).

pk only. In KIP-966 the controller requests the same with GetReplicaLogInfo, which Apache Kafka does
not serve.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64, Uuid


@struct
class ReplicaLog(Struct):
    """One of `TopicLogs.partitions`."""

    partition_index: Int32 = 0
    leader_epoch: Int32 = -1
    """The leader epoch of the partition. Nothing was appended to the log or truncated in this
    epoch."""
    last_epoch: Int32 = -1
    """The leader epoch of the last batch; -1 if there is none."""
    end_offset: Int64 = -1
    """The offset after the last whole batch; -1 if the log cannot be read."""
    start_offset: Int64 = -1
    high_watermark: Int64 = -1
    """The last checkpointed high watermark."""
    damage: Int8 = 0
    """The damage that recovery found (core/log/damaged.py); 0 for none, and for a torn tail."""
    kept_bytes: Int64 = 0
    """The number of bytes that recovery truncated and keeps next to the log."""
    stopped: bool = False
    """Whether the broker has stopped following, because it would have to truncate committed
    records."""
    cut_offset: Int64 = -1
    """The offset to which such a follower would have to truncate its log; -1 for others, as for the
    following fields."""
    leader_end_offset: Int64 = -1
    """The end of the leader's log, as the leader reported it; -1 if unknown."""
    leader_last_epoch: Int32 = -1
    """The leader epoch of the last batch in the leader's log."""
    damaged_segments: Int32 = 0
    """The number of closed segments that the broker found damaged at runtime, and has not replaced
    yet. They do not affect the end of the log."""


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
    """Whether a stopped follower may continue: then it truncates its log, and keeps the truncated
    data."""
    why: str = ""
    """The result of comparing the follower's log with its leader's, for people."""


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
