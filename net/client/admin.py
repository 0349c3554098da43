"""The admin client: every administrative request of the protocol, each item answered on its own.

    async with open_admin("localhost:9092") as admin:
        answers = await admin.create_topics([NewTopic("orders", partitions=12)])

An operation on many items answers a dict from item to result or error: `KafkaError` as the broker answered it, or
`ClientError` where the broker that would know could not be reached. What is not about items raises. The operations are in
admin_cluster, admin_metadata, admin_topics, admin_partitions, admin_configs, admin_groups, admin_records and
admin_transactions; what they take and give is in results.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from pk.net.client.admin_base import Failure
from pk.net.client.admin_cluster import ClusterOperations
from pk.net.client.admin_configs import ConfigOperations
from pk.net.client.admin_groups import GroupOperations
from pk.net.client.admin_metadata import MetadataOperations
from pk.net.client.admin_partitions import PartitionOperations
from pk.net.client.admin_records import RecordOperations
from pk.net.client.admin_topics import TopicOperations
from pk.net.client.admin_transactions import TransactionOperations
from pk.net.client.cluster import open_cluster
from pk.net.client.config import AdminConfig, parse
from pk.net.client.connection import OnRequest, RequestTrace

__all__ = ["Admin", "Failure", "RequestTrace", "open_admin"]


class Admin(
    ClusterOperations,
    MetadataOperations,
    TopicOperations,
    PartitionOperations,
    ConfigOperations,
    GroupOperations,
    RecordOperations,
    TransactionOperations,
):
    """An admin client. Made by `open_admin`; its methods may be called by several tasks at once."""


@asynccontextmanager
async def open_admin(
    bootstrap: str | Sequence[str],
    config: Mapping[str, object] | None = None,
    *,
    on_request: OnRequest | None = None,
) -> AsyncIterator[Admin]:
    """An admin client of the cluster that `bootstrap` ("host:port,host:port") belongs to. Connects on first use.

    `config` takes Kafka's admin keys (`client.id`, `request.timeout.ms`, `default.api.timeout.ms`, …).
    `on_request` is called with a `RequestTrace` after each request. Raises ConfigError.
    Connections end with the block.
    """
    parsed = parse(AdminConfig, config)
    async with open_cluster(bootstrap, parsed, on_request) as cluster:
        yield Admin(cluster, parsed)
