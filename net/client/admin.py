"""The admin client: every administrative request of the protocol, with a separate result for each
item.

    async with open_admin("localhost:9092") as admin:
        answers = await admin.create_topics([NewTopic("orders", partitions=12)])

An operation on many items returns `Answers`: a result or an error for each item. The error is the
broker's `KafkaError`, or a `ClientError` if the responsible broker could not be reached. All other
errors are raised. The operations are in admin_operations, one file per subject; their arguments and
results are in results.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Self

from pk.net.client.admin_operations.acls import AclOperations
from pk.net.client.admin_operations.base import Failure
from pk.net.client.admin_operations.cluster import ClusterOperations
from pk.net.client.admin_operations.configs import ConfigOperations
from pk.net.client.admin_operations.faults import FaultOperations
from pk.net.client.admin_operations.groups import GroupOperations
from pk.net.client.admin_operations.metadata import MetadataOperations
from pk.net.client.admin_operations.partitions import PartitionOperations
from pk.net.client.admin_operations.quotas import QuotaOperations
from pk.net.client.admin_operations.records import RecordOperations
from pk.net.client.admin_operations.share_groups import ShareGroupOperations
from pk.net.client.admin_operations.tokens import TokenOperations
from pk.net.client.admin_operations.topics import TopicOperations
from pk.net.client.admin_operations.transactions import TransactionOperations
from pk.net.client.admin_operations.users import UserOperations
from pk.net.client.cluster import open_cluster
from pk.net.client.config import AdminConfig, parse
from pk.net.client.connection import OnRequest, RequestTrace

__all__ = ["Admin", "Failure", "RequestTrace", "open_admin"]


class Admin(
    FaultOperations,
    ClusterOperations,
    MetadataOperations,
    TopicOperations,
    PartitionOperations,
    ConfigOperations,
    GroupOperations,
    ShareGroupOperations,
    RecordOperations,
    TransactionOperations,
    AclOperations,
    QuotaOperations,
    UserOperations,
    TokenOperations,
):
    """An admin client, made by `open_admin`. Several tasks may call its methods at once.

    A method that returns `Answers` does not raise the errors of single items. Every method raises
    ClientError if no broker can be reached within `default.api.timeout.ms`, and KafkaError if the
    broker refuses the whole request or is too old for it (UNSUPPORTED_VERSION). Times are in epoch
    milliseconds unless a name says otherwise. With `validate_only` the broker checks the change
    without making it.
    """

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        bootstrap: str | Sequence[str],
        config: Mapping[str, object] | None = None,
        *,
        on_request: OnRequest | None = None,
    ) -> AsyncGenerator[Self]:
        """Open an admin client of the cluster that `bootstrap` ("host:port,host:port") belongs to.
        The client connects on first use and is closed when the block ends.

        `config` takes Kafka's admin keys (`client.id`, `request.timeout.ms`,
        `default.api.timeout.ms`, …). `on_request` is called with a `RequestTrace` after each
        request. Raises ConfigError.
        """
        parsed = parse(AdminConfig, config)
        async with open_cluster(bootstrap, parsed, on_request) as cluster:
            yield cls(cluster, parsed)


open_admin = Admin.open
