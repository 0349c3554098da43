"""`pk consume -g GROUP`: reads as a member of a group."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import trio

from pk.cli.cluster.topics import existing_topics, names_or_included, whole
from pk.cli.nouns.consume.request import Request
from pk.cli.records.idle_reason import Silence
from pk.cli.records.output import CannotShow, Output
from pk.cli.records.permalinks import profile_of
from pk.cli.records.range_reader import Part, part_of
from pk.cli.records.source import Source
from pk.cli.runtime.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import Record
from pk.core.values import TopicPartition
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.errors import ClientError

_TICK_MS = 100
"""How often to check whether the end is reached."""

_IDLE_POLL_MS = 1000
"""How long to poll if the command does not stop at the end."""


async def consume_in_group(
    context: Context, request: Request, config: dict[str, object], output: Output
) -> bool:
    """Read as a member of a group. Returns whether --timeout-ms ended it."""
    include = request.options.include
    if request.topics:
        admin = await context.admin()
        names = await names_or_included(context, admin, request.topics, include)
        await existing_topics(context, admin, names)
    async with open_consumer(context.settings.bootstrap, config) as consumer:
        if include is not None:
            consumer.subscribe(pattern=whole(include, "--include"))
        else:
            consumer.subscribe(request.topics)
        shown: dict[TopicPartition, int] = {}
        try:
            return await _poll_group(context, request, consumer, output, shown)
        except BaseException as error:
            if isinstance(error, CannotShow):
                shown[error.partition] = error.offset
            await _commit_shown(consumer, shown)
            raise


async def _commit_shown(consumer: Consumer, shown: Mapping[TopicPartition, int]) -> None:
    """Commit, after an interrupt or an error, the offsets of the records shown until then, so that
    they are not shown again.

    Does not commit the consumer's positions: they are after the polled records, of which some may
    not have been written yet.
    """
    ours = {tp: offset for tp, offset in shown.items() if tp in consumer.assignment}
    if not ours or not consumer.config.enable_auto_commit:
        return
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
        try:
            await consumer.commit(ours)
        except (ClientError, KafkaError):
            return


class _Ends:
    """The log ends of this member's partitions when they were assigned, and whether all are read up
    to them."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}

    async def reached(self, dead: AbstractSet[TopicPartition]) -> bool:
        """Whether all partitions, except the `dead` ones without a leader, are read up to their
        end."""
        consumer = self._consumer
        assigned = consumer.assignment - dead
        leader = consumer.cluster.metadata.leader
        new = [tp for tp in assigned if tp not in self._ends]
        if any(leader(tp)[0] < 0 for tp in new):
            return False
        if new:
            ends = await consumer.end_offsets(new)
            self._ends |= {tp: ends.value(tp).offset for tp in ends}
        positions = {tp: consumer.position_nowait(tp) for tp in assigned & consumer.assignment}
        return bool(positions) and all(
            p is not None and p >= self._ends[tp] for tp, p in positions.items()
        )


async def _poll_group(
    context: Context,
    request: Request,
    consumer: Consumer,
    output: Output,
    shown: dict[TopicPartition, int],
) -> bool:
    """Show the records of assigned partitions. Returns whether --timeout-ms ended it. Keeps the
    next offset of each partition in `shown`."""
    to_end, timeout_ms = request.options.exit, request.timeout_ms
    last = trio.current_time()
    ends, silence = _Ends(consumer), Silence(context, consumer)
    while not output.full:
        wait = _TICK_MS if to_end else min(timeout_ms or _IDLE_POLL_MS, _IDLE_POLL_MS)
        parts = await _polled(consumer, output.left, wait, profile_of(context.settings))
        output.take(_noted(parts, shown))
        positions = {tp: consumer.position_nowait(tp) for tp in consumer.assignment}
        shown |= {tp: position for tp, position in positions.items() if position is not None}
        await silence.look(bool(parts))
        now = trio.current_time()
        if parts:
            last = now
        elif timeout_ms is not None and (now - last) * 1000 >= timeout_ms:
            return True
        if to_end and await ends.reached(silence.leaderless):
            if silence.leaderless & consumer.assignment:
                context.fail(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
            return False
    return False


def _noted(parts: Iterable[Part], shown: dict[TopicPartition, int]) -> Iterator[Part]:
    """Yield `parts`. When the next part is requested, the offset after the previous one is in
    `shown`."""
    for part in parts:
        yield part
        shown[TopicPartition(part.source.topic, part.source.partition)] = part.next_offset


async def _polled(
    consumer: Consumer, left: int | None, wait_ms: float | None, profile: str | None
) -> list[Part]:
    """A member's next records: whole batches or, with -n, only as many records as are left, since
    polling marks them as read."""
    if left is None:
        batches = await consumer.poll_batches(timeout_ms=wait_ms)
        return [part for batch in batches if (part := part_of(batch, profile=profile))]
    found = await consumer.poll(timeout_ms=wait_ms, records_max=min(left, 5000))
    return [
        Part(
            Source(r.topic, r.partition, max(r.timestamp_type, 0), r.leader_epoch, profile),
            (Record(r.offset, r.timestamp, r.key, r.value, r.headers),),
        )
        for r in found
    ]
