"""`pk console-producer` (`produce`): records from lines, in bulk where a line is only a value."""

import os
import stat
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

import trio

from pk.cli.client_config import client_config
from pk.cli.commands.common import is_unknown, unknown_topic
from pk.cli.context import Context, count
from pk.cli.exits import CommandError, Unusable
from pk.cli.failures import exit_code, sentence
from pk.cli.record_input import BadLine, Headers, NewRecord, Reading, reading
from pk.cli.resolve import now_ms
from pk.cli.settings import read_properties
from pk.cli.times import time_ms
from pk.net.client.config import ProducerConfig
from pk.net.client.errors import BufferExhausted
from pk.net.client.producer import BatchDelivered, Producer, open_producer
from pk.net.client.results import TopicDescription

_CHUNK_BYTES = 1 << 20
_CONFIG_OPTIONS = {
    "compression": "compression.type",
    "acks": "acks",
    "batch_size": "batch.size",
    "message_send_max_retries": "retries",
    "retry_backoff_ms": "retry.backoff.ms",
    "linger_ms": "linger.ms",
    "request_timeout_ms": "request.timeout.ms",
    "max_block_ms": "max.block.ms",
    "max_memory_bytes": "buffer.memory",
    "max_partition_memory_bytes": "batch.size",
}
_DEFAULTS = {"max.block.ms": "15000", "batch.size": str(1 << 17), "linger.ms": "20"}
"""A person waits less long for a topic than a program; and batches may be large, since lines come in bulk."""


async def lines(context: Context) -> AsyncGenerator[list[bytes]]:
    """The input's lines, without their ends, as many at a time as are there."""
    path = context.args.file
    if path is not None and path != "-":
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    else:
        fd = os.dup(context.streams.stdin.fileno())
    try:
        wait = not stat.S_ISREG(os.fstat(fd).st_mode)
        prompt = context.streams.in_terminal and context.streams.err_terminal and path is None
        rest = b""
        while True:
            if prompt:
                context.streams.err.write(">")
                context.streams.err.flush()
            if wait:
                await trio.lowlevel.wait_readable(fd)
            data = os.read(fd, _CHUNK_BYTES)
            if not data:
                break
            *whole, rest = (rest + data).split(b"\n")
            if whole:
                yield whole
        if rest:
            yield [rest]
    finally:
        os.close(fd)


class _Tally:
    """What became of the records: told by the producer, batch by batch."""

    def __init__(self, context: Context, *, say_offsets: bool) -> None:
        self.delivered = 0
        self.lost = 0
        self.error: Exception | None = None
        self._context = context
        self._say = say_offsets

    def told(self, batch: BatchDelivered) -> None:
        if batch.error is not None:
            self.lost += batch.count
            self.error = self.error or batch.error
            return
        self.delivered += batch.count
        if self._say:
            last = batch.base_offset + batch.count - 1
            at = "?" if batch.base_offset < 0 else str(batch.base_offset)
            until = f"..{last}" if batch.count > 1 and batch.base_offset >= 0 else ""
            self._context.say(f"{batch.partition.topic}/{batch.partition.partition} @ {at}{until}")


def _headers(pairs: Iterable[tuple[str, str]]) -> Headers:
    return tuple((name, value.encode()) for name, value in pairs)


class _Plan:
    """What the options say of every record."""

    def __init__(self, context: Context) -> None:
        args = context.args
        properties = read_properties(args.reader_config) if args.reader_config else {}
        self.reading: Reading = reading(
            args.format, {**properties, **dict(args.reader_properties)}.items()
        )
        self.topic: str | None = args.topic
        self.key = None if args.key is None else args.key.encode()
        self.headers = _headers(args.header)
        self.partition: int | None = args.partitions
        self.keep_partition: bool = args.keep_partition
        self.tombstone: bool = args.tombstone
        self.timestamp: int | None = None
        if args.timestamp is not None:
            try:
                self.timestamp = time_ms(args.timestamp, now_ms())
            except ValueError as e:
                raise Unusable(f"--timestamp: {e}.") from None
        if self.topic is None and args.format != "jsonl" and "%t" not in (args.format or ""):
            raise Unusable("Name the topic: pk produce TOPIC.")
        if self.partition is not None and self.partition < 0:
            raise Unusable(f"-p wants a partition's number, not {self.partition}.")
        if self.partition is not None and self.keep_partition:
            raise Unusable("-p and --keep-partition do not go together.")

    @property
    def in_bulk(self) -> bool:
        """Whether lines go to the producer as they are."""
        return self.reading.plain and not self.headers

    def pairs(self, values: list[bytes]) -> list[tuple[bytes | None, bytes | None]]:
        key = self.key
        if self.tombstone:
            return [(key, value or None) for value in values]
        return [(key, value) for value in values]

    def record(self, line: bytes) -> NewRecord:
        """The record of a line, completed by the options. Raises BadLine."""
        found = self.reading.read(line)
        topic = self.topic or found.topic
        if topic is None:
            raise BadLine("it names no topic, and neither does the command line")
        value = None if self.tombstone and found.value == b"" else found.value
        return NewRecord(
            self.key if self.key is not None else found.key,
            value,
            (*found.headers, *self.headers),
            self.timestamp if self.timestamp is not None else found.timestamp,
            self.partition if not self.keep_partition else found.partition,
            topic,
        )


def _config(context: Context) -> dict[str, object]:
    given = {
        key: getattr(context.args, dest)
        for dest, key in _CONFIG_OPTIONS.items()
        if context.args.given(dest)
    }
    if "request.timeout.ms" in given or "linger.ms" in given:
        least = int(given.get("request.timeout.ms", 30_000)) + int(given.get("linger.ms", 20))
        given["delivery.timeout.ms"] = max(120_000, least)
    return client_config(ProducerConfig, context.settings, {**_DEFAULTS, **given})


async def produce(context: Context) -> None:
    """`pk console-producer`."""
    plan = _Plan(context)
    context.about = ProducerConfig
    if context.args.dry_run:
        await _dry_run(context, plan)
        return
    tally = _Tally(context, say_offsets=context.args.print_offsets)
    taken, wrong = 0, None
    try:
        async with open_producer(
            context.settings.bootstrap, _config(context), on_delivery=tally.told
        ) as producer:
            taken, wrong = await _send_all(context, plan, producer)
    except* BufferExhausted as group:
        raise await _explain(context, plan, group.exceptions[0]) from None
    if tally.error is not None:
        raise CommandError(
            f"{count(tally.lost, 'record')} of {taken:,} were not written: {sentence(tally.error)}",
            exit_code(tally.error),
        )
    if context.streams.err_terminal or context.args.print_offsets or wrong:
        context.say(f"{count(taken, 'record')} written.")
    if wrong is not None:
        raise CommandError(wrong)


async def _explain(context: Context, plan: _Plan, error: BaseException) -> BaseException:
    """The error to raise where the producer waited in vain: perhaps the topic does not exist."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if plan.topic is None:
        return error
    admin = await context.admin()
    described = (await admin.describe_topics([plan.topic]))[plan.topic]
    if is_unknown(described):
        unknown = await unknown_topic(context, admin, plan.topic)
        return CommandError(f"{unknown.said} `pk topics create {plan.topic}` makes it.")
    return error


async def _batches(context: Context) -> AsyncGenerator[list[bytes]]:
    """The lines to write, up to -n of them."""
    left: int | None = context.args.num
    if context.args.value:
        yield [os.fsencode(v) for v in context.args.value[:left]]
        return
    async with aclosing(lines(context)) as chunks:
        async for chunk in chunks:
            if left is not None:
                chunk = chunk[:left]
                left -= len(chunk)
            yield chunk
            if left == 0:
                return


async def _send_all(context: Context, plan: _Plan, producer: Producer) -> tuple[int, str | None]:
    """Sends the lines up to the first that is no record; how many, and what is wrong with that one."""
    taken = 0
    number = 0
    async with aclosing(_batches(context)) as batches:
        async for chunk in batches:
            if plan.in_bulk and not context.args.sync and plan.topic is not None:
                await producer.send_many(
                    plan.topic,
                    plan.pairs(chunk),
                    partition=plan.partition,
                    timestamp_ms=plan.timestamp,
                )
                taken += len(chunk)
                continue
            for line in chunk:
                number += 1
                try:
                    record = plan.record(line)
                except BadLine as e:
                    return taken, f"Line {number}: {e}."
                await _send(context, producer, record)
                taken += 1
    return taken, None


async def _send(context: Context, producer: Producer, record: NewRecord) -> None:
    assert record.topic is not None
    options: dict[str, Any] = {
        "key": record.key,
        "headers": record.headers,
        "partition": record.partition,
        "timestamp_ms": record.timestamp,
    }
    try:
        delivery = producer.send_nowait(record.topic, record.value, **options)
    except trio.WouldBlock:
        delivery = await producer.send(record.topic, record.value, **options)
    if context.args.sync:
        await delivery.wait()


async def _dry_run(context: Context, plan: _Plan) -> None:
    """Reads everything and says what would be written; neither writes nor makes a topic."""
    admin = await context.admin()
    taken, size = 0, 0
    topics: set[str] = set() if plan.topic is None else {plan.topic}
    async with aclosing(_batches(context)) as batches:
        async for chunk in batches:
            for line in chunk:
                taken += 1
                try:
                    record = plan.record(line)
                except BadLine as e:
                    raise CommandError(f"Line {taken}: {e}.") from None
                assert record.topic is not None
                topics.add(record.topic)
                size += len(record.key or b"") + len(record.value or b"")
    described = await admin.describe_topics(sorted(topics)) if topics else {}
    for name, answer in described.items():
        if is_unknown(answer):
            context.failed(await unknown_topic(context, admin, name), name)
        elif not isinstance(answer, TopicDescription):
            context.failed(answer, name)
    context.say(
        f"Would write {count(taken, 'record')}, {count(size, 'byte')}; nothing was written."
    )
