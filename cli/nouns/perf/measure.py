"""The three measurements of `pk perf`: each fills in an `Outcome`."""

import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from pk.cli.nouns.perf.histogram import Histogram
from pk.cli.nouns.perf.payload import Payloads, Verifier
from pk.cli.nouns.perf.plan import FILL, Spec, Target
from pk.cli.nouns.perf.report import Progress, figures, show_live
from pk.cli.nouns.perf.run import Reader, Sender, Work, at_ends
from pk.cli.runtime.context import Context
from pk.core.values import TopicPartition
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.producer import open_producer

_PATIENCE_S = 10.0
"""How long to wait for an acknowledged record before it counts as lost."""


class Outcome:
    """What a measurement found."""

    def __init__(self, until: Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]) -> None:
        self.until = until
        """Runs a function to its end or until an interrupt; returns True for an interrupt. Clients are opened around it,
        so records that they are sending can still arrive."""

        self.result: dict[str, Any] = {}
        """Empty if it was interrupted before anything was measured."""

        self.error: Exception | None = None
        self.interrupted = False


def _latency(latency: Histogram, of: str) -> dict[str, Any]:
    return {
        "latency_of": of,
        "latency_ms": latency.summary() if latency.count else None,
        "histogram": [{"up_to_ms": b.top_ms, "records": b.records} for b in latency.bars()],
    }


def _checked(verifier: Verifier, expected: int | None) -> dict[str, Any]:
    return {"verified": {"checked": verifier.found, **verifier.faults(expected)}}


def _run_id() -> int:
    return int.from_bytes(os.urandom(4), "big")


async def _ends(consumer: Consumer, target: Target) -> dict[TopicPartition, int]:
    found = await consumer.end_offsets(
        [TopicPartition(target.topic, i) for i in range(target.partitions)]
    )
    ends: dict[TopicPartition, int] = {}
    for tp, answer in found.items():
        if isinstance(answer, Exception):
            raise answer
        ends[tp] = answer.offset
    return ends


async def _starts(context: Context, spec: Spec, target: Target) -> dict[TopicPartition, int]:
    """The offsets at which new records will begin."""
    if target.own:
        return {TopicPartition(target.topic, i): 0 for i in range(target.partitions)}
    async with open_consumer(context.settings.bootstrap, spec.consumer) as consumer:
        return await _ends(consumer, target)


async def produce(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    """Sends records, then reads them back."""
    run = _run_id()
    begin = await _starts(context, spec, target) if spec.verified else {}
    payloads = Payloads(run, spec.work.size, spec.source(), spec.options.seed)
    sender = Sender(target.topic, target.partitions, spec.work, payloads)
    sent, cpu = sender.sent, time.process_time()

    def take() -> None:
        what = "Latency, ms, from the time a record was due to its acknowledgement"
        if spec.work.rate is None:
            what = "Latency, ms, from handing a record to the producer to its acknowledgement"
        spent = time.process_time() - cpu
        outcome.error = sent.error
        outcome.result = {
            **figures(sent.acked, _share(sent.size, sent.acked, sent.records), sent.seconds, spent),
            "failed": sent.failed,
            **_latency(sent.latency, what),
            "verified": None,
        }

    async with (
        open_producer(
            context.settings.bootstrap, spec.producer, on_delivery=sender.on_delivery
        ) as opened,
        trio.open_nursery() as nursery,
    ):
        sender.producer = opened
        await opened.partitions(target.topic)
        nursery.start_soon(
            show_live,
            context,
            spec.options.reporting_interval,
            "Producing",
            lambda: Progress(sent.acked, _share(sent.size, sent.acked, sent.records), sent.latency),
            spec.work.records,
        )
        outcome.interrupted = await outcome.until(sender.run)
        nursery.cancel_scope.cancel()
        take()
    if spec.verified and not outcome.interrupted:
        found = await _read_back(context, spec, target, begin, run, outcome)
        if not outcome.interrupted:
            outcome.result |= _checked(found, sender.numbered - sent.failed)


def _share(size: int, part: int, whole: int) -> int:
    return size * part // whole if whole else 0


async def _read_back(
    context: Context,
    spec: Spec,
    target: Target,
    begin: dict[TopicPartition, int],
    run: int,
    outcome: Outcome,
) -> Verifier:
    """Reads the written records back and checks them."""
    verifier = Verifier(run)
    reader = Reader(verifier, marked=spec.options.fake is None, latency=False)
    async with (
        open_consumer(context.settings.bootstrap, spec.consumer) as consumer,
        trio.open_nursery() as nursery,
    ):
        ends = await _ends(consumer, target)
        consumer.assign(ends)
        for tp, offset in begin.items():
            consumer.seek(tp, offset)
        total = sum(ends[tp] - begin[tp] for tp in ends)
        nursery.start_soon(
            show_live,
            context,
            spec.options.reporting_interval,
            "Reading back",
            lambda: Progress(reader.read.records, reader.read.size),
            total,
        )

        async def read() -> None:
            await reader.until(consumer, at_ends(consumer, ends), patience_s=_PATIENCE_S)

        outcome.interrupted = await outcome.until(read)
        nursery.cancel_scope.cancel()
    return verifier


async def _fill(context: Context, spec: Spec, target: Target, run: int, outcome: Outcome) -> int:
    """Writes the records to be read; returns how many."""
    number = spec.work.records or FILL
    work = Work(number, None, None, spec.work.size)
    payloads = Payloads(run, work.size, spec.source(), spec.options.seed)
    sender = Sender(target.topic, target.partitions, work, payloads)
    async with (
        open_producer(
            context.settings.bootstrap, spec.producer, on_delivery=sender.on_delivery
        ) as opened,
        trio.open_nursery() as nursery,
    ):
        sender.producer = opened
        nursery.start_soon(
            show_live,
            context,
            spec.options.reporting_interval,
            "Filling the topic",
            lambda: Progress(sender.sent.acked, sender.sent.size),
            number,
        )
        outcome.interrupted = await outcome.until(sender.run)
        nursery.cancel_scope.cancel()
    if sender.sent.error is not None:
        raise sender.sent.error
    return number


async def consume(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    """Fills a temporary topic, which is not measured, and reads it; or reads an existing topic."""
    run = _run_id()
    expected: int | None = None
    if target.own:
        expected = await _fill(context, spec, target, run, outcome)
        if outcome.interrupted:
            return
    # An existing topic may hold records of an earlier run, marked in either way.
    verifier = Verifier(run if target.own else None) if spec.verified else None
    marked = target.own and spec.options.fake is None
    reader = Reader(verifier, marked=marked, latency=False)
    read, cpu = reader.read, time.process_time()
    whole = False
    async with (
        open_consumer(context.settings.bootstrap, spec.consumer) as consumer,
        trio.open_nursery() as nursery,
    ):
        wanted = None if target.own else spec.work.records
        finished = await _take_partitions(consumer, spec, target, reader, wanted)
        nursery.start_soon(
            show_live,
            context,
            spec.options.reporting_interval,
            "Consuming",
            lambda: Progress(read.records, read.size),
            wanted or expected,
        )

        async def work() -> None:
            nonlocal whole
            patience_s = spec.timeout_ms / 1000
            whole = await reader.until(consumer, finished, patience_s=patience_s)

        outcome.interrupted = await outcome.until(work)
        nursery.cancel_scope.cancel()
        spent = time.process_time() - cpu
    outcome.result = {
        **figures(read.records, read.size, read.seconds, spent),
        "first_record_ms": (read.first_ns - read.started_ns) / 1e6 if read.first_ns else None,
        "verified": None,
    }
    if verifier is not None and (target.own or verifier.found):
        outcome.result |= _checked(verifier, None if outcome.interrupted else expected)
    if not whole and not outcome.interrupted:
        context.say(f"No record for {spec.timeout_ms} ms.")


async def _take_partitions(
    consumer: Consumer, spec: Spec, target: Target, reader: Reader, wanted: int | None
) -> Callable[[], bool]:
    """Starts reading the topic from its start, with or without a group. Returns a function that says whether all of it,
    or `wanted` records, have been read."""
    ends = await _ends(consumer, target)
    read = reader.read
    if spec.consumer.get("group.id"):
        consumer.subscribe([target.topic])
        starts = await consumer.beginning_offsets(list(ends))
        there = sum(
            end - first.offset
            for tp, end in ends.items()
            if not isinstance(first := starts[tp], Exception)
        )
        return lambda: read.records >= (wanted or there)
    consumer.assign(ends)
    consumer.seek_to_beginning()
    at_end = at_ends(consumer, ends)
    if wanted is None:
        return at_end
    return lambda: read.records >= wanted or at_end()


async def end_to_end(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    """Reads while it sends."""
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
            context.settings.bootstrap, spec.producer, on_delivery=sender.on_delivery
        ) as opened,
        trio.open_nursery() as nursery,
    ):
        sender.producer = opened
        await opened.partitions(target.topic)
        begin = await _ends(consumer, target)
        consumer.assign(begin)
        for tp, offset in begin.items():
            consumer.seek(tp, offset)
        nursery.start_soon(
            show_live,
            context,
            spec.options.reporting_interval,
            "End to end",
            lambda: Progress(read.latency.count, sent.size, read.latency),
            spec.work.records,
        )
        nursery.start_soon(sender.run)

        def finished() -> bool:
            return sender.done.is_set() and verifier.found >= sender.numbered - sent.failed

        async def work() -> None:
            while not await reader.until(consumer, finished, patience_s=_PATIENCE_S):
                if sender.done.is_set():
                    return

        outcome.interrupted = await outcome.until(work)
        nursery.cancel_scope.cancel()
        spent = time.process_time() - cpu
    outcome.error = sent.error
    outcome.result = {
        **figures(max(0, verifier.found - spec.work.warmup), sent.size, sent.seconds, spent),
        "failed": sent.failed,
        **_latency(
            read.latency,
            "Latency, ms, from the time a record was due to its arrival at the consumer",
        ),
        **_checked(verifier, None if outcome.interrupted else sender.numbered - sent.failed),
    }
