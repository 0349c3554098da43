"""The rows of `pk transactions`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_clock, show_span


class TransactionRow(TypedDict):
    """A transactional id, as its coordinator lists it."""

    transactional_id: Annotated[str, Shown("TRANSACTIONAL ID", whole=True)]
    coordinator: int
    producer_id: Annotated[int, Shown("PRODUCER ID")]
    state: Annotated[str, Shown(word=True)]


class DescribedTransaction(TypedDict):
    """A transactional id as its coordinator describes it. Times are in ms."""

    transactional_id: Annotated[str, Shown("TRANSACTIONAL ID", whole=True)]
    coordinator: Annotated[int, Shown("COORD")]
    producer_id: Annotated[int, Shown("PRODUCER ID")]
    producer_epoch: Annotated[int, Shown("EPOCH")]
    state: Annotated[str, Shown(word=True)]
    timeout_ms: Annotated[int, Shown("TIMEOUT", show=show_span)]
    open_ms: Annotated[int | None, Shown("OPEN FOR", show=show_span)]
    partitions: list[str]
    open_since: Annotated[str | None, Shown(wide=True, show=show_clock)]


class HangingRow(TypedDict):
    """A transaction that holds back a partition's last stable offset and that no coordinator will
    end. Times are in ms."""

    topic: str
    partition: int
    producer_id: Annotated[int, Shown("PRODUCER ID")]
    producer_epoch: Annotated[int, Shown("EPOCH")]
    start_offset: Annotated[int, Shown("OPEN FROM")]
    idle_ms: Annotated[int | None, Shown("IDLE", show=show_span)]
    transactional_id: Annotated[str | None, Shown("TRANSACTIONAL ID")]
    coordinator_epoch: Annotated[int | None, Shown(wide=True)]
    last_time: Annotated[str | None, Shown(wide=True, show=show_clock)]


class AbortedRow(TypedDict):
    """The result of aborting a transaction: by its transactional id, or in one partition."""

    transactional_id: Annotated[str | None, Shown("TRANSACTIONAL ID", whole=True)]
    topic: str | None
    partition: int | None
    producer_id: Annotated[int, Shown("PRODUCER ID")]
    producer_epoch: Annotated[int, Shown("EPOCH")]
    result: Annotated[str, Shown(word=True)]
    error: Annotated[str | None, Shown(wide=True)]


class ProducerRow(TypedDict):
    """A producer, as a partition's leader describes it. Times are in ms."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: Annotated[int, Shown("EPOCH")]
    last_sequence: Annotated[int | None, Shown("LAST SEQ")]
    idle_ms: Annotated[int | None, Shown("IDLE", show=show_span)]
    open_since_offset: Annotated[int | None, Shown("OPEN FROM")]
    open_ms: Annotated[int | None, Shown("OPEN FOR", show=show_span)]
    last_time: Annotated[str | None, Shown("LAST WRITE", wide=True, show=show_clock)]
    coordinator_epoch: Annotated[int | None, Shown(wide=True)]
    open_since: Annotated[str | None, Shown(wide=True, show=show_clock)]
