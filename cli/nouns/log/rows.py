"""The rows of `pk log`. `pk log dump` has a table for each kind of file."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

from pk.cli.output.rows import Shown
from pk.cli.positions.times import show_time


def _show_time(time_ms: int) -> str:
    return "-" if time_ms < 0 else show_time(time_ms)


def _clock(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A shorter form of a time for terminals, without the time zone, which is the terminal's
    own."""

    def show(row: Mapping[str, Any]) -> str:
        time_ms = row.get(name)
        return "-" if time_ms is None else _show_time(time_ms).replace("T", " ")[:23]

    return show


def _show_nested(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class FindingRow(TypedDict):
    """A problem in a file, with the byte and the offset at which it is, in `pk log verify`."""

    file: str
    position: int | None
    offset: int | None
    what: Annotated[str, Shown("FINDING")]


class RemoteSegmentRow(TypedDict):
    """A segment in remote storage, in `pk log remote`."""

    topic: str
    partition: int | None
    start_offset: Annotated[int | None, Shown("FIRST OFFSET")]
    end_offset: Annotated[int | None, Shown("LAST OFFSET")]
    size: Annotated[int, Shown("BYTES")]
    max_timestamp: Annotated[
        int | None,
        Shown("LATEST TIME", show=_show_time, on_terminal=_clock("max_timestamp"), right=False),
    ]
    epochs: Annotated[str, Shown("LEADER EPOCHS", wide=True)]
    cluster_id: Annotated[str, Shown(wide=True)]
    object: Annotated[str, Shown(wide=True)]
    problem: str


class AdoptedTopicRow(TypedDict):
    """A topic that `pk log adopt` takes over."""

    topic: str
    partitions: int
    bytes: int
    topic_id: str | None
    configs: dict[str, str]


class BatchRow(TypedDict):
    """A batch. Times are in epoch ms; -1 means that the batch does not have the number."""

    base_offset: Annotated[int, Shown("FIRST OFFSET")]
    last_offset: int
    count: Annotated[int, Shown("RECORDS")]
    position: int
    size: Annotated[int, Shown("BYTES")]
    codec: Annotated[str, Shown(word=True)]
    max_timestamp: Annotated[
        int,
        Shown("LATEST TIME", show=_show_time, on_terminal=_clock("max_timestamp"), right=False),
    ]
    timestamp_type: Annotated[str, Shown(wide=True, word=True)]
    base_timestamp: Annotated[int, Shown(show=_show_time, wide=True, right=False)]
    leader_epoch: Annotated[int, Shown("EPOCH")]
    producer_id: Annotated[int, Shown("PRODUCER")]
    producer_epoch: Annotated[int, Shown(wide=True)]
    base_sequence: Annotated[int, Shown("SEQUENCE")]
    last_sequence: Annotated[int, Shown(wide=True)]
    transactional: Annotated[bool, Shown("TXN")]
    control: bool
    delete_horizon_ms: Annotated[int | None, Shown(show=_show_time, wide=True, right=False)]
    magic: Annotated[int, Shown(wide=True)]
    crc: Annotated[str, Shown(wide=True)]
    valid: bool
    error: Annotated[str | None, Shown(wide=True)]
    file: Annotated[str, Shown(wide=True)]


class _Place(TypedDict):
    topic: Annotated[str | None, Shown(wide=True)]
    partition: Annotated[int | None, Shown(wide=True)]
    offset: int
    timestamp: Annotated[
        int, Shown("TIME", show=_show_time, on_terminal=_clock("timestamp"), right=False)
    ]
    timestamp_type: Annotated[str, Shown(wide=True, word=True)]
    position: Annotated[int, Shown(wide=True)]
    codec: Annotated[str, Shown(wide=True, word=True)]
    leader_epoch: Annotated[int, Shown("EPOCH", wide=True)]
    producer_id: Annotated[int, Shown("PRODUCER", wide=True)]
    producer_epoch: Annotated[int, Shown(wide=True)]
    sequence: Annotated[int | None, Shown(wide=True)]
    transactional: Annotated[bool, Shown("TXN", wide=True)]
    control: Annotated[dict[str, Any] | None, Shown(show=_show_nested)]


class ContentRow(TypedDict):
    """The record itself, in `pk log dump --skip-record-metadata`. Key and value are null or text,
    the output of a decoder, or base64 if they are not UTF-8."""

    key: Annotated[Any, Shown(show=_show_nested)]
    key_b64: Annotated[str | None, Shown(wide=True)]
    value: Annotated[Any, Shown(show=_show_nested)]
    value_b64: Annotated[str | None, Shown(wide=True)]
    headers: Annotated[list[list[Any]], Shown(show=_show_nested, wide=True)]


class _ErrorAndFile(TypedDict):
    error: Annotated[str | None, Shown(wide=True)]
    file: Annotated[str, Shown(wide=True)]


class LogRecordRow(_Place, ContentRow, _ErrorAndFile):
    """A record, with the data of its batch. `control` is the meaning of a control record."""


class SegmentRow(TypedDict):
    """A segment: the sizes of its files, and whether it has a producer snapshot."""

    topic: str | None
    partition: int | None
    base_offset: Annotated[int, Shown("FIRST OFFSET")]
    bytes: int
    index_bytes: Annotated[int | None, Shown("INDEX")]
    timeindex_bytes: Annotated[int | None, Shown("TIMEINDEX")]
    txnindex_bytes: Annotated[int | None, Shown("TXNINDEX")]
    snapshot: bool
    modified: Annotated[int, Shown(show=_show_time, wide=True, right=False)]
    directory: Annotated[str, Shown(wide=True)]


class _File(TypedDict):
    file: Annotated[str, Shown(wide=True)]


class _OffsetEntry(TypedDict):
    entry: int
    offset: int
    position: int


class OffsetEntryRow(_OffsetEntry, _File):
    """An entry of an offset index."""


class _TimeEntry(TypedDict):
    entry: int
    timestamp: Annotated[int, Shown("TIME", show=_show_time, right=False)]
    offset: int


class TimeEntryRow(_TimeEntry, _File):
    """An entry of a time index."""


class _AbortedTransaction(TypedDict):
    producer_id: Annotated[int, Shown("PRODUCER")]
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactionRow(_AbortedTransaction, _File):
    """An entry of a transaction index."""


class _ProducerState(TypedDict):
    producer_id: Annotated[int, Shown("PRODUCER")]
    producer_epoch: Annotated[int, Shown("EPOCH")]
    first_sequence: Annotated[int | None, Shown(wide=True)]
    last_sequence: int
    first_offset: Annotated[int | None, Shown(wide=True)]
    last_offset: int
    timestamp: Annotated[int, Shown("TIME", show=_show_time, right=False)]
    coordinator_epoch: int
    current_txn_first_offset: Annotated[int | None, Shown("OPEN TXN")]


class ProducerStateRow(_ProducerState, _File):
    """A producer in a snapshot of a partition's producers."""


class _LeaderEpoch(TypedDict):
    epoch: int
    start_offset: int


class LeaderEpochRow(_LeaderEpoch, _File):
    """A leader epoch and the offset at which it begins."""


class _Checkpoint(TypedDict):
    topic: str
    partition: int
    offset: int


class CheckpointRow(_Checkpoint, _File):
    """A partition's offset in a checkpoint file."""


class _Property(TypedDict):
    name: str
    value: str


class PropertyRow(_Property, _File):
    """A line of a file of properties."""


class _Event(TypedDict):
    event: Annotated[str, Shown(word=True)]
    fields: Annotated[Any, Shown(show=_show_nested)]


class EventRow(_Event, _File):
    """An event of pk's metadata, in a snapshot of it."""


DUMPED = (
    SegmentRow,
    BatchRow,
    LogRecordRow,
    ContentRow,
    OffsetEntryRow,
    TimeEntryRow,
    AbortedTransactionRow,
    ProducerStateRow,
    LeaderEpochRow,
    CheckpointRow,
    PropertyRow,
    EventRow,
)
"""The rows that `pk log dump` may show."""
