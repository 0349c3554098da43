"""The data source's options: Spark's names, and refused options."""

import subprocess
import sys

import pytest
from each import for_each

from pk.core.values import TopicPartition
from pk.net.client.errors import ConfigError
from pk.net.client.results import EARLIEST, LATEST, IsolationLevel
from pk.spark.errors import OptionError
from pk.spark.read.options import BatchLimits, Bound, parse_options
from pk.spark.read.read_options import FETCH_BYTES

BASE = {"kafka.bootstrap.servers": "localhost:9092"}
ONE = BASE | {"subscribe": "orders"}


def test_defaults_are_those_of_sparks_batch_read() -> None:
    options = parse_options(ONE)
    assert options.topics == ("orders",)
    assert (options.begin, options.end) == (Bound(EARLIEST), Bound(LATEST))
    assert options.read.fail_on_data_loss and not options.read.headers
    assert options.read.isolation is IsolationLevel.READ_COMMITTED, "here Spark reads all"
    assert options.read.config.max_partition_fetch_bytes == FETCH_BYTES


def test_names_are_case_insensitive_and_kafka_keys_reach_the_client() -> None:
    options = parse_options(
        {
            "KAFKA.bootstrap.servers": "a:1,b:2",
            "SubscribePattern": "orders-.*",
            "INCLUDEHEADERS": "True",
            "failondataloss": "false",
            "minPartitions": "7",
            "kafka.isolation.level": "read_committed",
            "kafka.max.partition.fetch.bytes": "1000000",
            "kafka.request.timeout.ms": "9000",
        }
    )
    assert options.read.bootstrap == "a:1,b:2"
    assert options.pattern is not None and options.pattern.fullmatch("orders-eu")
    assert options.read.headers and not options.read.fail_on_data_loss
    assert options.min_ranges == 7
    assert options.read.isolation is IsolationLevel.READ_COMMITTED
    assert options.read.config.max_partition_fetch_bytes == 1_000_000
    assert options.read.admin_config == {"request.timeout.ms": "9000"}


def test_assign_and_offsets_for_each() -> None:
    options = parse_options(
        BASE
        | {
            "assign": '{"a":[0,1],"b":[3]}',
            "startingOffsets": '{"a":{"0":23,"1":-2},"b":{"3":7}}',
            "endingOffsets": '{"a":{"0":50,"1":-1},"b":{"3":9}}',
        }
    )
    a0, a1, b3 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 3)
    assert options.assigned == (a0, a1, b3)
    assert options.begin.offsets == {a0: 23, a1: EARLIEST, b3: 7}
    assert options.end.offsets == {a0: 50, a1: LATEST, b3: 9}


def test_a_timestamp_for_all_goes_before_those_for_each_and_those_before_offsets() -> None:
    given = ONE | {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"orders":{"0":1000}}',
    }
    each = parse_options(given).begin
    assert each == Bound(times={TopicPartition("orders", 0): 1000}, otherwise_latest=False)
    everywhere = parse_options(
        given | {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}
    )
    assert everywhere.begin == Bound(5, otherwise_latest=True)
    assert parse_options(ONE | {"endingTimestamp": "9"}).end == Bound(9, otherwise_latest=True)


@for_each(
    ("given", "said"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers must be given"),
        (BASE, "none was given"),
        (ONE | {"assign": '{"a":[0]}'}, "subscribe and assign were given"),
        (BASE | {"subscribe": " , "}, "subscribe is empty"),
        (BASE | {"assign": "{}"}, "assign is empty"),
        (BASE | {"assign": '{"a":0}'}, "must look like"),
        (BASE | {"subscribePattern": "("}, "subscribePattern is not a valid regular expression"),
        (ONE | {"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        (ONE | {"startingOffsets": "latest"}, "must be earliest or JSON"),
        (ONE | {"endingOffsets": "earliest"}, "must be latest or JSON"),
        (ONE | {"startingOffsets": '{"orders":{"0":-1}}'}, "must hold offsets or -2"),
        (ONE | {"endingOffsets": '{"orders":{"0":-2}}'}, "must hold offsets or -1"),
        (ONE | {"startingOffsets": '{"orders":{"0":1.5}}'}, "not a whole number"),
        (ONE | {"startingOffsets": "[1"}, "not JSON"),
        (ONE | {"startingTimestamp": "-1"}, "milliseconds since 1970"),
        (ONE | {"startingOffsetsByTimestampStrategy": "earliest"}, "error or latest"),
        (ONE | {"minPartitions": "0"}, "at least 1"),
        (ONE | {"includeHeaders": "yes"}, "must be true or false"),
        (ONE | {"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is for streaming queries"),
        (ONE | {"groupIdPrefix": "g"}, "this source joins none"),
        (ONE | {"kafka.group.id": "g"}, "this source joins none"),
        (ONE | {"kafka.session.timeout.ms": "6000"}, "no effect in a read without a group"),
        (ONE | {"kafka.key.deserializer": "x"}, "keys are bytes here"),
    ],
)
def test_refused_with_the_reason(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_options(given)
    assert said in str(raised.value)


def test_a_stream_begins_at_latest_and_has_limits() -> None:
    options = parse_options(ONE, stream=True)
    assert (options.begin, options.end) == (Bound(LATEST), Bound(LATEST))
    assert options.limits == BatchLimits(None, None, 900_000)
    limited = parse_options(
        ONE
        | {
            "startingOffsets": '{"orders":{"0":-1,"1":-2,"2":5}}',
            "maxOffsetsPerTrigger": "500",
            "minOffsetsPerTrigger": "20",
            "maxTriggerDelay": "2min",
        },
        stream=True,
    )
    assert limited.limits == BatchLimits(500, 20, 120_000)
    assert limited.begin.offsets is not None
    assert list(limited.begin.offsets.values()) == [LATEST, EARLIEST, 5]
    earliest = parse_options(ONE | {"startingOffsets": "earliest"}, stream=True)
    assert earliest.begin == Bound(EARLIEST)


@pytest.mark.parametrize(
    ("text", "ms"), [("1500", 1_500), ("500us", 0), ("90s", 90_000), (" 3h ", 10_800_000)]
)
def test_delays_are_written_as_in_spark(text: str, ms: int) -> None:
    options = parse_options(ONE | {"maxTriggerDelay": text}, stream=True)
    assert options.limits.delay_max_ms == ms


@for_each(
    ("given", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for batch reads, and this is a stream"),
        ({"endingTimestamp": "5"}, "endingTimestamp is for batch reads"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger?"),
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "must not be above"),
        ({"maxTriggerDelay": "soon"}, "must look like 500ms"),
        ({"startingOffsets": "newest"}, "not JSON"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "-1 (latest) or -2 (earliest)"),
        ({"kafka.group.id": "g"}, "this source joins none"),
    ],
)
def test_what_a_stream_refuses(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_options(ONE | given, stream=True)
    assert said in str(raised.value)


def test_wrong_client_keys_are_refused_in_the_driver() -> None:
    with pytest.raises(ConfigError, match="isolation.level"):
        parse_options(ONE | {"kafka.isolation.level": "dirty"})
    with pytest.raises(ConfigError, match="did you mean"):
        parse_options(ONE | {"kafka.fetch.min.byte": "1"})


def test_a_source_without_schemas_does_not_import_the_client_of_a_registry() -> None:
    # Each process that plans would, which takes 0.13 s of CPU.
    program = """
import sys
from pk.spark.source import KafkaSource
from pyspark.sql.types import StructType

source = KafkaSource({"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"})
source.streamReader(StructType())
assert "pk.net.schemas.blocking" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
