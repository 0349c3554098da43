"""Decodes keys and values with their schemas, for the source.

When a query is planned, the driver chooses the schema that a column is read with; a query's columns
do not change. Before each batch, the driver asks the registry for the current versions of the
subjects. A schema is registered before the first record is written with it, and the batch's end is
known before the registry is asked, so every id in the batch is found. Only new versions are
fetched. The schemas go to the tasks with their ranges of offsets. Tasks never contact the registry,
and do not get its password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.schema import AVRO, JSON, PROTOBUF, Resolved, SchemaError, UnfitValue
from pk.core.schemas.subjects import STRATEGIES
from pk.core.schemas.wire_format import (
    KEY_SCHEMA_ID,
    VALUE_SCHEMA_ID,
    SchemaId,
    WireFormatError,
    decode,
    decode_indexes,
)
from pk.net.schemas.answers import RegistryUnreachable
from pk.net.schemas.blocking import Schemas
from pk.spark.errors import OptionError, SparkError
from pk.spark.schemas import avro_columns, json_columns, protobuf_columns
from pk.spark.schemas.options import COLUMNS, LATEST, Column, ColumnOptions, SchemaOptions
from pk.spark.schemas.shapes import Shape

Key = tuple[int | None, str | None]
"""How a record names a schema: by id, or by GUID."""

Written = Mapping[Column, Mapping[Key, Resolved]]
"""The schemas that the records of a batch may name, for each column."""

ERROR: Final = t.StructType(
    [t.StructField("message", t.StringType()), t.StructField("bytes", t.BinaryType())]
)
"""The type of `key_error` and `value_error`, which describe a value that cannot be decoded."""

_HEADERS: Final = {"key": KEY_SCHEMA_ID, "value": VALUE_SCHEMA_ID}
"""The headers that may name a column's schema, instead of the column's bytes."""

NEW_VERSION: Final = "pk-new-schema-version"
"""The prefix of NewSchemaVersion's message, for callers that have only Spark's error."""


class Undecodable(SparkError):
    """A record does not fit its schema, or names no known schema."""


class NewSchemaVersion(SparkError):
    """A subject has a newer version than the one that the query reads with."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The schema that a column is read with."""

    subjects: tuple[str, ...]
    version: int | None
    """None if the schema was chosen by its id."""

    schema: Resolved
    name: str | None

    def shape(self) -> Shape:
        """The column for the schema. Raises SchemaError."""
        kind = self.schema.schema.type
        if kind == AVRO:
            return avro_columns.shape(self.schema)
        if kind == JSON:
            return json_columns.shape(self.schema)
        return protobuf_columns.shape(self.schema, self.name)


class Reading:
    """The decoder of keys and values: the driver calls `choose` and `written`, tasks call
    `rows`."""

    def __init__(self, options: SchemaOptions, topics: tuple[str, ...]) -> None:
        """`topics` are the topics whose names determine the subjects; empty for a pattern."""
        self._options: SchemaOptions | None = options
        self._on_error = options.on_error
        self._topics = topics
        self._chosen: dict[Column, Chosen] = {}
        self._registry: Schemas | None = None
        self._seen: dict[tuple[str, int], tuple[int, Resolved]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state sent to tasks, without the registry's address and password."""
        kept = {"_options": None, "_registry": None, "_seen": {}}
        return {**self.__dict__, **kept}

    # called by the driver

    def choose(self, schema: t.StructType | None = None) -> t.StructType:
        """Choose the schemas, and return the types of the columns: those of the newest versions, or
        of the schemas that the options name. With `schema`, the columns of a planned query, choose
        the versions that have these columns.

        Raises OptionError, SchemaError, RegistryError, RegistryUnreachable.
        """
        assert self._options is not None
        fields: list[t.StructField] = []
        for column in COLUMNS:
            given = self._options.columns.get(column)
            if given is None:
                fields.append(t.StructField(column, t.BinaryType()))
                continue
            wanted = None
            if schema is not None and column in schema.names:
                wanted = schema[column].dataType
            chosen, shape = self._choose(column, given, wanted)
            self._chosen[column] = chosen
            fields.append(t.StructField(column, shape.type))
        return t.StructType(fields)

    def version(self, column: Column) -> int | None:
        """The version that a column is read with; None if its schema was chosen by id."""
        return self._chosen[column].version

    @property
    def more_columns(self) -> list[t.StructField]:
        """The columns that `schema.on.error=null` and `schema.include.bytes` add."""
        assert self._options is not None
        names = [name for name in COLUMNS if name in self._options.columns]
        found: list[t.StructField] = []
        if self._on_error == "null":
            found += [t.StructField(f"{name}_error", ERROR) for name in names]
        if self._options.include_bytes:
            found += [t.StructField(f"{name}_bytes", t.BinaryType()) for name in names]
        return found

    def _asked(self) -> Schemas:
        if self._registry is None:
            assert self._options is not None, "tasks do not use the registry"
            self._registry = self._options.registry.open()
        return self._registry

    def _choose(
        self, column: Column, given: ColumnOptions, wanted: t.DataType | None
    ) -> tuple[Chosen, Shape]:
        subjects: tuple[str, ...] = given.subjects or self._subjects(column, given)
        if given.id is not None:
            found = Chosen(subjects, None, self._asked().by_id(SchemaId(id=given.id)), given.name)
            return self._checked(column, given, found)
        newest = self._asked().version(subjects[0], given.version)
        chosen, shape = self._version(column, given, subjects, newest.version)
        if wanted is None or given.version != LATEST or _same(shape.type, wanted):
            return chosen, shape
        # A version was added after the query was planned.
        for number in reversed(self._asked().versions(subjects[0])):
            try:
                earlier = self._version(column, given, subjects, number)
            except (OptionError, SchemaError):
                continue
            if _same(earlier[1].type, wanted):
                return earlier
        raise OptionError(f"no version of {subjects[0]} has the columns that were planned")

    def _version(
        self, column: Column, given: ColumnOptions, subjects: tuple[str, ...], number: int
    ) -> tuple[Chosen, Shape]:
        _, schema = self._fetched(subjects[0], number)
        return self._checked(column, given, Chosen(subjects, number, schema, given.name))

    def _checked(
        self, column: Column, given: ColumnOptions, chosen: Chosen
    ) -> tuple[Chosen, Shape]:
        if chosen.schema.schema.type != given.type:
            raise OptionError(
                f"{column}.format is {given.type.lower()}, but the schema is"
                f" {chosen.schema.schema.type}"
            )
        return chosen, chosen.shape()

    def _subjects(self, column: Column, given: ColumnOptions) -> tuple[str, ...]:
        needed = f"{column}.schema.subject must be given"
        if given.strategy == "record" and given.name:
            return (given.name,)
        if given.strategy != "topic" and not given.name:
            raise OptionError(f"{needed}, or {column}.schema.name, the name of the record")
        if len(self._topics) > 1:
            raise OptionError(f"{needed}: several topics share one column")
        for topic in self._topics:
            return (STRATEGIES[given.strategy](topic, column == "key", given.name),)
        raise OptionError(f"{needed}: a pattern selects the topics")

    def _fetched(self, subject: str, number: int) -> tuple[int, Resolved]:
        """The id and the schema of a version, even if it was deleted."""
        found = self._seen.get((subject, number))
        if found is None:
            version = self._asked().version(subject, number, deleted=True)
            resolved = self._asked().resolve(version.schema, subject)
            found = self._seen[subject, number] = version.id, resolved
        return found

    def written(self) -> Written:
        """Fetch the schemas that records may name now.

        Raises NewSchemaVersion if there is a newer version and the options say so; RegistryError,
        RegistryUnreachable.
        """
        assert self._options is not None
        return {column: self._written(column, each) for column, each in self._chosen.items()}

    def _written(self, column: Column, chosen: Chosen) -> dict[Key, Resolved]:
        assert self._options is not None
        given = self._options.columns[column]
        found: dict[Key, Resolved] = {}

        def add(schema_id: int | None, schema: Resolved) -> None:
            found[schema_id, None] = found[None, schema.schema.guid] = schema

        add(given.id, chosen.schema)
        for subject in chosen.subjects:
            numbers = self._asked().versions(subject)
            for number in numbers:
                try:
                    add(*self._fetched(subject, number))
                except SchemaError:
                    continue  # each record with this schema is refused by itself
            if subject == chosen.subjects[0] and chosen.version is not None and numbers:
                self._look_for_newer(column, given, chosen, max(numbers))
        return found

    def _look_for_newer(
        self, column: Column, given: ColumnOptions, chosen: Chosen, newest: int
    ) -> None:
        assert self._options is not None and chosen.version is not None
        if self._options.on_new_version == "keep" or given.version != LATEST:
            return
        if newest <= chosen.version:
            return
        try:
            latest = self._asked().version(chosen.subjects[0], LATEST).version
        except RegistryError:
            return  # the newer versions were deleted
        if latest > chosen.version:
            raise NewSchemaVersion(
                f"{NEW_VERSION}:{column}:{latest}: {chosen.subjects[0]} has version {latest}, and"
                f" the query reads with version {chosen.version}; start it again"
            )

    # called by tasks

    def rows(
        self, batches: Iterable[pa.RecordBatch], written: Written, schema: t.StructType
    ) -> Iterator[pa.RecordBatch]:
        """Decode the columns of batches; `schema` is that of the query. The batches must have the
        column `headers`, since headers may name schemas. Raises Undecodable."""
        from pyspark.sql.pandas.types import to_arrow_schema

        whole = to_arrow_schema(schema, timezone="UTC")
        decoders = {
            column: ColumnDecoder(chosen, written[column], whole.field(column).type)
            for column, chosen in self._chosen.items()
        }
        for batch in batches:
            columns = {name: batch.column(name) for name in batch.schema.names}
            for column, decoder in decoders.items():
                named = _named(columns["headers"], _HEADERS[column])
                values, errors = decoder.decode(columns[column], named)
                if errors and self._on_error == "fail":
                    row, why = min(errors.items())
                    place = f"{batch['topic'][row]}-{batch['partition'][row]}"
                    raise Undecodable(
                        f"the {column} of the record at offset {batch['offset'][row]} of {place}"
                        f" cannot be decoded: {why}; schema.on.error=null continues without it"
                    )
                if self._on_error == "null":
                    kind = whole.field(f"{column}_error").type
                    columns[f"{column}_error"] = _errors(columns[column], errors, kind)
                columns[f"{column}_bytes"] = columns[column]
                columns[column] = values
            yield pa.RecordBatch.from_arrays([columns[name] for name in whole.names], schema=whole)


def _same(one: t.DataType, other: t.DataType) -> bool:
    return one.simpleString() == other.simpleString()


def _named(headers: pa.Array, name: str) -> dict[int, bytes]:
    """Row → the value of its first header with this name, for the rows that have one."""
    if headers.null_count == len(headers):
        return {}
    each = headers.flatten()
    found: dict[int, bytes] = {}
    chosen = pc.equal(pc.struct_field(each, "key"), name)
    rows = pc.list_parent_indices(headers).filter(chosen)
    values = pc.struct_field(each, "value").filter(chosen)
    for row, value in zip(rows.to_pylist(), values.to_pylist(), strict=True):
        if value is not None:
            found.setdefault(row, value)
    return found


def _errors(given: pa.Array, errors: Mapping[int, str], kind: pa.DataType) -> pa.Array:
    found: list[Any] = [None] * len(given)
    for row, why in errors.items():
        found[row] = {"message": why, "bytes": given[row].as_py()}
    return pa.array(found, kind)


class ColumnDecoder:
    """A decoder of a column in Confluent's wire format, used by a task."""

    def __init__(self, chosen: Chosen, written: Mapping[Key, Resolved], kind: pa.DataType) -> None:
        self._chosen = chosen
        self._written = written
        self._kind = kind
        self._readers: dict[Key, Callable[[bytes, tuple[int, ...]], Any]] = {}

    def decode(
        self, column: pa.Array, named: Mapping[int, bytes]
    ) -> tuple[pa.Array, dict[int, str]]:
        """Decode a column. Returns the values, and by row the reason why a value cannot be decoded;
        that value is null. `named` has the schemas that headers name, by row; the payloads of these
        rows have no prefix."""
        values: list[Any] = []
        errors: dict[int, str] = {}
        for row, data in enumerate(column.to_pylist()):
            value = None
            if data is not None:
                try:
                    # A header names a schema in the same form as the prefix of a payload.
                    value = self._read(named.get(row, b"") + data)
                except (WireFormatError, UnfitValue, SchemaError) as e:
                    errors[row] = str(e)
            values.append(value)
        try:
            return pa.array(values, self._kind), errors
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return self._one_by_one(values, errors), errors

    def _one_by_one(self, values: list[Any], errors: dict[int, str]) -> pa.Array:
        """Replace the values that the column's type cannot hold with null, and add the reasons to
        `errors`."""
        for row, value in enumerate(values):
            try:
                pa.array([value], self._kind)
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as e:
                values[row], errors[row] = None, f"the column's type cannot hold it: {e}"
        return pa.array(values, self._kind)

    def _read(self, data: bytes) -> Any:
        found, at = decode(data)
        key = found.id, found.guid
        place: tuple[int, ...] = ()
        read = self._readers.get(key)
        if read is None:
            read = self._readers[key] = self._reader(key)
        if self._chosen.schema.schema.type == PROTOBUF:
            place, at = decode_indexes(data, at)
        return read(data[at:], place)

    def _reader(self, key: Key) -> Callable[[bytes, tuple[int, ...]], Any]:
        written, wanted = self._written.get(key), self._chosen.schema
        if written is None:
            named = f"the id {key[0]}" if key[0] is not None else f"the GUID {key[1]}"
            subjects = " or ".join(self._chosen.subjects)
            raise UnfitValue(f"its schema has {named}, which no version of {subjects} has")
        kind = written.schema.type
        if kind != wanted.schema.type:
            raise UnfitValue(f"its schema is {kind}, not {wanted.schema.type}")
        if kind == AVRO:
            avro = avro_columns.read_with(written, wanted)
            return lambda payload, place: avro(payload)
        if kind == JSON:
            plain = json_columns.read_with(wanted)
            return lambda payload, place: plain(payload)
        return protobuf_columns.read_with(written, wanted, self._chosen.name)


def refused(error: Exception) -> OptionError:
    """Convert a registry's error to an error of the options that caused the request."""
    assert isinstance(error, RegistryError | RegistryUnreachable | SchemaError)
    return OptionError(f"the schema registry: {error}")
