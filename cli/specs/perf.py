"""`pk perf`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CHANGE, COMPRESSIONS, CONNECTION, LISTING

_SHOWN = (
    "test at topic own_topic:bool partitions:int replication_factor:int? record_size:int? template? rate:num? acks? "
    "compression? config:<any> pk bootstrap interrupted:bool records:int bytes:int seconds:num "
    "records_per_second:num mb_per_second:num client_cpu_seconds:num "
)
_TIMED = (
    "latency_ms:{min:num mean:num p50:num p95:num p99:num p99_9:num max:num}? "
    "histogram:[{up_to_ms:num records:int}] "
)
_CHECKED = (
    "verified:{checked:int lost:int repeated:int reordered:int corrupt:int}? "
    "compared:[{figure before:num now:num change_percent:num? verdict}]?"
)
_ROW = (
    "test at topic own_topic:bool partitions:int replication_factor:int? record_size:int? template? rate:num? acks? "
    "compression? pk bootstrap interrupted:bool records:int bytes:int seconds:num records_per_second:num "
    "mb_per_second:num client_cpu_seconds:num failed:int~ first_record_ms:num?~ min:num? mean:num? p50:num? p95:num? "
    "p99:num? p99_9:num? max:num? checked:int~ lost:int~ repeated:int~ reordered:int~ corrupt:int~"
)

_WHERE = (
    Option(
        "-t",
        "--topic",
        value="TOPIC",
        help="An existing topic (default: one of its own, deleted at the end).",
        complete="topic",
    ),
    Option(
        "-p",
        "--partitions",
        value="N",
        kind="count",
        default=1,
        help="Partitions of its own topic (1).",
    ),
    Option(
        "-r",
        "--replication-factor",
        value="N",
        kind="count",
        help="Replicas of its own topic (default: the broker's).",
    ),
    Option(
        "-c",
        "--config",
        value="KEY=VALUE",
        kind="config",
        repeat=True,
        dest="topic_configs",
        help="A config of its own topic; may be given again.",
        complete="topic-config",
    ),
)
_NUMBER = Option(
    "-n",
    "--num",
    "--num-records",
    "--num-messages",
    "--messages",
    "--max-messages",
    value="N",
    kind="count",
    help="So many records.",
)
_DURATION = Option(
    "--duration", value="TIME", help="For so long, such as 30s or 5m (default: 10s)."
)
_RATE = Option(
    "--rate",
    "--throughput",
    value="N",
    kind="number",
    help="Records a second, due at fixed times whatever the brokers do: latency counts from when a record "
    "was due (default, or -1: as fast as they go).",
)
_E2E_RATE = Option(
    "--rate",
    value="N",
    kind="number",
    default=1000.0,
    help="Records a second, due at fixed times whatever the brokers do (1000; -1: as fast as they go).",
)
_RECORDS = (
    Option(
        "--size",
        "--record-size",
        "--message-size",
        value="BYTES",
        kind="count",
        help="Bytes of each value, from 28 on (default: 100).",
    ),
    Option(
        "--fake",
        value="TEMPLATE",
        complete="fake",
        help="Values from a template, as in `pk produce --fake` (`pk help fake`).",
    ),
    Option("-k", "--key", value="TEMPLATE", help="Keys from a template; goes with --fake."),
    Option("--seed", value="N", kind="int", help="The same records each time."),
)
_PRODUCER = (
    Option(
        "-z",
        "--compression",
        "--compression-codec",
        value="CODEC",
        choices=COMPRESSIONS,
        help="none, gzip, snappy, lz4 or zstd.",
    ),
    Option(
        "--acks",
        value="ACKS",
        choices=("0", "1", "-1", "all"),
        help="Whose acknowledgement to wait for (default: all).",
    ),
    Option(
        "--warmup",
        "--warmup-records",
        value="N",
        kind="count",
        help="So many records before it is measured.",
    ),
)
_PROPERTIES = Option(
    "--producer-props",
    value="KEY=VALUE",
    kind="config",
    repeat=True,
    hidden=True,
    complete="client-key",
    dest="producer_props",
    help="As -X; more of them may follow, as for Apache's tool.",
)
_WORDS = Argument(
    "PROPERTY",
    many=True,
    optional=True,
    complete="client-key",
    help="Config keys of the client as KEY=VALUE, the same as after -X.",
)
_NO_VERIFY = Option(
    "--no-verify", help="Do not look whether each record comes back once, whole and in its place."
)
_RESULT = (
    Option(
        "--compare",
        value="FILE",
        help="Show this run beside another, whose result `-f json` wrote to this file.",
        complete="file",
    ),
    Option(
        "--reporting-interval",
        value="MS",
        kind="count",
        help="A line on standard error each so many ms (default on a terminal: one line, drawn anew).",
    ),
)
_NOTES = (
    "The topic of its own is deleted at the end, also after Ctrl-C. Lost, repeated, reordered or corrupt records, and "
    "failed sends, make the command fail. Figures are one process's on one core: above what a Python client can do, "
    "start several."
)

PERF = Group(
    "perf",
    "bench",
    help="Measure producing, consuming and the way from end to end, and verify every record.",
    children=(
        Command(
            "produce",
            "producer",
            help="How fast records are acknowledged, and how long each takes.",
            handler="pk.cli.nouns.perf.perf:produce",
            arguments=(_WORDS,),
            options=(
                *_WHERE,
                _NUMBER,
                _DURATION,
                _RATE,
                *_RECORDS,
                *_PRODUCER,
                _PROPERTIES,
                _NO_VERIFY,
                *_RESULT,
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk perf produce -n 20000",
                "pk perf produce --rate 2000 --duration 2s --size 1000 -p 6 -z zstd -f json",
                "pk perf produce --fake orders --rate 500 --duration 1s",
                "pk perf produce -t orders --num-records 1000 --record-size 100 --throughput -1 --producer-props acks=1 linger.ms=10",
            ),
            notes=_NOTES,
            shows=_SHOWN + "failed:int " + _TIMED + _CHECKED,
            rows=_ROW,
        ),
        Command(
            "consume",
            "consumer",
            help="How fast records are read.",
            handler="pk.cli.nouns.perf.perf:consume",
            arguments=(_WORDS,),
            options=(
                *_WHERE,
                _NUMBER,
                Option(
                    "-g",
                    "--group",
                    value="GROUP",
                    help="Read as a member of this group; nothing is committed.",
                    complete="group",
                ),
                Option(
                    "--timeout",
                    "--timeout-ms",
                    value="MS",
                    kind="count",
                    default=10_000,
                    help="Stop when no record came for so long (10000).",
                ),
                *_RECORDS,
                Option(
                    "-z",
                    "--compression",
                    value="CODEC",
                    choices=COMPRESSIONS,
                    help="How the records of its own topic are compressed.",
                ),
                _NO_VERIFY,
                *_RESULT,
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk perf consume -n 20000 -p 6",
                "pk perf consume -t orders --messages 100",
            ),
            notes="Without -t a topic of its own is filled first, which is not measured. "
            "An existing topic is read from its start; records that `pk perf` wrote are verified. "
            + _NOTES,
            shows=_SHOWN + "first_record_ms:num? " + _CHECKED,
            rows=_ROW,
        ),
        Command(
            "e2e",
            "end-to-end",
            help="How long records take from when they were due to when they are read.",
            handler="pk.cli.nouns.perf.perf:end_to_end",
            arguments=(_WORDS,),
            options=(
                *_WHERE,
                _NUMBER,
                _DURATION,
                _E2E_RATE,
                Option(
                    "--one-at-a-time",
                    help="The next record when the last has been read, as Apache's tool does.",
                ),
                *_RECORDS,
                *_PRODUCER,
                _PROPERTIES,
                *_RESULT,
                *CHANGE,
                *LISTING,
                *CONNECTION,
            ),
            examples=(
                "pk perf e2e --rate 500 --duration 2s",
                "pk perf e2e --one-at-a-time -n 500 --acks all",
            ),
            notes=_NOTES,
            shows=_SHOWN + "failed:int " + _TIMED + _CHECKED,
            rows=_ROW,
        ),
    ),
)
