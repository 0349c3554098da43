"""The quick readers say what the careful one says: the same records, or the same refusal."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record.strategies import Row, stretches

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    body,
    read_header,
    record_list,
    records,
)
from pk.core.record.build import build_batch
from pk.core.record.bulk_read import values
from pk.core.record.compress import Codec
from pk.core.record.grammar import Part, parse_record


def answer(read: Callable[[], Any]) -> tuple[Any, str]:
    """Return what `read` returns, and the code and message of its error if it refuses."""
    try:
        return read(), ""
    except KafkaError as e:
        return None, f"{e.code} {e.message}"


def careful(data: bytes, header: BatchHeader) -> list[Record]:
    """The records that fill `data`, each by `parse_record` alone: slow, and plainly right."""
    if header.count > len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD)
    out: list[Record] = []
    position = 0
    for index in range(header.count):
        record = parse_record(data, position, index)
        position = record.stop

        def piece(part: Part) -> bytes | None:
            return None if part.number < 0 else data[part.start : part.stop]

        time = header.max_timestamp
        if not header.log_append_time:
            time = header.base_timestamp + record.timestamp
        pairs = tuple(
            ((piece(key) or b"").decode(errors="replace"), piece(value))
            for key, value in record.headers
        )
        offset = header.base_offset + record.offset
        out.append(Record(offset, time, piece(record.key), piece(record.value), pairs))
    if position != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD)
    return out


@given(stretches(), st.sampled_from(list(Codec)), st.one_of(st.none(), st.just(77)))
def test_the_same_records(made: list[Row], codec: Codec, append_time: int | None) -> None:
    batch = build_batch(made, 1000, codec=codec, log_append_time_ms=append_time)
    header = read_header(batch)
    expected = careful(bytes(body(batch, header)), header)
    assert list(records(batch, header)) == expected
    assert record_list(batch, header) == expected
    assert values(batch, header) == [r.value for r in expected]


@given(stretches(), st.data())
def test_the_same_refusal_of_damaged_records(made: list[Row], data: st.DataObject) -> None:
    batch = build_batch(made)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    header = read_header(batch)
    found, _ = answer(lambda: careful(bytes(batch[HEADER_BYTES:]), header))
    read, refusal = answer(lambda: record_list(batch, header))
    assert read == found
    assert answer(lambda: list(records(batch, header))) == (read, refusal)
    expected = None if found is None else [r.value for r in found]
    assert answer(lambda: values(batch, header)) == (expected, refusal)


@pytest.mark.parametrize("long", [5, 6, 10, 11])
@pytest.mark.parametrize("before", [b"\0", b"\0\0"], ids=["time", "offset"])
def test_a_number_of_too_many_bytes_is_refused_by_all(long: int, before: bytes) -> None:
    """A varint may be longer than it need be, up to the bytes of the widest: five for an offset,
    ten for a time."""
    wide = b"\x80" * (long - 1) + b"\0"
    record = before + wide + b"\0" * (2 - len(before)) + b"\x01\x02v\0"
    batch = b"\0" * HEADER_BYTES + bytes((len(record) << 1,)) + record
    header = read_header(build_batch([(0, None, b"v", ())]))._replace(size=len(batch))
    expected = answer(lambda: list(records(batch, header)))
    assert (expected[1] == "") is (long <= (10 if before == b"\0" else 5))
    assert answer(lambda: record_list(batch, header)) == expected
    found = None if expected[0] is None else [b"v"]
    assert answer(lambda: values(batch, header)) == (found, expected[1])


@pytest.mark.parametrize("count", [0, 1, 64, 8192, 9000, 20_000])
def test_every_width_of_an_offset(count: int) -> None:
    made = [(i % 7, b"k", b"%d" % i, ()) for i in range(max(count, 1))]
    batch = build_batch(made, 5)
    header = read_header(batch)
    assert record_list(batch, header) == [
        Record(5 + i, i % 7, b"k", b"%d" % i, ()) for i in range(max(count, 1))
    ]


def test_a_batch_that_was_compacted_keeps_its_offsets_and_may_be_empty() -> None:
    header = read_header(build_batch([(1, None, b"a", ())], 3))
    empty = header._replace(size=HEADER_BYTES, count=0)
    assert record_list(b"\0" * HEADER_BYTES, empty) == []
    assert values(b"\0" * HEADER_BYTES, empty) == []


@pytest.mark.parametrize("size", [63, 64, 8191, 8192, 100_000, 1 << 20])
def test_every_width_of_a_length(size: int) -> None:
    for key, value in ((b"k" * size, b"v"), (b"k", b"v" * size), (None, b"v" * size)):
        batch = build_batch([(1, key, value, ())] * 3)
        header = read_header(batch)
        assert record_list(batch, header) == [Record(i, 1, key, value) for i in range(3)]
        assert values(batch, header) == [value] * 3
