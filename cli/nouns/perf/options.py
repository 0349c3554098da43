"""What the commands of `pk perf` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import Compression
from pk.cli.command_line.values import Pair, config_pair, count

Words = Annotated[
    tuple[str, ...],
    Argument(
        "PROPERTY",
        help="Config keys of the client as KEY=VALUE, the same as after -X.",
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
        help="So many records.",
    ),
]

Duration = Annotated[
    str | None,
    Option("--duration", value="TIME", help="For so long, such as 30s or 5m (default: 10s)."),
]

ProducerProperties = Annotated[
    tuple[Pair, ...],
    Option(
        "--producer-props",
        value="KEY=VALUE",
        parser=config_pair,
        help="As -X; more of them may follow, as for Apache's tool.",
        complete="client-key",
        hidden=True,
    ),
]

NoVerify = Annotated[
    bool,
    Option(
        "--no-verify",
        help="Do not look whether each record comes back once, whole and in its place.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class OwnTopic:
    """The topic: an existing one, or one made for the test and deleted at the end."""

    topic: Annotated[
        str | None,
        Option(
            "-t",
            "--topic",
            value="TOPIC",
            help="An existing topic (default: one of its own, deleted at the end).",
            complete="topic",
        ),
    ] = None
    partitions: Annotated[
        int,
        Option(
            "-p", "--partitions", value="N", parser=count, help="Partitions of its own topic (1)."
        ),
    ] = 1
    replication_factor: Annotated[
        int | None,
        Option(
            "-r",
            "--replication-factor",
            value="N",
            parser=count,
            help="Replicas of its own topic (default: the broker's).",
        ),
    ] = None
    topic_configs: Annotated[
        tuple[Pair, ...],
        Option(
            "-c",
            "--config",
            value="KEY=VALUE",
            parser=config_pair,
            help="A config of its own topic; may be given again.",
            complete="topic-config",
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class MadeRecords:
    """What the records are."""

    size: Annotated[
        int | None,
        Option(
            "--size",
            "--record-size",
            "--message-size",
            value="BYTES",
            parser=count,
            help="Bytes of each value, from 28 on (default: 100).",
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
        Option("-k", "--key", value="TEMPLATE", help="Keys from a template; goes with --fake."),
    ] = None
    seed: Annotated[int | None, Option("--seed", value="N", help="The same records each time.")] = (
        None
    )


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
            help="none, gzip, snappy, lz4 or zstd.",
        ),
    ] = None
    acks: Annotated[
        Literal["0", "1", "-1", "all"] | None,
        Option("--acks", value="ACKS", help="Whose acknowledgement to wait for (default: all)."),
    ] = None
    warmup: Annotated[
        int | None,
        Option(
            "--warmup",
            "--warmup-records",
            value="N",
            parser=count,
            help="So many records before it is measured.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """What becomes of the result."""

    compare: Annotated[
        str | None,
        Option(
            "--compare",
            value="FILE",
            help="Show this run beside another, whose result `-f json` wrote to this file.",
            complete="file",
        ),
    ] = None
    reporting_interval: Annotated[
        int | None,
        Option(
            "--reporting-interval",
            value="MS",
            parser=count,
            help=(
                "A line on standard error each so many ms (default on a terminal: one line, drawn "
                "anew)."
            ),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PerfProduce(Result, ProducerOptions, MadeRecords, OwnTopic):
    """What `pk perf produce` takes."""

    property: Words = ()
    num: RecordsWanted = None
    duration: Duration = None
    rate: Annotated[
        float | None,
        Option(
            "--rate",
            "--throughput",
            value="N",
            help=(
                "Records a second, due at fixed times whatever the brokers do: latency counts from "
                "when a record was due (default, or -1: as fast as they go)."
            ),
        ),
    ] = None
    producer_props: ProducerProperties = ()
    no_verify: NoVerify = False


@dataclass(frozen=True, kw_only=True)
class PerfConsume(Result, MadeRecords, OwnTopic):
    """What `pk perf consume` takes."""

    property: Words = ()
    num: RecordsWanted = None
    group: Annotated[
        str | None,
        Option(
            "-g",
            "--group",
            value="GROUP",
            help="Read as a member of this group; nothing is committed.",
            complete="group",
        ),
    ] = None
    timeout: Annotated[
        int,
        Option(
            "--timeout",
            "--timeout-ms",
            value="MS",
            parser=count,
            help="Stop when no record came for so long (10000).",
        ),
    ] = 10000
    compression: Annotated[
        Compression | None,
        Option(
            "-z",
            "--compression",
            value="CODEC",
            help="How the records of its own topic are compressed.",
        ),
    ] = None
    no_verify: NoVerify = False


@dataclass(frozen=True, kw_only=True)
class EndToEnd(Result, ProducerOptions, MadeRecords, OwnTopic):
    """What `pk perf e2e` takes."""

    property: Words = ()
    num: RecordsWanted = None
    duration: Duration = None
    rate: Annotated[
        float,
        Option(
            "--rate",
            value="N",
            help=(
                "Records a second, due at fixed times whatever the brokers do (1000; -1: as fast as "
                "they go)."
            ),
        ),
    ] = 1000.0
    one_at_a_time: Annotated[
        bool,
        Option(
            "--one-at-a-time",
            help="The next record when the last has been read, as Apache's tool does.",
        ),
    ] = False
    producer_props: ProducerProperties = ()
