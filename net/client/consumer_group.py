"""Membership in a group by the consumer protocol (KIP-848): ConsumerGroupHeartbeat.

The coordinator assigns partitions: the member reports its subscription and its partitions, and the
response has the partitions that it should have. As with the classic protocol (group.py), one
background task holds the membership and passes `poll` a `Step`, which adds and removes partitions.
Until `poll` has done the step, the task continues to send heartbeats, and reports as held both the
partitions that `poll` has not released and those that it will take. So the coordinator assigns no
partition to another member that this member is processing or is going to process.

    epoch 0 --- heartbeat that says everything --> epoch n --- another assignment --> Step assign
       ^                                              |
       +--- Step lost --- fenced, or unknown to the coordinator, or poll not called in time
"""

import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import TopicPartition, Uuid, new_id, uuid_text
from pk.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import ConsumerConfig
from pk.net.client.errors import COORDINATOR_MOVED, ClientError
from pk.net.client.group import IDLE_S, Membership
from pk.net.client.steps import Step, StepKind, Steps

_PURPOSE: Final = "group"

PATTERNS_SINCE: Final = 1
"""The first version of the heartbeat with a regular expression."""

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""The epoch that a static member sends if it leaves but may return within its session."""

_FENCED: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ConsumerProtocolGroup:
    """A member of a group. `run` is its task; `poll` does its `steps`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        *,
        on_news: Callable[[], None],
        on_failure: Callable[[Exception], None],
        owned: Callable[[], Iterable[TopicPartition]],
    ) -> None:
        assert config.group_id is not None
        self.group_id = config.group_id
        self.cluster = cluster
        self.config = config
        self.member_id = uuid_text(new_id(secrets.token_bytes))
        """The id that this member generated for its lifetime (KIP-1082)."""

        self.generation = -1
        """The member epoch; -1 while outside the group."""

        self._leave_count = 0
        self.joining = False
        """Always False: joining takes only a heartbeat."""

        self.topics: tuple[str, ...] | None = None
        """The topics that the member subscribes to; None while it is outside the group or does not
        know its topics yet."""

        self.pattern: str | None = None
        """The regular expression (RE2) that the coordinator matches topics against, if the member
        subscribes by pattern; `topics` is then empty."""

        self.subscribed = False
        """Whether offsets are committed as a member. Otherwise they are not committed at all."""

        # Other members may wait for partitions that poll releases, so the coordinator is informed
        # at once.
        self.steps = Steps(owned, on_news, self._heartbeat_soon)
        self.led_topics: frozenset[str] = frozenset()
        """Always empty: the coordinator watches the topics."""

        self.polling = 0
        self.last_poll = trio.current_time()
        self.fatal: KafkaError | None = None
        """The error that ends this membership for good: another member took our instance id."""

        self._on_news = on_news
        self._on_failure = on_failure
        self._owned = owned
        self._on_pattern_refused: Callable[[], None] = lambda: None
        self._pattern_sent = False
        """Whether the coordinator may have a pattern from this member."""
        self._send_all_fields = True
        """Whether the next heartbeat sends all fields, as the first one does, and those after
        errors."""

        self._assigned: tuple[TopicPartition, ...] | None = None
        """The last assignment of the coordinator."""

        self._ids: dict[str, Uuid] = {}
        """The topic ids of the assigned partitions."""

        self._assigned_ids: dict[Uuid, list[int]] = {}
        """The assigned partitions by topic id, as the coordinator sent them."""

        self._has_unnamed_topics = False
        """Whether the assignment has topics whose names are not known yet."""

        self._next_heartbeat = 0.0
        self._has_changes = False
        """Whether something has changed that no heartbeat has reported yet."""

        self._may_be_member = False
        """Whether the coordinator may consider us a member: True since a heartbeat was sent, even
        if it is not answered yet."""

    @property
    def membership(self) -> Membership:
        return Membership(
            self.member_id, self.generation, self.config.group_instance_id, self._leave_count
        )

    def subscribe(self, topics: Iterable[str] | None) -> None:
        """Change the member's topics. None leaves the group at the next opportunity."""
        self._subscribe(None if topics is None else tuple(sorted(set(topics))), None)

    def subscribe_pattern(self, pattern: str, on_refused: Callable[[], None]) -> None:
        """Subscribe to the topics whose whole names match `pattern`, including those created later;
        the coordinator finds the topics. `on_refused` is called if the coordinator is too old, or
        if `pattern` is not a valid RE2 expression."""
        self._on_pattern_refused = on_refused
        self._subscribe((), pattern)

    def _subscribe(self, wanted: tuple[str, ...] | None, pattern: str | None) -> None:
        self.subscribed = self.subscribed or wanted is not None
        if (wanted, pattern) != (self.topics, self.pattern):
            self.topics, self.pattern = wanted, pattern
            self._send_all_fields = True
            self._heartbeat_soon()

    def rejoin(self) -> None:
        """Request our assignment from the coordinator again."""
        self._heartbeat_soon()

    async def synced(self) -> None:
        """Return at once: this protocol accepts commits at any time."""

    def metadata_changed(self) -> None:
        """Check whether the names of more assigned topics are known now."""
        if self._has_unnamed_topics and self._assigned_ids.keys() <= self._names_by_id().keys():
            self.steps.wake()

    def _heartbeat_soon(self) -> None:
        self._has_changes = True
        self._next_heartbeat = 0.0
        self.steps.wake()

    # the task

    async def run(self) -> None:
        """Maintain the membership until cancelled."""
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        while True:
            changed = self.steps.changed
            if self.topics is None or self.fatal is not None:
                await changed.wait()
                continue
            try:
                await self._heartbeat_when_due()
                backoff.reset()
            except KafkaError as e:
                await self._handle_error(e)
                await trio.sleep(backoff.next_ms() / 1000)
            except (ClientError, ProtocolError):
                self.cluster.forget_coordinator(self.group_id)
                self._send_all_fields = True
                await trio.sleep(backoff.next_ms() / 1000)

    async def _heartbeat_when_due(self) -> None:
        changed = self.steps.changed
        if self._has_unnamed_topics:
            # The next heartbeat or metadata retries this; the heartbeat must not wait for it.
            with suppress(KafkaError, ClientError, ProtocolError):
                await self._resolve_topic_names()
        with trio.move_on_at(self._next_heartbeat):
            await changed.wait()
        now = trio.current_time()
        if self.topics is None or now < self._next_heartbeat:
            return
        idle_ms = 0.0 if self.polling else (now - self.last_poll) * 1000
        if idle_ms <= self.config.max_poll_interval_ms:
            await self._heartbeat()
        elif self.generation >= 0:
            await self.leave()
            await self._end_membership()
        else:
            self._next_heartbeat = now + IDLE_S  # the program does not poll: stay outside

    async def _handle_error(self, error: KafkaError) -> None:
        """Handle an error response to a heartbeat."""
        if error.code in COORDINATOR_MOVED:
            self.cluster.forget_coordinator(self.group_id)
            self._send_all_fields = True
        elif error.code in _FENCED:
            self.generation = -1
            self._may_be_member = False
            await self._end_membership()
        elif error.code == ErrorCode.INVALID_REGULAR_EXPRESSION and self.pattern is not None:
            self._refuse_pattern()
        elif error.code == ErrorCode.FENCED_INSTANCE_ID:
            self.fatal = error
            self.generation = -1
            self._on_news()
            await self._end_membership()
        elif not error.retriable:
            self._send_all_fields = True
            self._on_failure(error)

    def _refuse_pattern(self) -> None:
        """Report that the coordinator cannot match our pattern."""
        self._send_all_fields = True
        self.pattern, self.topics = None, None
        self._on_pattern_refused()

    async def _end_membership(self) -> None:
        """End the membership, since the coordinator no longer considers us a member: other members
        may have our partitions."""
        self._leave_count += 1
        self._forget_assignment()
        await self.steps.lose()

    def _forget_assignment(self) -> None:
        self._send_all_fields = True
        self._assigned, self._assigned_ids, self._has_unnamed_topics = None, {}, False

    # heartbeats

    async def _heartbeat(self) -> None:
        connection = await self._connection()
        if self.topics is None:
            return  # the member left while it was connecting: this heartbeat would join again
        self._has_changes = False
        joins = self.generation < 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if joins else self.generation,
            instance_id=self.config.group_instance_id,
            topic_partitions=[] if joins else self._held_partitions(),
        )
        sends_all = self._send_all_fields or joins
        if sends_all:
            self._send_all_fields = False
            request.rebalance_timeout_ms = self.config.max_poll_interval_ms
            request.subscribed_topic_names = list(self.topics or ())
            request.rack_id = self.config.client_rack or None
            request.server_assignor = self.config.group_remote_assignor
        try:
            if self.pattern is not None or self._pattern_sent:
                if connection.version_of(request.API_KEY) < PATTERNS_SINCE:
                    self._refuse_pattern()
                    return
                if sends_all:
                    request.subscribed_topic_regex = self.pattern or ""
                    self._pattern_sent = self.pattern is not None
            self._may_be_member = True
            response = await connection.request(request, timeout_ms=self.config.request_timeout_ms)
            if response.error_code:
                raise KafkaError(
                    response.error_code, response.error_message or f"group {self.group_id!r}"
                )
        except BaseException:
            self._send_all_fields = self._send_all_fields or sends_all
            raise
        self._apply(response)

    async def _connection(self) -> Any:
        node_id = await self.cluster.coordinator(self.group_id)
        return await self.cluster.connection(node_id, _PURPOSE)

    def _held_partitions(self) -> list[TopicPartitions]:
        """Return, by topic id, the partitions that we hold and those of our assignment that poll
        may still take. The coordinator may assign all others to other members."""
        held: dict[Uuid, list[int]] = {}
        for topic, partition in {*self._owned(), *self.steps.unfinished()}:
            topic_id = self._ids.get(topic)
            if topic_id is not None:
                held.setdefault(topic_id, []).append(partition)
        return [TopicPartitions(topic_id=t, partitions=sorted(ps)) for t, ps in held.items()]

    def _apply(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if self.topics is None or not self._may_be_member:
            return  # the member left after the request
        self.generation = response.member_epoch
        if not self._has_changes:
            self._next_heartbeat = trio.current_time() + response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._assigned_ids = {
                t.topic_id: list(t.partitions) for t in response.assignment.topic_partitions
            }
            self._has_unnamed_topics = True
            self.steps.wake()

    async def _resolve_topic_names(self) -> None:
        """Find the names of the assigned topics, and pass the assignment to poll. Topics without a
        name are left out: they were deleted, or are too new for the broker that was asked."""
        asked = self._assigned_ids
        named = self._names_by_id()
        if missing := [t for t in asked if t not in named]:
            await self.cluster.refresh((), topic_ids=missing)
            named = self._names_by_id()
        if self._assigned_ids is not asked:
            return  # another assignment arrived meanwhile
        known = {t: partitions for t, partitions in asked.items() if t in named}
        self._has_unnamed_topics = len(known) < len(asked)
        self._ids.update({named[t]: t for t in known})
        self._assign(sorted(TopicPartition(named[t], p) for t, ps in known.items() for p in ps))

    def _names_by_id(self) -> dict[Uuid, str]:
        topics = self.cluster.metadata.topics
        return {info.topic_id: name for name, info in topics.items() if not info.error_code}

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        before, self._assigned = self._assigned, tuple(partitions)
        current = self.steps.current
        if before == self._assigned and (current is None or current.started):
            return
        self.steps.put(Step(StepKind.ASSIGN, self._assigned))
        if current is not None:
            self._heartbeat_soon()  # other members may wait for partitions that poll does not take

    async def leave(self) -> None:
        """Leave the group, so that the other members need not wait for our session to expire. A
        static member tells the coordinator that it may return. Unless the task itself leaves, call
        `subscribe(None)` first, or the next heartbeat joins again."""
        self.generation = -1
        self._leave_count += 1
        self.subscribed = self.topics is not None
        self._forget_assignment()
        self.steps.drop()
        if not self._may_be_member:
            return
        self._may_be_member = False
        static = self.config.group_instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC_EPOCH if static else LEAVE_EPOCH,
            instance_id=self.config.group_instance_id,
        )
        try:
            connection = await self._connection()
            await connection.request(request, timeout_ms=self.config.request_timeout_ms)
        except (ClientError, ProtocolError, KafkaError):
            self.cluster.forget_coordinator(self.group_id)
