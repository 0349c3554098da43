"""The data source's options: Spark's names, and what is refused."""

import pytest

from pk.core.values import TopicPartition
from pk.net.client.errors import ConfigError
from pk.net.client.results import EARLIEST, LATEST, IsolationLevel
from pk.spark.errors import OptionError
from pk.spark.options import Bound, parse_options
from pk.spark.read_options import FETCH_BYTES

BASE = {"kafka.bootstrap.servers": "localhost:9092"}
ONE = BASE | {"subscribe": "orders"}


def test_defaults_are_those_of_sparks_batch_read() -> None:
    options = parse_options(ONE)
    assert options.topics == ("orders",)
    assert (options.begin, options.end) == (Bound(EARLIEST), Bound(LATEST))
    assert options.read.fail_on_data_loss and not options.read.headers
    assert options.read.isolation is IsolationLevel.READ_UNCOMMITTED
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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers must be given"),
        (BASE, "none was given"),
        (ONE | {"assign": '{"a":[0]}'}, "subscribe and assign were given"),
        (BASE | {"subscribe": " , "}, "names no topic"),
        (BASE | {"assign": "{}"}, "names no partition"),
        (BASE | {"assign": '{"a":0}'}, "must look like"),
        (BASE | {"subscribePattern": "("}, "not a pattern"),
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
        (ONE | {"maxOffsetsPerTrigger": "5"}, "for streaming queries"),
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


def test_wrong_client_keys_are_refused_in_the_driver() -> None:
    with pytest.raises(ConfigError, match="isolation.level"):
        parse_options(ONE | {"kafka.isolation.level": "dirty"})
    with pytest.raises(ConfigError, match="did you mean"):
        parse_options(ONE | {"kafka.fetch.min.byte": "1"})
