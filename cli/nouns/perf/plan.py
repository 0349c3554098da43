"""Turns the options of `pk perf` into a plan."""

from typing import Any, NamedTuple

from pk.cli.config_keys.units import config_value
from pk.cli.nouns.perf.payload import MARK_BYTES
from pk.cli.nouns.perf.report import read_result
from pk.cli.nouns.perf.run import Work
from pk.cli.positions.times import duration_ms
from pk.cli.records.fake import Fake, fake
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import Unusable
from pk.net.client.config import ConsumerConfig, ProducerConfig

_SIZE = 100
_DURATION_S = 10.0
FILL = 500_000
"""The number of records that a temporary topic is filled with before it is read."""


class Spec(NamedTuple):
    """What to measure, as the options say."""

    test: str
    work: Work
    template: str | None
    key: str | None
    seed: int | None
    producer: dict[str, object]
    consumer: dict[str, object]
    verified: bool
    before: dict[str, Any] | None
    """The result to compare with."""

    def source(self) -> Fake | None:
        if self.template is None:
            return None
        return fake(self.template, key=self.key, seed=self.seed)


class Target(NamedTuple):
    """The topic that is measured."""

    topic: str
    partitions: int
    own: bool


def spec_of(context: Context, test: str) -> Spec:
    """Checks the options against each other. Raises Unusable."""
    args = context.args
    values = args.values()
    if args.key is not None and args.fake is None:
        raise Unusable("-k is a template; it needs --fake.")
    if args.size is not None and args.fake is not None:
        raise Unusable("--size and --fake do not go together: the template determines the size.")
    size = args.size or _SIZE
    if size < MARK_BYTES:
        raise Unusable(
            f"--size must be at least {MARK_BYTES} bytes, to hold what verifies a record."
        )
    if args.topic is not None:
        for dest, name in (
            ("partitions", "-p"),
            ("replication_factor", "-r"),
            ("topic_configs", "-c"),
        ):
            if args.given(dest):
                raise Unusable(f"{name} is for a temporary topic; {args.topic} already exists.")
    if args.topic is not None and test == "consume":
        for dest in ("size", "fake", "key", "seed", "compression"):
            if args.given(dest):
                raise Unusable(
                    f"--{dest} is for the records of a temporary topic; {args.topic} has its own."
                )
    if values.get("one_at_a_time") and args.given("rate"):
        raise Unusable("--one-at-a-time and --rate do not go together.")
    work = _work(values, test, size)
    take_properties(context)
    context.about = ConsumerConfig if test == "consume" else ProducerConfig
    ours: dict[str, object] = {"linger.ms": "0"} if test == "e2e" else {}
    if test == "consume":
        ours |= {"batch.size": str(1 << 17)}
    for dest, key in (("compression", "compression.type"), ("acks", "acks")):
        if values.get(dest) is not None:
            ours[key] = values[dest]
    about = context.about
    producer = client_config(ProducerConfig, context.settings, ours, about=about)
    more: dict[str, object] = {
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": "false",
    }
    if values.get("group"):
        more["group.id"] = values["group"]
    consumer = client_config(ConsumerConfig, context.settings, more, about=about)
    before = read_result(args.compare) if args.compare else None
    if args.fake:
        fake(args.fake, key=args.key)  # report a mistake in it before anything is created
    return Spec(
        test,
        work,
        args.fake,
        args.key,
        args.seed,
        producer,
        consumer,
        not values.get("no_verify"),
        before,
    )


def _work(values: dict[str, Any], test: str, size: int) -> Work:
    rate = values.get("rate")
    rate = rate if rate is not None and rate > 0 else None
    if values.get("one_at_a_time"):
        rate = None
    number = values["num"]
    duration_s: float | None = None
    if values.get("duration"):
        try:
            duration_s = duration_ms(values["duration"]) / 1000
        except ValueError as e:
            raise Unusable(f"--duration: {e}.") from None
    if test == "consume":
        return Work(number, None, None, size)
    if number is None and duration_s is None:
        duration_s = _DURATION_S
    if rate is not None and duration_s is not None:
        # Send everything due in that time, late if necessary, so that a stall at the end counts too.
        due = max(1, round(rate * duration_s))
        number = due if number is None else min(number, due)
        duration_s = None
    return Work(number, duration_s, rate, size, values["warmup"] or 0)


def take_properties(context: Context) -> None:
    """Treats the KEY=VALUE words and Apache's --producer-props like -X."""
    more = dict(context.args.values().get("producer_props") or ())
    for word in context.args.values()["property"]:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Unusable(f"{word!r} is not KEY=VALUE; use -t to name a topic.")
        more[name] = config_value(name, value)
    if more:
        settings = context.settings
        context.use(settings._replace(given={**settings.given, **more}))
