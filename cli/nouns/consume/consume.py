"""`pk console-consumer` (`consume`): records to standard output.

It joins a group only with -g. Without -g, or if -g only supplies the commits for a position, it reads the partitions
directly. A range ends by itself; otherwise the command runs until it is interrupted.
"""

import os
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import aclosing, suppress
from typing import Any, NamedTuple

import trio

from pk.cli.cluster.topics import (
    check_partitions,
    existing_topics,
    names_or_included,
    partition_numbers,
    whole,
)
from pk.cli.nouns.consume.consumer_config import consumer_config
from pk.cli.positions.grammar import END, START, Anchor, Positions, everywhere
from pk.cli.positions.lookup import check_group, resolve_positions, say_uncommitted
from pk.cli.positions.resolve import positions_option
from pk.cli.records.idle_reason import Silence, leaderless, named
from pk.cli.records.output import Output
from pk.cli.records.permalinks import SCHEME, profile_of
from pk.cli.records.range_reader import Part, RangeReader, Span, last_records, merged, part_of
from pk.cli.records.source import Source
from pk.cli.runtime.context import Context, count, join
from pk.cli.runtime.exits import CommandError, Exit, Unusable
from pk.cli.terminal.progress import Progress
from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import Record
from pk.core.values import TopicPartition
from pk.net.client.config import ConsumerConfig, parse
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.errors import ClientError
from pk.net.client.partitioner import partition_for_key
from pk.net.client.results import IsolationLevel, ListedOffset

_TICK_MS = 100
"""How often a member checks whether it has reached the end."""

_IDLE_POLL_MS = 1000
"""How long a member polls if it need not stop at the end."""

_NEW_PARTITIONS_S = 5.0
"""How often a reader without a group checks for new partitions; a member learns of them with its metadata."""

_LEADERS_S = 1.0
"""How often it checks whether partitions without a leader have one."""


class _Request(NamedTuple):
    """What to read, as the command line says."""

    topics: tuple[str, ...]
    positions: Positions
    joins: bool
    """Whether to read as a member of the group."""

    reset: str
    """auto.offset.reset in a group."""


def _request(context: Context) -> _Request:
    """Checks the options against each other. Raises Unusable."""
    args = context.args
    topics = tuple(dict.fromkeys((*args.topic, *args.topics)))
    if any(word.startswith(SCHEME) for word in topics):
        raise Unusable("Give either permalinks or topics: a link names its topic.")
    if bool(topics) == (args.include is not None):
        raise Unusable("Name topics, or give a regular expression with --include.")
    if args.offset is not None and args.from_beginning:
        raise Unusable("-o and --from-beginning do not go together.")
    if args.tail is not None and (args.offset is not None or args.from_beginning or args.group):
        raise Unusable("--tail says where to read; -o, --from-beginning and -g do not go with it.")
    if args.follow and (args.tail is None or args.exit):
        raise Unusable(
            "--follow continues after --tail, and -e stops there. Without them reading continues."
        )
    if args.key_partition and args.key is None:
        raise Unusable("--key-partition needs a key: -k KEY.")
    positions = positions_option(args.offset, "-o") if args.offset is not None else None
    lends = positions is not None and positions.uses(Anchor.COMMITTED)
    joins = args.group is not None and not lends
    if joins:
        if positions is not None and positions not in (everywhere(START), everywhere(END)):
            raise Unusable(
                "A group continues from its commits: with -g, -o is start or end, for partitions without a commit, and "
                "-e stops at the end. `pk groups reset-offsets` moves commits; -o committed..end reads from them "
                "without joining."
            )
        if args.partitions or args.key_partition:
            raise Unusable("A group assigns the partitions; -p does not go with -g.")
        if args.merge:
            raise Unusable("--merge does not go with -g.")
    if positions is None:
        begin = START if args.from_beginning or args.exit or args.tail else END
        positions = everywhere(begin, END if args.exit or args.tail else None)
    elif args.exit:
        positions = _with_end(positions)
    reset = "earliest" if positions.ranges[0].begin == START else "latest"
    if args.merge and not positions.bounded:
        raise Unusable("--merge needs a range that ends, such as -o @-1h..end.")
    return _Request(topics, positions, joins, reset)


def _with_end(positions: Positions) -> Positions:
    """The positions, with the partition's end for ranges that have none."""

    def ended(r: Any) -> Any:
        return r._replace(end=END) if r is not None and r.end is None else r

    return Positions(
        ended(positions.everywhere), {p: ended(r) for p, r in positions.by_partition.items()}
    )


async def consume(context: Context) -> int | None:
    """`pk console-consumer`."""
    if any(word.startswith(SCHEME) for word in context.args.topic):
        from pk.cli.nouns.consume.permalinks import consume_links

        return await consume_links(context)
    request = _request(context)
    context.about = ConsumerConfig
    output = Output(context)
    config = consumer_config(context, request.reset if request.joins else None)
    try:
        if request.joins:
            timed_out = await _consume_in_group(context, request, config, output)
        else:
            timed_out = await _consume_spans(context, request, config, output)
    except BaseException:
        # BaseException: an interrupt in one of the client's tasks arrives as an exception group.
        with suppress(OSError):
            output.break_off()
        raise
    output.end()
    # As Apache's tool, a timeout is a success, unless -n asked for more records than came.
    if timed_out and output.left:
        wanted = count(context.args.num, "record")
        raise CommandError(
            f"Timed out after {context.args.timeout_ms} ms with {output.shown:,} of {wanted}.",
            Exit.TIMED_OUT,
        )
    return None


class Leadership(NamedTuple):
    """Whether a partition has a leader, and its last leader's epoch."""

    led: bool
    epoch: int = -1


async def _partitions(context: Context, request: _Request) -> dict[TopicPartition, Leadership]:
    """The partitions to read without a group, and their leadership. Raises CommandError for a topic or partition that does
    not exist."""
    admin = await context.admin()
    names = await names_or_included(context, admin, request.topics)
    topics = await existing_topics(context, admin, names)
    if context.args.key_partition:
        key = os.fsencode(context.args.key)
        wanted = [TopicPartition(t.name, partition_for_key(key, len(t.partitions))) for t in topics]
    else:
        numbers = partition_numbers(context.args.partitions, "-p") or sorted(
            request.positions.by_partition
        )
        wanted = [
            tp
            for topic in topics
            for tp in check_partitions(topic, numbers or [p.partition for p in topic.partitions])
        ]
    leads = {
        TopicPartition(t.name, p.partition): Leadership(p.leader_id >= 0, p.leader_epoch)
        for t in topics
        for p in t.partitions
    }
    return {tp: leads[tp] for tp in wanted}


def without_leaderless(
    context: Context, found: Mapping[TopicPartition, Leadership], *, endless: bool
) -> list[TopicPartition]:
    """The partitions to begin with: those that have a leader. Prints what happens to the others.

    Reading without end adds them as soon as they have a leader. A range skips them, which fails the command, but waits if
    none has a leader.
    """
    dead = [tp for tp, lead in found.items() if not lead.led]
    if not dead:
        return list(found)
    all_dead = len(dead) == len(found)
    then = "not read"
    if endless or all_dead:
        then = "read when there is one" if endless else "waiting for one"
    context.say(leaderless(dead, then))
    if all_dead and not endless:
        return dead
    if not endless:
        context.fail(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
    return [tp for tp, lead in found.items() if lead.led]


async def spans_of(
    context: Context,
    request: _Request,
    isolation: IsolationLevel,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, Span]:
    """The offsets to read of each partition. Raises the first partition's error."""
    admin = await context.admin()
    if request.positions.uses(Anchor.COMMITTED):
        check_group(context, request.positions)
    ranges = await resolve_positions(context, admin, request.positions, partitions, isolation)
    if request.positions.uses(Anchor.COMMITTED):
        context.say(f"Reading from the commits of group {context.args.group}, without joining it.")
    say_uncommitted(context, ranges)
    spans = {}
    moved: dict[str, list[TopicPartition]] = {}
    for tp, found in ranges.items():
        if isinstance(found, Exception):
            raise found
        spans[tp] = Span(found.begin, found.end)
        # These notes are expected, or have been printed already.
        if not found.note.startswith(("nothing after", "0 is before", "no commit", "ends at")):
            moved.setdefault(found.note, []).append(tp)
    moved.pop("", None)
    for note, where in moved.items():
        context.say(f"{named(where)}: {note}.")
    return spans


async def _consume_spans(
    context: Context, request: _Request, config: dict[str, object], output: Output
) -> bool:
    """Reads partitions without a group; returns whether --timeout-ms ended it."""
    args = context.args
    isolation = IsolationLevel[parse(ConsumerConfig, config).isolation_level.upper()]
    known = await _partitions(context, request)
    endless = bool(args.follow) or not request.positions.bounded
    readable = without_leaderless(context, known, endless=endless)
    spans = await spans_of(context, request, isolation, readable)
    async with open_consumer(context.settings.bootstrap, config) as consumer:
        profile = profile_of(context.settings)
        if args.tail is not None:
            last = await last_records(consumer, spans, args.tail, output.wanted, profile)
            for source, record in last:
                output.put(source, (record,))
            context.streams.out.flush()
            if not args.follow:
                return False
            spans = {tp: Span(span.end or 0, None) for tp, span in spans.items()}
        reader = RangeReader(consumer, spans, profile)
        _say_waiting(context, reader)
        if args.merge:
            return await _read_merged(context, reader, output)
        waiting = {tp: lead.epoch for tp, lead in known.items() if tp not in spans}
        later = _LaterPartitions(context, request, reader, isolation, waiting if endless else {})
        return await _read(context, reader, output, later)


class _LaterPartitions:
    """Partitions to add while reading without end: those that had no leader, from where they would have been read, and
    new partitions (with --include also new topics), from their start. A member of a group gets them by assignment."""

    def __init__(
        self,
        context: Context,
        request: _Request,
        reader: RangeReader,
        isolation: IsolationLevel,
        waiting: dict[TopicPartition, int],
    ) -> None:
        args = context.args
        some = args.partitions or args.key_partition or request.positions.by_partition
        self._context, self._request, self._reader = context, request, reader
        self._isolation = isolation
        self._takes_new = not some and not reader.bounded
        self._known = set(reader.spans)
        self.waiting = waiting
        """The partitions without a leader, and their last leader's epoch."""

        self._due = trio.current_time() + self._every_s

    @property
    def _every_s(self) -> float:
        return _LEADERS_S if self.waiting else _NEW_PARTITIONS_S

    async def check(self) -> None:
        """Adds what has appeared. Call it often: it asks the cluster only when that is due."""
        now = trio.current_time()
        if now < self._due or not (self.waiting or self._takes_new):
            return
        try:
            found = await _partitions(self._context, self._request)
            await self._take_led([tp for tp in self.waiting if tp in found and found[tp].led])
        except (ClientError, CommandError, KafkaError):
            found = {}  # the reader reports a topic that was deleted
        if self._takes_new:
            self._take_new(found)
        self._due = now + self._every_s

    async def _take_led(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        spans = await self._spans(partitions)
        for tp in partitions:
            del self.waiting[tp]
        self._known.update(partitions)
        self._reader.add(spans)
        have = "has" if len(partitions) == 1 else "have"
        self._context.say(f"{named(partitions)} {have} a leader now.")

    async def _spans(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Span]:
        """The offsets to read. Where the position is the end, that is the end from before the leader was lost, not the
        new leader's end by now."""
        spans = await spans_of(self._context, self._request, self._isolation, partitions)
        back: dict[TopicPartition, int] = {}
        for tp, span in spans.items():
            asked = self._request.positions.of(tp.partition)
            if self._context.args.follow:
                spans[tp], back[tp] = Span(span.end or 0, None), 0
            elif asked is not None and asked.begin.anchor is Anchor.END:
                back[tp] = asked.begin.value
        admin = await self._context.admin()
        ends = await admin.offsets_for_leader_epochs({tp: self.waiting[tp] for tp in back})
        for tp, end in ends.items():
            if not isinstance(end, Exception) and end.end_offset >= 0:
                spans[tp] = spans[tp]._replace(begin=max(end.end_offset + back[tp], 0))
        return spans

    def _take_new(self, found: Iterable[TopicPartition]) -> None:
        new = [tp for tp in found if tp not in self._known and tp not in self.waiting]
        if new:
            self._known.update(new)
            self._reader.add({tp: Span(0, None) for tp in new})
            self._context.say(f"New, reading from the start: {named(new)}.")


def _say_waiting(context: Context, reader: RangeReader) -> None:
    """Tells a user who gave no position what the command is waiting for."""
    args = context.args
    if not context.streams.err_terminal or args.offset or args.from_beginning or reader.bounded:
        return
    topics = join(sorted({tp.topic for tp in reader.spans}), 3)
    context.say(f"Waiting for new records of {topics}; -o start shows all. Ctrl-C stops.")


def _timeout_ms(context: Context) -> int | None:
    """How long to wait for a record; None for ever. As in Apache's tool, a negative value means for ever."""
    timeout_ms: int | None = context.args.timeout_ms
    return None if timeout_ms is None or timeout_ms < 0 else timeout_ms


async def _read(
    context: Context, reader: RangeReader, output: Output, later: _LaterPartitions
) -> bool:
    timeout_ms = _timeout_ms(context)
    last = trio.current_time()
    silence = Silence(context, reader.consumer)
    with _progress(context, reader, output) as progress:
        while (reader.open or later.waiting) and not output.full:
            parts = await reader.parts(timeout_ms)
            output.take(parts)
            _tell(progress, reader, output)
            await silence.look(bool(parts))
            await later.check()
            now = trio.current_time()
            if parts:
                last = now
            elif timeout_ms is not None and (now - last) * 1000 >= timeout_ms:
                if later.waiting:
                    context.fail(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
                return True
    return False


async def _read_merged(context: Context, reader: RangeReader, output: Output) -> bool:
    silence = Silence(context, reader.consumer)
    with _progress(context, reader, output) as progress:
        async with aclosing(merged(reader)) as rounds:
            async for parts in rounds:
                output.take(parts)
                await silence.look(bool(parts))
                _tell(progress, reader, output)
                if output.full:
                    break
    return False


def _progress(context: Context, reader: RangeReader, output: Output) -> Progress:
    total = reader.total if reader.bounded else 0
    progress = Progress(context, "Reading", total, unit="offsets", over_output=True)
    output.before_write = progress.hide
    return progress


def _tell(progress: Progress, reader: RangeReader, output: Output) -> None:
    if reader.bounded and not output.mid_line:
        progress.update(reader.done, f"{output.shown:,} shown", bytes_done=reader.bytes_read)


async def _consume_in_group(
    context: Context, request: _Request, config: dict[str, object], output: Output
) -> bool:
    """Reads as a member of a group; returns whether --timeout-ms ended it."""
    args = context.args
    if request.topics:
        admin = await context.admin()
        names = await names_or_included(context, admin, request.topics)
        await existing_topics(context, admin, names)
    async with open_consumer(context.settings.bootstrap, config) as consumer:
        if args.include is not None:
            consumer.subscribe(pattern=whole(args.include, "--include"))
        else:
            consumer.subscribe(request.topics)
        shown: dict[TopicPartition, int] = {}
        try:
            return await _poll_group(context, consumer, output, shown)
        except (KeyboardInterrupt, trio.Cancelled):
            await _commit_shown(consumer, shown)
            raise


async def _commit_shown(consumer: Consumer, shown: Mapping[TopicPartition, int]) -> None:
    """Commits the offsets of what was shown before an interrupt, so that it is not shown again.

    Does not commit the consumer's positions: an interrupt may come while polled records are being written.
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
    """The end of each of this member's partitions at assignment, and whether all are read up to it."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._ends: dict[TopicPartition, int] = {}

    async def reached(self, dead: AbstractSet[TopicPartition]) -> bool:
        """Whether all partitions are read up to their end, except `dead`, which have no leader."""
        consumer = self._consumer
        assigned = consumer.assignment - dead
        leader = consumer.cluster.metadata.leader
        new = [tp for tp in assigned if tp not in self._ends]
        if any(leader(tp)[0] < 0 for tp in new):
            return False
        if new:
            for tp, end in (await consumer.end_offsets(new)).items():
                if not isinstance(end, ListedOffset):
                    raise end
                self._ends[tp] = end.offset
        positions = {tp: consumer.position_nowait(tp) for tp in assigned & consumer.assignment}
        return bool(positions) and all(
            p is not None and p >= self._ends[tp] for tp, p in positions.items()
        )


async def _poll_group(
    context: Context, consumer: Consumer, output: Output, shown: dict[TopicPartition, int]
) -> bool:
    """Shows the records of assigned partitions; returns whether --timeout-ms ended it. Keeps in `shown` the next offset
    of each partition."""
    args, timeout_ms = context.args, _timeout_ms(context)
    last = trio.current_time()
    ends, silence = _Ends(consumer), Silence(context, consumer)
    while not output.full:
        wait = _TICK_MS if args.exit else min(timeout_ms or _IDLE_POLL_MS, _IDLE_POLL_MS)
        parts = await _polled(consumer, output.left, wait, profile_of(context.settings))
        output.take(parts)
        positions = {tp: consumer.position_nowait(tp) for tp in consumer.assignment}
        shown |= {tp: position for tp, position in positions.items() if position is not None}
        await silence.look(bool(parts))
        now = trio.current_time()
        if parts:
            last = now
        elif timeout_ms is not None and (now - last) * 1000 >= timeout_ms:
            return True
        if args.exit and await ends.reached(silence.leaderless):
            if silence.leaderless & consumer.assignment:
                context.fail(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE))
            return False
    return False


async def _polled(
    consumer: Consumer, left: int | None, wait_ms: float | None, profile: str | None
) -> list[Part]:
    """A member's next records: whole batches, or with -n only as many as are left, since polling marks them as read."""
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
