"""Turns the options of `pk perf` into a plan."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from pk.cli.config_keys.units import config_value
from pk.cli.exits import Unusable
from pk.cli.nouns.perf.comparison import read_result
from pk.cli.nouns.perf.options import EndToEnd, PerfConsume, PerfProduce
from pk.cli.nouns.perf.payload import MARK_BYTES
from pk.cli.nouns.perf.run import Work
from pk.cli.phrases import join
from pk.cli.records.fake import Fake, fake
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.net.client.config import ConsumerConfig, ProducerConfig

_SIZE = 100
_DURATION_S = 10.0
FILL = 500_000
"""The number of records with which a temporary topic is filled before it is read."""


PerfOptions = PerfProduce | PerfConsume | EndToEnd


class Spec(NamedTuple):
    """The measurement that the options request."""

    test: str
    options: PerfOptions
    work: Work
    producer: dict[str, object]
    consumer: dict[str, object]
    verified: bool
    before: dict[str, Any] | None
    """The result to compare with."""

    one_at_a_time: bool
    timeout_ms: int
    """How long consuming waits for a record."""

    def source(self) -> Fake | None:
        """The source of records for --fake; None without it."""
        options = self.options
        if options.fake is None:
            return None
        return fake(options.fake, key=options.key, seed=options.seed)


class Target(NamedTuple):
    """The topic that is measured."""

    topic: str
    partitions: int
    own: bool


def spec_of(context: Context, options: PerfOptions) -> Spec:
    """Check the options for conflicts, and make the plan. Raises Unusable."""
    options = _with_topic(options)
    _check(context, options)
    if isinstance(options, PerfConsume):
        test, producer_props = "consume", ()
        settings: dict[str, Any] = {
            "compression.type": options.compression,
            "batch.size": str(1 << 17),
        }
        group = options.group
    else:
        test = "e2e" if isinstance(options, EndToEnd) else "produce"
        producer_props = options.producer_props
        settings = {"compression.type": options.compression, "acks": options.acks}
        if test == "e2e":
            settings["linger.ms"] = "0"
        group = None
    work = _work(options)
    take_properties(context, producer_props, options.property)
    about = context.about = ConsumerConfig if test == "consume" else ProducerConfig
    ours: dict[str, object] = {k: v for k, v in settings.items() if v is not None}
    producer = client_config(ProducerConfig, context.settings, ours, about=about)
    more: dict[str, object] = {
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": "false",
    }
    if group:
        more["group.id"] = group
    consumer = client_config(ConsumerConfig, context.settings, more, about=about)
    before = read_result(options.compare) if options.compare else None
    if options.fake:
        fake(options.fake, key=options.key)  # report a mistake in it before anything is created
    return Spec(
        test,
        options,
        work,
        producer,
        consumer,
        isinstance(options, EndToEnd) or not options.no_verify,
        before,
        isinstance(options, EndToEnd) and options.one_at_a_time,
        options.timeout if isinstance(options, PerfConsume) else 0,
    )


def _check(context: Context, options: PerfOptions) -> None:
    """Raise Unusable for options that cannot be combined."""
    if options.key is not None and options.fake is None:
        raise Unusable("-k is a template; it needs --fake.")
    if options.size is not None and options.fake is not None:
        raise Unusable("--size and --fake cannot be combined: the template determines the size.")
    if (options.size or _SIZE) < MARK_BYTES:
        raise Unusable(
            f"--size must be at least {MARK_BYTES} bytes, to hold what verifies a record."
        )
    if options.topic is not None:
        for name, flag in (
            ("partitions", "-p"),
            ("replication_factor", "-r"),
            ("topic_configs", "-c"),
        ):
            if context.given(name):
                raise Unusable(f"{flag} is for a temporary topic; {options.topic} already exists.")
    if options.topic is not None and isinstance(options, PerfConsume):
        for name in ("size", "fake", "key", "seed", "compression"):
            if context.given(name):
                raise Unusable(
                    f"--{name} is for the records of a temporary topic; {options.topic} has its "
                    "own."
                )
    if isinstance(options, EndToEnd) and options.one_at_a_time and context.given("rate"):
        raise Unusable("--one-at-a-time and --rate cannot be combined.")


def _work(options: PerfOptions) -> Work:
    number, size = options.num, options.size or _SIZE
    if isinstance(options, PerfConsume):
        return Work(number, None, None, size)
    rate = options.rate if options.rate is not None and options.rate > 0 else None
    if isinstance(options, EndToEnd) and options.one_at_a_time:
        rate = None
    duration_s = options.duration.s if options.duration else None
    if number is None and duration_s is None:
        duration_s = _DURATION_S
    if rate is not None and duration_s is not None:
        # Send all records that are due in that time, late if necessary, so that a stall at the end
        # counts too.
        due = max(1, round(rate * duration_s))
        number = due if number is None else min(number, due)
        duration_s = None
    return Work(number, duration_s, rate, size, options.warmup or 0)


def _with_topic(options: PerfOptions) -> PerfOptions:
    """The options, with a word without `=` as the topic. Raises Unusable."""
    names = [word for word in options.property if "=" not in word]
    if not names:
        return options
    if len(names) > 1 or options.topic is not None:
        named = join([repr(name) for name in ([options.topic] if options.topic else []) + names])
        raise Unusable(f"Name one topic, not {named}; client configs are KEY=VALUE.")
    properties = tuple(word for word in options.property if "=" in word)
    return replace(options, topic=names[0], property=properties)


def take_properties(
    context: Context, producer_props: Iterable[tuple[str, str]], words: Iterable[str]
) -> None:
    """Treat Apache's --producer-props and the KEY=VALUE words like -X. Raises Unusable."""
    more = dict(producer_props)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Unusable(f"{word!r} is not KEY=VALUE.")
        more[name] = config_value(name, value)
    if more:
        settings = context.settings
        context.use(settings._replace(given={**settings.given, **more}))
