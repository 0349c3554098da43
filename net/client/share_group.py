"""Membership in a share group (KIP-932): ShareGroupHeartbeat.

One background task holds the membership. The coordinator assigns the partitions that the member may
fetch from. No member must release a partition for another, so an assignment takes effect at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import TopicIdPartition, TopicPartition, Uuid, new_id, uuid_text
from pk.core.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import ShareConsumerConfig
from pk.net.client.errors import COORDINATOR_MOVED, ClientError

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
_PURPOSE: Final = "group"

_FAST_HEARTBEAT_MS: Final = 200
"""The interval of the first heartbeats of a member without an assignment."""
_FAST_HEARTBEATS_MAX: Final = 10
"""The number of heartbeats with that interval."""

_FENCED: Final = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class ShareGroup:
    """A member of a share group. `run` is its task."""

    def __init__(
        self,
        cluster: Cluster,
        config: ShareConsumerConfig,
        *,
        on_assigned: Callable[[], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.group_id = config.group_id or ""
        self.member_id = uuid_text(new_id(secrets.token_bytes))
        """The id that this member generated for its lifetime."""
        self.topics: tuple[str, ...] | None = None
        """The topics that the member subscribes to; None while it is outside the group."""
        self.assigned: dict[TopicPartition, TopicIdPartition] = {}
        """The assigned partitions whose topics' names are known."""
        self.epoch: int = JOIN_EPOCH
        self._cluster = cluster
        self._config = config
        self._on_assigned = on_assigned
        self._on_failure = on_failure
        self._changed = trio.Event()
        self._sends_topics = True
        self._by_id: dict[Uuid, list[int]] = {}
        self._has_unnamed_topics = False
        self._next_heartbeat = 0.0
        self._fast_heartbeats = 0
        self._may_be_member = False
        """Whether the coordinator may consider us a member: True since a heartbeat was sent, even
        if it is not answered yet."""

    def subscribe(self, topics: Iterable[str] | None) -> None:
        """Change the member's topics. With None, the member has no topics until it subscribes
        again."""
        wanted = None if topics is None else tuple(sorted(set(topics)))
        if wanted != self.topics:
            self.topics = wanted
            self._sends_topics = True
            self._next_heartbeat = 0.0
            self._fast_heartbeats = 0
            self._changed.set()

    def metadata_changed(self) -> None:
        """Check whether the names of more assigned topics are known now."""
        if self._has_unnamed_topics:
            self._resolve_topic_names()

    async def run(self) -> None:
        """Maintain the membership until cancelled."""
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        while True:
            self._changed = trio.Event()
            if self.topics is None:
                await self._changed.wait()
                continue
            with trio.move_on_at(self._next_heartbeat):
                await self._changed.wait()
            if trio.current_time() < self._next_heartbeat:
                continue
            try:
                await self._heartbeat()
                backoff.reset()
                continue
            except KafkaError as e:
                self._handle_error(e)
            except (ClientError, ProtocolError):
                self._cluster.forget_coordinator(self.group_id)
                self._sends_topics = True
            await trio.sleep(backoff.next_ms() / 1000)

    def _handle_error(self, error: KafkaError) -> None:
        """Handle an error response to a heartbeat."""
        self._sends_topics = True
        if error.code in COORDINATOR_MOVED:
            self._cluster.forget_coordinator(self.group_id)
        elif error.code in _FENCED and self.epoch != JOIN_EPOCH:
            self.epoch = JOIN_EPOCH
            self._may_be_member = False
            self._assign({})
        elif not error.retriable:
            self._on_failure(error)

    async def _heartbeat(self) -> None:
        connection = await self._connection()
        if self.topics is None:
            return  # the member left while it was connecting: a heartbeat would join again
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        if self._sends_topics or self.epoch == JOIN_EPOCH:
            request.subscribed_topic_names = list(self.topics)
            request.rack_id = self._config.client_rack or None
        self._may_be_member = True
        response: ShareGroupHeartbeatResponse = await connection.request(
            request, timeout_ms=self._config.request_timeout_ms
        )
        if response.error_code:
            raise KafkaError(
                response.error_code, response.error_message or f"share group {self.group_id!r}"
            )
        if self.topics is None:  # pyright: ignore[reportUnnecessaryComparison]  # left meanwhile
            return
        self._sends_topics = False
        self.epoch = response.member_epoch
        interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self._assign(
                {t.topic_id: list(t.partitions) for t in response.assignment.topic_partitions}
            )
        if not self._by_id and self._fast_heartbeats < _FAST_HEARTBEATS_MAX:
            # The partitions of a new group are assigned a moment later, when their share
            # coordinators know them.
            self._fast_heartbeats += 1
            interval_ms = min(interval_ms, _FAST_HEARTBEAT_MS)
        self._next_heartbeat = trio.current_time() + interval_ms / 1000
        if self._has_unnamed_topics:
            missing = [t for t in self._by_id if t not in self._cluster.metadata.names]
            await self._cluster.refresh((), topic_ids=missing)
            self._resolve_topic_names()

    async def _connection(self) -> Any:
        node_id = await self._cluster.coordinator(self.group_id)
        return await self._cluster.connection(node_id, _PURPOSE)

    def _assign(self, by_id: dict[Uuid, list[int]]) -> None:
        self._by_id = by_id
        self._resolve_topic_names()

    def _resolve_topic_names(self) -> None:
        """Find the names of the assigned topics. Topics without a name are left out."""
        names = self._cluster.metadata.names
        self._has_unnamed_topics = not self._by_id.keys() <= names.keys()
        self.assigned = {
            TopicPartition(names[topic_id], number): TopicIdPartition(topic_id, number)
            for topic_id, numbers in self._by_id.items()
            if topic_id in names
            for number in numbers
        }
        self._on_assigned()

    async def leave(self) -> None:
        """Leave the group, so that the other members need not wait for our session to expire."""
        self.epoch, self.topics = JOIN_EPOCH, None
        self._by_id, self.assigned, self._has_unnamed_topics = {}, {}, False
        if not self._may_be_member:
            return
        self._may_be_member = False
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )
        try:
            connection = await self._connection()
            await connection.request(request, timeout_ms=self._config.request_timeout_ms)
        except (ClientError, ProtocolError, KafkaError):
            self._cluster.forget_coordinator(self.group_id)
