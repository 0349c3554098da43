"""Reads files of CSV and JSON lines as a pipeline's sources and tables.

Spark lists the files, decompresses them and reads each as a whole. pk parses them (CSV by RFC 4180)
with the same modules as imports (pk.spark.text), because Spark's own readers alter values that they
do not understand.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StructType

from pk.spark.connect import struct_of
from pk.spark.errors import OptionError, SparkError
from pk.spark.read.sample import infer
from pk.spark.text.csv_reader import BadCsv, CsvReader, first_row
from pk.spark.text.csv_types import CsvColumns, checked_columns
from pk.spark.text.json_reader import JsonReader, fields_of
from pk.spark.text.lines import file_lines, json_lines
from pk.spark.text.text_options import dialect_of, has_header, text_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_HEAD_BYTES: Final = 1 << 20
_LINES: Final = 10_000
"""The number of JSON lines that are in memory as objects."""

_SAMPLE: Final = 20_000
_NO_COLUMNS: Final = "there is no file to take the columns from; give them in fields"


class BadFile(SparkError):
    """A file is not valid in its format. The message has the file, the line and the reason."""


def file_parser(
    spark: "SparkSession", kind: str, fields: StructType | str, options: Mapping[str, str]
) -> "Callable[[Column, Column], Column]":
    """Return a function that converts columns of files' paths and contents to arrays of rows, which
    are structs of `fields`. `kind` is csv or json. Raises OptionError, PySparkException."""
    columns = struct_of(spark, fields) if isinstance(fields, str) else fields
    own = text_options(kind, options)[1]
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    if kind == "csv":
        CsvColumns(columns, zone)
    else:
        JsonReader(fields_of(columns), zone)

    def rows(path: str, content: bytes) -> pa.StructArray:
        if kind == "csv":
            return _csv_rows(path, content, columns, own, zone)
        return _json_rows(path, content, columns, zone)

    def parse(paths: pa.Array, contents: pa.Array) -> pa.Array:
        names = [_readable(path) for path in paths.to_pylist()]
        files = [
            rows(name, content) for name, content in zip(names, contents.to_pylist(), strict=True)
        ]
        offsets = [0, *itertools.accumulate(map(len, files))]
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.concat_arrays(files))

    arrow_udf: Any = f.arrow_udf
    return arrow_udf(parse, ArrayType(columns))


def _csv_rows(
    path: str, content: bytes, columns: StructType, own: Mapping[str, str], zone: str
) -> pa.StructArray:
    """Parse the rows of a CSV file. Raises BadFile."""
    made = CsvColumns(columns, zone)
    batches: list[pa.StructArray] = []
    try:
        dialect = dialect_of(path, own)
        lines = file_lines(content)
        first = first_row(lines, dialect)
        if first is not None:
            header = has_header(own)
            checked_columns(path, first, columns, header=header)
            skipped = first.lines if header else 0
            reader = CsvReader(dialect, len(made.names), skipped + 1, crlf=first.crlf)
            batches += [
                made.batch(rows, {}).to_struct_array() for rows in reader.read(lines[skipped:])
            ]
            reader.end()
    except BadCsv as e:
        raise BadFile(f"{path}, line {e.line}: {e.reason}") from None
    except OptionError as e:
        raise BadFile(str(e)) from None
    empty = pa.array([], pa.struct(list(made.schema)))
    return pa.concat_arrays([empty, *batches])


def _json_rows(path: str, content: bytes, columns: StructType, zone: str) -> pa.StructArray:
    """Parse the rows of a JSON file. Raises BadFile."""
    reader = JsonReader(fields_of(columns), zone)
    empty = pa.array([], pa.struct(list(reader.schema)))
    batches: list[pa.StructArray] = [empty]
    lines = json_lines(file_lines(content), first=True)
    for begin in range(0, len(lines), _LINES):
        part = lines[begin : begin + _LINES]
        made, reasons = reader.read(part)
        for number, reason in enumerate(reasons, begin + 1):
            if reason is not None:
                raise BadFile(f"{path}, line {number}: {reason}")
        rows = pa.StructArray.from_arrays(made, fields=list(reader.schema))
        batches.append(rows.filter(pa.array([line is not None for line in part], pa.bool_())))
    return pa.concat_arrays(batches)


def _readable(url: str) -> str:
    return unquote(url.removeprefix("file://"))


def text_files(
    spark: "SparkSession",
    kind: str,
    where: str,
    options: Mapping[str, str],
    fields: StructType | None,
    *,
    stream: bool,
) -> "DataFrame":
    """The rows of the files at a path or pattern; `kind` is csv or json. Without `fields`, the
    columns of CSV are text and named as in the first file, and those of JSON are inferred from a
    sample. Raises OptionError, PySparkException."""
    listing, own = text_options(kind, options)
    files = {"wholetext": "true", **listing}
    if fields is None:
        found = spark.read.format("text").options(**files).load(where)
        fields = _csv_columns(found, own) if kind == "csv" else _json_columns(spark, found)
    parse = file_parser(spark, kind, fields, options)
    frame = (spark.readStream if stream else spark.read).format("text").options(**files).load(where)
    # The values in directory names, such as date=2026-01-31, are also columns of each row.
    folders = [f.col(f"`{name}`") for name in frame.columns if name != "value"]
    rows = parse(f.col("_metadata.file_path"), f.col("value").cast("binary"))
    return frame.select(f.inline(rows), *folders)


def _csv_columns(files: "DataFrame", own: Mapping[str, str]) -> StructType:
    head = f.substring(f.col("value").cast("binary"), 1, _HEAD_BYTES)
    for row in files.select("_metadata.file_path", head).toLocalIterator():
        path = _readable(row[0])
        try:
            first = first_row(file_lines(bytes(row[1])), dialect_of(path, own))
        except BadCsv as e:
            raise OptionError(f"{path}, line {e.line}: {e.reason}") from None
        if first is not None:
            return checked_columns(path, first, StructType(), header=has_header(own))
    raise OptionError(_NO_COLUMNS)


def _json_columns(spark: "SparkSession", files: "DataFrame") -> StructType:
    sample: list[bytes] = []
    head = f.substring(f.col("value").cast("binary"), 1, _HEAD_BYTES)
    for row in files.select(head).toLocalIterator():
        lines = json_lines(file_lines(bytes(row[0])), first=True)
        sample += [line for line in lines if line is not None]
        if len(sample) >= _SAMPLE:
            break
    found = infer(spark, sample[:_SAMPLE])
    if not found.fields:
        raise OptionError(_NO_COLUMNS)
    return found
