"""The commands of `pk transactions`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.transactions.options import (
    AbortTransactions,
    FindHanging,
    ListProducers,
    ListTransactions,
)
from pk.cli.nouns.transactions.rows import (
    AbortedRow,
    DescribedTransaction,
    HangingRow,
    ProducerRow,
    TransactionRow,
)
from pk.cli.options.option_sets import Change, Connection, Listing, Watch
from pk.cli.options.parameters import Argument, Option

TRANSACTIONS = Noun("transactions")


TRANSACTIONS.command(
    "list",
    "ls",
    help="List transactional ids and their state.",
    worker="listing:list_transactions",
    options=ListTransactions,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk transactions list",
        "pk transactions list --state Ongoing --open-for 5m",
    ),
    shows=TransactionRow,
)


@dataclass(frozen=True, kw_only=True)
class DescribeTransactions:
    """Arguments of `pk transactions describe`."""

    transactional_ids: Annotated[
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
    ]


TRANSACTIONS.command(
    "describe",
    help="Show producer, state, timeout and partitions of transactional ids.",
    worker="describe:describe",
    arguments=DescribeTransactions,
    takes=(Listing, Watch, Connection),
    examples=("pk transactions describe payments-1",),
    shows=DescribedTransaction,
)


TRANSACTIONS.command(
    "abort",
    "force-terminate",
    help="Abort open transactions by transactional id, or a hanging one by partition.",
    worker="abort:abort",
    options=AbortTransactions,
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


TRANSACTIONS.command(
    "find-hanging",
    help="Find transactions that block read_committed readers and that no coordinator will end.",
    worker="find_hanging:find_hanging",
    options=FindHanging,
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


TRANSACTIONS.command(
    "producers",
    help="Show the producers of partitions: id, epoch, last sequence and write, open transaction.",
    worker="producers:producers",
    options=ListProducers,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk transactions producers orders",
        "pk transactions producers --open --sort -open_ms",
        "pk transactions producers orders:0 -f json",
    ),
    notes=(
        "OPEN FROM is the offset of the first record of an open transaction; "
        "read_committed readers wait there. A leader forgets a producer "
        "producer.id.expiration.ms after its last write."
    ),
    shows=ProducerRow,
    from_use=True,
    instead_of_use=("topics",),
)
