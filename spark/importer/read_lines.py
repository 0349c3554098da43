"""Converts lines of text to rows, in Spark's Python workers.

A task reads one portion of a file as lines of bytes. An unreadable line makes the task fail with
BadLine, whose message carries the portion, the line and the reason through Spark to the driver.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as t

from pk.spark.errors import SparkError
from pk.spark.text.csv_reader import (
    ROW_BYTES_MAX,
    BadCsv,
    CsvReader,
    Dialect,
    FirstRow,
    first_row,
)
from pk.spark.text.csv_types import CsvColumns
from pk.spark.text.json_inference import infer
from pk.spark.text.json_reader import Field, JsonReader, load_all
from pk.spark.text.lines import json_lines, without_bom

LINE: Final = "_pk_line"
"""The column with the unchanged JSON line."""

_MARK: Final = "pk-bad-line"
_SAID: Final = re.compile(rf"{_MARK}:(\d+):(\d+):(.*?):{_MARK}", re.DOTALL)


class BadLine(SparkError):
    """A line that is not valid in its format."""

    def __init__(self, portion: int, line: int, reason: str) -> None:
        super().__init__(f"{_MARK}:{portion}:{line}:{reason}:{_MARK}")


def parse_bad_line(message: str) -> tuple[int, int, str] | None:
    """Parse the message of a failed job: the portion, the line in the portion (for CSV, in the
    file) and the reason. None if the job failed for another reason."""
    found = _SAID.search(message)
    return None if found is None else (int(found[1]), int(found[2]), found[3])


def _portion() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


@dataclass(frozen=True)
class ReadJson:
    """A function for `mapInArrow` that converts lines to the columns `fields`; with `whole`, it
    also returns each line unchanged."""

    fields: tuple[Field, ...]
    zone: str
    whole: bool

    def check(self) -> None:
        """Raise OptionError for a type that JSON lacks."""
        JsonReader(self.fields, self.zone)

    @property
    def schema(self) -> t.StructType:
        """The columns of the result, without those of directories."""
        columns = [t.StructField(each.name, each.type) for each in self.fields]
        line = [t.StructField(LINE, t.BinaryType())] if self.whole else []
        return t.StructType([*columns, *line])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        portion = _portion()
        reader = JsonReader(self.fields, self.zone)
        done = 0
        for batch in batches:
            lines = json_lines(batch.column(0).to_pylist(), first=done == 0)
            rows, reasons = load_all(lines)
            columns = reader.columns(rows, reasons)
            for number, reason in enumerate(reasons, 1):
                if reason is not None:
                    raise BadLine(portion, done + number, reason)
            done += batch.num_rows
            kept = pa.array(lines, pa.binary())
            line = [kept] if self.whole else []
            names = [*self.schema.names, *batch.schema.names[1:]]
            made = pa.RecordBatch.from_arrays([*columns, *line, *batch.columns[1:]], names)
            # A null is an empty line.
            yield made if not kept.null_count else made.filter(kept.is_valid())


@dataclass(frozen=True)
class FindFields:
    """A function for `mapInArrow` that yields, pickled, the fields that `infer` finds in the
    lines."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        for batch in batches:
            lines = json_lines(batch.column(0).to_pylist(), first=True)
            found = infer(line for line in lines if line is not None)
            yield pa.RecordBatch.from_pydict({"found": pa.array([pickle.dumps(found)])})


class CsvPortion(NamedTuple):
    """The facts about a portion that its task needs."""

    dialect: Dialect
    crlf: bool
    skipped: int
    """How many of its first lines belong to the header, or to a row that began in an earlier
    portion."""

    line: int
    """The number of its first line, counted in the file."""

    rest: tuple[bytes, ...] = ()
    """The lines of later portions that complete its last row."""


@dataclass(frozen=True)
class ReadCsv:
    """A function for `mapInArrow` that converts lines to columns."""

    columns: t.StructType
    portions: Mapping[int, CsvPortion]
    zone: str

    def check(self) -> None:
        """Raise OptionError for a type that CSV lacks."""
        CsvColumns(self.columns, self.zone)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = _portion()
        if number not in self.portions:
            return  # the file is empty, or already imported
        portion = self.portions[number]
        columns = CsvColumns(self.columns, self.zone)
        line = portion.line + portion.skipped
        reader = CsvReader(portion.dialect, len(columns.names), line, crlf=portion.crlf)
        left = portion.skipped
        first = portion.line == 1
        folders: dict[str, pa.Scalar] = {}
        try:
            for batch in batches:
                lines = batch.column(0).to_pylist()
                if first and lines:
                    lines[0] = without_bom(lines[0])
                    first = False
                if lines:
                    folders = {name: batch.column(name)[0] for name in batch.schema.names[1:]}
                kept = lines[left:]
                left -= len(lines) - len(kept)
                for rows in reader.read(kept):
                    yield columns.batch(rows, folders)
            for rows in reader.read(portion.rest):
                yield columns.batch(rows, folders)
            reader.end()
        except BadCsv as e:
            raise BadLine(number, e.line, e.reason) from None


@dataclass(frozen=True)
class CountLines:
    """A function for `mapInArrow` that counts the lines and the quotes."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            bytes_ = np.frombuffer(b"".join(batch.column(0).to_pylist()), np.uint8)
            quotes = int(np.count_nonzero(bytes_ == ord('"')))
            yield pa.RecordBatch.from_pydict({"lines": [batch.num_rows], "quotes": [quotes]})


def first_row_of(lines: Iterable[bytes], dialect: Dialect) -> FirstRow | BadCsv | None:
    """The first row of a file, or the error in it; None if the file has no row."""
    try:
        return first_row(lines, dialect)
    except BadCsv as e:
        return e


def begun_row(lines: Iterable[bytes]) -> tuple[list[bytes], bool]:
    """The lines that complete a row which began inside quotes before them, and whether the row ends
    in them."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        found.append(line)
        size += len(line)
        if line.count(b'"') % 2 == 1:
            return found, True
        if size > ROW_BYTES_MAX:
            break
    return found, False
