"""A Kafka client for Python programs: producer, consumers and admin client.

    from pk.client import open_producer               # on trio
    from pk.client.aio import open_producer           # on asyncio
    from pk.client.blocking import open_producer      # without an event loop

`pk.client` has the classes for trio, their records, results and errors; docs/client.md explains
them. The names of `__all__` are the public interface. A module is imported when a program first
uses one of its names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pk.core.auth.acls import AclBinding, AclFilter
    from pk.core.errors import ErrorCode, KafkaError, ProtocolError
    from pk.core.group.consumer_protocol import Subscription
    from pk.core.record.batch import TimestampType
    from pk.core.schemas.registry.errors import RegistryError
    from pk.core.schemas.schema import (
        MissingLibrary,
        Reference,
        Schema,
        SchemaError,
        UnfitValue,
    )
    from pk.core.share.partition_state import AcknowledgeType
    from pk.core.values import TopicPartition
    from pk.net.client.admin import Admin, open_admin
    from pk.net.client.admin_operations.quotas import QuotaFilter
    from pk.net.client.admin_operations.tokens import Token
    from pk.net.client.admin_operations.users import NewPassword, ScramUser
    from pk.net.client.answers import Answers
    from pk.net.client.assignment.assignors import Assignor, RebalanceProtocol
    from pk.net.client.connection import RequestTrace
    from pk.net.client.consumer import Consumer, open_consumer
    from pk.net.client.delivery import (
        BatchDelivered,
        Deliveries,
        Delivery,
        OutgoingRecord,
        RecordMetadata,
        Run,
        SentRecord,
    )
    from pk.net.client.errors import (
        BufferExhausted,
        ClientError,
        Closed,
        ConfigError,
        ConnectFailed,
        ControllerSilent,
        Disconnected,
        LogTruncated,
        NoBrokers,
        NoOffset,
        NoTransaction,
        RequestTimedOut,
        Straggler,
        TransactionOutcomeUnknown,
        Unanswered,
        UnknownPartition,
    )
    from pk.net.client.producer import Producer, open_producer
    from pk.net.client.results import (
        EARLIEST,
        EARLIEST_LOCAL,
        LATEST,
        LATEST_TIERED,
        MAX_TIMESTAMP,
        ApiRange,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigOperation,
        ConfigResource,
        ConfigSource,
        CreatedTopic,
        ElectionType,
        GroupDescription,
        GroupListing,
        GroupMetadata,
        ListedGroups,
        ListedOffset,
        LogDirDescription,
        MemberDescription,
        MemberToRemove,
        NewPartitions,
        NewTopic,
        OffsetAndMetadata,
        PartitionDescription,
        ProducerState,
        Reassignment,
        ResourceType,
        ShareGroupOffset,
        TopicDescription,
        TopicListing,
        TransactionDescription,
        TransactionListing,
    )
    from pk.net.client.share_consumer import ShareConsumer, ShareRecord, open_share_consumer
    from pk.net.client.subscription import ConsumerRecord, FetchedBatch
    from pk.net.client.typed import (
        TypedConsumer,
        TypedProducer,
        TypedRecord,
        TypedShareConsumer,
        TypedShareRecord,
        UndecodableRecord,
    )
    from pk.net.oauth.token_provider import AccessToken
    from pk.net.schemas.answers import RegistryUnreachable
    from pk.net.schemas.blocking import Schemas
    from pk.net.schemas.serializers import SchemaDeserializer, SchemaSerializer

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "LATEST",
    "LATEST_TIERED",
    "MAX_TIMESTAMP",
    "AccessToken",
    "AcknowledgeType",
    "AclBinding",
    "AclFilter",
    "Admin",
    "Answers",
    "ApiRange",
    "Assignor",
    "BatchDelivered",
    "BufferExhausted",
    "ClientError",
    "Closed",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigError",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConnectFailed",
    "Consumer",
    "ConsumerRecord",
    "ControllerSilent",
    "CreatedTopic",
    "Deliveries",
    "Delivery",
    "Disconnected",
    "ElectionType",
    "ErrorCode",
    "FetchedBatch",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "KafkaError",
    "ListedGroups",
    "ListedOffset",
    "LogDirDescription",
    "LogTruncated",
    "MemberDescription",
    "MemberToRemove",
    "MissingLibrary",
    "NewPartitions",
    "NewPassword",
    "NewTopic",
    "NoBrokers",
    "NoOffset",
    "NoTransaction",
    "OffsetAndMetadata",
    "OutgoingRecord",
    "PartitionDescription",
    "Producer",
    "ProducerState",
    "ProtocolError",
    "QuotaFilter",
    "Reassignment",
    "RebalanceProtocol",
    "RecordMetadata",
    "Reference",
    "RegistryError",
    "RegistryUnreachable",
    "RequestTimedOut",
    "RequestTrace",
    "ResourceType",
    "Run",
    "Schema",
    "SchemaDeserializer",
    "SchemaError",
    "SchemaSerializer",
    "Schemas",
    "ScramUser",
    "SentRecord",
    "ShareConsumer",
    "ShareGroupOffset",
    "ShareRecord",
    "Straggler",
    "Subscription",
    "TimestampType",
    "Token",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
    "TransactionOutcomeUnknown",
    "TypedConsumer",
    "TypedProducer",
    "TypedRecord",
    "TypedShareConsumer",
    "TypedShareRecord",
    "Unanswered",
    "UndecodableRecord",
    "UnfitValue",
    "UnknownPartition",
    "open_admin",
    "open_consumer",
    "open_producer",
    "open_share_consumer",
]

_HOMES = {
    "pk.core.errors": (
        "ErrorCode",
        "KafkaError",
        "ProtocolError",
    ),
    "pk.core.values": ("TopicPartition",),
    "pk.core.record.batch": ("TimestampType",),
    "pk.core.share.partition_state": ("AcknowledgeType",),
    "pk.core.schemas.registry.errors": ("RegistryError",),
    "pk.core.schemas.schema": (
        "MissingLibrary",
        "Reference",
        "Schema",
        "SchemaError",
        "UnfitValue",
    ),
    "pk.core.auth.acls": (
        "AclBinding",
        "AclFilter",
    ),
    "pk.net.client.admin": (
        "Admin",
        "open_admin",
    ),
    "pk.net.client.admin_operations.quotas": ("QuotaFilter",),
    "pk.net.client.admin_operations.tokens": ("Token",),
    "pk.net.client.admin_operations.users": (
        "NewPassword",
        "ScramUser",
    ),
    "pk.net.client.answers": ("Answers",),
    "pk.core.group.consumer_protocol": ("Subscription",),
    "pk.net.client.assignment.assignors": ("Assignor", "RebalanceProtocol"),
    "pk.net.client.connection": ("RequestTrace",),
    "pk.net.client.consumer": (
        "Consumer",
        "open_consumer",
    ),
    "pk.net.client.delivery": (
        "BatchDelivered",
        "Deliveries",
        "Delivery",
        "OutgoingRecord",
        "RecordMetadata",
        "Run",
        "SentRecord",
    ),
    "pk.net.client.errors": (
        "BufferExhausted",
        "ClientError",
        "Closed",
        "ConfigError",
        "ConnectFailed",
        "ControllerSilent",
        "Disconnected",
        "LogTruncated",
        "NoBrokers",
        "NoOffset",
        "NoTransaction",
        "RequestTimedOut",
        "Straggler",
        "TransactionOutcomeUnknown",
        "Unanswered",
        "UnknownPartition",
    ),
    "pk.net.client.producer": (
        "Producer",
        "open_producer",
    ),
    "pk.net.client.results": (
        "ApiRange",
        "ClusterDescription",
        "ConfigChange",
        "ConfigEntry",
        "ConfigOperation",
        "ConfigResource",
        "ConfigSource",
        "CreatedTopic",
        "EARLIEST",
        "EARLIEST_LOCAL",
        "ElectionType",
        "GroupDescription",
        "GroupListing",
        "GroupMetadata",
        "LATEST",
        "LATEST_TIERED",
        "ListedGroups",
        "ListedOffset",
        "LogDirDescription",
        "MAX_TIMESTAMP",
        "MemberDescription",
        "MemberToRemove",
        "NewPartitions",
        "NewTopic",
        "OffsetAndMetadata",
        "PartitionDescription",
        "ProducerState",
        "Reassignment",
        "ResourceType",
        "ShareGroupOffset",
        "TopicDescription",
        "TopicListing",
        "TransactionDescription",
        "TransactionListing",
    ),
    "pk.net.client.share_consumer": (
        "ShareConsumer",
        "ShareRecord",
        "open_share_consumer",
    ),
    "pk.net.client.subscription": (
        "ConsumerRecord",
        "FetchedBatch",
    ),
    "pk.net.client.typed": (
        "TypedConsumer",
        "TypedProducer",
        "TypedRecord",
        "TypedShareConsumer",
        "TypedShareRecord",
        "UndecodableRecord",
    ),
    "pk.net.oauth.token_provider": ("AccessToken",),
    "pk.net.schemas.answers": ("RegistryUnreachable",),
    "pk.net.schemas.blocking": ("Schemas",),
    "pk.net.schemas.serializers": ("SchemaDeserializer", "SchemaSerializer"),
}
"""Module → the names of `__all__` that it defines."""


def __getattr__(name: str) -> Any:
    """Import a name of `__all__`. Raises AttributeError for any other name."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
