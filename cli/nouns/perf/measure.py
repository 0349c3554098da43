"""The three measurements of `pk perf`. Each fills in an `Outcome`."""

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import trio

from pk.cli.nouns.perf.live import Progress, live
from pk.cli.nouns.perf.payload import Payloads, Verifier
from pk.cli.nouns.perf.plan import FILL, Spec, Target
from pk.cli.nouns.perf.report import Measured, figures, latencies
from pk.cli.nouns.perf.rows import Verified
from pk.cli.nouns.perf.run import Reader, Sender, Work, at_ends
from pk.cli.records.refusals import Refusals
from pk.cli.runtime.context import Context
from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.core.wire.messages.metadata import MetadataRequest
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.errors import ClientError
from pk.net.client.producer import Producer, open_producer
from pk.net.client.sender import PURPOSE

_LOST_AFTER_S = 10.0
"""How long to wait for an acknowledged record before it counts as lost."""


class Outcome:
    """The result of a measurement."""

    def __init__(self, until: Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]) -> None:
        self.until = until
        """Runs a function until its end or an interrupt; returns True for an interrupt. Clients are
        opened outside of it, so that the records that they are sending can still arrive."""

        self.measured: Measured | None = None
        """None if the measurement was interrupted before anything was measured."""

        self.error: Exception | None = None
        self.interrupted = False


def _checked(verifier: Verifier, expected: int | None) -> Verified:
    return {"checked": verifier.found, **verifier.faults(expected)}


def _run_id() -> int:
    return int.from_bytes(os.urandom(4), "big")


async def _ends(consumer: Consumer, target: Target) -> dict[TopicPartition, int]:
    found = await consumer.end_offsets(
        [TopicPartition(target.topic, i) for i in range(target.partitions)]
    )
    return {tp: found.value(tp).offset for tp in found}


async def _starts(context: Context, spec: Spec, target: Target) -> dict[TopicPartition, int]:
    """Partition → the offset at which new records will begin."""
    if target.own:
        return {TopicPartition(target.topic, i): 0 for i in range(target.partitions)}
    async with open_consumer(context.settings.bootstrap, spec.consumer) as consumer:
        return await _ends(consumer, target)


async def _until_taken(producer: Producer, topic: str) -> None:
    """Wait until the brokers have received what they do not acknowledge: on a connection, they
    answer a request only after all that was sent before it."""
    partitions = producer.cluster.metadata.topics[topic].partitions
    for broker in {each.leader_id for each in partitions}:
        connection = producer.cluster.ready_connection(broker, PURPOSE)
        if connection is not None:
            with suppress(ClientError, KafkaError):
                await connection.request(MetadataRequest(topics=[]))


async def produce(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    """Send records, then read them back."""
    run = _run_id()
    begin = await _starts(context, spec, target) if spec.verified else {}
    payloads = Payloads(run, spec.work.size, spec.source(), spec.options.seed)
    sender = Sender(target.topic, target.partitions, spec.work, payloads)
    sent, cpu = sender.sent, time.process_time()

    def acked_bytes() -> int:
        return sent.size * sent.acked // sent.records if sent.records else 0

    def progress() -> Progress:
        return Progress(sent.acked, acked_bytes(), sent.latency)

    latency_of = "Latency, ms, from the time a record was due to its acknowledgement"
    if spec.work.rate is None:
        latency_of = "Latency, ms, from handing a record to the producer to its acknowledgement"
    interval_ms = spec.options.reporting_interval
    async with open_producer(
        context.settings.bootstrap,
        spec.producer,
        on_delivery=sender.on_delivery,
        on_refusal=Refusals(context).note,
    ) as opened:
        sender.producer = opened
        await opened.partitions(target.topic)
        async with live(context, interval_ms, "Producing", progress, spec.work.records):
            outcome.interrupted = await outcome.until(sender.run)
        # Taken before the producer closes, so that records sent while closing are not measured.
        spent = time.process_time() - cpu
        outcome.error = sent.error
        outcome.measured = Measured(
            figures(sent.acked, acked_bytes(), sent.seconds, spent),
            failed=sent.failed,
            latencies=latencies(sent.latency, latency_of),
        )
        if spec.verified and not outcome.interrupted and opened.config.required_acks == 0:
            outcome.interrupted = await outcome.until(partial(_until_taken, opened, target.topic))
    if spec.verified and not outcome.interrupted:
        found = await _read_back(context, spec, target, begin, run, outcome)
        if not outcome.interrupted:
            verified = _checked(found, sender.numbered - sent.failed)
            outcome.measured = outcome.measured._replace(verified=verified)


async def _read_back(
    context: Context,
    spec: Spec,
    target: Target,
    begin: dict[TopicPartition, int],
    run: int,
    outcome: Outcome,
) -> Verifier:
    """Read the written records back and check them."""
    verifier = Verifier(run)
    reader = Reader(verifier, marked=spec.options.fake is None, latency=False)
    async with open_consumer(context.settings.bootstrap, spec.consumer) as consumer:
        ends = await _ends(consumer, target)
        consumer.assign(ends)
        for tp, offset in begin.items():
            consumer.seek(tp, offset)
        total = sum(ends[tp] - begin[tp] for tp in ends)

        def progress() -> Progress:
            return Progress(reader.read.records, reader.read.size)

        async def read() -> None:
            await reader.until(consumer, at_ends(consumer, ends), timeout_s=_LOST_AFTER_S)

        async with live(context, spec.options.reporting_interval, "Reading back", progress, total):
            outcome.interrupted = await outcome.until(read)
    return verifier


async def _fill(context: Context, spec: Spec, target: Target, run: int, outcome: Outcome) -> int:
    """Write the records to read. Returns their number."""
    number = spec.work.records or FILL
    work = Work(number, None, None, spec.work.size)
    payloads = Payloads(run, work.size, spec.source(), spec.options.seed)
    sender = Sender(target.topic, target.partitions, work, payloads)

    def progress() -> Progress:
        return Progress(sender.sent.acked, sender.sent.size)

    interval_ms = spec.options.reporting_interval
    async with (
        open_producer(
            context.settings.bootstrap,
            spec.producer,
            on_delivery=sender.on_delivery,
            on_refusal=Refusals(context).note,
        ) as sender.producer,
        live(context, interval_ms, "Filling the topic", progress, number),
    ):
        outcome.interrupted = await outcome.until(sender.run)
    if sender.sent.error is not None:
        raise sender.sent.error
    return number


async def consume(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    """Fill a temporary topic, which is not measured, and read it; or read an existing topic."""
    run = _run_id()
    expected: int | None = None
    if target.own:
        expected = await _fill(context, spec, target, run, outcome)
        if outcome.interrupted:
            return
    # An existing topic may have records of an earlier run, marked in either way.
    verifier = Verifier(run if target.own else None) if spec.verified else None
    marked = target.own and spec.options.fake is None
    reader = Reader(verifier, marked=marked, latency=False)
    read, cpu = reader.read, time.process_time()
    whole = False
    wanted = None if target.own else spec.work.records
    async with open_consumer(context.settings.bootstrap, spec.consumer) as consumer:
        finished = await _take_partitions(consumer, spec, target, reader, wanted)

        def progress() -> Progress:
            return Progress(read.records, read.size)

        async def work() -> None:
            nonlocal whole
            timeout_s = spec.timeout_ms / 1000
            whole = await reader.until(consumer, finished, timeout_s=timeout_s)

        interval_ms = spec.options.reporting_interval
        async with live(context, interval_ms, "Consuming", progress, wanted or expected):
            outcome.interrupted = await outcome.until(work)
        spent = time.process_time() - cpu
    verified: Verified | None = None
    if verifier is not None and (target.own or verifier.found):
        verified = _checked(verifier, None if outcome.interrupted else expected)
    outcome.measured = Measured(
        figures(read.records, read.size, read.seconds, spent),
        first_record_ms=(read.first_ns - read.started_ns) / 1e6 if read.first_ns else None,
        verified=verified,
    )
    if not whole and not outcome.interrupted:
        context.say(f"No record for {spec.timeout_ms} ms.")


async def _take_partitions(
    consumer: Consumer, spec: Spec, target: Target, reader: Reader, wanted: int | None
) -> Callable[[], bool]:
    """Start to read the topic from its start, with or without a group. Returns a function that says
    whether all of the topic, or `wanted` records, have been read."""
    ends = await _ends(consumer, target)
    read = reader.read
    if spec.consumer.get("group.id"):
        consumer.subscribe([target.topic])
        starts = await consumer.beginning_offsets(list(ends))
        there = sum(end - starts.ok[tp].offset for tp, end in ends.items() if tp in starts.ok)
        return lambda: read.records >= (wanted or there)
    consumer.assign(ends)
    consumer.seek_to_beginning()
    at_end = at_ends(consumer, ends)
    if wanted is None:
        return at_end
    return lambda: read.records >= wanted or at_end()


async def end_to_end(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    """Send records, and read them at the same time."""
    run = _run_id()
    payloads = Payloads(run, spec.work.size, spec.source(), spec.options.seed)
    sender = Sender(target.topic, target.partitions, spec.work, payloads)
    verifier = Verifier(run)
    reader = Reader(verifier, marked=spec.options.fake is None, latency=True)
    sent, read, cpu = sender.sent, reader.read, time.process_time()
    reader.measured_from = lambda: sent.started_ns or 1 << 62
    if spec.one_at_a_time:

        async def arrived(number: int) -> None:
            while verifier.found < number - sent.failed:
                await reader.arrived.wait()

        sender.before_next = arrived

    async with (
        open_consumer(context.settings.bootstrap, spec.consumer) as consumer,
        open_producer(
            context.settings.bootstrap,
            spec.producer,
            on_delivery=sender.on_delivery,
            on_refusal=Refusals(context).note,
        ) as opened,
        trio.open_nursery() as nursery,
    ):
        sender.producer = opened
        await opened.partitions(target.topic)
        begin = await _ends(consumer, target)
        consumer.assign(begin)
        for tp, offset in begin.items():
            consumer.seek(tp, offset)

        def progress() -> Progress:
            return Progress(read.latency.count, sent.size, read.latency)

        def finished() -> bool:
            return sender.done.is_set() and verifier.found >= sender.numbered - sent.failed

        async def work() -> None:
            while not await reader.until(consumer, finished, timeout_s=_LOST_AFTER_S):
                if sender.done.is_set():
                    return

        interval_ms = spec.options.reporting_interval
        async with live(context, interval_ms, "End to end", progress, spec.work.records):
            nursery.start_soon(sender.run)
            outcome.interrupted = await outcome.until(work)
        nursery.cancel_scope.cancel()
        spent = time.process_time() - cpu
    outcome.error = sent.error
    expected = None if outcome.interrupted else sender.numbered - sent.failed
    outcome.measured = Measured(
        figures(max(0, verifier.found - spec.work.warmup), sent.size, sent.seconds, spent),
        failed=sent.failed,
        latencies=latencies(
            read.latency,
            "Latency, ms, from the time a record was due to its arrival at the consumer",
        ),
        verified=_checked(verifier, expected),
    )
