"""The transaction that pins a partition's last stable offset: the partition's leader knows the
producer, and the coordinators know the rest."""

from collections.abc import Iterable, Mapping

from pk.cli.diagnosis.pinning_transaction import Known, PinningTransaction
from pk.core.values import TopicPartition
from pk.net.client import results as r
from pk.net.client.admin import Admin

Held = dict[TopicPartition, r.ProducerState]


async def pinning_transactions(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, PinningTransaction]:
    """The transaction with the lowest first offset in each partition. Partitions whose leader
    reports none are left out."""
    held = await _first_open(admin, partitions)
    if not held:
        return {}
    ids = sorted({producer.producer_id for producer in held.values()})
    listed, errors = await admin.list_transactions(producer_ids=ids)
    names = {t.producer_id: t.transactional_id for t in listed}
    described = await admin.describe_transactions(sorted(set(names.values())))
    unknown = {
        tp
        for tp, producer in held.items()
        if not errors and _hangs(tp, names.get(producer.producer_id), described.ok)
    }
    if unknown:  # A transaction that ended between the requests is not hanging.
        still = await _first_open(admin, unknown)
        for tp in unknown:
            if tp not in still or not _same(still[tp], held[tp]):
                del held[tp]
    times = await admin.record_times((tp, p.transaction_start_offset) for tp, p in held.items())
    found: dict[TopicPartition, PinningTransaction] = {}
    for tp, producer in held.items():
        name = names.get(producer.producer_id)
        answer = described.ok.get(name) if name is not None else None
        since = times.ok.get((tp, producer.transaction_start_offset))
        known = Known.NO if tp in unknown else Known.UNHEARD
        state = timeout = None
        if answer is not None:
            state, timeout = answer.state, answer.timeout_ms
            if tp in answer.partitions:
                known = Known.YES
                since = answer.start_ms if answer.start_ms >= 0 else since
        found[tp] = PinningTransaction(
            producer.producer_id,
            since,
            known,
            producer.last_timestamp_ms,
            name,
            state,
            timeout,
            producer.transaction_start_offset,
        )
    return found


async def _first_open(admin: Admin, partitions: Iterable[TopicPartition]) -> Held:
    """The producer with the earliest open transaction of each partition."""
    held: Held = {}
    for tp, answer in (await admin.describe_producers(partitions)).ok.items():
        opened = [p for p in answer if p.transaction_start_offset >= 0]
        if opened:
            held[tp] = min(opened, key=lambda p: p.transaction_start_offset)
    return held


def _same(one: r.ProducerState, other: r.ProducerState) -> bool:
    return (one.producer_id, one.transaction_start_offset) == (
        other.producer_id,
        other.transaction_start_offset,
    )


def _hangs(
    tp: TopicPartition,
    name: str | None,
    described: Mapping[str, r.TransactionDescription],
) -> bool:
    """Whether no coordinator has the partition in an open transaction of its producer, as far as
    they answer."""
    if name is None:
        return True
    answer = described.get(name)
    return answer is not None and tp not in answer.partitions
