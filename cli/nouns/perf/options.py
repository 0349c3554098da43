"""Options of the larger commands of `pk perf`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.option_sets import (
    CODECS,
    Compression,
    Seed,
    apache_ms_option,
    replication_factor_option,
    topic_config_option,
)
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, config_pair, count, span
from pk.core.durations import Duration

Words = Annotated[
    tuple[str, ...],
    Argument(
        "TOPIC|KEY=VALUE",
        help="An existing topic, as after -t, and client configs as KEY=VALUE, as after -X.",
        complete="client-key",
    ),
]

RecordsWanted = Annotated[
    int | None,
    Option(
        "-n",
        "--num",
        "--num-records",
        "--num-messages",
        "--messages",
        "--max-messages",
        value="N",
        parser=count,
        help="The number of records.",
    ),
]

RunTime = Annotated[
    Duration | None,
    Option(
        "--duration",
        value="DURATION",
        parser=span,
        help="How long to run, such as 30s or 5m (default: 10s).",
    ),
]

ProducerProperties = Annotated[
    tuple[Pair, ...],
    Option(
        "--producer-props",
        value="KEY=VALUE",
        parser=config_pair,
        help="As -X; several may follow, as in Apache's tool.",
        complete="client-key",
        hidden=True,
    ),
]

NoVerify = Annotated[
    bool,
    Option(
        "--no-verify",
        help="Do not check that each record arrives once, intact and in order.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class OwnTopic:
    """The topic: an existing one, or a temporary one that is created and then deleted."""

    topic: Annotated[
        str | None,
        Option(
            "-t",
            "--topic",
            value="TOPIC",
            help="An existing topic (default: a test topic, deleted at the end).",
            complete="topic",
        ),
    ] = None
    partitions: Annotated[
        int,
        Option(
            "-p", "--partitions", value="N", parser=count, help="Partitions of the test topic (1)."
        ),
    ] = 1
    replication_factor: Annotated[
        int | None,
        replication_factor_option("Replicas of the test topic (default: the broker's)."),
    ] = None
    topic_configs: Annotated[
        tuple[Pair, ...],
        topic_config_option("A config of the test topic; repeatable."),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class GeneratedRecords:
    """Options for the content of the records."""

    size: Annotated[
        int | None,
        Option(
            "--size",
            "--record-size",
            "--message-size",
            value="BYTES",
            parser=count,
            help="Bytes of each value, at least 28 (default: 100).",
        ),
    ] = None
    fake: Annotated[
        str | None,
        Option(
            "--fake",
            value="TEMPLATE",
            help="Values from a template, as in `pk produce --fake` (`pk help fake`).",
            complete="fake",
        ),
    ] = None
    key: Annotated[
        str | None,
        Option("-k", "--key", value="TEMPLATE", help="Keys from a template; needs --fake."),
    ] = None
    seed: Seed = None


@dataclass(frozen=True, kw_only=True)
class ProducerOptions:
    """How the producer sends."""

    compression: Annotated[
        Compression | None,
        Option(
            "-z",
            "--compression",
            "--compression-codec",
            value="CODEC",
            help=f"The compression: {CODECS} (default: none).",
        ),
    ] = None
    acks: Annotated[
        Literal["0", "1", "-1", "all"] | None,
        Option(
            "--acks",
            value="ACKS",
            help="Acknowledgements to wait for: 0, 1 or all, also -1 (default: all).",
        ),
    ] = None
    warmup: Annotated[
        int | None,
        Option(
            "--warmup",
            "--warmup-records",
            value="N",
            parser=count,
            help="Records to send before measuring.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """Options for the result."""

    compare: Annotated[
        str | None,
        Option(
            "--compare",
            value="FILE",
            help="Compare with an earlier run, whose result `-f json` wrote to this file.",
            complete="file",
        ),
    ] = None
    reporting_interval: Annotated[
        int | None,
        apache_ms_option(
            "--reporting-interval",
            help="Print a line on standard error every MS (default on a terminal: one line, "
            "redrawn).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PerfProduce(Result, ProducerOptions, GeneratedRecords, OwnTopic):
    """Options of `pk perf produce`."""

    property: Words = ()
    num: RecordsWanted = None
    duration: RunTime = None
    rate: Annotated[
        float | None,
        Option(
            "--rate",
            "--throughput",
            value="N",
            help=(
                "Records a second, due at fixed times whatever the brokers do: latency counts from "
                "when a record was due (default, or -1: no limit)."
            ),
        ),
    ] = None
    producer_props: ProducerProperties = ()
    no_verify: NoVerify = False


@dataclass(frozen=True, kw_only=True)
class PerfConsume(Result, GeneratedRecords, OwnTopic):
    """Options of `pk perf consume`."""

    property: Words = ()
    num: RecordsWanted = None
    group: Annotated[
        str | None,
        Option(
            "-g",
            "--group",
            value="GROUP",
            help="Read as a member of this group; commit nothing.",
            complete="group",
        ),
    ] = None
    timeout: Annotated[
        int,
        apache_ms_option(
            "--timeout", "--timeout-ms", help="Stop after MS without a record (default: 10s)."
        ),
    ] = 10000
    compression: Annotated[
        Compression | None,
        Option(
            "-z",
            "--compression",
            value="CODEC",
            help=f"The compression: {CODECS} (default: none).",
        ),
    ] = None
    no_verify: NoVerify = False


@dataclass(frozen=True, kw_only=True)
class EndToEnd(Result, ProducerOptions, GeneratedRecords, OwnTopic):
    """Options of `pk perf e2e`."""

    property: Words = ()
    num: RecordsWanted = None
    duration: RunTime = None
    rate: Annotated[
        float,
        Option(
            "--rate",
            value="N",
            help=(
                "Records a second, due at fixed times whatever the brokers do (1000; -1: no limit)."
            ),
        ),
    ] = 1000.0
    one_at_a_time: Annotated[
        bool,
        Option(
            "--one-at-a-time",
            help="Send a record when the last one has been read, as Apache's tool does.",
        ),
    ] = False
    producer_props: ProducerProperties = ()
