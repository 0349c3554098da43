"""`pk transactions describe`."""

from collections.abc import Sequence

from pk.cli.nouns.transactions.rows import DescribedTransaction
from pk.cli.output.rows import listing
from pk.cli.phrases import partition_name
from pk.cli.positions.resolve import now_ms
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context
from pk.core.errors import ErrorCode, KafkaError
from pk.core.nearest import did_you_mean
from pk.net.client.admin import Admin
from pk.net.client.results import TransactionDescription


async def describe(context: Context, transactional_ids: Sequence[str]) -> None:
    """Run `pk transactions describe`."""
    admin = await context.admin()
    names = list(dict.fromkeys(transactional_ids))
    answers = await admin.describe_transactions(names)
    rows: list[DescribedTransaction] = []
    now = now_ms()
    for name in names:
        if name in answers.errors:
            await say_failed(context, admin, name, answers.errors[name])
        else:
            rows.append(_row(name, answers.ok[name], now))
    context.show(listing(DescribedTransaction, rows, _style))


async def say_failed(context: Context, admin: Admin, name: str, error: Exception) -> None:
    """Report that a transactional id could not be described; an unknown one is reported with the
    nearest names."""
    if not isinstance(error, KafkaError) or error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        context.failed(error, name)
        return
    listed, _ = await admin.list_transactions()
    known = [t.transactional_id for t in listed]
    context.fail(error)
    hint = did_you_mean(name, known, "; `pk transactions list` shows all.")
    context.say(f"Transactional id {name!r} does not exist{hint}")


def _row(name: str, found: TransactionDescription, now: int) -> DescribedTransaction:
    is_open = found.start_ms >= 0 and found.partitions or found.state == "Ongoing"
    return {
        "transactional_id": name,
        "coordinator": found.coordinator_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "timeout_ms": found.timeout_ms,
        "open_ms": max(now - found.start_ms, 0) if is_open and found.start_ms >= 0 else None,
        "partitions": [partition_name(tp) for tp in sorted(found.partitions)],
        "open_since": show_time(found.start_ms) or None if is_open else None,
    }


def _style(row: DescribedTransaction) -> str | None:
    open_ms = row["open_ms"]
    return "yellow" if open_ms is not None and open_ms > row["timeout_ms"] else None
