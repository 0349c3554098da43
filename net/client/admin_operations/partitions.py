"""Admin operations on partitions: leaders, reassignments, producers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin_operations.base import AdminBase, Routed, by_topic, check, failure
from pk.net.client.answers import Answers
from pk.net.client.cluster import CONTROLLERS
from pk.net.client.connection import Connection


class PartitionOperations(AdminBase):
    """The part of `Admin` about leaders, reassignments and producers."""

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> Answers[TopicPartition, tuple[r.ProducerState, ...]]:
        """Return the active producers of partitions, according to the partitions' leaders, or to
        the replicas on one broker (KIP-664, 2.8)."""
        from pk.core.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

        async def ask(
            connection: Connection, asked: list[TopicPartition]
        ) -> Answers[TopicPartition, tuple[r.ProducerState, ...]]:
            topics = [
                TopicRequest(name=topic, partition_indexes=indexes)
                for topic, indexes in by_topic(asked).items()
            ]
            response = await connection.request(DescribeProducersRequest(topics=topics))
            return Answers(
                (
                    TopicPartition(t.name, p.partition_index),
                    failure(p.error_code, p.error_message)
                    or tuple(map(_producer, p.active_producers)),
                )
                for t in response.topics
                for p in t.partitions
            )

        if broker_id is None:
            return await self._by_leader(partitions, ask)

        async def route(todo: list[TopicPartition]) -> Routed[TopicPartition]:
            return {broker_id: todo}, {}

        return await self._batches(partitions, route, ask)

    async def elect_leaders(
        self, election: r.ElectionType, partitions: Iterable[TopicPartition] | None = None
    ) -> Answers[TopicPartition, None]:
        """Elect the preferred replica as leader, or uncleanly any live replica, which may lose
        records (KIP-183, KIP-460).

        None means every partition that needs it; only those are returned. An item's error may be
        ELECTION_NOT_NEEDED.
        """
        from pk.core.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

        topics = None
        if partitions is not None:
            grouped = by_topic(partitions)
            topics = [TopicPartitions(topic=t, partitions=ps) for t, ps in grouped.items()]
        request = ElectLeadersRequest(
            election_type=int(election),
            topic_partitions=topics,
            timeout_ms=self.config.request_timeout_ms,
        )

        async def ask(connection: Connection) -> Any:
            low = 1 if election == r.ElectionType.UNCLEAN else 0
            response = await connection.request(request, low=low)
            check(response, "ElectLeaders")
            return response

        response = await self._controller(ask)
        return Answers(
            (TopicPartition(t.topic, p.partition_id), failure(p.error_code, p.error_message))
            for t in response.replica_election_results
            for p in t.partition_result
        )

    async def unclean_recovery(
        self, partitions: Iterable[TopicPartition] | None = None, *, leader: int = -1
    ) -> dict[TopicPartition, r.UncleanRecovery]:
        """Return the state of partitions' logs as pk's controller knows it (None: all partitions
        that wait for a leader or have a damaged or stopped replica). `leader` makes that broker the
        leader of the partitions that have no leader or a stopped follower, even if its log lacks
        records.

        The result is empty for Apache Kafka, which has no such request. Raises KafkaError.
        """
        from pk.core.wire.messages.pk_unclean_recovery import (
            PkUncleanRecoveryRequest,
            TopicPartitions,
        )

        topics = None
        if partitions is not None:
            grouped = by_topic(partitions)
            topics = [TopicPartitions(topic=t, partitions=ps) for t, ps in grouped.items()]
        request = PkUncleanRecoveryRequest(
            topics=topics, leader_id=leader, timeout_ms=self.config.request_timeout_ms
        )

        async def ask(connection: Connection) -> Any:
            response = await connection.request(request)
            check(response, "PkUncleanRecovery")
            return response

        try:
            response = await self._controller(ask)
        except KafkaError as e:
            if e.code == ErrorCode.UNSUPPORTED_VERSION:
                return {}
            raise
        return {TopicPartition(p.topic, p.partition): _recovery(p) for p in response.partitions}

    async def alter_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> Answers[TopicPartition, None]:
        """Move partitions to the given brokers, of which the first is the preferred leader; None
        cancels a move (KIP-455, 2.4).

        `allow_replication_factor_change=False` needs version 1 (4.1, KIP-860).
        """
        from pk.core.wire.messages.alter_partition_reassignments import (
            AlterPartitionReassignmentsRequest,
            ReassignablePartition,
            ReassignableTopic,
        )

        if not replicas:
            return Answers()
        topics: list[ReassignableTopic] = []
        for topic, indexes in by_topic(replicas).items():
            moves: list[ReassignablePartition] = []
            for index in indexes:
                target = replicas[TopicPartition(topic, index)]
                brokers = None if target is None else list(target)
                moves.append(ReassignablePartition(partition_index=index, replicas=brokers))
            topics.append(ReassignableTopic(name=topic, partitions=moves))
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self.config.request_timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=topics,
        )

        async def ask(connection: Connection) -> Any:
            low = 0 if allow_replication_factor_change else 1
            response = await connection.request(request, low=low)
            check(response, "AlterPartitionReassignments")
            return response

        response = await self._controller(ask)
        return Answers(
            (TopicPartition(t.name, p.partition_index), failure(p.error_code, p.error_message))
            for t in response.responses
            for p in t.partitions
        )

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, r.Reassignment]:
        """List the reassignments in progress of the given partitions (None: all) (KIP-455, 2.4).
        Raises ControllerSilent."""
        from pk.core.wire.messages.list_partition_reassignments import (
            ListPartitionReassignmentsRequest,
            ListPartitionReassignmentsTopics,
        )

        topics = None
        if partitions is not None:
            grouped = by_topic(partitions)
            topics = [
                ListPartitionReassignmentsTopics(name=t, partition_indexes=ps)
                for t, ps in grouped.items()
            ]
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self.config.request_timeout_ms, topics=topics
        )

        async def ask(connection: Connection) -> Any:
            response = await connection.request(request)
            check(response, "ListPartitionReassignments")
            return response

        response = await self._within_straggler_timeout(lambda: self._controller(ask, CONTROLLERS))
        return {
            TopicPartition(t.name, p.partition_index): r.Reassignment(
                tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
            )
            for t in response.topics
            for p in t.partitions
        }


def _recovery(p: Any) -> r.UncleanRecovery:
    return r.UncleanRecovery(
        p.leader_id,
        tuple(p.needed),
        tuple(p.awaits),
        p.why,
        tuple(
            r.ReplicaLogState(
                one.broker_id,
                one.reported,
                one.last_epoch,
                one.end_offset,
                one.start_offset,
                one.high_watermark,
                one.damage,
                one.kept_bytes,
                one.stopped,
                one.damaged_segments,
            )
            for one in p.replicas
        ),
        KafkaError(p.error_code, p.error_message) if p.error_code else None,
    )


def _producer(p: Any) -> r.ProducerState:
    return r.ProducerState(
        p.producer_id,
        p.producer_epoch,
        p.last_sequence,
        p.last_timestamp,
        p.coordinator_epoch,
        p.current_txn_start_offset,
    )
