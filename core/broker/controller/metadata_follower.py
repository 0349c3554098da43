"""Follows the metadata log: fetches the commits of the active controller and replays them in this
process.

The log is fetched as Kafka's brokers do: topic `__cluster_metadata`, long polls to the controller's
listener, whole batches of CBOR events. If the controller no longer has the next events, a snapshot
is fetched with FetchSnapshot (KIP-630). Everything a controller sends is durable, so nothing here
is ever undone, and a response that would require it is refused: a batch that does not continue this
node's log, an event that contradicts it, an older snapshot, another cluster's id. After a refused
response the connection is closed and the request is repeated after a pause; the image does not
change.

The controller may move: if the locator returns another node, the connection is closed and the next
one goes there. While the controller is active in this process, it publishes its images directly,
and nothing is fetched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVarTuple

import trio

from pk.core import cbor
from pk.core.broker.controller.embedded_store import TOPIC_ID
from pk.core.broker.offload import offload
from pk.core.broker.peers import Channel, PeerLost, Peers
from pk.core.config import BrokerConfig
from pk.core.errors import ErrorCode, KafkaError, error_name
from pk.core.meta import snapshot
from pk.core.meta.events import Endpoint, Event, decode
from pk.core.meta.image import ContradictoryEvent, MetadataImage
from pk.core.record.batch import check_crc, iter_headers, records
from pk.core.values import METADATA_TOPIC, NO_EPOCH
from pk.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from pk.core.wire.messages.fetch import PartitionData as FetchedPartition
from pk.core.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    ResponsePartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)

if TYPE_CHECKING:
    from pk.core.broker.controller.controller_client import Locator

logger = logging.getLogger("pk.metadata")

FETCH: Final = 1
VERSION_WITHOUT_REPLICA_ID: Final = 15
"""The first version of Fetch that has the replica in `replica_state` (KIP-903)."""

POLL_MS: Final = 2_000
"""How long a fetch may wait at the controller when nothing happens, in ms."""

LEADER_CHECK_S: Final = 0.5
"""How often to check for another controller, in seconds, since a paused controller does not report
it."""

REPLAYED_INLINE_BYTES: Final = 16 * 1024
"""Up to this size, some hundred events, the log is replayed on the event loop; beyond it, in a
thread."""

THREADS: Final = "metadata"
"""Threads of their own, so that a slow disk does not delay new images."""

BACKOFF_S_MAX: Final = 0.5
SNAPSHOT_BYTES_MAX: Final = 1 << 31

Args = TypeVarTuple("Args")


class MetadataBroken(Exception):
    """The controller's response cannot be a continuation of this node's log."""


class FollowingNode(Protocol):
    """The node that follows the metadata log."""

    @property
    def newest(self) -> MetadataImage:
        """The image from which to continue."""
        ...

    @property
    def leads(self) -> bool:
        """Whether the active controller is in this process. If so, nothing is fetched."""
        ...

    async def publish(self, image: MetadataImage) -> None:
        """Publish the next image."""
        ...

    def controller_refused(self, controller_id: int, endpoint: Endpoint) -> None:
        """Handle that no process listens at the controller's address."""
        ...


class MetadataFollower:
    """Fetches and replays the metadata log. `run` must run while the node follows."""

    def __init__(
        self,
        config: BrokerConfig,
        node: FollowingNode,
        *,
        locator: Locator,
        peers: Peers,
        random: Random,
    ) -> None:
        self._config = config
        self._node = node
        self._locator = locator
        self._peers = peers
        self._random = random
        self._channel: Channel | None = None
        self.last_error = ""
        """The reason why the log cannot be followed now; empty if it can."""

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff_s_min = self._config.controller_quorum_retry_backoff_ms / 1000
        backoff_s = backoff_s_min
        while True:
            offset = self._node.newest.offset
            try:
                if not self._node.leads:
                    await self._follow()
            except (PeerLost, KafkaError, MetadataBroken) as e:
                self._log_error(e)
            if self._node.newest.offset > offset:
                backoff_s = backoff_s_min
            await trio.sleep(backoff_s * (0.5 + self._random.random()))
            backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)

    def stop(self) -> None:
        """Close the current connection, because there is another controller, or this process has
        become the controller."""
        if self._channel is not None:
            self._channel.close()

    def _log_error(self, error: Exception) -> None:
        """Log an error, once for each reason, since a missing controller is tried often."""
        text = str(error)
        if text != self.last_error:
            self.last_error = text
            level = logging.ERROR if isinstance(error, MetadataBroken) else logging.INFO
            logger.log(level, "the metadata log cannot be followed: %s", text)

    async def _follow(self) -> None:
        """Follow the log over one connection. Raises PeerLost, KafkaError, MetadataBroken."""
        found = await self._locator.find()
        if found is None:
            raise PeerLost("there is no active controller")
        controller_id, endpoint = found
        timeout_ms = self._config.controller_quorum_request_timeout_ms
        try:
            channel = self._channel = await self._peers.connect(
                endpoint.host, endpoint.port, timeout_ms=timeout_ms
            )
        except PeerLost as e:
            if e.refused:
                self._node.controller_refused(controller_id, endpoint)
            raise
        failure: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_leader, channel, found)
                try:
                    while not self._node.leads:
                        await self._fetch_once(channel)
                except (PeerLost, KafkaError, MetadataBroken) as e:
                    failure = e
                nursery.cancel_scope.cancel()
        finally:
            self._channel = None
            channel.close()
        if failure is not None:
            raise failure

    async def _watch_leader(self, channel: Channel, followed: tuple[int, Endpoint]) -> None:
        """Close the connection when there is another controller."""
        while True:
            await trio.sleep(LEADER_CHECK_S)
            found = await self._locator.find()
            if self._node.leads or (found is not None and found != followed):
                channel.close()

    async def _fetch_once(self, channel: Channel) -> None:
        """Fetch once, and publish the result."""
        image = self._node.newest
        answer = await channel.request(
            self._request(channel.version_of(FETCH), image),
            timeout_ms=POLL_MS + self._config.controller_quorum_request_timeout_ms,
        )
        fetched = _only_partition(answer)
        self._check_epoch(fetched.current_leader.leader_epoch, image)
        if fetched.snapshot_id.end_offset >= 0:
            wanted = fetched.snapshot_id
            found = await self._fetch_snapshot(
                channel, SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch)
            )
        elif fetched.diverging_epoch.end_offset >= 0:
            raise MetadataBroken(
                f"the controller's log ends at offset {fetched.diverging_epoch.end_offset}, but "
                f"this node has events of epoch {image.controller_epoch} up to offset "
                f"{image.offset}: the controller has lost events"
            )
        else:
            data = fetched.records or b""
            found = await _run_by_size(len(data), replay, image, bytes(data))
        if found is image or self._node.leads:
            return
        self._check_cluster(found)
        self.last_error = ""
        await self._node.publish(found)

    def _request(self, version: int, image: MetadataImage) -> FetchRequest:
        node_id = self._config.node_id
        request = FetchRequest(
            cluster_id=image.cluster_id or None,
            max_wait_ms=POLL_MS,
            max_bytes=self._config.controller_quorum_fetch_max_bytes,
            topics=[
                FetchTopic(
                    topic=METADATA_TOPIC,
                    topic_id=TOPIC_ID,
                    partitions=[
                        FetchPartition(
                            fetch_offset=image.offset,
                            last_fetched_epoch=image.controller_epoch,
                            partition_max_bytes=self._config.controller_quorum_fetch_max_bytes,
                        )
                    ],
                )
            ],
        )
        if version < VERSION_WITHOUT_REPLICA_ID:
            request.replica_id = node_id
        else:
            request.replica_state = ReplicaState(replica_id=node_id)
        return request

    async def _fetch_snapshot(self, channel: Channel, wanted: SnapshotId) -> MetadataImage:
        """Fetch the controller's image for `wanted`. Raises MetadataBroken, PeerLost,
        KafkaError."""
        image = self._node.newest
        if wanted.end_offset <= image.offset:
            raise MetadataBroken(
                f"the controller offers a snapshot of {wanted.end_offset} events, but this node "
                f"has {image.offset}: the controller has lost events"
            )
        logger.info("loading the snapshot of %d events", wanted.end_offset)
        data, size = bytearray(), 1
        while len(data) < size:
            part = await self._fetch_part(channel, wanted, len(data))
            size, piece = part.size, part.unaligned_records
            if part.position != len(data) or not piece or size > SNAPSHOT_BYTES_MAX:
                raise MetadataBroken(
                    f"the controller sent {len(piece or b'')} bytes at position {part.position} of "
                    f"a snapshot of {size} bytes; expected those at position {len(data)}"
                )
            data += piece
        try:
            found = await _run_by_size(size, snapshot.load, bytes(data))
        except cbor.CborError as e:
            raise MetadataBroken(f"the controller's snapshot cannot be read: {e}") from e
        if found.offset != wanted.end_offset:
            raise MetadataBroken(
                f"the controller's snapshot has {found.offset} events instead of "
                f"{wanted.end_offset}"
            )
        return found

    async def _fetch_part(
        self, channel: Channel, wanted: SnapshotId, position: int
    ) -> ResponsePartitionSnapshot:
        image = self._node.newest
        request = FetchSnapshotRequest(
            cluster_id=image.cluster_id or None,
            replica_id=self._config.node_id,
            max_bytes=self._config.controller_quorum_fetch_snapshot_max_bytes,
            topics=[
                TopicSnapshot(
                    name=METADATA_TOPIC,
                    partitions=[
                        PartitionSnapshot(
                            current_leader_epoch=NO_EPOCH, snapshot_id=wanted, position=position
                        )
                    ],
                )
            ],
        )
        timeout_ms = self._config.controller_quorum_request_timeout_ms
        answer = await channel.request(request, timeout_ms=timeout_ms)
        return _only_snapshot(answer)

    def _check_epoch(self, epoch: int, image: MetadataImage) -> None:
        """Check that the controller's epoch is not older than this node's events: such a controller
        has been replaced and does not know it. Raises MetadataBroken."""
        if NO_EPOCH < epoch < image.controller_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"it is the controller of epoch {epoch}, but the epoch is {image.controller_epoch}",
            )

    def _check_cluster(self, found: MetadataImage) -> None:
        known = self._node.newest.cluster_id
        if known and found.cluster_id != known:
            raise MetadataBroken(
                f"the controller belongs to cluster {found.cluster_id}, this node to {known}"
            )


async def _run_by_size(
    size: int, work: Callable[[*Args], MetadataImage], *args: *Args
) -> MetadataImage:
    """Run `work(*args)`, for `size` bytes of the log, in a thread if they are many. No other code
    changes the arguments, and the resulting image is not published if it is no longer based on the
    newest."""
    if size <= REPLAYED_INLINE_BYTES:
        return work(*args)
    return await offload(work, *args, directory=THREADS)


def replay(image: MetadataImage, data: bytes | memoryview) -> MetadataImage:
    """Return `image` after the events of whole batches; the same image if it has them all.

    Raises MetadataBroken if the batches do not continue the image, or are damaged.
    """
    events: list[Event] = []
    offset = image.offset
    view = memoryview(data)
    try:
        for position, header in iter_headers(view):
            check_crc(view, position, header)
            if header.leader_epoch < image.controller_epoch and header.next_offset > image.offset:
                raise MetadataBroken(
                    f"events of epoch {header.leader_epoch} follow events of epoch "
                    f"{image.controller_epoch}"
                )
            for record in records(view[position : position + header.size], header):
                if record.offset < offset:
                    continue
                if record.offset > offset:
                    raise MetadataBroken(
                        f"found an event at offset {record.offset}, expected offset {offset}"
                    )
                events.append(decode(record.value or b""))
                offset += 1
        return image.apply(events) if events else image
    except (KafkaError, cbor.CborError) as e:
        raise MetadataBroken(f"the events from offset {image.offset} on cannot be read: {e}") from e
    except (ContradictoryEvent, LookupError) as e:
        raise MetadataBroken(f"the new events contradict the earlier ones: {e!r}") from e


def _only_partition(answer: Any) -> FetchedPartition:
    """Return the requested partition. Raises KafkaError with the controller's error,
    MetadataBroken."""
    _check_error(answer.error_code)
    found = [partition for topic in answer.responses for partition in topic.partitions]
    if len(found) != 1 or found[0].partition_index != 0:
        raise MetadataBroken("the controller's response is not about the metadata log")
    _check_error(found[0].error_code)
    return found[0]


def _only_snapshot(answer: Any) -> ResponsePartitionSnapshot:
    _check_error(answer.error_code)
    found = [partition for topic in answer.topics for partition in topic.partitions]
    if len(found) != 1 or found[0].index != 0:
        raise MetadataBroken(
            "the controller's response is not about a snapshot of the metadata log"
        )
    _check_error(found[0].error_code)
    return found[0]


def _check_error(code: int) -> None:
    if code:
        raise KafkaError(code, f"the controller responded {error_name(code)}")
