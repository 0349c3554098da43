"""One Fetch request: its session, the requested partitions, and the results of their last read.

A follower has every record before its fetch offset. The handler reports that offset to the
partition before it reads, so that the response has the resulting high watermark.

For a consumer that repeatedly lists many partitions without a session, the connection remembers
what a session would know (RepeatedFetch): unchanged partitions get the same result as before.

A follower's next request in its session ends the wait of the previous one, which gets an empty
response. Therefore new partitions of the follower do not wait for the end of a long poll.
"""

from __future__ import annotations

from collections.abc import Hashable

from pk.core.api.authorization import allows, allows_cluster
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.reader import FetchIsolation, Reader, ReadResult, check_may_read, divergence
from pk.core.broker.replication.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchSession,
    Partitions,
    RepeatedFetch,
    forget,
)
from pk.core.broker.replication.follower_state import NO_BROKER_EPOCH, FollowerFetch
from pk.core.broker.replication.partition import READ_COMMITTED, Partition
from pk.core.broker.replication.replica_selector import nearest_replica
from pk.core.broker.replication.replication_quotas import is_throttled
from pk.core.broker.requests.context import Context
from pk.core.config import RACK_AWARE_SELECTOR
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.epochs import EpochEnd
from pk.core.log.file_slices import EMPTY
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

VERSION_BATCH = 4
VERSION_STORAGE_ERROR = 6
VERSION_SESSION = 7
VERSION_ZSTD = 10
VERSION_RACK = 11
VERSION_TOPIC_ID = 13
VERSION_REPLICA_STATE = 15
VERSION_NODE_ENDPOINTS = 16
CONSUMER = -1
DEBUGGING_CONSUMER = -2
"""The replica id of a client that reads up to the log end, from any replica."""

PARTITION_BYTES = 50
RESPONSE_BYTES = 50
"""The approximate size of a response without its records, in bytes, for each partition and in
total. Quotas count all of it."""

INLINE_PARTITIONS = 64
"""A fetch with more partitions is read in a task that lets other tasks run."""

REPEATED_MIN = INLINE_PARTITIONS
REPEATED_MAX = 10_000
"""A connection remembers a fetch with more partitions than `REPEATED_MIN`, up to `REPEATED_MAX`."""

LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Fetch:
    """One request: the requested partitions, and the results of their last read."""

    __slots__ = (
        "context",
        "counted",
        "expected_epoch",
        "follower",
        "found",
        "incremental",
        "max_bytes",
        "min_bytes",
        "reader",
        "repeated",
        "replica_id",
        "request",
        "session",
        "urgent",
        "wanted",
    )

    def __init__(self, context: Context, request: FetchRequest) -> None:
        self.context = context
        self.request = request
        self.session: FetchSession | None = None
        self.repeated: RepeatedFetch | None = None
        self.incremental = False
        self.wanted: Partitions = {}
        self.replica_id, replica_epoch = request.replica_id, NO_BROKER_EPOCH
        if context.api_version >= VERSION_REPLICA_STATE:
            state = request.replica_state
            self.replica_id, replica_epoch = state.replica_id, state.replica_epoch
        self.follower: FollowerFetch | None = None
        """The follower's progress, which the request reports to the partitions; None for a
        consumer."""
        if self.replica_id >= 0:
            self.follower = FollowerFetch(self.replica_id, replica_epoch)
        self.counted = self.replica_id < 0
        """Whether this follower's progress has been reported to the partitions."""
        self.expected_epoch = FINAL_EPOCH
        """The session's epoch for this request. If the session has a different epoch, its next
        request has arrived."""
        self.max_bytes = min(request.max_bytes, context.broker.config.fetch_max_bytes)
        quotas = context.broker.client_quotas
        if quotas.is_on and self.replica_id < 0:
            within = quotas.fetch_bytes_max(context)
            self.max_bytes = min(self.max_bytes, within if within is not None else self.max_bytes)
        self.min_bytes = min(request.min_bytes, self.max_bytes)
        self.reader = self._reader()
        self.found: list[tuple[FetchedPartition, PartitionData]] = []
        self.urgent = False

    def _reader(self) -> Reader:
        """Return a reader with the client's limit: a consumer reads up to the high watermark or the
        last stable offset, others up to the log end."""
        committed = self.request.isolation_level == READ_COMMITTED
        isolation = (
            FetchIsolation.LAST_STABLE_OFFSET if committed else FetchIsolation.HIGH_WATERMARK
        )
        version = self.context.api_version
        return Reader(
            isolation if self.replica_id == CONSUMER else FetchIsolation.LOG_END,
            self.max_bytes,
            committed=committed,
            # The conversion may leave nothing of the partitions before this one. Then this
            # partition's first batch is the whole response.
            first_batch_of_each=version < VERSION_BATCH,
            reads_zstd=version >= VERSION_ZSTD,
        )

    # --- requested partitions ---

    def begin(self) -> None:
        """Find or open the session, and determine the requested partitions. Call this first."""
        request, broker = self.request, self.context.broker
        sessions, now_ms = broker.data.fetch_sessions, broker.clock.now_ms()
        by_id = self.context.api_version >= VERSION_TOPIC_ID
        session_id, epoch = request.session_id, request.session_epoch
        if self.context.api_version < VERSION_SESSION or epoch == FINAL_EPOCH:
            if session_id != NO_SESSION:
                sessions.close(session_id)
            self.repeated = self._repeated_fetch()
            if self.repeated is not None:
                self.wanted = self._repeated_partitions(self.repeated)
            else:
                self.wanted = self._add_partitions({})
            return
        if epoch == INITIAL_EPOCH:
            broker.purgatory.touch(sessions.close(session_id))
            self.wanted = self._add_partitions({})
            if self.wanted:
                session = sessions.open(
                    self.wanted, by_id=by_id, privileged=self.replica_id >= 0, now_ms=now_ms
                )
                self._take_session(session)
            return
        session = sessions.next(session_id, epoch, by_id, now_ms)
        broker.purgatory.touch(session)
        self._add_partitions(session.partitions, session)
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if by_id else topic.topic
            for partition in topic.partitions:
                forget(session, (name, partition))
        self.wanted = session.partitions
        if not session.partitions:
            sessions.close(session.id)
            return
        self._take_session(session)
        self.incremental = True

    def _take_session(self, session: FetchSession | None) -> None:
        self.session = session
        if session is not None:
            self.expected_epoch = session.epoch
            if self.follower is not None:
                self.follower.before = session.used_at
            session.used_at = self.context.broker.clock.time()
            authorizer = self.context.broker.authorization.authorizer
            if session.authorizer is not authorizer:
                # ACLs have changed, so unchanged partitions must be read again, in case the client
                # is refused.
                session.authorizer, session.dirty = authorizer, dict(session.partitions)

    def _repeated_fetch(self) -> RepeatedFetch | None:
        """Return the connection's memory of repeated fetches, if this fetch may use it."""
        repeated, request = self.context.repeated, self.request
        if (
            repeated is None
            or repeated.in_use
            or self.replica_id != CONSUMER
            or self.context.api_version < VERSION_BATCH
            or request.rack_id  # the nearest replica may change while the partition does not
        ):
            return None
        count = 0
        for topic in request.topics:
            count += len(topic.partitions)
            if count > REPEATED_MAX:
                return None
        return repeated if count > REPEATED_MIN and not repeated.in_use else None

    def _repeated_partitions(self, repeated: RepeatedFetch) -> Partitions:
        """Return the requested partitions, in the order of the request, as `repeated` knows them.
        Partitions that are new, or that are requested with different parameters than before, become
        dirty."""
        context = self.context
        conditions = (
            context.api_version,
            self.request.isolation_level,
            context.principal,
            context.broker.authorization.authorizer,
        )
        repeated.begin(conditions, REPEATED_MAX)
        known, dirty, wanted = repeated.partitions, repeated.dirty, Partitions()
        by_id = context.api_version >= VERSION_TOPIC_ID
        for topic in self.request.topics:
            name = topic.topic_id if by_id else topic.topic
            for requested in topic.partitions:
                key: Hashable = (name, requested.partition)
                fetched = known.get(key)
                if fetched is None:
                    topic_id = topic.topic_id if by_id else b""
                    fetched = FetchedPartition(topic.topic, topic_id, requested.partition)
                    fetched.session = repeated
                    known[key] = fetched
                elif (
                    fetched.fetch_offset == requested.fetch_offset
                    and fetched.partition_max_bytes == requested.partition_max_bytes
                    and fetched.current_leader_epoch == requested.current_leader_epoch
                    and fetched.last_fetched_epoch == requested.last_fetched_epoch
                ):
                    wanted[key] = fetched
                    continue
                dirty[key] = wanted[key] = fetched
                fetched.update(requested)
        return wanted

    @property
    def _is_superseded(self) -> bool:
        """Whether a follower has sent the session's next request, or closed the session."""
        session = self.session
        return session is not None and session.epoch != self.expected_epoch and self.replica_id >= 0

    @property
    def _watching_session(self) -> FetchSession | None:
        """The session to notify when partitions change. (None for a debugging consumer, which waits
        for the log end.)"""
        return (self.session or self.repeated) if self.replica_id != DEBUGGING_CONSUMER else None

    def _add_partitions(
        self, partitions: Partitions, session: FetchSession | None = None
    ) -> Partitions:
        """Add the requested partitions to `partitions`, which are those of `session` if it already
        exists."""
        by_id = self.context.api_version >= VERSION_TOPIC_ID
        image = self.context.broker.image
        for topic in self.request.topics:
            name, topic_id = topic.topic, b""
            if by_id:
                topic_id = topic.topic_id
                known = image.topic_by_id(topic_id)
                name = known.name if known is not None else ""
            for requested in topic.partitions:
                key: Hashable = (topic_id if by_id else name, requested.partition)
                fetched = partitions.get(key)
                if fetched is None:
                    fetched = FetchedPartition(name, topic_id, requested.partition)
                    partitions[key] = fetched
                if session is not None:
                    fetched.session = session
                    session.dirty.pop(key, None)  # partitions in the request are read last
                    session.dirty[key] = fetched
                fetched.update(requested)
        return partitions

    # --- reading ---

    def read(self) -> bool:
        """Read the records available now. Returns True if they suffice for a response, or if some
        must first be read from disk."""
        self._begin_round()
        for fetched in self._to_read():
            self._read_one(fetched)
        return self._has_enough()

    async def _read_in_steps(self) -> bool:
        """Like `read`, but let other tasks run."""
        self._begin_round()
        for fetched in self._to_read():
            await let_others_run()
            self._read_one(fetched)
        return self._has_enough()

    def _begin_round(self) -> None:
        self.found, self.urgent = [], False
        if self.follower is not None:
            self.follower.now = self.context.broker.clock.time()
        self.reader.begin_round()

    def _read_one(self, fetched: FetchedPartition) -> None:
        data = self._answer_for(fetched)
        if data is not None:
            self.found.append((fetched, data))
            if data.error_code:
                self.urgent = True

    def _has_enough(self) -> bool:
        if self._is_superseded:
            return True
        self.counted = True
        return self.urgent or self.reader.is_cold or self.reader.bytes >= self.min_bytes

    def _to_read(self) -> list[FetchedPartition]:
        if self._is_superseded:
            return []
        if (repeated := self.repeated) is not None:
            # The order is that of the request. If the client changes its order, a byte limit
            # starves no partition.
            dirty = repeated.dirty
            return [one for key, one in self.wanted.items() if key in dirty] if dirty else []
        session = self._watching_session
        return list((self.wanted if session is None else session.dirty).values())

    async def read_until(self, keys: list[Hashable], deadline: float) -> None:
        """Read, and read again whenever one of `keys` is touched, until there is enough and no
        records are left out because they must be read from disk, or until `deadline` (trio's
        clock)."""
        purgatory = self.context.broker.purgatory
        await self.reader.warm_up()
        while True:
            if len(self.wanted) > INLINE_PARTITIONS:
                await purgatory.until_in_steps(self._read_in_steps, keys, deadline)
            else:
                await purgatory.until(self.read, keys, deadline)
            if not self.reader.is_cold:
                return
            await self.reader.warm_up()

    @property
    def deadline(self) -> float:
        """The time (trio's clock) until which the request may wait, if it arrived now."""
        return self.context.broker.clock.time() + max(self.request.max_wait_ms, 0) / 1000

    def _answer_for(self, fetched: FetchedPartition) -> PartitionData | None:
        """Return the result for one partition, or None if nothing has changed since the session's
        last response."""
        partition = None
        try:
            partition = self._partition(fetched)
            return self._read_partition(partition, fetched)
        except KafkaError as e:
            if e.code == ErrorCode.CORRUPT_MESSAGE and partition is not None:
                for callback in self.context.broker.data.replicas.damage_found:
                    callback(partition)
            answer = PartitionData(
                partition_index=fetched.partition,
                error_code=self.code_of(e),
                high_watermark=-1,
                records=EMPTY,
            )
            if e.code in LEADER_ERRORS:
                self._name_leader(answer, fetched)
            return answer

    def _read_partition(
        self, partition: Partition, fetched: FetchedPartition
    ) -> PartitionData | None:
        """Like `_answer_for`, but raise KafkaError instead of reporting it."""
        preferred_replica, log = -1, partition.log
        if (session := self._watching_session) is not None:
            partition.watch(fetched, session)
        if self.request.rack_id and self.replica_id == CONSUMER and partition.followers:
            preferred_replica = self._preferred_replica(partition, fetched.fetch_offset)
        (records, aborted), diverging = (
            self._records_of(partition, fetched) if preferred_replica < 0 else (ReadResult(), None)
        )
        high_watermark = partition.high_watermark
        if (
            self.incremental
            and not records.length
            and diverging is None
            and preferred_replica < 0
            and fetched.high_watermark == high_watermark
            and fetched.sent_log_start_offset == log.state.log_start_offset
        ):
            if (
                session is not None
                and fetched.fetch_offset >= log.state.log_end_offset
                and (self.replica_id == CONSUMER or self.replica_id in partition.isr)
            ):
                session.dirty.pop(fetched.key, None)
            return None
        answer = PartitionData(
            partition_index=fetched.partition,
            high_watermark=high_watermark,
            last_stable_offset=log.state.last_stable_offset(high_watermark),
            log_start_offset=log.state.log_start_offset,
            aborted_transactions=None
            if aborted is None
            else [
                AbortedTransaction(producer_id=a.producer_id, first_offset=a.first_offset)
                for a in aborted
            ],
            preferred_read_replica=preferred_replica,
            records=records,
        )
        if (
            (repeated := self.repeated) is not None
            and not records.length
            and diverging is None
            and partition.leads
            and fetched.fetch_offset >= log.state.log_end_offset
        ):
            fetched.idle = answer
            repeated.dirty.pop(fetched.key, None)
        if diverging is not None:
            answer.diverging_epoch = EpochEndOffset(
                epoch=diverging.epoch, end_offset=diverging.end_offset
            )
            self.urgent = True
        elif preferred_replica >= 0 or (
            self.incremental
            and self.replica_id >= 0
            and fetched.sent_log_start_offset != log.state.log_start_offset
        ):
            self.urgent = True
        return answer

    def _preferred_replica(self, partition: Partition, offset: int) -> int:
        """Return the replica from which a consumer of this rack should read, or -1 for the leader
        (KIP-392)."""
        broker = self.context.broker
        if broker.config.replica_selector_class != RACK_AWARE_SELECTOR or not partition.leads:
            return -1
        return nearest_replica(
            partition, broker.image, self.request.rack_id, self.context.listener, offset
        )

    def code_of(self, error: KafkaError) -> int:
        """Return the error's code. Clients that do not know KAFKA_STORAGE_ERROR get a code that
        makes them look for another leader."""
        if (
            error.code == ErrorCode.KAFKA_STORAGE_ERROR
            and self.context.api_version < VERSION_STORAGE_ERROR
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error.code

    def _partition(self, fetched: FetchedPartition) -> Partition:
        """Return the partition, if the client may read it from this broker in the leader epoch that
        the client knows. Raises KafkaError."""
        broker = self.context.broker
        by_id = self.context.api_version >= VERSION_TOPIC_ID
        if by_id and (not fetched.topic or self.repeated is not None):
            known = broker.image.topic_by_id(fetched.topic_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            fetched.topic = known.name
        if broker.authorization.authorizer is not None:
            self._check_allowed(fetched.topic)
        try:
            partition = broker.data.replicas.partition(fetched.topic, fetched.partition)
        except KafkaError:
            if fetched.topic_id and broker.image.topic_by_id(fetched.topic_id) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID) from None
            raise
        if fetched.topic_id and partition.topic_id != fetched.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        any_replica = self.replica_id == DEBUGGING_CONSUMER or (
            self.replica_id == CONSUMER and self.context.api_version >= VERSION_RACK
        )
        check_may_read(partition, fetched.current_leader_epoch, from_follower=any_replica)
        return partition

    def _check_allowed(self, topic: str) -> None:
        """Raise TOPIC_AUTHORIZATION_FAILED unless the client may read the topic, or is a broker of
        this cluster."""
        context = self.context
        if self.replica_id >= 0:
            may_read = allows_cluster(context, Operation.CLUSTER_ACTION)
        elif self.replica_id == DEBUGGING_CONSUMER and allows_cluster(
            context, Operation.CLUSTER_ACTION
        ):
            may_read = True  # a broker that replaces a damaged segment
        else:
            may_read = allows(context, Operation.READ, ResourceType.TOPIC, topic)
        if not may_read:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def _records_of(
        self, partition: Partition, fetched: FetchedPartition
    ) -> tuple[ReadResult, EpochEnd | None]:
        """Return the partition's records for this reader, and the point at which the client's log
        diverges from the partition's. Raises KafkaError."""
        diverging = divergence(partition.log, fetched.fetch_offset, fetched.last_fetched_epoch)
        if diverging is not None:
            return ReadResult(), diverging
        if self.follower is not None:
            if not self.counted:
                self._record_follower(partition, fetched, self.follower)
            if self._is_follower_throttled(partition):
                return ReadResult(), None
            if fetched.fetch_offset < partition.log.state.local_log_start_offset:
                raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
        limit = fetched.partition_max_bytes
        return self.reader.read(fetched, partition, fetched.fetch_offset, limit), None

    def _record_follower(
        self, partition: Partition, fetched: FetchedPartition, follower: FollowerFetch
    ) -> None:
        """Report this follower's progress to the partition. Raises OFFSET_OUT_OF_RANGE,
        NOT_LEADER_OR_FOLLOWER."""
        log, offset = partition.log, fetched.fetch_offset
        if not log.state.log_start_offset <= offset <= log.state.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        partition.follower_fetched(follower, fetched)

    def _is_follower_throttled(self, partition: Partition) -> bool:
        """Return whether this follower gets no records, because the leader's quota is used up."""
        return (
            self.context.broker.data.replication_quotas.leader.exceeded
            and self.replica_id not in partition.isr
            and self._is_throttled(partition)
        )

    def _is_throttled(self, partition: Partition) -> bool:
        replicas = partition.config.leader_replication_throttled_replicas
        return is_throttled(replicas, partition.tp.partition, self.context.broker.node_id)

    def _count_throttled(self) -> None:
        """Count the bytes sent to throttled replicas."""
        quota = self.context.broker.data.replication_quotas.leader
        if self.replica_id < 0 or quota.unlimited or not self.reader.bytes:
            return
        replicas, total = self.context.broker.data.replicas, 0
        for fetched, data in self.found:
            partition = replicas.find(fetched.topic, fetched.partition)
            if partition is not None and data.records is not None and self._is_throttled(partition):
                total += data.records.length
        quota.record(total)

    def _name_leader(self, answer: PartitionData, fetched: FetchedPartition) -> None:
        """Set the current leader in a partition's result (KIP-951)."""
        if self.context.api_version >= VERSION_NODE_ENDPOINTS:
            leader = self.context.broker.state.leader_of(fetched.topic, fetched.partition)
            if leader is not None:
                answer.current_leader = LeaderIdAndEpoch(
                    leader_id=leader[0], leader_epoch=leader[1]
                )

    def partitions(self) -> list[Partition]:
        """Return the requested partitions that this broker has."""
        replicas = self.context.broker.data.replicas
        partitions: list[Partition] = []
        for fetched in list(self.wanted.values()):
            partition = replicas.find(fetched.topic, fetched.partition)
            if partition is not None:
                partitions.append(partition)
        return partitions

    def keys(self) -> list[Hashable]:
        """Return the purgatory's keys to wait for."""
        if (session := self._watching_session) is not None:
            return [session]
        keys: list[Hashable] = []
        partitions = self.partitions()
        if self.replica_id != CONSUMER:
            keys += [partition.end_key for partition in partitions]
        if self.replica_id < 0:
            keys += partitions
        return keys

    # --- response ---

    def answer(self) -> FetchResponse:
        """Return the response, by topic. A session's response has only the partitions that changed.
        Call this last."""
        self._count_throttled()
        if self.repeated is not None:
            self.found = self._all_results()
            self.repeated.in_use = False
            self.wanted = {}
        if (wait_ms := self._wait_ms()) > 0:
            return self._throttled_response(wait_ms)
        response = FetchResponse(session_id=self.session.id if self.session is not None else 0)
        topics: dict[Hashable, FetchableTopicResponse] = {}
        leaders: set[int] = set()
        for fetched, data in self.found:
            if data.error_code:
                leaders.add(data.current_leader.leader_id)
            name = fetched.topic_id or fetched.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchableTopicResponse(
                    topic=fetched.topic, topic_id=fetched.topic_id or ZERO_UUID
                )
                response.responses.append(topic)
            topic.partitions.append(data)
            if data.records is not None and data.records.length:
                self._count_bytes_out(fetched.topic, data.records.length)
            if self.session is not None:
                fetched.high_watermark = data.high_watermark
                fetched.sent_log_start_offset = data.log_start_offset
                served = data.records is not None and data.records.length
                # A partition with records moves to the end, so that a byte limit starves no
                # partition. (It may be missing: the session's next request is handled while this
                # one waits.)
                if self.incremental and served and self.wanted.pop(fetched.key, None):
                    self.wanted[fetched.key] = fetched
                    if self.session.dirty.pop(fetched.key, None):
                        self.session.dirty[fetched.key] = fetched
        if self.context.api_version >= VERSION_NODE_ENDPOINTS:
            self._add_endpoints(response, leaders)
        return response

    def _all_results(self) -> list[tuple[FetchedPartition, PartitionData]]:
        """Return the partitions in this round's results, and the other partitions with the result
        of the round in which they last changed."""
        changed = dict(self.found)
        return [
            (fetched, data)
            for fetched in self.wanted.values()
            if (data := changed.get(fetched) or fetched.idle) is not None
        ]

    def _count_bytes_out(self, topic: str, size: int) -> None:
        counted = self.context.broker.state.metrics.topic(topic)
        if self.replica_id < 0:
            counted.bytes_out += size
        else:
            counted.replication_bytes_out += size

    def _wait_ms(self) -> int:
        """Return the time that the client must wait because of the records found, in ms; 0 if it
        need not wait."""
        quotas = self.context.broker.client_quotas
        if not quotas.is_on or self.replica_id >= 0:
            return 0
        records = sum(data.records.length for _, data in self.found if data.records is not None)
        return quotas.charge_fetch(
            self.context, records + PARTITION_BYTES * len(self.found) + RESPONSE_BYTES
        )

    def _throttled_response(self, wait_ms: int) -> FetchResponse:
        """Return the empty response to a client that must wait (KIP-219). The client repeats its
        request, even one that would have opened a session."""
        if self.session is None or not self.incremental:
            if self.session is not None:
                self.context.broker.data.fetch_sessions.close(self.session.id)
            return FetchResponse(throttle_time_ms=wait_ms)
        return FetchResponse(throttle_time_ms=wait_ms, session_id=self.session.id)

    def _add_endpoints(self, response: FetchResponse, leaders: set[int]) -> None:
        """Add the endpoints of the leaders that the response names."""
        for leader in sorted(leaders):
            endpoint = self.context.broker.state.endpoint(leader, self.context.listener)
            if endpoint is not None:
                host, port, rack = endpoint
                response.node_endpoints.append(
                    NodeEndpoint(node_id=leader, host=host, port=port, rack=rack)
                )
