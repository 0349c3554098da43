"""Encodes keys and values with schemas, for the sink.

The driver looks up the schema, by default the latest of the subject; with `auto.register.schemas`
it registers a schema derived from the columns. It checks that the columns fit, so that a write
fails before its first row. Tasks encode the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t

from pk.core.schemas import languages, wire_format
from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.schema import AVRO, JSON, Resolved, Schema, UnfitValue
from pk.core.schemas.serialization import encoder
from pk.core.schemas.subjects import STRATEGIES
from pk.core.schemas.wire_format import SchemaId
from pk.net.schemas.blocking import Schemas
from pk.spark.errors import OptionError, SparkError
from pk.spark.schemas import avro_columns, json_columns, protobuf_columns
from pk.spark.schemas.options import LATEST, Column, ColumnOptions, SchemaOptions

_NOT_FOUND = (40401, 40402)


class Unencodable(SparkError):
    """A row does not fit its schema."""


@dataclass(frozen=True, slots=True)
class ColumnEncoder:
    """An encoder of a column, used by tasks."""

    column: Column
    type: t.DataType
    schema: Resolved
    schema_id: int
    name: str | None

    def writer(self) -> Callable[[Any], bytes]:
        """Return a function that encodes one value, with the prefix of the wire format; it raises
        UnfitValue. Raises SchemaError."""
        if self._is_json_text and self.schema.schema.type == JSON:
            head, write_text = (
                wire_format.encode_id(self.schema_id),
                json_columns.text_writer(self.schema),
            )
            return lambda text: head + write_text(text)
        if self._is_json_text:
            write_json = encoder(self.schema, self.schema_id, self.name)
            return lambda text: write_json(_loaded(text))
        head = wire_format.encode_id(self.schema_id)
        if self.schema.schema.type == AVRO:
            write = avro_columns.writer(self.schema, self.type)
        elif self.schema.schema.type == JSON:
            write = json_columns.writer(self.schema, self.type)
        else:
            indexes = languages.parse(self.schema).model.indexes_of(self.name)
            head = wire_format.encode_id(self.schema_id, indexes)
            write = protobuf_columns.writer(self.schema, self.type, self.name)
        return lambda value: head + write(value)

    @property
    def _is_json_text(self) -> bool:
        """Whether the column is text although the schema has another type: the text is then
        JSON."""
        if not isinstance(self.type, t.StringType):
            return False
        kind = languages.parse(self.schema)
        if kind.type == AVRO:
            return not isinstance(avro_columns.shape(self.schema).type, t.StringType)
        if kind.type == JSON:
            return not isinstance(json_columns.shape(self.schema).type, t.StringType)
        return True

    def encode(self, values: pa.Array) -> pa.Array:
        """Encode the column's values. Raises Unencodable."""
        write = self.writer()
        found: list[bytes | None] = []
        for value in values.to_pylist():
            try:
                found.append(None if value is None else write(value))
            except UnfitValue as e:
                raise Unencodable(f"a row's {self.column} cannot be encoded: {e}") from None
        return pa.array(found, pa.binary())


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as e:
        raise UnfitValue(f"not JSON: {e}") from None


def encoded(
    batches: Iterable[pa.RecordBatch], encoders: Iterable[ColumnEncoder]
) -> Iterator[pa.RecordBatch]:
    """Encode the columns of batches. Raises Unencodable."""
    kept = list(encoders)
    for batch in batches:
        for each in kept:
            index = batch.schema.get_field_index(each.column)
            values = each.encode(batch.column(index))
            batch = batch.set_column(index, each.column, values)
        yield batch


def encoders(
    options: SchemaOptions, rows: t.StructType, topic: str | None
) -> tuple[ColumnEncoder, ...]:
    """The encoders of the columns of a write. Raises OptionError, SchemaError, RegistryError,
    RegistryUnreachable."""
    schemas = options.registry.open()
    found: list[ColumnEncoder] = []
    for column, given in options.columns.items():
        if column not in rows.names:
            raise OptionError(f"{column}.format is given, but the rows have no column {column}")
        kind = rows[column].dataType
        if isinstance(kind, t.BinaryType) and given.type != AVRO:
            raise OptionError(
                f"{column}.format is given, but the column {column} is binary: it must be a struct,"
                " or JSON as text"
            )
        schema_id, schema = _chosen(schemas, options, column, given, kind, topic)
        if schema.schema.type != given.type:
            raise OptionError(
                f"{column}.format is {given.type.lower()}, but the schema is {schema.schema.type}"
            )
        one = ColumnEncoder(column, kind, schema, schema_id, given.name)
        one.writer()  # fails here if the column does not fit
        found.append(one)
    return tuple(found)


def without_encoded(rows: t.StructType, encoders: Iterable[ColumnEncoder]) -> t.StructType:
    """The schema of the rows after encoding."""
    names = {each.column for each in encoders}
    fields = [
        t.StructField(each.name, t.BinaryType()) if each.name in names else each
        for each in rows.fields
    ]
    return t.StructType(fields)


def _chosen(
    schemas: Schemas,
    options: SchemaOptions,
    column: Column,
    given: ColumnOptions,
    kind: t.DataType,
    topic: str | None,
) -> tuple[int, Resolved]:
    if given.id is not None:
        return given.id, schemas.by_id(SchemaId(id=given.id))
    subject = _subject(column, given, topic)
    if options.register and given.version == LATEST:
        return _registered(schemas, column, given, kind, subject, topic)
    try:
        return schemas.of_subject(subject, given.version)
    except RegistryError as e:
        if e.code in _NOT_FOUND and given.version == LATEST:
            raise OptionError(
                f"the registry has no subject {subject}; auto.register.schemas=true adds the"
                " schema of the columns"
            ) from None
        raise


def _subject(column: Column, given: ColumnOptions, topic: str | None) -> str:
    if len(given.subjects) > 1:
        raise OptionError(f"{column}.schema.subject must be one subject in a write")
    for subject in given.subjects:
        return subject
    if given.strategy != "topic" and not given.name:
        raise OptionError(
            f"{column}.schema.name must be given: {column}.subject.name.strategy makes the subject"
            " of the record's name"
        )
    if topic is None and given.strategy != "record":
        raise OptionError(
            f"{column}.schema.subject must be given: without the option topic each row may have"
            " another one"
        )
    return STRATEGIES[given.strategy](topic or "", column == "key", given.name)


def _registered(
    schemas: Schemas,
    column: Column,
    given: ColumnOptions,
    kind: t.DataType,
    subject: str,
    topic: str | None,
) -> tuple[int, Resolved]:
    """Register the schema of a column, and return its id. For protobuf, use the existing schema of
    the subject if there is one."""
    name = given.name or _record_name(topic, column)
    if given.type == AVRO:
        text = avro_columns.schema_of(kind, name)
    elif given.type == JSON:
        text = json_columns.schema_of(kind, name)
    else:
        # Protobuf identifies fields by numbers, which columns do not have: if their order changed,
        # a number would be given to another field. So an existing message is used as it is.
        try:
            return schemas.of_subject(subject)
        except RegistryError as e:
            if e.code not in _NOT_FOUND:
                raise
        text = protobuf_columns.schema_of(kind, name.rpartition(".")[2])
    schema = Schema(text, given.type)
    return schemas.register(subject, schema), Resolved(schema)


def _record_name(topic: str | None, column: Column) -> str:
    """The name of a record: `Orders` for the values of orders, `OrdersKey` for its keys."""
    words = "".join(each if each.isalnum() and each.isascii() else " " for each in topic or "")
    name = "".join(word[:1].upper() + word[1:] for word in words.split()) or "Record"
    name = f"T{name}" if name[0].isdigit() else name
    return f"{name}Key" if column == "key" else name
