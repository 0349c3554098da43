"""Fetch (1), versions 0–18: read whole batches from each partition named.

KIP-73 (throttled replicas), KIP-74 (limits; the first batch goes out whole), KIP-98 (read_committed), KIP-227 (sessions:
core/broker/replication/fetch_sessions.py), KIP-320 (epochs), KIP-392 (racks), KIP-516 (v13: topics by id), KIP-595 (diverging epochs), KIP-903
(v15: the follower's broker epoch), KIP-951 (the new leader in the answer).

A fetch that finds less than `min_bytes` waits up to `max_wait_ms`, and looks again whenever one of its partitions moves: for
a consumer the high watermark, for a follower the end of the log. A follower's next request in its session ends the waiting of
the one before, which is answered empty: partitions that are new to the follower need not wait for the end of a long poll.

What a follower fetches from is what it has: that is told to the partition before anything is read, so that the answer brings
the high watermark that follows from it.

Records never pass through here: an answer carries slices of files, and the connection has the kernel send them. But for
versions 0–3, which read messages of the formats v0 (0, 1) and v1 (2, 3), they are converted (core/broker/requests/down_conversion.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from pk.core.api.registry import Api, Operation
from pk.core.broker.offload import offload
from pk.core.broker.replication.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchSession,
    Partitions,
    forget,
)
from pk.core.broker.replication.partition import READ_COMMITTED, Partition
from pk.core.broker.replication.replica_selector import nearest_replica
from pk.core.broker.replication.replication_quotas import is_throttled
from pk.core.broker.requests.context import Context
from pk.core.broker.requests.down_conversion import lower_slice
from pk.core.config import RACK_AWARE_SELECTOR
from pk.core.errors import ErrorCode, KafkaError
from pk.core.log.failures import storage_errors
from pk.core.log.file_slices import EMPTY, BytesSlice, Slice
from pk.core.log.files import WouldWait
from pk.core.log.log import Log
from pk.core.log.lookup import FetchSlice
from pk.core.record.compress import Codec
from pk.core.values import NO_EPOCH, ZERO_UUID
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

VERSION_MESSAGE_V1 = 2
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
"""Reads up to the log end, from any replica."""

LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class _Fetch:
    """One request: which partitions it wants, and what the latest look at them found."""

    __slots__ = (
        "before",
        "bytes",
        "cold",
        "context",
        "counted",
        "expected_epoch",
        "found",
        "incremental",
        "max_bytes",
        "replica_epoch",
        "replica_id",
        "request",
        "session",
        "urgent",
        "wanted",
        "warmed",
    )

    def __init__(self, context: Context, request: FetchRequest) -> None:
        self.context = context
        self.request = request
        self.session: FetchSession | None = None
        self.incremental = False
        self.wanted: Partitions = {}
        self.replica_id, self.replica_epoch = request.replica_id, -1
        if context.api_version >= VERSION_REPLICA_STATE:
            state = request.replica_state
            self.replica_id, self.replica_epoch = state.replica_id, state.replica_epoch
        self.counted = self.replica_id < 0
        """Whether the partitions know what this follower has."""
        self.before = float("-inf")
        """When a follower's session was used before, by trio's clock."""
        self.expected_epoch = FINAL_EPOCH
        """Of the session, until its next request comes."""
        self.max_bytes = min(request.max_bytes, context.broker.config.fetch_max_bytes)
        self.found: list[tuple[FetchedPartition, PartitionData]] = []
        self.cold: list[tuple[FetchedPartition, Callable[[], object], str]] = []
        """What the last look left out because finding it would have waited for the disk, and how to read it."""
        self.warmed: set[FetchedPartition] = set()
        self.bytes = 0
        self.urgent = False
        self._begin()

    def _begin(self) -> None:
        """Find the session, or open one, and what is wanted in it."""
        request, broker = self.request, self.context.broker
        sessions, now_ms = broker.sessions, broker.clock.now_ms()
        by_id = self.context.api_version >= VERSION_TOPIC_ID
        session_id, epoch = request.session_id, request.session_epoch
        if self.context.api_version < VERSION_SESSION or epoch == FINAL_EPOCH:
            if session_id != NO_SESSION:
                sessions.close(session_id)
            self.wanted = self._name({})
            return
        if epoch == INITIAL_EPOCH:
            broker.purgatory.touch(sessions.close(session_id))
            self.wanted = self._name({})
            if self.wanted:
                self._take_session(
                    sessions.open(
                        self.wanted, by_id=by_id, privileged=self.replica_id >= 0, now_ms=now_ms
                    )
                )
            return
        session = sessions.next(session_id, epoch, by_id, now_ms)
        broker.purgatory.touch(session)
        self._name(session.partitions, session)
        forget(
            session,
            (
                (topic.topic_id if by_id else topic.topic, partition)
                for topic in request.forgotten_topics_data
                for partition in topic.partitions
            ),
        )
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
            self.before, session.used_at = session.used_at, self.context.broker.clock.time()

    @property
    def _overtaken(self) -> bool:
        """Whether a follower has sent the session's next request, or closed it."""
        session = self.session
        return session is not None and session.epoch != self.expected_epoch and self.replica_id >= 0

    @property
    def _watched(self) -> FetchSession | None:
        """The session that hears of the partitions that move. (What moves for a debugging consumer is the log's end.)"""
        return self.session if self.replica_id != DEBUGGING_CONSUMER else None

    def _name(self, partitions: Partitions, session: FetchSession | None = None) -> Partitions:
        """Enter what the request names into `partitions`, which are those of `session`, if there is one already."""
        by_id = self.context.api_version >= VERSION_TOPIC_ID
        image = self.context.broker.image
        for topic in self.request.topics:
            name, topic_id = topic.topic, ZERO_UUID
            if by_id:
                topic_id = topic.topic_id
                known = image.topic_by_id(topic_id)
                name = known.name if known is not None else ""
            for wish in topic.partitions:
                key: Hashable = (topic_id if by_id else name, wish.partition)
                fetched = partitions.get(key)
                if fetched is None:
                    fetched = FetchedPartition(name, topic_id, wish.partition)
                    if not by_id:
                        fetched.topic_id = b""
                        fetched.key = key
                    partitions[key] = fetched
                if session is not None:
                    fetched.session = session
                    session.dirty.pop(key, None)  # those named last are looked at last
                    session.dirty[key] = fetched
                fetched.want(
                    wish.fetch_offset,
                    wish.partition_max_bytes,
                    wish.current_leader_epoch,
                    wish.last_fetched_epoch,
                    wish.log_start_offset,
                )
        return partitions

    def look(self) -> bool:
        """Read what is there now; True when it is enough to answer, or when something has to be warmed up first."""
        self.found, self.cold = [], []
        self.bytes, self.urgent = 0, False
        if self._overtaken:
            return True
        left = self.max_bytes
        watched = self._watched
        for fetched in list((self.wanted if watched is None else watched.dirty).values()):
            data = self._look_at(fetched, left)
            if data is None:
                continue
            self.found.append((fetched, data))
            if data.error_code:
                self.urgent = True
            elif data.records is not None:
                length = data.records.length
                left -= length
                self.bytes += length
        self.counted = True
        return self.urgent or bool(self.cold) or self.bytes >= self.request.min_bytes

    async def warm_up(self) -> None:
        """Read in threads what the last look would have waited for; the next one finds it in the page cache."""
        for fetched, read, directory in self.cold:
            self.warmed.add(fetched)
            try:
                await offload(read, directory=directory)
            except KafkaError:
                continue  # the next look meets it too, and says so to the client

    def _look_at(self, fetched: FetchedPartition, left: int) -> PartitionData | None:
        """The answer for one partition; None where a session's client knows it all already."""
        try:
            return self._found_in(self._partition(fetched), fetched, left)
        except KafkaError as e:
            answer = PartitionData(
                partition_index=fetched.partition,
                error_code=self._code_of(e),
                high_watermark=-1,
                records=EMPTY,
            )
            if e.code in LEADER_ERRORS:
                self._name_leader(answer, fetched)
            return answer

    def _found_in(
        self, partition: Partition, fetched: FetchedPartition, left: int
    ) -> PartitionData | None:
        """The same, where there is no error to tell. Raises KafkaError."""
        nearer, log = -1, partition.log
        if (watched := self._watched) is not None:
            partition.watch(fetched, watched)
        if self.request.rack_id and self.replica_id == CONSUMER and partition.followers:
            nearer = self._nearer(partition, fetched.fetch_offset)
        records, aborted, diverging = (
            self._read(partition, fetched, left) if nearer < 0 else (EMPTY, None, None)
        )
        high_watermark = partition.high_watermark
        if (
            self.incremental
            and not records.length
            and diverging is None
            and nearer < 0
            and fetched.high_watermark == high_watermark
            and fetched.told_log_start_offset == log.log_start_offset
        ):
            if (
                watched is not None
                and fetched.fetch_offset >= log.log_end_offset
                and (self.replica_id == CONSUMER or self.replica_id in partition.isr)
            ):
                watched.dirty.pop(fetched.key, None)
            return None
        answer = PartitionData(
            partition_index=fetched.partition,
            high_watermark=high_watermark,
            last_stable_offset=log.last_stable_offset(high_watermark),
            log_start_offset=log.log_start_offset,
            aborted_transactions=aborted,
            preferred_read_replica=nearer,
            records=records,
        )
        if diverging is not None:
            answer.diverging_epoch = diverging
            self.urgent = True
        elif nearer >= 0 or (
            self.incremental
            and self.replica_id >= 0
            and fetched.told_log_start_offset != log.log_start_offset
        ):
            self.urgent = True
        return answer

    def _nearer(self, partition: Partition, offset: int) -> int:
        """The replica that a consumer of this rack had better read from, -1 where that is the leader (KIP-392)."""
        broker = self.context.broker
        if broker.config.replica_selector_class != RACK_AWARE_SELECTOR or not partition.leads:
            return -1
        return nearest_replica(
            partition, broker.image, self.request.rack_id, self.context.listener, offset
        )

    def _code_of(self, error: KafkaError) -> int:
        """The error's code; clients too old to know that of a failed disk are sent to find another leader."""
        if (
            error.code == ErrorCode.KAFKA_STORAGE_ERROR
            and self.context.api_version < VERSION_STORAGE_ERROR
        ):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return error.code

    def _partition(self, fetched: FetchedPartition) -> Partition:
        """The partition, led here, in the epoch the client knows. Raises KafkaError."""
        broker = self.context.broker
        if not fetched.topic and self.context.api_version >= VERSION_TOPIC_ID:
            known = broker.image.topic_by_id(fetched.topic_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            fetched.topic = known.name
        try:
            partition = broker.replicas.partition(fetched.topic, fetched.partition)
        except KafkaError:
            if fetched.topic_id and broker.image.topic_by_id(fetched.topic_id) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID) from None
            raise
        if fetched.topic_id and partition.topic_id != fetched.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if self.replica_id == DEBUGGING_CONSUMER or (
            self.replica_id == CONSUMER
            and not partition.leads
            and self.context.api_version >= VERSION_RACK
        ):
            partition.check_readable(fetched.current_leader_epoch)
        else:
            partition.check_leader(fetched.current_leader_epoch)
        return partition

    def _read(
        self, partition: Partition, fetched: FetchedPartition, left: int
    ) -> tuple[Slice, list[AbortedTransaction] | None, EpochEndOffset | None]:
        """(records, aborted transactions, where the client's log diverges from ours)."""
        request, log, offset = self.request, partition.log, fetched.fetch_offset
        if fetched.last_fetched_epoch != NO_EPOCH:
            diverging = _divergence(partition, fetched)
            if diverging is not None:
                return EMPTY, None, diverging
        if self.replica_id >= 0:
            if not self.counted:
                self._count(partition, fetched)
            if self._holds_back(partition):
                return EMPTY, None, None
        elif not partition.leads and offset > log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "not replicated to here yet")
        committed = request.isolation_level == READ_COMMITTED
        end = (
            partition.end_offset(request.isolation_level)
            if self.replica_id == CONSUMER
            else log.log_end_offset
        )
        if offset >= end and log.log_start_offset <= offset <= log.log_end_offset:
            return EMPTY, [] if committed else None, None
        limit = min(left, fetched.partition_max_bytes)
        # Converted, the partitions before may come to nothing: then this one's first batch is the whole answer.
        minimum_one = self.bytes == 0 or self.context.api_version < VERSION_BATCH
        if limit <= 0 and not minimum_one:
            return EMPTY, [] if committed else None, None
        read = (
            log.read(offset, limit, end, minimum_one=minimum_one)
            if fetched in self.warmed
            else log.read_nowait(offset, limit, end, minimum_one=minimum_one)
        )
        if read is None:
            self.cold.append(
                (fetched, lambda: log.read(offset, limit, end, wary=True), log.log_dir.path)
            )
            return EMPTY, [] if committed else None, None
        if self.context.api_version < VERSION_ZSTD and _holds_zstd(log, read.slice):
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Fetch version 10")
        if not committed or not read.slice.length:
            return read.slice, [] if committed else None, None
        try:
            aborted = _aborted(partition, offset, read, patient=fetched in self.warmed)
        except WouldWait:
            again = partial(log.aborted_transactions, offset, read)
            self.cold.append((fetched, again, log.log_dir.path))
            return EMPTY, [], None
        return read.slice, aborted, None

    def _count(self, partition: Partition, fetched: FetchedPartition) -> None:
        """Tell the partition how far this follower is. Raises OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER."""
        log, offset = partition.log, fetched.fetch_offset
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        partition.follower_fetched(
            self.replica_id,
            self.replica_epoch,
            offset,
            fetched.log_start_offset,
            self.context.broker.clock.time(),
            fetched if self.session is not None else None,
            self.before if fetched.counted else float("-inf"),
        )
        fetched.counted = True

    def _holds_back(self, partition: Partition) -> bool:
        """Whether this follower has to wait for the leader's quota."""
        return (
            self.context.broker.quotas.leader.exceeded
            and self.replica_id not in partition.isr
            and self._is_throttled(partition)
        )

    def _is_throttled(self, partition: Partition) -> bool:
        replicas = partition.config.leader_replication_throttled_replicas
        return is_throttled(replicas, partition.tp.partition, self.context.broker.node_id)

    def _count_throttled(self) -> None:
        """Count what goes to throttled replicas."""
        quota = self.context.broker.quotas.leader
        if self.replica_id < 0 or quota.unlimited or not self.bytes:
            return
        replicas, total = self.context.broker.replicas, 0
        for fetched, data in self.found:
            partition = replicas.find(fetched.topic, fetched.partition)
            if partition is not None and data.records is not None and self._is_throttled(partition):
                total += data.records.length
        quota.passed(total)

    async def lower(self) -> bool:
        """Make messages of the batches that were found, in the format that the version reads; whether there are any,
        or an error to tell."""
        magic = 1 if self.context.api_version >= VERSION_MESSAGE_V1 else 0
        left, any_found = self.max_bytes, self.urgent
        for fetched, data in self.found:
            partition = self.context.broker.replicas.find(fetched.topic, fetched.partition)
            if partition is None or data.records is None or not data.records.length:
                continue
            if left <= 0 and any_found:
                data.records = EMPTY
                continue
            log, limit = partition.log, min(left, fetched.partition_max_bytes)
            end = data.high_watermark if self.replica_id == CONSUMER else log.log_end_offset
            try:
                messages = await lower_slice(
                    log, data.records, magic, fetched.fetch_offset, limit, end
                )
                data.records = BytesSlice(messages)
            except KafkaError as e:
                data.error_code, data.records = self._code_of(e), EMPTY
            left -= data.records.length
            any_found |= bool(data.error_code or data.records.length)
        return any_found

    def _name_leader(self, answer: PartitionData, fetched: FetchedPartition) -> None:
        """KIP-951: who leads now."""
        if self.context.api_version >= VERSION_NODE_ENDPOINTS:
            leader = self.context.broker.state.leader_of(fetched.topic, fetched.partition)
            if leader is not None:
                answer.current_leader = LeaderIdAndEpoch(
                    leader_id=leader[0], leader_epoch=leader[1]
                )

    def partitions(self) -> list[Partition]:
        """Those of the wanted ones that are here."""
        replicas = self.context.broker.replicas
        found = (replicas.find(f.topic, f.partition) for f in self.wanted.values())
        return [partition for partition in found if partition is not None]

    def keys(self) -> list[Hashable]:
        """Whom to wait for."""
        if (watched := self._watched) is not None:
            return [watched]
        keys: list[Hashable] = []
        partitions = self.partitions()
        if self.replica_id != CONSUMER:
            keys += [partition.end_key for partition in partitions]
        if self.replica_id < 0:
            keys += partitions
        return keys

    def answer(self) -> FetchResponse:
        """The response: by topic, and in a session only what is news."""
        self._count_throttled()
        response = FetchResponse(session_id=self.session.id if self.session is not None else 0)
        topics: dict[Hashable, FetchableTopicResponse] = {}
        for fetched, data in self.found:
            name = fetched.topic_id or fetched.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = FetchableTopicResponse(
                    topic=fetched.topic, topic_id=fetched.topic_id or ZERO_UUID
                )
                response.responses.append(topic)
            topic.partitions.append(data)
            if self.session is not None:
                fetched.high_watermark = data.high_watermark
                fetched.told_log_start_offset = data.log_start_offset
                served = data.records is not None and data.records.length
                # Whoever was served goes to the end, so that a byte limit starves nobody. (It may be gone: the session's
                # next request is handled while this one waits.)
                if self.incremental and served and self.wanted.pop(fetched.key, None):
                    self.wanted[fetched.key] = fetched
                    if self.session.dirty.pop(fetched.key, None):
                        self.session.dirty[fetched.key] = fetched
        if self.context.api_version >= VERSION_NODE_ENDPOINTS:
            self._add_endpoints(response)
        return response

    def _add_endpoints(self, response: FetchResponse) -> None:
        """Where the leaders that the answer names listen."""
        leaders = {data.current_leader.leader_id for _, data in self.found if data.error_code}
        for leader in sorted(leaders):
            endpoint = self.context.broker.state.endpoint(leader, self.context.listener)
            if endpoint is not None:
                host, port, rack = endpoint
                response.node_endpoints.append(
                    NodeEndpoint(node_id=leader, host=host, port=port, rack=rack)
                )


def handle(context: Context, request: FetchRequest) -> Any:
    """Answer at once where there is enough, or nothing to wait for; else wait."""
    fetch = _Fetch(context, request)
    if context.api_version < VERSION_BATCH:
        return _answer_messages(fetch)
    enough = fetch.look() or request.max_wait_ms <= 0 or not fetch.wanted
    return fetch.answer() if enough and not fetch.cold else _wait(fetch)


async def _wait(fetch: _Fetch) -> FetchResponse:
    """Look again whenever a partition moves, until there is enough or the time is up."""
    deadline = fetch.context.broker.clock.time() + max(fetch.request.max_wait_ms, 0) / 1000
    await _look_until(fetch, fetch.keys(), deadline)
    return fetch.answer()


async def _look_until(fetch: _Fetch, keys: list[Hashable], deadline: float) -> None:
    """Look until there is enough, with nothing left out because it lay cold on the disk."""
    await fetch.warm_up()
    while True:
        await fetch.context.broker.purgatory.until(fetch.look, keys, deadline)
        if not fetch.cold:
            return
        await fetch.warm_up()


async def _answer_messages(fetch: _Fetch) -> FetchResponse:
    """The same for versions 0–3. Where all that was found are control batches, of which nothing is left, wait for more:
    an empty answer would be asked for again at once."""
    broker = fetch.context.broker
    deadline = broker.clock.time() + max(fetch.request.max_wait_ms, 0) / 1000
    partitions = fetch.partitions()
    while True:
        await _look_until(fetch, fetch.keys(), deadline)
        seen = [partition.high_watermark for partition in partitions]
        if await fetch.lower() or fetch.request.min_bytes <= 0:
            return fetch.answer()
        if not await broker.purgatory.until(
            lambda seen=seen: seen != [partition.high_watermark for partition in partitions],
            partitions,
            deadline,
        ):
            return fetch.answer()


def _divergence(partition: Partition, fetched: FetchedPartition) -> EpochEndOffset | None:
    """Where a follower's log leaves ours, by the epoch of its last record (KIP-595)."""
    epoch, end = partition.log.end_offset_for_epoch(fetched.last_fetched_epoch)
    if end < 0 or epoch < 0 or fetched.fetch_offset < partition.log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < fetched.last_fetched_epoch or end < fetched.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end)
    return None


def _aborted(
    partition: Partition, offset: int, read: FetchSlice, *, patient: bool
) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(offset, read, patient=patient)
    ]


def _holds_zstd(log: Log, records: Slice) -> bool:
    """Whether the first batch is one that a client of this version cannot read. Raises StorageError."""
    if isinstance(records, BytesSlice):
        head = records.data[22:23]
    else:
        with storage_errors(log.directory, "read"):
            head = records.file.pread(1, records.position + 22)
    return bool(head) and head[0] & 0x07 == Codec.ZSTD


API = Api(key=1, versions=(0, 18), handle=handle, operation=Operation.READ, parks=True)
