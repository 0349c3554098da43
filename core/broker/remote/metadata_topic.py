"""Reads and writes `__remote_log_metadata` from any broker.

Each broker follows the partitions of the topic that it needs, from their beginning: from its own
log if it leads them, else from the leader. A record is written to the leader of its partition, and
counts only when this broker has read it again. Therefore all brokers judge it by the same order of
records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import trio

from pk.core.broker.clock import Clock
from pk.core.broker.coordinator.broker_links import BrokerLinks
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.offload import offload
from pk.core.broker.peers import PeerLost
from pk.core.broker.purgatory import Purgatory
from pk.core.broker.replication.partition import Partition
from pk.core.broker.replication.replicas import Replicas
from pk.core.broker.requests.auto_topic_creation import AutoTopicCreation
from pk.core.broker.state import BrokerState
from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.log.remote.metadata import (
    Record,
    RemotePartition,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
    decode_record,
    encode_record,
    metadata_partition,
)
from pk.core.log.remote.segments import RemoteSegments
from pk.core.record.batch import check_crc, iter_headers, records
from pk.core.record.build import build_batch
from pk.core.values import LATEST_TIMESTAMP, REMOTE_METADATA_TOPIC, TopicIdPartition
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pk.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pk.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

logger = logging.getLogger("pk.remote")

TIMEOUT_MS: Final = 10_000
"""The timeout of one request, and the time within which a written record must be read again, in
ms."""
READ_BYTES: Final = 1 << 20
WAIT_S: Final = 0.5
"""How long to wait for new records before looking up their leader again, in seconds."""
ALL_IN_SYNC: Final = -1


class _Tail:
    """How far this broker has read a partition of the topic."""

    def __init__(self) -> None:
        self.offset = 0
        self.links: BrokerLinks | None = None


class RemoteLogMetadataTopic:
    """One broker's view of the topic. The segments of one partition are all in the same partition
    of the topic."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        new_links: Callable[[], BrokerLinks],
        topic_creation: AutoTopicCreation,
        purgatory: Purgatory,
        clock: Clock,
        start_soon: Callable[..., None],
    ) -> None:
        """The arguments are the parts of the broker that it uses. `new_links` connects to brokers:
        each partition that is read from another broker has its own connections, since a Fetch that
        waits would delay other requests. `start_soon` starts a background task."""
        self._state = state
        self._replicas = replicas
        self._new_links = new_links
        self._links = new_links()
        self._topic_creation = topic_creation
        self._purgatory = purgatory
        self._clock = clock
        self._start_soon = start_soon
        self._tails: dict[int, _Tail] = {}
        self._segments: dict[TopicIdPartition, RemoteSegments] = {}
        self._logged_refusal = ""
        """The last error of the topic's creation."""

    def close(self) -> None:
        """Close the connections."""
        self._links.close()
        for tail in self._tails.values():
            if tail.links is not None:
                tail.links.close()

    # --- known segments ---

    def segments(self, partition: RemotePartition) -> RemoteSegments:
        """Return the remote segments of a partition, which later records update."""
        found = self._segments.get(partition.key)
        if found is None:
            found = self._segments[partition.key] = RemoteSegments(partition)
        return found

    def all(self) -> list[RemoteSegments]:
        """Return the segments of every partition with records in the parts read so far."""
        return list(self._segments.values())

    def forget(self, partition: RemotePartition) -> None:
        """Drop a partition whose deletion has finished."""
        self._segments.pop(partition.key, None)

    @property
    def partitions(self) -> int:
        """The number of the topic's partitions; 0 if it does not exist."""
        topic = self._state.image.topics.get(REMOTE_METADATA_TOPIC)
        return len(topic.partitions) if topic is not None else 0

    async def create(self) -> bool:
        """Create the topic if it is missing. Returns whether it exists. A refusal is logged once;
        the next task tries again."""
        if self.partitions:
            return True
        try:
            refused = await self._topic_creation.create([REMOTE_METADATA_TOPIC])
        except KafkaError as e:
            self._log_refusal(str(e))
            return False
        for _, message in refused.values():
            self._log_refusal(str(message))
        return bool(self.partitions)

    def _log_refusal(self, reason: str) -> None:
        """Log a refusal once, though each task tries again."""
        if reason != self._logged_refusal:
            self._logged_refusal = reason
            logger.warning("%s was not created: %s", REMOTE_METADATA_TOPIC, reason)

    def number_for(self, key: TopicIdPartition) -> int:
        """Return the topic's partition for records about `key`. The topic must exist."""
        return metadata_partition(key, self.partitions)

    def follow(self, numbers: Iterable[int]) -> None:
        """Read these partitions of the topic from now on."""
        for number in numbers:
            if number not in self._tails:
                self._tails[number] = _Tail()
                self._start_soon(self._read, number)

    def is_leader(self, number: int) -> bool:
        """Return whether this broker leads a partition of the topic."""
        own = self._replicas.find(REMOTE_METADATA_TOPIC, number)
        return own is not None and own.leads and own.offline is None

    # --- reading ---

    async def _read(self, number: int) -> None:
        """Read a partition of the topic forever. Failures are retried."""
        tail, last_error = self._tails[number], ""
        while True:
            try:
                await self._read_more(number, tail)
                last_error = ""
            except (KafkaError, PeerLost) as e:
                if str(e) != last_error:
                    last_error = str(e)
                    logger.info("%s/%d: %s", REMOTE_METADATA_TOPIC, number, e)
                await trio.sleep(WAIT_S)
            except Exception:
                logger.exception("%s/%d cannot be read", REMOTE_METADATA_TOPIC, number)
                await trio.sleep(WAIT_S)

    async def _read_more(self, number: int, tail: _Tail) -> None:
        own = self._replicas.find(REMOTE_METADATA_TOPIC, number)
        # A follower learns of a new high watermark only with its next fetch, and every record would
        # wait for that.
        if own is not None and own.leads and own.offline is None:
            data = await self._read_own(own, tail.offset)
        else:
            data = await self._read_leader(number, tail)
        if data:
            await self._replay(data, tail)
            self._purgatory.touch(tail)

    async def _read_own(self, own: Partition, offset: int) -> bytes:
        """Return the bytes of this broker's own replica from `offset` on; empty if no records
        arrive in time."""
        if offset >= own.high_watermark:
            deadline = self._clock.time() + WAIT_S
            await self._purgatory.until(lambda: own.high_watermark > offset, (own,), deadline)
        end = own.high_watermark
        if offset >= end or own.busy:
            return b""
        log = own.log
        return await offload(
            log.reader.read_bytes, offset, READ_BYTES, end, directory=log.log_dir.path
        )

    async def _read_leader(self, number: int, tail: _Tail) -> bytes:
        """Like `_read_own`, but from another broker. Raises KafkaError, PeerLost."""
        leader = self._leader_of(number)
        if tail.links is None:
            tail.links = self._new_links()
        topic = self._state.image.topics[REMOTE_METADATA_TOPIC]
        requested_partition = FetchPartition(
            partition=number, fetch_offset=tail.offset, partition_max_bytes=READ_BYTES
        )
        request = FetchRequest(
            max_wait_ms=int(WAIT_S * 1000),
            min_bytes=1,
            max_bytes=READ_BYTES,
            topics=[
                FetchTopic(
                    topic=topic.name, topic_id=topic.topic_id, partitions=[requested_partition]
                )
            ],
        )
        answer = await tail.links.request(leader, request, timeout_ms=TIMEOUT_MS)
        _check(answer.error_code)
        for found in (one for topic in answer.responses for one in topic.partitions):
            _check(found.error_code)
            return bytes(found.records or b"")
        return b""

    async def _replay(self, data: bytes, tail: _Tail) -> None:
        """Replay whole batches. Raises CorruptBatch at a batch that the leader's disk has damaged;
        the read is repeated until the leader has repaired it."""
        view = memoryview(data)
        for position, header in iter_headers(data):
            check_crc(view, position, header)
            if not header.is_control:
                for record in records(view[position : position + header.size], header):
                    if record.offset >= tail.offset:
                        self._replay_one(record.offset, record.value)
                    await let_others_run()
            tail.offset = max(tail.offset, header.next_offset)

    def _replay_one(self, offset: int, value: bytes | memoryview | None) -> None:
        try:
            record = decode_record(bytes(value or b""))
        except ProtocolError as e:
            logger.error("%s: offset %d is ignored: %s", REMOTE_METADATA_TOPIC, offset, e)
            return
        if record is not None:
            self.segments(record.partition).replay(record)

    # --- writing ---

    async def write(self, record: Record) -> None:
        """Write a record, and wait until this broker has read it. The segments show whether it took
        effect. Raises KafkaError; even then the record may have been written."""
        await self.write_all(record.partition.key, [record])

    async def set_state(self, segment: RemoteSegment, state: SegmentState) -> None:
        """Write a segment's new state. Raises KafkaError, like `write`."""
        now_ms, node_id = self._clock.now_ms(), self._state.node_id
        await self.write(SegmentUpdate(segment.partition, segment.id, node_id, now_ms, state))

    async def write_all(self, key: TopicIdPartition, written: Sequence[Record]) -> None:
        """Like `write`, for several records about one partition, in one batch."""
        number = self.number_for(key)
        self.follow([number])
        now_ms = self._clock.now_ms()
        batch = build_batch([(now_ms, None, encode_record(record), ()) for record in written])
        try:
            offset = await self._append(number, batch)
        except PeerLost as e:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(e)) from e
        await self._wait_until_read(number, offset + len(written))

    async def catch_up(self, key: TopicIdPartition) -> None:
        """Wait until this broker has read all records about `key` that were written before this
        call. Raises KafkaError."""
        number = self.number_for(key)
        self.follow([number])
        try:
            end = await self._end_of(number)
        except PeerLost as e:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(e)) from e
        await self._wait_until_read(number, end)

    async def _wait_until_read(self, number: int, offset: int) -> None:
        tail = self._tails[number]
        deadline = self._clock.time() + TIMEOUT_MS / 1000
        if not await self._purgatory.until(lambda: tail.offset >= offset, (tail,), deadline):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{REMOTE_METADATA_TOPIC}/{number} was not read to {offset} in time",
            )

    async def _append(self, number: int, batch: bytearray) -> int:
        """Append a batch at the leader of the partition, acknowledged by all in-sync replicas.
        Returns its offset."""
        own = self._replicas.find(REMOTE_METADATA_TOPIC, number)
        if own is not None and own.leads:
            epoch = own.leader_epoch
            appended = own.append(batch, now_ms=self._clock.now_ms())
            deadline = self._clock.time() + TIMEOUT_MS / 1000
            end = appended.last_offset + 1
            if not await own.wait_for_high_watermark(end, deadline, epoch):
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            return appended.base_offset
        leader = self._leader_of(number)
        topic = self._state.image.topics[REMOTE_METADATA_TOPIC]
        data = PartitionProduceData(index=number, records=memoryview(batch))
        request = ProduceRequest(
            acks=ALL_IN_SYNC,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[data])
            ],
        )
        answer = await self._links.request(leader, request, timeout_ms=2 * TIMEOUT_MS)
        for found in (one for topic in answer.responses for one in topic.partition_responses):
            _check(found.error_code)
            return found.base_offset
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _end_of(self, number: int) -> int:
        """Return the end of the committed records in a partition of the topic."""
        own = self._replicas.find(REMOTE_METADATA_TOPIC, number)
        if own is not None and own.leads:
            # Records that an earlier leader acknowledged are in the log, but perhaps not yet below
            # the high watermark.
            return own.log.state.log_end_offset
        requested_partition = ListOffsetsPartition(
            partition_index=number, timestamp=LATEST_TIMESTAMP
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=REMOTE_METADATA_TOPIC, partitions=[requested_partition])],
        )
        answer = await self._links.request(self._leader_of(number), request, timeout_ms=TIMEOUT_MS)
        for found in (one for topic in answer.topics for one in topic.partitions):
            _check(found.error_code)
            return found.offset
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _leader_of(self, number: int) -> int:
        """Return the leader of a partition of the topic, which must be another broker. Raises
        KafkaError."""
        found = self._state.leader_of(REMOTE_METADATA_TOPIC, number)
        if found is None or found[0] < 0 or found[0] == self._state.node_id:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return found[0]


def _check(code: int) -> None:
    if code:
        raise KafkaError(code)
