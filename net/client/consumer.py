"""The consumer: reads records from partitions that are assigned by hand or by a group.

    async with open_consumer("localhost:9092", {"group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            ...

Background tasks wait for the brokers (fetcher, positions, group). `poll` returns the records that
have arrived. Only `poll` adds and removes partitions, so nothing changes for the program between
two polls.

With `enable.auto.commit`, a poll commits the records that earlier polls returned, so records are
processed at least once. For at most once, commit between poll and processing. When the block ends,
the consumer commits its positions and leaves the group. If it ends with an exception, it commits
nothing, because the records last returned may not have been processed.
"""

import re
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from math import nan
from typing import Final, Self

import trio

from pk.core.errors import KafkaError, without_frames
from pk.core.values import INTERNAL_TOPICS, TopicPartition
from pk.net.client.answers import Answers
from pk.net.client.cluster import Cluster, in_nursery, open_cluster
from pk.net.client.commits import Commits
from pk.net.client.config import ConsumerConfig, parse
from pk.net.client.connection import OnRequest
from pk.net.client.consumer_group import ConsumerProtocolGroup
from pk.net.client.errors import Closed, NoOffset
from pk.net.client.fetcher import Fetcher, FetcherEvents
from pk.net.client.group import Group
from pk.net.client.positions import Positions
from pk.net.client.results import (
    EARLIEST,
    LATEST,
    GroupMetadata,
    ListedOffset,
    OffsetAndMetadata,
)
from pk.net.client.steps import Step, StepKind
from pk.net.client.subscription import ConsumerRecord, FetchedBatch, OnRecords, PartitionState
from pk.net.client.watch import Watch

Rebalanced = Callable[[tuple[TopicPartition, ...]], Awaitable[None]]
"""An async callback that `poll` calls with the partitions that were revoked or assigned."""

_CLOSE_MS: Final = 5_000
_LEAVE_MS: Final = 1_000
"""The part of the closing time reserved for leaving the group."""


class Consumer:
    """A consumer, made by `open_consumer`. Only one task at a time may poll; any task may call the
    other methods.

    After `close`, methods that assign, read or commit raise Closed. Methods that take a partition
    raise KeyError if it is not assigned.
    """

    def __init__(self, cluster: Cluster, config: ConsumerConfig, nursery: trio.Nursery) -> None:
        self.cluster = cluster
        """Connections and metadata."""

        self.config = config
        self._nursery = nursery
        self._states: dict[TopicPartition, PartitionState] = {}
        self._watch = Watch(
            cluster, config, self._states, topics=self._topics_watched, on_failure=self._fail
        )
        self._positions = Positions(
            cluster, config, self._states, on_failure=self._fail, on_found=self._on_positions_found
        )
        self._fetcher = Fetcher(
            cluster,
            config,
            self._states,
            nursery,
            FetcherEvents(
                on_news=self._wake,
                on_failure=self._fail,
                on_out_of_range=self._positions.out_of_range,
                want_metadata=self._watch.want,
            ),
        )
        self._group: Group | ConsumerProtocolGroup | None = None
        if config.group_id is not None:
            member = ConsumerProtocolGroup if config.joins_by_consumer_protocol else Group
            self._group = member(
                cluster,
                config,
                on_news=self._wake,
                on_failure=self._fail,
                owned=self._owned,
            )
        self._commits = Commits(cluster, config, self._states, self._group, nursery)
        self._group_started = False
        self._topics: frozenset[str] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._matched_by_group = False
        """Whether the group's coordinator matches topics against the pattern."""
        self._on_revoked: Rebalanced | None = None
        self._on_assigned: Rebalanced | None = None
        self._on_lost: Rebalanced | None = None
        self._failure: Exception | None = None
        self._event = trio.Event()
        self._last_served: TopicPartition | None = None
        self._records_consumed = 0
        self._on_records: OnRecords | None = None
        self._closing = False
        """Whether the consumer is closed or is making its last commits."""

        self._closed = False
        cluster.on_metadata.append(self._metadata_changed)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        bootstrap: str | Sequence[str],
        config: Mapping[str, object] | None = None,
        *,
        on_request: OnRequest | None = None,
        on_records: OnRecords | None = None,
    ) -> AsyncGenerator[Self]:
        """Open a consumer of the cluster that `bootstrap` belongs to. The consumer connects on
        first use and is closed when the block ends.

        `bootstrap` is `host:port` with commas between several, or a sequence of them. `config` has
        consumer configs by Kafka's names, as strings or values. `on_request` is called after each
        request, for traces. `on_records` is called with the records that `poll` returns or the loop
        yields, and the time at which the poll began (ns since 1970). It does not get the batches of
        `poll_batches`.

        Raises ConfigError for an unknown or invalid config.
        """
        parsed = parse(ConsumerConfig, config)
        async with open_cluster(bootstrap, parsed, on_request) as cluster, in_nursery() as nursery:
            consumer = cls(cluster, parsed, nursery)
            consumer._on_records = on_records
            consumer.start()
            async with consumer:
                yield consumer

    def start(self) -> None:
        """Start the background tasks. `open_consumer` does this."""
        self._nursery.start_soon(self._watch.run)
        self._nursery.start_soon(self._positions.run)

    # subscription

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions, by `assign` or by the group."""
        return frozenset(self._states)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The assigned partitions that are paused."""
        return frozenset(p for p, s in self._states.items() if s.paused)

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics, including those that match the pattern. If the group's coordinator
        matches the pattern (KIP-848), only the topics of assigned partitions."""
        if self._matched_by_group:
            return frozenset(partition.topic for partition in self._states)
        return self._topics or frozenset()

    @property
    def group_metadata(self) -> GroupMetadata:
        """This consumer as its group's coordinator knows it, for `Producer.send_offsets`. Raises
        ValueError without `group.id`."""
        if self._group is None:
            raise ValueError("a consumer without group.id has no group")
        m = self._group.membership
        return GroupMetadata(self._group.group_id, m.member_id, m.generation, m.instance_id)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly `partitions`, without group assignment. Partitions that were assigned before
        keep their positions.

        Raises ValueError while topics are subscribed to.
        """
        self._check()
        if self._subscribes:
            raise ValueError("subscribed to topics: unsubscribe before assigning partitions")
        wanted = [TopicPartition(*partition) for partition in partitions]
        for partition in self._states.keys() - set(wanted):
            del self._states[partition]
        self._add(wanted)

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_revoked: Rebalanced | None = None,
        on_assigned: Rebalanced | None = None,
        on_lost: Rebalanced | None = None,
    ) -> None:
        """Let the group assign partitions of `topics`, or of all topics whose whole name matches
        `pattern`. Give one of them.

        With `group.protocol=consumer` the coordinator matches a pattern given as a string, by RE2
        (KIP-848). The client itself matches a compiled pattern, one that the coordinator cannot
        match, and one that would match internal topics under `exclude.internal.topics`.

        `poll` calls `on_revoked` before partitions are revoked, so that it can commit, `on_lost`
        (default: `on_revoked`) after partitions were lost, and `on_assigned` with new partitions.
        Each gets a tuple of partitions.

        Raises ValueError without `group.id`, with partitions assigned by hand, or with both or
        neither of `topics` and `pattern`.
        """
        self._check()
        if self._group is None:
            raise ValueError("subscribing needs group.id; without a group, assign partitions")
        if self._states and not self._subscribes:
            raise ValueError("partitions are assigned by hand: unassign them before subscribing")
        names = frozenset([topics] if isinstance(topics, str) else topics)
        if bool(names) == (pattern is not None):
            raise ValueError("give topics or a pattern")
        self._on_revoked, self._on_assigned, self._on_lost = on_revoked, on_assigned, on_lost
        self._pattern = re.compile(pattern) if pattern is not None else None
        self._matched_by_group = False
        if self._pattern is None:
            self._topics = names
            self._group.subscribe(names)
        elif (
            isinstance(pattern, str)
            and isinstance(self._group, ConsumerProtocolGroup)
            and not self._hides_topics_of(self._pattern)
        ):
            self._topics, self._matched_by_group = None, True
            self._group.subscribe_pattern(pattern, self._match_locally)
        else:
            self._topics = None
            self._match_pattern()
        self._watch.want()
        if not self._group_started:
            self._group_started = True
            self._group.last_poll = trio.current_time()
            self._nursery.start_soon(self._group.run)

    async def unsubscribe(self) -> None:
        """Leave the group, or drop the partitions assigned by hand. With `enable.auto.commit` it
        tries to commit first."""
        self._check()
        group = self._group
        if group is None or not self._subscribes:
            self._states.clear()
            return
        group.subscribe(None)
        try:
            if self._states:
                await self._revoke(tuple(self._states), lost=group.generation < 0)
        finally:
            self._topics = self._pattern = None
            self._matched_by_group = False
            self._states.clear()
            await group.leave()

    def enforce_rebalance(self) -> None:
        """Make the group assign its partitions again at the next poll, for example because the
        inputs of the program's own assignor have changed. Raises ValueError if nothing is
        subscribed, and with `group.protocol=consumer`, because then the coordinator decides."""
        self._check()
        if self._group is None or not self._subscribes:
            raise ValueError("not subscribed: there is no group to rebalance")
        if self.config.joins_by_consumer_protocol:
            raise ValueError(
                "with group.protocol=consumer the coordinator decides when to rebalance"
            )
        self._group.rejoin()

    @property
    def _subscribes(self) -> bool:
        return self._topics is not None or self._pattern is not None

    def _owned(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that the group controls."""
        return tuple(self._states) if self._subscribes else ()

    # positions

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        """Continue at `offset`. Given the `leader_epoch` of the record before it, the consumer
        detects that the log was truncated below `offset` (KIP-320). Raises ValueError for a
        negative offset, KeyError.
        """
        if offset < 0:
            raise ValueError(f"not an offset: {offset}")
        self._state(partition).seek(offset, leader_epoch)
        self._wake_fetcher()

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue at the first record of `partitions` (None: all assigned). The offset is looked
        up in the background. Raises KeyError."""
        self._seek_later(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Continue at the end of `partitions` (None: all assigned): the high watermark, or with
        read_committed the last stable offset. Raises KeyError."""
        self._seek_later(partitions, LATEST)

    def seek_to_time(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition] | None = None
    ) -> None:
        """Continue at the first record with a timestamp of at least `timestamp_ms` (epoch
        milliseconds), or at the end if there is none. Raises ValueError for a negative time,
        KeyError."""
        if timestamp_ms < 0:
            raise ValueError(f"not a time in epoch milliseconds: {timestamp_ms}")
        self._seek_later(partitions, timestamp_ms)

    def _seek_later(self, partitions: Iterable[TopicPartition] | None, timestamp: int) -> None:
        for partition in list(self._states) if partitions is None else partitions:
            self._state(partition).seek_later(timestamp)
        self._wake_fetcher()

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that `poll` returns. Waits until it is known.

        Raises NoOffset if there is no committed offset and `auto.offset.reset` is none, KafkaError,
        KeyError, and trio.TooSlowError after `default.api.timeout.ms`.
        """
        with trio.fail_after(self.config.default_api_timeout_ms / 1000):
            while (found := self.position_nowait(partition)) is None:
                self._raise_failure()
                self._positions.want()
                await self._event.wait()
            return found

    def position_nowait(self, partition: TopicPartition) -> int | None:
        """Like `position`, but return None instead of waiting. Raises KeyError."""
        state = self._state(partition)
        return state.position if state.has_position else None

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of offsets between the position and the high watermark of the last
        fetch; None before the first fetch. Raises KeyError."""
        return self._state(partition).lag

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch; None before the first fetch. Raises
        KeyError."""
        mark = self._state(partition).high_watermark
        return None if mark < 0 else mark

    def metrics(self) -> dict[str, float]:
        """Return counters since the consumer was opened (`…-total`) and current values, by the
        names of Kafka's consumer metrics. `records-lag-max` is the largest `lag` of an assigned
        partition, NaN before the first fetch."""
        lags = [lag for state in list(self._states.values()) if (lag := state.lag) is not None]
        return {
            "records-consumed-total": self._records_consumed,
            "fetch-total": self._fetcher.fetches,
            "records-lag-max": max(lags, default=nan),
            "assigned-partitions": len(self._states),
        }

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of `partitions` until `resume`; fetched records stay buffered. Raises
        KeyError."""
        for partition in partitions:
            self._state(partition).paused = True
        self._fetcher.wake()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume paused partitions. Raises KeyError."""
        for partition in partitions:
            self._state(partition).paused = False
        self._fetcher.wake()
        self._wake()

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> Answers[TopicPartition, ListedOffset]:
        """Return the first offset of each partition (ListOffsets), or the KafkaError or ClientError
        of a partition that failed."""
        return await self._list(dict.fromkeys(partitions, EARLIEST))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> Answers[TopicPartition, ListedOffset]:
        """Return the offset after the last record that this consumer may read, for each partition:
        the high watermark, or with read_committed the last stable offset. A partition that failed
        has a KafkaError or ClientError instead."""
        return await self._list(dict.fromkeys(partitions, LATEST))

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Answers[TopicPartition, ListedOffset]:
        """Return the offset of the first record with at least the given timestamp (epoch
        milliseconds) in each partition; -1 if there is none. A partition that failed has a
        KafkaError or ClientError instead."""
        return await self._list(timestamps)

    async def _list(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Answers[TopicPartition, ListedOffset]:
        lookup = self._positions.lookup
        return await lookup.list_offsets(timestamps, isolation=self._positions.isolation)

    async def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the partitions of a topic. The request may create the topic, depending on
        `allow.auto.create.topics`.

        Raises KafkaError, for example UNKNOWN_TOPIC_OR_PARTITION after `default.api.timeout.ms`,
        and ClientError.
        """
        info = await self.cluster.topic(
            topic,
            timeout_ms=self.config.default_api_timeout_ms,
            allow_auto_topic_creation=self.config.allow_auto_create_topics,
        )
        return tuple(TopicPartition(topic, number) for number in range(len(info.partitions)))

    # records

    async def poll(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> list[ConsumerRecord]:
        """Return the next records, at most `records_max` (default: `max.poll.records`). Waits at
        most `timeout_ms` milliseconds (default: forever) for the first one; after that, returns an
        empty list. Partitions take turns.

        Raises KafkaError or ClientError for errors that cannot be retried. A cancelled poll loses
        no records.
        """
        limit = self.config.max_poll_records if records_max is None else records_max
        start_ns = 0 if self._on_records is None else time.time_ns()
        records: list[ConsumerRecord] = []

        def take(state: PartitionState) -> bool:
            left = state.take_records(records, limit - len(records), self.config.check_crcs)
            return left > 0

        await self._poll(take, lambda: bool(records), timeout_ms)
        self._records_consumed += len(records)
        if self._on_records is not None and records:
            self._on_records(records, start_ns)
        return records

    async def poll_by_partition(
        self, *, timeout_ms: float | None = None, records_max: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Like `poll`, but group the records by partition."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in await self.poll(timeout_ms=timeout_ms, records_max=records_max):
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def poll_batches(
        self, *, timeout_ms: float | None = None, bytes_max: int | None = None
    ) -> list[FetchedBatch]:
        """Like `poll`, but return whole record batches as the broker sent them, to decode them into
        columns or pass the bytes on.

        Returns everything buffered, up to about `bytes_max` bytes (default: `fetch.max.bytes`), but
        at least one batch. Leaves out control batches and, with read_committed, those of aborted
        transactions. Raises what `poll` raises.
        """
        batches: list[FetchedBatch] = []
        limit = self.config.fetch_max_bytes if bytes_max is None else bytes_max
        size = 0

        def take(state: PartitionState) -> bool:
            nonlocal size
            while size < limit:
                try:
                    batch = state.take_batch(self.config.check_crcs)
                except KafkaError:
                    if batches:
                        return False
                    raise
                if batch is None:
                    return True
                batches.append(batch)
                size += batch.header.size
            return False

        await self._poll(take, lambda: bool(batches), timeout_ms)
        self._records_consumed += sum(batch.header.count for batch in batches)
        return batches

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yield records forever. Raises what `poll` raises.

        The position is just after the last record yielded, so `commit` and the end of the block
        never commit records that the loop has not received.
        """
        while True:
            records = await self.poll(records_max=1)
            for number in range(1, self.config.max_poll_records + 1):
                yield records.pop()
                if number == self.config.max_poll_records or not self._take_next(records):
                    break

    def _take_next(self, records: list[ConsumerRecord]) -> bool:
        """Append the next buffered record, preferably of the partition served last. Returns whether
        there was one."""

        def take(state: PartitionState) -> bool:
            return state.take_records(records, 1 - len(records), self.config.check_crcs) > 0

        if self._closing:
            return False
        last = self._states.get(self._last_served) if self._last_served is not None else None
        if last is not None and (record := last.take_record()) is not None:
            records.append(record)
        elif last is None or not last.has_data or self._take_from(last, take):
            self._take(take)
        self._records_consumed += len(records)
        if self._on_records is not None and records:
            self._on_records(records, time.time_ns())
        return bool(records)

    async def _poll(
        self,
        take: Callable[[PartitionState], bool],
        taken: Callable[[], bool],
        timeout_ms: float | None,
    ) -> None:
        """Wait until there is something to take, and take it. Only `_arrived` waits, and it takes
        nothing, so a cancelled poll loses nothing."""
        self._check()
        deadline = trio.current_time() + (float("inf") if timeout_ms is None else timeout_ms / 1000)
        while True:
            await self._arrived(deadline)
            self._take(take)
            if taken() or trio.current_time() >= deadline:
                return

    async def _arrived(self, deadline: float) -> None:
        """Do the group's steps, commit if it is time, and wait until `deadline` for a batch."""
        group = self._group
        if group is not None:
            group.polling += 1
        try:
            await trio.lowlevel.checkpoint()
            committed = False
            while True:
                event = self._event
                await self._do_steps()
                self._raise_failure()
                committed = committed or self._commits.auto_commit()
                if any(state.has_data for state in self._states.values()):
                    return
                if trio.current_time() >= deadline:
                    return
                # While we wait, positions do not change: one commit is enough.
                due = float("inf") if committed else self._commits.due
                with trio.move_on_at(min(deadline, due)):
                    await event.wait()
        finally:
            if group is not None:
                group.polling -= 1
                group.last_poll = trio.current_time()

    def _take(self, take: Callable[[PartitionState], bool]) -> None:
        """Take from partitions in turn, starting with the one after the last served."""
        states = [s for s in self._states.values() if s.has_data]
        for index, state in enumerate(states):
            if state.partition == self._last_served:
                states = states[index + 1 :] + states[: index + 1]
                break
        for state in states:
            if not self._take_from(state, take):
                break

    def _take_from(self, state: PartitionState, take: Callable[[PartitionState], bool]) -> bool:
        """Take from one partition. Returns whether to continue with the next."""
        full_bytes = self.config.max_partition_fetch_bytes
        was_full = state.buffered_bytes >= full_bytes
        more = take(state)
        if was_full and state.buffered_bytes < full_bytes:
            self._fetcher.wake()
        self._last_served = state.partition
        return more

    # the group's steps

    async def _do_steps(self) -> None:
        group = self._group
        while group is not None and (step := group.steps.begin()) is not None:
            try:
                await self._do_step(step)
            finally:
                if self._is_done(step):
                    group.steps.finish(step)
                else:
                    group.steps.put_back(step)
        if group is not None and group.fatal is not None:
            raise without_frames(group.fatal)

    def _is_done(self, step: Step) -> bool:
        """Return whether the partitions are as the step requires, even if the callback failed or
        was cancelled."""
        if step.kind is StepKind.ASSIGN:
            return step.done or self._states.keys() == frozenset(step.partitions)
        return self._states.keys().isdisjoint(step.partitions)

    async def _do_step(self, step: Step) -> None:
        """Do a step, or the rest of one that was interrupted."""
        wanted = frozenset(step.partitions)
        if step.kind is not StepKind.ASSIGN:
            kept = tuple(p for p in self._states if p in wanted)
            await self._revoke(kept, lost=step.kind is StepKind.LOST)
            return
        gone = tuple(p for p in self._states if p not in wanted)
        if gone:
            step.released = True
            await self._revoke(gone, lost=False)
        if step.done:
            return  # the group withdrew the step meanwhile
        added = tuple(p for p in step.partitions if p not in self._states)
        self._add(added)
        if self._on_assigned is not None:
            await self._on_assigned(added)
        self._commits.begin_interval()

    async def _revoke(self, partitions: tuple[TopicPartition, ...], *, lost: bool) -> None:
        states = [self._states[partition] for partition in partitions]
        for state in states:
            state.revoking = True
        try:
            if not lost and self.config.enable_auto_commit:
                await self._commits.commit_positions()
        except trio.Cancelled:
            for state in states:
                state.revoking = False  # the program still owns them: nothing is committed
            raise
        try:
            callback = self._on_revoked
            if lost and self._on_lost is not None:
                callback = self._on_lost
            if callback is not None:
                await callback(partitions)
        finally:
            for partition in partitions:
                self._states.pop(partition, None)

    # commits

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Answers[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offset for each partition (OffsetFetch): None if there is
        none, or the partition's error.

        Raises KafkaError or ClientError if the whole request fails, ValueError without `group.id`.
        """
        return await self._positions.lookup.list_group_offsets(
            self._group_id(), partitions, require_stable=False
        )

    def consumed_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that `commit` commits by default: for each partition that has a
        position, the offset after the last record returned to the program."""
        return self._commits.consumed()

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> None:
        """Commit `offsets`, each the offset of the next record to read (None: the position of every
        partition), and waits for the answer (OffsetCommit).

        Raises KafkaError with UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or REBALANCE_IN_PROGRESS if the
        group has rebalanced: the partition's new owner will read the records since the last commit
        again. Raises ValueError without `group.id`.
        """
        if self._closed:
            raise Closed("this consumer is closed")
        self._group_id()
        if offsets is None:
            await self._commits.commit(self._commits.consumed())
            return
        full = {
            partition: o if isinstance(o, OffsetAndMetadata) else OffsetAndMetadata(o)
            for partition, o in offsets.items()
        }
        await self._commits.commit(full)

    def _group_id(self) -> str:
        if self.config.group_id is None:
            raise ValueError("committed offsets belong to a group: set group.id")
        return self.config.group_id

    # internals

    def _check(self) -> None:
        if self._closing:
            raise Closed("this consumer is closed")

    def _state(self, partition: TopicPartition) -> PartitionState:
        state = self._states.get(TopicPartition(*partition))
        if state is None:
            raise KeyError(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    def _add(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if partition not in self._states:
                self._states[partition] = PartitionState(partition)
            if self.cluster.metadata.leader(partition)[0] < 0:
                self._watch.want()
        self._wake_fetcher()

    def _wake_fetcher(self) -> None:
        """Start lookups and fetches that are needed now."""
        self._positions.want()
        self._fetcher.follow_leaders()
        self._wake()

    def _wake(self) -> None:
        self._event.set()
        self._event = trio.Event()

    def _on_positions_found(self) -> None:
        self._fetcher.follow_leaders()
        self._wake()

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        self._wake()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            if not isinstance(failure, NoOffset):
                self._positions.retry_failed()
            raise failure

    # metadata

    def _metadata_changed(self) -> None:
        if self._pattern is not None and not self._matched_by_group:
            self._match_pattern()
        if self._group is not None:
            self._group.metadata_changed()
        self._positions.want()
        self._fetcher.follow_leaders()

    def _hides_topics_of(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the pattern matches topics that `exclude.internal.topics` hides. A
        coordinator would not hide them."""
        return self.config.exclude_internal_topics and any(
            pattern.fullmatch(name) for name in INTERNAL_TOPICS
        )

    def _match_locally(self) -> None:
        """Match the pattern in the client, because the coordinator cannot."""
        self._matched_by_group = False
        self._match_pattern()
        self._watch.want()

    def _match_pattern(self) -> None:
        """Subscribe to the topics that match the pattern, when all topics are known."""
        assert self._pattern is not None and self._group is not None
        metadata = self.cluster.metadata
        if metadata.all_topics_at == float("-inf"):
            return
        hide = self.config.exclude_internal_topics
        self._topics = frozenset(
            name
            for name, info in metadata.topics.items()
            if self._pattern.fullmatch(name)
            and not info.error_code
            and not (hide and info.internal)
        )
        self._group.subscribe(self._topics)

    def _topics_watched(self) -> set[str] | None:
        """Return the topics whose metadata to watch; None for all."""
        if self._pattern is not None and not self._matched_by_group:
            return None
        topics = {partition.topic for partition in self._states} | self.subscription
        return topics | self._group.led_topics if self._group is not None else topics

    # closing

    async def close(self, *, commit: bool = True) -> None:
        """Commit (with `enable.auto.commit`, unless `commit` is False), revoke the partitions and
        leave the group. Takes at most five seconds. `open_consumer` does this."""
        if self._closing:
            return
        self._closing = True
        group = self._group
        end = trio.current_time() + _CLOSE_MS / 1000
        try:
            with trio.move_on_at(end - _LEAVE_MS / 1000, shield=True):
                await self._close_group(commit=commit and self.config.enable_auto_commit)
        finally:
            self._closed = True
            with trio.move_on_at(end, shield=True):
                if group is not None and self._subscribes:
                    group.subscribe(None)
                    await group.leave()
                await self._fetcher.close()

    async def _close_group(self, *, commit: bool) -> None:
        """Make the last commit, and call `on_revoked` for the last time, which may commit too."""
        group = self._group
        if group is None:
            return
        is_member = self._subscribes and bool(self._states) and group.generation >= 0
        if commit and (is_member or not self._subscribes):
            await self._commits.commit_positions()
        if is_member and self._on_revoked is not None:
            await self._on_revoked(tuple(self._states))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(commit=kind is None)


open_consumer = Consumer.open
