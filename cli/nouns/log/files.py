"""The rows of `pk log dump` for each kind of file."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import asdict

from pk.cli.exits import CommandError
from pk.cli.nouns.log.rows import (
    AbortedTransactionRow,
    BatchRow,
    CheckpointRow,
    ContentRow,
    EventRow,
    LeaderEpochRow,
    LogRecordRow,
    OffsetEntryRow,
    ProducerStateRow,
    PropertyRow,
    SegmentRow,
    TimeEntryRow,
)
from pk.cli.output.formats import Row
from pk.cli.records.internal_topics import decoded
from pk.cli.records.row import TIMESTAMP_TYPES, header_value, text_or_b64
from pk.core import cbor
from pk.core.errors import KafkaError
from pk.core.log import checkpoints
from pk.core.log.epochs import LeaderEpochs
from pk.core.log.files import Disk
from pk.core.log.producers import CorruptSnapshot, Producers
from pk.core.log.tools.inspect import (
    Batch,
    Kind,
    Partition,
    Scan,
    base_of,
    kind_of,
    offset_entries,
    partition_of,
    time_entries,
    txn_entries,
)
from pk.core.meta import events, snapshot
from pk.core.record.batch import MAGIC, Record
from pk.core.record.build import ControlType, control_type, coordinator_epoch
from pk.core.values import (
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    TopicPartition,
    uuid_text,
)

Say = Callable[[str], None]
"""Called with a line for each problem found."""

_METADATA_DIRECTORY = "pk-metadata"
DECODERS = {
    "offsets": OFFSETS_TOPIC,
    "transactions": TRANSACTIONS_TOPIC,
    "share-groups": SHARE_STATE_TOPIC,
}


class LogView(NamedTuple):
    """How to show logs."""

    records: bool = False
    max_bytes: int | None = None
    decoder: str = "auto"
    bare: bool = False
    """Whether to show only the record itself: key, value and headers."""

    span: tuple[int, int] | None = None
    """The offsets to show, from the first up to but not including the second; None for all."""


# --- logs ---


def codec_name(batch: Batch) -> str:
    """The codec's name, or its number if the codec is unknown."""
    try:
        return batch.header.codec.name.lower()
    except KafkaError:
        return str(batch.header.attributes & 7)


def batch_row(batch: Batch, path: str) -> BatchRow:
    """A batch as a row of `pk log dump`."""
    header, error = batch.header, batch.crc_error
    old = header.magic != MAGIC
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "position": batch.position,
        "size": header.size,
        "codec": codec_name(batch),
        "max_timestamp": header.max_timestamp,
        "timestamp_type": TIMESTAMP_TYPES[header.attributes >> 3 & 1],
        "base_timestamp": header.base_timestamp,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": not old and header.is_transactional,
        "control": not old and header.is_control,
        "delete_horizon_ms": None if old else header.delete_horizon_ms,
        "magic": header.magic,
        "crc": f"{header.crc:08x}",
        "valid": error is None,
        "error": error,
        "file": path,
    }


def _control(record: Record) -> Any:
    kind = control_type(record)
    if kind is ControlType.ABORT or kind is ControlType.COMMIT:
        return {"type": kind.name.lower(), "coordinator_epoch": coordinator_epoch(record)}
    return {"type": kind.name.lower() if kind is not None else "unknown"}


def plain_event(value: bytes) -> dict[str, Any]:
    """An event of pk's metadata log as values for JSON. Raises CborError."""
    event = events.decode(value)
    return {"event": type(event).__name__, **_plain(event)}


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(each) for name, each in asdict(value).items()}
    if isinstance(value, tuple) and hasattr(cast("object", value), "_asdict"):
        row: dict[str, Any] = cast("Any", value)._asdict()
        return {k: _plain(v) for k, v in row.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in cast("Sequence[Any]", value)]
    if isinstance(value, bytes):
        return uuid_text(value) if len(value) == 16 else value.hex()
    return value


class _Decoder:
    """Decodes the keys and values of a log."""

    def __init__(self, path: str, tp: TopicPartition | None, wanted: str) -> None:
        self.topic: str | None = None
        self.metadata = wanted == "metadata"
        if wanted == "auto" and tp is not None:
            ours = f"/{_METADATA_DIRECTORY}/" in path
            self.metadata = tp.topic == METADATA_TOPIC and ours
            self.topic = tp.topic if tp.topic in DECODERS.values() else None
        elif wanted in DECODERS:
            self.topic = DECODERS[wanted]

    def fields(self, record: Record) -> dict[str, Any]:
        """The key and value, under their names in JSON."""
        if self.metadata and record.value is not None:
            return {"key": None, "value": plain_event(record.value)}
        if self.topic is not None:
            read = decoded(self.topic, [record])[0]
            if read.key != record.key:
                value = json.loads(read.value) if read.value is not None else None
                return {"key": json.loads(read.key or b"null"), "value": value}
        key, key_text = text_or_b64("key", record.key)
        value, value_text = text_or_b64("value", record.value)
        return {key: key_text, value: value_text}


def _record_rows(
    batch: Batch, path: str, tp: TopicPartition | None, decoder: _Decoder
) -> Iterator[LogRecordRow]:
    header = batch.header
    old = header.magic != MAGIC
    control = not old and header.is_control
    for record in batch.records():
        content: dict[str, Any] = {}
        what: dict[str, Any] | None = None
        error: str | None = None
        try:
            if control:
                what = _control(record)
            else:
                content = decoder.fields(record)
        except (KafkaError, cbor.CborError) as e:
            error = str(e)
        yield {
            "topic": tp.topic if tp else None,
            "partition": tp.partition if tp else None,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": TIMESTAMP_TYPES[header.attributes >> 3 & 1],
            "position": batch.position,
            "codec": codec_name(batch),
            "leader_epoch": header.leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "sequence": None
            if header.base_sequence < 0
            else (header.base_sequence + record.offset - header.base_offset) % (1 << 31),
            "transactional": not old and header.is_transactional,
            "control": what,
            "key": content.get("key"),
            "key_b64": content.get("key_b64"),
            "value": content.get("value"),
            "value_b64": content.get("value_b64"),
            "headers": [[name, header_value(value)] for name, value in record.headers],
            "error": error,
            "file": path,
        }


def _log_rows(disk: Disk, path: str, view: LogView, say: Say) -> Iterator[BatchRow | LogRecordRow]:
    tp = partition_of(path.rpartition("/")[0])
    decoder = _Decoder(path, tp, view.decoder)
    scan = Scan(
        disk.open(path), size=view.max_bytes and min(view.max_bytes, disk.open(path).size())
    )
    first, end = view.span or (0, 2**63)
    for batch in scan:
        if batch.header.base_offset >= end:
            return
        if batch.header.next_offset <= first:
            continue
        if not view.records:
            yield batch_row(batch, path)
            continue
        if (error := batch.crc_error) is not None:
            say(f"{path}, position {batch.position}: {error}")
        try:
            rows = _record_rows(batch, path, tp, decoder)
            yield from (row for row in rows if first <= row["offset"] < end)
        except KafkaError as e:
            say(f"{path}, position {batch.position}: the records cannot be read: {e.message}")
    for problem in scan.problems:
        if view.max_bytes is None or not problem.what.startswith("cut off"):
            say(f"{path}, position {problem.position}: {problem.what}")


def segment_rows(disk: Disk, directory: str) -> Iterator[SegmentRow]:
    """The segments of a partition, from the directory listing alone."""
    partition = Partition(disk, directory)
    tp = partition.tp
    for base, files in partition.segments:
        sizes = {suffix: entry.size for suffix, entry in files.items()}
        yield {
            "topic": tp.topic if tp else None,
            "partition": tp.partition if tp else None,
            "base_offset": base,
            "bytes": sizes[".log"],
            "index_bytes": sizes.get(".index"),
            "timeindex_bytes": sizes.get(".timeindex"),
            "txnindex_bytes": sizes.get(".txnindex"),
            "snapshot": base in partition.snapshots,
            "modified": files[".log"].modified_ms,
            "directory": directory,
        }


# --- other files ---


def _index_rows(path: str, data: bytes, say: Say) -> Iterator[OffsetEntryRow]:
    entries, findings = offset_entries(path, data, base_of(path.rpartition("/")[2]))
    for n, (offset, position) in enumerate(entries):
        yield {"entry": n, "offset": offset, "position": position, "file": path}
    _say_findings(findings, say)


def _time_rows(path: str, data: bytes, say: Say) -> Iterator[TimeEntryRow]:
    entries, findings = time_entries(path, data, base_of(path.rpartition("/")[2]))
    for n, (timestamp, offset) in enumerate(entries):
        yield {"entry": n, "timestamp": timestamp, "offset": offset, "file": path}
    _say_findings(findings, say)


def _txn_rows(path: str, data: bytes, say: Say) -> Iterator[AbortedTransactionRow]:
    entries, findings = txn_entries(path, data)
    for entry in entries:
        yield {
            "producer_id": entry.producer_id,
            "first_offset": entry.first_offset,
            "last_offset": entry.last_offset,
            "last_stable_offset": entry.last_stable_offset,
            "file": path,
        }
    _say_findings(findings, say)


def _say_findings(findings: list[Any], say: Say) -> None:
    for finding in findings:
        say(f"{finding.file}, position {finding.position}: {finding.what}")


def _snapshot_rows(path: str, data: bytes, say: Say) -> Iterator[ProducerStateRow]:
    for state in Producers.from_snapshot(data, base_of(path.rpartition("/")[2]), 0):
        last = state.batches[-1] if state.batches else None
        yield {
            "producer_id": state.producer_id,
            "producer_epoch": state.epoch,
            "first_sequence": last.first_sequence if last else None,
            "last_sequence": state.last_sequence,
            "first_offset": last.first_offset if last else None,
            "last_offset": state.last_offset,
            "timestamp": state.timestamp,
            "coordinator_epoch": state.coordinator_epoch,
            "current_txn_first_offset": state.txn_first_offset,
            "file": path,
        }


def _epoch_rows(path: str, data: bytes, say: Say) -> Iterator[LeaderEpochRow]:
    for epoch, start_offset in LeaderEpochs.parse(data).entries if data else ():
        yield {"epoch": epoch, "start_offset": start_offset, "file": path}


def _offset_rows(path: str, data: bytes, say: Say) -> Iterator[CheckpointRow]:
    for (topic, partition), offset in checkpoints.parse_offsets(data).items():
        yield {"topic": topic, "partition": partition, "offset": offset, "file": path}


def _property_rows(path: str, data: bytes, say: Say) -> Iterator[PropertyRow]:
    kind = kind_of(path.rpartition("/")[2])
    if kind is Kind.PARTITION_METADATA:
        pairs = {"topic_id": uuid_text(checkpoints.parse_partition_metadata(data))}
    elif kind is Kind.CLEAN_SHUTDOWN:
        pairs = {"broker_epoch": str(checkpoints.parse_clean_shutdown(data))}
    elif kind is Kind.CONTROLLER:
        _, body = cbor.loads("pk.metadata.controller", data, 1)
        pairs = {"controller_id": str(body["id"]), "epoch": str(body["epoch"])}
    else:
        pairs = checkpoints.parse_properties(data.decode("latin-1"))
    for name, value in pairs.items():
        yield {"name": name, "value": value, "file": path}


def _image_rows(path: str, data: bytes, say: Say) -> Iterator[EventRow]:
    for event in snapshot.events_of(snapshot.load(data)):
        yield {"event": type(event).__name__, "fields": _plain(event), "file": path}


Reader = Callable[[str, bytes, Say], Iterator[Row]]
"""(path, bytes of the file, callback for each problem) → rows."""

_READERS: dict[Kind, tuple[type, Reader]] = {
    Kind.INDEX: (OffsetEntryRow, _index_rows),
    Kind.TIME_INDEX: (TimeEntryRow, _time_rows),
    Kind.TXN_INDEX: (AbortedTransactionRow, _txn_rows),
    Kind.SNAPSHOT: (ProducerStateRow, _snapshot_rows),
    Kind.EPOCHS: (LeaderEpochRow, _epoch_rows),
    Kind.OFFSETS: (CheckpointRow, _offset_rows),
    Kind.PARTITION_METADATA: (PropertyRow, _property_rows),
    Kind.META_PROPERTIES: (PropertyRow, _property_rows),
    Kind.CLEAN_SHUTDOWN: (PropertyRow, _property_rows),
    Kind.CONTROLLER: (PropertyRow, _property_rows),
    Kind.IMAGE: (EventRow, _image_rows),
}


def row_type(kind: Kind, view: LogView) -> type:
    """The type of the rows of a file of this kind."""
    if kind is not Kind.LOG:
        return _READERS[kind][0]
    return (ContentRow if view.bare else LogRecordRow) if view.records else BatchRow


def rows_of(disk: Disk, path: str, kind: Kind, view: LogView, say: Say) -> Iterator[Row]:
    """The content of a file as rows. Raises OSError, and CommandError if the whole file is
    unreadable."""
    if kind is Kind.LOG:
        yield from _log_rows(disk, path, view, say)
        return
    try:
        yield from _READERS[kind][1](path, disk.read(path), say)
    except (ValueError, KeyError, CorruptSnapshot, KafkaError) as e:
        raise CommandError(f"{path} is damaged: {e}.") from None
