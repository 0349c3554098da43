"""`pk console-consumer` (`consume`): records to standard output.

No group is joined unless -g asks for it: without one, and where -g only lends its commits to a position, partitions are read
by hand. A range ends by itself; without one the command goes on until it is interrupted.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import trio

from pk.cli.client_config import client_config
from pk.cli.commands.common import (
    check_partitions,
    existing_topics,
    partition_numbers,
    topic_names,
    whole,
)
from pk.cli.commands.reading import Part, RangeReader, Span, last_records, merged
from pk.cli.context import Context, count
from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.internal_topics import DECODED, decoded
from pk.cli.position import END, START, Anchor, Positions, everywhere
from pk.cli.progress import Progress
from pk.cli.record_source import Source
from pk.cli.records import RECORD_FIELDS, Writer, apache_writer, record_dict, writer
from pk.cli.resolve import now_ms, positions_option, resolve
from pk.cli.where import WhereError, parse_where
from pk.core.record.batch import Record
from pk.core.values import INTERNAL_TOPICS, TopicPartition
from pk.net.client.config import ConsumerConfig
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.errors import ClientError
from pk.net.client.results import IsolationLevel, OffsetAndMetadata

_TICK_MS = 100
"""How often a member looks whether it has reached the end."""

Filter = Callable[[Source, Record], bool]


class _Wish(NamedTuple):
    """What the command line asks for."""

    topics: tuple[str, ...]
    positions: Positions
    joins: bool
    reset: str
    """auto.offset.reset in a group."""


def _wish(context: Context) -> _Wish:
    """The options, checked against each other. Raises Unusable."""
    args = context.args
    topics = tuple(dict.fromkeys((*args.topic, *args.topics)))
    if bool(topics) == (args.include is not None):
        raise Unusable("Name topics, or give a regular expression with --include.")
    if args.offset is not None and args.from_beginning:
        raise Unusable("-o and --from-beginning do not go together.")
    if args.tail is not None and (args.offset is not None or args.from_beginning or args.group):
        raise Unusable("--tail says where to read; -o, --from-beginning and -g do not go with it.")
    positions = positions_option(args.offset, "-o") if args.offset is not None else None
    lends = positions is not None and positions.uses(Anchor.COMMITTED)
    joins = args.group is not None and not lends
    if joins:
        if positions is not None and positions not in (everywhere(START), everywhere(END)):
            raise Unusable(
                "In a group its commits say where to read; -o is then start or end, "
                "or committed, alone or in a range, to read from there without joining."
            )
        if args.partitions:
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
        raise Unusable("--merge wants a range that ends, such as -o @-1h..end.")
    return _Wish(topics, positions, joins, reset)


def _with_end(positions: Positions) -> Positions:
    """The positions with an end where they have none."""

    def ended(r: Any) -> Any:
        return r._replace(end=END) if r is not None and r.end is None else r

    return Positions(
        ended(positions.everywhere), {p: ended(r) for p, r in positions.by_partition.items()}
    )


def _filter(context: Context) -> Filter | None:
    """The test that records must pass; None where all do. Raises Unusable."""
    args = context.args
    tests: list[Filter] = []
    if args.key is not None:
        key = args.key.encode()
        tests.append(lambda s, r: r.key == key)
    for name, text in args.header:
        wanted = (name, text.encode())
        tests.append(lambda s, r, wanted=wanted: wanted in r.headers)
    if args.where is not None:
        try:
            holds = parse_where(args.where, RECORD_FIELDS)
        except WhereError as e:
            raise Unusable(f"{e}.") from None
        tests.append(lambda s, r: holds(record_dict(s, r)))
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda s, r: all(test(s, r) for test in tests)


def _writer(context: Context) -> Writer:
    args = context.args
    properties = list(args.formatter_properties)
    for option, name in (
        ("key_deserializer", "key.deserializer"),
        ("value_deserializer", "value.deserializer"),
    ):
        if getattr(args, option):
            properties.append((name, getattr(args, option)))
    if properties and args.format:
        raise Unusable("--property belongs to Apache's formatter; it does not go with -f.")
    if properties:
        return apache_writer(properties)
    streams = context.streams
    return writer(args.format or "value", terminal=streams.out_terminal, width=streams.width)


class Output:
    """Where records go: filtered, decoded, counted, cut at -n, written."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._writer = _writer(context)
        self._filter = _filter(context)
        self._decodes = not context.args.raw
        self._lenient: bool = context.args.skip_message_on_error
        self.left: int | None = context.args.num
        self.shown = 0
        self._write = context.streams.out.write
        self._flush = context.streams.out.flush
        self._write(self._writer.begin())
        self._flush()

    @property
    def full(self) -> bool:
        return self.left is not None and self.left <= 0

    def take(self, parts: Sequence[Part]) -> None:
        """Writes the records of `parts` that are wanted."""
        for source, found in parts:
            if self.full:
                break
            if self._decodes and source.topic in DECODED:
                found = decoded(source.topic, found)
            if self._filter is not None:
                test = self._filter
                found = [r for r in found if test(source, r)]
            if self.left is not None:
                found = found[: self.left]
                self.left -= len(found)
            if found:
                self.shown += len(found)
                self._write(self._format(source, found))
        self._flush()

    def _format(self, source: Source, found: Sequence[Record]) -> bytes:
        try:
            return self._writer.batch(source, found)
        except ValueError:
            return b"".join(self._single(source, record) for record in found)

    def _single(self, source: Source, record: Record) -> bytes:
        try:
            return self._writer.batch(source, (record,))
        except ValueError as e:
            where = f"{source.topic}/{source.partition} @ {record.offset}"
            if not self._lenient:
                raise CommandError(
                    f"{where} cannot be shown: {e}; --skip-message-on-error goes on."
                ) from None
            self._context.fail(e)
            self._context.say(f"{where} cannot be shown: {e}.")
            return b""

    def end(self) -> None:
        self._write(self._writer.end())
        self._flush()
        if self._context.streams.err_terminal:
            self._context.say(f"{count(self.shown, 'record')}.")


def _config(context: Context, wish: _Wish) -> dict[str, object]:
    args = context.args
    config = client_config(
        ConsumerConfig,
        context.settings,
        {
            "isolation.level": args.isolation_level,
            "auto.offset.reset": wish.reset if wish.joins else "earliest",
            "max.partition.fetch.bytes": str(4 << 20),
        },
    )
    if args.given("isolation_level"):
        config["isolation.level"] = args.isolation_level
    config["allow.auto.create.topics"] = "false"
    if wish.joins:
        config["group.id"] = args.group
    else:
        config.pop("group.id", None)
        config["enable.auto.commit"] = "false"
    return config


async def consume(context: Context) -> int | None:
    """`pk console-consumer`."""
    wish = _wish(context)
    context.about = ConsumerConfig
    output = Output(context)
    config = _config(context, wish)
    if wish.joins:
        timed_out = await _consume_in_group(context, wish, config, output)
    else:
        timed_out = await _consume_spans(context, wish, config, output)
    output.end()
    # Apache's tool ends well when nothing more comes; where a number was asked for, fewer are a failure.
    if timed_out and output.left:
        wanted = count(context.args.num, "record")
        raise CommandError(
            f"Of {wanted} only {output.shown:,} came in {context.args.timeout_ms} ms.",
            Exit.TIMED_OUT,
        )
    return None


async def _partitions(context: Context, wish: _Wish) -> list[TopicPartition]:
    """The partitions to read by hand. Raises CommandError where a topic or partition does not exist."""
    admin = await context.admin()
    names = list(wish.topics)
    if context.args.include is not None:
        pattern = whole(context.args.include, "--include")
        known = await topic_names(context, admin)
        names = [n for n in known if n not in INTERNAL_TOPICS and pattern.fullmatch(n)]
        if not names:
            raise CommandError(
                f"No topic's whole name matches {context.args.include!r}; `pk topics list` shows which there are."
            )
    topics = await existing_topics(context, admin, names)
    numbers = partition_numbers(context.args.partitions, "-p") or sorted(
        wish.positions.by_partition
    )
    return [
        tp
        for topic in topics
        for tp in check_partitions(topic, numbers or [p.partition for p in topic.partitions])
    ]


async def _spans(
    context: Context, wish: _Wish, isolation: IsolationLevel
) -> dict[TopicPartition, Span]:
    """What to read of each partition. Raises the first partition's failure."""
    partitions = await _partitions(context, wish)
    admin = await context.admin()
    committed = None
    if wish.positions.uses(Anchor.COMMITTED):
        if context.args.group is None:
            raise Unusable("The position `committed` wants a group: -g GROUP.")
        answers = await admin.list_group_offsets(context.args.group)
        committed = {tp: c.offset for tp, c in answers.items() if isinstance(c, OffsetAndMetadata)}
        context.say(f"Reading from the commits of group {context.args.group}, without joining it.")
    places = await resolve(admin, wish.positions, partitions, now_ms(), isolation, committed)
    spans = {}
    for tp, found in places.items():
        if isinstance(found, Exception):
            raise found
        spans[tp] = Span(found.begin, found.end)
    return spans


async def _consume_spans(
    context: Context, wish: _Wish, config: dict[str, object], output: Output
) -> bool:
    """Reads partitions by hand; whether --timeout-ms ended it."""
    args = context.args
    isolation = IsolationLevel[str(config["isolation.level"]).upper()]
    spans = await _spans(context, wish, isolation)
    async with open_consumer(context.settings.bootstrap, config) as consumer:
        if args.tail is not None:
            for source, record in await last_records(consumer, spans, args.tail):
                output.take([Part(source, (record,))])
            return False
        reader = RangeReader(consumer, spans)
        if args.merge:
            async with aclosing(merged(reader)) as parts:
                async for part in parts:
                    output.take([part])
                    if output.full:
                        break
            return False
        return await _read(context, reader, output)


async def _read(context: Context, reader: RangeReader, output: Output) -> bool:
    timeout_ms: int | None = context.args.timeout_ms
    last = trio.current_time()
    total = reader.total if reader.bounded else 0
    with Progress(context, "Reading", total) as progress:
        while reader.open and not output.full:
            parts = await reader.parts(timeout_ms)
            output.take(parts)
            if reader.bounded:
                progress.update(reader.done, f"{output.shown:,} shown")
            now = trio.current_time()
            if parts:
                last = now
            elif timeout_ms is not None and (now - last) * 1000 >= timeout_ms:
                return True
    return False


async def _consume_in_group(
    context: Context, wish: _Wish, config: dict[str, object], output: Output
) -> bool:
    """Reads as a member of a group; whether --timeout-ms ended it."""
    args = context.args
    if wish.topics:
        await existing_topics(context, await context.admin(), wish.topics)
    async with open_consumer(context.settings.bootstrap, config) as consumer:
        if args.include is not None:
            consumer.subscribe(pattern=whole(args.include, "--include"))
        else:
            consumer.subscribe(wish.topics)
        try:
            return await _poll_group(context, consumer, output)
        except (KeyboardInterrupt, trio.Cancelled):
            await _commit_shown(consumer)
            raise


async def _commit_shown(consumer: Consumer) -> None:
    """Commits what was shown before an interrupt: it need not be seen again."""
    if not consumer.config.enable_auto_commit:
        return
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
        try:
            await consumer.commit()
        except ClientError:
            return


def _at_end(consumer: Consumer) -> bool:
    """Whether this member has read all there is in the partitions it has."""
    assigned = consumer.assignment
    return bool(assigned) and all(consumer.lag(tp) == 0 for tp in assigned)


async def _poll_group(context: Context, consumer: Consumer, output: Output) -> bool:
    args = context.args
    last = trio.current_time()
    while not output.full:
        most = 5000 if output.left is None else min(output.left, 5000)
        wait = _TICK_MS if args.exit else args.timeout_ms
        found = await consumer.poll(timeout_ms=wait, records_max=most)
        now = trio.current_time()
        if found:
            last = now
        elif args.timeout_ms is not None and (now - last) * 1000 >= args.timeout_ms:
            return True
        elif args.exit and _at_end(consumer):
            return False
        output.take(
            [
                Part(
                    Source(r.topic, r.partition, max(r.timestamp_type, 0), r.leader_epoch),
                    (Record(r.offset, r.timestamp, r.key, r.value, r.headers),),
                )
                for r in found
            ]
        )
    return False
