"""The sink's options and columns: those of Spark's own sink, and refused ones."""

from typing import Any

import pytest
from each import for_each
from pyspark.sql.types import ArrayType, StringType, StructType

from pk.net.client.errors import ConfigError
from pk.spark.errors import OptionError
from pk.spark.sink.options import (
    BATCH_BYTES,
    Delivery,
    StreamBatch,
    check_columns,
    parse_sink_options,
)

BASE = {"kafka.bootstrap.servers": "localhost:9092"}


def test_defaults_and_what_reaches_the_client() -> None:
    options = parse_sink_options(
        {
            "Kafka.Bootstrap.Servers": "a:1",
            "TOPIC": "orders",
            "kafka.compression.type": "zstd",
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
            "kafka.request.timeout.ms": "9000",
            "queryName": "named by DataStreamWriter.queryName",
        }
    )
    assert (options.bootstrap, options.topic) == ("a:1", "orders")
    assert options.delivery is Delivery.EXACTLY_ONCE and options.staging is None
    assert options.config.compression_type == "zstd"
    assert options.config.batch_size == BATCH_BYTES
    assert options.admin_config == {"request.timeout.ms": "9000"}


def test_a_batch_of_a_stream_is_known_by_its_number() -> None:
    assert parse_sink_options(BASE).batch is None
    given = parse_sink_options({**BASE, "queryId": "q-1", "batchId": "7"})
    assert given.batch == StreamBatch("q-1", 7)


@pytest.mark.parametrize(
    ("given", "staging"),
    [
        ({"checkpointLocation": "/cp/"}, "/cp/pk-staging"),
        ({"checkpointLocation": "s3a://b/cp"}, "s3a://b/cp/pk-staging"),
        ({"checkpointLocation": "/cp", "stagingLocation": "file:/tmp/x"}, "file:/tmp/x"),
    ],
)
def test_where_records_are_staged(given: dict[str, str], staging: str) -> None:
    assert parse_sink_options(BASE | given).staging == staging


@for_each(
    ("given", "said"),
    [
        ({"topics": "a"}, "did you mean topic?"),
        ({"kafka.acks": "1"}, "kafka.acks must be all here"),
        ({"kafka.enable.idempotence": "false"}, "must be true here"),
        ({"kafka.transactional.id": "x"}, "cannot be set: it is derived from the query's id"),
        ({"kafka.linger.ms": "5"}, "has no effect: tasks seal whole batches"),
        ({"delivery": "at-most-once"}, "delivery must be exactly-once or at-least-once"),
        ({"includeHeaders": "true"}, "the column headers is written if it exists"),
        ({"subscribe": "a"}, "the option topic names the topic to write to"),
        ({"queryId": "q"}, "queryId and batchId must be given together"),
        ({"queryId": "a b", "batchId": "1"}, "queryId may contain only letters"),
        ({"queryId": "q", "batchId": "-1"}, "batchId must be the number of a batch"),
    ],
)
def test_refused_with_the_reason(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_sink_options(BASE | {"topic": "t"} | given)
    assert said in str(raised.value)


def test_wrong_client_keys_are_refused_in_the_driver() -> None:
    with pytest.raises(OptionError, match="must be given"):
        parse_sink_options({"topic": "t"})
    with pytest.raises(ConfigError, match="did you mean"):
        parse_sink_options(BASE | {"kafka.compresion.type": "lz4"})
    with pytest.raises(ConfigError, match="value.serializer"):
        parse_sink_options(BASE | {"kafka.value.serializer": "x"})


HEADERS = ArrayType(StructType().add("key", "string").add("value", "binary"))


def schema(**columns: Any) -> StructType:
    found = StructType()
    for name, kind in columns.items():
        found.add(name, kind)
    return found


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ({"key": "binary"}, "t", "need a column value"),
        ({"value": "string"}, None, "topic must be given"),
        ({"value": "long"}, "t", "column value must be a string or binary, not bigint"),
        ({"value": "string", "key": "integer"}, "t", "column key must be"),
        ({"value": "string", "topic": "integer"}, None, "column topic must be a string"),
        ({"value": "string", "partition": "long"}, "t", "column partition must be an int"),
        (
            {"value": "string", "headers": ArrayType(StringType())},
            "t",
            "column headers must be an array<struct",
        ),
    ],
)
def test_columns_that_are_no_record_are_refused(
    columns: dict[str, Any], topic: str | None, said: str
) -> None:
    with pytest.raises(OptionError) as raised:
        check_columns(schema(**columns), topic)
    assert said in str(raised.value)


def test_what_the_source_reads_can_be_written() -> None:
    columns = schema(
        key="binary",
        value="binary",
        topic="string",
        partition="integer",
        offset="long",
        timestamp="timestamp",
        timestampType="integer",
        headers=HEADERS,
    )
    check_columns(columns, None)
