"""`pk perf`: measures producing, consuming and both together, on a temporary topic or an existing
one.

Each command has a plan (`plan`), a measurement (`measure`, `run`), a check of every record
(`payload`) and a result (`report`). A temporary topic is always deleted at the end.
"""

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from pk.cli.cluster.topics import existing_topics, is_unknown
from pk.cli.exits import CommandError, Exit
from pk.cli.nouns.perf import measure
from pk.cli.nouns.perf.comparison import Comparison, compare
from pk.cli.nouns.perf.measure import Outcome
from pk.cli.nouns.perf.options import EndToEnd, PerfConsume, PerfProduce
from pk.cli.nouns.perf.plan import FILL, PerfOptions, Spec, Target, spec_of
from pk.cli.nouns.perf.report import Measured, document, now_text, result_of
from pk.cli.nouns.perf.rows import ResultRow, Settings
from pk.cli.output.rows import columns
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import exit_code, sentence
from pk.cli.terminal.signals import listen_for_interrupts
from pk.core import __version__
from pk.net.client.admin import Admin
from pk.net.client.config import ClientConfig, ConsumerConfig, ProducerConfig, keys
from pk.net.client.errors import ClientError
from pk.net.client.results import NewTopic


@asynccontextmanager
async def _target(context: Context, options: PerfOptions) -> AsyncGenerator[Target]:
    """The topic to measure during the block: the named one, which must exist, or a temporary one,
    deleted at the end."""
    admin = await context.admin()
    if options.topic is not None:
        (found,) = await existing_topics(context, admin, [options.topic])
        yield Target(found.name, len(found.partitions), False)
        return
    name = f"pk-perf-{secrets.token_hex(4)}"
    new = NewTopic(
        name,
        options.partitions,
        options.replication_factor or -1,
        configs=dict(options.topic_configs),
    )
    made = True  # if the creation is interrupted, the topic may exist
    try:
        answers = await admin.create_topics([new])
        made = name in answers.ok
        answers.value(name)
        yield Target(name, options.partitions, True)
    finally:
        if made:
            await _delete(context, admin, name)


async def _delete(context: Context, admin: Admin, name: str) -> None:
    """Delete the temporary topic, even during an interrupt."""
    with trio.CancelScope(shield=True, deadline=trio.current_time() + 15):
        try:
            left = (await admin.delete_topics([name])).errors.get(name)
        except ClientError as e:
            left = e
        if left is None or is_unknown(left):
            return
    context.say(f"The topic {name} may still exist; `pk topics delete {name}` deletes it.")


def _plan_shown(context: Context, spec: Spec) -> None:
    """Print what would be done. Formats for programs get an empty result."""
    context.show_nothing(columns(ResultRow))
    options, work = spec.options, spec.work
    topic = options.topic or f"a temporary topic with {count(options.partitions, 'partition')}"
    what = f"values of {spec.options.fake}" if spec.options.fake else f"values of {work.size} B"
    if work.records is not None:
        much = count(work.records, "record")
    elif work.duration_s:
        much = f"records for {work.duration_s:g} s"
    elif options.topic:  # existing records may have any size
        context.say(f"Would {spec.test} the records of {options.topic}; nothing was done.")
        return
    else:
        much = count(FILL, "record")
    pace = f", {work.rate:g} a second" if work.rate else ""
    does = "send and read back" if spec.test == "e2e" else spec.test
    context.say(f"Would {does} {much}{pace}, {what}, in {topic}; nothing was done.")


async def produce(context: Context, options: PerfProduce) -> int | None:
    """Run `pk perf produce`."""
    return await _perf(context, options, measure.produce)


async def consume(context: Context, options: PerfConsume) -> int | None:
    """Run `pk perf consume`."""
    return await _perf(context, options, measure.consume)


async def end_to_end(context: Context, options: EndToEnd) -> int | None:
    """Run `pk perf e2e`."""
    return await _perf(context, options, measure.end_to_end)


async def _perf(
    context: Context, options: PerfOptions, run: Callable[[Context, Spec, Target, Outcome], Any]
) -> int | None:
    spec = spec_of(context, options)
    options = spec.options
    if context.change.dry_run:
        _plan_shown(context, spec)
        return None
    if spec.test != "consume" or options.topic is None:
        context.allow()
    at = now_text()
    async with _target(context, options) as target:
        with listen_for_interrupts() as interrupts:
            outcome = Outcome(interrupts.or_until)
            await run(context, spec, target, outcome)
    measured = outcome.measured
    if measured is None:
        raise KeyboardInterrupt
    settings = _settings(context, spec, target, at, outcome.interrupted)
    result = result_of(settings, measured)
    compared: Comparison | None = None
    if spec.before is not None:
        compared = compare(options.compare or "", spec.before, result)
    width = context.streams.width if context.streams.out_terminal else None
    context.show_document(document(result, _title(settings), measured, compared, width))
    if outcome.interrupted:
        return Exit.INTERRUPTED
    _judge(measured, outcome.error)
    return None


def _settings(context: Context, spec: Spec, target: Target, at: str, interrupted: bool) -> Settings:
    kind: type[ClientConfig] = ConsumerConfig if spec.test == "consume" else ProducerConfig
    given = {k: v for k, v in context.settings.given.items() if k in keys(kind)}
    producing = spec.test != "consume" or target.own
    return {
        "test": spec.test,
        "at": at,
        "topic": target.topic,
        "own_topic": target.own,
        "partitions": target.partitions,
        "replication_factor": spec.options.replication_factor if target.own else None,
        "record_size": None if spec.options.fake or not producing else spec.work.size,
        "template": spec.options.fake,
        "rate": spec.work.rate,
        "acks": str(spec.producer.get("acks", "all")) if producing else None,
        "compression": str(spec.producer.get("compression.type", "none")) if producing else None,
        "config": given,
        "pk": __version__,
        "bootstrap": context.settings.bootstrap,
        "interrupted": interrupted,
    }


def _title(settings: Settings) -> str:
    what = {"produce": "Produced to", "consume": "Consumed from", "e2e": "End to end through"}
    parts = [f"{what[settings['test']]} {count(settings['partitions'], 'partition')}"]
    if settings["record_size"] is not None:
        parts.append(f"{settings['record_size']:,} B a record")
    if settings["template"] is not None:
        shown = settings["template"]
        parts.append(f"template {shown if len(shown) <= 30 else f'{shown[:29]}…'}")
    if settings["test"] != "consume":
        rate = settings["rate"]
        parts.append(f"{rate:,g} a second" if rate else "as fast as possible")
        parts.append(f"acks={settings['acks']}")
    if settings["compression"] not in (None, "none"):
        parts.append(str(settings["compression"]))
    if settings["interrupted"]:
        parts.append("INTERRUPTED")
    return ", ".join(parts)


def _judge(measured: Measured, error: Exception | None) -> None:
    """Raise CommandError if records could not be written, or did not come back as they were
    sent."""
    if measured.failed:
        assert error is not None
        raise CommandError(
            f"{count(measured.failed, 'record')} could not be written: {sentence(error)}",
            exit_code(error),
        )
    verified = measured.verified or {}
    faults = [f"{n:,} {kind}" for kind, n in verified.items() if kind != "checked" and n]
    if faults:
        raise CommandError(f"The records read are not those that were sent: {', '.join(faults)}.")
