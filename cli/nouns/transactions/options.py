"""What the commands of `pk transactions` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.values import count


@dataclass(frozen=True, kw_only=True)
class ListTransactions:
    """What `pk transactions list` takes."""

    pattern: Annotated[
        str | None,
        Argument(
            "PATTERN",
            help="Only transactional ids that match this regular expression as a whole.",
            named=Option(
                "--transactional-id-pattern",
                value="PATTERN",
                help="The same, as Apache's tool has it.",
            ),
        ),
    ] = None
    state: Annotated[
        tuple[str, ...],
        Option(
            "--state",
            value="A,B",
            separated=True,
            help="Only these states: Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Empty, Dead.",
        ),
    ] = ()
    producer: Annotated[
        tuple[str, ...],
        Option(
            "--producer",
            "--producer-id",
            value="ID",
            separated=True,
            help="Only these producer ids; may be given again.",
        ),
    ] = ()
    open_for: Annotated[
        str | None,
        Option(
            "--open-for",
            value="DURATION",
            help="Only transactions that have been open longer, such as 5m.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AbortTransactions:
    """What `pk transactions abort` takes."""

    transactional_id: Annotated[
        tuple[str, ...],
        Argument(
            "TRANSACTIONAL-ID",
            help="Abort its open transaction and fence its producer.",
            named=Option(
                "--transactional-id",
                "--transactionalId",
                value="ID",
                help="The same as the argument; may be given again.",
            ),
        ),
    ] = ()
    topic: Annotated[
        str | None,
        Option(
            "-t",
            "--topic",
            value="TOPIC[:0]",
            help="The partition of a hanging transaction.",
            complete="topic",
        ),
    ] = None
    partition: Annotated[
        int | None,
        Option("-p", "--partitions", "--partition", value="N", help="The number of the partition."),
    ] = None
    start_offset: Annotated[
        int | None,
        Option(
            "--start-offset",
            value="N",
            help="The offset from which the hanging transaction is open, as find-hanging shows it.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FindHanging:
    """What `pk transactions find-hanging` takes."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, or partitions of them as TOPIC:0,1 (default: all that are not internal).",
            complete="topic",
            named=Option(
                "-t",
                "--topic",
                value="TOPIC[:0,1]",
                help="The same as the argument; may be given again.",
                complete="topic",
            ),
        ),
    ] = ()
    broker: Annotated[
        int | None,
        Option(
            "--broker",
            "--broker-id",
            value="ID",
            help="Only partitions that this broker leads.",
            complete="broker",
        ),
    ] = None
    max_transaction_timeout: Annotated[
        int,
        Option(
            "--max-transaction-timeout",
            value="MINUTES",
            parser=count,
            help="The longest transaction.timeout.ms in use, in minutes (15): a shorter silence is not suspicious.",
        ),
    ] = 15
