"""`pk transactions`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
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
    """The transactional ids that the coordinators remember, and the state of each."""
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
                help="The same as the argument; may be given again.",
            ),
        ),
    ],
) -> Running:
    """Producer, state, time-out and partitions of transactional ids."""
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
        "A transactional id is taken from its producer, which ends with PRODUCER_FENCED; its coordinator aborts the "
        "open transaction. With -t and --start-offset the abort marker goes straight to the partition, which only a "
        "hanging transaction needs (`pk transactions find-hanging`)."
    ),
    shows=AbortedRow,
)
def abort(context: "Context", options: AbortTransactions) -> Running:
    """Abort open transactions by transactional id, or one that hangs in a partition."""
    from pk.cli.nouns.transactions.abort import abort

    return abort(context, options)


@TRANSACTIONS.command(
    "find-hanging",
    takes=(Listing, Connection),
    examples=(
        "pk transactions find-hanging",
        "pk transactions find-hanging orders --max-transaction-timeout 1",
    ),
    notes=(
        "A transaction hangs where its partition still holds it open, no record of it has come for longer than "
        "--max-transaction-timeout, and no coordinator counts the partition to an open transaction of that producer. "
        "Readers of committed records wait at OPEN FROM until it is aborted."
    ),
    shows=HangingRow,
)
def find_hanging(context: "Context", options: FindHanging) -> Running:
    """Transactions that hold back readers of committed records and that no coordinator will end."""
    from pk.cli.nouns.transactions.find_hanging import find_hanging

    return find_hanging(context, options)
