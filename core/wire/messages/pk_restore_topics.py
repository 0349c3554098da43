"""Creates topics of a lost cluster with their ids, whose partitions begin with the segments in
remote storage (core/meta/restored_topics.py).

pk only. Apache Kafka has no such API.
"""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64, Uuid


@struct
class RestoredPartition(Struct):
    """One of `RestoredTopic.partitions`."""

    end_offset: Int64 = -1
    """The last offset in the store; -1 if nothing of the partition was copied."""
    last_epoch: Int32 = -1
    """The newest leader epoch of the restored log."""
    cluster_ids: list[str] = field(default_factory=list)
    """The clusters that copied the partition's segments."""
    left_out: list[Uuid] = field(default_factory=list)
    """The ids of segments that were found damaged."""
    start_offset: Int64 = -1
    """The first offset in the store from which all others follow; -1 if it is not known."""


@struct
class RestoredConfig(Struct):
    """One of `RestoredTopic.configs`."""

    name: str = ""
    value: str = ""


@struct
class RestoredTopic(Struct):
    """One of `PkRestoreTopicsRequest.topics`."""

    name: str = ""
    topic_id: Uuid = ZERO_UUID
    replication_factor: Int16 = -1
    """-1 for the default of the controller."""
    configs: list[RestoredConfig] = field(default_factory=list)
    partitions: list[RestoredPartition] = field(default_factory=list)
    """All partitions, in order."""


@message(versions=(0, 0))
class PkRestoreTopicsRequest(Request["PkRestoreTopicsResponse"]):
    """The request of PkRestoreTopics."""

    topics: list[RestoredTopic] = field(default_factory=list)
    producer_id_next: Int64 = 0
    """An id above those of all producers in the restored segments. The cluster will not assign
    lower ids."""
    timeout_ms: Int32 = 60000


@struct
class RestoredTopicResult(Struct):
    """One of `PkRestoreTopicsResponse.topics`."""

    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)


@message(versions=(0, 0))
class PkRestoreTopicsResponse(Response):
    """The response of PkRestoreTopics."""

    error_code: Int16 = 0
    error_message: str | None = field(default=None, nullable=0)
    topics: list[RestoredTopicResult] = field(default_factory=list)
