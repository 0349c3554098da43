"""A broker in three facades: the partitions that it holds (`data`), the coordinators that it runs
(`groups`), and the cluster around it (`cluster`)."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from msgspec import Struct

from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.controller_client import ForwardingClient
from pk.core.broker.coordinator.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
from pk.core.broker.coordinator.marker_writer import MarkerWriter
from pk.core.broker.coordinator.producer_ids import ProducerIds
from pk.core.broker.coordinator.share_coordinators import ShareCoordinators
from pk.core.broker.coordinator.share_offsets import ShareOffsets
from pk.core.broker.coordinator.share_state_client import ShareStateClient
from pk.core.broker.coordinator.transaction_coordinators import TransactionCoordinators
from pk.core.broker.replication.alter_log_dirs_manager import AlterLogDirsManager
from pk.core.broker.replication.alter_partition_manager import AlterPartitionManager
from pk.core.broker.replication.assignments_manager import AssignmentsManager
from pk.core.broker.replication.disconnected_leaders import DisconnectedLeaders
from pk.core.broker.replication.fetch_sessions import FetchSessions
from pk.core.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from pk.core.broker.replication.replica_logs import ReplicaLogs
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.replication.replication_quotas import ReplicationQuotas
from pk.core.broker.requests.auto_topic_creation import OnDemand
from pk.core.broker.requests.recently_fenced import RecentlyFencedBrokers
from pk.core.broker.share.share_partitions import SharePartitions

Served = Sequence[tuple[int, int, int]]
"""(api key, first version, last version)."""


class BrokerData(Struct, eq=False, kw_only=True):
    """The partitions that a broker holds, and their replication."""

    replicas: Replicas
    fetch_sessions: FetchSessions
    replication_quotas: ReplicationQuotas
    """The rate limits for copying throttled replicas."""
    alter_partition: AlterPartitionManager
    """Maintains the in-sync replicas of the partitions that this broker leads."""
    fetchers: ReplicaFetcherManager
    """Copy the partitions that this broker follows from their leaders."""
    assignments: AssignmentsManager
    """Reports the log directory of each replica to the controller."""
    replica_logs: ReplicaLogs
    """Reports the log ends of partitions without a leader to the controller."""
    alter_log_dirs: AlterLogDirsManager

    def start(self, nursery: trio.Nursery) -> None:
        """Start the background tasks."""
        nursery.start_soon(self.alter_partition.run)
        nursery.start_soon(self.assignments.run)
        nursery.start_soon(self.replica_logs.run)


class BrokerGroups(Struct, eq=False, kw_only=True):
    """The coordinators of groups, transactions and share groups, and the clients of coordinators on
    other brokers."""

    coordinators: GroupCoordinators
    transactions: TransactionCoordinators
    share_coordinators: ShareCoordinators
    share_state_client: ShareStateClient
    """Sends requests to share coordinators on any broker."""
    share_offsets: ShareOffsets
    """The progress of share groups in their topics."""
    share_partitions: SharePartitions
    """The partitions that share groups fetch from this broker."""
    markers: MarkerWriter
    """Writes transaction markers to partitions of this broker."""
    add_partitions: AddPartitionsToTxnManager
    """Sends requests to transaction coordinators on any broker."""
    producer_ids: ProducerIds

    async def stop(self) -> None:
        """Close all coordinators, so that waiting clients look for the next ones."""
        await self.coordinators.stop()
        await self.transactions.stop()
        await self.share_coordinators.stop()
        self.share_partitions.close()
        self.share_state_client.close()
        self.share_offsets.close()
        self.add_partitions.close()


class BrokerCluster(Struct, eq=False, kw_only=True):
    """The controller and the other brokers, as this broker knows and reaches them."""

    controller_client: ForwardingClient
    """The client of the active controller, in any process."""
    controller: Controller | None
    """The controller in this process, active or not; None if the process does not have that
    role."""
    disconnected_leaders: DisconnectedLeaders
    recently_fenced: RecentlyFencedBrokers
    topics_on_demand: OnDemand
    """Creates topics that clients request by name."""
    served: Served = ()
    """The APIs that ApiVersions lists."""
    controller_served: Served = ()
    """The APIs that ApiVersions lists on a controller's listener."""
