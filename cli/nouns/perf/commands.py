"""`pk perf`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing
from pk.cli.nouns.perf.options import EndToEnd, PerfConsume, PerfProduce

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

PERF = Noun("perf")


@PERF.command(
    "produce",
    "producer",
    takes=(Change, Listing, Connection),
    examples=(
        "pk perf produce -n 20000",
        "pk perf produce --rate 2000 --duration 2s --size 1000 -p 6 -z zstd -f json",
        "pk perf produce --fake orders --rate 500 --duration 1s",
        "pk perf produce -t orders --num-records 1000 --record-size 100 --throughput -1 --producer-props acks=1 linger.ms=10",
    ),
    notes=(
        "The topic of its own is deleted at the end, also after Ctrl-C. Lost, repeated, "
        "reordered or corrupt records, and failed sends, make the command fail. Figures are "
        "one process's on one core: above what a Python client can do, start several."
    ),
    shows=(
        "test at topic own_topic:bool partitions:int replication_factor:int? record_size:int? "
        "template? rate:num? acks? compression? config:<any> pk bootstrap interrupted:bool "
        "records:int bytes:int seconds:num records_per_second:num mb_per_second:num "
        "client_cpu_seconds:num failed:int latency_ms:{min:num mean:num p50:num p95:num "
        "p99:num p99_9:num max:num}? histogram:[{up_to_ms:num records:int}] "
        "verified:{checked:int lost:int repeated:int reordered:int corrupt:int}? "
        "compared:[{figure before:num now:num change_percent:num? verdict}]?"
    ),
    rows=(
        "test at topic own_topic:bool partitions:int replication_factor:int? record_size:int? "
        "template? rate:num? acks? compression? pk bootstrap interrupted:bool records:int "
        "bytes:int seconds:num records_per_second:num mb_per_second:num "
        "client_cpu_seconds:num failed:int~ first_record_ms:num?~ min:num? mean:num? p50:num? "
        "p95:num? p99:num? p99_9:num? max:num? checked:int~ lost:int~ repeated:int~ "
        "reordered:int~ corrupt:int~"
    ),
)
def produce(context: "Context", options: PerfProduce) -> Running:
    """How fast records are acknowledged, and how long each takes."""
    from pk.cli.nouns.perf.perf import produce

    return produce(context, options)


@PERF.command(
    "consume",
    "consumer",
    takes=(Change, Listing, Connection),
    examples=("pk perf consume -n 20000 -p 6", "pk perf consume -t orders --messages 100"),
    notes=(
        "Without -t a topic of its own is filled first, which is not measured. An existing "
        "topic is read from its start; records that `pk perf` wrote are verified. The topic "
        "of its own is deleted at the end, also after Ctrl-C. Lost, repeated, reordered or "
        "corrupt records, and failed sends, make the command fail. Figures are one process's "
        "on one core: above what a Python client can do, start several."
    ),
    shows=(
        "test at topic own_topic:bool partitions:int replication_factor:int? record_size:int? "
        "template? rate:num? acks? compression? config:<any> pk bootstrap interrupted:bool "
        "records:int bytes:int seconds:num records_per_second:num mb_per_second:num "
        "client_cpu_seconds:num first_record_ms:num? verified:{checked:int lost:int "
        "repeated:int reordered:int corrupt:int}? compared:[{figure before:num now:num "
        "change_percent:num? verdict}]?"
    ),
    rows=(
        "test at topic own_topic:bool partitions:int replication_factor:int? record_size:int? "
        "template? rate:num? acks? compression? pk bootstrap interrupted:bool records:int "
        "bytes:int seconds:num records_per_second:num mb_per_second:num "
        "client_cpu_seconds:num failed:int~ first_record_ms:num?~ min:num? mean:num? p50:num? "
        "p95:num? p99:num? p99_9:num? max:num? checked:int~ lost:int~ repeated:int~ "
        "reordered:int~ corrupt:int~"
    ),
)
def consume(context: "Context", options: PerfConsume) -> Running:
    """How fast records are read."""
    from pk.cli.nouns.perf.perf import consume

    return consume(context, options)


@PERF.command(
    "e2e",
    "end-to-end",
    takes=(Change, Listing, Connection),
    examples=(
        "pk perf e2e --rate 500 --duration 2s",
        "pk perf e2e --one-at-a-time -n 500 --acks all",
    ),
    notes=(
        "The topic of its own is deleted at the end, also after Ctrl-C. Lost, repeated, "
        "reordered or corrupt records, and failed sends, make the command fail. Figures are "
        "one process's on one core: above what a Python client can do, start several."
    ),
    shows=(
        "test at topic own_topic:bool partitions:int replication_factor:int? record_size:int? "
        "template? rate:num? acks? compression? config:<any> pk bootstrap interrupted:bool "
        "records:int bytes:int seconds:num records_per_second:num mb_per_second:num "
        "client_cpu_seconds:num failed:int latency_ms:{min:num mean:num p50:num p95:num "
        "p99:num p99_9:num max:num}? histogram:[{up_to_ms:num records:int}] "
        "verified:{checked:int lost:int repeated:int reordered:int corrupt:int}? "
        "compared:[{figure before:num now:num change_percent:num? verdict}]?"
    ),
    rows=(
        "test at topic own_topic:bool partitions:int replication_factor:int? record_size:int? "
        "template? rate:num? acks? compression? pk bootstrap interrupted:bool records:int "
        "bytes:int seconds:num records_per_second:num mb_per_second:num "
        "client_cpu_seconds:num failed:int~ first_record_ms:num?~ min:num? mean:num? p50:num? "
        "p95:num? p99:num? p99_9:num? max:num? checked:int~ lost:int~ repeated:int~ "
        "reordered:int~ corrupt:int~"
    ),
)
def end_to_end(context: "Context", options: EndToEnd) -> Running:
    """How long records take from when they were due to when they are read."""
    from pk.cli.nouns.perf.perf import end_to_end

    return end_to_end(context, options)
