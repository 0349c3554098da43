"""Decodes and encodes columns in Confluent's wire format.

The driver finds the ids that a batch names, asks the registry for their schemas once, and gives
them to the tasks: workers decode Arrow batches and never contact the registry. The result is JSON
text, which Spark's `from_json` converts to columns; with a reader schema in Avro, records of every
version are converted to that schema's columns.

In a stream, the ids are known only for each batch, so call these functions in `foreachBatch`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pk.core.schemas.schema import AVRO, Resolved, SchemaError, UnfitValue
from pk.core.schemas.serialization import Deserializer, encoder
from pk.core.schemas.wire_format import SchemaId, WireFormatError, decode
from pk.net.schemas.blocking import Schemas
from pk.spark.errors import SparkError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

OnError = Literal["fail", "null"]
IDENTITY_BYTES: Final = 17
"""The number of leading bytes that can contain an id or a GUID."""

Key = tuple[int | None, str | None]


class SchemaColumnError(SparkError):
    """A column cannot be decoded or encoded."""


def decoded(
    frame: DataFrame,
    registry: str,
    *,
    column: str = "value",
    reader: str | None = None,
    user: str | None = None,
    password: str | None = None,
    on_error: OnError = "fail",
) -> DataFrame:
    """Decode `column` of the frame to JSON text, or with `reader` to a struct.

    `registry`: a URL, or a directory of files. `reader`: a subject whose latest Avro schema is used
    to read all records, including those of other versions. `on_error`: "fail", or "null" for the
    values that cannot be decoded.

    Raises SchemaColumnError for a stream, RegistryError, RegistryUnreachable, SchemaError.
    """
    if frame.isStreaming:
        raise SchemaColumnError(
            "a stream's schema ids are known only batch by batch: call this in foreachBatch"
        )
    schemas = Schemas(registry, user=user, password=password)
    known = {key: schemas.by_id(SchemaId(*key)) for key in _identities(frame, column)}
    wanted = None
    if reader is not None:
        wanted = schemas.of_subject(reader)[1]
        if wanted.schema.type != AVRO:
            raise SchemaColumnError(
                f"{reader} is {wanted.schema.type}: only Avro reads other versions"
            )
    done = _map(frame, column, "string", _Decoding(known, wanted, on_error))
    if wanted is None:
        return done
    from pyspark.sql import functions as F

    from pk.spark.schemas.avro_types import ddl_of
    from pk.spark.text.json_columns import ERROR, VALUE, json_parser

    # Spark's from_json would return null for values that do not fit.
    parse = json_parser(frame.sparkSession, ddl_of(wanted))
    read = done.withColumn(column, parse(F.encode(column, "utf-8")))
    value, error = F.col(column)[VALUE], F.col(column)[ERROR]
    if on_error == "fail":
        said = F.concat(F.lit("a record cannot be decoded: "), error)
        value = F.when(error.isNull(), value).otherwise(F.raise_error(said))
    return read.withColumn(column, value)


def encoded(
    frame: DataFrame,
    registry: str,
    subject: str,
    *,
    column: str = "value",
    version: int = -1,
    message: str | None = None,
    user: str | None = None,
    password: str | None = None,
) -> DataFrame:
    """Encode `column` of the frame, a struct or JSON text, with a subject's schema and its id.

    `version`: -1 is the latest. `message`: the name of the protobuf message (default: the first).

    Raises RegistryError, RegistryUnreachable, SchemaError.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    from pk.spark.text.json_writing import MICROSECONDS

    schema_id, schema = Schemas(registry, user=user, password=password).of_subject(subject, version)
    encoder(schema, schema_id, message)  # fails here if the schema cannot be used
    if not isinstance(frame.schema[column].dataType, StringType):
        how = {"ignoreNullFields": "false", **MICROSECONDS}
        frame = frame.withColumn(column, F.to_json(column, how))
    return _map(frame, column, "binary", _Encoding(schema, schema_id, message))


def _identities(frame: DataFrame, column: str) -> list[Key]:
    """Find the schemas that a column's records name. Records that name none are left for the tasks
    to report."""
    from pyspark.sql import functions as F

    heads = frame.select(F.substring(column, 1, IDENTITY_BYTES).alias("head")).where(
        "head is not null"
    )
    first = F.substring("head", 1, 1)
    identity = F.when(first == F.lit(b"\1"), F.col("head")).otherwise(F.substring("head", 1, 5))
    found: set[Key] = set()
    for row in heads.select(identity.alias("head")).distinct().collect():
        try:
            wanted, _ = decode(bytes(row["head"]))
        except WireFormatError:
            continue
        found.add((wanted.id, wanted.guid))
    return sorted(found, key=str)


def _map(
    frame: DataFrame, column: str, kind: str, run: Callable[[Iterable[Any]], list[Any]]
) -> DataFrame:
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    made = StringType() if kind == "string" else BinaryType()
    fields = [
        StructField(f.name, made, nullable=True) if f.name == column else f for f in frame.schema
    ]

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        made_of = pa.string() if kind == "string" else pa.binary()
        for batch in given:
            index = batch.schema.get_field_index(column)
            values = run(batch.column(index).to_pylist())
            yield batch.set_column(index, column, pa.array(values, made_of))

    return frame.mapInArrow(batches, StructType(fields))


class _Decoding:
    """The decoder of a task. The workers receive it as it is, and create the readers."""

    def __init__(
        self, known: Mapping[Key, Resolved], wanted: Resolved | None, on_error: OnError
    ) -> None:
        self._known = dict(known)
        self._wanted = wanted
        self._on_error = on_error

    def __call__(self, values: Iterable[Any]) -> list[str | None]:
        read = self._reader()
        found: list[str | None] = []
        for each in values:
            if each is None:
                found.append(None)
                continue
            try:
                found.append(json.dumps(_finite(read(bytes(each))), ensure_ascii=False))
            except (WireFormatError, UnfitValue, SchemaError) as e:
                if self._on_error == "fail":
                    raise SchemaColumnError(f"a record cannot be decoded: {e}") from None
                found.append(None)
        return found

    def _reader(self) -> Callable[[bytes], Any]:
        def ask(wanted: SchemaId) -> Resolved:
            return self._known[wanted.id, wanted.guid]

        if self._wanted is None:
            return Deserializer(ask).decode
        return _AvroReader(self._known, self._wanted)


def _finite(value: Any) -> Any:
    """Replace NaN and infinities with texts, as Spark does, since JSON lacks these numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_finite(each) for each in cast("list[Any]", value)]
    return value


class _AvroReader:
    """A reader of all versions with one schema."""

    def __init__(self, known: Mapping[Key, Resolved], wanted: Resolved) -> None:
        self._known = known
        self._wanted = wanted
        self._readers: dict[Key, Callable[[bytes], Any]] = {}

    def __call__(self, data: bytes) -> Any:
        from pk.core.schemas.avro.values import reader, to_json

        found, at = decode(data)
        key = found.id, found.guid
        read = self._readers.get(key)
        if read is None:
            written = self._known[key]
            if written.schema.type != AVRO:
                raise UnfitValue(f"its schema is {written.schema.type}, not {AVRO}")
            target = (self._wanted.text, self._wanted.dependencies)
            read = self._readers[key] = reader(written.text, written.dependencies, target)
        return to_json(read(data[at:]))


class _Encoding:
    """The encoder of a task."""

    def __init__(self, schema: Resolved, schema_id: int, message: str | None) -> None:
        self._schema = schema
        self._id = schema_id
        self._message = message

    def __call__(self, values: Iterable[Any]) -> list[bytes | None]:
        write = encoder(self._schema, self._id, self._message)
        found: list[bytes | None] = []
        for each in values:
            try:
                found.append(None if each is None else write(json.loads(each)))
            except ValueError as e:
                raise SchemaColumnError(f"a row cannot be encoded: {e}") from None
        return found
