"""The three measurements of `pk perf`: each fills in an `Outcome`."""

import os
import time
from collections.abc import Callable
from typing import Any

import trio

from pk.cli.commands.perf_histogram import Histogram
from pk.cli.commands.perf_payload import Payloads, Verifier
from pk.cli.commands.perf_plan import FILL, Spec, Target
from pk.cli.commands.perf_report import Progress, figures, show_live
from pk.cli.commands.perf_run import Reader, Sender, Work, at_ends
from pk.cli.context import Context
from pk.core.values import TopicPartition
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.producer import open_producer

_PATIENCE_S = 10.0
"""How long a record that was acknowledged is waited for before it counts as lost."""


class Outcome:
    """What a measurement found, filled in as it goes, so that an interrupted one has something to show."""

    def __init__(self) -> None:
        self.result: dict[str, Any] = {}
        self.error: Exception | None = None
        self.make: Callable[[], None] = lambda: None
        """Fills in `result` with what there is by now."""


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
    """Where what is written from now on begins."""
    if target.own:
        return {TopicPartition(target.topic, i): 0 for i in range(target.partitions)}
    async with open_consumer(context.settings.bootstrap, spec.consumer) as consumer:
        return await _ends(consumer, target)


async def produce(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    run = _run_id()
    begin = await _starts(context, spec, target) if spec.verified else {}
    payloads = Payloads(run, spec.work.size, spec.source(), spec.seed)
    sender = Sender(target.topic, target.partitions, spec.work, payloads)
    sent, cpu = sender.sent, time.process_time()

    def make() -> None:
        what = "Latency, ms, from when a record was due to its acknowledgement"
        if spec.work.rate is None:
            what = "Latency, ms, from the producer's taking a record to its acknowledgement"
        spent = time.process_time() - cpu
        outcome.error = sent.error
        outcome.result = {
            **figures(sent.acked, _share(sent.size, sent.acked, sent.records), sent.seconds, spent),
            "failed": sent.failed,
            **_latency(sent.latency, what),
            "verified": None,
        }

    outcome.make = make
    async with (
        open_producer(context.settings.bootstrap, spec.producer, on_delivery=sender.told) as opened,
        trio.open_nursery() as nursery,
    ):
        sender.producer = opened
        await opened.partitions(target.topic)
        nursery.start_soon(
            show_live,
            context,
            "Producing",
            lambda: Progress(sent.acked, _share(sent.size, sent.acked, sent.records), sent.latency),
            spec.work.records,
        )
        await sender.run()
        nursery.cancel_scope.cancel()
    make()
    outcome.make = lambda: None
    if spec.verified:
        found = await _read_back(context, spec, target, begin, run)
        failed = sent.failed
        outcome.result |= _checked(found, sender.numbered - failed)


def _share(size: int, part: int, whole: int) -> int:
    return size * part // whole if whole else 0


async def _read_back(
    context: Context, spec: Spec, target: Target, begin: dict[TopicPartition, int], run: int
) -> Verifier:
    """Reads what was written and checks it."""
    verifier = Verifier(run)
    reader = Reader(verifier, marked=spec.template is None, latency=False)
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
            "Reading back",
            lambda: Progress(reader.read.records, reader.read.size),
            total,
        )
        await reader.until(consumer, at_ends(consumer, ends), patience_s=_PATIENCE_S)
        nursery.cancel_scope.cancel()
    return verifier


async def _fill(context: Context, spec: Spec, target: Target, run: int) -> int:
    """Writes the records that are then read; how many."""
    number = spec.work.records or FILL
    work = Work(number, None, None, spec.work.size)
    payloads = Payloads(run, work.size, spec.source(), spec.seed)
    sender = Sender(target.topic, target.partitions, work, payloads)
    async with (
        open_producer(context.settings.bootstrap, spec.producer, on_delivery=sender.told) as opened,
        trio.open_nursery() as nursery,
    ):
        sender.producer = opened
        nursery.start_soon(
            show_live,
            context,
            "Filling the topic",
            lambda: Progress(sender.sent.acked, sender.sent.size),
            number,
        )
        await sender.run()
        nursery.cancel_scope.cancel()
    if sender.sent.error is not None:
        raise sender.sent.error
    return number


async def consume(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    run = _run_id()
    expected = await _fill(context, spec, target, run) if target.own else None
    verifier = Verifier(run) if target.own else None
    marked = spec.template is None
    if verifier is None and spec.verified:
        marked, verifier = False, Verifier(None)
    reader = Reader(verifier if spec.verified else None, marked=marked, latency=False)
    read, cpu = reader.read, time.process_time()

    def make() -> None:
        spent = time.process_time() - cpu
        outcome.result = {
            **figures(read.records, read.size, read.seconds, spent),
            "first_record_ms": (read.first_ns - read.started_ns) / 1e6 if read.first_ns else None,
            "verified": None,
        }
        found = reader.verifier
        if found is not None and (target.own or found.found):
            whole = expected is not None and read.records >= expected
            outcome.result |= _checked(found, expected if whole or ended else None)

    ended = False
    outcome.make = make
    async with (
        open_consumer(context.settings.bootstrap, spec.consumer) as consumer,
        trio.open_nursery() as nursery,
    ):
        ends = await _ends(consumer, target)
        wanted = spec.work.records if not target.own else None
        at_end = at_ends(consumer, ends)
        if spec.consumer.get("group.id"):
            consumer.subscribe([target.topic])
            total = sum(ends.values())
            finished: Callable[[], bool] = lambda: read.records >= (wanted or total)
        else:
            consumer.assign(ends)
            consumer.seek_to_beginning()
            finished = at_end if wanted is None else lambda: read.records >= wanted or at_end()
        nursery.start_soon(
            show_live,
            context,
            "Consuming",
            lambda: Progress(read.records, read.size),
            wanted or expected,
        )
        patience_s = context.args.timeout / 1000
        whole = await reader.until(consumer, finished, patience_s=patience_s)
        ended = True
        nursery.cancel_scope.cancel()
    make()
    outcome.make = lambda: None
    if not whole:
        context.say(f"No record came for {patience_s:g} s.")


async def end_to_end(context: Context, spec: Spec, target: Target, outcome: Outcome) -> None:
    run = _run_id()
    payloads = Payloads(run, spec.work.size, spec.source(), spec.seed)
    sender = Sender(target.topic, target.partitions, spec.work, payloads)
    verifier = Verifier(run)
    reader = Reader(verifier, marked=spec.template is None, latency=True)
    sent, read, cpu = sender.sent, reader.read, time.process_time()
    reader.measured_from = lambda: sent.started_ns or 1 << 62
    if context.args.one_at_a_time:

        async def arrived(number: int) -> None:
            while verifier.found < number - sent.failed:
                await reader.arrived.wait()

        sender.before_next = arrived

    def make() -> None:
        spent = time.process_time() - cpu
        outcome.error = sent.error
        outcome.result = {
            **figures(verifier.found - spec.work.warmup, sent.size, sent.seconds, spent),
            "failed": sent.failed,
            **_latency(read.latency, "Latency, ms, from when a record was due to its being read"),
            **_checked(verifier, sender.numbered - sent.failed if sender.done.is_set() else None),
        }

    outcome.make = make
    async with (
        open_consumer(context.settings.bootstrap, spec.consumer) as consumer,
        open_producer(context.settings.bootstrap, spec.producer, on_delivery=sender.told) as opened,
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
            "End to end",
            lambda: Progress(read.latency.count, sent.size, read.latency),
            spec.work.records,
        )
        nursery.start_soon(sender.run)

        def finished() -> bool:
            return sender.done.is_set() and verifier.found >= sender.numbered - sent.failed

        while not await reader.until(consumer, finished, patience_s=_PATIENCE_S):
            if sender.done.is_set():
                break
        nursery.cancel_scope.cancel()
    make()
    outcome.make = lambda: None
