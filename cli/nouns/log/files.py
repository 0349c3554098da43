"""What `pk log dump` shows of a file: for each kind of file its columns and its rows."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from pk.cli.output.formats import Column, Row
from pk.cli.positions.times import show_time
from pk.cli.records.internal_topics import decoded
from pk.cli.records.row import TIMESTAMP_TYPES, header_value, text_or_b64
from pk.cli.runtime.exits import CommandError
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
    TRANSACTIONS_TOPIC,
    TopicPartition,
    uuid_text,
)

Say = Callable[[str], None]
"""Called with a line for each problem found."""

_METADATA_DIRECTORY = "pk-metadata"
DECODERS = {"offsets": OFFSETS_TOPIC, "transactions": TRANSACTIONS_TOPIC}


class LogView(NamedTuple):
    """How to show logs."""

    records: bool = False
    max_bytes: int | None = None
    decoder: str = "auto"
    bare: bool = False
    """Show only the record itself: key, value and headers."""

    span: tuple[int, int] | None = None
    """Show only batches and records with offsets from the first up to but not including the second."""


def _time(value: Any) -> str:
    return "-" if value is None or value < 0 else show_time(value)


def _clock(key: str) -> Callable[[Row], str]:
    """A time for a terminal: shorter, without the zone, which is the terminal's own."""
    return lambda row: _time(row.get(key)).replace("T", " ")[:23]


def _nested(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(key: str, *, wide: bool = False, title: str | None = None) -> Column:
    return Column(key, right=True, wide=wide, title=title)


BATCHES = (
    _number("base_offset", title="FIRST OFFSET"),
    _number("last_offset"),
    _number("count", title="RECORDS"),
    _number("position"),
    _number("size", title="BYTES"),
    Column("codec"),
    Column("max_timestamp", show=_time, title="LATEST TIME", on_terminal=_clock("max_timestamp")),
    Column("timestamp_type", wide=True),
    Column("base_timestamp", show=_time, wide=True),
    _number("leader_epoch", title="EPOCH"),
    _number("producer_id", title="PRODUCER"),
    _number("producer_epoch", wide=True),
    _number("base_sequence", title="SEQUENCE"),
    _number("last_sequence", wide=True),
    Column("transactional", title="TXN"),
    Column("control"),
    Column("delete_horizon_ms", show=_time, wide=True),
    _number("magic", wide=True),
    Column("crc", wide=True),
    Column("valid"),
    Column("error", wide=True),
    Column("file", wide=True),
)
LESS_ROOM = frozenset(("position", "leader_epoch", "producer_id", "base_sequence", "transactional"))
"""Columns of batches that a narrow terminal shows only with -f wide."""

RECORDS = (
    Column("topic", wide=True),
    _number("partition", wide=True),
    _number("offset"),
    Column("timestamp", show=_time, title="TIME", on_terminal=_clock("timestamp")),
    Column("timestamp_type", wide=True),
    _number("position", wide=True),
    Column("codec", wide=True),
    _number("leader_epoch", wide=True, title="EPOCH"),
    _number("producer_id", wide=True, title="PRODUCER"),
    _number("producer_epoch", wide=True),
    _number("sequence", wide=True),
    Column("transactional", wide=True, title="TXN"),
    Column("control", show=_nested),
    Column("key", show=_nested),
    Column("key_b64", wide=True),
    Column("value", show=_nested),
    Column("value_b64", wide=True),
    Column("headers", show=_nested, wide=True),
    Column("error", wide=True),
    Column("file", wide=True),
)
BARE = tuple(c for c in RECORDS if c.key in ("key", "key_b64", "value", "value_b64", "headers"))
SEGMENTS = (
    Column("topic"),
    _number("partition"),
    _number("base_offset", title="FIRST OFFSET"),
    _number("bytes"),
    _number("index_bytes", title="INDEX"),
    _number("timeindex_bytes", title="TIMEINDEX"),
    _number("txnindex_bytes", title="TXNINDEX"),
    Column("snapshot"),
    Column("modified", show=_time, wide=True),
    Column("directory", wide=True),
)
FILE = Column("file", wide=True)
INDEX = (_number("entry"), _number("offset"), _number("position"), FILE)
TIMEINDEX = (
    _number("entry"),
    Column("timestamp", show=_time, title="TIME"),
    _number("offset"),
    FILE,
)
TXNINDEX = (
    _number("producer_id", title="PRODUCER"),
    _number("first_offset"),
    _number("last_offset"),
    _number("last_stable_offset"),
    FILE,
)
SNAPSHOT = (
    _number("producer_id", title="PRODUCER"),
    _number("producer_epoch", title="EPOCH"),
    _number("first_sequence", wide=True),
    _number("last_sequence"),
    _number("first_offset", wide=True),
    _number("last_offset"),
    Column("timestamp", show=_time, title="TIME"),
    _number("coordinator_epoch"),
    _number("current_txn_first_offset", title="OPEN TXN"),
    FILE,
)
EPOCHS = (_number("epoch"), _number("start_offset"), FILE)
OFFSETS = (Column("topic"), _number("partition"), _number("offset"), FILE)
PROPERTIES = (Column("name"), Column("value"), FILE)
EVENTS = (Column("event"), Column("fields", show=_nested), FILE)


# --- logs ---


def codec_name(batch: Batch) -> str:
    """The codec's name, or its number if that is unknown."""
    try:
        return batch.header.codec.name.lower()
    except KafkaError:
        return str(batch.header.attributes & 7)


def batch_row(batch: Batch, path: str) -> Row:
    """A batch as `pk log dump` shows it."""
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
    """An event of pk's metadata log as JSON values. Raises CborError."""
    event = events.decode(value)
    return {"event": type(event).__name__, **_plain(event)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
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
        """Key and value, under the names that they have in JSON."""
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
) -> Iterator[Row]:
    header = batch.header
    old = header.magic != MAGIC
    control = not old and header.is_control
    common = {
        "topic": tp.topic if tp else None,
        "partition": tp.partition if tp else None,
        "timestamp_type": TIMESTAMP_TYPES[header.attributes >> 3 & 1],
        "position": batch.position,
        "codec": codec_name(batch),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "transactional": not old and header.is_transactional,
        "file": path,
    }
    for record in batch.records():
        row = {
            **common,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": None
            if header.base_sequence < 0
            else (header.base_sequence + record.offset - header.base_offset) % (1 << 31),
            "headers": [[name, header_value(value)] for name, value in record.headers],
        }
        try:
            row["control"] = _control(record) if control else None
            row.update({} if control else decoder.fields(record))
        except (KafkaError, cbor.CborError) as e:
            row["error"] = str(e)
        yield row


def _log_rows(disk: Disk, path: str, view: LogView, say: Say) -> Iterator[Row]:
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


def segment_rows(disk: Disk, directory: str) -> Iterator[Row]:
    """The segments of a partition, from the directory listing alone."""
    partition = Partition(disk, directory)
    tp = partition.tp
    for base, files in partition.segments:
        row: dict[str, Any] = {
            "topic": tp.topic if tp else None,
            "partition": tp.partition if tp else None,
            "base_offset": base,
            "bytes": files[".log"].size,
            "snapshot": base in partition.snapshots,
            "modified": files[".log"].modified_ms,
            "directory": directory,
        }
        for suffix in ("index", "timeindex", "txnindex"):
            entry = files.get(f".{suffix}")
            row[f"{suffix}_bytes"] = entry.size if entry else None
        yield row


# --- other files ---


def _index_rows(path: str, data: bytes, say: Say) -> Iterator[Row]:
    entries, findings = offset_entries(path, data, base_of(path.rpartition("/")[2]))
    for n, (offset, position) in enumerate(entries):
        yield {"entry": n, "offset": offset, "position": position, "file": path}
    _tell(findings, say)


def _time_rows(path: str, data: bytes, say: Say) -> Iterator[Row]:
    entries, findings = time_entries(path, data, base_of(path.rpartition("/")[2]))
    for n, (timestamp, offset) in enumerate(entries):
        yield {"entry": n, "timestamp": timestamp, "offset": offset, "file": path}
    _tell(findings, say)


def _txn_rows(path: str, data: bytes, say: Say) -> Iterator[Row]:
    entries, findings = txn_entries(path, data)
    for entry in entries:
        yield {**entry._asdict(), "file": path}
    _tell(findings, say)


def _tell(findings: list[Any], say: Say) -> None:
    for finding in findings:
        say(f"{finding.file}, position {finding.position}: {finding.what}")


def _snapshot_rows(path: str, data: bytes, say: Say) -> Iterator[Row]:
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


def _epoch_rows(path: str, data: bytes, say: Say) -> Iterator[Row]:
    for epoch, start_offset in LeaderEpochs.parse(data).entries if data else ():
        yield {"epoch": epoch, "start_offset": start_offset, "file": path}


def _offset_rows(path: str, data: bytes, say: Say) -> Iterator[Row]:
    for (topic, partition), offset in checkpoints.parse_offsets(data).items():
        yield {"topic": topic, "partition": partition, "offset": offset, "file": path}


def _property_rows(path: str, data: bytes, say: Say) -> Iterator[Row]:
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


def _image_rows(path: str, data: bytes, say: Say) -> Iterator[Row]:
    for event in snapshot.events_of(snapshot.load(data)):
        yield {"event": type(event).__name__, "fields": _plain(event), "file": path}


_READERS: dict[Kind, tuple[tuple[Column, ...], Callable[[str, bytes, Say], Iterator[Row]]]] = {
    Kind.INDEX: (INDEX, _index_rows),
    Kind.TIME_INDEX: (TIMEINDEX, _time_rows),
    Kind.TXN_INDEX: (TXNINDEX, _txn_rows),
    Kind.SNAPSHOT: (SNAPSHOT, _snapshot_rows),
    Kind.EPOCHS: (EPOCHS, _epoch_rows),
    Kind.OFFSETS: (OFFSETS, _offset_rows),
    Kind.PARTITION_METADATA: (PROPERTIES, _property_rows),
    Kind.META_PROPERTIES: (PROPERTIES, _property_rows),
    Kind.CLEAN_SHUTDOWN: (PROPERTIES, _property_rows),
    Kind.CONTROLLER: (PROPERTIES, _property_rows),
    Kind.IMAGE: (EVENTS, _image_rows),
}


def columns_of(kind: Kind, view: LogView) -> tuple[Column, ...]:
    """The columns for a file of this kind."""
    if kind is not Kind.LOG:
        return _READERS[kind][0]
    return (BARE if view.bare else RECORDS) if view.records else BATCHES


def rows_of(disk: Disk, path: str, kind: Kind, view: LogView, say: Say) -> Iterator[Row]:
    """What a file holds, row by row. Raises CommandError if the whole file is unreadable, and OSError."""
    if kind is Kind.LOG:
        yield from _log_rows(disk, path, view, say)
        return
    try:
        yield from _READERS[kind][1](path, disk.read(path), say)
    except (ValueError, KeyError, CorruptSnapshot, KafkaError) as e:
        raise CommandError(f"{path} is damaged: {e}.") from None
