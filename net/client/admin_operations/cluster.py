"""Admin operations on the cluster and its brokers."""

from collections.abc import Iterable, Mapping
from typing import Any

from pk.core.api_keys import UNSERVED
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import METADATA_TOPIC, ZERO_UUID, TopicPartition
from pk.core.wire.index import MESSAGES
from pk.net.client import results as r
from pk.net.client.admin_operations.base import (
    FAILURES,
    AdminBase,
    by_topic,
    check,
    failure,
)
from pk.net.client.answers import Answers
from pk.net.client.cluster import CONTROLLERS
from pk.net.client.connection import Connection

_DESCRIBE_CLUSTER = 60
_UPDATE_FEATURES = 57
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


class ClusterOperations(AdminBase):
    """The part of `Admin` about the cluster and its brokers."""

    async def describe_cluster(
        self, *, include_fenced: bool = False, include_authorized_operations: bool = False
    ) -> r.ClusterDescription:
        """Return the brokers and the controller of the cluster, with DescribeCluster (KIP-700), or
        with Metadata from a broker before 2.8.

        `include_fenced` needs a broker of 4.0 (KIP-1073). Raises KafkaError UNSUPPORTED_VERSION if
        the broker is older.
        """
        connection = await self._retry(self.cluster.any_connection, "the cluster")
        if not connection.serves(_DESCRIBE_CLUSTER) and not include_fenced:
            return await self._describe_by_metadata(include_authorized_operations)
        from pk.core.wire.messages.describe_cluster import DescribeClusterRequest

        request = DescribeClusterRequest(
            include_cluster_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced,
        )
        response = await self._any(request, low=2 if include_fenced else 0)
        check(response, "DescribeCluster")
        nodes = [r.Node(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in response.brokers]
        return r.ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(sorted(nodes, key=lambda node: node.node_id)),
            response.cluster_authorized_operations,
        )

    async def _describe_by_metadata(self, operations: bool) -> r.ClusterDescription:
        from pk.core.wire.messages.metadata import MetadataRequest

        request = MetadataRequest(topics=[])
        if operations:
            request.include_cluster_authorized_operations = True
        response = await self._any(request, low=8 if operations else 1, high=10)
        nodes = [r.Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers]
        return r.ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(sorted(nodes, key=lambda node: node.node_id)),
            response.cluster_authorized_operations,
        )

    async def api_versions(self, node_id: int | None = None) -> tuple[r.ApiRange, ...]:
        """Return the APIs that a broker serves (None: any broker), in key order."""

        async def attempt() -> Connection:
            if node_id is None:
                return await self.cluster.any_connection()
            return await self.cluster.connection(node_id)

        return _api_ranges(await self._retry(attempt, "ApiVersions"))

    async def api_versions_all(self) -> Answers[int, tuple[r.ApiRange, ...]]:
        """Return the APIs that each broker serves."""

        async def ask(connection: Connection) -> tuple[r.ApiRange, ...]:
            return _api_ranges(connection)

        return await self._by_broker(None, ask)

    async def describe_features(self, node_id: int | None = None) -> r.FeatureDescription:
        """Describe the features that a broker (None: any) supports and the cluster has finalized
        (KIP-584)."""
        from pk.core.wire.messages.api_versions import ApiVersionsRequest

        request = ApiVersionsRequest(client_software_name="pk", client_software_version="0")

        async def attempt() -> Any:
            connection = await (
                self.cluster.any_connection()
                if node_id is None
                else self.cluster.connection(node_id)
            )
            return await connection.request(request, low=3)

        response = await self._retry(attempt, "ApiVersions")
        check(response, "ApiVersions")
        supported = [
            r.SupportedFeature(f.name, f.min_version, f.max_version)
            for f in response.supported_features
        ]
        finalized = [
            r.FinalizedFeature(f.name, f.min_version_level, f.max_version_level)
            for f in response.finalized_features
        ]
        return r.FeatureDescription(
            tuple(sorted(supported, key=lambda f: f.name)),
            tuple(sorted(finalized, key=lambda f: f.name)),
            response.finalized_features_epoch,
        )

    async def update_features(
        self,
        levels: Mapping[str, int],
        *,
        allow_downgrade: bool = False,
        unsafe: bool = False,
        validate_only: bool = False,
    ) -> Answers[str, None]:
        """Set the finalized level of features; level 0 disables one. `validate_only` needs version
        1 (3.3).

        An `unsafe` downgrade may lose metadata; it also needs version 1.
        """
        from pk.core.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

        async def ask(connection: Connection) -> Any:
            version = connection.version_of(
                _UPDATE_FEATURES, low=1 if validate_only or unsafe else 0
            )
            request = UpdateFeaturesRequest(validate_only=validate_only)
            for name, level in levels.items():
                update = FeatureUpdateKey(feature=name, max_version_level=level)
                if version == 0:
                    update.allow_downgrade = allow_downgrade
                else:
                    downgrade = _UNSAFE_DOWNGRADE if unsafe else _SAFE_DOWNGRADE
                    update.upgrade_type = downgrade if allow_downgrade else _UPGRADE
                request.feature_updates.append(update)
            return await connection.request(request, version=version)

        response = await self._controller(ask)
        named = {f.feature: f for f in response.results}
        answers: Answers[str, None] = Answers()
        for name in levels:
            own = named.get(name)
            if own is not None and own.error_code:
                answers.add(name, failure(own.error_code, own.error_message))
            else:
                answers.add(name, failure(response.error_code, response.error_message))
        return answers

    async def describe_quorum(self) -> r.QuorumDescription:
        """Describe the quorum of the controllers (KIP-595, KIP-836). Raises KafkaError,
        ControllerSilent."""
        from pk.core.wire.messages.describe_quorum import (
            DescribeQuorumRequest,
            PartitionData,
            TopicData,
        )

        topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
        request = DescribeQuorumRequest(topics=[topic])

        async def ask(connection: Connection) -> Any:
            separate = await self.cluster.connection_to(connection.node, CONTROLLERS)
            return await separate.request(request)

        response = await self._within_straggler_timeout(
            lambda: self._retry(lambda: self.cluster.ask_any(ask), "DescribeQuorum")
        )
        check(response, "DescribeQuorum")
        partitions = [p for t in response.topics for p in t.partitions]
        if len(partitions) != 1:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the DescribeQuorum response has no partition"
            )
        p = partitions[0]
        check(p, "DescribeQuorum")
        nodes = {
            n.node_id: tuple(f"{lis.name}://{lis.host}:{lis.port}" for lis in n.listeners)
            for n in response.nodes
        }
        return r.QuorumDescription(
            p.leader_id,
            p.leader_epoch,
            p.high_watermark,
            tuple(_quorum_replica(s) for s in p.current_voters),
            tuple(_quorum_replica(s) for s in p.observers),
            nodes,
        )

    async def find_coordinator(
        self, key: str, type: r.CoordinatorType = r.CoordinatorType.GROUP
    ) -> r.Node:
        """Return the broker that coordinates a group or transactional id. Raises KafkaError."""
        answer = (await self.find_coordinators([key], type)).value(key)
        return answer

    async def find_coordinators(
        self, keys: Iterable[str], type: r.CoordinatorType = r.CoordinatorType.GROUP
    ) -> Answers[str, r.Node]:
        """Find the coordinators of several groups or transactional ids."""
        wanted = list(dict.fromkeys(keys))
        answers: Answers[str, r.Node] = Answers()

        async def attempt() -> None:
            todo = [key for key in wanted if key not in answers.ok]
            answers.update(await self.cluster.find_coordinators(todo, type))
            for error in answers.errors.values():
                if isinstance(error, KafkaError) and error.retriable:
                    raise error

        try:
            await self._retry(attempt, "FindCoordinator")
        except FAILURES as e:
            failed = e
            return answers.of(wanted, lambda _: failed)
        return answers

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> Answers[int, tuple[r.LogDirDescription, ...]]:
        """Describe the log directories of brokers (None: all) with their replicas of `partitions`
        (None: all)."""
        from pk.core.wire.messages.describe_log_dirs import (
            DescribableLogDirTopic,
            DescribeLogDirsRequest,
        )

        topics = None
        if partitions is not None:
            grouped = by_topic(partitions)
            topics = [DescribableLogDirTopic(topic=t, partitions=ps) for t, ps in grouped.items()]

        async def ask(connection: Connection) -> tuple[r.LogDirDescription, ...]:
            response = await connection.request(DescribeLogDirsRequest(topics=topics))
            check(response, "DescribeLogDirs")
            return tuple(_log_dir(result) for result in response.results)

        return await self._by_broker(brokers, ask)

    async def alter_replica_log_dirs(
        self, broker_id: int, paths: Mapping[TopicPartition, str]
    ) -> Answers[TopicPartition, None]:
        """Move replicas of one broker to other log directories on it (KIP-113)."""
        from pk.core.wire.messages.alter_replica_log_dirs import (
            AlterReplicaLogDir,
            AlterReplicaLogDirsRequest,
            AlterReplicaLogDirTopic,
        )

        by_path: dict[str, list[TopicPartition]] = {}
        for partition, path in paths.items():
            by_path.setdefault(path, []).append(partition)
        request = AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=t, partitions=ps)
                        for t, ps in by_topic(partitions).items()
                    ],
                )
                for path, partitions in by_path.items()
            ]
        )
        connection = await self.cluster.connection(broker_id)
        response = await connection.request(request)
        return Answers(
            (TopicPartition(t.topic_name, p.partition_index), failure(p.error_code))
            for t in response.results
            for p in t.partitions
        )

    async def unregister_broker(self, broker_id: int) -> None:
        """Unregister a broker that will not return (KIP-631). Raises KafkaError."""
        from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest

        async def ask(connection: Connection) -> Any:
            return await connection.request(UnregisterBrokerRequest(broker_id=broker_id))

        check(await self._controller(ask), f"broker {broker_id}")


def _api_ranges(connection: Connection) -> tuple[r.ApiRange, ...]:
    ranges: list[r.ApiRange] = []
    for key, (low, high) in sorted(connection.api_versions.items()):
        used = None
        if key in MESSAGES:
            try:
                used = connection.version_of(key)
            except KafkaError:
                used = None
        name = MESSAGES[key].name if key in MESSAGES else UNSERVED.get(key, f"API_{key}")
        ranges.append(r.ApiRange(key, name, low, high, used))
    return tuple(ranges)


def _quorum_replica(state: Any) -> r.QuorumReplica:
    return r.QuorumReplica(
        state.replica_id,
        state.replica_directory_id or ZERO_UUID,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )


def _log_dir(result: Any) -> r.LogDirDescription:
    replicas = tuple(
        r.ReplicaSize(
            TopicPartition(t.name, p.partition_index),
            p.partition_size,
            p.offset_lag,
            p.is_future_key,
        )
        for t in result.topics
        for p in t.partitions
    )
    return r.LogDirDescription(
        result.log_dir,
        result.error_code,
        tuple(sorted(replicas, key=lambda replica: replica.partition)),
        result.total_bytes,
        result.usable_bytes,
        result.is_cordoned,
    )
