"""Copies for `pk cp`: reads ranges, passes the records to the producer, and saves the progress.

The producer sends batches on its own, so at any moment some records are not acknowledged yet. About
once a second, reading pauses until all of them are; then the offsets read so far are written to the
state file. Therefore a copy that crashes and continues from the file loses nothing, and repeats at
most the records since the last save.

If --exactly-once is given, the progress is the offsets of a group, which are committed in the same
transaction as the records, also about once a second. A copy that ends early aborts its open
transaction, so neither its records nor its offsets count.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from pk.cli.exits import CommandError
from pk.cli.nouns.cp.group_commits import GroupCommits, take_over
from pk.cli.nouns.cp.state import StateFile
from pk.cli.phrases import count
from pk.cli.records.filter import Filter
from pk.cli.records.idle_reason import Silence
from pk.cli.records.range_reader import Part, RangeReader, Span
from pk.cli.records.readers import Headers
from pk.cli.records.refusals import Refusals
from pk.cli.records.transactions import Transactions
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import exit_code, leaf, sentence
from pk.cli.runtime.progress import Progress
from pk.core.errors import KafkaError
from pk.core.record.batch import Record
from pk.core.values import TopicPartition
from pk.net.client.config import ConsumerConfig, ProducerConfig
from pk.net.client.consumer import open_consumer
from pk.net.client.errors import ClientError, NoOffset
from pk.net.client.producer import BatchDelivered, Producer, open_producer

if TYPE_CHECKING:
    from pk.cli.nouns.cp.options import Copy

_NOTE_EVERY_S = 1.0
_TICK_MS = 200
_BEHIND_S = 0.1
"""A copy with --rate that is later than this does not catch up."""

_AHEAD_S = 0.01
"""Records that are due within this time are written immediately: sleeping for each one would make
the copy slower than the rate."""

_FLUSH_TIMEOUT_S = 15.0
"""How long an interrupted copy waits for acknowledgements."""


class Job(NamedTuple):
    """The ranges to copy, and the options."""

    options: "Copy"
    spans: Mapping[TopicPartition, Span]
    targets: Mapping[str, str]
    wanted: Filter | None
    starts: Mapping[TopicPartition, int] = {}
    """The first offset of each partition."""

    commits: GroupCommits | None = None
    """The group that stores the progress of --exactly-once."""


class Totals:
    """The number of records copied so far."""

    def __init__(self, copied: dict[TopicPartition, int]) -> None:
        self.copied = copied
        """The number of records of each source partition that were passed to the producer."""

        self.read = 0
        self.bytes_read = 0
        self.lost = 0
        self.error: Exception | None = None
        self.finished = False
        self.positions: dict[TopicPartition, int] = {}
        """Source partition → the offset before which everything was copied and acknowledged."""

        self._began = time.monotonic()
        self._safe = dict(copied)

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Count the records up to `positions` as committed."""
        self.positions = dict(positions)
        self._safe = dict(self.copied)

    def roll_back(self) -> None:
        """Forget the records since the last commit, which were aborted."""
        self.copied.update(self._safe)
        self.lost = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def on_delivery(self, batch: BatchDelivered) -> None:
        """The callback of the producer for each batch."""
        if batch.error is not None:
            self.lost += batch.count
            self.error = self.error or batch.error


def _consumer_config(context: Context, options: "Copy") -> dict[str, object]:
    config = client_config(
        ConsumerConfig,
        context.settings,
        {
            "isolation.level": options.isolation_level,
            "max.partition.fetch.bytes": str(4 << 20),
        },
    )
    config.pop("group.id", None)
    # Without a reset, records that are deleted before they are read cause an error, and are not
    # skipped silently.
    config |= {
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
        "allow.auto.create.topics": "false",
        "isolation.level": options.isolation_level,
    }
    return config


def _producer_config(
    context: Context, target: Context, options: "Copy", commits: GroupCommits | None
) -> dict[str, object]:
    defaults: dict[str, object] = {"linger.ms": "20", "batch.size": str(1 << 17)}
    if options.compression:
        defaults["compression.type"] = options.compression
    # If there is one cluster, -X is for the consumer, and the producer takes the keys that it
    # knows.
    about = ConsumerConfig if target is context else ProducerConfig
    config = client_config(
        ProducerConfig, target.settings, defaults, about=about, transactional=commits is not None
    )
    if commits is not None:
        config.setdefault("transactional.id", commits.transactional_id)
    # A copy must not lose or reorder records, even if the profile says otherwise.
    return config | {"acks": "all", "enable.idempotence": "true"}


def _headers(options: "Copy") -> Callable[[Headers], Headers] | None:
    """A function that changes the headers of a record; None if they stay unchanged."""
    given = tuple((name, os.fsencode(value)) for name, value in options.set_header)
    away = {name for name, _ in given} | set(options.drop_header)
    if not away:
        return None
    return lambda headers: (*(h for h in headers if h[0] not in away), *given)


class _Writer:
    """Sends records to their targets, at most --rate per second."""

    def __init__(self, job: Job, producer: Producer) -> None:
        options = job.options
        self._producer = producer
        self._targets = job.targets
        self._headers = _headers(options)
        self._keep_partition = options.keep_partition
        self._keep_timestamp = options.keep_timestamp
        self._each_s: float | None = None if options.rate is None else 1 / options.rate
        self._due = float("-inf")

    async def send(self, part: Part, record: Record) -> None:
        """Pass a record to the producer; wait while its buffer is full. Raises CommandError if it
        cannot be sent."""
        if self._each_s is not None:
            await self._wait_for_turn(self._each_s)
        headers = record.headers if self._headers is None else self._headers(record.headers)
        partition = part.source.partition if self._keep_partition else None
        stamp = record.timestamp if self._keep_timestamp else None
        topic = self._targets[part.source.topic]
        try:
            try:
                self._producer.send_nowait(
                    topic,
                    record.value,
                    key=record.key,
                    headers=headers,
                    partition=partition,
                    timestamp_ms=stamp,
                )
            except trio.WouldBlock:
                await self._producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    headers=headers,
                    partition=partition,
                    timestamp_ms=stamp,
                )
        except (KafkaError, ClientError) as e:
            where = f"{part.source.topic}/{part.source.partition} @ {record.offset}"
            raise CommandError(
                f"{where} cannot be written to {topic}: {sentence(e)}", exit_code(e)
            ) from e

    async def _wait_for_turn(self, each_s: float) -> None:
        now = trio.current_time()
        # Catch up after a sleep that took too long, but not after a time without records.
        self._due = now if self._due < now - max(each_s, _BEHIND_S) else self._due + each_s
        if self._due > now + _AHEAD_S:
            await trio.sleep_until(self._due)


async def copy_records(
    context: Context, target: Context, job: Job, totals: Totals, state: StateFile
) -> None:
    """Copy until the spans end, -n is reached, or the copy is interrupted. Raises CommandError."""
    totals.positions = {tp: span.begin for tp, span in job.spans.items()}
    state.save(totals.positions)  # if the state file cannot be written, fail before the copy
    try:
        async with (
            open_consumer(
                context.settings.bootstrap, _consumer_config(context, job.options)
            ) as consumer,
            open_producer(
                target.settings.bootstrap,
                _producer_config(context, target, job.options, job.commits),
                on_delivery=totals.on_delivery,
                on_refusal=Refusals(target).note,
            ) as producer,
        ):
            spans = job.spans
            if job.commits is not None:
                # An earlier copy may have committed until now, and cannot commit any more.
                await take_over(producer)
                admin = await context.admin()
                spans = await job.commits.resumed(
                    context, admin, spans, job.starts, taken_over=True
                )
                totals.positions = {tp: span.begin for tp, span in spans.items()}
            run = _Run(context, job, totals, state, RangeReader(consumer, spans), producer)
            await run.run()
    except* NoOffset as group:
        where = str(leaf(group)).partition(":")[0]
        raise CommandError(
            f"{where}: records were deleted before they were copied; -o start copies what is left."
        ) from None


class _Run:
    """One copy."""

    def __init__(
        self,
        context: Context,
        job: Job,
        totals: Totals,
        state: StateFile,
        reader: RangeReader,
        producer: Producer,
    ) -> None:
        self._context = context
        self._wanted = job.wanted
        self._totals = totals
        self._state = state
        self._reader = reader
        self._producer = producer
        self._writer = _Writer(job, producer)
        self._left = job.options.num
        self._read_to = dict(totals.positions)
        self._noted = trio.current_time()
        self._commits = job.commits
        self._transactions = Transactions(producer)

    async def run(self) -> None:
        """Copy the records. In any case, wait at the end for acknowledgements and save the
        progress, or abort the open transaction."""
        if self._commits is None:
            await self._run_at_least_once()
        else:
            await self._run_in_transactions()

    async def _run_in_transactions(self) -> None:
        totals = self._totals
        try:
            async with self._transactions:
                await self._copy()
                await self._note()
            totals.finished = True
        except BaseException:
            totals.roll_back()
            raise
        finally:
            totals.bytes_read = self._reader.bytes_read

    async def _run_at_least_once(self) -> None:
        try:
            await self._copy()
            self._totals.finished = True
        finally:
            self._totals.bytes_read = self._reader.bytes_read
            with trio.CancelScope(
                shield=not self._totals.finished,
                deadline=float("inf")
                if self._totals.finished
                else trio.current_time() + _FLUSH_TIMEOUT_S,
            ):
                await self._note()
        self._check()

    async def _copy(self) -> None:
        reader, totals = self._reader, self._totals
        total = reader.total if reader.bounded else 0
        with Progress(
            self._context, "Copying", total, unit="offsets", over_output=True
        ) as progress:
            silence = Silence(self._context, reader.consumer)
            while reader.open and self._left != 0:
                parts = await reader.parts(_TICK_MS)
                await silence.look(bool(parts))
                for part in parts:
                    await self._copy_part(part)
                    if self._left == 0:
                        break
                else:
                    self._read_to |= reader.positions
                self._check()
                copied = sum(totals.copied.values())
                done = reader.done if reader.bounded else totals.read
                progress.update(done, f"{copied:,} copied", bytes_done=reader.bytes_read)
                await self._note_if_due()

    async def _copy_part(self, part: Part) -> None:
        tp = TopicPartition(part.source.topic, part.source.partition)
        send, wanted, totals = self._writer.send, self._wanted, self._totals
        for record in part.records:
            if wanted is None or wanted(part.source, record):
                if self._commits is not None and not self._transactions.is_open:
                    await self._transactions.begin()
                await send(part, record)
                totals.copied[tp] += 1
                if self._left is not None:
                    self._left -= 1
            totals.read += 1
            self._read_to[tp] = record.offset + 1
            if self._left == 0:
                return
            await self._note_if_due()

    async def _note_if_due(self) -> None:
        if trio.current_time() - self._noted >= _NOTE_EVERY_S:
            await self._note()
            self._check()

    async def _note(self) -> None:
        """Wait for acknowledgements, then save the progress unless a record was refused."""
        read_to = dict(self._read_to)
        if self._commits is not None:
            await self._commit(self._commits, read_to)
            return
        await self._producer.flush()
        if self._totals.error is None:
            self._totals.positions = read_to
            self._state.save(read_to)
        self._noted = trio.current_time()

    async def _commit(self, commits: GroupCommits, read_to: Mapping[TopicPartition, int]) -> None:
        """Commit the records copied so far together with `read_to`. Raises CommandError,
        KafkaError, ClientError."""
        moved = {tp: o for tp, o in read_to.items() if o != self._totals.positions[tp]}
        if moved or self._transactions.is_open:
            await self._transactions.begin()
            await self._producer.flush()
            self._check()
            await commits.send(self._producer, moved)
            await self._transactions.commit()
            self._totals.commit(read_to)
        self._noted = trio.current_time()

    def _check(self) -> None:
        """Raise CommandError if records were not written."""
        totals = self._totals
        if totals.error is not None:
            were = "was" if totals.lost == 1 else "were"
            raise CommandError(
                f"{count(totals.lost, 'record')} {were} not written: {sentence(totals.error)}",
                exit_code(totals.error),
            )


async def count_wanted(
    context: Context,
    options: "Copy",
    spans: Mapping[TopicPartition, Span],
    wanted: Filter,
) -> dict[TopicPartition, int]:
    """The number of records of each of `spans` that pass the filter. Every span must have an
    end."""
    found = dict.fromkeys(spans, 0)
    async with open_consumer(
        context.settings.bootstrap, _consumer_config(context, options)
    ) as consumer:
        reader = RangeReader(consumer, spans)
        with Progress(
            context, "Counting", reader.total, unit="offsets", over_output=True
        ) as progress:
            while reader.open:
                for part in await reader.parts():
                    tp = TopicPartition(part.source.topic, part.source.partition)
                    found[tp] += _passing(part, wanted)
                progress.update(reader.done, bytes_done=reader.bytes_read)
    return found


def _passing(part: Part, wanted: Filter) -> int:
    records: Iterable[Record] = part.records
    return sum(wanted(part.source, record) for record in records)
