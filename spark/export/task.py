"""The part of an export that runs in Spark's Python workers: a task reads its ranges and reports
its progress.

Spark reports to the driver how many tasks are done, but not the progress of a task, and it passes
on a worker's exception as text. So each task writes a small file with the number of records read
and, after a failure, one with the error. These files are in the export's directory, next to the
unfinished files, so workers and driver need no other shared storage.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as t

from pk.core.errors import KafkaError
from pk.spark.errors import DataLost, SparkFailed
from pk.spark.export.unknown_fields import FieldCounter, Fields, UnknownFields, merged
from pk.spark.files.store import LocalStore, Store
from pk.spark.read.ranges import OffsetRange
from pk.spark.read.read_options import ReadOptions
from pk.spark.read.reader import read
from pk.spark.text.json_reader import JsonReader, fields_of, load_all

if TYPE_CHECKING:
    from pk.spark.export.schemas import Decoding

_ERROR: Final = ".error"
_REPORT_EVERY_S: Final = 0.2
_REMOTE_REPORT_EVERY_S: Final = 2.0
"""Seconds between a task's reports of its progress: the first to a directory, the second to object
storage."""

CORRUPT: Final = "_corrupt_record"
"""The field with a text that is not a JSON object or does not fit the column's fields."""

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
"""The columns of records, with keys and values as bytes."""


@dataclass(frozen=True)
class TaskState:
    """The progress of one task."""

    records: int
    done: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Column → the number of records with fields that the column lacks, and the names of those
    fields."""

    unparsed: Mapping[str, int] = field(default_factory=dict[str, int])
    """Column → the number of texts that do not fit its fields."""


def read_interval_s(states: Store) -> float:
    """The time in seconds between two reads of the states."""
    return _REPORT_EVERY_S if isinstance(states, LocalStore) else _REMOTE_REPORT_EVERY_S


@dataclass(frozen=True)
class JsonTexts:
    """The JSON columns, whose texts become structs."""

    schemas: Mapping[str, t.StructType]
    """Column → its fields; the last is `_corrupt_record`."""

    zone: str

    def readers(self) -> dict[str, JsonReader]:
        """The readers of the columns. Raises OptionError for a type that JSON lacks."""
        return {
            name: JsonReader(fields_of(t.StructType(schema.fields[:-1])), self.zone)
            for name, schema in self.schemas.items()
        }


@dataclass(frozen=True)
class ReadRanges:
    """A function for `mapInArrow` that takes the indexes of ranges and yields their records."""

    ranges: tuple[OffsetRange, ...]
    options: ReadOptions
    texts: frozenset[str]
    """Which of the columns `key` and `value` become strings."""

    json: JsonTexts
    states: Store
    fields: Mapping[str, Fields]
    """JSON column → its known fields; records with other fields are counted."""

    decoding: "Decoding | None" = None
    """The decoder of keys and values with schemas."""

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(number)

    def _read(self, number: int) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        # Several attempts of a task may run at the same time.
        name = f"{number}-{0 if context is None else context.taskAttemptId()}"
        records, said, every_s = 0, time.monotonic(), read_interval_s(self.states)
        counters = {name: FieldCounter(known) for name, known in self.fields.items()}
        readers = self.json.readers()
        unparsed: Counter[str] = Counter()
        try:
            found_rows = read(self.ranges[number], self.options)
            for rows in found_rows if self.decoding is None else self.decoding.rows(found_rows):
                first = not records
                records += rows.num_rows
                if first or time.monotonic() - said >= every_s:
                    said = time.monotonic()
                    self._say(name, TaskState(records))
                for column, reader in readers.items():
                    rows, bad = _with_json(rows, column, reader, counters.get(column))
                    unparsed[column] += bad
                for column in self.texts:
                    at = rows.schema.get_field_index(column)
                    rows = rows.set_column(at, column, text(rows.column(at)))
                yield rows
            found = {c: counter.found for c, counter in counters.items() if counter.records}
            self._say(name, TaskState(records, True, found, unparsed))
        except Exception as e:
            self.states.write(f"{name}{_ERROR}", _describe(e).encode())
            raise

    def _say(self, name: str, state: TaskState) -> None:
        self.states.write(name, json.dumps(vars(state)).encode())


def _with_json(
    rows: pa.RecordBatch, name: str, reader: JsonReader, counter: FieldCounter | None
) -> tuple[pa.RecordBatch, int]:
    """Convert a column of JSON texts to structs, and count the texts that do not fit. Such a text
    is kept whole in `_corrupt_record`, next to the fields that fit."""
    at = rows.schema.get_field_index(name)
    column = rows.column(at)
    texts = column.to_pylist()
    objects, reasons = load_all(texts)
    for number, value in enumerate(objects):
        if CORRUPT in value:
            reasons[number] = f"the column name {CORRUPT} is already used"
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
    """Convert bytes to strings; invalid UTF-8 becomes U+FFFD, as in Java."""
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        values = column.to_pylist()
        decoded = [None if v is None else v.decode(errors="replace") for v in values]
        return pa.array(decoded, pa.string())


class States:
    """The states of a job's tasks, by the index of their range."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._done: dict[int, TaskState] = {}
        self._read_at = 0.0
        self._found: dict[int, TaskState] = {}

    def now(self) -> dict[int, TaskState]:
        """Read the state of each task that has started."""
        found = dict(self._done)
        for name in self._store.names():
            number, _, _ = name.partition("-")
            if not number.isdecimal() or name.endswith(_ERROR) or int(number) in self._done:
                continue
            try:
                state = TaskState(**json.loads(self._store.read(name)))
            except FileNotFoundError:  # the task is replacing the file
                continue
            if state.done:
                self._done[int(number)] = state
            known = found.get(int(number))
            if known is None or not known.done and (state.done or state.records > known.records):
                found[int(number)] = state
        self._read_at, self._found = time.monotonic(), found
        return found

    def recent(self) -> dict[int, TaskState]:
        """The states as of the last read, which is repeated if it was too long ago."""
        if time.monotonic() - self._read_at < read_interval_s(self._store):
            return self._found
        return self.now()

    def errors(self) -> list[Exception]:
        """The errors of failed tasks: KafkaError, DataLost, or SparkFailed for anything else."""
        names = sorted(name for name in self._store.names() if name.endswith(_ERROR))
        return [_error(json.loads(self._store.read(name))) for name in names]


def unknown_fields(states: Iterable[TaskState]) -> dict[str, UnknownFields]:
    """Column → the records with fields that the column lacks, added up over the tasks."""
    parts: dict[str, list[UnknownFields]] = {}
    for state in states:
        for name, (records, fields) in state.fields.items():
            parts.setdefault(name, []).append(UnknownFields(records, tuple(fields)))
    return {name: merged(found) for name, found in sorted(parts.items())}


def unparsed(states: Iterable[TaskState]) -> dict[str, int]:
    """Column → the number of keys or values that do not fit the column's fields, added up over the
    tasks."""
    found: Counter[str] = Counter()
    for state in states:
        found.update(state.unparsed)
    return {name: count for name, count in sorted(found.items()) if count}


def _error(data: Mapping[str, Any]) -> Exception:
    if data["code"] is not None:
        return KafkaError(data["code"], data["message"])
    if data["lost"]:
        return DataLost(data["message"])
    return SparkFailed(f"a task failed: {data['type']}: {data['message']}")


def _describe(error: Exception) -> str:
    message = getattr(error, "message", None) or str(error)
    described = {
        "type": type(error).__name__,
        "code": int(error.code) if isinstance(error, KafkaError) else None,
        "lost": isinstance(error, DataLost),
        "message": message,
    }
    return json.dumps(described)
