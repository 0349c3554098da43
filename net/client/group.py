"""Membership in a group by the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

One background task holds the membership. It does not change the program's partitions itself:
partitions are revoked and assigned only while the program is inside `poll`, when no record is being
processed. So the task passes `poll` a `Step`, and continues to send heartbeats until the step is
done:

    outside -- JoinGroup, SyncGroup --> Step assign --> stable -- must join again --> (again)
                                                           |       (eager: Step revoke first)
                                                           |
      forgotten or fenced by the coordinator, or poll not called for max.poll.interval.ms
                                                           |
                                                           +--> Step lost --> outside

With the eager protocol, a member revokes all partitions before it joins again. With the cooperative
protocol (KIP-429), it keeps its partitions, learns which ones to revoke, revokes them, and joins
again so that other members get them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import trio
from msgspec import Struct, field

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.group.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pk.core.values import TopicPartition
from pk.core.wire.messages.heartbeat import HeartbeatRequest
from pk.core.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pk.core.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pk.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pk.net.client.assignment.assignors import ASSIGNORS as ASSIGNORS_BY_NAME
from pk.net.client.assignment.assignors import Assignor, RebalanceProtocol
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import ConsumerConfig
from pk.net.client.connection import Connection
from pk.net.client.errors import COORDINATOR_MOVED, ClientError, is_retriable
from pk.net.client.steps import Step, StepKind, Steps

PROTOCOL_TYPE: Final = "consumer"
_PURPOSE: Final = "group"
_JOIN_SLACK_MS: Final = 5_000

IDLE_S: Final = 0.5
"""How often, in seconds, to check whether an idle program polls again."""

_MEMBER_UNKNOWN: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
_REJOIN_ERRORS: Final = (
    *COORDINATOR_MOVED,
    *_MEMBER_UNKNOWN,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
)


class Membership(Struct, frozen=True):
    """The identity of the member that a commit must send."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    leave_count: int = 0
    """How many memberships have ended. If it has changed, other members may have had our
    partitions."""


class _Last(Struct):
    """The last assignment of the member, used by sticky assignors."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1


class _Led(Struct):
    """The input of the leader's last assignment: topic → number of partitions."""

    topics: dict[str, int] = field(default_factory=dict[str, int])


class Group:
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
        self.member_id = ""
        self.generation = -1
        self._leave_count = 0
        self.joining = False
        """Whether JoinGroup or SyncGroup is in progress."""

        self._syncing = False
        self.topics: tuple[str, ...] | None = None
        """The topics that the member subscribes to; None while it is outside the group or does not
        know its topics yet."""

        self.subscribed = False
        """Whether offsets are committed as a member, also while `topics` is None, until the group
        is left. Otherwise they are not committed at all."""

        self.steps = Steps(owned, on_news)
        self.led_topics: frozenset[str] = frozenset()
        """The topics that all members want, if this member leads the group; otherwise empty."""

        self.polling = 0
        self.last_poll = trio.current_time()
        self._on_news = on_news
        self._on_failure = on_failure
        self._owned = owned
        self._rejoin = False
        self.fatal: KafkaError | None = None
        """The error that ends this membership for good: another member took our instance id."""

        self._last = _Last()
        self._led = _Led()
        self._next_heartbeat = 0.0
        assignors: list[Assignor] = [
            ASSIGNORS_BY_NAME[each] if isinstance(each, str) else each for each in config.assignors
        ]
        self._assignors = {assignor.name: assignor for assignor in assignors}
        common = set(RebalanceProtocol).intersection(*(a.protocols for a in assignors))
        self.protocol = max(common)
        """The rebalance protocol: cooperative if all assignors support it."""

    @property
    def membership(self) -> Membership:
        return Membership(
            self.member_id, self.generation, self.config.group_instance_id, self._leave_count
        )

    def subscribe(self, topics: Iterable[str] | None) -> None:
        """Change the member's topics. None leaves the group at the next opportunity."""
        wanted = None if topics is None else tuple(sorted(set(topics)))
        self.subscribed = self.subscribed or wanted is not None
        if wanted != self.topics:
            self.topics = wanted
            self.rejoin()

    def rejoin(self) -> None:
        """Make the group assign its partitions again."""
        self._rejoin = True
        self.steps.wake()

    def metadata_changed(self) -> None:
        """Make the group assign its partitions again if this member leads it and a topic was
        created, deleted or extended."""
        if self.led_topics and self._partition_counts(self.led_topics) != self._led.topics:
            self.rejoin()

    def _partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        known = self.cluster.metadata.topics
        return {
            t: len(known[t].partitions)
            for t in topics
            if t in known and not known[t].error_code and known[t].partitions
        }

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
                await self._prepare()
                if self.topics is None:  # pyright: ignore[reportUnnecessaryComparison]  # set meanwhile
                    continue
                if self._is_idle(trio.current_time()):
                    await self._wait_outside()
                    continue
                self._rejoin = False
                assigned = await self._join()
                if self.topics is None:  # pyright: ignore[reportUnnecessaryComparison]  # set meanwhile
                    await self.leave()
                    continue
                backoff.reset()
                await self._hold_assignment(assigned)
            except KafkaError as e:
                await self._handle_error(e)
                await trio.sleep(backoff.next_ms() / 1000 if self._needs_pause(e) else 0)
            except (ClientError, ProtocolError):
                self.cluster.forget_coordinator(self.group_id)
                await trio.sleep(backoff.next_ms() / 1000)

    def _needs_pause(self, error: KafkaError) -> bool:
        return error.code not in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS)

    async def _handle_error(self, error: KafkaError) -> None:
        """Handle an error response to JoinGroup, SyncGroup or Heartbeat."""
        if error.code in COORDINATOR_MOVED:
            self.cluster.forget_coordinator(self.group_id)
        elif error.code in _MEMBER_UNKNOWN:
            await self._end_membership(keep_id=error.code == ErrorCode.ILLEGAL_GENERATION)
        elif error.code == ErrorCode.FENCED_INSTANCE_ID:
            self.fatal = error
            self._on_news()
            await self._end_membership()
        elif error.code not in _REJOIN_ERRORS and not error.retriable:
            self._on_failure(error)

    async def _prepare(self) -> None:
        """Make an eager member revoke its partitions before it joins (again)."""
        owned = tuple(self._owned())
        if self.protocol == RebalanceProtocol.EAGER and owned:
            await self._run_step(Step(StepKind.REVOKE, owned))

    async def _run_step(self, step: Step) -> None:
        """Pass poll a step, and send heartbeats until it is done."""
        self.steps.put(step)
        await self._heartbeat_until(lambda: step.done)

    async def _end_membership(self, *, keep_id: bool = False) -> None:
        """End the membership, since the coordinator no longer considers us a member: other members
        may have our partitions."""
        self.generation = -1
        self._leave_count += 1
        self.led_topics = frozenset()
        if not keep_id:
            self.member_id = ""
        await self.steps.lose()

    # joining

    async def _connection(self) -> Connection:
        node_id = await self.cluster.coordinator(self.group_id)
        return await self.cluster.connection(node_id, _PURPOSE)

    async def synced(self) -> None:
        """Wait until a pending JoinGroup and its SyncGroup are answered: between them, the
        coordinator rejects commits."""
        await self.steps.wait_until(lambda: not self._syncing)

    async def _join(self) -> tuple[TopicPartition, ...]:
        """Send JoinGroup and SyncGroup. Returns our assignment. Raises KafkaError."""
        self.joining = True
        try:
            return await self._join_and_sync()
        finally:
            self.joining = self._syncing = False
            self.steps.wake()

    async def _join_and_sync(self) -> tuple[TopicPartition, ...]:
        connection = await self._connection()
        response = await self._ask_to_join(connection)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = await self._ask_to_join(connection)
        if response.error_code:
            raise KafkaError(response.error_code, f"joining group {self.group_id!r}")
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._syncing = True
        self._next_heartbeat = trio.current_time() + self.config.heartbeat_interval_ms / 1000
        name = response.protocol_name or ""
        if name not in self._assignors:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group chose the assignor {name!r}"
            )
        assignments: Mapping[str, list[TopicPartition]] = {}
        self.led_topics = frozenset()
        if response.leader == response.member_id:
            assignments = await self._assign(name, response)
        sync = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(given))
                for member, given in assignments.items()
            ],
        )
        answer = await connection.request(sync, timeout_ms=self._join_timeout_ms)
        if answer.error_code:
            raise KafkaError(answer.error_code, f"joining group {self.group_id!r}")
        given = tuple(sorted(decode_assignment(answer.assignment)))
        self._last = _Last(given, self.generation)
        return given

    @property
    def _join_timeout_ms(self) -> int:
        """Return how long the coordinator waits for the other members to join, which they do when
        they poll."""
        waits_ms = max(self.config.max_poll_interval_ms, self.config.session_timeout_ms)
        return max(waits_ms + _JOIN_SLACK_MS, self.config.request_timeout_ms)

    async def _ask_to_join(self, connection: Connection) -> Any:
        topics = self.topics or ()
        cooperative = self.protocol == RebalanceProtocol.COOPERATIVE
        protocols: list[JoinGroupRequestProtocol] = []
        for assignor in self._assignors.values():
            subscription = Subscription(
                topics,
                assignor.user_data(self._last.partitions, self._last.generation),
                tuple(self._owned()) if cooperative else (),
                self._last.generation,
                self.config.client_rack or None,
            )
            protocols.append(
                JoinGroupRequestProtocol(
                    name=assignor.name, metadata=encode_subscription(subscription)
                )
            )
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.config.session_timeout_ms,
            rebalance_timeout_ms=self.config.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )
        return await connection.request(request, timeout_ms=self._join_timeout_ms)

    async def _assign(self, name: str, response: Any) -> Mapping[str, list[TopicPartition]]:
        """Assign partitions as the leader. With SkipAssignment (KIP-814) the old assignment stays,
        but topics are watched."""
        subscriptions: dict[str, Subscription] = {}
        for member in response.members:
            try:
                subscription = decode_subscription(member.metadata, member.group_instance_id)
            except ProtocolError:
                subscription = Subscription((), instance_id=member.group_instance_id)
            subscriptions[member.member_id] = subscription
        wanted = frozenset(t for s in subscriptions.values() for t in s.topics)
        if wanted:
            await self.cluster.refresh(sorted(wanted))
        counts = self._led.topics = self._partition_counts(sorted(wanted))
        self.led_topics = wanted
        if response.skip_assignment:
            return {}
        return self._assignors[name].assign(counts, subscriptions, self._racks(counts))

    def _racks(self, counts: Mapping[str, int]) -> dict[TopicPartition, frozenset[str]]:
        metadata = self.cluster.metadata
        racks = {node.node_id: node.rack for node in metadata.brokers.values() if node.rack}
        if not racks:
            return {}
        return {
            TopicPartition(topic, number): frozenset(
                racks[replica] for replica in info.replicas if replica in racks
            )
            for topic in counts
            for number, info in enumerate(metadata.topics[topic].partitions)
        }

    # membership

    async def _hold_assignment(self, assigned: tuple[TopicPartition, ...]) -> None:
        """Pass poll the assignment, and send heartbeats until it is time to join again."""
        step = Step(StepKind.ASSIGN, assigned)
        self.steps.put(step)
        await self._heartbeat_until(lambda: step.done or (self._rejoin and not step.started))
        if not step.done:
            self.steps.drop()  # the next rebalance replaced it
            return
        if not step.released:
            await self._heartbeat_until(lambda: self._rejoin)

    async def _heartbeat_until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            changed = self.steps.changed
            with trio.move_on_at(self._next_heartbeat if self.generation >= 0 else float("inf")):
                await changed.wait()
            if ready():
                return
            now = trio.current_time()
            if self.generation >= 0 and now >= self._next_heartbeat:
                self._next_heartbeat = now + self.config.heartbeat_interval_ms / 1000
                if self._is_idle(now):
                    await self._leave_idle()
                await self._heartbeat()

    def _is_idle(self, now: float) -> bool:
        """Return whether the program has not polled for too long."""
        idle_ms = 0.0 if self.polling else (now - self.last_poll) * 1000
        return idle_ms > self.config.max_poll_interval_ms

    async def _leave_idle(self) -> None:
        await self.leave()
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, "poll was not called within max.poll.interval.ms"
        )

    async def _wait_outside(self) -> None:
        """Wait while the program does not poll: joining would only mean leaving again, with a
        rebalance each time. A member still in the group leaves it, because the other members wait
        for it to join."""
        if self.member_id:
            await self._leave_idle()
        with trio.move_on_after(IDLE_S):
            await self.steps.changed.wait()

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
        )
        timeout_ms = min(self.config.request_timeout_ms, self.config.session_timeout_ms)
        try:
            connection = await self._connection()
            response = await connection.request(request, timeout_ms=timeout_ms)
        except (ClientError, ProtocolError):
            self.cluster.forget_coordinator(self.group_id)
            self._next_heartbeat = trio.current_time() + self.config.retry_backoff_ms / 1000
            return
        except KafkaError as e:
            if not is_retriable(e):
                raise
            self._next_heartbeat = trio.current_time() + self.config.retry_backoff_ms / 1000
            return
        code = response.error_code
        if code in COORDINATOR_MOVED:
            self.cluster.forget_coordinator(self.group_id)
            self._next_heartbeat = trio.current_time() + self.config.retry_backoff_ms / 1000
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin = True
        elif code and code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            raise KafkaError(code, f"group {self.group_id!r}")

    async def leave(self) -> None:
        """Leave the group, so that the other members need not wait for our session to expire.
        Static members leave_count (KIP-345)."""
        member_id, self.member_id, self.generation = self.member_id, "", -1
        self._leave_count += 1
        self.subscribed = self.topics is not None
        self.led_topics = frozenset()
        self.steps.drop()
        if not member_id or self.config.group_instance_id is not None:
            return
        try:
            connection = await self._connection()
            request = LeaveGroupRequest(group_id=self.group_id)
            version = connection.version_of(request.API_KEY)
            if version >= 3:
                request.members = [MemberIdentity(member_id=member_id)]
            else:
                request.member_id = member_id
            await connection.request(request, version=version)
        except (ClientError, ProtocolError, KafkaError):
            self.cluster.forget_coordinator(self.group_id)
