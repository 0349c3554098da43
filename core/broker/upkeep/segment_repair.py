"""Replaces a damaged segment of a follower with its leader's data.

The range is fetched as a debugging consumer (replica id -2), since a follower's fetches would tell
the leader that this replica has fallen back to that offset. The data is written next to the log as
a `.cleaned` segment, compared with the damaged one (`find_replacement_problem` in
core/log/scrub.py), and then replaces it, like a compacted segment. The follower stays in sync
during this, and the damaged files are kept until the new ones are durable.

Only committed records of one leader epoch are replaced, so that the leader's log certainly has
them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final

import trio

from pk.core.broker.offload import offload
from pk.core.broker.peers import Channel, PeerLost, Peers
from pk.core.broker.replication.partition import Partition
from pk.core.broker.state import BrokerState
from pk.core.broker.upkeep.bandwidth import Bandwidth
from pk.core.broker.upkeep.replace_segments import replace_segments
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.log.cleaned_segment import CleanedSegment, remove_cleaned
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.log import Log
from pk.core.log.scrub import Replaced, aborted_in, find_replacement_problem
from pk.core.log.segment import Part, Segment
from pk.core.record.batch import BatchHeader, iter_headers
from pk.core.values import NO_LEADER
from pk.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)

if TYPE_CHECKING:
    from pk.core.broker.replication.replicas import Replicas

CONNECT_MS: Final = 5_000
FETCH_MS: Final = 30_000
FETCH_BYTES: Final = 1 << 20
"""The size of each fetch, in bytes."""
BUFFER_BYTES: Final = 1 << 18
FETCH: Final = 1
VERSION_REPLICA_STATE: Final = 15
DEBUGGING_CONSUMER: Final = -2


class NotRepaired(Exception):
    """A segment could not be replaced now. The message has the reason."""


class SegmentRepair:
    """Repairs segments of followers."""

    def __init__(
        self,
        state: BrokerState,
        replicas: Replicas,
        peers: Peers,
        bandwidth: Bandwidth,
    ) -> None:
        """`bandwidth` limits the fetches and reads."""
        self._state = state
        self._replicas = replicas
        self._peers = peers
        self._bandwidth = bandwidth

    async def repair(self, partition: Partition, segment: Segment, following: int) -> None:
        """Replace a damaged segment; the next segment begins at `following`. Raises NotRepaired;
        StorageError, OSError if this broker's disk fails."""
        log = partition.log
        if partition.leader in (NO_LEADER, self._state.node_id):
            raise NotRepaired("no other broker leads the partition")
        if following > partition.high_watermark:
            raise NotRepaired("not all of its records are committed")
        if log.rewriting:
            raise NotRepaired("the log is being compacted")
        log.rewriting = True
        try:
            await self._replace(partition, log, segment, following)
        except (PeerLost, KafkaError) as e:
            if isinstance(e, KafkaError) and e.code == ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            raise NotRepaired(str(e)) from e
        finally:
            log.rewriting = False

    async def _replace(
        self, partition: Partition, log: Log, segment: Segment, following: int
    ) -> None:
        config, epoch, base = partition.config, partition.leader_epoch, segment.base_offset
        replaced = Replaced(
            segment,
            segment.size,
            following,
            max(base, log.state.log_start_offset),
            config.compact or log.segments.first_dirty_offset is not None,
        )
        path = log.log_dir.path
        now_ms = self._replicas.clock.now_ms()

        def begin() -> CleanedSegment:
            remove_cleaned(log.state.disk, log.state.directory, base)
            interval = log.state.config.index_interval_bytes
            return CleanedSegment(
                log.state.disk, log.state.directory, base, now_ms, interval, BUFFER_BYTES
            )

        writer = await offload(begin, directory=path)
        in_place = False
        try:
            markers = await self._copy(partition, replaced, writer)

            def finish() -> dict[str, int]:
                for aborted in aborted_in(log, segment, writer, markers):
                    writer.index_aborted(aborted)
                return writer.finish()

            sizes = await offload(finish, directory=path)
            epochs = LeaderEpochs(log.state.epochs.entries)
            problem = await self._bandwidth.run(
                find_replacement_problem(writer.segment, replaced, epochs), path
            )
            if problem is not None:
                raise NotRepaired(
                    f"the segment of broker {partition.leader} cannot replace it: {problem}"
                )
            if partition.log is not log or partition.leader_epoch != epoch or partition.leads:
                raise NotRepaired("the leader has changed")
            in_place = True
            part = Part(base, replaced.size, 0, 0)
            if segment not in log.state.segments or not await replace_segments(
                self._replicas, partition, log, base, [part], sizes
            ):
                in_place = False
                raise NotRepaired("the segment was truncated or deleted")
        finally:
            writer.close()
            if not in_place:
                with trio.CancelScope(shield=True):
                    await offload(
                        remove_cleaned, log.state.disk, log.state.directory, base, directory=path
                    )

    async def _copy(
        self, partition: Partition, replaced: Replaced, writer: CleanedSegment
    ) -> set[int]:
        """Copy the leader's data. Returns the offsets of its markers."""
        endpoint = self._state.inter_broker_endpoint(partition.leader)
        if endpoint is None:
            raise NotRepaired(f"the address of broker {partition.leader} is unknown")
        epoch, path = partition.leader_epoch, partition.log.log_dir.path
        markers: set[int] = set()
        channel = await self._peers.connect(endpoint.host, endpoint.port, timeout_ms=CONNECT_MS)
        try:
            offset = replaced.start_offset
            while offset < replaced.following:
                records = await self._fetch(channel, partition, epoch, offset)
                batches = list(_complete_batches(records, offset))
                if not batches:
                    break  # the check of the copy will find that data is missing
                within = [b for b in batches if b[1].base_offset < replaced.following]
                markers.update(h.last_offset for _, h in within if h.is_control)
                await offload(_write, writer, records, within, directory=path)
                offset = batches[-1][1].next_offset
                await self._bandwidth.used(len(records))
        finally:
            channel.close()
        return markers

    async def _fetch(
        self, channel: Channel, partition: Partition, epoch: int, offset: int
    ) -> bytes:
        """Return the leader's data of that epoch from `offset` on."""
        topic = FetchTopic(
            topic=partition.tp.topic,
            topic_id=partition.topic_id,
            partitions=[
                FetchPartition(
                    partition=partition.tp.partition,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=FETCH_BYTES,
                )
            ],
        )
        request = FetchRequest(max_bytes=FETCH_BYTES, topics=[topic])
        if channel.version_of(FETCH) >= VERSION_REPLICA_STATE:
            request.replica_state = ReplicaState(replica_id=DEBUGGING_CONSUMER)
        else:
            request.replica_id = DEBUGGING_CONSUMER
        answer: FetchResponse = await channel.request(request, timeout_ms=FETCH_MS)
        data = answer.responses[0].partitions[0] if answer.responses else None
        code = answer.error_code or (data.error_code if data is not None else 0)
        if code:
            raise NotRepaired(
                f"broker {partition.leader} responded {error_name(code)} at offset {offset}"
            )
        return bytes(data.records or b"") if data is not None else b""


def _complete_batches(records: bytes, offset: int) -> Generator[tuple[int, BatchHeader]]:
    """Return the whole batches in a fetch from `offset` on, the first of which contains it. Raises
    CorruptBatch."""
    for position, header in iter_headers(records):
        if header.next_offset <= offset:
            raise NotRepaired(f"the leader sent offset {header.base_offset} again")
        offset = header.next_offset
        yield position, header


def _write(writer: CleanedSegment, records: bytes, batches: list[tuple[int, BatchHeader]]) -> None:
    with memoryview(records) as view:
        for position, header in batches:
            writer.add(view[position : position + header.size])
