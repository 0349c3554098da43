"""Files of CSV as a pipeline's source or table.

Spark lists the files, unpacks them and reads each whole; pk makes rows of it by RFC 4180
(pk.spark.text.csv_reader), because Spark's own reader alters what it does not understand.
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
from pk.spark.text.csv_reader import BadCsv, CsvReader, first_row, without_bom
from pk.spark.text.csv_types import CsvColumns, checked_columns
from pk.spark.text.text_options import dialect_of, has_header, text_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_HEAD_BYTES: Final = 1 << 20


class BadFile(SparkError):
    """A file is not CSV. The message names file, line and reason."""


def csv_parser(
    spark: "SparkSession", fields: StructType | str, options: Mapping[str, str]
) -> "Callable[[Column, Column], Column]":
    """What makes of a file's path and its content an array of rows, which are structs of `fields`.
    Raises OptionError, PySparkException."""
    columns = struct_of(spark, fields) if isinstance(fields, str) else fields
    own = text_options("csv", options)[1]
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    CsvColumns(columns, zone)

    def parse(paths: pa.Array, contents: pa.Array) -> pa.Array:
        names = [_readable(path) for path in paths.to_pylist()]
        files = [
            _rows(name, content, columns, own, zone)
            for name, content in zip(names, contents.to_pylist(), strict=True)
        ]
        offsets = [0, *itertools.accumulate(map(len, files))]
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.concat_arrays(files))

    arrow_udf: Any = f.arrow_udf
    return arrow_udf(parse, ArrayType(columns))


def _rows(
    path: str, content: bytes, columns: StructType, own: Mapping[str, str], zone: str
) -> pa.StructArray:
    """The rows of a file. Raises BadFile."""
    made = CsvColumns(columns, zone)
    batches: list[pa.StructArray] = []
    try:
        dialect = dialect_of(path, own)
        lines = _lines(content)
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


def _lines(content: bytes) -> list[bytes]:
    lines = without_bom(content).split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _readable(url: str) -> str:
    return unquote(url.removeprefix("file://"))


def csv_files(
    spark: "SparkSession",
    where: str,
    options: Mapping[str, str],
    fields: StructType | None,
    *,
    stream: bool,
) -> "DataFrame":
    """The rows of the files at a path or pattern. Without `fields` the columns are text, named by
    the first file. Raises OptionError, PySparkException."""
    listing, own = text_options("csv", options)
    files = {"wholetext": "true", **listing}
    columns = fields or _columns_of(spark.read.format("text").options(**files).load(where), own)
    parse = csv_parser(spark, columns, options)
    frame = (spark.readStream if stream else spark.read).format("text").options(**files).load(where)
    # What the names of directories say, as in date=2026-01-31, is a column of each row, too.
    folders = [f.col(f"`{name}`") for name in frame.columns if name != "value"]
    rows = parse(f.col("_metadata.file_path"), f.col("value").cast("binary"))
    return frame.select(f.inline(rows), *folders)


def _columns_of(files: "DataFrame", own: Mapping[str, str]) -> StructType:
    head = f.substring(f.col("value").cast("binary"), 1, _HEAD_BYTES)
    for row in files.select("_metadata.file_path", head).toLocalIterator():
        path = _readable(row[0])
        try:
            first = first_row(_lines(bytes(row[1])), dialect_of(path, own))
        except BadCsv as e:
            raise OptionError(f"{path}, line {e.line}: {e.reason}") from None
        if first is not None:
            return checked_columns(path, first, StructType(), header=has_header(own))
    raise OptionError("there is no file to take the columns from; say them in fields")
