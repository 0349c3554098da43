"""The records of a batch that a topic refuses, and how many of them the error lists."""

from __future__ import annotations

import pytest

from pk.core.config import BrokerConfig, TopicConfig
from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import read_header
from pk.core.record.build import build_batch
from pk.core.record.validation import (
    ANY_TIME,
    NAMED_MAX,
    OutOfRange,
    RefusedRecords,
    read_one_batch,
    refusal,
    time_bounds,
    validate,
)
from pk.core.record.walk import NoKey
from pk.core.values import TopicPartition

NOW_MS = 1_700_000_000_000
TP = TopicPartition("t", 0)
BOUNDED = {
    "message.timestamp.before.max.ms": "200",
    "message.timestamp.after.max.ms": "100",
}


def config_of(**configs: str) -> TopicConfig:
    given = {key.replace("__", "."): value for key, value in configs.items()}
    return TopicConfig(given, BrokerConfig({}))


def refused(rows: list[tuple[int, bytes | None]], config: TopicConfig) -> KafkaError | None:
    """The error that `refusal` makes from the exception of `validate`."""
    data = build_batch([(timestamp, key, b"v", ()) for timestamp, key in rows])
    batch, header = memoryview(data), read_header(data)
    bounds = time_bounds(config, NOW_MS)
    with pytest.raises((NoKey, OutOfRange)) as raised:
        validate(batch, header, config, bounds)
    return refusal(raised.value, batch, header, config, bounds, TP)


@pytest.mark.parametrize("timestamp", [NOW_MS, NOW_MS + 100, NOW_MS - 200])
def test_times_within_the_bounds(timestamp: int) -> None:
    config = TopicConfig(BOUNDED, BrokerConfig({}))
    batch = build_batch([(timestamp, b"k", b"v", ())])
    validate(memoryview(batch), read_header(batch), config, time_bounds(config, NOW_MS))


@pytest.mark.parametrize("timestamp", [NOW_MS + 101, NOW_MS - 201])
def test_times_out_of_the_bounds(timestamp: int) -> None:
    config = TopicConfig(BOUNDED, BrokerConfig({}))
    error = refused([(NOW_MS, b"k"), (timestamp, b"k")], config)
    assert isinstance(error, RefusedRecords)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.records] == [1]


@pytest.mark.parametrize(
    "batch",
    [
        build_batch([(NOW_MS, b"k", b"v", ())], base_offset=3),
        build_batch([(NOW_MS, b"k", b"v", ())], producer_id=3, producer_epoch=0),
        build_batch([(NOW_MS, b"k", b"v", ())], control=True),
        build_batch([(NOW_MS, b"k", b"v", ())], transactional=True),
    ],
    ids=["base offset", "no sequence", "control", "no producer"],
)
def test_a_header_that_is_wrong_is_invalid_and_corrupt_if_damaged(batch: bytearray) -> None:
    """A producer sends a batch again if it was damaged on the way, and gives up if it is
    invalid."""
    with pytest.raises(KafkaError) as caught:
        read_one_batch(memoryview(batch), config_of())
    assert caught.value.code == ErrorCode.INVALID_RECORD
    batch[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        read_one_batch(memoryview(batch), config_of())
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_records_without_a_time_have_no_bounds() -> None:
    assert refused([(NOW_MS, b"k"), (-1, b"k")], TopicConfig(BOUNDED, BrokerConfig({}))) is None


def test_a_topic_that_stamps_the_records_itself_takes_any_time() -> None:
    config = config_of(message__timestamp__type="LogAppendTime")
    assert time_bounds(config, NOW_MS) == ANY_TIME


def test_an_answer_names_some_of_very_many() -> None:
    rows: list[tuple[int, bytes | None]] = [(NOW_MS, None)] * (NAMED_MAX + 5)
    error = refused(rows, config_of(cleanup__policy="compact"))
    assert isinstance(error, RefusedRecords)
    assert [index for index, _ in error.records] == list(range(NAMED_MAX))
    assert error.message is not None and f"due to {NAMED_MAX + 5} record errors" in error.message
