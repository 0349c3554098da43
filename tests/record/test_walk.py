"""The quick paths of the walk decide as the careful one does, on good bytes and on bad ones."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from record.strategies import Row, stretches

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record import walk as walk_module
from pk.core.record.batch import HEADER_BYTES
from pk.core.record.build import build_batch
from pk.core.record.varint import encode_varint
from pk.core.record.walk import RecordError, TooUnlike, walk


def body_of(rows: list[Row]) -> bytes:
    return bytes(build_batch(rows)[HEADER_BYTES:])


def careful(data: bytes, count: int, compacted: bool) -> tuple[int, int]:
    """The walk by `_record` alone: slow, and plainly right."""
    position, deltas = 0, []
    for index in range(count):
        position, delta = walk_module._record(memoryview(data), position, index, compacted)
        deltas.append(delta)
    if position != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD)
    return min(deltas), max(deltas)


def outcome(data: bytes, count: int, compacted: bool, *, slow: bool) -> object:
    try:
        return (careful if slow else walk)(data, count, compacted)
    except KafkaError as e:
        assert e.code == ErrorCode.INVALID_RECORD
        return "refused"


@given(stretches(), st.booleans())
def test_what_was_built_is_accepted(rows: list[Row], compacted: bool) -> None:
    times = [row[0] - rows[0][0] for row in rows]
    if compacted and any(row[1] is None for row in rows):
        with pytest.raises(RecordError):
            walk(body_of(rows), len(rows), compacted)
    else:
        assert walk(body_of(rows), len(rows), compacted) == (min(times), max(times))


@settings(max_examples=400)
@given(stretches(), st.booleans(), st.data())
def test_a_changed_byte_is_judged_alike(
    rows: list[Row], compacted: bool, data: st.DataObject
) -> None:
    body = bytearray(body_of(rows))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(
        st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, body[at] ^ 1, body[at] ^ 0x80, body[at] ^ 2])
    )
    changed = bytes(body)
    assert outcome(changed, len(rows), compacted, slow=False) == outcome(
        changed, len(rows), compacted, slow=True
    )


@given(stretches(), st.data())
def test_bytes_taken_out_or_put_in_are_judged_alike(rows: list[Row], data: st.DataObject) -> None:
    body = body_of(rows)
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 9)))
    changed = body[:start] + data.draw(st.binary(max_size=9)) + body[end:]
    count = len(rows) + data.draw(st.integers(-1, 1))
    assert outcome(changed, max(count, 1), False, slow=False) == outcome(
        changed, max(count, 1), False, slow=True
    )


@given(stretches(), st.integers(1, 3))
def test_a_wrong_count_is_refused(rows: list[Row], difference: int) -> None:
    body = body_of(rows)
    with pytest.raises(KafkaError):
        walk(body, len(rows) + difference, False)
    if len(rows) > difference:
        with pytest.raises(KafkaError):
            walk(body, len(rows) - difference, False)


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193, 16384, 20000])
@pytest.mark.parametrize("step", [0, 1])
def test_offset_deltas_of_every_width(count: int, step: int) -> None:
    rows: list[Row] = [(step * i, None, b"abc", ()) for i in range(count)]
    body = body_of(rows)
    assert walk(body, count, False) == (0, step * (count - 1))
    ragged: list[Row] = [(step * i, None, b"abc" * (i % 3), ()) for i in range(count)]
    assert walk(body_of(ragged), count, False) == (0, step * (count - 1))


def test_more_than_a_million_records() -> None:
    count = (1 << 20) + 20
    record = [b"\x00\x00", b"\x01\x01\x00"]
    out = bytearray()
    for i in range(count):
        delta = encode_varint(i)
        out += encode_varint(5 + len(delta)) + record[0] + delta + record[1]
    assert walk(out, count, False) == (0, 0)
    # Offset deltas have four bytes now; were the fourth taken for a null key, this would be a
    # record.
    short = bytes(out[:-10]) + b"\x10\x00\x00" + encode_varint(count - 1) + b"\x01\x00"
    with pytest.raises(KafkaError):
        walk(short, count, False)
    out[-7] ^= 2
    with pytest.raises(KafkaError):
        walk(out, count, False)


@pytest.mark.parametrize("at", [5, 63, 64, 100, 8191, 8192, 9000, 11_999])
def test_one_wrong_offset_delta_among_many_alike(at: int) -> None:
    rows: list[Row] = [(0, b"key", b"value", ()) for _ in range(12_000)]
    one = body_of(rows[:1])
    parts = []
    for i in range(12_000):
        delta = encode_varint(i + 1 if i == at else i)
        record = one[1:3] + delta + one[4:]
        parts.append(encode_varint(len(record)) + record)
    with pytest.raises(RecordError) as caught:
        walk(b"".join(parts), 12_000, False)
    assert caught.value.batch_index == at


@pytest.mark.parametrize("count", [1, 15, 16, 64, 8192])
def test_null_keys_where_the_topic_is_compacted(count: int) -> None:
    body = body_of([(0, None, b"v", ())] * count)
    assert walk(body, count, False) == (0, 0)
    with pytest.raises(RecordError, match="compacted") as caught:
        walk(body, count, True)
    assert caught.value.batch_index == 0


@pytest.mark.parametrize("scale", [1, 100])
@pytest.mark.parametrize("deltas", [[0, -5, 7, -9, 3], [0, 5, 9, 2], [0, -1, -2, -3], [0, 0, 0]])
def test_timestamps_of_records_alike(deltas: list[int], scale: int) -> None:
    rows: list[Row] = [(deltas[i % len(deltas)] * scale, b"k", b"v", ()) for i in range(64)]
    assert walk(body_of(rows), 64, False) == (min(deltas) * scale, max(deltas) * scale)


@pytest.mark.parametrize(("delta", "at", "wrong"), [(1, 2, 0x82), (100, 2, 0x48), (100, 3, 0x81)])
def test_one_timestamp_of_another_width_among_many_alike(delta: int, at: int, wrong: int) -> None:
    first: Row = (0, b"keys!", b"v", ())
    others: list[Row] = [(delta, b"keys!", b"v", ())] * 63
    body = bytearray(body_of([first, *others]))
    stride = (len(body) - len(body_of([first]))) // 63
    start = len(body) - stride * 40
    assert body[start : start + 2] == bytes((2 * (stride - 1), 0))
    assert walk(body, 64, False) == (0, delta)
    body[start + at] = wrong
    with pytest.raises(RecordError) as caught:
        walk(body, 64, False)
    assert caught.value.batch_index == 24


@example(key_bytes=200)
@given(st.integers(0, 9000))
def test_long_keys_and_values(key_bytes: int) -> None:
    rows: list[Row] = [(7, b"k" * key_bytes, b"v" * (9000 - key_bytes), ()) for _ in range(3)]
    assert walk(body_of(rows), 3, True) == (0, 0)


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (b"\x0a\x00\x00\x00\x01\x01\x00", "claims"),  # too small for what a record needs
        (b"\x7e\x00\x00\x00\x01\x01\x00", "claims"),  # longer than the bytes there are
        (b"\x0d\x00\x00\x00\x01\x01\x00", "claims"),  # a negative length
        (b"\x0c\x00\x00\x02\x01\x01\x00", "offset delta 1"),
        (b"\x0c\x00\x00\x00\x03\x01\x00", "length of -2"),  # key
        (b"\x0c\x00\x00\x00\x01\x03\x00", "length of -2"),  # value
        (b"\x0e\x00\x00\x00\x03\x41\x01\x00", "length of -2"),  # key, and the sum is right
        (b"\x0e\x00\x00\x00\x01\x03\x41\x00", "length of -2"),  # value
        (b"\x12\x00\x00\x00\x01\x01\x02\x00\x03\x41", "length of -2"),  # a header's value
        (b"\x0c\x00\x00\x00\x01\x01\x01", "-1 headers"),
        (b"\x0c\x00\x00\x00\x01\x01\x10", "8 headers"),
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x00", "length of -1"),  # a header's key
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", "claims"),  # bytes left over in the record
        (b"\x14\x00\x00\x00\x01\x80\x80\x80\x80\x80\x00\x00", "5 bytes"),
    ],
)
def test_refusals_say_why(record: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why) as caught:
        walk(record, 1, False)
    assert caught.value.batch_index == 0


@pytest.mark.parametrize(("unlike", "is_allowed"), [(0, True), (40, True), (2000, False)])
def test_so_many_records_of_other_shapes_are_walked_at_most(unlike: int, is_allowed: bool) -> None:
    alike: list[Row] = [(0, None, b"v" * 20, ())] * 5000
    others: list[Row] = [(0, None, b"v" * (n % 50), ()) for n in range(unlike)]
    body, count = body_of([*alike, *others, *alike]), 10_000 + unlike
    assert walk(body, count, False) == (0, 0)
    if is_allowed:
        assert walk(body, count, False, 512) == (0, 0)
    else:
        with pytest.raises(TooUnlike):
            walk(body, count, False, 512)


@pytest.mark.parametrize("stretch", [16, 32, 80])
def test_short_stretches_count_too(stretch: int) -> None:
    """Each of them takes a look of its own."""
    rows: list[Row] = [(0, None, b"v" * (n // stretch % 2), ()) for n in range(65_000)]
    body = body_of(rows)
    assert walk(body, len(rows), False) == (0, 0)
    with pytest.raises(TooUnlike):
        walk(body, len(rows), False, 512)


def test_left_over_bytes_after_the_last_record() -> None:
    with pytest.raises(KafkaError, match="3 bytes after"):
        walk(body_of([(0, None, None, ())]) + b"abc", 1, False)
