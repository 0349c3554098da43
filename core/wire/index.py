"""Every api key: its messages, the versions Apache Kafka 4.3.1 serves, and who serves it. Keys from
OWN_KEYS on are pk's own.

Message modules are imported when a request or response class is first asked for, because all of
them together take longer to import than a command line may take to start.
"""

from importlib import import_module
from typing import Any, Final

from pk.core.wire.schema import Request, Response


class ApiMessages:
    """The messages of one api key.

    `versions` are those that Apache serves by default; a message class may know older ones (its
    VERSIONS). `flexible` is the first version with compact strings and tagged fields, for both
    messages; None for never. `listeners` are "broker" and "controller": which kind of listener
    serves the key.
    """

    __slots__ = (
        "_request",
        "_response",
        "flexible",
        "key",
        "listeners",
        "module",
        "name",
        "versions",
    )

    def __init__(
        self,
        key: int,
        name: str,
        module: str,
        low: int,
        high: int,
        flexible: int | None,
        listeners: tuple[str, ...],
    ) -> None:
        self.key = key
        self.name = name
        self.module = module
        self.versions = (low, high)
        self.flexible = flexible
        self.listeners = listeners
        self._request: type[Request[Any]] | None = None
        self._response: type[Response] | None = None

    def __repr__(self) -> str:
        return f"ApiMessages({self.key}, {self.name!r}, versions={self.versions})"

    @property
    def request(self) -> type[Request[Any]]:
        """The class of the request."""
        if self._request is None:
            self._load()
            assert self._request is not None
        return self._request

    @property
    def response(self) -> type[Response]:
        """The class of the response."""
        if self._response is None:
            self._load()
            assert self._response is not None
        return self._response

    def is_flexible(self, version: int) -> bool:
        """Whether `version` has compact strings, tagged fields and the headers to match."""
        return self.flexible is not None and version >= self.flexible

    def _load(self) -> None:
        module = import_module(f"pk.core.wire.messages.{self.module}")
        self._request = getattr(module, f"{self.name}Request")
        self._response = getattr(module, f"{self.name}Response")


_BOTH: Final = ("broker", "controller")
_BROKER: Final = ("broker",)
_CONTROLLER: Final = ("controller",)

_TABLE: Final = (
    (0, "Produce", "produce", 3, 13, 9, _BROKER),
    (1, "Fetch", "fetch", 4, 18, 12, _BOTH),
    (2, "ListOffsets", "list_offsets", 1, 11, 6, _BROKER),
    (3, "Metadata", "metadata", 0, 13, 9, _BROKER),
    (8, "OffsetCommit", "offset_commit", 2, 10, 8, _BROKER),
    (9, "OffsetFetch", "offset_fetch", 1, 10, 6, _BROKER),
    (10, "FindCoordinator", "find_coordinator", 0, 6, 3, _BROKER),
    (11, "JoinGroup", "join_group", 0, 9, 6, _BROKER),
    (12, "Heartbeat", "heartbeat", 0, 4, 4, _BROKER),
    (13, "LeaveGroup", "leave_group", 0, 5, 4, _BROKER),
    (14, "SyncGroup", "sync_group", 0, 5, 4, _BROKER),
    (15, "DescribeGroups", "describe_groups", 0, 6, 5, _BROKER),
    (16, "ListGroups", "list_groups", 0, 5, 3, _BROKER),
    (17, "SaslHandshake", "sasl_handshake", 0, 1, None, _BOTH),
    (18, "ApiVersions", "api_versions", 0, 4, 3, _BOTH),
    (19, "CreateTopics", "create_topics", 2, 7, 5, _BOTH),
    (20, "DeleteTopics", "delete_topics", 1, 6, 4, _BOTH),
    (21, "DeleteRecords", "delete_records", 0, 2, 2, _BROKER),
    (22, "InitProducerId", "init_producer_id", 0, 5, 2, _BROKER),
    (23, "OffsetForLeaderEpoch", "offset_for_leader_epoch", 2, 4, 4, _BROKER),
    (24, "AddPartitionsToTxn", "add_partitions_to_txn", 0, 5, 3, _BROKER),
    (25, "AddOffsetsToTxn", "add_offsets_to_txn", 0, 4, 3, _BROKER),
    (26, "EndTxn", "end_txn", 0, 5, 3, _BROKER),
    (27, "WriteTxnMarkers", "write_txn_markers", 1, 2, 1, _BROKER),
    (28, "TxnOffsetCommit", "txn_offset_commit", 0, 5, 3, _BROKER),
    (29, "DescribeAcls", "describe_acls", 1, 3, 2, _BOTH),
    (30, "CreateAcls", "create_acls", 1, 3, 2, _BOTH),
    (31, "DeleteAcls", "delete_acls", 1, 3, 2, _BOTH),
    (32, "DescribeConfigs", "describe_configs", 1, 4, 4, _BOTH),
    (33, "AlterConfigs", "alter_configs", 0, 2, 2, _BOTH),
    (34, "AlterReplicaLogDirs", "alter_replica_log_dirs", 1, 2, 2, _BROKER),
    (35, "DescribeLogDirs", "describe_log_dirs", 1, 5, 2, _BROKER),
    (36, "SaslAuthenticate", "sasl_authenticate", 0, 2, 2, _BOTH),
    (37, "CreatePartitions", "create_partitions", 0, 3, 2, _BOTH),
    (38, "CreateDelegationToken", "create_delegation_token", 1, 3, 2, _BOTH),
    (39, "RenewDelegationToken", "renew_delegation_token", 1, 2, 2, _BOTH),
    (40, "ExpireDelegationToken", "expire_delegation_token", 1, 2, 2, _BOTH),
    (41, "DescribeDelegationToken", "describe_delegation_token", 1, 3, 2, _BOTH),
    (42, "DeleteGroups", "delete_groups", 0, 2, 2, _BROKER),
    (43, "ElectLeaders", "elect_leaders", 0, 2, 2, _BOTH),
    (44, "IncrementalAlterConfigs", "incremental_alter_configs", 0, 1, 1, _BOTH),
    (45, "AlterPartitionReassignments", "alter_partition_reassignments", 0, 1, 0, _BOTH),
    (46, "ListPartitionReassignments", "list_partition_reassignments", 0, 0, 0, _BOTH),
    (47, "OffsetDelete", "offset_delete", 0, 0, None, _BROKER),
    (48, "DescribeClientQuotas", "describe_client_quotas", 0, 1, 1, _BROKER),
    (49, "AlterClientQuotas", "alter_client_quotas", 0, 1, 1, _BOTH),
    (50, "DescribeUserScramCredentials", "describe_user_scram_credentials", 0, 0, 0, _BOTH),
    (51, "AlterUserScramCredentials", "alter_user_scram_credentials", 0, 0, 0, _BOTH),
    (55, "DescribeQuorum", "describe_quorum", 0, 2, 0, _BOTH),
    (56, "AlterPartition", "alter_partition", 2, 3, 0, _CONTROLLER),
    (57, "UpdateFeatures", "update_features", 0, 2, 0, _BOTH),
    (58, "Envelope", "envelope", 0, 0, 0, _CONTROLLER),
    (59, "FetchSnapshot", "fetch_snapshot", 0, 1, 0, _CONTROLLER),
    (60, "DescribeCluster", "describe_cluster", 0, 2, 0, _BOTH),
    (61, "DescribeProducers", "describe_producers", 0, 0, 0, _BROKER),
    (62, "BrokerRegistration", "broker_registration", 0, 4, 0, _CONTROLLER),
    (63, "BrokerHeartbeat", "broker_heartbeat", 0, 2, 0, _CONTROLLER),
    (64, "UnregisterBroker", "unregister_broker", 0, 0, 0, _BOTH),
    (65, "DescribeTransactions", "describe_transactions", 0, 0, 0, _BROKER),
    (66, "ListTransactions", "list_transactions", 0, 2, 0, _BROKER),
    (67, "AllocateProducerIds", "allocate_producer_ids", 0, 0, 0, _CONTROLLER),
    (68, "ConsumerGroupHeartbeat", "consumer_group_heartbeat", 0, 1, 0, _BROKER),
    (69, "ConsumerGroupDescribe", "consumer_group_describe", 0, 1, 0, _BROKER),
    (70, "ControllerRegistration", "controller_registration", 0, 0, 0, _CONTROLLER),
    (71, "GetTelemetrySubscriptions", "get_telemetry_subscriptions", 0, 0, 0, _BROKER),
    (72, "PushTelemetry", "push_telemetry", 0, 0, 0, _BROKER),
    (73, "AssignReplicasToDirs", "assign_replicas_to_dirs", 0, 0, 0, _CONTROLLER),
    (74, "ListConfigResources", "list_config_resources", 0, 1, 0, _BROKER),
    (75, "DescribeTopicPartitions", "describe_topic_partitions", 0, 0, 0, _BROKER),
    (76, "ShareGroupHeartbeat", "share_group_heartbeat", 1, 1, 0, _BROKER),
    (77, "ShareGroupDescribe", "share_group_describe", 1, 1, 0, _BROKER),
    (78, "ShareFetch", "share_fetch", 1, 2, 0, _BROKER),
    (79, "ShareAcknowledge", "share_acknowledge", 1, 2, 0, _BROKER),
    (83, "InitializeShareGroupState", "initialize_share_group_state", 0, 0, 0, _BROKER),
    (84, "ReadShareGroupState", "read_share_group_state", 0, 0, 0, _BROKER),
    (85, "WriteShareGroupState", "write_share_group_state", 0, 1, 0, _BROKER),
    (86, "DeleteShareGroupState", "delete_share_group_state", 0, 0, 0, _BROKER),
    (87, "ReadShareGroupStateSummary", "read_share_group_state_summary", 0, 1, 0, _BROKER),
    (88, "StreamsGroupHeartbeat", "streams_group_heartbeat", 0, 0, 0, _BROKER),
    (89, "StreamsGroupDescribe", "streams_group_describe", 0, 0, 0, _BROKER),
    (90, "DescribeShareGroupOffsets", "describe_share_group_offsets", 0, 1, 0, _BROKER),
    (91, "AlterShareGroupOffsets", "alter_share_group_offsets", 0, 0, 0, _BROKER),
    (92, "DeleteShareGroupOffsets", "delete_share_group_offsets", 0, 0, 0, _BROKER),
)

OWN_KEYS: Final = 10_000
"""From here on keys are pk's own: far from those that Apache Kafka gives out, one after another."""

_OWN_TABLE: Final = (
    (10_000, "PkFaults", "pk_faults", 0, 0, 0, _BROKER),
    (10_001, "PkReplicaLogs", "pk_replica_logs", 0, 0, 0, _CONTROLLER),
    (10_002, "PkUncleanRecovery", "pk_unclean_recovery", 0, 0, 0, _BOTH),
)

MESSAGES: Final[dict[int, ApiMessages]] = {
    row[0]: ApiMessages(*row) for row in (*_TABLE, *_OWN_TABLE)
}
"""api key -> its messages, in the order of the keys."""

UNSERVED: Final = {
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
}
"""The names of Apache Kafka's other APIs. They are those of a KRaft quorum, and pk has none, but
Apache Kafka's brokers and controllers list them."""

BY_NAME: Final[dict[str, ApiMessages]] = {api.name: api for api in MESSAGES.values()}
"""An api's name, as in "Produce" -> its messages."""
