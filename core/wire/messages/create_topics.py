"""Creates topics. v1 can only validate, v4 has defaults for partitions and replicas (KIP-464), v5
returns the configs (KIP-525), v6 adds quotas (KIP-599), v7 topic ids (KIP-516)."""

from pk.core.values import ZERO_UUID
from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int8, Int16, Int32, Uuid


@struct
class CreatableReplicaAssignment(Struct):
    """One of `CreatableTopic.assignments`."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = field(default_factory=list)


@struct
class CreatableTopicConfig(Struct):
    """One of `CreatableTopic.configs`."""

    name: str = ""
    value: str | None = field(default="", nullable=0)


@struct
class CreatableTopic(Struct):
    """One of `CreateTopicsRequest.topics`."""

    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@message(versions=(0, 7))
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """The request of CreateTopics."""

    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60000
    validate_only: bool = field(default=False, since=1)


@struct
class CreatableTopicConfigs(Struct):
    """One of `CreatableTopicResult.configs`."""

    name: str = field(default="", since=5)
    value: str | None = field(default="", since=5, nullable=5)
    read_only: bool = field(default=False, since=5)
    config_source: Int8 = field(default=-1, since=5, ignorable=True)
    is_sensitive: bool = field(default=False, since=5)


@struct
class CreatableTopicResult(Struct):
    """One of `CreateTopicsResponse.topics`."""

    name: str = ""
    topic_id: Uuid = field(default=ZERO_UUID, since=7, ignorable=True)
    error_code: Int16 = 0
    error_message: str | None = field(default="", since=1, nullable=0, ignorable=True)
    topic_config_error_code: Int16 = field(default=0, since=5, tag=0, ignorable=True)
    num_partitions: Int32 = field(default=-1, since=5, ignorable=True)
    replication_factor: Int16 = field(default=-1, since=5, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(
        default_factory=list, since=5, nullable=5, ignorable=True
    )


@message(versions=(0, 7))
class CreateTopicsResponse(Response):
    """The response of CreateTopics."""

    throttle_time_ms: Int32 = field(default=0, since=2, ignorable=True)
    topics: list[CreatableTopicResult] = field(default_factory=list)
