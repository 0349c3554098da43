"""`pk transactions list`: asks every broker, since each coordinates some of the transactional ids
(KIP-664)."""

from pk.cli.cluster.topics import whole, words_of
from pk.cli.exits import Unusable
from pk.cli.nouns.transactions.options import ListTransactions
from pk.cli.nouns.transactions.rows import TransactionRow
from pk.cli.options.known_values import TRANSACTION_STATES
from pk.cli.output.rows import listing
from pk.cli.positions.resolve import now_ms
from pk.cli.runtime.context import Context
from pk.net.client.admin import Admin


async def list_transactions(context: Context, options: ListTransactions) -> None:
    """Run `pk transactions list`."""
    pattern = None if options.pattern is None else whole(options.pattern, "PATTERN")
    states = words_of(options.state, TRANSACTION_STATES, "--state")
    producers = _producer_ids(options.producer)
    admin = await context.admin()
    listed, errors = await admin.list_transactions(states=states, producer_ids=producers)
    for broker, error in sorted(errors.items()):
        context.failed(error, f"broker {broker}")
    if pattern is not None:
        listed = tuple(t for t in listed if pattern.fullmatch(t.transactional_id))
    if options.open_for is not None:
        since = now_ms() - options.open_for.ms
        long_open = await _open_since(admin, [t.transactional_id for t in listed], since)
        listed = tuple(t for t in listed if t.transactional_id in long_open)
    rows: list[TransactionRow] = [
        {
            "transactional_id": t.transactional_id,
            "coordinator": t.coordinator_id,
            "producer_id": t.producer_id,
            "state": t.state,
        }
        for t in listed
    ]
    context.show(listing(TransactionRow, rows, _style))
    if not rows and not context.failures and context.output.format in ("table", "wide"):
        narrowed = options != ListTransactions() or context.listing.where
        context.say("No transactional ids match." if narrowed else "No transactional ids.")


async def _open_since(admin: Admin, names: list[str], latest_start_ms: int) -> set[str]:
    """The transactional ids whose transaction has been open since `latest_start_ms` or longer."""
    found = await admin.describe_transactions(names)
    return {
        name
        for name, transaction in found.ok.items()
        if 0 <= transaction.start_ms <= latest_start_ms
    }


def _producer_ids(words: tuple[str, ...]) -> list[int]:
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise Unusable(f"--producer needs a producer id, not {word!r}.")
    return [int(word) for word in words]


def _style(row: TransactionRow) -> str | None:
    return "yellow" if row["state"] == "Ongoing" else None
