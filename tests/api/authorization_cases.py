"""One request of each API that an authorizer checks, and exactly the rights that it needs.

Requests are written as nested dictionaries by the protocol's field names. `@t` stands for the id of
topic `t`.

Each request is sent once by a principal without any right, then by one that may DESCRIBE
everything, then by one with exactly the rights. The answers of Apache Kafka are in
tests/golden/authorization.json.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, cast

from pk.core.auth.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, ResourceType
from pk.core.wire.emit import fields_of
from pk.core.wire.index import MESSAGES
from pk.core.wire.schema import Struct
from pk.core.wire.types import UUID

R, O = ResourceType, Operation

TOPICS: Final = ("t", "u", "gone-1", "gone-2", "tx")
"""Topics that exist. `gone-…` are deleted by a case."""

MISSING: Final = "missing"
GROUPS: Final = ("g", "gone-group")
"""Groups with a committed offset of topic t."""

NOBODY, DESCRIBER = "User:nobody", "User:describer"

Right = tuple[Operation, ResourceType, str]

ALL_TYPES: Final = (R.TOPIC, R.GROUP, R.CLUSTER, R.TRANSACTIONAL_ID)


@dataclass(frozen=True)
class Case:
    """A request that is asked for three times."""

    name: str
    key: int
    version: int
    request: dict[str, Any]
    rights: list[Right] = field(default_factory=list[Right])
    """The rights of the third principal. It has no others."""

    @property
    def principal(self) -> str:
        """The third asker."""
        return f"User:exact-{self.name}"


def rule(principal: str, right: Right) -> AclBinding:
    """The ACL that gives a right."""
    operation, kind, name = right
    return AclBinding(kind, name, PatternType.LITERAL, principal, "*", operation, 3)


def rules(cases: list[Case]) -> list[AclBinding]:
    """All ACLs that the cases want."""
    found = [
        rule(DESCRIBER, (O.DESCRIBE, kind, CLUSTER_NAME if kind is R.CLUSTER else "*"))
        for kind in ALL_TYPES
    ]
    return found + [rule(case.principal, right) for case in cases for right in case.rights]


CLUSTER = CLUSTER_NAME
T0 = [{"name": "t", "partitions": [{"partition_index": 0}]}]


def on(operation: Operation, kind: ResourceType, *names: str) -> list[Right]:
    """The same operation on several resources."""
    return [(operation, kind, name) for name in names]


CASES: Final = [
    Case(
        "list-offsets",
        2,
        10,
        {
            "replica_id": -1,
            "topics": [
                {"name": n, "partitions": [{"partition_index": 0, "timestamp": -1}]}
                for n in ("t", "u", MISSING)
            ],
        },
        on(O.DESCRIBE, R.TOPIC, "t", MISSING),
    ),
    Case(
        "metadata-named",
        3,
        13,
        {
            "topics": [{"name": n} for n in ("t", "u", MISSING)],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
        [*on(O.WRITE, R.TOPIC, "t"), *on(O.DESCRIBE, R.TOPIC, MISSING)],
    ),
    Case(
        "metadata-by-id",
        3,
        13,
        {
            "topics": [{"name": None, "topic_id": f"@{n}"} for n in ("t", "u", "unknown")],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
        on(O.ALL, R.TOPIC, "t"),
    ),
    Case(
        "metadata-all",
        3,
        13,
        {"topics": None, "include_topic_authorized_operations": True},
        on(O.READ, R.TOPIC, "t", "u"),
    ),
    Case(
        "metadata-cluster",
        3,
        9,
        {"topics": [], "include_cluster_authorized_operations": True},
        [*on(O.DESCRIBE, R.CLUSTER, CLUSTER), *on(O.CREATE, R.CLUSTER, CLUSTER)],
    ),
    Case(
        "metadata-creates",
        3,
        12,
        {"topics": [{"name": "new-1"}], "allow_auto_topic_creation": True},
        [*on(O.DESCRIBE, R.TOPIC, "new-1"), *on(O.CREATE, R.TOPIC, "new-1")],
    ),
    Case(
        "offset-commit",
        8,
        9,
        {
            "group_id": "g",
            "topics": [
                {"name": n, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
                for n in ("t", "u", MISSING)
            ],
        },
        [*on(O.READ, R.GROUP, "g"), *on(O.READ, R.TOPIC, "t", MISSING)],
    ),
    Case(
        "offset-commit-group-only",
        8,
        9,
        {
            "group_id": "g",
            "topics": [
                {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}
            ],
        },
        on(O.READ, R.GROUP, "g"),
    ),
    Case(
        "offset-fetch-named",
        9,
        9,
        {
            "groups": [
                {
                    "group_id": "g",
                    "topics": [{"name": n, "partition_indexes": [0]} for n in ("t", "u")],
                },
                {"group_id": "other", "topics": [{"name": "t", "partition_indexes": [0]}]},
            ]
        },
        [*on(O.DESCRIBE, R.GROUP, "g"), *on(O.DESCRIBE, R.TOPIC, "t")],
    ),
    Case(
        "offset-fetch-all",
        9,
        9,
        {"groups": [{"group_id": "g", "topics": None}]},
        on(O.READ, R.GROUP, "g"),
    ),
    Case(
        "offset-fetch-old",
        9,
        5,
        {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]},
        [*on(O.DESCRIBE, R.GROUP, "g"), *on(O.DESCRIBE, R.TOPIC, "t")],
    ),
    Case(
        "find-group",
        10,
        6,
        {"key_type": 0, "coordinator_keys": ["g", "other"]},
        on(O.DESCRIBE, R.GROUP, "g"),
    ),
    Case("find-group-old", 10, 3, {"key_type": 0, "key": "g"}, on(O.READ, R.GROUP, "g")),
    Case(
        "find-transaction",
        10,
        6,
        {"key_type": 1, "coordinator_keys": ["x", "y"]},
        on(O.WRITE, R.TRANSACTIONAL_ID, "x"),
    ),
    Case(
        "join-group",
        11,
        9,
        {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        on(O.READ, R.GROUP, "g"),
    ),
    Case(
        "heartbeat",
        12,
        4,
        {"group_id": "g", "generation_id": 1, "member_id": "m"},
        on(O.READ, R.GROUP, "g"),
    ),
    Case(
        "leave-group",
        13,
        5,
        {"group_id": "g", "members": [{"member_id": "m"}]},
        on(O.READ, R.GROUP, "g"),
    ),
    Case(
        "sync-group",
        14,
        4,
        {"group_id": "g", "generation_id": 1, "member_id": "m"},
        on(O.READ, R.GROUP, "g"),
    ),
    Case(
        "describe-groups",
        15,
        6,
        {"groups": ["g", "other"], "include_authorized_operations": True},
        [*on(O.DESCRIBE, R.GROUP, "g"), *on(O.DELETE, R.GROUP, "g")],
    ),
    Case("list-groups", 16, 5, {}, on(O.DESCRIBE, R.GROUP, "g")),
    Case("list-groups-cluster", 16, 5, {}, on(O.DESCRIBE, R.CLUSTER, CLUSTER)),
    Case(
        "create-topics",
        19,
        7,
        {
            "topics": [
                {"name": n, "num_partitions": 1, "replication_factor": 1}
                for n in ("made-1", "made-2")
            ],
            "timeout_ms": 30_000,
            "validate_only": True,
        },
        [*on(O.CREATE, R.TOPIC, "made-1"), *on(O.DESCRIBE_CONFIGS, R.TOPIC, "t")],
    ),
    Case(
        "create-topics-cluster",
        19,
        7,
        {
            "topics": [{"name": "made-3", "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 30_000,
            "validate_only": True,
        },
        [*on(O.CREATE, R.CLUSTER, CLUSTER)],
    ),
    Case(
        "delete-topics",
        20,
        6,
        {
            "topics": [
                {"name": "gone-1"},
                {"name": "t"},
                {"name": "u"},
                {"name": MISSING},
                {"name": None, "topic_id": "@tx"},
            ],
            "timeout_ms": 30_000,
        },
        [*on(O.DELETE, R.TOPIC, "gone-1"), *on(O.DESCRIBE, R.TOPIC, "t", MISSING)],
    ),
    Case(
        "delete-topics-cluster",
        20,
        6,
        {"topics": [{"name": "gone-2"}, {"name": MISSING}], "timeout_ms": 30_000},
        on(O.DELETE, R.CLUSTER, CLUSTER),
    ),
    Case(
        "delete-records",
        21,
        2,
        {
            "topics": [
                {"name": n, "partitions": [{"partition_index": 0, "offset": 0}]}
                for n in ("t", "u", MISSING)
            ],
            "timeout_ms": 30_000,
        },
        on(O.DELETE, R.TOPIC, "t"),
    ),
    Case(
        "init-producer-id",
        22,
        4,
        {"transactional_id": None, "transaction_timeout_ms": 60_000},
        on(O.WRITE, R.TOPIC, "anything"),
    ),
    Case(
        "init-producer-id-cluster",
        22,
        4,
        {"transactional_id": None, "transaction_timeout_ms": 60_000},
        on(O.IDEMPOTENT_WRITE, R.CLUSTER, CLUSTER),
    ),
    Case(
        "init-transactional-id",
        22,
        4,
        {"transactional_id": "y", "transaction_timeout_ms": 60_000},
        on(O.WRITE, R.TRANSACTIONAL_ID, "y"),
    ),
    Case(
        "offset-for-leader-epoch",
        23,
        4,
        {
            "replica_id": -1,
            "topics": [
                {"topic": n, "partitions": [{"partition": 0, "leader_epoch": 0}]}
                for n in ("t", "u")
            ],
        },
        on(O.DESCRIBE, R.TOPIC, "t"),
    ),
    Case(
        "offset-for-leader-epoch-cluster",
        23,
        4,
        {
            "replica_id": -1,
            "topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}],
        },
        on(O.CLUSTER_ACTION, R.CLUSTER, CLUSTER),
    ),
    Case(
        "add-partitions-to-txn",
        24,
        3,
        {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [
                {"name": "t", "partitions": [0]},
                {"name": "u", "partitions": [0]},
                {"name": MISSING, "partitions": [0]},
            ],
        },
        [*on(O.WRITE, R.TRANSACTIONAL_ID, "x"), *on(O.WRITE, R.TOPIC, "t", MISSING)],
    ),
    Case(
        "add-partitions-to-txn-broker",
        24,
        5,
        {
            "transactions": [
                {
                    "transactional_id": "x",
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "verify_only": True,
                    "topics": [{"name": "t", "partitions": [0]}],
                }
            ]
        },
        on(O.CLUSTER_ACTION, R.CLUSTER, CLUSTER),
    ),
    Case(
        "add-offsets-to-txn",
        25,
        4,
        {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, "group_id": "g"},
        [*on(O.WRITE, R.TRANSACTIONAL_ID, "x"), *on(O.READ, R.GROUP, "g")],
    ),
    Case(
        "add-offsets-to-txn-group",
        25,
        4,
        {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, "group_id": "g"},
        on(O.WRITE, R.TRANSACTIONAL_ID, "x"),
    ),
    Case(
        "end-txn",
        26,
        4,
        {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, "committed": True},
        on(O.WRITE, R.TRANSACTIONAL_ID, "x"),
    ),
    Case(
        "write-txn-markers",
        27,
        1,
        {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "topics": [{"name": MISSING, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
        on(O.ALTER, R.CLUSTER, CLUSTER),
    ),
    Case(
        "txn-offset-commit",
        28,
        4,
        {
            "transactional_id": "x",
            "group_id": "g",
            "producer_id": 1,
            "producer_epoch": 0,
            "topics": [
                {"name": n, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
                for n in ("u", MISSING)
            ],
        },
        [
            *on(O.WRITE, R.TRANSACTIONAL_ID, "x"),
            *on(O.READ, R.GROUP, "g"),
            *on(O.READ, R.TOPIC, MISSING),
        ],
    ),
    Case(
        "describe-acls",
        29,
        3,
        {
            "resource_type_filter": 2,
            "resource_name_filter": "nothing",
            "pattern_type_filter": 3,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        },
        on(O.DESCRIBE, R.CLUSTER, CLUSTER),
    ),
    Case(
        "create-acls",
        30,
        3,
        {
            "creations": [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "resource_pattern_type": pattern,
                    "principal": principal,
                    "host": "*",
                    "operation": operation,
                    "permission_type": permission,
                }
                for kind, name, pattern, principal, operation, permission in (
                    (2, "some-topic", 3, "User:c", 3, 3),
                    (2, "some-topic", 3, "User:c", 3, 3),
                    (4, "not-the-cluster", 3, "User:c", 3, 3),
                    (2, "", 3, "User:c", 3, 3),
                    (2, "n", 3, "nobody", 3, 3),
                )
            ]
        },
        on(O.ALTER, R.CLUSTER, CLUSTER),
    ),
    Case(
        "delete-acls",
        31,
        3,
        {
            "filters": [
                {
                    "resource_type_filter": kind,
                    "resource_name_filter": name,
                    "pattern_type_filter": pattern,
                    "principal_filter": "User:c",
                    "host_filter": None,
                    "operation": 1,
                    "permission_type": 1,
                }
                for kind, name, pattern in (
                    (2, "some-topic", 3),
                    (2, "some-topic", 2),
                    (1, "nothing", 1),
                )
            ]
        },
        on(O.ALTER, R.CLUSTER, CLUSTER),
    ),
    *(
        Case(
            f"describe-configs-{label}",
            32,
            4,
            {
                "resources": [
                    {
                        "resource_type": kind,
                        "resource_name": name,
                        "configuration_keys": ["nothing"],
                    }
                    for kind, name in ((2, "t"), (2, MISSING), (4, "1"), (32, "g"), (16, "m"))
                ]
            },
            rights,
        )
        for label, rights in (
            ("topic", on(O.DESCRIBE_CONFIGS, R.TOPIC, "t")),
            ("cluster", on(O.ALTER_CONFIGS, R.CLUSTER, CLUSTER)),
            ("group", on(O.DESCRIBE_CONFIGS, R.GROUP, "g")),
        )
    ),
    *(
        Case(
            f"alter-configs-{label}",
            44,
            1,
            {
                "resources": [
                    {
                        "resource_type": kind,
                        "resource_name": name,
                        "configs": [{"name": key, "config_operation": 1, "value": None}],
                    }
                    for kind, name, key in (
                        (2, "t", "retention.ms"),
                        (2, MISSING, "retention.ms"),
                        (4, "1", "log.cleaner.threads"),
                        (32, "g", "consumer.session.timeout.ms"),
                    )
                ],
                "validate_only": True,
            },
            rights,
        )
        for label, rights in (
            ("topic", on(O.ALTER_CONFIGS, R.TOPIC, "t", MISSING)),
            ("cluster", on(O.ALTER_CONFIGS, R.CLUSTER, CLUSTER)),
            ("group", on(O.ALTER_CONFIGS, R.GROUP, "g")),
        )
    ),
    Case(
        "replace-configs",
        33,
        2,
        {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": n,
                    "configs": [{"name": "retention.ms", "value": "60000"}],
                }
                for n in ("t", "u")
            ],
            "validate_only": True,
        },
        on(O.ALTER_CONFIGS, R.TOPIC, "t"),
    ),
    Case(
        "alter-replica-log-dirs",
        34,
        2,
        {"dirs": [{"path": "/nowhere", "topics": [{"name": "t", "partitions": [0]}]}]},
        on(O.ALTER, R.CLUSTER, CLUSTER),
    ),
    Case(
        "describe-log-dirs",
        35,
        4,
        {"topics": [{"topic": MISSING, "partitions": [0]}]},
        on(O.DESCRIBE, R.CLUSTER, CLUSTER),
    ),
    Case(
        "create-partitions",
        37,
        3,
        {
            "topics": [{"name": n, "count": 2, "assignments": None} for n in ("t", "u", MISSING)],
            "timeout_ms": 30_000,
            "validate_only": True,
        },
        on(O.ALTER, R.TOPIC, "t"),
    ),
    Case(
        "delete-groups",
        42,
        2,
        {"groups_names": ["gone-group", "g"]},
        on(O.DELETE, R.GROUP, "gone-group"),
    ),
    Case(
        "elect-leaders",
        43,
        2,
        {
            "election_type": 0,
            "topic_partitions": [{"topic": "t", "partitions": [0]}],
            "timeout_ms": 30_000,
        },
        on(O.ALTER, R.CLUSTER, CLUSTER),
    ),
    Case(
        "alter-reassignments",
        45,
        0,
        {
            "timeout_ms": 30_000,
            "topics": [{"name": MISSING, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
        on(O.ALTER, R.CLUSTER, CLUSTER),
    ),
    Case(
        "list-reassignments",
        46,
        0,
        {"timeout_ms": 30_000, "topics": None},
        on(O.DESCRIBE, R.CLUSTER, CLUSTER),
    ),
    Case(
        "offset-delete",
        47,
        0,
        {
            "group_id": "g",
            "topics": [{"name": n, "partitions": [{"partition_index": 0}]} for n in ("u", MISSING)],
        },
        [*on(O.DELETE, R.GROUP, "g"), *on(O.READ, R.TOPIC, MISSING)],
    ),
    Case(
        "describe-quotas",
        48,
        1,
        {"components": [], "strict": True},
        on(O.DESCRIBE_CONFIGS, R.CLUSTER, CLUSTER),
    ),
    Case(
        "alter-quotas",
        49,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "u"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e9}],
                }
            ],
            "validate_only": True,
        },
        on(O.ALTER_CONFIGS, R.CLUSTER, CLUSTER),
    ),
    Case(
        "describe-scram-users",
        50,
        0,
        {"users": [{"name": "u"}]},
        on(O.DESCRIBE, R.CLUSTER, CLUSTER),
    ),
    Case(
        "alter-scram-users",
        51,
        0,
        {"deletions": [{"name": "u", "mechanism": 1}], "upsertions": []},
        on(O.ALTER, R.CLUSTER, CLUSTER),
    ),
    Case(
        "streams-heartbeat",
        88,
        0,
        {"group_id": "st", "member_id": "a", "member_epoch": 3},
        on(O.READ, R.GROUP, "st"),
    ),
    Case(
        "streams-heartbeat-topics",
        88,
        0,
        {
            "group_id": "st",
            "member_id": "a",
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "topology": {
                "epoch": 0,
                "subtopologies": [{"subtopology_id": "0", "source_topics": ["t", "u"]}],
            },
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        },
        [*on(O.READ, R.GROUP, "st"), *on(O.DESCRIBE, R.TOPIC, "t")],
    ),
    Case(
        "streams-describe",
        89,
        0,
        {"group_ids": ["st", "other"], "include_authorized_operations": True},
        on(O.DESCRIBE, R.GROUP, "st"),
    ),
    Case(
        "describe-quorum",
        55,
        2,
        {"topics": [{"topic_name": "nothing", "partitions": [{"partition_index": 0}]}]},
        on(O.DESCRIBE, R.CLUSTER, CLUSTER),
    ),
    Case(
        "update-features",
        57,
        1,
        {
            "feature_updates": [],
            "timeout_ms": 30_000,
            "validate_only": True,
        },
        on(O.ALTER, R.CLUSTER, CLUSTER),
    ),
    Case(
        "describe-cluster",
        60,
        1,
        {"include_cluster_authorized_operations": True},
        [*on(O.DESCRIBE, R.CLUSTER, CLUSTER), *on(O.ALTER_CONFIGS, R.CLUSTER, CLUSTER)],
    ),
    Case(
        "describe-producers",
        61,
        0,
        {"topics": [{"name": n, "partition_indexes": [0]} for n in ("t", "u", MISSING)]},
        on(O.READ, R.TOPIC, "t"),
    ),
    Case("unregister-broker", 64, 0, {"broker_id": 77}, on(O.ALTER, R.CLUSTER, CLUSTER)),
    Case(
        "describe-transactions",
        65,
        0,
        {"transactional_ids": ["x", "unknown"]},
        on(O.DESCRIBE, R.TRANSACTIONAL_ID, "x"),
    ),
    Case(
        "list-transactions",
        66,
        1,
        {},
        on(O.DESCRIBE, R.TRANSACTIONAL_ID, "x"),
    ),
    Case(
        "consumer-heartbeat",
        68,
        1,
        {
            "group_id": "k",
            "member_id": "a",
            "member_epoch": 3,
            "subscribed_topic_names": ["t", "u"],
        },
        [*on(O.READ, R.GROUP, "k"), *on(O.DESCRIBE, R.TOPIC, "t", "u")],
    ),
    Case(
        "consumer-heartbeat-topics",
        68,
        1,
        {
            "group_id": "k",
            "member_id": "a",
            "member_epoch": 3,
            "subscribed_topic_names": ["t", "u"],
        },
        [*on(O.READ, R.GROUP, "k"), *on(O.DESCRIBE, R.TOPIC, "t")],
    ),
    Case(
        "consumer-describe",
        69,
        1,
        {"group_ids": ["k", "other"], "include_authorized_operations": True},
        on(O.DESCRIBE, R.GROUP, "k"),
    ),
    Case("list-config-resources", 74, 0, {}, on(O.DESCRIBE_CONFIGS, R.CLUSTER, CLUSTER)),
    Case(
        "describe-topic-partitions",
        75,
        0,
        {"topics": [{"name": n} for n in ("t", "u", MISSING)], "response_partition_limit": 10},
        on(O.ALTER, R.TOPIC, "t"),
    ),
    Case(
        "describe-topic-partitions-all",
        75,
        0,
        {"topics": [], "response_partition_limit": 10},
        on(O.ALTER, R.TOPIC, "t"),
    ),
    Case(
        "share-heartbeat",
        76,
        1,
        {"group_id": "s", "member_id": "a", "member_epoch": 3, "subscribed_topic_names": ["t"]},
        [*on(O.READ, R.GROUP, "s"), *on(O.DESCRIBE, R.TOPIC, "t")],
    ),
    Case(
        "share-heartbeat-topics",
        76,
        1,
        {"group_id": "s", "member_id": "a", "member_epoch": 3, "subscribed_topic_names": ["t"]},
        on(O.READ, R.GROUP, "s"),
    ),
    Case(
        "share-describe",
        77,
        1,
        {"group_ids": ["s", "other"], "include_authorized_operations": True},
        on(O.DESCRIBE, R.GROUP, "s"),
    ),
    Case(
        "share-fetch",
        78,
        1,
        {
            "group_id": "s",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
            "share_session_epoch": 0,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "max_records": 1,
            "batch_size": 1,
            "topics": [{"topic_id": f"@{n}", "partitions": [{"partition_index": 0}]} for n in "tu"],
        },
        on(O.READ, R.GROUP, "s"),
    ),
    Case(
        "share-acknowledge",
        79,
        1,
        {
            "group_id": "s",
            "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
            "share_session_epoch": 1,
            "topics": [
                {
                    "topic_id": "@u",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "acknowledgement_batches": [
                                {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
                            ],
                        }
                    ],
                }
            ],
        },
        on(O.READ, R.GROUP, "s"),
    ),
    *(
        Case(
            name,
            key,
            0,
            {"group_id": "s", "topics": []},
            on(O.CLUSTER_ACTION, R.CLUSTER, CLUSTER),
        )
        for name, key in (
            ("initialize-share-state", 83),
            ("read-share-state", 84),
            ("write-share-state", 85),
            ("delete-share-state", 86),
            ("read-share-state-summary", 87),
        )
    ),
    Case(
        "describe-share-offsets",
        90,
        0,
        {
            "groups": [
                {"group_id": "s", "topics": [{"topic_name": n, "partitions": [0]} for n in "tu"]},
                {"group_id": "other", "topics": None},
            ]
        },
        [*on(O.DESCRIBE, R.GROUP, "s"), *on(O.DESCRIBE, R.TOPIC, "t")],
    ),
    Case(
        "alter-share-offsets",
        91,
        0,
        {
            "group_id": "s2",
            "topics": [
                {"topic_name": n, "partitions": [{"partition_index": 0, "start_offset": 0}]}
                for n in ("u", MISSING)
            ],
        },
        [*on(O.READ, R.GROUP, "s2"), *on(O.READ, R.TOPIC, MISSING)],
    ),
    Case(
        "delete-share-offsets",
        92,
        0,
        {"group_id": "s3", "topics": [{"topic_name": n} for n in ("u", MISSING)]},
        [*on(O.DELETE, R.GROUP, "s3"), *on(O.READ, R.TOPIC, MISSING)],
    ),
    Case(
        "fetch",
        1,
        12,
        {
            "max_bytes": 1000,
            "topics": [
                {"topic": n, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}
                for n in ("t", "u", MISSING)
            ],
        },
        on(O.READ, R.TOPIC, "t", MISSING),
    ),
    Case(
        "fetch-by-id",
        1,
        16,
        {
            "max_bytes": 1000,
            "topics": [
                {"topic_id": n, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}
                for n in ("@t", "@u", "@unknown")
            ],
        },
        on(O.READ, R.TOPIC, "t"),
    ),
    Case(
        "fetch-as-follower",
        1,
        12,
        {
            "replica_id": 5,
            "max_bytes": 1000,
            "topics": [
                {"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}
            ],
        },
        on(O.READ, R.TOPIC, "t"),
    ),
    Case(
        "produce",
        0,
        9,
        {
            "acks": 1,
            "timeout_ms": 30_000,
            "topic_data": [
                {"name": n, "partition_data": [{"index": 0, "records": "@batch"}]}
                for n in ("t", "u", MISSING)
            ],
        },
        on(O.WRITE, R.TOPIC, "t", MISSING),
    ),
    Case(
        "produce-by-id",
        0,
        13,
        {
            "acks": 1,
            "timeout_ms": 30_000,
            "topic_data": [
                {"topic_id": n, "partition_data": [{"index": 0, "records": "@batch"}]}
                for n in ("@t", "@u", "@unknown")
            ],
        },
        on(O.WRITE, R.TOPIC, "t"),
    ),
    Case(
        "produce-transactional",
        0,
        9,
        {
            "transactional_id": "z",
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [
                {"name": n, "partition_data": [{"index": 0, "records": "@transactional"}]}
                for n in ("t", MISSING)
            ],
        },
        on(O.WRITE, R.TOPIC, "t", MISSING),
    ),
]


def build(cls: type[Struct], values: dict[str, Any], names: dict[str, bytes]) -> Any:
    """The message that nested dictionaries describe."""
    made, known = cls(), {name: kind for name, kind, _ in fields_of(cls)}
    for name, value in values.items():
        setattr(made, name, _built(known[name], value, names))
    return made


def _built(kind: Any, value: Any, names: dict[str, bytes]) -> Any:
    if isinstance(value, str) and value.startswith("@"):
        return names[value[1:]]
    if isinstance(value, dict):
        return build(kind, cast(dict[str, Any], value), names)
    if isinstance(value, list):
        return [_built(kind.element, one, names) for one in cast(list[Any], value)]
    return value


def request_of(case: Case, names: dict[str, bytes]) -> Any:
    """The request of a case; `names` are topic ids and record batches by what stands behind the
    `@`."""
    return build(MESSAGES[case.key].request, case.request, names)


VOLATILE: Final = frozenset(
    {
        "active_producers",
        "assignor_name",
        "base_offset",
        "broker_id",
        "brokers",
        "cluster_id",
        "committed_leader_epoch",
        "controller_id",
        "coordinators_host",
        "current_leader",
        "heartbeat_interval_ms",
        "high_watermark",
        "host",
        "isr_nodes",
        "last_stable_offset",
        "leader_epoch",
        "log_append_time_ms",
        "log_start_offset",
        "low_watermark",
        "member_id",
        "node_endpoints",
        "node_id",
        "nodes",
        "offset",
        "partition_epoch",
        "port",
        "producer_epoch",
        "producer_id",
        "records",
        "replica_nodes",
        "session_id",
        "start_offset",
        "throttle_time_ms",
        "timestamp",
        "total_bytes",
        "usable_bytes",
        "log_dir",
        "transaction_start_time_ms",
        "transaction_timeout_ms",
    }
)
"""Fields that differ from run to run, and are not compared."""


def plain(value: Any, ids: dict[bytes, str]) -> Any:
    """An answer as it is compared: nested dictionaries without what differs from run to run, lists
    in one order."""
    if isinstance(value, Struct):
        found: dict[str, Any] = {}
        for name, kind, _ in fields_of(type(value)):
            content = getattr(value, name)
            if name in VOLATILE:
                continue
            if kind is UUID:
                content = ids.get(content, "")
            if name in ("error_message", "acknowledge_error_message"):
                # Apache prints its whole Java object of the request.
                printed = content is not None and content.startswith("Request Request(")
                content = "Cluster authorization failed." if printed else content or None
            found[name] = plain(content, ids)
        return found
    if isinstance(value, list):
        return sorted((plain(one, ids) for one in value), key=repr)
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return value
