"""Builds the parts of a broker, each after the parts that it needs."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Final

from msgspec import Struct

from pk.core.broker.background import Background
from pk.core.broker.broker import Broker, ImageListener
from pk.core.broker.clock import Clock
from pk.core.broker.controller.controller import Controller
from pk.core.broker.controller.controller_client import ForwardingClient
from pk.core.broker.coordinator.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from pk.core.broker.coordinator.broker_links import BrokerLinks
from pk.core.broker.coordinator.group_coordinators import GroupCoordinators
from pk.core.broker.coordinator.marker_sender import MarkerSender
from pk.core.broker.coordinator.marker_writer import MarkerWriter
from pk.core.broker.coordinator.producer_ids import ProducerIds
from pk.core.broker.coordinator.share_coordinators import ShareCoordinators
from pk.core.broker.coordinator.share_offsets import ShareOffsets
from pk.core.broker.coordinator.share_state_client import ShareStateClient
from pk.core.broker.coordinator.transaction_coordinators import TransactionCoordinators
from pk.core.broker.facades import BrokerCluster, BrokerData, BrokerGroups, Served
from pk.core.broker.faults.faults import Faults
from pk.core.broker.peers import Peers
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.remote.metadata_topic import RemoteLogMetadataTopic
from pk.core.broker.remote.remote_log_manager import RemoteLogManager
from pk.core.broker.remote.tasks import RemoteTasks
from pk.core.broker.replication.alter_log_dirs_manager import AlterLogDirsManager
from pk.core.broker.replication.alter_partition_manager import AlterPartitionManager
from pk.core.broker.replication.assignments_manager import AssignmentsManager
from pk.core.broker.replication.disconnected_leaders import DisconnectedLeaders
from pk.core.broker.replication.fetch_sessions import FetchSessions
from pk.core.broker.replication.proposals import Proposals
from pk.core.broker.replication.remote_log import RemoteReads
from pk.core.broker.replication.replica_fetcher import FetcherEnvironment
from pk.core.broker.replication.replica_fetcher_manager import ReplicaFetcherManager
from pk.core.broker.replication.replica_logs import ReplicaLogs
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.replication.replication_quotas import ReplicationQuotas
from pk.core.broker.requests.audit_log import AuditLog
from pk.core.broker.requests.authorization import Authorization
from pk.core.broker.requests.auto_topic_creation import AutoTopicCreation, OnDemand
from pk.core.broker.requests.client_quotas import ClientQuotas
from pk.core.broker.requests.recently_fenced import RecentlyFencedBrokers
from pk.core.broker.share.share_partitions import SharePartitions
from pk.core.broker.state import BrokerState
from pk.core.broker.telemetry.client_metrics import ClientMetrics
from pk.core.log.log_dirs import LogDirs
from pk.core.log.remote.storage import RemoteStorage

EVICTION_MS: Final = 120_000
"""The idle time after which a fetch session may be evicted for a new one, in ms (KIP-227)."""


class Environment(Struct, frozen=True):
    """The process around a broker, for the broker's parts."""

    state: BrokerState
    background: Background
    dirs: LogDirs
    clock: Clock
    random: Random
    controller_client: ForwardingClient
    """Sends requests to the active controller."""
    peers: Peers
    """Sends requests to other brokers."""
    controller: Controller | None = None
    """The controller of this process, if it has one."""
    remote_storage: RemoteStorage | None = None
    """The store to which segments are copied, if remote storage is enabled."""


def assemble(
    environment: Environment,
    *,
    served: Served = (),
    controller_served: Served = (),
    image_listeners: Iterable[ImageListener] = (),
    faults: Faults | None = None,
) -> Broker:
    """Build a broker that has not started. It has no partitions before the first image is
    published.

    `served` and `controller_served` are the APIs that ApiVersions lists on brokers' and on
    controllers' listeners. `image_listeners` are called with each image before the coordinators
    are. `faults` are given if tests may inject some.
    """
    state, background, clock = environment.state, environment.background, environment.clock
    controller_client, controller = environment.controller_client, environment.controller
    purgatory = Purgatory()
    disconnected_leaders = DisconnectedLeaders(state, purgatory)
    topic_creation = AutoTopicCreation(state, controller_client, purgatory)
    data = _data(environment, purgatory, disconnected_leaders)
    groups = _groups(environment, purgatory, data.replicas, topic_creation)
    cluster = BrokerCluster(
        controller_client=controller_client,
        controller=controller,
        disconnected_leaders=disconnected_leaders,
        recently_fenced=RecentlyFencedBrokers(),
        topics_on_demand=OnDemand(topic_creation, background.start_soon),
        served=served,
        controller_served=controller_served,
    )
    remote = _remote(environment, purgatory, data.replicas, topic_creation)
    config = state.config
    authorization = Authorization(config, AuditLog())
    client_quotas = ClientQuotas(config, clock)
    client_metrics = (
        ClientMetrics(state, clock, environment.random) if config.pk_metrics_listener else None
    )
    return Broker(
        state=state,
        background=background,
        clock=clock,
        random=environment.random,
        purgatory=purgatory,
        data=data,
        groups=groups,
        cluster=cluster,
        authorization=authorization,
        client_quotas=client_quotas,
        faults=faults,
        client_metrics=client_metrics,
        remote=remote,
        image_listeners=[
            authorization,
            client_quotas,
            *image_listeners,
            cluster.recently_fenced,
            groups.coordinators,
            groups.transactions,
            groups.share_coordinators,
            groups.share_partitions,
            *([] if remote is None else [remote]),
        ],
        disconnected=[
            one.disconnected
            for one in (controller, groups.share_partitions, faults, client_metrics)
            if one is not None
        ],
    )


def _data(
    environment: Environment, purgatory: Purgatory, disconnected_leaders: DisconnectedLeaders
) -> BrokerData:
    state, dirs, start_soon = (
        environment.state,
        environment.dirs,
        environment.background.start_soon,
    )
    config, controller_client, proposals = state.config, environment.controller_client, Proposals()
    quotas = ReplicationQuotas(config, environment.clock)
    replicas = Replicas(
        state,
        dirs,
        environment.background,
        purgatory=purgatory,
        clock=environment.clock,
        proposals=proposals,
    )
    replica_logs = ReplicaLogs(state, replicas, controller_client)

    fetchers = FetcherEnvironment(
        state, replicas, environment.peers, quotas.follower, disconnected_leaders, replica_logs
    )
    assignments = AssignmentsManager(state, replicas, controller_client)
    return BrokerData(
        replicas=replicas,
        fetch_sessions=FetchSessions(
            config.max_incremental_fetch_session_cache_slots, EVICTION_MS, environment.random
        ),
        replication_quotas=quotas,
        alter_partition=AlterPartitionManager(state, replicas, controller_client, proposals),
        fetchers=ReplicaFetcherManager(fetchers, purgatory, start_soon),
        assignments=assignments,
        replica_logs=replica_logs,
        alter_log_dirs=AlterLogDirsManager(
            replicas, dirs, start_soon, quotas.directories, assignments.moved
        ),
    )


def _remote(
    environment: Environment,
    purgatory: Purgatory,
    replicas: Replicas,
    topic_creation: AutoTopicCreation,
) -> RemoteLogManager | None:
    state, clock, storage = environment.state, environment.clock, environment.remote_storage
    start_soon = environment.background.start_soon
    if storage is None:
        return None
    topic = RemoteLogMetadataTopic(
        state,
        replicas,
        lambda: BrokerLinks(state, environment.peers),
        topic_creation,
        purgatory,
        clock,
        start_soon,
    )
    reads = RemoteReads(storage, lambda: state.cluster_id, lambda: state.config, clock, start_soon)
    tasks = RemoteTasks(storage, state, topic, reads, clock, environment.random)
    return RemoteLogManager(tasks, replicas, start_soon)


def _groups(
    environment: Environment,
    purgatory: Purgatory,
    replicas: Replicas,
    topic_creation: AutoTopicCreation,
) -> BrokerGroups:
    state, start_soon = environment.state, environment.background.start_soon
    share_coordinators = ShareCoordinators(state, replicas, start_soon, topic_creation)
    share_state_client = ShareStateClient(
        state, share_coordinators, BrokerLinks(state, environment.peers), purgatory
    )
    coordinators = GroupCoordinators(
        state, replicas, start_soon, environment.random, topic_creation, share_state_client
    )
    producer_ids = ProducerIds(state, environment.controller_client)
    markers = MarkerWriter(replicas, environment.clock, [coordinators])
    sender = MarkerSender(state, BrokerLinks(state, environment.peers), markers, start_soon)
    transactions = TransactionCoordinators(
        state, replicas, start_soon, sender, producer_ids, topic_creation
    )
    return BrokerGroups(
        coordinators=coordinators,
        transactions=transactions,
        share_coordinators=share_coordinators,
        share_state_client=share_state_client,
        share_offsets=ShareOffsets(
            state,
            replicas,
            coordinators,
            share_state_client,
            BrokerLinks(state, environment.peers),
        ),
        share_partitions=SharePartitions(
            state, replicas, share_state_client, purgatory, start_soon
        ),
        markers=markers,
        add_partitions=AddPartitionsToTxnManager(
            state, transactions, BrokerLinks(state, environment.peers), start_soon
        ),
        producer_ids=producer_ids,
    )
