"""`pk transactions find-hanging` (KIP-664): finds transactions that are open in a partition and
that no coordinator will end.

A transaction hangs if a record of it was written to a partition that its coordinator does not have
in the transaction. Then the marker is never written, the last stable offset does not advance, and
read_committed consumers wait forever. Brokers that verify partitions before an append (KIP-890)
prevent that; older ones do not.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pk.cli.cluster.partition_selection import partitions_named
from pk.cli.diagnosis.suggested_commands import cluster_words, with_words
from pk.cli.nouns.transactions.options import FindHanging
from pk.cli.nouns.transactions.rows import HangingRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count, partition_name
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context
from pk.cli.runtime.results import succeeded
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.results import ProducerState


class Candidate(NamedTuple):
    """An open transaction in a partition, without a recent record."""

    partition: TopicPartition
    producer: ProducerState


async def find_hanging(context: Context, options: FindHanging) -> None:
    """Run `pk transactions find-hanging`."""
    admin = await context.admin()
    partitions = await partitions_named(context, admin, options.topic, internal=True)
    if options.broker is not None:
        partitions = await _led_by(admin, partitions, options.broker)
    now = now_ms()
    silent_since_ms = now - options.max_transaction_timeout.ms
    candidates: list[Candidate] = []
    answers = await admin.describe_producers(partitions)
    for tp, answer in sorted(succeeded(context, answers, partition_name).items()):
        candidates += (
            Candidate(tp, producer)
            for producer in answer
            if producer.transaction_start_offset >= 0
            and producer.last_timestamp_ms <= silent_since_ms
        )
    names = await _transactional_ids(admin, candidates)
    hanging = await _without_coordinator(context, admin, candidates, names)
    hanging = await _still_open(context, admin, hanging)
    rows = [_row(each, names.get(each.producer.producer_id), now) for each in hanging]
    context.show(listing(HangingRow, rows, lambda _: "red"))
    if context.output.format in ("table", "wide"):
        _say_what_next(context, rows)


def _say_what_next(context: Context, rows: Sequence[HangingRow]) -> None:
    if rows:
        first = rows[0]
        where = f"{first['topic']}:{first['partition']} --start-offset {first['start_offset']}"
        context.say(
            f"{count(len(rows), 'transaction')} hang{'s' if len(rows) == 1 else ''}; "
            f"`{with_words(f'pk transactions abort -t {where}', cluster_words(context))}` ends "
            "the first."
        )
    elif not context.failures:
        context.say("No hanging transactions.")


async def _led_by(
    admin: Admin, partitions: Sequence[TopicPartition], broker: int
) -> list[TopicPartition]:
    """The partitions that a broker leads."""
    described = await admin.describe_topics(sorted({tp.topic for tp in partitions}))
    led: set[TopicPartition] = set()
    for name, topic in described.ok.items():
        led.update(
            TopicPartition(name, p.partition) for p in topic.partitions if p.leader_id == broker
        )
    return [tp for tp in partitions if tp in led]


async def _transactional_ids(admin: Admin, candidates: Sequence[Candidate]) -> Mapping[int, str]:
    """Producer id → transactional id, for those that a coordinator knows.

    Raises the first failure: a transaction whose coordinator did not answer may not hang.
    """
    wanted = {each.producer.producer_id for each in candidates}
    if not wanted:
        return {}
    listed, errors = await admin.list_transactions(producer_ids=sorted(wanted))
    for error in errors.values():
        raise error
    return {t.producer_id: t.transactional_id for t in listed}


async def _without_coordinator(
    context: Context, admin: Admin, candidates: Sequence[Candidate], names: Mapping[int, str]
) -> list[Candidate]:
    """The candidates that no coordinator has in an open transaction of their producer."""
    described = await admin.describe_transactions(sorted(set(names.values())))
    hanging: list[Candidate] = []
    for each in candidates:
        name = names.get(each.producer.producer_id)
        if name is not None and name in described.errors:
            context.failed(described.errors[name], name)
        elif name is None or each.partition not in described.ok[name].partitions:
            hanging.append(each)
    return hanging


async def _still_open(
    context: Context, admin: Admin, hanging: Sequence[Candidate]
) -> list[Candidate]:
    """The candidates that their leaders still report as open: a transaction that ended between the
    requests is not hanging."""
    places = sorted({each.partition for each in hanging})
    answers = await admin.describe_producers(places)
    open_now: set[tuple[TopicPartition, int, int]] = set()
    for tp, answer in succeeded(context, answers, partition_name).items():
        open_now |= {(tp, p.producer_id, p.transaction_start_offset) for p in answer}
    return [
        each
        for each in hanging
        if (
            each.partition,
            each.producer.producer_id,
            each.producer.transaction_start_offset,
        )
        in open_now
    ]


def _row(each: Candidate, transactional_id: str | None, now: int) -> HangingRow:
    producer = each.producer
    last = producer.last_timestamp_ms
    epoch = producer.coordinator_epoch
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "start_offset": producer.transaction_start_offset,
        "idle_ms": None if last < 0 else max(now - last, 0),
        "transactional_id": transactional_id,
        "coordinator_epoch": None if epoch < 0 else epoch,
        "last_time": show_time(last) or None,
    }
