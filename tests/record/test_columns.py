"""Arrow columns hold what `records` gives one by one, and batches made of columns hold what
`build_batch` makes."""

import datetime
import struct
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from each import for_each
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from record.strategies import Row, stretches

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import HEADER_BYTES, BatchHeader, records, write_crc
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.record.columns import (
    CHUNK_BYTES,
    ROW_SCHEMA,
    ROW_SCHEMA_WITH_HEADERS,
    WantedRows,
    from_arrow,
    split,
    to_arrow,
)
from pk.core.record.compress import Codec
from pk.core.record.varint import encode_varint

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def rows_of(
    batches: bytes | bytearray, start: int = 0, end: int | None = None
) -> list[dict[str, object]]:
    """The rows one record at a time, as the columns ought to have them."""
    out: list[dict[str, object]] = []
    for batch, header in split(batches):
        if header.is_control:
            continue
        for r in records(batch, header):
            if start <= r.offset and (end is None or r.offset < end):
                out.append(
                    {
                        "key": r.key,
                        "value": r.value,
                        "topic": "things",
                        "partition": 7,
                        "offset": r.offset,
                        "timestamp": r.timestamp * 1000,
                        "timestampType": int(header.log_append_time),
                        "headers": [{"key": k, "value": v} for k, v in r.headers] or None,
                    }
                )
    return out


def arrow_rows(chunks: Sequence[pa.RecordBatch]) -> list[dict[str, object]]:
    out: list[dict[str, object]] = []
    for chunk in chunks:
        chunk.validate(full=True)
        at = chunk.schema.names.index("timestamp")
        out += chunk.set_column(at, "timestamp", chunk["timestamp"].cast(pa.int64())).to_pylist()
    return out


def decoded(
    batches: bytes | bytearray, *, chunk_bytes: int = CHUNK_BYTES, **offsets: int
) -> list[dict[str, object]]:
    wanted = WantedRows("things", 7, headers=True, **offsets)
    chunks = list(to_arrow(split(batches), wanted, chunk_bytes=chunk_bytes))
    assert all(chunk.schema == ROW_SCHEMA_WITH_HEADERS for chunk in chunks)
    return arrow_rows(chunks)


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(stretches(), st.sampled_from(Codec), st.booleans()), max_size=4), st.data()
)
def test_columns_are_the_records(
    several: list[tuple[list[Row], Codec, bool]], data: st.DataObject
) -> None:
    stream, offset = bytearray(), data.draw(st.integers(0, 1 << 40))
    for rows, codec, broker_time in several:
        time = 1_700_000_000_123 if broker_time else None
        stream += build_batch(rows, offset, codec=codec, log_append_time_ms=time)
        offset += len(rows)
        stream += end_transaction_batch(True, 0, 1, 0, 0, base_offset=offset)
        offset += 1
    assert decoded(stream) == rows_of(stream)
    start = data.draw(st.integers(max(offset - 100, 0), offset))
    end = data.draw(st.integers(start, offset))
    assert decoded(stream, start_offset=start, end_offset=end) == rows_of(stream, start, end)
    assert decoded(stream, chunk_bytes=1000) == rows_of(stream)


def test_a_batch_cut_off_at_the_end_of_a_fetch_is_left_for_the_next() -> None:
    one = build_batch([(0, b"k", b"v", ())], 5)
    assert [row["offset"] for row in decoded(one + one[:-1])] == [5]


def test_without_headers_the_column_is_absent_but_the_bytes_are_checked() -> None:
    batch = build_batch([(0, b"k", b"v", (("name", b"x"),))])
    (chunk,) = to_arrow(split(batch), WantedRows("t", 0))
    assert chunk.schema == ROW_SCHEMA
    assert batch[-6:-1] == b"name\x02"
    batch[-2] = 0x04
    with pytest.raises(KafkaError):
        list(to_arrow(split(batch), WantedRows("t", 0)))


def test_chunks_are_bounded() -> None:
    batch = build_batch([(0, None, bytes(1000), ())] * 10)
    chunks = list(to_arrow(split(batch * 7), WantedRows("t", 0), chunk_bytes=25_000))
    assert [chunk.num_rows for chunk in chunks] == [20, 20, 20, 10]


def test_a_batch_that_the_cleaner_emptied() -> None:
    full = build_batch([(0, None, None, ())], 100)
    empty = full[:HEADER_BYTES]
    struct.pack_into(">i", empty, 8, HEADER_BYTES - 12)
    struct.pack_into(">i", empty, 57, 0)
    assert [row["offset"] for row in decoded(empty + full)] == [100]


def test_headers_of_many_records_and_of_few() -> None:
    """Up to 64 records go one by one, more than that all at once."""
    for count in (1, 63, 64, 65, 200):
        rows: list[Row] = [
            (0, b"k", b"v", tuple((f"n{k}", None if k % 3 else b"x" * k) for k in range(i % 90)))
            for i in range(count)
        ]
        batch = build_batch(rows)
        assert decoded(batch) == rows_of(batch)


def test_header_names_that_are_not_utf8() -> None:
    batch = build_batch([(0, None, None, (("ab", b"v"),))])
    at = batch.index(b"ab")
    batch[at] = 0xFF
    (row,) = decoded(batch)
    assert row["headers"] == [{"key": "\ufffdb", "value": b"v"}]


def test_timestamps_beyond_what_microseconds_hold() -> None:
    batch = build_batch([((1 << 62), None, None, ()), (0, None, None, ())])
    times = [row["timestamp"] for row in decoded(batch)]
    assert times == [(2**63 - 1) // 1000 * 1000, 0]


def test_a_compacted_batch_keeps_its_offsets() -> None:
    full = build_batch([(i, b"%d" % i, None, ()) for i in range(4)], 100)
    size = (len(full) - HEADER_BYTES) // 4
    kept = full[: HEADER_BYTES + size] + full[-size:]
    struct.pack_into(">i", kept, 8, len(kept) - 12)
    struct.pack_into(">i", kept, 57, 2)
    assert [row["offset"] for row in decoded(kept)] == [100, 103]


@settings(max_examples=examples(400))
@given(st.lists(stretches(), min_size=1, max_size=3), st.data())
def test_bad_bytes_are_refused_or_read_as_one_by_one(
    several: list[list[Row]], data: st.DataObject
) -> None:
    """Any bytes raise only KafkaError, and bytes that are accepted are read as `records` reads
    them."""
    stream, starts = bytearray(), []
    for rows in several:
        starts.append(len(stream))
        stream += build_batch(rows)
    for _ in range(data.draw(st.integers(1, 2))):
        start = data.draw(st.sampled_from(starts))
        size = struct.unpack_from(">i", stream, start + 8)[0] + 12
        at = start + data.draw(st.integers(HEADER_BYTES, size - 1))
        stream[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, stream[at] ^ 2]))
    if data.draw(st.booleans()):
        struct.pack_into(">i", stream, starts[-1] + 57, data.draw(st.integers(-1, 200)))
    try:
        found = decoded(stream)
    except KafkaError as e:
        assert e.code == ErrorCode.INVALID_RECORD
        return
    expected = rows_of(stream)
    for row in expected:
        time = row["timestamp"]
        assert isinstance(time, int)
        row["timestamp"] = (
            int(np.clip(time // 1000, -((2**63 - 1) // 1000), (2**63 - 1) // 1000)) * 1000
        )
    assert found == expected


def test_a_length_that_leads_back_behind_the_begin() -> None:
    unlike: list[Row] = [(0, None, bytes(100 + i), ()) for i in range(64)]
    alike: list[Row] = [(0, None, b"\x7e" * 5000, ())] * 64  # each looks like a record of 64 bytes
    last = len(build_batch(unlike[:63]))
    batch = build_batch(unlike + alike)
    back = encode_varint(HEADER_BYTES - last - 3 - 2000)
    assert len(back) == 3
    batch[last : last + 3] = back
    with pytest.raises(KafkaError) as raised:
        decoded(batch)
    assert raised.value.code == ErrorCode.INVALID_RECORD


@for_each(
    "field",
    ["size", "key", "value", "headers", "header key", "header value"],
)
@for_each("number", [-2, 100, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])
def test_lies_about_lengths(field: str, number: int) -> None:
    numbers = {"size": 0, "key": 1, "value": 1, "headers": 1, "header key": 1, "header value": 1}
    parts = numbers | {field: number}
    inside = (
        b"\0\0\0"
        + encode_varint(parts["key"])
        + b"k"
        + encode_varint(parts["value"])
        + b"v"
        + encode_varint(parts["headers"])
        + encode_varint(parts["header key"])
        + b"n"
        + encode_varint(parts["header value"])
        + b"x"
    )
    size = number if field == "size" else len(inside)
    good = build_batch([(0, b"k", b"v", (("n", b"x"),))])
    batch = good[:HEADER_BYTES] + encode_varint(size) + inside
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    write_crc(batch)
    with pytest.raises(KafkaError) as caught:
        decoded(good + batch)
    assert caught.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "inside",
    [
        b"\0\0\0\x01\x01\0\0",  # a byte after the last field
        b"\0\0\0\x01\x01\x02\0\0\0",  # the same after a header
        b"\0\0\0\x01\x01",  # no count of headers: the next record's length would be taken
        b"\0\0\x01\x01\x01\0",  # an offset delta of -1
    ],
)
def test_records_that_do_not_add_up(inside: bytes) -> None:
    good = build_batch([(0, b"k", b"v", ())])
    for count in (1, 100):
        batch = good[:HEADER_BYTES] + (bytes((2 * len(inside),)) + inside) * count
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        struct.pack_into(">i", batch, 57, count)
        with pytest.raises(KafkaError) as caught:
            decoded(batch + good)
        assert caught.value.code == ErrorCode.INVALID_RECORD


def table(rows: list[Row]) -> pa.RecordBatch:
    """The columns of records, as an import reads them."""
    times, keys, values, headers = zip(*rows, strict=True)
    wanted = ROW_SCHEMA_WITH_HEADERS
    return pa.RecordBatch.from_arrays(
        [
            pa.array(times, pa.timestamp("ms", "UTC")),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(
                [[{"key": k, "value": v} for k, v in names] for names in headers],
                wanted.field("headers").type,
            ),
        ],
        names=["timestamp", "key", "value", "headers"],
    )


@settings(max_examples=examples(60))
@given(stretches(), st.integers(100, 5000), st.sampled_from(Codec))
def test_batches_of_columns_are_those_of_the_builder(
    rows: list[Row], batch_bytes: int, codec: Codec
) -> None:
    first = 0
    for batch, count in from_arrow(table(rows), batch_bytes=batch_bytes, now_ms=0, codec=codec):
        assert batch == build_batch(rows[first : first + count], codec=codec)
        if codec == Codec.NONE:
            assert len(batch) <= batch_bytes or count == 1
        first += count
    assert first == len(rows)


def test_columns_of_other_types_and_none() -> None:
    rows = pa.record_batch(
        {
            "value": pa.array(["a", None, "ü"], pa.large_string()),
            "timestamp": pa.array([1_500_999, None, -1000], pa.timestamp("us")),
            "other": pa.array([1, 2, 3]),
        }
    )
    ((batch, count),) = from_arrow(rows.slice(0), batch_bytes=1000, now_ms=77)
    assert count == 3
    assert [(r.timestamp, r.key, r.value) for r in records(batch)] == [
        (1500, None, b"a"),
        (77, None, None),
        (-1, None, "ü".encode()),
    ]
    ((batch, _),) = from_arrow(rows.slice(2), batch_bytes=1000, now_ms=77)
    assert [r.value for r in records(batch)] == ["ü".encode()]
    assert list(from_arrow(rows.slice(3), batch_bytes=1000, now_ms=77)) == []


def test_a_slice_of_headers() -> None:
    rows: list[Row] = [
        (0, b"k", b"%d" % i, tuple((f"h{i}", b"x") for _ in range(i))) for i in range(5)
    ]
    ((batch, _),) = from_arrow(table(rows).slice(2, 2), batch_bytes=1000, now_ms=0)
    assert [r.headers for r in records(batch)] == [rows[2][3], rows[3][3]]


@pytest.mark.parametrize(
    "columns",
    [
        {"value": pa.array([1])},
        {"value": pa.array([b"v"]), "key": pa.array([[1]])},
        {"value": pa.array([b"v"]), "timestamp": pa.array([[1]])},
        {"value": pa.array([b"v"]), "headers": pa.array([1])},
        {
            "value": pa.array([b"v"]),
            "headers": pa.array(
                [[{"key": None, "value": b"x"}]], ROW_SCHEMA_WITH_HEADERS.field("headers").type
            ),
        },
    ],
)
def test_what_cannot_be_records(columns: dict[str, pa.Array]) -> None:
    with pytest.raises(ValueError, match=r"column|name"):
        list(from_arrow(pa.record_batch(columns), batch_bytes=1000, now_ms=0))


@given(stretches())
@settings(max_examples=examples(30))
def test_there_and_back(rows: list[Row]) -> None:
    batch = build_batch(rows)
    (chunk,) = to_arrow(split(batch), WantedRows("t", 0, headers=True))
    ((again, count),) = from_arrow(chunk, batch_bytes=1 << 30, now_ms=0)
    assert count == len(rows)
    assert again == batch


def test_header_of_a_split_batch() -> None:
    batch = build_batch([(0, None, None, ())])
    ((view, header),) = split(batch * 1)
    assert isinstance(header, BatchHeader)
    assert view.tobytes() == bytes(batch)


def test_reading_does_not_import_pandas() -> None:
    # `pa.array` and `pa.scalar` do, which takes each process that reads 0.3 s of CPU.
    program = """
import sys
from pk.core.record.build import build_batch
from pk.core.record.columns import WantedRows, split, to_arrow

batch = build_batch([(1, b"k", b"v", (("h", b"x"),)), (2, None, None, ()), (3, b"", b"w", ())])
[rows] = to_arrow(split(batch), WantedRows("orders", 3, headers=True))
assert rows["key"].to_pylist() == [b"k", None, b""]
assert rows["topic"].to_pylist() == ["orders"] * 3
assert rows["headers"].null_count == 2
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
