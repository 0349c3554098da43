from itertools import starmap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record.strategies import Row, nullable_bytes, stretches, timestamps

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import HEADER_BYTES, Record, check_crc, read_header, records
from pk.core.record.build import (
    BatchBuilder,
    ControlType,
    build_batch,
    control_type,
    coordinator_epoch,
    end_transaction_batch,
    frame_record,
)
from pk.core.record.compress import Codec


@given(stretches())
def test_a_builder_takes_what_fits(some: list[Row]) -> None:
    builder = BatchBuilder(bytes_max=500)
    taken = 0
    for row in some:
        before = builder.size_estimate
        if not builder.append(*row):
            assert builder.size_estimate == before
            break
        taken += 1
        assert builder.count == taken
    size = builder.size_estimate
    batch = builder.build()
    assert len(batch) == size
    assert taken == 1 or size <= 500
    if taken < len(some):
        assert len(build_batch(some[: taken + 1])) > 500
    assert [(r.timestamp, r.key, r.value, r.headers) for r in records(batch)] == some[:taken]


@given(
    st.lists(st.tuples(timestamps, st.lists(st.tuples(nullable_bytes, nullable_bytes))), max_size=4)
)
def test_extend_is_append_many_times(
    some: list[tuple[int, list[tuple[bytes | None, bytes | None]]]],
) -> None:
    one_by_one, at_once = BatchBuilder(bytes_max=500), BatchBuilder(bytes_max=500)
    for timestamp_ms, pairs in some:
        for key, value in pairs:
            if not one_by_one.append(timestamp_ms, key, value):
                break
        at_once.extend(timestamp_ms, starmap(frame_record, pairs))
        assert at_once.count == one_by_one.count
        assert at_once.size_estimate == one_by_one.size_estimate
    if one_by_one.count:
        assert at_once.build() == one_by_one.build()


def test_extend_takes_no_more_than_enough() -> None:
    builder = BatchBuilder()
    builder.extend(0, [frame_record(None, bytes(100))] * 10, enough_bytes=250)
    assert builder.count == 2
    assert builder.size_estimate > 250


def test_a_first_record_is_taken_whatever_its_size() -> None:
    builder = BatchBuilder(bytes_max=100)
    assert builder.append(0, None, bytes(1000))
    assert not builder.append(0, None, b"")
    assert builder.count == 1


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="no records"):
        BatchBuilder().build()


def test_everything_goes_into_the_header() -> None:
    batch = build_batch(
        [(10, b"k", b"v", ()), (7, None, None, ())],
        1,
        2,
        3,
        4,
        5,
        codec=Codec.GZIP,
        level=9,
        transactional=True,
        log_append_time_ms=99,
    )
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header[:4] == (1, len(batch), 2, 2)
    assert header[5:] == (0x19, 1, 10, 99, 3, 4, 5, 2)
    assert [r.timestamp for r in records(batch)] == [99, 99]


def test_the_end_of_a_transaction() -> None:
    """The bytes are those of Apache Kafka's EndTransactionMarker."""
    batch = end_transaction_batch(True, 7, 1000, 3, 50, base_offset=20)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.is_control, header.is_transactional, header.count) == (True, True, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1000, 3, -1)
    assert (
        batch[HEADER_BYTES:].hex()
        == "20" + "00" + "00" + "00" + "0800000001" + "0c000000000007" + "00"
    )
    (record,) = records(batch)
    assert record == Record(20, 50, b"\0\0\0\1", b"\0\0\0\0\0\7")
    assert control_type(record) == ControlType.COMMIT
    assert coordinator_epoch(record) == 7
    (aborted,) = records(end_transaction_batch(False, 0, 1, 0, 0))
    assert control_type(aborted) == ControlType.ABORT


def test_other_control_batches() -> None:
    (record,) = records(build_batch([(5, b"\0\0\0\2", b"message", ())], control=True))
    assert control_type(record) == ControlType.LEADER_CHANGE
    assert control_type(record._replace(key=b"\0\0\0\x63")) is None


def test_control_records_that_are_none() -> None:
    for key in (None, b"", b"\0\0\0"):
        with pytest.raises(KafkaError) as caught:
            control_type(Record(0, 0, key, b""))
        assert caught.value.code == ErrorCode.INVALID_RECORD
    for value in (None, b"\0\0\0\0\0"):
        with pytest.raises(KafkaError):
            coordinator_epoch(Record(0, 0, b"\0\0\0\0", value))
