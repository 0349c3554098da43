"""The part of an export that runs in Spark's Python workers: a task reads its ranges and reports
its progress.

Spark tells a driver how many tasks are done, but not the progress of one, and it returns a worker's
exception as text. So each task keeps a small file in the export's working folder with the number of
records read and, after a failure, the error.
"""

import json
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from pk.core.errors import KafkaError
from pk.spark.errors import DataLost, SparkFailed
from pk.spark.export.unknown_fields import FieldCounter, Fields, UnknownFields, merged
from pk.spark.read.ranges import OffsetRange
from pk.spark.read.read_options import ReadOptions
from pk.spark.read.reader import read
from pk.spark.text.json_reader import JsonReader, fields_of, load_all

if TYPE_CHECKING:
    from pk.spark.export.schemas import Decoding

_STATE: Final = struct.Struct("<q?")
_ERROR: Final = ".error"
_FIELDS: Final = ".fields"
_UNPARSED: Final = ".unparsed"

CORRUPT: Final = "_corrupt_record"
"""The field for a text that is not a JSON object of the column's fields."""

RECORD: Final = (
    t.StructType()
    .add("key", t.BinaryType())
    .add("value", t.BinaryType())
    .add("topic", t.StringType())
    .add("partition", t.IntegerType())
    .add("offset", t.LongType())
    .add("timestamp", t.TimestampType())
    .add("timestampType", t.IntegerType())
    .add(
        "headers",
        t.ArrayType(t.StructType().add("key", t.StringType()).add("value", t.BinaryType())),
    )
)
"""The columns of records, keys and values as bytes."""


class TaskState(NamedTuple):
    """The progress of one range."""

    records: int
    done: bool


@dataclass(frozen=True)
class JsonTexts:
    """How keys and values that are JSON become structs."""

    schemas: Mapping[str, t.StructType]
    """Column → its fields; the last is `_corrupt_record`."""

    zone: str

    def readers(self) -> dict[str, JsonReader]:
        """Raises OptionError for a type that JSON lacks."""
        return {
            name: JsonReader(fields_of(t.StructType(schema.fields[:-1])), self.zone)
            for name, schema in self.schemas.items()
        }


@dataclass(frozen=True)
class ReadRanges:
    """A function for `mapInArrow`: takes the indexes of ranges, yields their records."""

    ranges: tuple[OffsetRange, ...]
    options: ReadOptions
    texts: frozenset[str]
    """Whether key and value become text."""

    json: JsonTexts
    states: Path
    fields: Mapping[str, Fields]
    """The JSON columns and their known fields; other fields are counted."""

    decoding: "Decoding | None" = None
    """How keys and values with schemas are decoded."""

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(number)

    def _read(self, number: int) -> Iterator[pa.RecordBatch]:
        path = self.states / str(number)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        records = 0
        counters = {name: FieldCounter(known) for name, known in self.fields.items()}
        readers = self.json.readers()
        unparsed: Counter[str] = Counter()
        try:
            os.pwrite(descriptor, _STATE.pack(0, False), 0)
            found_rows = read(self.ranges[number], self.options)
            for rows in found_rows if self.decoding is None else self.decoding.rows(found_rows):
                records += rows.num_rows
                os.pwrite(descriptor, _STATE.pack(records, False), 0)
                for name, reader in readers.items():
                    rows, bad = _with_json(rows, name, reader, counters.get(name))
                    unparsed[name] += bad
                for name in self.texts:
                    at = rows.schema.get_field_index(name)
                    rows = rows.set_column(at, name, text(rows.column(at)))
                yield rows
            found = {name: counter.found for name, counter in counters.items() if counter.records}
            path.with_suffix(_FIELDS).write_text(json.dumps(found), encoding="utf-8")
            path.with_suffix(_UNPARSED).write_text(json.dumps(unparsed), encoding="utf-8")
            os.pwrite(descriptor, _STATE.pack(records, True), 0)
        except Exception as e:
            path.with_suffix(_ERROR).write_text(_describe(e), encoding="utf-8")
            raise
        finally:
            os.close(descriptor)


def _with_json(
    rows: pa.RecordBatch, name: str, reader: JsonReader, counter: FieldCounter | None
) -> tuple[pa.RecordBatch, int]:
    """The rows with the JSON of a column as a struct, and how many texts do not fit. Such a one is
    whole in `_corrupt_record`, beside the fields that do."""
    at = rows.schema.get_field_index(name)
    column = rows.column(at)
    texts = column.to_pylist()
    objects, reasons = load_all(texts)
    for number, value in enumerate(objects):
        if CORRUPT in value:
            reasons[number] = f"the name {CORRUPT} is taken"
    if counter is not None:
        counter.see(objects)
    fields = reader.columns(objects, reasons)
    corrupt = [
        None if reason is None else given for given, reason in zip(texts, reasons, strict=True)
    ]
    whole = pa.StructArray.from_arrays(
        [*fields, text(pa.array(corrupt, pa.binary()))],
        fields=[*reader.schema, pa.field(CORRUPT, pa.string())],
        mask=column.is_null(),
    )
    return rows.set_column(at, name, whole), len(corrupt) - corrupt.count(None)


def text(column: pa.Array) -> pa.Array:
    """Bytes as strings; invalid UTF-8 becomes U+FFFD, as in Java."""
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        values = column.to_pylist()
        decoded = [None if v is None else v.decode(errors="replace") for v in values]
        return pa.array(decoded, pa.string())


def states(folder: Path) -> dict[int, TaskState]:
    """The progress of each range that was started, by its index."""
    found: dict[int, TaskState] = {}
    for path in folder.iterdir():
        if not path.suffix:
            data = path.read_bytes()
            if len(data) == _STATE.size:
                found[int(path.name)] = TaskState(*_STATE.unpack(data))
    return found


def unknown_fields(folder: Path) -> dict[str, UnknownFields]:
    """Column → the records of all finished tasks with fields that the column lacks."""
    parts: dict[str, list[UnknownFields]] = {}
    for path in folder.glob(f"*{_FIELDS}"):
        for name, (records, fields) in json.loads(path.read_text(encoding="utf-8")).items():
            parts.setdefault(name, []).append(UnknownFields(records, tuple(fields)))
    return {name: merged(found) for name, found in sorted(parts.items())}


def unparsed(folder: Path) -> dict[str, int]:
    """Column → the number of keys or values of all finished tasks that do not fit its fields."""
    found: Counter[str] = Counter()
    for path in folder.glob(f"*{_UNPARSED}"):
        found.update(json.loads(path.read_text(encoding="utf-8")))
    return {name: count for name, count in sorted(found.items()) if count}


def _describe(error: Exception) -> str:
    message = getattr(error, "message", None) or str(error)
    described = {
        "type": type(error).__name__,
        "code": int(error.code) if isinstance(error, KafkaError) else None,
        "lost": isinstance(error, DataLost),
        "message": message,
    }
    return json.dumps(described)


def errors(folder: Path) -> list[Exception]:
    """The errors of failed tasks: KafkaError, DataLost, or SparkFailed for anything else."""
    found: list[Exception] = []
    for path in sorted(folder.glob(f"*{_ERROR}")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["code"] is not None:
            found.append(KafkaError(data["code"], data["message"]))
        elif data["lost"]:
            found.append(DataLost(data["message"]))
        else:
            found.append(SparkFailed(f"a task failed: {data['type']}: {data['message']}"))
    return found
