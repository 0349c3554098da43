"""Commits a consumer's offsets: on request, at intervals, and before partitions are revoked."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import TopicPartition
from pk.net.client.admin_operations.base import by_topic
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import ConsumerConfig
from pk.net.client.consumer_group import ConsumerProtocolGroup
from pk.net.client.errors import ClientError, is_retriable
from pk.net.client.group import Group, Membership
from pk.net.client.results import OffsetAndMetadata
from pk.net.client.subscription import PartitionState

_PURPOSE: Final = "offsets"
_NAMED_MAX: Final = 9
"""OffsetCommit uses topic ids from version 10 on; names suffice here."""

_REBALANCE_ERRORS: Final = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS)
"""The errors of a commit during a rebalance, before the member has the next generation; a member
that was removed gets them too."""


class _PendingCommit(NamedTuple):
    """A requested commit: the offsets, and the membership when the commit was requested."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    assigned: Mapping[TopicPartition, PartitionState]
    """The partitions of `offsets` that were assigned to this consumer."""

    as_member: bool
    membership: Membership
    best_effort: bool
    """Whether to treat an unknown topic as deleted. Otherwise it may be too new for the coordinator
    to know."""


class _CommitQueue:
    """A queue for commits, which are sent one at a time in the order of their requests: otherwise
    an older commit could overwrite a newer one."""

    def __init__(self) -> None:
        self._turns: deque[trio.Event] = deque()

    def join(self) -> trio.Event:
        """Join the queue. Returns an event that is set when it is the caller's turn."""
        turn = trio.Event()
        self._turns.append(turn)
        self._turns[0].set()
        return turn

    def leave(self, turn: trio.Event) -> None:
        """Leave the queue after the commit, or if the caller is cancelled."""
        self._turns.remove(turn)
        if self._turns:
            self._turns[0].set()


class Commits:
    """The commits of a consumer. `group` is None for a consumer without a group, which never
    commits."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        states: Mapping[TopicPartition, PartitionState],
        group: Group | ConsumerProtocolGroup | None,
        nursery: trio.Nursery,
    ) -> None:
        self.cluster = cluster
        self.config = config
        self._states = states
        self._group = group
        self._nursery = nursery
        self._next = 0.0
        self._queue = _CommitQueue()
        self._background: tuple[_PendingCommit, trio.Event] | None = None
        self._background_running = False
        self.begin_interval()

    def begin_interval(self) -> None:
        """Start the interval until the next automatic commit."""
        self._next = trio.current_time() + self.config.auto_commit_interval_ms / 1000

    @property
    def due(self) -> float:
        """The time of the next automatic commit, by trio's clock; infinity if there is none."""
        auto = self.config.enable_auto_commit and self._group is not None
        return self._next if auto else float("inf")

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of every partition that has one."""
        return {
            partition: OffsetAndMetadata(state.position, state.position_epoch)
            for partition, state in self._states.items()
            if state.has_position
        }

    def auto_commit(self) -> bool:
        """Start a commit of the current positions in the background if the interval has passed.
        Returns whether it has."""
        if trio.current_time() < self.due:
            return False
        self.begin_interval()
        if offsets := self.consumed():
            if self._background is not None:
                self._queue.leave(self._background[1])
            pending = self._pending(offsets, best_effort=True)
            self._background = (pending, self._queue.join())
            if not self._background_running:
                self._background_running = True
                self._nursery.start_soon(self._commit_in_background)
        return True

    async def _commit_in_background(self) -> None:
        """Commit the offsets of the last request, until no request is left. A request that a later
        one replaces before its turn is skipped."""
        try:
            while self._background is not None:
                pending, turn = self._background
                self._background = None
                try:
                    await self._commit(pending, turn)
                except (KafkaError, ClientError, ProtocolError):
                    # A later commit makes up for it, here or by the partitions' new owner.
                    continue
        finally:
            self._background_running = False

    async def commit_positions(self) -> None:
        """Commit the positions before partitions are revoked: best effort, with a time limit, since
        other members are waiting."""
        if self._group is None or not (offsets := self.consumed()):
            return
        limit_ms = min(self.config.default_api_timeout_ms, self.config.session_timeout_ms)
        with trio.move_on_after(limit_ms / 1000):
            try:
                pending = self._pending(offsets, best_effort=True)
                await self._commit(pending, self._queue.join())
            except (KafkaError, ClientError, ProtocolError):
                return

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit `offsets`, with retries for `default.api.timeout.ms`. Raises KafkaError,
        ClientError."""
        await self._commit(self._pending(offsets), self._queue.join())

    def _pending(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, best_effort: bool = False
    ) -> _PendingCommit:
        assert self._group is not None
        assigned = {p: self._states[p] for p in offsets if p in self._states}
        membership = self._group.membership
        return _PendingCommit(offsets, assigned, self._group.subscribed, membership, best_effort)

    async def _commit(self, pending: _PendingCommit, turn: trio.Event) -> None:
        """Commit when the request's turn comes."""
        try:
            await turn.wait()
            await self._commit_with_retries(pending)
        finally:
            self._queue.leave(turn)

    async def _commit_with_retries(self, pending: _PendingCommit) -> None:
        """Commit until every partition is settled. Raises the first error."""
        assert self._group is not None
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        deadline = trio.current_time() + self.config.default_api_timeout_ms / 1000
        failures: list[KafkaError | ClientError] = []
        left = dict(pending.offsets)
        while left:
            if pending.assigned:
                with trio.move_on_at(deadline):
                    await self._group.synced()
            before = self._group.membership
            lost = self._errors_of_lost(pending, left)
            failures += lost.values()
            left = {
                partition: offset for partition, offset in left.items() if partition not in lost
            }
            if not left:
                break
            try:
                refused = await self._commit_once(self._group, left)
            except (KafkaError, ClientError) as e:
                refused = dict.fromkeys(left, e)
            moved = self._group.joining or self._group.membership != before
            late = trio.current_time() >= deadline
            again = {
                partition: error
                for partition, error in refused.items()
                if not late and self._is_retriable(pending, partition, error, moved)
            }
            failures += [error for partition, error in refused.items() if partition not in again]
            left = {partition: offset for partition, offset in left.items() if partition in again}
            if left:
                self._prepare_retry(again.values())
                await trio.sleep(backoff.next_ms() / 1000)
        if failures:
            raise failures[0]

    def _errors_of_lost(
        self, pending: _PendingCommit, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError]:
        """Return the partitions whose offsets we may not commit anymore, with the errors: another
        member may have owned them since, and the coordinator does not check the owner."""
        group = self._group
        assert group is not None
        membership = group.membership
        name = f"group {group.group_id!r}"
        outside = membership.generation < 0 or (
            pending.as_member and pending.membership.generation < 0
        )
        if outside and (pending.as_member or group.subscribed):
            # An empty group has no member to conflict with either.
            error = KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no longer a member of {name}")
            return dict.fromkeys(partitions, error)
        if not pending.as_member:
            return {}
        if membership.leave_count != pending.membership.leave_count:
            error = KafkaError(ErrorCode.ILLEGAL_GENERATION, f"left {name} in the meantime")
            return dict.fromkeys(partitions, error)
        assigned, states = pending.assigned, self._states
        return {
            p: KafkaError(ErrorCode.ILLEGAL_GENERATION, f"{p} was revoked before it was committed")
            for p in partitions
            if p in assigned and states.get(p) is not assigned[p]
        }

    def _is_retriable(
        self,
        pending: _PendingCommit,
        partition: TopicPartition,
        error: KafkaError | ClientError,
        moved: bool,
    ) -> bool:
        if isinstance(error, ClientError):
            return True
        if error.code == ErrorCode.STALE_MEMBER_EPOCH:
            return partition in pending.assigned
        if error.code in _REBALANCE_ERRORS:
            return moved and partition in pending.assigned
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and pending.best_effort:
            return False
        return is_retriable(error)

    def _prepare_retry(self, errors: Iterable[KafkaError | ClientError]) -> None:
        """Prepare for another attempt, so that it does not fail for the same reason."""
        assert self._group is not None
        codes = {error.code if isinstance(error, KafkaError) else None for error in errors}
        if ErrorCode.STALE_MEMBER_EPOCH in codes:
            # We need the coordinator's new epoch for us, which a heartbeat will bring.
            self._group.rejoin()
        if codes - {ErrorCode.STALE_MEMBER_EPOCH, *_REBALANCE_ERRORS}:
            self.cluster.forget_coordinator(self._group.group_id)

    async def _commit_once(
        self,
        group: Group | ConsumerProtocolGroup,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> dict[TopicPartition, KafkaError | ClientError]:
        """Send one commit. Returns the errors by partition. Raises KafkaError, ClientError."""
        from pk.core.wire.messages.offset_commit import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        membership = group.membership
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=(o := offsets[TopicPartition(topic, index)]).offset,
                        committed_leader_epoch=o.leader_epoch,
                        committed_metadata=o.metadata,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(
            group_id=group.group_id,
            generation_id_or_member_epoch=membership.generation,
            member_id=membership.member_id if membership.generation >= 0 else "",
            group_instance_id=membership.instance_id if membership.generation >= 0 else None,
            topics=topics,
        )
        node_id = await self.cluster.coordinator(group.group_id)
        connection = await self.cluster.connection(node_id, _PURPOSE)
        response = await connection.request(request, high=_NAMED_MAX)
        errors = {
            TopicPartition(topic.name, p.partition_index): p.error_code
            for topic in response.topics
            for p in topic.partitions
            if p.error_code
        }
        if ErrorCode.REBALANCE_IN_PROGRESS in errors.values() and not group.joining:
            group.rejoin()
        return {p: KafkaError(code, f"committing {p}") for p, code in errors.items()}
