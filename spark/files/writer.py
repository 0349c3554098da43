"""Writes parquet files in tasks, each file directly to its final location.

The names of a task's files contain the run and the attempt of the task, so attempts do not
interfere with each other. The task returns a row for each file: its name, rows and size, and its
footer, which has the minimum, the maximum and the number of nulls of each column. So the driver
commits the files without reading them.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark import TaskContext
from pyspark.sql import types as t

from pk.spark.files.store import Store, hive_name

MAX_FILE_BYTES: Final = 512 << 20
"""The default size at which a file ends: the same as in Iceberg's own writers."""

_GROUP_BYTES: Final = 64 << 20
_GROUP_ROWS: Final = 1 << 20
_BUFFERED_BYTES: Final = 2 * _GROUP_BYTES
_OPEN_FILES: Final = 32

RESULT: Final = (
    t.StructType()
    .add("name", t.StringType())
    .add("rows", t.LongType())
    .add("size", t.LongType())
    .add("task", t.IntegerType())
    .add("footer", t.BinaryType())
)
"""The columns of the rows that a task returns."""

_RESULT: Final = pa.schema(
    [
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("task", pa.int32()),
        ("footer", pa.binary()),
    ]
)


class WrittenFile(NamedTuple):
    """A file that a task wrote."""

    name: str
    """Relative to the store."""

    rows: int
    size: int
    task: int
    """The number of the task, which is the number of its partition in Spark."""

    footer: bytes
    """A parquet file that contains only the footer."""

    @property
    def metadata(self) -> Any:
        """pyarrow's FileMetaData."""
        return parquet.read_metadata(pa.BufferReader(self.footer))


@dataclass(frozen=True)
class Rolling:
    """The size at which a file ends and the next begins. A file ends after the row group with which
    it reaches its size, so it may be somewhat larger."""

    max_bytes: int
    max_rows: int | None = None

    @property
    def group_bytes(self) -> int:
        """The largest size of a row group, in bytes of Arrow data."""
        return min(_GROUP_BYTES, self.max_bytes)

    @property
    def group_rows(self) -> int:
        return min(_GROUP_ROWS, self.max_rows or _GROUP_ROWS)


@dataclass(frozen=True)
class WriteFiles:
    """A function for `mapInArrow` that takes rows and yields the files that contain them."""

    store: Store
    schema: pa.Schema
    """The columns of the files; other columns of the rows are dropped."""

    prefix: str
    """The prefix of the file names."""

    by_task: Sequence[str] = ()
    """Task number → the next part of the file names; if empty, the task number itself."""

    codec: str = "SNAPPY"
    rolling: Rolling = field(default_factory=lambda: Rolling(MAX_FILE_BYTES))
    folders: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name in the directory → the text column with its value. The directories are nested in this
    order."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        task, attempt = context.partitionId(), context.taskAttemptId()
        written = self.write(batches, task, attempt)
        if written:
            yield pa.RecordBatch.from_pylist([each._asdict() for each in written], _RESULT)

    def write(
        self, batches: Iterable[pa.RecordBatch], task: int, attempt: int
    ) -> list[WrittenFile]:
        """Write the batches, and return the files. The files of a failed attempt are removed if
        possible. Raises OSError."""
        writer = _Writer(self, task, attempt)
        try:
            for batch in batches:
                writer.add(batch)
            return writer.end()
        except BaseException:
            writer.abandon()
            raise


class _Part:
    """The rows of one directory: those that wait for the next row group, and the open file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.waiting: list[pa.RecordBatch] = []
        self.bytes = 0
        self.waiting_rows = 0
        self.name = ""
        self.rows = 0
        self.file: Any = None
        self.writer: parquet.ParquetWriter | None = None
        self.footers: list[Any] = []


class _Writer:
    """The writer of one attempt of a task."""

    def __init__(self, options: WriteFiles, task: int, attempt: int) -> None:
        self._options = options
        self._task = task
        self._attempt = attempt
        self._parts: dict[str, _Part] = {}
        """The open parts by directory, the most recently used one last."""

        self._buffered = 0
        self._count = 0
        self._written: list[WrittenFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        for folder, rows in self._by_folder(batch):
            part = self._parts.pop(folder, None) or _Part(folder)
            self._parts[folder] = part
            self._take(part, _as(rows, self._options.schema))
        while self._buffered > _BUFFERED_BYTES:
            self._flush(max(self._parts.values(), key=lambda each: each.bytes))
        opened = [each for each in self._parts.values() if each.writer is not None]
        for each in opened[:-_OPEN_FILES]:
            self._close(each)

    def end(self) -> list[WrittenFile]:
        for part in self._parts.values():
            self._close(part)
        return self._written

    def abandon(self) -> None:
        """Remove the written files as far as possible; a later run removes the rest."""
        for part in self._parts.values():
            if part.file is not None and self._options.store.url.startswith("file:"):
                part.file.close()
        names = [each.name for each in self._written]
        names += [part.name for part in self._parts.values() if part.name]
        with contextlib.suppress(OSError):
            self._options.store.remove(names)

    def _take(self, part: _Part, rows: pa.RecordBatch) -> None:
        rolling = self._options.rolling
        while rows.num_rows:
            room = rolling.group_rows - part.waiting_rows
            if rolling.max_rows is not None:
                room = min(room, rolling.max_rows - part.rows - part.waiting_rows)
            now, rows = rows.slice(0, room), rows.slice(room)
            part.waiting.append(now)
            part.waiting_rows += now.num_rows
            size = now.nbytes
            part.bytes += size
            self._buffered += size
            full = rolling.max_rows is not None and (
                part.rows + part.waiting_rows >= rolling.max_rows
            )
            if full:
                self._close(part)
            elif part.bytes >= rolling.group_bytes or part.waiting_rows >= rolling.group_rows:
                self._flush(part)

    def _flush(self, part: _Part) -> None:
        """Write the waiting rows as one row group."""
        options = self._options
        if part.waiting:
            if part.writer is None:
                self._begin(part)
            assert part.writer is not None
            table = pa.Table.from_batches(part.waiting)
            part.writer.write_table(table, row_group_size=part.waiting_rows)
            part.rows += part.waiting_rows
            self._buffered -= part.bytes
            part.waiting, part.waiting_rows, part.bytes = [], 0, 0
            if part.file.tell() >= options.rolling.max_bytes:
                self._close(part)

    def _begin(self, part: _Part) -> None:
        options = self._options
        own = options.by_task[self._task] if options.by_task else f"{self._task:05d}"
        name = f"{options.prefix}{own}-{self._attempt}-{self._count}.parquet"
        self._count += 1
        part.name = f"{part.folder}/{name}" if part.folder else name
        part.file = options.store.create(part.name)
        part.footers = []
        part.writer = parquet.ParquetWriter(
            part.file,
            options.schema,
            compression=options.codec,
            metadata_collector=part.footers,
        )

    def _close(self, part: _Part) -> None:
        """Write the waiting rows, and complete the file."""
        if part.waiting:
            self._flush(part)
        if part.writer is None:
            return
        part.writer.close()
        size = part.file.tell()
        part.file.close()
        sink = pa.BufferOutputStream()
        part.footers[0].write_metadata_file(sink)
        footer = sink.getvalue().to_pybytes()
        self._written.append(WrittenFile(part.name, part.rows, size, self._task, footer))
        part.writer = part.file = None
        part.name, part.rows = "", 0

    def _by_folder(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Split a batch by directory. The rows of a directory keep their order."""
        folders = self._options.folders
        if not folders or not batch.num_rows:
            yield "", batch
            return
        columns = [pc.fill_null(batch.column(name), "") for name in folders.values()]
        codes = np.zeros(batch.num_rows, np.int64)
        values: list[list[str]] = []
        for column in columns:
            encoded = column.dictionary_encode()
            values.append(encoded.dictionary.to_pylist())
            codes = codes * len(values[-1]) + encoded.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        found, starts = np.unique(codes[order], return_index=True)
        for number, (code, start) in enumerate(zip(found.tolist(), starts.tolist(), strict=True)):
            end = starts[number + 1] if number + 1 < len(starts) else len(order)
            names: list[str] = []
            for name, known in zip(reversed(list(folders)), reversed(values), strict=True):
                code, at = divmod(code, len(known))
                names.append(f"{hive_name(name)}={hive_name(known[at])}")
            yield "/".join(reversed(names)), batch.take(pa.array(order[start:end]))


def _as(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the files, cast to their types."""
    columns: list[Any] = []
    for wanted in schema:
        column = rows.column(wanted.name)
        columns.append(column if column.type.equals(wanted.type) else column.cast(wanted.type))
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def write_rows(frame: Any, writing: WriteFiles) -> list[WrittenFile]:
    """Write the rows of a Spark data frame; each of its partitions is a task. Raises
    PySparkException."""
    names = frame.columns
    # mapInArrow looks columns up by name, and fails with names that have backticks.
    numbered = frame.toDF(*(str(number) for number in range(len(names))))

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return writing(pa.RecordBatch.from_arrays(each.columns, names=names) for each in batches)

    return [WrittenFile(*row) for row in numbered.mapInArrow(write, RESULT).collect()]
