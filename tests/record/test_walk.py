"""The quick paths of the walk decide as the careful one does, on good bytes and on bad ones."""

from collections.abc import Callable

import pytest
from each import for_each
from effort import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from record.strategies import Row, stretches

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record import walk as walk_module
from pk.core.record.batch import HEADER_BYTES, read_header
from pk.core.record.build import build_batch
from pk.core.record.grammar import RecordError
from pk.core.record.uniform import Columns, Shape
from pk.core.record.validation import validate_records
from pk.core.record.varint import encode_varint
from pk.core.record.walk import NotUniform, walk

Walk = Callable[[bytes, int, bool], tuple[int, int]]


def body_of(rows: list[Row]) -> bytes:
    return bytes(build_batch(rows)[HEADER_BYTES:])


def careful(data: bytes, count: int, compacted: bool) -> tuple[int, int]:
    """The walk by `parse_record` alone: slow, and plainly right."""
    position, deltas = 0, []
    for index in range(count):
        position, delta = walk_module._check_one(memoryview(data), position, index, compacted)
        deltas.append(delta)
    if position != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD)
    return min(deltas), max(deltas)


def walk_in_a_frame(data: bytes, count: int, compacted: bool) -> tuple[int, int]:
    """Call the walk as the broker does, with other bytes before and after the records."""
    frame = bytearray(b"\x0c" * 77 + data + b"\x0c" * 99)
    body = memoryview(frame)[77 : 77 + len(data)]
    return walk(body, count, compacted, frame=frame, at=77)


def outcome(way: Walk, data: bytes, count: int, compacted: bool) -> tuple[int, int] | str:
    try:
        return way(data, count, compacted)
    except KafkaError as e:
        assert e.code == ErrorCode.INVALID_RECORD
        return e.message or ""


def assert_judged_alike(data: bytes, count: int, compacted: bool = False) -> None:
    """The walk, with and without a frame, and the careful walk agree, except for the text of
    errors."""
    found = outcome(walk, data, count, compacted)
    assert outcome(walk_in_a_frame, data, count, compacted) == found
    expected = outcome(careful, data, count, compacted)
    assert found == expected or (isinstance(found, str) and isinstance(expected, str))


@given(stretches(), st.booleans())
def test_what_was_built_is_accepted(rows: list[Row], compacted: bool) -> None:
    times = [row[0] - rows[0][0] for row in rows]
    for way in (walk, walk_in_a_frame):
        if compacted and any(row[1] is None for row in rows):
            with pytest.raises(RecordError):
                way(body_of(rows), len(rows), compacted)
        else:
            assert way(body_of(rows), len(rows), compacted) == (min(times), max(times))


@settings(max_examples=examples(400))
@given(stretches(), st.booleans(), st.data())
def test_a_changed_byte_is_judged_alike(
    rows: list[Row], compacted: bool, data: st.DataObject
) -> None:
    body = bytearray(body_of(rows))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(
        st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, body[at] ^ 1, body[at] ^ 0x80, body[at] ^ 2])
    )
    assert_judged_alike(bytes(body), len(rows), compacted)


@given(stretches(), st.data())
def test_bytes_taken_out_or_put_in_are_judged_alike(rows: list[Row], data: st.DataObject) -> None:
    body = body_of(rows)
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 9)))
    changed = body[:start] + data.draw(st.binary(max_size=9)) + body[end:]
    count = len(rows) + data.draw(st.integers(-1, 1))
    assert_judged_alike(changed, max(count, 1))


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


@for_each(
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
        with pytest.raises(NotUniform):
            walk(body, count, False, 512)


@pytest.mark.parametrize("count", [16, 63, 64, 65, 79, 80, 8191, 8192, 8207, 8208, 20_000])
@pytest.mark.parametrize("value_bytes", [50, 1000])
def test_a_batch_of_one_shape_takes_one_look_a_stretch(count: int, value_bytes: int) -> None:
    """No record of it is walked by itself but those at the end of a stretch too short for a look,
    wherever the batch lies."""
    batch = bytes(build_batch([(5, b"key", b"v" * value_bytes, ())] * count))
    frame = bytearray(b"\x0c" * 77 + batch + b"\x0c" * 99)
    looks = sum(end < count for end in (0, 64, 8192, 16_384))
    rest = max((count - end for end in (0, 64, 8192, 16_384) if 0 < count - end < 16), default=0)
    header = read_header(batch)
    for view, at in ((memoryview(frame)[77:], {"frame": frame, "at": 77}), (batch, {})):
        short = rest > 0
        spent = walk_module._SEARCH_COST * (looks - short) + rest
        assert validate_records(view, header, singles_max=spent, **at) == (5, 5)
        with pytest.raises(NotUniform):
            validate_records(view, header, singles_max=spent - 1, **at)


@pytest.mark.parametrize("at", [3, 40, 63, 64, 70, 5000, 8191, 8192, 9000])
def test_a_batch_as_long_as_if_all_were_alike_is_looked_at(at: int) -> None:
    """One record's value is a byte longer, the next one's a byte shorter."""
    rows: list[Row] = [(0, b"k", b"v" * 20, ())] * 9010
    rows[at], rows[at + 1] = (0, b"k", b"v" * 21, ()), (0, b"k", b"v" * 19, ())
    body = body_of(rows)
    assert len(body) == len(body_of([rows[0]] * len(rows)))
    assert walk_in_a_frame(body, len(rows), False) == (0, 0)
    assert_judged_alike(body[:-1] + b"\x01", len(rows))


def test_records_that_only_fill_the_batch_as_if_alike_are_not_looked_at_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths = [20] * 20 + [21] * 10 + [19] * 10
    rows: list[Row] = [(0, b"k", b"v" * lengths[n % 40], ()) for n in range(8000)]
    looked_at: list[int] = []
    check = walk_module._check_uniform

    def counted(columns: Columns, shape: Shape, index: int) -> tuple[int, int] | None:
        looked_at.append(columns.count * shape.stride)
        return check(columns, shape, index)

    monkeypatch.setattr(walk_module, "_check_uniform", counted)
    body = body_of(rows)
    assert walk(body, len(rows), False) == (0, 0)
    assert sum(looked_at) < 2 * len(body)


@pytest.mark.parametrize("there", [40, 64, 100, 9000])
def test_records_that_follow_the_batch_are_not_its_own(there: int) -> None:
    row: Row = (0, b"k", b"v" * 50, ())
    body, end = body_of([row] * (there + 20)), len(body_of([row] * there))
    with pytest.raises(RecordError, match="0 are left|cut off") as caught:
        walk(memoryview(body)[:end], there + 20, False, frame=bytearray(body), at=0)
    assert caught.value.batch_index == there


@pytest.mark.parametrize("stretch", [16, 32, 80])
def test_short_stretches_count_too(stretch: int) -> None:
    """Each of them takes a look of its own."""
    rows: list[Row] = [(0, None, b"v" * (n // stretch % 2), ()) for n in range(65_000)]
    body = body_of(rows)
    assert walk(body, len(rows), False) == (0, 0)
    with pytest.raises(NotUniform):
        walk(body, len(rows), False, 512)


def test_left_over_bytes_after_the_last_record() -> None:
    with pytest.raises(KafkaError, match="3 bytes after"):
        walk(body_of([(0, None, None, ())]) + b"abc", 1, False)
