"""Options of the larger commands of `pk transactions`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.option_sets import PARTITIONS_BY_OPTION
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import apache_minutes
from pk.core.durations import Duration


@dataclass(frozen=True, kw_only=True)
class ListTransactions:
    """Options of `pk transactions list`."""

    pattern: Annotated[
        str | None,
        Argument(
            "PATTERN",
            help="Only transactional ids that this regular expression matches as a whole.",
            named=Option(
                "--transactional-id-pattern",
                value="PATTERN",
                help="Same as the PATTERN argument.",
            ),
        ),
    ] = None
    state: Annotated[
        tuple[str, ...],
        Option(
            "--state",
            value="A,B",
            separated=True,
            help=(
                "Only these states: Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, "
                "CompleteAbort, Empty, Dead."
            ),
            complete="transaction-state",
        ),
    ] = ()
    producer: Annotated[
        tuple[str, ...],
        Option(
            "--producer",
            "--producer-id",
            value="ID",
            separated=True,
            help="Only these producer ids; repeatable.",
        ),
    ] = ()
    open_for: Annotated[
        Duration | None,
        Option(
            "--open-for",
            value="DURATION",
            help="Only transactions that have been open longer, such as 5m.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AbortTransactions:
    """Options of `pk transactions abort`."""

    transactional_id: Annotated[
        tuple[str, ...],
        Argument(
            "TRANSACTIONAL-ID",
            help="Abort the open transaction of this id, and fence its producer.",
            named=Option(
                "--transactional-id",
                "--transactionalId",
                value="ID",
                help="Same as the TRANSACTIONAL-ID argument; repeatable.",
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
        Option("-p", "--partitions", "--partition", value="N", help="The partition's number."),
    ] = None
    start_offset: Annotated[
        int | None,
        Option(
            "--start-offset",
            value="N",
            help="The first offset of the hanging transaction, as find-hanging shows it.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FindHanging:
    """Options of `pk transactions find-hanging`."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, or partitions as TOPIC:0,1 (default: all, including internal "
            "topics).",
            complete="topic",
            named=PARTITIONS_BY_OPTION,
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
        Duration,
        Option(
            "--max-transaction-timeout",
            value="MINUTES",
            parser=apache_minutes,
            help="The longest transaction.timeout.ms in use (default: 15m). A number alone is "
            "minutes, as in Apache's tool.",
        ),
    ] = Duration(15 * 60_000)


@dataclass(frozen=True, kw_only=True)
class ListProducers:
    """Options of `pk transactions producers`."""

    topic: Annotated[
        tuple[str, ...],
        Argument(
            "TOPIC",
            help="The topics, or partitions as TOPIC:0,1 (default: all but internal topics).",
            complete="topic",
        ),
    ] = ()
    topics: Annotated[
        tuple[str, ...],
        Option(
            "-t",
            "--topic",
            value="TOPIC[:0,1]",
            help="Same as the TOPIC argument; repeatable.",
            complete="topic",
            hidden=True,
        ),
    ] = ()
    open: Annotated[bool, Option("--open", help="Only producers with an open transaction.")] = False
    producer: Annotated[
        int | None, Option("--producer", value="ID", help="Only this producer id.")
    ] = None
    broker: Annotated[
        str | None,
        Option(
            "--broker",
            "--broker-id",
            value="ID",
            help="Ask the replica on this broker (default: the leaders).",
            complete="broker",
        ),
    ] = None
