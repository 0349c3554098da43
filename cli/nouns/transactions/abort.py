"""`pk transactions abort`: aborts a transaction by its transactional id, through its coordinator,
or in one partition, if no coordinator does so.

Shows the effect, asks, and aborts. This cannot be undone: the records of an aborted transaction are
never read as committed.
"""

from collections.abc import Sequence

from pk.cli.cluster.topics import check_partitions, existing_topics, topic_partitions
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.transactions.describe import say_failed
from pk.cli.nouns.transactions.options import AbortTransactions
from pk.cli.nouns.transactions.rows import AbortedRow
from pk.cli.output.rows import listing
from pk.cli.phrases import join, partition_name
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.admin_operations.transactions import OpenTransaction
from pk.net.client.results import ProducerState, TransactionDescription


async def abort(context: Context, options: AbortTransactions) -> None:
    """Run `pk transactions abort`."""
    if bool(options.transactional_id) == (options.topic is not None):
        both = ", not both" if options.topic is not None else ""
        raise Unusable(
            f"Give transactional ids, or a partition with -t TOPIC:0 and --start-offset{both}."
        )
    if options.topic is None:
        if options.start_offset is not None or options.partition is not None:
            raise Unusable("--start-offset and --partitions need -t, not a transactional id.")
        await _abort_ids(context, list(dict.fromkeys(options.transactional_id)))
    else:
        await _abort_in_partition(context, options, options.topic)


async def _abort_ids(context: Context, names: Sequence[str]) -> None:
    admin = await context.admin()
    answers = await admin.describe_transactions(names)
    found: dict[str, TransactionDescription] = {}
    for name in names:
        if name in answers.errors:
            await say_failed(context, admin, name, answers.errors[name])
        else:
            found[name] = answers.ok[name]
    now = now_ms()
    for name, described in found.items():
        context.say(_consequence(name, described, now))
    rows: list[AbortedRow] = []
    if context.change.dry_run:
        rows = [_id_row(name, one, f"would be {_end_of(one)}") for name, one in found.items()]
    elif found:
        named = next(iter(found)) if len(found) == 1 else None
        await context.agree(f"Abort on {context.settings.cluster_name}?", name=named)
        fenced = await admin.fence_producers(found)
        for name, described in found.items():
            error = fenced.errors.get(name)
            if error is not None:
                context.fail(error)
                rows.append(_id_row(name, described, phrase(error), error_name(error)))
            else:
                rows.append(_id_row(name, described, _end_of(described)))
    context.show(listing(AbortedRow, rows))


def _end_of(described: TransactionDescription) -> str:
    return "aborted" if described.partitions else "fenced"


def _consequence(name: str, described: TransactionDescription, now: int) -> str:
    if not described.partitions:
        return f"{name} has no open transaction ({described.state}); its producer is fenced."
    places = join([partition_name(tp) for tp in sorted(described.partitions)], 4)
    age = f", open for {show_span(now - described.start_ms)}" if described.start_ms >= 0 else ""
    return (
        f"This aborts the transaction of {name} in {places}{age}, and its producer is fenced. "
        "Its records are never read as committed."
    )


def _id_row(
    name: str, described: TransactionDescription, result: str, error: str | None = None
) -> AbortedRow:
    return {
        "transactional_id": name,
        "topic": None,
        "partition": None,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "result": result,
        "error": error,
    }


async def _abort_in_partition(context: Context, options: AbortTransactions, topic: str) -> None:
    admin = await context.admin()
    tp = await _partition(context, admin, topic, options.partition)
    if options.start_offset is None:
        raise Unusable("-t needs --start-offset, which `pk transactions find-hanging` shows.")
    producer = await _producer_at(admin, tp, options.start_offset)
    age = f", silent for {show_span(now_ms() - producer.last_timestamp_ms)}"
    context.say(
        f"This writes an abort marker for producer {producer.producer_id} into "
        f"{partition_name(tp)}: its transaction from offset {options.start_offset} "
        f"on{age if producer.last_timestamp_ms >= 0 else ''} is never read as committed."
    )
    result, error = "would be aborted", None
    if not context.change.dry_run:
        await context.agree(f"Abort on {context.settings.cluster_name}?", name=tp.topic)
        hanging = OpenTransaction(
            tp, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
        )
        failure = (await admin.abort_transactions([hanging])).errors.get(tp)
        result = "aborted"
        if failure is not None:
            context.fail(failure)
            result, error = phrase(failure), error_name(failure)
    row: AbortedRow = {
        "transactional_id": None,
        "topic": tp.topic,
        "partition": tp.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "result": result,
        "error": error,
    }
    context.show(listing(AbortedRow, [row]))


async def _partition(
    context: Context, admin: Admin, text: str, number: int | None
) -> TopicPartition:
    """The partition that -t and --partition name. Raises Unusable, CommandError."""
    name, numbers = topic_partitions(text)
    wanted = [*(numbers or ()), *(() if number is None else (number,))]
    if len(wanted) != 1:
        raise Unusable(f"-t needs one partition, such as {name}:0.")
    (topic,) = await existing_topics(context, admin, [name])
    return check_partitions(topic, wanted)[0]


async def _producer_at(admin: Admin, tp: TopicPartition, start_offset: int) -> ProducerState:
    """The producer whose open transaction starts at an offset. Raises CommandError if there is
    none."""
    answer = (await admin.describe_producers([tp])).value(tp)
    for producer in answer:
        if producer.transaction_start_offset == start_offset:
            return producer
    opened = sorted(p.transaction_start_offset for p in answer if p.transaction_start_offset >= 0)
    known = f"; open from {join(list(map(str, opened)))}" if opened else "; none is open"
    raise CommandError(
        f"No open transaction of {partition_name(tp)} starts at offset {start_offset}{known}."
    )
