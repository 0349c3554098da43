"""Columns in Confluent's wire format through Spark, beside Confluent's own serializers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka.schema_registry import Schema as ConfluentSchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from schemas.running import Running, running_registry

from pk.core.schemas.avro.values import to_json
from pk.core.schemas.schema import Resolved, Schema, SchemaError
from pk.core.schemas.wire_format import SchemaId
from pk.net.schemas.blocking import Schemas
from pk.spark.schemas.avro_types import ddl_of
from pk.spark.schemas.columns import SchemaColumnError, _Decoding, _Encoding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTEXT = SerializationContext("t", MessageField.VALUE)


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running_registry() as found:
        yield found


def version(*names: str) -> str:
    """A record of numbers that another version may lack."""
    fields = [{"name": name, "type": "long", "default": -1} for name in names]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


VERSIONS = (version("a"), version("a", "b"), version("b", "c"))


def written(served: Running) -> list[bytes]:
    """Records of three versions in turn, by Confluent's serializer."""
    with SchemaRegistryClient({"url": served.url}) as client:
        writers: list[Any] = [cast(Any, AvroSerializer)(client, text) for text in VERSIONS]
        values = ({"a": 1}, {"a": 2, "b": 3}, {"b": 4, "c": 5})
        return [writers[n % 3](values[n % 3], CONTEXT) for n in range(9)]


def theirs(served: Running, data: list[bytes], reader: str | None = None) -> list[Any]:
    """The value that Confluent's deserializer reads."""
    with SchemaRegistryClient({"url": served.url}) as client:
        read: Any = cast(Any, AvroDeserializer)(client, reader)
        return [to_json(read(each, CONTEXT)) for each in data]


def test_three_versions_in_one_batch_are_read_as_by_confluents_deserializer(
    served: Running,
) -> None:
    data = written(served)
    schemas = Schemas(served.url)
    known: dict[Any, Resolved] = {
        (n, None): schemas.by_id(SchemaId(id=n)) for n in {each[4] for each in data}
    }
    as_written = _Decoding(known, None, "fail")([*data, None])
    assert [json.loads(each) for each in as_written[:-1] if each] == theirs(served, data)
    assert as_written[-1] is None
    wanted = schemas.of_subject("t-value")[1]
    as_latest = _Decoding(known, wanted, "fail")(data)
    assert [json.loads(each or "") for each in as_latest] == theirs(served, data, VERSIONS[2])


@pytest.mark.parametrize("resolved", [False, True])
@pytest.mark.parametrize("payload", [b"", b"plain text", b"\0\0\0", b"%s", b"%s\xff"])
def test_what_cannot_be_decoded_fails_or_is_null(
    served: Running, payload: bytes, resolved: bool
) -> None:
    good = written(served)[0]
    bad = payload.replace(b"%s", good[:5])
    schemas = Schemas(served.url)
    known: dict[Any, Resolved] = {(good[4], None): schemas.by_id(SchemaId(id=good[4]))}
    wanted = schemas.of_subject("t-value")[1] if resolved else None
    with pytest.raises(SchemaColumnError, match="a record cannot be decoded: ."):
        _Decoding(known, wanted, "fail")([good, bad])
    first, second = _Decoding(known, wanted, "null")([good, bad])
    assert first is not None and second is None


def test_what_a_task_encodes_confluents_deserializer_reads(served: Running) -> None:
    written(served)
    schema_id, schema = Schemas(served.url).of_subject("t-value")
    found = _Encoding(schema, schema_id, None)(['{"b": 1, "c": 2}', None])
    assert found[1] is None and found[0] is not None
    assert theirs(served, [found[0]]) == [{"b": 1, "c": 2}]


def test_avros_types_are_sparks() -> None:
    fields = [
        {"name": "o", "type": ["null", "string"]},
        {"name": "u", "type": ["int", "string"]},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {
            "name": "d",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        },
        {
            "name": "r",
            "type": {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]},
        },
    ]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    assert ddl_of(Resolved(Schema(text))) == (
        "struct<`o`: string, `u`: string, `m`: map<string, array<double>>, `t`: timestamp,"
        " `d`: decimal(6, 2), `r`: struct<`x`: int>>"
    )
    within = {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    with pytest.raises(SchemaError, match="contains itself"):
        ddl_of(Resolved(Schema(json.dumps(within))))


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    from pk.spark.session.local import launch

    with launch(cores=2, conf={"spark.sql.shuffle.partitions": "2"}) as own:
        yield own.session()


@pytest.mark.slow
def test_through_spark(served: Running, spark: SparkSession, tmp_path: Path) -> None:
    from pk.spark.schemas.columns import decoded, encoded

    data = written(served)
    rows: list[Any] = [(n, bytearray(each)) for n, each in enumerate(data)]
    frame = spark.createDataFrame(rows, "n int, value binary")
    shown = decoded(frame, served.url).orderBy("n").collect()
    assert [json.loads(row["value"]) for row in shown] == theirs(served, data)
    latest = decoded(frame, served.url, reader="t-value").orderBy("n")
    found = [row["value"].asDict() for row in latest.collect()]
    assert found == theirs(served, data, VERSIONS[2])
    again = encoded(latest, served.url, "t-value").orderBy("n").collect()
    assert theirs(served, [bytes(row["value"]) for row in again]) == found
    # A stream: each micro-batch is decoded by itself.
    frame.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "in"))
    with pytest.raises(SchemaColumnError, match="foreachBatch"):
        decoded(stream, served.url)
    url, out = served.url, str(tmp_path / "out")

    def write(batch: Any, number: int) -> None:
        decoded(batch, url, reader="t-value").write.mode("append").parquet(out)

    query = stream.writeStream.foreachBatch(write).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    streamed = spark.read.parquet(out).orderBy("n").collect()
    assert [row["value"].asDict() for row in streamed] == found


@pytest.mark.slow
def test_a_value_that_is_too_large_for_its_column_fails_or_is_null(
    served: Running, spark: SparkSession
) -> None:
    """Avro's writers do not check a decimal's precision; Spark's columns have it."""
    from pk.spark.schemas.columns import decoded

    kind = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    schema = {"type": "record", "name": "D", "fields": [{"name": "d", "type": kind}]}
    with SchemaRegistryClient({"url": served.url}) as client:
        schema_id = client.register_schema("d-value", ConfluentSchema(json.dumps(schema), "AVRO"))
    values = [unscaled.to_bytes(4, "big", signed=True) for unscaled in (1234, 12345678)]
    framed = [b"\0" + schema_id.to_bytes(4, "big") + b"\x08" + value for value in values]
    frame = spark.createDataFrame([(bytearray(each),) for each in framed], "value binary")
    with pytest.raises(Exception, match=r"a record cannot be decoded: .*d"):
        decoded(frame, served.url, reader="d-value").collect()
    lenient = decoded(frame, served.url, reader="d-value", on_error="null").collect()
    assert [row["value"] and row["value"]["d"] for row in lenient] == [Decimal("12.34"), None]
