"""The progress of a reassignment: bytes left, rate, time left, stalled moves. Pure, except for
`poll`.

Kafka has no API for the progress of a move. It does report which partitions are being moved
(ListPartitionReassignments), which replicas are in sync (DescribeTopicPartitions), and how large
each replica is (DescribeLogDirs). The progress of a replica is its size divided by its leader's. It
is complete once it is in the ISR: compaction may keep it smaller forever.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import trio

from pk.cli.cluster.reassignment_row import ReassignmentRow
from pk.cli.cluster.replicas import Replicas, sizes_by_replica
from pk.cli.output.amounts import show_bytes, show_rate
from pk.cli.positions.times import show_span
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers

STALL_S = 15.0
"""A moving partition that has not grown for this long is marked as stalled."""
_WINDOW_S = 10.0
"""The rate is measured over this many seconds."""
_ASK_S = 10.0


class Seen(NamedTuple):
    """The state of all moves at one moment."""

    running: Mapping[TopicPartition, r.Reassignment]
    partitions: Mapping[TopicPartition, r.PartitionDescription]
    sizes: Mapping[tuple[TopicPartition, int], int]
    """(partition, broker) → bytes."""


async def poll(
    admin: Admin,
    wanted: Iterable[TopicPartition] | None,
    *,
    before: Iterable[TopicPartition] = (),
) -> Seen:
    """Request which of the `wanted` partitions (None: all) are being moved, and their progress.

    Also requests the replicas of those that moved `before`: a move that has ended may have been
    cancelled. Raises KafkaError, ClientError.
    """
    asked = None if wanted is None else list(wanted)
    running = await admin.list_reassignments(asked)
    moving = sorted(running)
    topics = {tp.topic for tp in (*moving, *before)}
    described: dict[TopicPartition, r.PartitionDescription] = {}
    dirs: Answers[int, tuple[r.LogDirDescription, ...]] = Answers()

    async def ask_partitions() -> None:
        answers = await admin.describe_topics(topics)
        described.update(
            (TopicPartition(t.name, p.partition), p)
            for t in answers.ok.values()
            for p in t.partitions
        )

    async def ask_sizes() -> None:
        brokers = {b for m in running.values() for b in m.replicas}
        if not brokers:
            return
        with trio.move_on_after(_ASK_S):
            dirs.update(await admin.describe_log_dirs(sorted(brokers), moving))

    if topics:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_partitions)
            nursery.start_soon(ask_sizes)
    return Seen(running, described, sizes_by_replica(dirs))


class Row(NamedTuple):
    """The progress of one partition."""

    tp: TopicPartition
    adding: Replicas
    removing: Replicas
    replicas: Replicas
    copied: int | None
    total: int | None
    """Bytes; None if unknown."""

    done: bool
    """Whether the move has ended."""

    stalled_s: float
    """How long the replicas have not grown; 0 while they grow, for a pause shorter than `STALL_S`,
    and if the move has ended."""

    cancelled: bool = False
    """Whether the move ended with the old replicas; then none of its bytes count as copied."""

    @property
    def part(self) -> float | None:
        """The fraction that is copied, 0 to 1; None if unknown."""
        if self.done:
            return 0.0 if self.cancelled else 1.0
        if self.copied is None or self.total is None:
            return None
        return min(self.copied / self.total, 1.0) if self.total else 0.0


class Whole(NamedTuple):
    """The progress of all moves together."""

    partitions: int
    done: int
    copied: int
    total: int
    rate: float
    """The current rate, in bytes per second."""

    eta_s: float | None
    """None while nothing moves, or if unknown."""

    stalled: int
    cancelled: int = 0

    @property
    def left(self) -> int:
        """The partitions that are still moving."""
        return self.partitions - self.done - self.cancelled

    @property
    def part(self) -> float:
        if self.total:
            return min(self.copied / self.total, 1.0)
        return self.done / self.partitions if self.partitions else 1.0


class Tracker:
    """Computes progress from several polls. Time, in seconds, is an argument."""

    def __init__(self) -> None:
        self._rows: dict[TopicPartition, Row] = {}
        self._grew: dict[TopicPartition, float] = {}
        self._samples: deque[tuple[float, int]] = deque()

    def see(self, seen: Seen, now: float) -> None:
        """Process the result of a poll."""
        for tp, move in seen.running.items():
            self._rows[tp] = self._row(tp, move, seen, now)
        for tp, row in self._rows.items():
            if tp not in seen.running and not row.done:
                cancelled = _was_cancelled(row, seen.partitions.get(tp))
                copied, total = (0, 0) if cancelled else (row.total, row.total)
                self._rows[tp] = row._replace(
                    done=True, copied=copied, total=total, stalled_s=0.0, cancelled=cancelled
                )
        copied = sum(row.copied or 0 for row in self._rows.values())
        # The first poll of a partition gives no rate: the existing bytes were not copied just now.
        self._samples.append((now, copied))
        while now - self._samples[0][0] > _WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()

    def _row(self, tp: TopicPartition, move: r.Reassignment, seen: Seen, now: float) -> Row:
        p = seen.partitions.get(tp)
        before = self._rows.get(tp)
        total = copied = None
        size = seen.sizes.get((tp, p.leader_id)) if p is not None else None
        if p is not None and size is not None:
            total = size * len(move.adding_replicas)
            copied = sum(
                size if b in p.isr else min(seen.sizes.get((tp, b), 0), size)
                for b in move.adding_replicas
            )
        if before is None or (copied is not None and copied != before.copied):
            self._grew[tp] = now
        still = now - self._grew.get(tp, now)
        return Row(
            tp,
            move.adding_replicas,
            move.removing_replicas,
            move.replicas,
            copied,
            total,
            False,
            still if still >= STALL_S else 0.0,
        )

    @property
    def unfinished(self) -> list[TopicPartition]:
        """The partitions that were moving at the last poll."""
        return [tp for tp, row in self._rows.items() if not row.done]

    @property
    def rows(self) -> list[Row]:
        """Every partition that has moved in any poll, in order."""
        return [self._rows[tp] for tp in sorted(self._rows)]

    @property
    def whole_or_none(self) -> Whole | None:
        """The same as `whole`; None before the first poll."""
        return self.whole if self._samples else None

    @property
    def whole(self) -> Whole:
        rows = self._rows.values()
        total = sum(row.total or 0 for row in rows)
        copied = sum(row.copied or 0 for row in rows)
        (first, was), (last, now) = self._samples[0], self._samples[-1]
        rate = max(now - was, 0) / (last - first) if last > first else 0.0
        left = total - copied
        return Whole(
            len(rows),
            sum(row.done and not row.cancelled for row in rows),
            copied,
            total,
            rate,
            left / rate if rate and left else (0.0 if not left and total else None),
            sum(row.stalled_s > 0 for row in rows),
            sum(row.cancelled for row in rows),
        )


def _was_cancelled(row: Row, now: r.PartitionDescription | None) -> bool:
    """Whether a partition that no longer moves does not have its new replicas."""
    return now is not None and not set(row.adding) <= set(now.replicas)


def sentence(whole: Whole, rate_limit: int | None = None) -> str:
    """`12 of 50 partitions · 3.1 of 8.4 GB · 37% · 41.0 MB/s · 2 min left · 1 stalled · throttle
    50.0 MB/s`."""
    from pk.cli.positions.times import show_span

    parts = [
        f"{whole.done} of {whole.partitions} partitions",
        f"{show_bytes(whole.copied)} of {show_bytes(whole.total)}",
        f"{whole.part:.0%}",
    ]
    if whole.rate:
        parts.append(show_rate(whole.rate, "bytes"))
    if whole.eta_s and whole.eta_s >= 1:
        parts.append(f"{show_span(whole.eta_s * 1000)} left")
    if whole.cancelled:
        parts.append(f"{whole.cancelled} cancelled")
    if whole.stalled:
        parts.append(f"{whole.stalled} stalled")
    if rate_limit is not None:
        parts.append(f"throttle {show_rate(rate_limit, 'bytes')}")
    return " · ".join(parts)


def first_lines(rows: Iterable[Row], count: int) -> list[Row]:
    """The partitions to show if there is space for `count`: stalled ones first, then moving ones,
    then waiting ones."""

    def order(row: Row) -> tuple[object, ...]:
        return (row.done, -row.stalled_s, not row.copied, -(row.part or 0.0), row.tp)

    return sorted((row for row in rows if not row.done), key=order)[:count]


def status_row(row: Row) -> ReassignmentRow:
    """A row of `pk reassign status`."""
    part = row.part
    return {
        "topic": row.tp.topic,
        "partition": row.tp.partition,
        "replicas": [b for b in row.replicas if b not in row.adding],
        "adding": list(row.adding),
        "removing": list(row.removing),
        "copied": row.copied,
        "total": row.total,
        "percent": None if part is None else round(part * 100, 1),
        "note": f"stalled {show_span(row.stalled_s * 1000)}" if row.stalled_s else None,
    }
