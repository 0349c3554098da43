"""Admin operations on topics, partitions and their offsets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition, Uuid, uuid_text
from pk.net.client import results as r
from pk.net.client.admin_operations.base import AdminBase, by_topic, check, failure
from pk.net.client.answers import Answers
from pk.net.client.cluster import CONTROLLERS
from pk.net.client.connection import Connection

if TYPE_CHECKING:
    from pk.core.wire.messages.pk_restore_topics import RestoredTopic

_DELETE_TOPICS = 20
_LIST_OFFSETS = 2
_DESCRIBE_TOPIC_PARTITIONS = 75

_TIMESTAMP_SINCE = {
    r.MAX_TIMESTAMP: 7,
    r.EARLIEST_LOCAL: 8,
    r.LATEST_TIERED: 9,
    r.EARLIEST_PENDING_UPLOAD: 11,
}
"""The first ListOffsets version that knows a special timestamp (KIP-734, KIP-405, KIP-1005,
KIP-1023)."""


class TopicOperations(AdminBase):
    """The part of `Admin` about topics and partitions."""

    async def list_topics(self, *, include_internal: bool = True) -> tuple[r.TopicListing, ...]:
        """List all topics that this client may see, sorted by name (Metadata). `include_internal`
        includes `__consumer_offsets` and the like."""
        await self._retry(lambda: self.cluster.refresh(None), "Metadata")
        topics = sorted(self.cluster.metadata.topics.items())
        return tuple(
            r.TopicListing(
                name,
                t.topic_id,
                t.internal,
                len(t.partitions),
                max((len(p.replicas) for p in t.partitions), default=0),
            )
            for name, t in topics
            if include_internal or not t.internal
        )

    async def describe_topics(
        self,
        topics: Iterable[str] | None = None,
        *,
        include_authorized_operations: bool = False,
    ) -> Answers[str, r.TopicDescription]:
        """Describe `topics` (None: all) with their partitions: leaders, replicas, in-sync replicas,
        and eligible leader replicas if the broker knows them (KIP-966, 3.7).
        `include_authorized_operations` adds the operations that this client is authorized to
        perform (KIP-430)."""
        names = None if topics is None else list(dict.fromkeys(topics))
        if names == []:
            return Answers()
        connection = await self._retry(self.cluster.any_connection, "the cluster")
        if connection.serves(_DESCRIBE_TOPIC_PARTITIONS):
            found = await self._describe_paged(names)
        else:
            found = await self._describe_by_metadata_names(names, include_authorized_operations)
        if names is None:
            names = sorted(found)
        unknown = KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the broker's answer does not include it"
        )
        return found.of(names, lambda _: unknown)

    async def _describe_paged(self, names: list[str] | None) -> Answers[str, r.TopicDescription]:
        from pk.core.wire.messages.describe_topic_partitions import (
            DescribeTopicPartitionsRequest,
            TopicRequest,
        )

        asked = [TopicRequest(name=name) for name in sorted(names or ())]
        heads: dict[str, Any] = {}
        partitions: dict[str, list[r.PartitionDescription]] = {}
        cursor: Any = None
        while True:
            request = DescribeTopicPartitionsRequest(topics=asked, cursor=cursor)
            response = await self._any(request)
            for topic in response.topics:
                heads[topic.name] = topic
                partitions.setdefault(topic.name, []).extend(map(_partition, topic.partitions))
            before, cursor = cursor, response.next_cursor
            if cursor is None:
                break
            if before is not None and _place(cursor) <= _place(before):
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "DescribeTopicPartitions makes no progress"
                )
        return Answers(
            (
                name,
                failure(head.error_code, _topic_message(name, head.error_code))
                or r.TopicDescription(
                    name,
                    head.topic_id,
                    head.is_internal,
                    tuple(sorted(partitions[name], key=lambda p: p.partition)),
                    head.topic_authorized_operations,
                ),
            )
            for name, head in heads.items()
        )

    async def _describe_by_metadata_names(
        self, names: list[str] | None, operations: bool
    ) -> Answers[str, r.TopicDescription]:
        from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked)
        request.allow_auto_topic_creation = False
        request.include_topic_authorized_operations = operations
        response = await self._any(request, low=8 if operations else 4)
        return Answers((t.name, _topic(t, t.name)) for t in response.topics)

    async def describe_topics_by_id(
        self, topic_ids: Iterable[Uuid]
    ) -> Answers[Uuid, r.TopicDescription]:
        """Describe topics by id (KIP-516; brokers from 3.1 on)."""
        ids = list(dict.fromkeys(topic_ids))
        if not ids:
            return Answers()

        async def attempt() -> Any:
            return await self.cluster.refresh((), topic_ids=ids)

        response = await self._retry(attempt, "Metadata")
        found: Answers[Uuid, r.TopicDescription] = Answers(
            (t.topic_id, _topic(t, uuid_text(t.topic_id))) for t in response.topics
        )
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        return found.of(ids, lambda _: unknown)

    async def create_topics(
        self, topics: Iterable[r.NewTopic], *, validate_only: bool = False
    ) -> Answers[str, r.CreatedTopic]:
        """Create topics (CreateTopics). The value -1 for partitions or replicas, which means the
        broker's default, needs brokers from 2.4 on (KIP-464)."""
        from pk.core.wire.messages.create_topics import (
            CreatableReplicaAssignment,
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )

        new = list(topics)
        if not new:
            return Answers()
        creatable = [
            CreatableTopic(
                name=t.name,
                num_partitions=t.partitions,
                replication_factor=t.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=p, broker_ids=list(brokers))
                    for p, brokers in (t.assignments or {}).items()
                ],
                configs=[CreatableTopicConfig(name=k, value=v) for k, v in t.configs.items()],
            )
            for t in new
        ]
        open_numbers = any(
            t.assignments is None and -1 in (t.partitions, t.replication_factor) for t in new
        )
        request = CreateTopicsRequest(
            topics=creatable,
            timeout_ms=self.config.request_timeout_ms,
            validate_only=validate_only,
        )

        async def ask(connection: Connection) -> Any:
            low = 4 if open_numbers else 1
            response = await connection.request(request, low=low)
            _raise_if_moved(t.error_code for t in response.topics)
            return response

        if validate_only:
            response = await self._within_straggler_timeout(
                lambda: self._controller(ask, CONTROLLERS)
            )
        else:
            response = await self._controller(ask)
        self._forget(t.name for t in new)
        return Answers((t.name, _created(t)) for t in response.topics)

    async def restore_topics(
        self, topics: Sequence["RestoredTopic"], *, producer_id_next: int
    ) -> Answers[str, None]:
        """Recreate topics of a lost cluster whose logs begin with their segments in remote storage;
        only pk's brokers support this. `producer_id_next` is above all producer ids in the
        segments. A topic that already exists with the same id is not an error. Returns before the
        leaders have restored anything.
        """
        from pk.core.wire.messages.pk_restore_topics import PkRestoreTopicsRequest

        request = PkRestoreTopicsRequest(
            topics=list(topics),
            producer_id_next=producer_id_next,
            timeout_ms=self.config.request_timeout_ms,
        )

        async def ask(connection: Connection) -> Any:
            response = await connection.request(request)
            check(response, "PkRestoreTopics")
            return response

        response = await self._controller(ask)
        self._forget(topic.name for topic in topics)
        return Answers((t.name, failure(t.error_code, t.error_message)) for t in response.topics)

    async def remote_storage(
        self, brokers: Iterable[int] | None = None
    ) -> dict[TopicPartition, r.RemoteState]:
        """Describe the remote storage of the tiered partitions that brokers lead (None: of all
        brokers). The result is empty for Apache Kafka, which has no such request. Raises
        KafkaError, ClientError."""
        from pk.core.wire.messages.pk_remote_storage import (
            PkRemoteStorageRequest,
            PkRemoteStorageResponse,
        )

        async def ask(connection: Connection) -> PkRemoteStorageResponse:
            response = await connection.request(PkRemoteStorageRequest())
            check(response, "PkRemoteStorage")
            return response

        answers = await self._by_broker(brokers, ask)
        for error in answers.errors.values():
            if not isinstance(error, KafkaError) or error.code != ErrorCode.UNSUPPORTED_VERSION:
                raise error
        found: dict[TopicPartition, r.RemoteState] = {}
        for answer in answers.ok.values():
            for p in answer.partitions:
                found[TopicPartition(p.topic, p.partition)] = r.RemoteState(
                    p.segments,
                    p.bytes,
                    p.lag_segments,
                    p.lag_bytes,
                    p.unfinished,
                    p.copy_disabled,
                    p.restoring,
                    p.why,
                    p.orphans,
                    p.orphan,
                )
        return found

    async def delete_topics(self, topics: Iterable[str]) -> Answers[str, None]:
        """Delete topics by name (DeleteTopics)."""
        from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        names = list(dict.fromkeys(topics))
        if not names:
            return Answers()

        async def ask(connection: Connection) -> Any:
            version = connection.version_of(_DELETE_TOPICS)
            request = DeleteTopicsRequest(timeout_ms=self.config.request_timeout_ms)
            if version >= 6:
                request.topics = [DeleteTopicState(name=name) for name in names]
            else:
                request.topic_names = names
            response = await connection.request(request, version=version)
            _raise_if_moved(t.error_code for t in response.responses)
            return response

        response = await self._controller(ask)
        self._forget(names)
        return Answers(
            (t.name, failure(t.error_code, _topic_message(t.name, t.error_code, t.error_message)))
            for t in response.responses
        )

    async def delete_topics_by_id(self, topic_ids: Iterable[Uuid]) -> Answers[Uuid, None]:
        """Delete topics by id (KIP-516; brokers from 2.8 on)."""
        from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

        request = DeleteTopicsRequest(timeout_ms=self.config.request_timeout_ms)
        request.topics = [DeleteTopicState(name=None, topic_id=i) for i in dict.fromkeys(topic_ids)]
        if not request.topics:
            return Answers()

        async def ask(connection: Connection) -> Any:
            response = await connection.request(request, low=6)
            _raise_if_moved(t.error_code for t in response.responses)
            return response

        response = await self._controller(ask)
        self._forget(t.name for t in response.responses if t.name is not None)
        return Answers(
            (t.topic_id, failure(t.error_code, t.error_message)) for t in response.responses
        )

    async def create_partitions(
        self, topics: Mapping[str, r.NewPartitions], *, validate_only: bool = False
    ) -> Answers[str, None]:
        """Add partitions to topics, up to the total given for each (CreatePartitions, KIP-195)."""
        from pk.core.wire.messages.create_partitions import (
            CreatePartitionsAssignment,
            CreatePartitionsRequest,
            CreatePartitionsTopic,
        )

        if not topics:
            return Answers()
        growing = [
            CreatePartitionsTopic(
                name=name,
                count=new.total,
                assignments=None
                if new.assignments is None
                else [CreatePartitionsAssignment(broker_ids=list(b)) for b in new.assignments],
            )
            for name, new in topics.items()
        ]
        request = CreatePartitionsRequest(
            topics=growing, timeout_ms=self.config.request_timeout_ms, validate_only=validate_only
        )

        async def ask(connection: Connection) -> Any:
            response = await connection.request(request)
            _raise_if_moved(t.error_code for t in response.results)
            return response

        if validate_only:
            response = await self._within_straggler_timeout(
                lambda: self._controller(ask, CONTROLLERS)
            )
        else:
            response = await self._controller(ask)
        self._forget(topics)
        return Answers((t.name, failure(t.error_code, t.error_message)) for t in response.results)

    async def list_offsets(
        self,
        timestamps: Mapping[TopicPartition, int],
        *,
        isolation: r.IsolationLevel = r.IsolationLevel.READ_UNCOMMITTED,
    ) -> Answers[TopicPartition, r.ListedOffset]:
        """Return the offset of the first record with at least the given timestamp, or the offset
        for a special timestamp such as `LATEST` (ListOffsets).

        The offset is -1 if there is no such record. If the broker does not know a special timestamp
        yet, the partition fails with UNSUPPORTED_VERSION.
        """

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> Answers[TopicPartition, r.ListedOffset]:
            return await self._list_offsets_of(connection, partitions, timestamps, isolation)

        return await self._by_leader(timestamps, ask)

    async def _list_offsets_of(
        self,
        connection: Connection,
        partitions: list[TopicPartition],
        timestamps: Mapping[TopicPartition, int],
        isolation: r.IsolationLevel,
    ) -> Answers[TopicPartition, r.ListedOffset]:
        from pk.core.wire.messages.list_offsets import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsTopic,
        )

        version = connection.version_of(_LIST_OFFSETS, low=2 if isolation else 1)
        answers: Answers[TopicPartition, r.ListedOffset] = Answers()
        asked: list[TopicPartition] = []
        for partition in partitions:
            since = _TIMESTAMP_SINCE.get(timestamps[partition], 0)
            if version < since:
                error = KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"timestamp {timestamps[partition]} needs ListOffsets {since}; the broker"
                    f" serves {version}",
                )
                answers.add(partition, error)
            else:
                asked.append(partition)
        if not asked:
            return answers
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=index,
                        timestamp=timestamps[TopicPartition(topic, index)],
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(asked).items()
        ]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(isolation),
            topics=topics,
            timeout_ms=self.config.request_timeout_ms,
        )
        response = await connection.request(request, version=version)
        for t in response.topics:
            for p in t.partitions:
                answers.add(
                    TopicPartition(t.name, p.partition_index),
                    failure(p.error_code) or r.ListedOffset(p.offset, p.timestamp, p.leader_epoch),
                )
        return answers

    async def offsets_for_leader_epochs(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Answers[TopicPartition, r.EpochEndOffset]:
        """Return the end offset of each leader epoch in its leader's log (OffsetForLeaderEpoch,
        KIP-101, KIP-320)."""
        from pk.core.wire.messages.offset_for_leader_epoch import (
            OffsetForLeaderEpochRequest,
            OffsetForLeaderPartition,
            OffsetForLeaderTopic,
        )

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> Answers[TopicPartition, r.EpochEndOffset]:
            topics = [
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=i, leader_epoch=epochs[TopicPartition(topic, i)]
                        )
                        for i in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ]
            request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
            response = await connection.request(request)
            return Answers(
                (
                    TopicPartition(t.topic, p.partition),
                    failure(p.error_code) or r.EpochEndOffset(p.leader_epoch, p.end_offset),
                )
                for t in response.topics
                for p in t.partitions
            )

        return await self._by_leader(epochs, ask)

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> Answers[TopicPartition, int]:
        """Delete the records below an offset (-1: below the high watermark), and return the new log
        start offsets (KIP-107)."""
        from pk.core.wire.messages.delete_records import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        async def ask(
            connection: Connection, partitions: list[TopicPartition]
        ) -> Answers[TopicPartition, int]:
            topics = [
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(
                            partition_index=i, offset=before[TopicPartition(topic, i)]
                        )
                        for i in indexes
                    ],
                )
                for topic, indexes in by_topic(partitions).items()
            ]
            request = DeleteRecordsRequest(topics=topics, timeout_ms=self.config.request_timeout_ms)
            response = await connection.request(request)
            return Answers(
                (
                    TopicPartition(t.name, p.partition_index),
                    failure(p.error_code) or p.low_watermark,
                )
                for t in response.topics
                for p in t.partitions
            )

        return await self._by_leader(before, ask, changes=True)

    def _forget(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.cluster.metadata.forget(topic)


def _raise_if_moved(codes: Iterable[int]) -> None:
    if ErrorCode.NOT_CONTROLLER in codes:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)


def _topic_message(name: str, code: int, theirs: str | None = None) -> str | None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"topic {name!r} does not exist"
    return theirs or (f"topic {name!r}" if code else None)


def _place(cursor: Any) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index


def _partition(p: Any) -> r.PartitionDescription:
    elr, last_known = p.eligible_leader_replicas, p.last_known_elr
    return r.PartitionDescription(
        p.partition_index,
        p.leader_id,
        p.leader_epoch,
        tuple(p.replica_nodes),
        tuple(p.isr_nodes),
        tuple(p.offline_replicas),
        () if elr is None else tuple(elr),
        () if last_known is None else tuple(last_known),
        p.error_code,
    )


def _topic(t: Any, what: str) -> r.TopicDescription | KafkaError:
    if t.error_code:
        return KafkaError(t.error_code, _topic_message(what, t.error_code))
    partitions = [
        r.PartitionDescription(
            p.partition_index,
            p.leader_id,
            p.leader_epoch,
            tuple(p.replica_nodes),
            tuple(p.isr_nodes),
            tuple(p.offline_replicas),
            error_code=p.error_code,
        )
        for p in t.partitions
    ]
    return r.TopicDescription(
        t.name,
        t.topic_id,
        t.is_internal,
        tuple(sorted(partitions, key=lambda p: p.partition)),
        t.topic_authorized_operations,
    )


def _created(t: Any) -> r.CreatedTopic | KafkaError:
    if t.error_code:
        return KafkaError(t.error_code, t.error_message)
    configs = tuple(
        r.ConfigEntry(
            c.name, c.value, r.ConfigSource(max(0, c.config_source)), c.read_only, c.is_sensitive
        )
        for c in t.configs or ()
    )
    return r.CreatedTopic(t.name, t.topic_id, t.num_partitions, t.replication_factor, configs)
