import contextlib
import struct

import pytest
from crc32c import crc32c
from each import for_each
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from record.strategies import Row, rows, stretches

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CorruptBatch,
    Record,
    TimestampType,
    assign,
    check_crc,
    iter_headers,
    read_header,
    records,
    write_crc,
)
from pk.core.record.build import build_batch
from pk.core.record.compress import Codec
from pk.core.record.validation import check_header, validate_records

ONE: Row = (5, b"k", b"v", ())


def rows_of(batch: bytes | bytearray) -> list[Row]:
    return [(r.timestamp, r.key, r.value, r.headers) for r in records(batch)]


def altered(batch: bytearray, **fields: int) -> tuple[bytearray, BatchHeader]:
    """The batch with other numbers in its header, and the right CRC for them."""
    out = bytearray(batch)
    at = {
        "base_offset": (0, ">q"),
        "attributes": (21, ">h"),
        "last_offset_delta": (23, ">i"),
        "producer_id": (43, ">q"),
        "base_sequence": (53, ">i"),
        "count": (57, ">i"),
    }
    for name, value in fields.items():
        position, format = at[name]
        struct.pack_into(format, out, position, value)
    write_crc(out)
    return out, read_header(out)


@pytest.mark.parametrize("codec", Codec)
@given(some=stretches())
@settings(max_examples=examples(30))
def test_records_come_back(codec: Codec, some: list[Row]) -> None:
    batch = build_batch(some, 1000, 3, codec=codec)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.codec == codec
    assert rows_of(batch) == some
    assert [r.offset for r in records(batch, header)] == list(range(1000, 1000 + len(some)))
    assert (header.next_offset, header.last_offset) == (1000 + len(some), 999 + len(some))
    assert header.max_timestamp == max(row[0] for row in some)


@pytest.mark.parametrize("codec", Codec)
def test_valid_batches_pass_and_tell_their_timestamps(codec: Codec) -> None:
    batch = build_batch(
        [(50, b"a", b"b", ()), (40, b"a", None, ()), (90, b"", b"", (("h", None),))], codec=codec
    )
    for buffer in (batch, bytes(batch), memoryview(batch)):
        header = read_header(buffer)
        check_crc(buffer, 0, header)
        assert validate_records(buffer, header, compacted=True) == (40, 90)


def test_fields_of_the_header() -> None:
    batch = build_batch([ONE, ONE], 7, 8, 9, 10, 2**31 - 1, transactional=True, codec=Codec.LZ4)
    header = read_header(b"xx" + batch, 2)
    assert header == BatchHeader(
        7, len(batch), 8, 2, header.crc, 0x13, 1, 5, 5, 9, 10, 2**31 - 1, 2
    )
    assert header.crc == crc32c(batch[21:])
    assert header.is_transactional
    assert not header.is_control
    assert header.timestamp_type == TimestampType.CREATE_TIME
    assert header.last_sequence == 0
    assert read_header(build_batch([ONE])).last_sequence == -1
    assert header.delete_horizon_ms is None
    assert altered(build_batch([ONE]), attributes=DELETE_HORIZON_BIT)[1].delete_horizon_ms == 5


@for_each("at", range(HEADER_BYTES))
def test_a_flipped_byte_of_the_header_is_noticed(at: int) -> None:
    """Base offset and leader epoch are the broker's to set: the CRC leaves them out, and only the
    first has a rule."""
    for bit in range(8):
        batch = build_batch([ONE, ONE], 0, 0, codec=Codec.NONE)
        batch[at] ^= 1 << bit
        try:
            header = read_header(batch)
            check_crc(batch, 0, header)
            check_header(header)
            validate_records(batch, header)
        except KafkaError as e:
            assert e.code in {
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.INVALID_RECORD,
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            }
        else:
            assert 12 <= at < 16


@settings(max_examples=examples(300))
@given(st.lists(rows, min_size=1, max_size=5), st.data())
def test_nothing_but_kafka_errors_whatever_the_bytes(some: list[Row], data: st.DataObject) -> None:
    """The CRC is computed over the wrong bytes, as a malicious producer could do."""
    codec = data.draw(st.sampled_from(Codec))
    batch = build_batch(some, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(16, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    batch = batch[: data.draw(st.integers(0, len(batch)))] if data.draw(st.booleans()) else batch
    if len(batch) >= HEADER_BYTES:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        write_crc(batch)
    try:
        header = read_header(batch)
        check_crc(batch, 0, header)
        check_header(header)
        validate_records(batch, header)
        assert len(list(records(batch, header))) == header.count
    except KafkaError:
        pass
    with contextlib.suppress(KafkaError):
        list(records(batch))


@given(st.lists(rows, min_size=1, max_size=20))
def test_cut_off_anywhere(some: list[Row]) -> None:
    batch = build_batch(some)
    for end in range(len(batch)):
        with pytest.raises(CorruptBatch):
            read_header(memoryview(batch)[:end])
        assert list(iter_headers(memoryview(batch)[:end])) == []


def test_headers_of_several_batches_stop_before_one_cut_off() -> None:
    first, second = build_batch([ONE, ONE], 10), build_batch([ONE], 12, codec=Codec.ZSTD)
    both = first + second
    expected = [(0, read_header(first)), (len(first), read_header(second))]
    assert list(iter_headers(both)) == expected
    assert list(iter_headers(both + first[:40])) == expected
    assert list(iter_headers(both[:-1])) == expected[:1]
    assert list(iter_headers(both, len(first))) == expected[1:]
    with pytest.raises(CorruptBatch):
        list(iter_headers(both + b"\x09" * 80))


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (1, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (255, ErrorCode.CORRUPT_MESSAGE),
    ],
)
@pytest.mark.parametrize("size", [40, 100])
def test_other_formats(magic: int, code: ErrorCode, size: int) -> None:
    message = bytearray(size)
    struct.pack_into(">i", message, 8, size - 12)
    message[16] = magic
    expected = code if size == 100 or magic < 2 else ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(CorruptBatch) as caught:
        read_header(message)
    assert caught.value.code == expected
    with pytest.raises(CorruptBatch):
        list(iter_headers(message))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1])
def test_lengths_that_cannot_be(length: int) -> None:
    batch = build_batch([ONE])
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatch):
        read_header(batch)


@for_each(
    ("fields", "code"),
    [
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD),
        ({"count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"count": -1, "last_offset_delta": -2}, ErrorCode.INVALID_RECORD),
        ({"count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, ErrorCode.INVALID_RECORD),
        ({"count": 3}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 5}, ErrorCode.INVALID_RECORD),
        ({"attributes": 1 << 5}, ErrorCode.INVALID_RECORD),
        ({"attributes": LOG_APPEND_TIME_BIT}, ErrorCode.INVALID_TIMESTAMP),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": 7}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": 1}, ErrorCode.INVALID_RECORD),
        ({"attributes": 2}, ErrorCode.INVALID_RECORD),
        ({"attributes": 3}, ErrorCode.INVALID_RECORD),
        ({"attributes": 4}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 3, "base_sequence": -1}, ErrorCode.INVALID_RECORD),
        ({"attributes": TRANSACTIONAL_BIT}, ErrorCode.INVALID_RECORD),
    ],
)
def test_lies_of_a_producer(fields: dict[str, int], code: ErrorCode) -> None:
    batch, header = altered(build_batch([ONE, ONE]), **fields)
    check_crc(batch, 0, header)
    with pytest.raises(KafkaError) as caught:
        check_header(header)
        validate_records(batch, header)
    assert caught.value.code == code


def test_a_count_beyond_the_bytes_costs_nothing() -> None:
    batch, header = altered(build_batch([ONE]), count=2**31 - 1, last_offset_delta=2**31 - 2)
    with pytest.raises(KafkaError):
        validate_records(batch, header)
    with pytest.raises(KafkaError):
        list(records(batch, header))


def test_what_expands_too_far_is_refused() -> None:
    batch = build_batch([(0, None, bytes(100_000), ())], codec=Codec.ZSTD)
    header = read_header(batch)
    assert validate_records(batch, header, decompressed_bytes_max=101_000) == (0, 0)
    for run in (
        lambda: validate_records(batch, header, decompressed_bytes_max=99_000),
        lambda: list(records(batch, decompressed_bytes_max=99_000)),
    ):
        with pytest.raises(KafkaError) as caught:
            run()
        assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_assign_leaves_the_crc_right() -> None:
    batch = build_batch([(5, b"k", b"v", ()), (9, b"k", b"v", ())])
    padded = bytearray(b"..") + batch + b".."
    crc = read_header(batch).crc
    assign(padded, 2, 2**40, 6)
    header = read_header(padded, 2)
    assert (header.base_offset, header.leader_epoch, header.crc) == (2**40, 6, crc)
    check_crc(padded, 2, header)

    assign(padded, 2, 3, 6, max_timestamp=9)
    assert read_header(padded, 2).crc == crc
    assign(padded, 2, 3, 6, max_timestamp=8)
    header = read_header(padded, 2)
    check_crc(padded, 2, header)
    assert header.max_timestamp == 8

    assign(padded, 2, 3, 6, 777)
    header = read_header(padded, 2)
    check_crc(padded, 2, header)
    assert header.log_append_time
    assert header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert [r.timestamp for r in records(padded[2:-2], header)] == [777, 777]
    assert padded[:2] == padded[-2:] == b".."


def test_records_of_a_compacted_batch_keep_their_offsets() -> None:
    """The cleaner takes records out and leaves the deltas of the others, and the batch's last
    offset, as they were."""
    full = build_batch([(i, b"%d" % i, None, ()) for i in range(4)], 100)
    size = (len(full) - HEADER_BYTES) // 4
    kept = full[: HEADER_BYTES + size] + full[HEADER_BYTES + 2 * size : HEADER_BYTES + 3 * size]
    struct.pack_into(">i", kept, 8, len(kept) - 12)
    kept, header = altered(kept, count=2)
    assert list(records(kept)) == [Record(100, 0, b"0", None), Record(102, 2, b"2", None)]
    assert header.next_offset == 104


def test_an_empty_batch_of_the_cleaner_has_no_records() -> None:
    full = build_batch([ONE, ONE], 100)
    empty = full[:HEADER_BYTES]
    struct.pack_into(">i", empty, 8, len(empty) - 12)
    empty, header = altered(empty, count=0)
    assert list(records(empty, header)) == []
    assert header.next_offset == 102
