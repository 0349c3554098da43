"""The commands of `pk transactions`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
from pk.cli.command_line.parameters import Argument, Option
from pk.cli.nouns.transactions.options import AbortTransactions, FindHanging, ListTransactions
from pk.cli.nouns.transactions.rows import (
    AbortedRow,
    DescribedTransaction,
    HangingRow,
    TransactionRow,
)

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

TRANSACTIONS = Noun("transactions")


@TRANSACTIONS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk transactions list",
        "pk transactions list --state Ongoing --open-for 5m",
    ),
    shows=TransactionRow,
)
def list_transactions(context: "Context", options: ListTransactions) -> Running:
    """List transactional ids and their state."""
    from pk.cli.nouns.transactions.listing import list_transactions

    return list_transactions(context, options)


@TRANSACTIONS.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=("pk transactions describe payments-1",),
    shows=DescribedTransaction,
)
def describe(
    context: "Context",
    transactional_id: Annotated[
        tuple[str, ...],
        Argument(
            "TRANSACTIONAL-ID",
            help="The transactional ids.",
            named=Option(
                "--transactional-id",
                value="ID",
                help="Same as the TRANSACTIONAL-ID argument; repeatable.",
            ),
        ),
    ],
) -> Running:
    """Show producer, state, timeout and partitions of transactional ids."""
    from pk.cli.nouns.transactions.describe import describe

    return describe(context, transactional_id)


@TRANSACTIONS.command(
    "abort",
    "force-terminate",
    takes=(Change, Listing, Connection),
    examples=(
        "pk transactions abort payments-1 --dry-run",
        "pk transactions abort -t orders:0 --start-offset 1204 --dry-run",
    ),
    notes=(
        "The abort fences the producer, which fails with PRODUCER_FENCED; the coordinator then "
        "aborts the open transaction. With -t and --start-offset the abort marker is written "
        "directly to the partition, which only a hanging transaction needs "
        "(`pk transactions find-hanging`)."
    ),
    shows=AbortedRow,
)
def abort(context: "Context", options: AbortTransactions) -> Running:
    """Abort open transactions by transactional id, or a hanging one by partition."""
    from pk.cli.nouns.transactions.abort import abort

    return abort(context, options)


@TRANSACTIONS.command(
    "find-hanging",
    takes=(Listing, Connection),
    examples=(
        "pk transactions find-hanging",
        "pk transactions find-hanging orders --max-transaction-timeout 1m",
    ),
    notes=(
        "A transaction hangs if it is open in a partition, has had no record for longer than "
        "--max-transaction-timeout, and no coordinator has the partition in an open transaction "
        "of that producer. read_committed readers wait at OPEN FROM until it is aborted."
    ),
    shows=HangingRow,
    from_use=True,
    repeatable=True,
)
def find_hanging(context: "Context", options: FindHanging) -> Running:
    """Find transactions that block read_committed readers and that no coordinator will end."""
    from pk.cli.nouns.transactions.find_hanging import find_hanging

    return find_hanging(context, options)
