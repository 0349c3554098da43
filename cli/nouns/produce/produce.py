"""`pk produce`: writes a record for each line, in bulk if a line has only a key and a value.

At a terminal, the command is an editor (`editor`); with --fake, it makes the records itself.
Everything else is a stream: the available input is read in large blocks and passed to the producer
immediately, so a pause in the input delays nothing. The first line that is not a record ends it,
after the lines before have been sent.
"""

import errno
import os
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

import trio

from pk.cli.cluster.topics import is_unknown, unknown_topic
from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.nouns.produce.plan import (
    Pace,
    Plan,
    Tally,
    make_topic,
    producer_config,
)
from pk.cli.phrases import count
from pk.cli.records.csv import BadCsv, CsvRows
from pk.cli.records.json_text import BadDocument, Documents
from pk.cli.records.readers import BadLine, NewRecord, Pair
from pk.cli.records.transactions import Transactions
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import exit_code, sentence
from pk.cli.terminal.signals import listen_for_interrupts
from pk.core.errors import KafkaError
from pk.net.client.accumulator import Row
from pk.net.client.config import ProducerConfig
from pk.net.client.errors import BufferExhausted, ClientError, TransactionOutcomeUnknown
from pk.net.client.producer import Producer, open_producer, record_size

if TYPE_CHECKING:
    from pk.cli.nouns.produce.options import Produce

_CHUNK_BYTES = 1 << 18
"""Large enough to make the cost of a block negligible, and small enough to let the sender run while
a file is read."""

_LINE_BYTES_MAX = 1 << 28
"""The longest line. It limits the memory for a line without an end."""

_FAKE_CHUNK = 500
_FLUSH_TIMEOUT_S = 3.0
"""How long an interrupted command waits for the records that the producer already has."""


async def produce(context: Context, options: "Produce") -> int | None:
    """Run `pk produce`."""
    encode = None
    if options.schema is not None:
        from pk.cli.records.schema_records import value_encoder

        encode = value_encoder(context, options.schema, options.schema_registry)
    plan = Plan(options, encode=encode)
    context.about = ProducerConfig
    config = producer_config(context, options)
    transactional = bool(config.get("transactional.id"))
    if options.records_per_transaction is not None and not transactional:
        raise Unusable("--records-per-transaction needs --transactional-id.")
    if context.change.dry_run:
        await _dry_run(context, options, plan, transactional=transactional)
        return None
    context.allow()
    if _at_a_terminal(context, options) and not transactional:
        if plan.reading.rows is not None:
            raise Unusable("-f csv reads a file or a pipe: pk produce TOPIC -f csv -F FILE.")
        from pk.cli.nouns.produce.editor import edit

        return await edit(context, options, plan)
    if plan.topic is not None:
        await make_topic(context, plan.topic, create=options.create)
    tally = Tally(context, say_offsets=options.print_offsets)
    stream = _Stream(context, options, plan, tally)
    try:
        interrupted = await _run(context, config, stream, tally)
    except (trio.Cancelled, KeyboardInterrupt):
        _say_interrupted(context, stream, tally)
        raise
    if interrupted:
        _say_interrupted(context, stream, tally)
        return Exit.INTERRUPTED
    error = stream.error
    if stream.transactions is None:  # otherwise the result of the transaction says it
        error = error or tally.error
    if error is not None:
        missing = stream.taken - stream.written
        were = "was" if missing == 1 else "were"
        if isinstance(error, TransactionOutcomeUnknown):
            raise CommandError(
                f"{stream.what_is_written(ended=False)}: {sentence(error)}", exit_code(error)
            )
        raise CommandError(
            f"{missing:,} of {count(stream.taken, 'record')} {were} not written: {sentence(error)}",
            exit_code(error),
        )
    partly = stream.wrong is not None and stream.taken > 0
    if partly or options.print_offsets or (context.streams.err_terminal and not stream.wrong):
        few = tally.places and len(tally.places) < 4 and tally.delivered < 100
        where = f": {' '.join(tally.places)}" if few and stream.written else ""
        context.say(f"{stream.what_is_written()}{where}.")
    if stream.wrong is not None:
        raise CommandError(stream.wrong)
    return None


async def _run(
    context: Context, config: dict[str, object], stream: "_Stream", tally: Tally
) -> bool:
    """Send the stream. Returns whether a signal ended it. Sets `stream.error` if the stream had to
    stop."""
    interrupted = False
    try:
        async with open_producer(
            context.settings.bootstrap,
            config,
            on_delivery=tally.on_delivery,
            on_refusal=tally.refusals.note,
        ) as producer:
            stream.use(producer)
            with listen_for_interrupts() as interrupts:
                interrupted = await interrupts.or_until(stream.run)
            if interrupted:
                producer.close()  # otherwise it would flush, however long that takes
    except* BufferExhausted as group:
        # Nothing has been acknowledged for max.block.ms, so the rest would not be either.
        stream.error = _first(group)
    return interrupted


def _first(error: ExceptionGroup[BufferExhausted]) -> Exception:
    found: Exception = error
    while isinstance(found, ExceptionGroup):
        found = cast("ExceptionGroup[Exception]", found).exceptions[0]
    return found


def _say_interrupted(context: Context, stream: "_Stream", tally: Tally) -> None:
    missing = 0 if stream.transactions is not None else stream.taken - tally.delivered
    unknown = min(tally.in_doubt, missing)
    rest = f"; the status of {unknown:,} more is unknown" if unknown else ""
    if missing > unknown:
        rest += f"; {missing - unknown:,} not written"
    refusal = tally.refusals.last
    why = f": {sentence(refusal)}" if missing and refusal is not None else "."
    if context.streams.err_terminal:
        context.say()  # on the line after the ^C that the terminal shows
    context.say(f"Interrupted: {stream.what_is_written()}{rest}{why}")


def _at_a_terminal(context: Context, options: "Produce") -> bool:
    streams = context.streams
    if options.fake is not None or options.value or options.file is not None:
        return False
    return streams.in_terminal and streams.err_terminal and os.environ.get("TERM") != "dumb"


async def lines(context: Context, options: "Produce") -> AsyncGenerator[list[bytes]]:
    """The lines of the input without their ends, all that are available at a time.

    A carriage return before the line end is part of it, as in Apache's tool, unless -f names a
    format.
    """
    either_end = options.format in (None, "value")
    path = options.file
    if path is not None and path != "-":
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    else:
        fd = os.dup(context.streams.stdin.fileno())
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        wait = not stat.S_ISREG(os.fstat(fd).st_mode)
        prompt = context.streams.in_terminal and context.streams.err_terminal and path is None
        rest: list[bytes] = []
        while True:
            if prompt:
                context.streams.err.write(">")
                context.streams.err.flush()
            if wait:
                wait = await _readable(fd)
            data = os.read(fd, _CHUNK_BYTES)
            if not data:
                if prompt:
                    context.say()
                break
            first, newline, data = data.partition(b"\n")
            rest.append(first)
            if not newline:
                if sum(map(len, rest)) > _LINE_BYTES_MAX:
                    raise CommandError(
                        f"A line is longer than {_LINE_BYTES_MAX:,} bytes, the limit in every "
                        "format."
                    )
                continue
            first = b"".join(rest)
            returns = either_end and (b"\r" in data or first.endswith(b"\r"))
            whole = [first, *data.split(b"\n")]
            rest = [whole.pop()]
            yield [line.removesuffix(b"\r") for line in whole] if returns else whole
        if last := b"".join(rest):
            yield [last.removesuffix(b"\r") if either_end else last]
    finally:
        os.close(fd)


async def _readable(fd: int) -> bool:
    """Wait until input is available. Returns False if waiting is not possible, as for /dev/null."""
    try:
        await trio.lowlevel.wait_readable(fd)
    except PermissionError:
        return False
    return True


async def _input(context: Context, options: "Produce") -> AsyncGenerator[list[bytes]]:
    if options.value:
        yield [os.fsencode(v) for v in options.value]
        return
    async with aclosing(lines(context, options)) as chunks:
        async for chunk in chunks:
            yield chunk


class _Stream:
    """Records on their way from the input to the producer."""

    producer: Producer

    transactions: Transactions | None
    """The transactions of the records; None if the producer has no transactional id."""

    def __init__(self, context: Context, options: "Produce", plan: Plan, tally: Tally) -> None:
        self.transactions = None
        self.taken = 0
        """The number of records read."""

        self.wrong: str | None = None
        """The problem with the line that ended the stream; None if there is none."""

        self.error: Exception | None = None
        self._context = context
        self._options = options
        self._plan = plan
        self._left = options.num
        self._number = 0
        self._topics = {plan.topic}
        """The topics that exist or were given on purpose: the command line's, and those that the
        input has named."""

        self._pace = Pace(options.rate) if options.rate else None
        self._status = _Status(context, options, tally)
        self._tally = tally

    def use(self, producer: Producer) -> None:
        """Write with this producer, in transactions if it has a transactional id."""
        self.producer = producer
        if producer.config.transactional_id is not None:
            self.transactions = Transactions(producer, self._options.records_per_transaction)

    @property
    def written(self) -> int:
        """The number of records that readers will see: those acknowledged, and committed."""
        if self.transactions is not None:
            return self.transactions.committed_records
        return self._tally.delivered

    def what_is_written(self, *, ended: bool = True) -> str:
        """The number of records that were written, and of transactions. If the last one has not
        `ended`, its result is unknown."""
        said = f"{count(self.written, 'record')} written"
        if self.transactions is None:
            return said
        said += f" in {count(self.transactions.committed, 'transaction')}"
        left = self.taken - self.transactions.committed_records
        if not ended:
            return f"{said}; the status of {left:,} more is unknown"
        return f"{said}; {left:,} of an open transaction aborted" if left else said

    async def run(self) -> None:
        """Send all records. After an interrupt, wait a little for the records that the producer
        already has."""
        try:
            if self.transactions is None:
                await self._run_source()
                await self.producer.flush()  # here, inside the block that listens for Ctrl-C
            else:
                async with self.transactions:
                    await self._run_source()
                    if self.wrong is not None:
                        raise CommandError(self.wrong)
        except (BufferExhausted, trio.Cancelled):
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _FLUSH_TIMEOUT_S):
                await self.producer.flush()
            raise
        except (KafkaError, ClientError) as e:
            self.error = e
        except (CommandError, OSError) as e:  # after bad input, the records before it are written
            self.wrong = sentence(e)
        finally:
            self._context.clear_status()

    async def _run_source(self) -> None:
        if self._options.fake is not None:
            await self._run_fake()
        else:
            await self._run_lines()

    async def _share(self, wanted: int) -> int:
        """Wait until a record may be sent. Returns how many of `wanted` may be, by --rate and by
        the space in the transaction."""
        if self.transactions is not None:
            wanted = self.transactions.room(wanted)
        number = wanted if self._pace is None else await self._pace.due(wanted)
        if self.transactions is not None:
            await self.transactions.begin()
        return number

    async def _run_lines(self) -> None:
        documents = self._plan.gathering()
        async with aclosing(_input(self._context, self._options)) as chunks:
            async for chunk in chunks:
                await self._chunk(chunk, documents)
                if self.wrong is not None or self._left == 0:
                    return
        if documents is not None:
            try:
                documents.end()
            except (BadDocument, BadCsv) as e:
                self.wrong = str(e)

    async def _chunk(self, chunk: list[bytes], documents: Documents | CsvRows | None) -> None:
        found = chunk
        if documents is not None:
            try:
                found = documents.feed(chunk)
            except (BadDocument, BadCsv) as e:
                found, self.wrong = e.before, str(e)
        if self._left is not None:
            found = found[: self._left]
            self._left -= len(found)
        start = 0
        while start < len(found) and (self.wrong is None or documents is not None):
            number = await self._share(len(found) - start)
            before = self.taken
            await self._lines(found[start : start + number])
            if self.transactions is not None:
                await self.transactions.took(self.taken - before)
            start += number

    async def _run_fake(self) -> None:
        plan, source = self._plan, self._plan.fake
        assert plan.topic is not None and source is not None
        while self._left is None or self._left > 0:
            number = _FAKE_CHUNK if self._left is None else min(_FAKE_CHUNK, self._left)
            number = await self._share(number)
            pairs = source.take(number)
            if self._left is not None:
                self._left -= number
            if plan.headers or self._options.sync:
                records = [
                    NewRecord(k, v, plan.headers, plan.timestamp, plan.partition, plan.topic)
                    for k, v in pairs
                ]
                await self._records(records)
            else:
                await self._pairs(pairs)
            if self.transactions is not None:
                await self.transactions.took(number)

    async def _lines(self, found: Sequence[bytes]) -> None:
        """Send lines up to the first one that is not a record, or is too large."""
        plan = self._plan
        if not found:
            return
        fit = self._fit(found)
        if fit and plan.topic is not None and not self._options.sync:
            pairs = plan.pairs(found)
            if pairs is not None:
                self._number += len(found)
                await self._pairs(pairs)
                return
        records: list[NewRecord] = []
        for line in found:
            self._number += 1
            try:
                record = plan.record(line)
                if not fit:
                    self._check_size(record)
                if record.topic not in self._topics:
                    await self._look_up(record.topic)
            except BadLine as e:
                self.wrong = f"{plan.unit} {self._number}: {e}."
                break
            except CommandError as e:
                self.wrong = f"{plan.unit} {self._number}: {e}"
                break
            records.append(record)
        await self._records(records)

    async def _look_up(self, topic: str | None) -> None:
        """Check, once, a topic that the input names, like one on the command line: a misspelled one
        is not created. Raises CommandError."""
        if topic is not None:
            await make_topic(self._context, topic, create=self._options.create)
            self._topics.add(topic)

    def _fit(self, found: Sequence[bytes]) -> bool:
        """Whether no record can be too large: the lines with all that the options add. No format
        makes a line longer."""
        plan = self._plan
        added = 1024 + len(plan.key or b"") + sum(len(n) + len(v or b"") for n, v in plan.headers)
        return max(map(len, found)) + added <= self.producer.config.max_request_size

    def _check_size(self, record: NewRecord) -> None:
        size, limit = (
            record_size(record.key, record.value, record.headers),
            self.producer.config.max_request_size,
        )
        if size > limit:
            raise BadLine(
                f"a record of {size:,} bytes; max.request.size is {limit:,} (-X max.request.size=…)"
            )

    async def _pairs(self, pairs: list[Pair]) -> None:
        plan = self._plan
        assert plan.topic is not None
        self.taken += len(pairs)
        await self.producer.send_many(
            plan.topic, pairs, partition=plan.partition, timestamp_ms=plan.timestamp
        )
        self._status.show()

    async def _records(self, records: Sequence[NewRecord]) -> None:
        if self._options.sync:
            for record in records:
                self.taken += 1
                delivery = await self.producer.send_rows(record.topic or "", [_row(record)])
                await delivery.wait()
            return
        by_topic: dict[str, list[Row]] = {}
        for record in records:
            by_topic.setdefault(record.topic or "", []).append(_row(record))
        for topic, rows in by_topic.items():
            self.taken += len(rows)
            await self.producer.send_rows(topic, rows)
        self._status.show()


def _row(record: NewRecord) -> Row:
    return record.key, record.value, record.headers, record.timestamp, record.partition


class _Status:
    """The line on the terminal that shows the progress of a long stream."""

    def __init__(self, context: Context, options: "Produce", tally: Tally) -> None:
        typed = context.streams.in_terminal and not (options.file or options.fake or options.value)
        self._shows = context.streams.err_redraws and not options.print_offsets and not typed
        self._context = context
        self._tally = tally
        self._since = trio.current_time()
        self._next = self._since + 1.0

    def show(self) -> None:
        """Draw the line, if a redraw is due."""
        now = trio.current_time()
        if not self._shows or now < self._next:
            return
        self._next = now + 0.25
        done = self._tally.delivered
        rate = done / (now - self._since)
        self._context.show_status(f"{done:,} written, {rate:,.0f}/s")


async def _dry_run(
    context: Context, options: "Produce", plan: Plan, *, transactional: bool
) -> None:
    """Read all input and print what would be written. Writes nothing and creates no topic."""
    if options.fake is not None:
        assert plan.topic is not None
        await _described(context, {plan.topic}, create=options.create)
        _show_fake(context, plan, options.num)
        return
    left: int | None = options.num
    taken, size = 0, 0
    topics: set[str] = set() if plan.topic is None else {plan.topic}
    documents = plan.gathering()
    async with aclosing(_input(context, options)) as chunks:
        async for chunk in chunks:
            try:
                found = documents.feed(chunk) if documents is not None else chunk
            except (BadDocument, BadCsv) as e:
                raise CommandError(str(e)) from None
            for line in found if left is None else found[: left - taken]:
                taken += 1
                try:
                    record = plan.record(line)
                except BadLine as e:
                    raise CommandError(f"{plan.unit} {taken}: {e}.") from None
                assert record.topic is not None
                topics.add(record.topic)
                size += len(record.key or b"") + len(record.value or b"")
            if taken == left:
                break
    if documents is not None and taken != left:
        try:
            documents.end()
        except (BadDocument, BadCsv) as e:
            raise CommandError(str(e)) from None
    await _described(context, topics, create=options.create)
    transactions = ""
    if transactional:
        each = options.records_per_transaction or max(taken, 1)
        transactions = f", in {count(-(-taken // each), 'transaction')}"
    context.say(
        f"Would write {count(taken, 'record')}, {count(size, 'byte')}{transactions}; nothing was "
        "written."
    )


def _show_fake(context: Context, plan: Plan, number: int | None) -> None:
    assert plan.fake is not None
    shown = min(number or 5, 5)
    for key, value in plan.fake.take(shown):
        context.write((b"" if key is None else key + b"\t") + (value or b"") + b"\n")
    much = "endless records" if number is None else count(number, "record")
    context.say(
        f"Would write {much} such as {'these' if shown > 1 else 'this'}; nothing was written."
    )


async def _described(context: Context, topics: set[str], *, create: bool) -> None:
    """Describe `topics`, and report which do not exist."""
    admin = await context.admin()
    described = await admin.describe_topics(sorted(topics))
    for name, error in described.errors.items():
        if is_unknown(error) and create:
            context.say(f"Would create topic {name}, with the broker's defaults.")
        elif is_unknown(error):
            context.failed(await unknown_topic(context, admin, name), name)
        else:
            context.failed(error, name)
