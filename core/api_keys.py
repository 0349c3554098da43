"""The table of APIs: all static properties of each API, in one place.

A row has the names and versions of the messages, the module that handles a request, the listeners
that serve it, and the permissions a client needs. `core/wire/index.py` uses it to find the
messages, `core/api/index.py` to find the handlers, and `core/api/authorization.py` to check
permissions.

An API's handler is the function `handle` in the module of its name, in the folder given in the row:
`core/api/groups/heartbeat.py` for `Heartbeat`. CONTRIBUTING.md shows how an API is added.
"""

import re
from typing import Final, Literal, NamedTuple

from pk.core.needs import (
    Need,
    Operation,
    Refusal,
    ResourceType,
    cluster,
    group,
    topics,
    transaction,
)

O, R = Operation, ResourceType

Served = Literal["broker", "controller", "both", "forwarded", "divided"]
BROKER: Final = "broker"
"""Served on brokers' listeners."""
CONTROLLER: Final = "controller"
"""Served on controllers' listeners, for brokers."""
BOTH: Final = "both"
"""Served on both kinds of listeners, from the state of the node that serves it."""
FORWARDED: Final = "forwarded"
"""Handled by the controller. Brokers forward the request unchanged (KIP-590)."""
DIVIDED: Final = "divided"
"""Like FORWARDED, but a broker inspects the request first, and may answer part of it."""


class ApiKey(NamedTuple):
    """The properties of an API, as in Apache Kafka's `ApiKeys`."""

    key: int
    name: str
    versions: tuple[int, int]
    """The first and last versions that Apache Kafka 4.3.1 serves by default."""
    flexible: int | None
    """The first version with compact strings and tagged fields, or None."""
    folder: str
    """The folder of core/api with the handler's module."""
    served: Served
    oldest: int | None = None
    """The first version that pk serves, if Apache Kafka has since removed it."""
    controller_module: str | None = None
    """The module in core/api/controller that handles the API on controllers' listeners, if that
    differs. It serves no version that Apache Kafka has removed."""
    waits: bool = False
    """Whether later requests on the same connection are handled while a request of this API waits.
    The responses keep their order."""
    reads: bool = False
    """Whether the API is known to have no effects that others can see."""
    only_with: str | None = None
    """The config key without which brokers do not serve the API."""
    needs: tuple[Need, ...] = ()
    """The permissions that a client needs, in the order of the checks, as in Apache Kafka 4.3.1."""

    @property
    def module(self) -> str:
        """The name of the modules with the API's messages and with its handler."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()

    @property
    def served_versions(self) -> tuple[int, int]:
        """The first and last versions that pk serves."""
        first, last = self.versions
        return (first if self.oldest is None else self.oldest), last

    @property
    def is_among_nodes(self) -> bool:
        """Whether only brokers and controllers send the API (`clusterAction` in Apache Kafka)."""
        return bool(self.needs) and all(need.operation is O.CLUSTER_ACTION for need in self.needs)


_ALL: Final = "when all topics are requested"
_NAMED: Final = "when topics are named"
_NOT_OWN: Final = "for tokens of others; one of the two permissions is enough"
_CREATES: Final = "to create a missing topic, without CREATE on the cluster"
_DESCRIBED_TOPICS: Final = "members' topics"

OWN_KEYS: Final = 10_000
"""The first of pk's own keys, far above those that Apache Kafka assigns consecutively."""

# fmt: off
_TABLE: Final = (
    ApiKey(0, "Produce", (3, 13), 9, "records", BROKER, oldest=0, needs=(
        transaction(O.WRITE, refusal=Refusal.ANSWER, when="for transactional batches"),
        topics(O.WRITE, "topic_data[].name"))),
    ApiKey(1, "Fetch", (4, 18), 12, "records", BOTH, oldest=0, controller_module="metadata_fetch",
           waits=True, reads=True, needs=(
        cluster(O.CLUSTER_ACTION, Refusal.EACH, "for a replica or a controller"),
        topics(O.READ, "topics[].topic", when="for a consumer"))),
    ApiKey(2, "ListOffsets", (1, 11), 6, "records", BROKER, oldest=0, reads=True, needs=(
        topics(O.DESCRIBE, "topics[].name"),)),
    ApiKey(3, "Metadata", (0, 13), 9, "topics", BROKER, reads=True, needs=(
        topics(O.DESCRIBE, "topics[].name", when=_NAMED),
        topics(O.DESCRIBE, "topics[].name", Refusal.HIDDEN, _ALL),
        topics(O.CREATE, "topics[].name", when=_CREATES),
        cluster(O.DESCRIBE, Refusal.HIDDEN, "for authorized operations on the cluster"))),
    ApiKey(8, "OffsetCommit", (2, 10), 8, "groups", BROKER, oldest=0, needs=(
        group(O.READ),
        topics(O.READ, "topics[].name"))),
    ApiKey(9, "OffsetFetch", (1, 10), 6, "groups", BROKER, oldest=0, reads=True, needs=(
        group(O.DESCRIBE, "groups[].group_id", Refusal.EACH),
        topics(O.DESCRIBE, "topics[].name", when=_NAMED),
        topics(O.DESCRIBE, "topics[].name", Refusal.HIDDEN, _ALL))),
    ApiKey(10, "FindCoordinator", (0, 6), 3, "groups", BROKER, reads=True, needs=(
        group(O.DESCRIBE, "coordinator_keys[]", Refusal.EACH),
        transaction(O.DESCRIBE, "coordinator_keys[]", Refusal.EACH),
        cluster(O.CLUSTER_ACTION, Refusal.ANSWER, "for a share partition"))),
    ApiKey(11, "JoinGroup", (0, 9), 6, "groups", BROKER, waits=True, needs=(group(O.READ),)),
    ApiKey(12, "Heartbeat", (0, 4), 4, "groups", BROKER, waits=True, needs=(group(O.READ),)),
    ApiKey(13, "LeaveGroup", (0, 5), 4, "groups", BROKER, waits=True, needs=(group(O.READ),)),
    ApiKey(14, "SyncGroup", (0, 5), 4, "groups", BROKER, waits=True, needs=(group(O.READ),)),
    ApiKey(15, "DescribeGroups", (0, 6), 5, "groups", BROKER, reads=True, needs=(
        group(O.DESCRIBE, "groups[]", Refusal.EACH),)),
    ApiKey(16, "ListGroups", (0, 5), 3, "groups", BROKER, reads=True, needs=(
        group(O.DESCRIBE, "groups[].group_id", Refusal.HIDDEN),)),
    ApiKey(17, "SaslHandshake", (0, 1), None, "security", BOTH, reads=True),
    ApiKey(18, "ApiVersions", (0, 4), 3, "cluster", BOTH, reads=True),
    ApiKey(19, "CreateTopics", (2, 7), 5, "topics", FORWARDED, oldest=0, needs=(
        topics(O.CREATE, "topics[].name", when="without CREATE on the cluster"),
        topics(O.DESCRIBE_CONFIGS, "topics[].name", Refusal.HIDDEN, "for the configs"))),
    ApiKey(20, "DeleteTopics", (1, 6), 4, "topics", FORWARDED, oldest=0, needs=(
        topics(O.DELETE, "topics[].name", when="without DELETE on the cluster"),
        topics(O.DESCRIBE, "topics[].name"))),
    ApiKey(21, "DeleteRecords", (0, 2), 2, "records", BROKER, needs=(
        topics(O.DELETE, "topics[].name"),)),
    ApiKey(22, "InitProducerId", (0, 5), 2, "transactions", BROKER, needs=(
        transaction(O.WRITE, refusal=Refusal.ANSWER, when="with a transactional id"),
        cluster(O.IDEMPOTENT_WRITE, Refusal.ANSWER,
                "without a transactional id, and without WRITE on any topic"))),
    ApiKey(23, "OffsetForLeaderEpoch", (2, 4), 4, "records", BROKER, reads=True, needs=(
        topics(O.DESCRIBE, "topics[].topic", when="without CLUSTER_ACTION on the cluster"),)),
    ApiKey(24, "AddPartitionsToTxn", (0, 5), 3, "transactions", BROKER, waits=True, needs=(
        cluster(O.CLUSTER_ACTION, Refusal.ANSWER, "from version 4 on"),
        transaction(O.WRITE, "v3_and_below_transactional_id", Refusal.ANSWER, "before version 4"),
        topics(O.WRITE, "v3_and_below_topics[].name", when="before version 4"))),
    ApiKey(25, "AddOffsetsToTxn", (0, 4), 3, "transactions", BROKER, waits=True, needs=(
        transaction(O.WRITE),
        group(O.READ))),
    ApiKey(26, "EndTxn", (0, 5), 3, "transactions", BROKER, waits=True, needs=(
        transaction(O.WRITE),)),
    ApiKey(27, "WriteTxnMarkers", (1, 2), 1, "transactions", BROKER, waits=True, needs=(
        cluster(O.CLUSTER_ACTION, Refusal.ANSWER, "without ALTER on the cluster"),)),
    ApiKey(28, "TxnOffsetCommit", (0, 5), 3, "transactions", BROKER, waits=True, needs=(
        transaction(O.WRITE),
        group(O.READ),
        topics(O.READ, "topics[].name"))),
    ApiKey(29, "DescribeAcls", (1, 3), 2, "security", BOTH, reads=True, needs=(
        cluster(O.DESCRIBE),)),
    ApiKey(30, "CreateAcls", (1, 3), 2, "security", FORWARDED, needs=(cluster(O.ALTER),)),
    ApiKey(31, "DeleteAcls", (1, 3), 2, "security", FORWARDED, needs=(cluster(O.ALTER),)),
    ApiKey(32, "DescribeConfigs", (1, 4), 4, "configs", BOTH, oldest=0, reads=True, needs=(
        topics(O.DESCRIBE_CONFIGS, "resources[].resource_name", when="for a topic"),
        group(O.DESCRIBE_CONFIGS, "resources[].resource_name", Refusal.EACH),
        cluster(O.DESCRIBE_CONFIGS, Refusal.EACH, "for anything else"))),
    ApiKey(33, "AlterConfigs", (0, 2), 2, "configs", DIVIDED, needs=(
        topics(O.ALTER_CONFIGS, "resources[].resource_name", when="for a topic"),
        group(O.ALTER_CONFIGS, "resources[].resource_name", Refusal.EACH),
        cluster(O.ALTER_CONFIGS, Refusal.EACH, "for anything else"))),
    ApiKey(34, "AlterReplicaLogDirs", (1, 2), 2, "replicas", BROKER, needs=(cluster(O.ALTER),)),
    ApiKey(35, "DescribeLogDirs", (1, 5), 2, "replicas", BROKER, reads=True, needs=(
        cluster(O.DESCRIBE),)),
    ApiKey(36, "SaslAuthenticate", (0, 2), 2, "security", BOTH, reads=True),
    ApiKey(37, "CreatePartitions", (0, 3), 2, "topics", FORWARDED, needs=(
        topics(O.ALTER, "topics[].name"),)),
    ApiKey(38, "CreateDelegationToken", (1, 3), 2, "security", DIVIDED, needs=(
        Need(O.CREATE_TOKENS, R.USER, "owner", Refusal.ANSWER, "for another owner"),)),
    ApiKey(39, "RenewDelegationToken", (1, 2), 2, "security", DIVIDED),
    ApiKey(40, "ExpireDelegationToken", (1, 2), 2, "security", DIVIDED),
    ApiKey(41, "DescribeDelegationToken", (1, 3), 2, "security", BROKER, reads=True, needs=(
        Need(O.DESCRIBE, R.DELEGATION_TOKEN, "tokens[].token_id", Refusal.HIDDEN, _NOT_OWN),
        Need(O.DESCRIBE_TOKENS, R.USER, "tokens[].owner", Refusal.HIDDEN, _NOT_OWN))),
    ApiKey(42, "DeleteGroups", (0, 2), 2, "groups", BROKER, needs=(
        group(O.DELETE, "groups_names[]", Refusal.EACH),)),
    ApiKey(43, "ElectLeaders", (0, 2), 2, "replicas", FORWARDED, needs=(cluster(O.ALTER),)),
    ApiKey(44, "IncrementalAlterConfigs", (0, 1), 1, "configs", DIVIDED, needs=(
        topics(O.ALTER_CONFIGS, "resources[].resource_name", when="for a topic"),
        group(O.ALTER_CONFIGS, "resources[].resource_name", Refusal.EACH),
        cluster(O.ALTER_CONFIGS, Refusal.EACH, "for anything else"))),
    ApiKey(45, "AlterPartitionReassignments", (0, 1), 0, "replicas", FORWARDED, needs=(
        cluster(O.ALTER),)),
    ApiKey(46, "ListPartitionReassignments", (0, 0), 0, "replicas", FORWARDED, reads=True, needs=(
        cluster(O.DESCRIBE),)),
    ApiKey(47, "OffsetDelete", (0, 0), None, "groups", BROKER, needs=(
        group(O.DELETE),
        topics(O.READ, "topics[].name"))),
    ApiKey(48, "DescribeClientQuotas", (0, 1), 1, "configs", BROKER, reads=True, needs=(
        cluster(O.DESCRIBE_CONFIGS),)),
    ApiKey(49, "AlterClientQuotas", (0, 1), 1, "configs", FORWARDED, needs=(
        cluster(O.ALTER_CONFIGS),)),
    ApiKey(50, "DescribeUserScramCredentials", (0, 0), 0, "security", BROKER, reads=True, needs=(
        cluster(O.DESCRIBE),)),
    ApiKey(51, "AlterUserScramCredentials", (0, 0), 0, "security", FORWARDED, needs=(
        cluster(O.ALTER),)),
    ApiKey(55, "DescribeQuorum", (0, 2), 0, "cluster", FORWARDED, reads=True, needs=(
        cluster(O.DESCRIBE),)),
    ApiKey(56, "AlterPartition", (2, 3), 0, "controller", CONTROLLER, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(57, "UpdateFeatures", (0, 2), 0, "cluster", FORWARDED, needs=(cluster(O.ALTER),)),
    ApiKey(58, "Envelope", (0, 0), 0, "controller", CONTROLLER, waits=True, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(59, "FetchSnapshot", (0, 1), 0, "controller", CONTROLLER, reads=True, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(60, "DescribeCluster", (0, 2), 0, "cluster", BOTH, reads=True, needs=(
        cluster(O.DESCRIBE, Refusal.HIDDEN, "for authorized operations"),)),
    ApiKey(61, "DescribeProducers", (0, 0), 0, "transactions", BROKER, reads=True, needs=(
        topics(O.READ, "topics[].name"),)),
    ApiKey(62, "BrokerRegistration", (0, 4), 0, "controller", CONTROLLER, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(63, "BrokerHeartbeat", (0, 2), 0, "controller", CONTROLLER, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(64, "UnregisterBroker", (0, 0), 0, "cluster", FORWARDED, needs=(cluster(O.ALTER),)),
    ApiKey(65, "DescribeTransactions", (0, 0), 0, "transactions", BROKER, waits=True, reads=True,
           needs=(
        transaction(O.DESCRIBE, "transactional_ids[]", Refusal.EACH),
        topics(O.DESCRIBE, "transaction_states[].topics[].topic", Refusal.HIDDEN))),
    ApiKey(66, "ListTransactions", (0, 2), 0, "transactions", BROKER, waits=True, reads=True,
           needs=(
        transaction(O.DESCRIBE, "transaction_states[].transactional_id", Refusal.HIDDEN),)),
    ApiKey(67, "AllocateProducerIds", (0, 0), 0, "transactions", CONTROLLER, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(68, "ConsumerGroupHeartbeat", (0, 1), 0, "groups", BROKER, waits=True, needs=(
        group(O.READ, silent=True),
        topics(O.DESCRIBE, "subscribed_topic_names[]", Refusal.ANSWER))),
    ApiKey(69, "ConsumerGroupDescribe", (0, 1), 0, "groups", BROKER, reads=True, needs=(
        group(O.DESCRIBE, "group_ids[]", Refusal.EACH),
        topics(O.DESCRIBE, _DESCRIBED_TOPICS))),
    ApiKey(70, "ControllerRegistration", (0, 0), 0, "controller", CONTROLLER, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(71, "GetTelemetrySubscriptions", (0, 0), 0, "cluster", BROKER, reads=True,
           only_with="pk.metrics.listener"),
    ApiKey(72, "PushTelemetry", (0, 0), 0, "cluster", BROKER, only_with="pk.metrics.listener"),
    ApiKey(73, "AssignReplicasToDirs", (0, 0), 0, "controller", CONTROLLER, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(74, "ListConfigResources", (0, 1), 0, "configs", BROKER, reads=True, needs=(
        cluster(O.DESCRIBE_CONFIGS),)),
    ApiKey(75, "DescribeTopicPartitions", (0, 0), 0, "topics", BROKER, reads=True, needs=(
        topics(O.DESCRIBE, "topics[].name", when=_NAMED),
        topics(O.DESCRIBE, "topics[].name", Refusal.HIDDEN, _ALL))),
    ApiKey(76, "ShareGroupHeartbeat", (1, 1), 0, "share", BROKER, waits=True, needs=(
        group(O.READ, silent=True),
        topics(O.DESCRIBE, "subscribed_topic_names[]", Refusal.ANSWER))),
    ApiKey(77, "ShareGroupDescribe", (1, 1), 0, "share", BROKER, reads=True, needs=(
        group(O.DESCRIBE, "group_ids[]", Refusal.EACH),
        topics(O.DESCRIBE, _DESCRIBED_TOPICS))),
    ApiKey(78, "ShareFetch", (1, 2), 0, "share", BROKER, waits=True, needs=(
        group(O.READ, silent=True),
        topics(O.READ, "topics[].topic_id"))),
    ApiKey(79, "ShareAcknowledge", (1, 2), 0, "share", BROKER, waits=True, needs=(
        group(O.READ, silent=True),
        topics(O.READ, "topics[].topic_id"))),
    ApiKey(83, "InitializeShareGroupState", (0, 0), 0, "share", BROKER, waits=True, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(84, "ReadShareGroupState", (0, 0), 0, "share", BROKER, waits=True, reads=True, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(85, "WriteShareGroupState", (0, 1), 0, "share", BROKER, waits=True, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(86, "DeleteShareGroupState", (0, 0), 0, "share", BROKER, waits=True, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(87, "ReadShareGroupStateSummary", (0, 1), 0, "share", BROKER, waits=True, reads=True,
           needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(88, "StreamsGroupHeartbeat", (0, 0), 0, "groups", BROKER, waits=True, needs=(
        group(O.READ, silent=True),
        topics(O.DESCRIBE, "topology.subtopologies[].source_topics[]", Refusal.ANSWER),
        topics(O.CREATE, "topology.subtopologies[].state_changelog_topics[].name", Refusal.ANSWER,
               _CREATES))),
    ApiKey(89, "StreamsGroupDescribe", (0, 0), 0, "groups", BROKER, reads=True, needs=(
        group(O.DESCRIBE, "group_ids[]", Refusal.EACH),
        topics(O.DESCRIBE, _DESCRIBED_TOPICS))),
    ApiKey(90, "DescribeShareGroupOffsets", (0, 1), 0, "share", BROKER, waits=True, reads=True,
           needs=(
        group(O.DESCRIBE, "groups[].group_id", Refusal.EACH),
        topics(O.DESCRIBE, "groups[].topics[].topic_name", when=_NAMED),
        topics(O.DESCRIBE, "groups[].topics[].topic_name", Refusal.HIDDEN, _ALL))),
    ApiKey(91, "AlterShareGroupOffsets", (0, 0), 0, "share", BROKER, waits=True, needs=(
        group(O.READ),
        topics(O.READ, "topics[].topic_name"))),
    ApiKey(92, "DeleteShareGroupOffsets", (0, 0), 0, "share", BROKER, waits=True, needs=(
        group(O.DELETE),
        topics(O.READ, "topics[].topic_name"))),
    ApiKey(10_000, "PkFaults", (0, 0), 0, "cluster", BROKER, only_with="pk.faults.enable", needs=(
        cluster(O.ALTER),)),
    ApiKey(10_001, "PkReplicaLogs", (0, 0), 0, "controller", CONTROLLER, needs=(
        cluster(O.CLUSTER_ACTION),)),
    ApiKey(10_002, "PkUncleanRecovery", (0, 0), 0, "replicas", FORWARDED, needs=(
        cluster(O.ALTER, Refusal.ANSWER, "to elect a leader"),
        cluster(O.DESCRIBE))),
    ApiKey(10_003, "PkRestoreTopics", (0, 0), 0, "topics", FORWARDED, needs=(
        cluster(O.ALTER),)),
    ApiKey(10_004, "PkRemoteStorage", (0, 0), 0, "cluster", BROKER, reads=True, needs=(
        cluster(O.DESCRIBE),)),
)
# fmt: on

API_KEYS: Final[dict[int, ApiKey]] = {row.key: row for row in _TABLE}
"""The rows by key, sorted."""

BY_NAME: Final[dict[str, ApiKey]] = {row.name: row for row in _TABLE}
"""The rows by name, such as "Produce"."""

UNSERVED: Final = {
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
}
"""The names of Apache Kafka's other APIs. They belong to KRaft quorums, which pk does not have, but
Apache Kafka's brokers and controllers list them."""
