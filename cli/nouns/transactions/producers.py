"""`pk transactions producers`: shows the producers of a partition that its leader knows
(DescribeProducers, KIP-664).

A leader remembers every idempotent and transactional producer until `producer.id.expiration.ms`
after its last write. It does not know of others.
"""

from collections.abc import Mapping, Sequence

from pk.cli.cluster.partition_selection import partitions_named
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.transactions.options import ListProducers
from pk.cli.nouns.transactions.rows import ProducerRow
from pk.cli.output.rows import listing
from pk.cli.phrases import join, partition_name
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context
from pk.cli.runtime.results import succeeded
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin


async def producers(context: Context, options: ListProducers) -> None:
    """Run `pk transactions producers`."""
    admin = await context.admin()
    tps = await partitions_named(context, admin, (*options.topic, *options.topics))
    broker = await _broker(admin, options.broker)
    answers = await admin.describe_producers(tps, broker_id=broker)
    states: list[tuple[TopicPartition, r.ProducerState]] = []
    for tp, answer in sorted(succeeded(context, answers, partition_name).items()):
        found = (p for p in answer if _is_wanted(options, p))
        states += ((tp, p) for p in sorted(found, key=lambda p: p.producer_id))
    begun = await _begun(admin, states)
    now = now_ms()
    context.show(listing(ProducerRow, [_row(tp, p, begun, now) for tp, p in states], _style))
    if not states and not context.failures and context.output.format in ("table", "wide"):
        what = "open transaction" if options.open else "idempotent or transactional producer"
        named = any(":" in text for text in (*options.topic, *options.topics))
        asked = {partition_name(tp) if named else tp.topic for tp in sorted(tps)}
        where = join(sorted(asked), 3) or "any topic"
        context.say(f"No {what} is known for {where}.")


async def _broker(admin: Admin, text: str | None) -> int | None:
    """The broker of --broker; None without it. Raises CommandError if the broker does not exist."""
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise Unusable(f"--broker needs a broker's id, not {text!r}.")
    known = [str(b.node_id) for b in (await admin.describe_cluster()).brokers]
    if text not in known:
        raise CommandError(f"Broker {text} does not exist; the brokers are {join(known)}.")
    return int(text)


def _is_wanted(options: ListProducers, producer: r.ProducerState) -> bool:
    if options.open and producer.transaction_start_offset < 0:
        return False
    return options.producer is None or producer.producer_id == options.producer


async def _begun(
    admin: Admin, states: Sequence[tuple[TopicPartition, r.ProducerState]]
) -> Mapping[tuple[TopicPartition, int], int]:
    """When the first record of each open transaction was written, if its leader answers."""
    places = [
        (tp, p.transaction_start_offset) for tp, p in states if p.transaction_start_offset >= 0
    ]
    found = await admin.record_times(places)
    return {place: time for place, time in found.ok.items() if time is not None and time >= 0}


def _row(
    tp: TopicPartition,
    producer: r.ProducerState,
    begun: Mapping[tuple[TopicPartition, int], int],
    now: int,
) -> ProducerRow:
    start = producer.transaction_start_offset
    last = producer.last_timestamp_ms
    since = begun.get((tp, start))
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "last_sequence": None if producer.last_sequence < 0 else producer.last_sequence,
        "last_time": show_time(last) or None,
        "idle_ms": None if last < 0 else max(now - last, 0),
        "open_since_offset": None if start < 0 else start,
        "open_ms": None if since is None else max(now - since, 0),
        "coordinator_epoch": None if producer.coordinator_epoch < 0 else producer.coordinator_epoch,
        "open_since": None if since is None else show_time(since),
    }


def _style(row: ProducerRow) -> str | None:
    return "yellow" if row["open_since_offset"] is not None else None
