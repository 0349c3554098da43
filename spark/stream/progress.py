"""Decides, on the driver, which offsets a stream's next batch reads.

Spark passes the end of the previous batch and gets the end of the next one. The brokers' logs may
no longer match the passed offset: a topic was deleted, or deleted and created again, or lost its
last records in an unclean election. These are errors that end the query, because records were lost;
with `failOnDataLoss=false` the query continues with the rest. Brokers that have just restarted may
not know a topic or its end for a moment, so a loss must be observed several times.
"""

from collections.abc import Mapping
from typing import Final

import trio

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import ZERO_UUID, TopicPartition, Uuid, uuid_text
from pk.net.client.cluster import Cluster
from pk.net.client.results import IsolationLevel
from pk.spark.errors import DataLost
from pk.spark.read.options import SourceOptions
from pk.spark.read.plan import bounds, whole
from pk.spark.read.ranges import OffsetRange, split
from pk.spark.stream.arrivals import Arrivals
from pk.spark.stream.limits import Delay, proportional_ends
from pk.spark.stream.offsets import StreamOffset

_READS: Final = 5
_READ_AGAIN_S: Final = 0.4


class Progress:
    """The progress of one query. Runs in the process's loop (pk.spark.connections)."""

    def __init__(self, cluster: Cluster, nursery: trio.Nursery, options: SourceOptions) -> None:
        self._options = options
        self._arrivals = Arrivals(cluster, nursery, options)
        self._delay = Delay(options.limits)
        self._begin: StreamOffset | None = None
        self._target: StreamOffset | None = None
        self._nothing_new_at: Mapping[TopicPartition, int] | None = None

    @property
    def latest(self) -> StreamOffset:
        """The end offsets of the partitions at the last request to the brokers."""
        return self._known()

    async def stop_at_latest(self) -> None:
        """Set the current end as the end of the query (the trigger AvailableNow). Raises
        KafkaError, ClientError."""
        await self._arrivals.look()
        self._target = self._known()

    async def next(self, start: StreamOffset, *, limited: bool) -> StreamOffset:
        """Determine the end of the batch that begins at `start`; `start` itself if there is nothing
        new.

        Without `limited` the batch has all new offsets. Waits briefly for something new. Raises
        DataLost, OptionError, KafkaError, ClientError.
        """
        if start.is_initial:
            return await self._first(limited=limited)
        if self._target is None and self._nothing_new_at == start.positions:
            await self._arrivals.wait()
        else:
            await self._arrivals.look()
        end = await self._end(start, limited=limited)
        nothing_new = end.positions == start.positions and end.ids == start.ids
        self._nothing_new_at = start.positions if nothing_new else None
        return start if nothing_new else end

    async def _first(self, *, limited: bool) -> StreamOffset:
        if self._begin is None:
            self._begin = await self._beginning()
        begin = self._begin
        if self._target is None:
            await self._arrivals.look()
        end = await self._end(begin, limited=limited)
        return StreamOffset(end.positions, end.ids, start=begin.positions)

    async def _beginning(self) -> StreamOffset:
        """Resolve the start of the query that the options name."""
        options, arrivals = self._options, self._arrivals
        if self._target is None:
            await arrivals.look()
        wanted = {*options.topics, *(tp.topic for tp in options.assigned)}
        for name in sorted(wanted - set(arrivals.ids)):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        ids = {tp: arrivals.ids[tp.topic] for tp in arrivals.ends}
        held = await whole(arrivals.admin, ids, options.read.isolation)
        begin = await bounds(arrivals.admin, "startingOffsets", options.begin, held, options)
        return StreamOffset(begin, self._known().ids)

    def _known(self) -> StreamOffset:
        """The end offsets that the brokers reported last."""
        arrivals = self._arrivals
        ids = {name: topic_id for name, topic_id in arrivals.ids.items() if topic_id != ZERO_UUID}
        return StreamOffset(dict(arrivals.ends), ids)

    async def _end(self, start: StreamOffset, *, limited: bool) -> StreamOffset:
        held = await self._held(start)
        for _ in range(_READS):
            if not losses_between(start, held):
                break
            await trio.sleep(_READ_AGAIN_S)
            await self._arrivals.look()
            held = await self._held(start)
        losses = losses_between(start, held)
        if losses and self._options.read.fail_on_data_loss:
            raise DataLost(f"{losses[0]}; failOnDataLoss=false continues with what remains")
        end = held if self._target is None else self._up_to_target(start, held, self._target)
        return self._limited(start, end) if limited else end

    async def _held(self, start: StreamOffset) -> StreamOffset:
        """The current end offsets. If the query used to read uncommitted records and has read a
        partition beyond its last stable offset, the end is the offset up to which it was read."""
        held = self._known()
        behind = {
            tp: held.ids.get(tp.topic, ZERO_UUID)
            for tp, position in start.positions.items()
            if held.positions.get(tp, position) < position
        }
        if not behind or not self._options.read.isolation:
            return held
        every = await whole(self._arrivals.admin, behind, IsolationLevel.READ_UNCOMMITTED)
        read = {tp: start.positions[tp] for tp, r in every.items() if start.positions[tp] <= r.end}
        return StreamOffset({**held.positions, **read}, held.ids)

    def _up_to_target(
        self, start: StreamOffset, held: StreamOffset, target: StreamOffset
    ) -> StreamOffset:
        ends = {
            tp: max(min(end, target.positions[tp]), start.positions.get(tp, 0))
            for tp, end in held.positions.items()
            if tp in target.positions and held.ids.get(tp.topic) == target.ids.get(tp.topic)
        }
        topics = {tp.topic for tp in ends}
        return StreamOffset(ends, {name: i for name, i in held.ids.items() if name in topics})

    def _limited(self, start: StreamOffset, end: StreamOffset) -> StreamOffset:
        limits = self._options.limits
        begin = {tp: begin_of(tp, start, end.ids) for tp in end.positions}
        if limits.offsets_min is not None and self._target is None:
            new = sum(max(end.positions[tp] - begin[tp], 0) for tp in begin)
            if self._delay.waits(new, trio.current_time() * 1000):
                return start
        if limits.offsets_max is None:
            return end
        return StreamOffset(proportional_ends(limits.offsets_max, begin, end.positions), end.ids)


def begin_of(tp: TopicPartition, start: StreamOffset, ids: Mapping[str, Uuid]) -> int:
    """The start of a batch in a partition: the end of the previous batch, or 0 in a new
    partition."""
    if start.ids.get(tp.topic, ZERO_UUID) != ids.get(tp.topic, ZERO_UUID):
        return 0
    return start.positions.get(tp, 0)


def losses_between(start: StreamOffset, held: StreamOffset) -> list[str]:
    """The losses of records since `start`, given the brokers' current end offsets, each as a
    sentence; empty if there are none."""
    found: list[str] = []
    for name, topic_id in start.ids.items():
        now = held.ids.get(name)
        if now not in (None, topic_id):
            found.append(
                f"topic {name} was deleted and created again: its id is now {uuid_text(now)},"
                f" no longer {uuid_text(topic_id)}"
            )
    for tp, position in sorted(start.positions.items()):
        end = held.positions.get(tp)
        if end is None:
            found.append(f"{tp} was read up to offset {position} and no longer exists")
        elif end < position and not found:
            found.append(f"{tp} was read up to offset {position}, but now ends at {end}")
    return found


def ranges_between(
    start: StreamOffset, end: StreamOffset, options: SourceOptions
) -> list[OffsetRange]:
    """The ranges that the tasks of a batch read."""
    if start.is_initial:
        start = StreamOffset(end.start or {}, end.ids)
    ranges: list[OffsetRange] = []
    for tp, stop in sorted(end.positions.items()):
        begin = begin_of(tp, start, end.ids)
        if begin < stop:
            topic_id = end.ids.get(tp.topic, ZERO_UUID)
            ranges.append(OffsetRange(tp.topic, tp.partition, begin, stop, topic_id))
    return split(ranges, min_ranges=options.min_ranges, offsets_max=options.offsets_max)
