"""ShareFetch (78), versions 1–2: a member of a share group acquires records, and acknowledges
earlier ones (KIP-932).

KIP-1206 (v2: never more records than requested, `RECORD_LIMIT`), KIP-1222 (v2: renewal of locks;
such a request fetches nothing).

Acknowledgements are stored first, so that released records may be acquired in the same request.
Then the request checks the partitions of its session, starting with a different one each time. It
reads the available records, and acquires them if they are enough (`min_bytes`); otherwise it waits
for changes. A check and its acquisition are one step without a checkpoint, so no two requests fetch
from a share partition at the same time.

A response lists the partitions with records, errors or acknowledgements. Its records are whole
batches, but a member may process only the records that it acquired.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from pk.core.api.share.share_acknowledgements import (
    LEADER_ERRORS,
    Leader,
    acknowledge,
    acknowledgements_of,
    check_read,
    leader_of,
    session_key,
)
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.reader import FetchIsolation, Reader
from pk.core.broker.requests.context import Context
from pk.core.broker.share.share_partition import SharePartition
from pk.core.errors import ErrorCode, KafkaError
from pk.core.group.any_group import GroupType
from pk.core.log.file_slices import EMPTY, BytesSlice, FileSlice
from pk.core.log.txnindex import AbortedTxn
from pk.core.record.batch import BatchHeader, iter_headers
from pk.core.share.partition_state import (
    Acquired,
    AcquireMode,
    FetchedBatches,
    OffsetRange,
    ShareFetchParams,
    SharePartitionState,
)
from pk.core.share.sessions import FINAL_EPOCH, SessionKey
from pk.core.values import TopicIdPartition, Uuid
from pk.core.wire.encoder import part_bytes
from pk.core.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

FIRST_READ_BYTES: Final = 1 << 17
"""The size of the first read of a partition, in bytes. It is multiplied by four until there are as
many records as wanted."""
READ_BYTES_MAX: Final = 1 << 22
"""The maximum size of one read in bytes, except for a larger first batch. Acquired records are held
in memory."""


async def handle(context: Context, request: ShareFetchRequest) -> ShareFetchResponse:
    """Store acknowledgements, acquire records, and respond. Raises KafkaError."""
    broker = context.broker
    broker.groups.coordinators.check_protocol(GroupType.SHARE)
    key = session_key(request.group_id, request.member_id)
    if request.is_renew_ack and (
        request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    params = _params_of(request, key)
    share = broker.groups.share_partitions
    acknowledgements = await acknowledgements_of(request.topics)
    await _open_session(context, request, key, acknowledges=bool(acknowledgements))
    acknowledged = await acknowledge(context, key, acknowledgements, renews=request.is_renew_ack)
    fetch = _ShareFetch(context, request, key, params)
    if request.share_session_epoch == FINAL_EPOCH:
        share.end(key)
    elif not request.is_renew_ack:
        await fetch.run()
    return fetch.answer(acknowledged)


def _params_of(request: ShareFetchRequest, key: SessionKey) -> ShareFetchParams:
    """Return the parameters for each partition. Raises INVALID_REQUEST."""
    try:
        mode = AcquireMode(request.share_acquire_mode)
    except ValueError:
        message = f"unknown share acquire mode {request.share_acquire_mode}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None
    return ShareFetchParams(key.member_id, mode, request.batch_size)


async def _open_session(
    context: Context, request: ShareFetchRequest, key: SessionKey, *, acknowledges: bool
) -> None:
    """Find the member's session, or open one. A new session keeps the records of the old one: after
    an error the member may still acknowledge them. Raises KafkaError."""
    named: list[TopicIdPartition] = []
    for topic, partition in ((t, p) for t in request.topics for p in t.partitions):
        await let_others_run()
        named.append(TopicIdPartition(topic.topic_id, partition.partition_index))
    forgotten: list[TopicIdPartition] = []
    for topic, index in ((t, p) for t in request.forgotten_topics_data for p in t.partitions):
        forgotten.append(TopicIdPartition(topic.topic_id, index))
    sessions = context.broker.groups.share_partitions.sessions
    connection, epoch = str(context.connection_id), request.share_session_epoch
    sessions.fetch(key, epoch, connection, named, forgotten, acknowledges=acknowledges)


class _Found(NamedTuple):
    """The available records of one share partition, before they are acquired."""

    share_partition: SharePartition
    fetched: FetchedBatches
    data: memoryview
    headers: list[tuple[int, BatchHeader]]


class _ShareFetch:
    """One request: the partitions that it checks, and the records that it has acquired."""

    def __init__(
        self,
        context: Context,
        request: ShareFetchRequest,
        key: SessionKey,
        params: ShareFetchParams,
    ) -> None:
        self._context = context
        self._request = request
        self._key = key
        self._params = params
        self._committed = context.broker.groups.share_partitions.reads_committed(key.group_id)
        self._reader = Reader(
            FetchIsolation.LAST_STABLE_OFFSET if self._committed else FetchIsolation.HIGH_WATERMARK,
            min(request.max_bytes, context.broker.config.fetch_max_bytes, READ_BYTES_MAX),
            committed=self._committed,
        )
        self._share_partitions: dict[TopicIdPartition, SharePartition] = {}
        self._cold: list[tuple[FileSlice, str]] = []
        self._warmed: set[TopicIdPartition] = set()
        self._may_wait = True
        """Whether to wait for more records if there are less than `min_bytes`."""
        self._answers: dict[TopicIdPartition, PartitionData] = {}

    async def run(self) -> None:
        """Acquire the records that are available, or that are appended before the request times
        out."""
        clock = self._context.broker.clock
        deadline = clock.time() + max(self._request.max_wait_ms, 0) / 1000
        session = self._context.broker.groups.share_partitions.sessions.find(self._key)
        if session is None:
            return  # the session ended while the acknowledgements were stored
        await self._find_leaders(session.in_turn())
        if self._request.max_records <= 0:
            return
        keys: list[Hashable] = [*self._share_partitions.values()]
        keys += [share_partition.partition for share_partition in self._share_partitions.values()]
        while True:
            await self._context.broker.purgatory.until(self._try_to_acquire, keys, deadline)
            if self._reader.is_cold or self._cold:
                await self._warm_up()
                continue
            if self._answers or not self._may_wait:
                return
            self._may_wait = False

    async def _find_leaders(self, partitions: Sequence[TopicIdPartition]) -> None:
        """Find the session's share partitions and wait until they are loaded. Those that cannot be
        used get an error."""
        for tp in partitions:
            try:
                check_read(self._context, tp)
                self._share_partitions[tp] = self._context.broker.groups.share_partitions.find(
                    self._key.group_id, tp
                )
            except KafkaError as e:
                self._refuse(tp, e)
        for tp, share_partition in list(self._share_partitions.items()):
            if share_partition.is_loading:
                try:
                    await share_partition.wait_until_loaded()
                except KafkaError as e:
                    self._refuse(tp, e)

    async def _warm_up(self) -> None:
        """Read the cold data that the last check found, in threads."""
        cold, self._cold = self._cold, []
        await self._reader.warm_up()
        for records, directory in cold:
            await offload(records.read, directory=directory)

    # --- checking ---

    def _try_to_acquire(self) -> bool:
        """Read the available records, and acquire them if they are enough. Returns True if the
        request need not wait, or must first read from the disk."""
        self._reader.begin_round()
        found: list[_Found] = []
        left = self._request.max_records
        for tp, share_partition in list(self._share_partitions.items()):
            if left <= 0:
                break
            try:
                one = self._read(tp, share_partition, left)
            except KafkaError as e:
                self._refuse(tp, e)
                continue
            if one is not None:
                found.append(one)
                left -= one.headers[-1][1].last_offset + 1 - one.fetched.fetch_offset
        if self._reader.is_cold or self._cold:
            return True
        size = sum(len(one.data) for one in found)
        if not found or (self._may_wait and size < self._request.min_bytes and not self._answers):
            return bool(self._answers)
        left = self._request.max_records
        for one in found:
            left -= self._acquire(one, left)
        return bool(self._answers)

    def _read(
        self, tp: TopicIdPartition, share_partition: SharePartition, wanted: int
    ) -> _Found | None:
        """Return the available records of one share partition: at least `wanted` records if the log
        has them. Raises KafkaError."""
        state: SharePartitionState = share_partition.loaded()
        partition, log = share_partition.partition, share_partition.partition.log
        partition.check_leader(share_partition.leader_epoch)
        if log.state.log_start_offset > state.start_offset:
            state.log_start_moved(log.state.log_start_offset)
            share_partition.set_timer()
        if not state.can_acquire:
            return None
        fetch_offset = state.next_fetch_offset
        if fetch_offset >= self._reader.end_of(partition):
            return None
        wanted = min(wanted, state.settings.record_locks_max)
        data, aborted = bytearray(), list[AbortedTxn]()
        offset, bytes_max = fetch_offset, FIRST_READ_BYTES
        headers: list[tuple[int, BatchHeader]] = []
        while True:
            read = self._reader.read((tp, offset, bytes_max), partition, offset, bytes_max)
            records = read.records
            if not records.length:
                break
            if isinstance(records, FileSlice) and tp not in self._warmed:
                self._warmed.add(tp)
                if not records.resident():
                    self._cold.append((records, log.log_dir.path))
                    return None
            piece = records.read()
            found = list(iter_headers(piece))
            if not found:
                # The first batch is larger than the bytes that were read.
                if records.length < bytes_max:
                    break
                bytes_max *= 4
                continue
            position, last = found[-1]
            headers += [(len(data) + at, header) for at, header in found]
            data += memoryview(piece)[: position + last.size]
            aborted += read.aborted or ()
            offset = last.next_offset
            if offset - fetch_offset >= wanted:
                break
            bytes_max *= 4
        headers = [one for one in headers if one[1].last_offset >= fetch_offset]
        if not headers:
            return None
        batches = [OffsetRange(header.base_offset, header.last_offset) for _, header in headers]
        fetched = FetchedBatches(fetch_offset, batches, _ranges(headers, aborted))
        return _Found(share_partition, fetched, memoryview(data), headers)

    def _acquire(self, found: _Found, left: int) -> int:
        """Acquire at most `left` of the records found. Returns the number of acquired records."""
        share_partition = found.share_partition
        acquired = share_partition.loaded().acquire(
            self._params, found.fetched, left, self._context.broker.clock.now_ms()
        )
        share_partition.set_timer()
        if not acquired:
            return 0
        data = self._data(share_partition.key.topic_partition)
        data.records = _slice(found, acquired)
        data.acquired_records = [
            AcquiredRecords(
                first_offset=one.first_offset,
                last_offset=one.last_offset,
                delivery_count=one.delivery_count,
            )
            for one in acquired
        ]
        return sum(one.last_offset - one.first_offset + 1 for one in acquired)

    # --- responding ---

    def _data(self, tp: TopicIdPartition) -> PartitionData:
        data = self._answers.get(tp)
        if data is None:
            data = PartitionData(partition_index=tp.partition, records=EMPTY)
            self._answers[tp] = data
        return data

    def _refuse(self, tp: TopicIdPartition, error: KafkaError) -> None:
        self._share_partitions.pop(tp, None)
        data = self._data(tp)
        data.error_code, data.error_message = error.code, error.message or None

    def answer(self, acknowledged: dict[TopicIdPartition, KafkaError | None]) -> ShareFetchResponse:
        """Return the response. `acknowledged` has the result of the acknowledgements for each
        partition."""
        context = self._context
        for tp, error in acknowledged.items():
            data = self._data(tp)
            if error is not None:
                data.acknowledge_error_code = error.code
                data.acknowledge_error_message = error.message or None
        settings = context.broker.groups.share_partitions.settings_of(self._key.group_id)
        response = ShareFetchResponse(acquisition_lock_timeout_ms=settings.lock_duration_ms)
        if context.broker.client_quotas.is_on:
            found = [data.records for data in self._answers.values() if data.records is not None]
            # Acquired records are sent even if the client must wait: delaying them would only
            # extend their locks.
            response.throttle_time_ms = context.broker.client_quotas.charge_sent(
                context, sum(part_bytes(records) for records in found)
            )
        topics: dict[Uuid, ShareFetchableTopicResponse] = {}
        leaders: dict[int, Leader] = {}
        for tp, data in self._answers.items():
            topic = topics.get(tp.topic_id)
            if topic is None:
                topic = topics[tp.topic_id] = ShareFetchableTopicResponse(topic_id=tp.topic_id)
                response.responses.append(topic)
            topic.partitions.append(data)
            if data.error_code in LEADER_ERRORS or data.acknowledge_error_code in LEADER_ERRORS:
                leader = leader_of(context, tp)
                if leader is not None:
                    leaders[leader.leader_id] = leader
                    data.current_leader = LeaderIdAndEpoch(
                        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                    )
        response.node_endpoints = [
            NodeEndpoint(node_id=node, host=found.host, port=found.port, rack=found.rack)
            for node, found in leaders.items()
        ]
        return response


def _ranges(
    headers: Iterable[tuple[int, BatchHeader]], aborted: Sequence[AbortedTxn]
) -> list[OffsetRange]:
    """Return the batches that belong to aborted transactions."""
    if not aborted:
        return []
    return [
        OffsetRange(header.base_offset, header.last_offset)
        for _, header in headers
        if header.is_transactional
        and not header.is_control
        and any(
            one.producer_id == header.producer_id
            and one.first_offset <= header.base_offset
            and header.last_offset <= one.last_offset
            for one in aborted
        )
    ]


def _slice(found: _Found, acquired: Sequence[Acquired]) -> BytesSlice:
    """Return the batches from the first acquired record to the last."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    within = [
        (position, header)
        for position, header in found.headers
        if header.last_offset >= first and header.base_offset <= last
    ]
    position, header = within[-1]
    return BytesSlice(bytes(found.data[within[0][0] : position + header.size]))
