"""Finds the positions of a consumer's partitions: committed offsets, resets, and truncation.

A task does this in the background. A partition without a position gets the group's committed
offset, or else follows `auto.offset.reset`. A partition that was seeked to a timestamp gets the
offset for that time. A partition whose leader changed is validated against the new leader
(KIP-320): if the new leader's log ends earlier in the epoch of our last record, records that we
read were truncated.

Partitions are independent: if one has no leader, or its leader does not answer, it is looked up
later, and the others do not wait for it.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import trio
from msgspec.structs import replace

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import NO_EPOCH, TopicPartition
from pk.net.client.admin_operations.groups import GroupOperations
from pk.net.client.admin_operations.topics import TopicOperations
from pk.net.client.answers import Answers
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import AdminConfig, ConsumerConfig, duration_ms
from pk.net.client.errors import ClientError, LogTruncated, NoOffset, is_retriable
from pk.net.client.results import EARLIEST, LATEST, IsolationLevel, OffsetAndMetadata
from pk.net.client.subscription import PartitionState

_RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}

_ROUND_RETRIES: Final = 2
"""How often a round retries. A topic that is unknown three times does not exist."""

_STRAGGLER_MS: Final = 1000
"""How long a round waits for a leader once another has answered."""

_UNKNOWN_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Lookup(TopicOperations, GroupOperations):
    """The admin operations that a consumer needs: offsets by time, committed offsets, ends of
    epochs.

    With `brief`, transient errors are raised soon, for callers that retry themselves.
    """

    def __init__(self, cluster: Cluster, config: ConsumerConfig, *, brief: bool = False) -> None:
        asked = AdminConfig(
            default_api_timeout_ms=config.default_api_timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
        )
        if brief:
            asked = replace(asked, retries=_ROUND_RETRIES, pk_straggler_timeout_ms=_STRAGGLER_MS)
        super().__init__(cluster, asked)

    def leaderless(self, partition: TopicPartition) -> bool:
        """Return whether the metadata has the partition, but no leader for it."""
        error = self._leader_error(partition)
        return error is not None and error.code == ErrorCode.LEADER_NOT_AVAILABLE


def _is_retriable(error: Exception) -> bool:
    """Return whether a retry may have a different result."""
    if isinstance(error, KafkaError):
        return is_retriable(error) and error.code not in _UNKNOWN_TOPIC
    return isinstance(error, ClientError)


class Positions:
    """Finds a position for the partitions in `states` that need one."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        states: dict[TopicPartition, PartitionState],
        *,
        on_failure: Callable[[Exception], None],
        on_found: Callable[[], None],
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.states = states
        self.lookup = Lookup(cluster, config)
        self._round = Lookup(cluster, config, brief=True)
        self._failing_since: dict[TopicPartition, float] = {}
        self.isolation = (
            IsolationLevel.READ_COMMITTED
            if config.isolation_level == "read_committed"
            else IsolationLevel.READ_UNCOMMITTED
        )
        self._on_failure = on_failure
        self._on_found = on_found
        self._wants = 0
        self._wanted = trio.Event()

    def want(self) -> None:
        """Look for a position if the partition needs one."""
        self._wants += 1
        self._wanted.set()
        self._wanted = trio.Event()

    def retry_failed(self) -> None:
        """Retry the lookups that failed for good, after their error was raised."""
        for state in self.states.values():
            if state.failed:
                state.failed = False
                self.want()

    async def run(self) -> None:
        """Find positions until cancelled. The group's coordinator may not answer while the
        partitions' leaders do, so no call waits for both."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._repeat, self._committed)
            nursery.start_soon(self._repeat, self._reset, self._validate)

    async def _repeat(self, *steps: Callable[[], Awaitable[bool]]) -> None:
        """Run the steps whenever a partition may need a position. Each step returns whether it had
        anything to do. Callers waiting for a position request again after each round, so a round
        that found nothing to do must not notify them."""
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        done = 0
        while True:
            while done == self._wants:
                await self._wanted.wait()
            done = self._wants
            asked = failed = False
            for step in steps:
                try:
                    asked = await step() or asked
                except (KafkaError, ClientError, ProtocolError) as e:
                    asked = failed = True
                    if isinstance(e, KafkaError) and not e.retriable and not _is_retriable(e):
                        self._on_failure(e)
            if asked:
                self._on_found()
            if failed:
                done = -1
                await trio.sleep(backoff.next_ms() / 1000)
            else:
                backoff.reset()

    def _is_current(self, state: PartitionState, version: int) -> bool:
        """Return whether the result for a partition is still valid: the partition may have been
        seeked meanwhile, or revoked and assigned again."""
        return self.states.get(state.partition) is state and state.version == version

    def _without_position(self) -> list[PartitionState]:
        return [s for s in self.states.values() if not s.has_position and not s.failed]

    async def _committed(self) -> bool:
        """Set partitions that never had a position to the group's committed offset, or else apply
        the reset policy."""
        fresh = {
            s.partition: (s, s.version) for s in self._without_position() if s.reset_to is None
        }
        if not fresh:
            return False
        committed: Answers[TopicPartition, OffsetAndMetadata | None] = Answers()
        if self.config.group_id is not None:
            committed = await self._round.list_group_offsets(
                self.config.group_id,
                list(fresh),
                require_stable=await self._supports_stable_offsets(),
            )
        failures: list[Exception] = []
        for partition, (state, version) in fresh.items():
            if not self._is_current(state, version):
                continue
            if partition in committed.errors:
                failures.append(committed.errors[partition])
            elif (found := committed.ok.get(partition)) is not None:
                state.seek(found.offset, found.leader_epoch)
                self.want()
            else:
                self.out_of_range(state, "no committed offset")
        for failure in failures[:1]:
            raise failure
        return True

    async def _supports_stable_offsets(self) -> bool:
        """Return whether the coordinator can hold back the commits of open transactions
        (KIP-447)."""
        assert self.config.group_id is not None
        node_id = await self.cluster.coordinator(self.config.group_id)
        return (await self.cluster.connection(node_id)).serves(9, 7)

    def out_of_range(self, state: PartitionState, why: str = "the offset is out of range") -> None:
        """Reset to the position that `auto.offset.reset` names, or fail."""
        policy = self.config.auto_offset_reset
        if policy == "none":
            state.failed = True
            self._on_failure(NoOffset(f"{state.partition}: {why}, and auto.offset.reset is none"))
            return
        if policy in _RESETS:
            state.seek_later(_RESETS[policy])
        else:
            ago_ms = duration_ms(policy.removeprefix("by_duration:"))
            state.seek_later(time.time_ns() // 1_000_000 - ago_ms)
        self.want()

    async def _reset(self) -> bool:
        """Look up positions by timestamp. If a partition has no record that late, its position is
        its end."""
        asked = {
            s.partition: (s, s.version, s.reset_to)
            for s in self._without_position()
            if s.reset_to is not None and not self._round.leaderless(s.partition)
        }
        self._failing_since = {p: t for p, t in self._failing_since.items() if p in asked}
        if not asked:
            return False
        timestamps = {p: timestamp for p, (_, _, timestamp) in asked.items()}
        found = await self._round.list_offsets(timestamps, isolation=self.isolation)
        retriable: list[Exception] = []
        failures: list[Exception] = []
        for partition, (state, version, _) in asked.items():
            if not self._is_current(state, version):
                continue
            error = found.errors.get(partition)
            if error is not None and self._should_retry(partition, error):
                retriable.append(error)
                continue
            self._failing_since.pop(partition, None)
            if error is not None:
                state.failed = True
                failures.append(error)
            elif (answer := found.ok[partition]).offset < 0:
                state.seek_later(LATEST)
                self.want()
            else:
                state.seek(answer.offset, answer.leader_epoch)
                state.leader_epoch = self.cluster.metadata.leader(partition)[1]
        for failure in failures[:1]:
            self._on_failure(failure)
        for error in retriable[:1]:
            raise error
        return True

    def _should_retry(self, partition: TopicPartition, error: Exception) -> bool:
        """Return whether to retry: a leader that does not answer has `default.api.timeout.ms`; the
        wait for a leader has no limit."""
        if self._round.leaderless(partition):
            return True
        now = trio.current_time()
        since = self._failing_since.setdefault(partition, now)
        return _is_retriable(error) and now - since < self.config.default_api_timeout_ms / 1000

    def _unvalidated(self) -> Iterable[PartitionState]:
        for state in self.states.values():
            epoch = self.cluster.metadata.leader(state.partition)[1]
            if state.has_position and state.position_epoch >= 0 and epoch > state.leader_epoch:
                yield state

    async def _validate(self) -> bool:
        """Check partitions with a new leader for whether its log still has the records we read."""
        asked = {
            s.partition: (s, s.version, s.position_epoch, s.position)
            for s in self._unvalidated()
            if not self._round.leaderless(s.partition)
        }
        if not asked:
            return False
        epochs = {p: self.cluster.metadata.leader(p)[1] for p in asked}
        retriable: list[Exception] = []
        ends = await self._round.offsets_for_leader_epochs(
            {partition: epoch for partition, (_, _, epoch, _) in asked.items()}
        )
        for partition, (state, version, epoch, position) in asked.items():
            if not self._is_current(state, version):
                continue
            if state.position_epoch != epoch:
                self.want()  # poll has reached another epoch, which this answer does not cover
                continue
            if (error := ends.errors.get(partition)) is not None:
                if _is_retriable(error):
                    retriable.append(error)
                else:
                    # A broker before 2.1 does not support this request: continue without
                    # validation.
                    state.leader_epoch = epochs[partition]
            elif (end := ends.ok[partition]).end_offset < 0 or end.leader_epoch < 0:
                self.out_of_range(
                    state, "the leader does not know the epoch of the last record read"
                )
            elif position <= end.end_offset < state.position:
                self.want()  # poll has returned records after the ones that this answer covers
            elif end.end_offset < state.position:
                self._truncated(state, end.end_offset, end.leader_epoch)
            else:
                if end.end_offset < state.fetch_offset:
                    # The new leader may have other records than the buffered ones.
                    state.seek(state.position, epoch)
                state.leader_epoch = epochs[partition]
        for error in retriable[:1]:
            raise error
        return True

    def _truncated(self, state: PartitionState, end_offset: int, epoch: int = NO_EPOCH) -> None:
        if self.config.auto_offset_reset == "none":
            state.failed = True
            self._on_failure(
                LogTruncated(
                    f"{state.partition}: records from {end_offset} to {state.position} were"
                    " truncated after they had been read"
                )
            )
            return
        state.seek(end_offset, epoch)
        state.leader_epoch = self.cluster.metadata.leader(state.partition)[1]
