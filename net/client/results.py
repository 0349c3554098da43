"""Arguments and results of the admin client: frozen values named with Kafka's words, in snake_case.

A batch operation returns `Answers`: a result or an error for each item. The result is None for an
operation whose only result is success. Times are epoch milliseconds and sizes bytes. A missing
number is -1, as on the wire, unless the type allows None.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct, field

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition, Uuid
from pk.net.client.node import Node

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
"""The special timestamps of ListOffsets; any other value is a time in epoch milliseconds."""

NO_OPERATIONS: Final = -2147483648
"""The value of `authorized_operations` if they were not requested."""


class ResourceType(IntEnum):
    """The kind of resource that a config belongs to (ConfigResource.Type)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The layer that a config value comes from (DescribeConfigs)."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(IntEnum):
    """The type of a config value (DescribeConfigs 3+)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """The operation of IncrementalAlterConfigs on a key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ElectionType(IntEnum):
    """The kind of leader that ElectLeaders elects."""

    PREFERRED = 0
    UNCLEAN = 1


class CoordinatorType(IntEnum):
    """The kind of coordinator that FindCoordinator looks for."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class IsolationLevel(IntEnum):
    """How far a consumer may read: up to the high watermark, or up to the last stable offset."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ClusterDescription(Struct, frozen=True):
    """The cluster's brokers and its controller (DescribeCluster, or Metadata from brokers without
    it)."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[Node, ...]
    authorized_operations: int = NO_OPERATIONS


class ApiRange(Struct, frozen=True):
    """The versions of one API: those that the broker serves and the one that this client uses
    (None: there is no common version)."""

    api_key: int
    name: str
    min_version: int
    max_version: int
    used_version: int | None


class SupportedFeature(Struct, frozen=True):
    """A feature with the versions a broker supports."""

    name: str
    min_version: int
    max_version: int


class FinalizedFeature(Struct, frozen=True):
    """A feature and its finalized level."""

    name: str
    min_version_level: int
    max_version_level: int


class FeatureDescription(Struct, frozen=True):
    """The features that one broker reports; `finalized_epoch` is -1 if it knows none."""

    supported: tuple[SupportedFeature, ...]
    finalized: tuple[FinalizedFeature, ...]
    finalized_epoch: int


class QuorumReplica(Struct, frozen=True):
    """A voter or observer of the metadata log. Times are -1 if the broker does not report them."""

    replica_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


class QuorumDescription(Struct, frozen=True):
    """The controller quorum (DescribeQuorum)."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: dict[int, tuple[str, ...]] = field(default_factory=dict[int, tuple[str, ...]])
    """Controller id → its listeners as NAME://host:port."""


class MetadataSnapshot(Struct, frozen=True):
    """The newest snapshot of the metadata log that a controller has."""

    end_offset: int
    """The offset after the last record in the snapshot."""

    epoch: int
    made_ms: int


class TopicListing(Struct, frozen=True):
    """A topic's name, id and size."""

    name: str
    topic_id: Uuid
    internal: bool
    partition_count: int
    replication_factor: int
    """The replication factor of the partition that has the most replicas; 0 if the topic has no
    partitions."""


class PartitionDescription(Struct, frozen=True):
    """A partition and its replicas; `leader_id` is -1 if it has none."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    """None, like `elr`, if the broker does not report it (before DescribeTopicPartitions)."""

    error_code: int = 0

    @property
    def under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


class ReplicaLogState(Struct, frozen=True):
    """The state of a replica's log as the controller knows it (see `Admin.unclean_recovery`)."""

    broker_id: int
    reported: bool
    """Whether the current state of the log is known."""

    last_epoch: int = -1
    """The leader epoch of the last batch."""

    end_offset: int = -1
    start_offset: int = -1
    high_watermark: int = -1
    damage: int = 0
    """The damage found in the log: a `pk.core.log.damaged.Damage`."""

    kept_bytes: int = 0
    """Bytes that recovery truncated and kept."""

    stopped: bool = False
    """Whether the replica has stopped following because it would have to truncate committed
    records."""

    damaged_segments: int = 0
    """How many closed segments the broker found damaged while running."""


class UncleanRecovery(Struct, frozen=True):
    """The reason why a partition has no leader, or why a replica is not intact."""

    leader_id: int
    needed: tuple[int, ...]
    """The brokers whose logs the controller compares before it elects a leader."""

    awaits: tuple[int, ...]
    """The brokers in `needed` whose logs are not known yet."""

    why: str
    replicas: tuple[ReplicaLogState, ...]
    error: KafkaError | None = None
    """Why the broker that was requested as leader does not lead."""


class TopicDescription(Struct, frozen=True):
    """A topic and its partitions, in order."""

    name: str
    topic_id: Uuid
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: int = NO_OPERATIONS


class NewTopic(Struct, frozen=True):
    """A topic to create. -1 leaves a number to the broker; `assignments` (partition → brokers)
    replaces both numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: dict[int, tuple[int, ...]] | None = None
    configs: dict[str, str | None] = field(default_factory=dict[str, str | None])


class RemoteState(Struct, frozen=True):
    """The part of a tiered partition that is in remote storage, according to its leader (pk
    only)."""

    segments: int
    bytes: int
    lag_segments: int
    """The closed segments that are not copied yet."""
    lag_bytes: int
    unfinished: int
    """The segments whose copy or deletion was not completed."""
    copy_disabled: bool
    restoring: bool
    """Whether the log must be restored before the partition has a leader."""
    why: str
    """Why the last attempt did not do all the work that was due; "" if it did."""
    orphans: int = 0
    """The objects that belong to no segment and were kept at the leader's last check."""
    orphan: str = ""
    """The name of one of the orphans."""


class CreatedTopic(Struct, frozen=True):
    """A topic as the broker created it; versions before 5 return -1 for numbers and no configs."""

    name: str
    topic_id: Uuid
    partitions: int
    replication_factor: int
    configs: tuple["ConfigEntry", ...] = ()


class NewPartitions(Struct, frozen=True):
    """The new total number of a topic's partitions, and the brokers for the new partitions (None:
    the broker chooses)."""

    total: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class ListedOffset(Struct, frozen=True):
    """A result of ListOffsets; offset -1 means that no record matched."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class EpochEndOffset(Struct, frozen=True):
    """The end of an epoch in its leader's log; both -1 if the leader does not know it."""

    leader_epoch: int
    end_offset: int


class ConfigResource(Struct, frozen=True):
    """A resource that has configs. A BROKER with an empty name is the cluster-wide default."""

    type: ResourceType
    name: str


class ConfigSynonym(Struct, frozen=True):
    """The value of one layer, at or below the layer that the value in effect comes from."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(Struct, frozen=True):
    """A config value and its source. A sensitive value is None."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT


class ConfigChange(Struct, frozen=True):
    """A change to one key; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class GroupListing(Struct, frozen=True):
    """A group as its coordinator lists it. State and type are "" if the broker is too old to report
    them."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    """`Classic`, `Consumer`, `Share` or `Streams`."""

    coordinator_id: int


class ListedGroups(Struct, frozen=True):
    """The groups of all brokers that answered, and the errors of the others."""

    groups: tuple[GroupListing, ...]
    errors: dict[int, Exception] = field(default_factory=dict[int, Exception])
    """Broker id → `KafkaError` or `ClientError`."""


class StreamsTask(NamedTuple):
    """A task of a streams application: a partition of a subtopology (KIP-1071)."""

    subtopology_id: str
    partition: int


class StreamsTasks(Struct, frozen=True):
    """The tasks of a member of a streams group."""

    active: tuple[StreamsTask, ...] = ()
    standby: tuple[StreamsTask, ...] = ()
    warmup: tuple[StreamsTask, ...] = ()


class StreamsMember(Struct, frozen=True):
    """The fields that only members of streams groups have."""

    process_id: str
    topology_epoch: int
    tasks: StreamsTasks
    target: StreamsTasks
    """The tasks that the member gets once it has caught up."""

    endpoint: str | None = None
    """`host:port` of `application.server`; None if the application has none."""


class StreamsSubtopology(Struct, frozen=True):
    """A part of a streams application: the topics that it reads, writes, and keeps state in."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sources: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[str, ...]


class StreamsTopology(Struct, frozen=True):
    """The topology of a streams group, with the internal topics that its application needs."""

    epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]


class MemberDescription(Struct, frozen=True):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    rack_id: str | None = None
    member_epoch: int = -1
    """The member epoch; -1 in a classic group."""

    target_assignment: tuple[TopicPartition, ...] | None = None
    """The partitions that the member gets in the end (KIP-848); None in a classic group."""

    uses_classic_protocol: bool | None = None
    """Whether a member of a consumer group uses the classic protocol; None if the broker does not
    report it."""

    streams: StreamsMember | None = None
    """The tasks of a member of a streams group. `assignment` has the partitions that its active
    tasks read."""


class GroupDescription(Struct, frozen=True):
    """A group of any type with its members."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: Node
    group_epoch: int = -1
    assignment_epoch: int = -1
    authorized_operations: int = NO_OPERATIONS
    topology: StreamsTopology | None = None
    """The topology; only for a streams group."""


class OffsetAndMetadata(Struct, frozen=True):
    """A committed offset: the offset of the next record to read. `leader_epoch` is -1 if
    unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupMetadata(NamedTuple):
    """A consumer as its group's coordinator knows it (`Consumer.group_metadata`)."""

    group_id: str
    member_id: str = ""
    """The member id; empty before the consumer has joined, and for a program that is not a
    member."""

    generation: int = -1
    """The generation, or the member epoch with `group.protocol=consumer`; -1 outside the group."""

    instance_id: str | None = None
    """The `group.instance.id` of a static member."""


class ShareGroupOffset(OffsetAndMetadata, frozen=True):
    """A share group's position in a partition: all records before `offset` are done."""

    lag: int | None = None
    """The number of records that are not done; None if the broker does not know it."""

    def unread(self, end: int | None) -> int:
        """Return the offset that `lag` records come after, an estimate of the first offset that is
        not done. `end` is the end of the partition.

        The start offset is stored only with the next acknowledgement, so records after it may be
        done already; only the lag shows how many.
        """
        if self.lag is None or end is None:
            return self.offset
        return max(self.offset, end - self.lag)


class MemberToRemove(Struct, frozen=True):
    """A member to remove from a group: by instance id if it has one, else by member id."""

    member_id: str = ""
    instance_id: str | None = None


class ReplicaSize(Struct, frozen=True):
    """A replica in a log directory; `offset_lag` is its distance to the high watermark (or to the
    current replica)."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    future: bool


class LogDirDescription(Struct, frozen=True):
    """A log directory of a broker; byte totals are -1 if the broker does not report them (before
    version 4)."""

    path: str
    error_code: int
    replicas: tuple[ReplicaSize, ...]
    total_bytes: int = -1
    usable_bytes: int = -1
    cordoned: bool = False


class ProducerState(Struct, frozen=True):
    """A producer in the state of a partition's leader; `transaction_start_offset` is -1 outside a
    transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class Reassignment(Struct, frozen=True):
    """A partition whose replicas are being moved."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class TransactionListing(Struct, frozen=True):
    """A transaction as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


class TransactionDescription(Struct, frozen=True):
    """The state of a transactional id; `start_ms` is -1 while no transaction is open."""

    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]
