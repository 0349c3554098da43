"""The commands of `pk perf`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.perf.options import EndToEnd, PerfConsume, PerfProduce
from pk.cli.nouns.perf.rows import ReadResult, ResultRow, SentResult
from pk.cli.options.option_sets import Change, Connection, Listing

PERF = Noun("perf")


PERF.command(
    "produce",
    "producer",
    help="Measure how fast records are acknowledged, and the latency of each.",
    worker="perf:produce",
    options=PerfProduce,
    takes=(Change, Listing, Connection),
    examples=(
        "pk perf produce -n 20000",
        "pk perf produce --rate 2000 --duration 2s --size 1000 -p 6 -z zstd -f json",
        "pk perf produce --fake orders --rate 500 --duration 1s",
        (
            "pk perf produce -t orders --num-records 1000 --record-size 100 --throughput -1 "
            "--producer-props acks=1 linger.ms=10"
        ),
    ),
    notes=(
        "The test topic is deleted at the end, also after Ctrl-C. Lost, repeated, reordered or "
        "corrupt records and failed sends make the command fail. The figures are those of one "
        "process on one core; to measure more than a Python client can do, run several."
    ),
    shows=SentResult,
    rows=ResultRow,
    screen="streams",
    shows_waits=True,
)


PERF.command(
    "consume",
    "consumer",
    help="Measure how fast records are read.",
    worker="perf:consume",
    options=PerfConsume,
    takes=(Change, Listing, Connection),
    examples=("pk perf consume -n 20000 -p 6", "pk perf consume -t orders --messages 100"),
    notes=(
        "Without -t, a test topic is created and filled first, which is not measured. An "
        "existing topic is read from its start; records that `pk perf` wrote are verified. The "
        "test topic is deleted at the end, also after Ctrl-C. Lost, repeated, reordered or "
        "corrupt records and failed sends make the command fail. The figures are those of one "
        "process on one core; to measure more than a Python client can do, run several."
    ),
    shows=ReadResult,
    rows=ResultRow,
    screen="streams",
    shows_waits=True,
)


PERF.command(
    "e2e",
    "end-to-end",
    help="Measure how long records take from their due time until they are read.",
    worker="perf:end_to_end",
    options=EndToEnd,
    takes=(Change, Listing, Connection),
    examples=(
        "pk perf e2e --rate 500 --duration 2s",
        "pk perf e2e --one-at-a-time -n 500 --acks all",
    ),
    notes=(
        "The test topic is deleted at the end, also after Ctrl-C. Lost, repeated, reordered or "
        "corrupt records and failed sends make the command fail. The figures are those of one "
        "process on one core; to measure more than a Python client can do, run several."
    ),
    shows=SentResult,
    rows=ResultRow,
    screen="streams",
    shows_waits=True,
)
