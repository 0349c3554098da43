"""Shows the controller's knowledge of the logs of partitions, and elects a leader manually
(core/meta/unclean_recovery.py).

pk only. Apache Kafka has no such API.
"""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Int64


@struct
class TopicPartitions(Struct):
    """One of `PkUncleanRecoveryRequest.topics`."""

    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@message(versions=(0, 0))
class PkUncleanRecoveryRequest(Request["PkUncleanRecoveryResponse"]):
    """The request of PkUncleanRecovery."""

    topics: list[TopicPartitions] | None = field(default=None, nullable=0)
    """The partitions to describe. Null stands for all that wait for a leader or have a stopped
    follower."""
    leader_id: Int32 = -1
    """The broker that will lead these partitions, even if its log lacks records; -1 to elect no
    leader."""
    timeout_ms: Int32 = 60000

    def changes_nothing(self) -> bool:
        """Return whether this request only reads."""
        return self.leader_id < 0


@struct
class ReplicaState(Struct):
    """One of `PartitionState.replicas`."""

    broker_id: Int32 = 0
    reported: bool = False
    """Whether the current state of the log is known. Otherwise the fields below describe the log as
    it was found damaged, or are empty."""
    last_epoch: Int32 = -1
    end_offset: Int64 = -1
    start_offset: Int64 = -1
    high_watermark: Int64 = -1
    damage: Int8 = 0
    kept_bytes: Int64 = 0
    stopped: bool = False
    damaged_segments: Int32 = 0


@struct
class PartitionState(Struct):
    """One of `PkUncleanRecoveryResponse.partitions`."""

    topic: str = ""
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    needed: list[Int32] = field(default_factory=list)
    """The brokers whose logs will be compared before a leader is elected."""
    awaits: list[Int32] = field(default_factory=list)
    why: str = ""
    replicas: list[ReplicaState] = field(default_factory=list)


@message(versions=(0, 0))
class PkUncleanRecoveryResponse(Response):
    """The response of PkUncleanRecovery."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    partitions: list[PartitionState] = field(default_factory=list)
