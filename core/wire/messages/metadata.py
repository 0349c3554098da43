"""Describes the brokers of a cluster, and topics with their partitions. v4 can forbid the creation
of topics (KIP-204), v5 adds offline replicas (KIP-112), v7 leader epochs (KIP-320), v8 authorized
operations (KIP-430), v10 topic ids (KIP-516), v13 an error for the whole response (KIP-1102)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Uuid


@struct
class MetadataRequestTopic(Struct):
    """One of `MetadataRequest.topics`."""

    topic_id: Uuid = field(default=ZERO_UUID, since=10, ignorable=True)
    name: str | None = field(default="", nullable=10)


@message(versions=(0, 13))
class MetadataRequest(Request["MetadataResponse"]):
    """The request of Metadata."""

    topics: list[MetadataRequestTopic] | None = field(default_factory=list, nullable=1)
    allow_auto_topic_creation: bool = field(default=True, since=4)
    include_cluster_authorized_operations: bool = field(default=False, since=8, until=10)
    include_topic_authorized_operations: bool = field(default=False, since=8)


@struct
class MetadataResponseBroker(Struct):
    """One of `MetadataResponse.brokers`."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = field(default=None, since=1, nullable=1, ignorable=True)


@struct
class MetadataResponsePartition(Struct):
    """One of `MetadataResponseTopic.partitions`."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field(default=-1, since=7, ignorable=True)
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    offline_replicas: list[Int32] = field(default_factory=list, since=5, ignorable=True)


@struct
class MetadataResponseTopic(Struct):
    """One of `MetadataResponse.topics`."""

    error_code: Int16 = 0
    name: str | None = field(default="", nullable=12)
    topic_id: Uuid = field(default=ZERO_UUID, since=10, ignorable=True)
    is_internal: bool = field(default=False, since=1, ignorable=True)
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = field(default=-2147483648, since=8)


@message(versions=(0, 13))
class MetadataResponse(Response):
    """The response of Metadata."""

    throttle_time_ms: Int32 = field(default=0, since=3, ignorable=True)
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = field(default=None, since=2, nullable=2, ignorable=True)
    controller_id: Int32 = field(default=-1, since=1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: Int32 = field(default=-2147483648, since=8, until=10)
    error_code: Int16 = field(default=0, since=13, ignorable=True)
