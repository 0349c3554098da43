"""Converts record batches to Arrow columns and back, without a Python object for each record.

When batches are read, only the lengths of the records must be read one by one, because each
determines the position of the next record. For consecutive records of the same length, even that is
not necessary. numpy decodes every other field of all records at the same time, over the
concatenated bytes of many batches, so that small batches cost no more than large ones. Keys and
values become Arrow arrays over those bytes: the offsets alternate gap, value, gap, value, …, and
`take` keeps every second piece and turns each of length -1 into a null.

Nothing in the bytes is trusted: every length is compared with its record and every record with its
batch. If they do not add up, the batch is refused with INVALID_RECORD.

To write batches, numpy encodes the bytes between keys and values (lengths, deltas, counts) for all
rows at once. Arrow joins them with the keys and values into one buffer, and each batch is a slice
of it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    HEADER_BYTES,
    SEQUENCES,
    BatchHeader,
    body,
    iter_headers,
)
from pk.core.record.build import seal
from pk.core.record.compress import Codec
from pk.core.record.grammar import RECORD_BYTES_MIN
from pk.core.record.varint import INT_BYTES_MAX, read_varint

Buffer = bytes | bytearray | memoryview
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

ROW_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
"""The columns of Spark's Kafka source. timestampType is 0 for the producer's time and 1 for the
broker's."""

HEADERS_FIELD: Final = pa.field(
    "headers",
    pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
)
"""The column that `includeHeaders` adds. As in Spark it is null if a record has no headers."""

ROW_SCHEMA_WITH_HEADERS: Final = ROW_SCHEMA.append(HEADERS_FIELD)

_compute: Final[Any] = pc
"""Arrow creates these functions when it is imported, so type checkers do not see them."""

_INT64: Final = pa.int64()

CHUNK_BYTES: Final = 64 << 20
"""The size in bytes of the records that become one Arrow batch. Arrow's own limit is 2 GiB."""

_CHUNK_BYTES_MAX: Final = (1 << 31) - 1024
_PADDING: Final = bytes(16)
_UNIFORM_MIN: Final = 64
_BACKOFF_MAX: Final = 1 << 16
_ACTIVE_MIN: Final = 64
_LENGTHS_BYTES_MAX: Final = 5 + 1 + 5
_MICROSECONDS_MAX: Final = ((1 << 63) - 1) // 1000


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def split(buffer: Buffer) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield the whole batches in `buffer`, each with its header. Raises what `iter_headers`
    raises."""
    view = memoryview(buffer)
    for position, header in iter_headers(view):
        yield view[position : position + header.size], header


class WantedRows(Struct, frozen=True):
    """The rows to make of a partition's records, and the names that they contain."""

    topic: str
    partition: int
    start_offset: int = 0
    end_offset: int | None = None
    """Records at or after this offset are left out; None for no limit."""
    headers: bool = False
    """Whether rows have the column `headers`."""


def to_arrow(
    batches: Iterable[tuple[Buffer, BatchHeader]],
    wanted: WantedRows,
    *,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Convert the wanted records of one partition's batches to rows of ROW_SCHEMA (with headers,
    ROW_SCHEMA_WITH_HEADERS), in order.

    Control batches are left out. An Arrow batch holds about `chunk_bytes` of records, and at least
    one batch. CRCs are not checked. Raises KafkaError: what `body` raises, INVALID_RECORD if
    lengths contradict the bytes.
    """
    end_offset = wanted.end_offset
    limit = min(chunk_bytes, _CHUNK_BYTES_MAX)
    group: list[tuple[Buffer, BatchHeader]] = []
    size = 0
    for buffer, header in batches:
        if header.is_control or header.next_offset <= wanted.start_offset:
            continue
        if end_offset is not None and header.base_offset >= end_offset:
            continue
        if header.count == 0 and header.size == HEADER_BYTES:
            continue  # compaction left only the header, for its producer's sequence
        data = body(buffer, header)
        if not 0 < header.count <= len(data) // RECORD_BYTES_MIN:
            raise _invalid(f"{header.count} records in {len(data)} bytes")
        if group and size + len(data) > limit:
            yield from _rows(group, wanted)
            group, size = [], 0
        group.append((data, header))
        size += len(data)
    if group:
        yield from _rows(group, wanted)


class _Fields(Struct):
    """The positions of the parts of each record. A length of -1 is null."""

    times: Ints
    numbers: Ints
    key_at: Ints
    key_length: Ints
    value_at: Ints
    value_length: Ints
    headers: Ints
    headers_at: Ints
    stop: Ints

    def keep(self, mask: npt.NDArray[np.bool_]) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name)[mask])


def _rows(group: list[tuple[Buffer, BatchHeader]], wanted: WantedRows) -> Iterator[pa.RecordBatch]:
    data = b"".join([*(records for records, _ in group), _PADDING])
    array = np.frombuffer(data, np.uint8)
    counts = np.array([header.count for _, header in group])
    lengths = np.array([len(records) for records, _ in group])
    fields = _decode(data, array, counts, np.concatenate(([0], np.cumsum(lengths))))

    def each(values: list[int]) -> Ints:
        return np.repeat(np.array(values, np.int64), counts)

    offset = each([header.base_offset for _, header in group]) + fields.numbers
    append_time = each([header.log_append_time for _, header in group])
    timestamp = np.where(
        append_time,
        each([header.max_timestamp for _, header in group]),
        each([header.base_timestamp for _, header in group]) + fields.times,
    )
    mask = offset >= wanted.start_offset
    if wanted.end_offset is not None:
        mask &= offset < wanted.end_offset
    if not mask.all():
        fields.keep(mask)
        offset, timestamp, append_time = offset[mask], timestamp[mask], append_time[mask]
    count = len(offset)
    if not count:
        return
    buffer = pa.py_buffer(data)
    micros = np.clip(timestamp, -_MICROSECONDS_MAX, _MICROSECONDS_MAX) * 1000
    columns: list[pa.Array] = [
        _slices(buffer, fields.key_at, fields.key_length),
        _slices(buffer, fields.value_at, fields.value_length),
        _repeated(wanted.topic, count),
        _numbers(np.full(count, wanted.partition, np.int32), pa.int32()),
        _numbers(offset),
        _numbers(micros, ROW_SCHEMA.field("timestamp").type),
        _numbers(append_time.astype(np.int32), pa.int32()),
    ]
    found = (
        _headers(data, array, buffer, fields) if wanted.headers or fields.headers.any() else None
    )
    if wanted.headers:
        columns.append(pa.nulls(count, HEADERS_FIELD.type) if found is None else found)
    schema = ROW_SCHEMA_WITH_HEADERS if wanted.headers else ROW_SCHEMA
    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _decode(data: bytes, array: Bytes, counts: Ints, bounds: Ints) -> _Fields:
    """Decode the fields of all records in `data`. Batch i has the bytes from bounds[i] to bounds[i
    + 1]."""
    end = int(bounds[-1])
    positions = _positions(data, array, int(counts.sum()), end)
    if (positions[np.concatenate(([0], np.cumsum(counts)))] != bounds).any():
        raise _invalid("the records of a batch do not fill it")
    size, start = _varints(array, positions[:-1])
    stop = positions[1:]
    if (size != stop - start).any():
        raise _invalid("a record's length is wrong")
    times, at = _varints(array, start + 1)
    numbers, at = _varints(array, at)
    if ((numbers < 0) | (numbers >= SEQUENCES)).any():
        raise _invalid("an offset delta is negative or above 2³¹ - 1")
    key_length, key_at = _varints(array, at)
    at = _after(key_at, key_length, stop)
    value_length, value_at = _varints(array, at)
    at = _after(value_at, value_length, stop)
    headers, headers_at = _varints(array, at)
    if (headers < 0).any() or (headers > (stop - headers_at) // 2).any():
        raise _invalid("a record claims more headers than it has room for")
    if ((headers == 0) & (headers_at != stop)).any():
        raise _invalid("a record's length is not that of its fields")
    return _Fields(
        times, numbers, key_at, key_length, value_at, value_length, headers, headers_at, stop
    )


def _after(at: Ints, length: Ints, stop: Ints, least: int = -1) -> Ints:
    """Return the positions `length` bytes after `at`; a length of -1 has no bytes. Refuses
    positions beyond `stop`."""
    if (length < least).any():
        raise _invalid("a length is negative")
    length = np.maximum(length, 0)
    if (length > stop - at).any():
        raise _invalid("a key, value or header is longer than its record")
    return at + length


def _positions(data: bytes, array: Bytes, count: int, end: int) -> Ints:
    """Find the positions of `count` records, and the end of the last one. The caller checks their
    lengths."""
    out = np.empty(count + 1, np.int64)
    index = position = 0
    stretch = backoff = _UNIFORM_MIN
    while index < count:
        uniform = min(stretch, count - index)
        if uniform >= _UNIFORM_MIN:
            stride = _stride(data, array, position, uniform, end)
            if stride:
                out[index : index + uniform] = np.arange(
                    position, position + stride * uniform, stride
                )
                position += stride * uniform
                index += uniform
                stretch, backoff = stretch * 4, _UNIFORM_MIN
                continue
            if stretch > _UNIFORM_MIN:
                stretch //= 4
                continue
        part, position = _chain(data, position, min(backoff, count - index), end)
        out[index : index + len(part)] = part
        index += len(part)
        backoff = min(backoff * 2, _BACKOFF_MAX)
    out[count] = position
    return out


def _stride(data: bytes, array: Bytes, position: int, count: int, end: int) -> int:
    """Return the distance between `count` records if all their lengths have the same bytes,
    otherwise 0."""
    (_, *_), after = _chain(data, position, 1, end)
    stride = after - position
    if position + stride * count > end:
        return 0
    width = 1
    while data[position + width - 1] >= 0x80:
        width += 1
    for at in range(position, position + width):
        column = array[at : position + stride * count : stride]
        if (column != column[0]).any():
            return 0
    return stride


def _chain(data: bytes, position: int, count: int, end: int) -> tuple[list[int], int]:
    """Find the positions of `count` records one by one, from `position` on, and the position after
    them."""
    out = [0] * count
    try:
        for index in range(count):
            out[index] = position
            code = data[position]
            if code < 0x80:
                position += 1 + (code >> 1)
                continue
            second = data[position + 1]
            if second < 0x80:
                position += 2 + ((code & 0x7F | second << 7) >> 1)
                continue
            size, position = read_varint(data, position, INT_BYTES_MAX)
            if size < 0:
                raise _invalid("a record's length is negative")
            position += size
    except IndexError:
        raise _invalid("a record reaches beyond its batch") from None
    if position > end:
        raise _invalid("a record reaches beyond its batch")
    return out, position


def _varints(array: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Decode the zigzag varints at the positions `at`. Returns them and the positions after them.
    The array has padding at its end."""
    byte = array[at]
    more = byte >= 0x80
    code = (byte & 0x7F).astype(np.uint64)
    at = at + 1
    if more.any():
        which = np.flatnonzero(more)
        for shift in range(7, 70, 7):
            where = at[which]
            byte = array[where]
            code[which] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[which] = where + 1
            which = which[byte >= 0x80]
            if not len(which):
                break
        else:
            raise _invalid("a number of more than 10 bytes")
    value = (code >> np.uint64(1)).astype(np.int64)
    np.bitwise_xor(value, -(code & np.uint64(1)).astype(np.int64), out=value)
    return value, at


def _slices(buffer: pa.Buffer, at: Ints, length: Ints) -> pa.Array:
    """Make a binary array of the pieces of `buffer` at ascending positions. Pieces of length -1 are
    null."""
    count = len(at)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = at
    np.add(at, np.maximum(length, 0), out=offsets[1::2], casting="unsafe")
    gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), buffer])
    null = length < 0
    every_second = pa.py_buffer(np.arange(0, 2 * count, 2))
    valid = _bits(~null) if null.any() else None
    return gaps.take(pa.Array.from_buffers(pa.int64(), count, [valid, every_second]))


def _numbers(values: npt.NDArray[Any], kind: Any = _INT64) -> pa.Array:
    """Make an Arrow array of the type `kind`, whose numbers have the same size as those in
    `values`.

    `pa.array` and `pa.scalar` are avoided: if pandas is installed, they import it to check for its
    columns, which takes 0.3 s of CPU in each process that reads.
    """
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, buffer])


def _repeated(text: str, count: int) -> pa.Array:
    data = text.encode()
    ends = pa.py_buffer(np.array([0, len(data)], np.int32))
    [one] = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(data)])
    return pa.repeat(one, count)


def _bits(values: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def _headers(data: bytes, array: Bytes, buffer: pa.Buffer, fields: _Fields) -> pa.Array | None:
    """Make the headers column. Returns None if no record has headers. Raises
    KafkaError(INVALID_RECORD).

    Header k of all records that have one is decoded at once. When few records are left, they are
    decoded one by one.
    """
    counts = fields.headers
    first = np.concatenate(([0], np.cumsum(counts)))
    total = int(first[-1])
    if not total:
        return None
    key_at, key_length, value_at, value_length = np.empty((4, total), np.int64)
    which = np.flatnonzero(counts)
    at = fields.headers_at[which]
    k = 0
    while len(which) >= _ACTIVE_MIN:
        stop = fields.stop[which]
        slot = first[which] + k
        key_length[slot], key_at[slot] = _varints(array, at)
        at = _after(key_at[slot], key_length[slot], stop, 0)
        value_length[slot], value_at[slot] = _varints(array, at)
        at = _after(value_at[slot], value_length[slot], stop)
        k += 1
        done = counts[which] == k
        _refuse_left_over(at[done], stop[done])
        which, at = which[~done], at[~done]
    for record, position in zip(which.tolist(), at.tolist(), strict=True):
        stop = int(fields.stop[record])
        for slot in range(int(first[record]) + k, int(first[record + 1])):
            key_length[slot], key_at[slot], position = _piece(data, position, stop, 0)
            value_length[slot], value_at[slot], position = _piece(data, position, stop, -1)
        _refuse_left_over(position, stop)
    pairs = pa.StructArray.from_arrays(
        [_strings(_slices(buffer, key_at, key_length)), _slices(buffer, value_at, value_length)],
        fields=list(HEADERS_FIELD.type.value_type),
    )
    none = counts == 0
    return pa.ListArray.from_arrays(
        _numbers(first.astype(np.int32), pa.int32()),
        pairs,
        type=HEADERS_FIELD.type,
        mask=pa.Array.from_buffers(pa.bool_(), len(none), [None, _bits(none)])
        if none.any()
        else None,
    )


def _piece(data: bytes, position: int, stop: int, least: int) -> tuple[int, int, int]:
    """Read a length. Returns it, the position of its bytes, and the position after them. Refuses a
    length below `least` and bytes beyond `stop`."""
    length, at = read_varint(data, position, INT_BYTES_MAX)
    if length < least or max(length, 0) > stop - at:
        raise _invalid("a header is longer than its record")
    return length, at, at + max(length, 0)


def _refuse_left_over(at: Ints | int, stop: Ints | int) -> None:
    if np.any(at != stop):
        raise _invalid("a record's length is not that of its fields")


def _strings(names: pa.Array) -> pa.Array:
    """Convert header names to strings. Bytes that are not UTF-8 become U+FFFD, as in Java."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([n.decode(errors="replace") for n in names.to_pylist()], pa.string())


def from_arrow(
    rows: pa.RecordBatch,
    *,
    batch_bytes: int,
    now_ms: int,
    codec: Codec = Codec.NONE,
    level: int | None = None,
) -> Iterator[tuple[bytearray, int]]:
    """Build batches of the rows, in order. Yields each with the number of its records.

    The columns used are `value` and, if present, `key`, `timestamp` (truncated to ms; `now_ms` if
    null or absent) and `headers`, with the types of ROW_SCHEMA_WITH_HEADERS. Binary columns may be
    strings. A batch has at most `batch_bytes` before compression, unless a single record is larger.
    Raises ValueError for columns of other types, null header names, and records beyond 2 GiB.
    """
    parts = _Parts.of(rows, now_ms)
    first = 0
    for start, ends in _chunks(parts.sizes(), batch_bytes):
        data, offsets, timestamps = _encode(parts.slice(start, ends[-1]), np.array(ends) - start)
        for end in ends:
            batch = bytearray(HEADER_BYTES)
            batch += data[offsets[first - start] : offsets[end - start]]
            times = timestamps[first - start : end - start]
            seal(batch, end - first, int(times[0]), int(times.max()), codec=codec, level=level)
            yield batch, end - first
            first = end


class _Parts(Struct):
    """The columns of the records. `headers` are already encoded, with their count."""

    timestamp: Ints
    key: pa.Array
    value: pa.Array
    headers: pa.Array

    @classmethod
    def of(cls, rows: pa.RecordBatch, now_ms: int) -> "_Parts":
        names, count = rows.schema.names, rows.num_rows
        timestamp = np.full(count, now_ms, np.int64)
        if "timestamp" in names:
            column = _cast(rows["timestamp"], pa.timestamp("ms"), "timestamp")
            timestamp = pc.fill_null(column.cast(pa.int64()), now_ms).to_numpy()
        key = pa.nulls(count, pa.binary())
        if "key" in names:
            key = _cast(rows["key"], pa.binary(), "key")
        headers = pa.repeat(pa.scalar(b"\0"), count)
        if "headers" in names and rows["headers"].null_count < count:
            headers = _encode_headers(rows["headers"])
        return cls(timestamp, key, _cast(rows["value"], pa.binary(), "value"), headers)

    def sizes(self) -> Ints:
        """Return an upper bound for the size of each record in bytes, whichever rows are in the
        same batch."""
        reach = int(np.ptp(self.timestamp)) if len(self.timestamp) else 0
        key, value = (np.maximum(_lengths(column), 0) for column in (self.key, self.value))
        varints = _widths(_zigzag(np.array([reach])))[0] + _widths(key * 2) + _widths(value * 2)
        size: Ints = varints + key + value + _lengths(self.headers) + _LENGTHS_BYTES_MAX
        return size

    def slice(self, start: int, end: int) -> "_Parts":
        count = end - start
        return _Parts(
            self.timestamp[start:end],
            self.key.slice(start, count),
            self.value.slice(start, count),
            self.headers.slice(start, count),
        )


def _chunks(sizes: Ints, batch_bytes: int) -> Iterator[tuple[int, list[int]]]:
    """Yield chunks of rows that are encoded at once: the chunk's first row, and the end of each
    batch in it."""
    bytes_before: Ints = np.concatenate(([0], np.cumsum(sizes)))
    start = first = 0
    ends: list[int] = []
    while first < len(sizes):
        limit = int(bytes_before[first]) + max(batch_bytes - HEADER_BYTES, 1)
        end = max(int(np.searchsorted(bytes_before, limit, "right")) - 1, first + 1)
        if bytes_before[end] - bytes_before[first] > _CHUNK_BYTES_MAX:
            raise ValueError("a record beyond 2 GiB")
        if ends and bytes_before[end] - bytes_before[start] > CHUNK_BYTES:
            yield start, ends
            start, ends = first, []
        ends.append(end)
        first = end
    if ends:
        yield start, ends


def _encode(parts: _Parts, ends: Ints) -> tuple[memoryview, Ints, Ints]:
    """Encode the rows as records. Returns the bytes, the positions of the records (and the end of
    the last), and their timestamps. Batches end at `ends`."""
    counts = np.diff(ends, prepend=0)
    first = np.repeat(ends - counts, counts)
    delta = _zigzag(parts.timestamp - parts.timestamp[first])
    number = 2 * (np.arange(len(first)) - first)
    key, value = _lengths(parts.key), _lengths(parts.value)
    key_code, value_code = _zigzag(key), _zigzag(value)
    size = 1 + np.maximum(key, 0) + np.maximum(value, 0) + _lengths(parts.headers)
    for code in (delta, number, key_code, value_code):
        size += _widths(code)
    joined = _join(
        _varint_column(2 * size, np.zeros_like(size), delta, number, key_code),
        parts.key,
        _varint_column(value_code),
        parts.value,
        parts.headers,
    )
    _, offsets, data = joined.buffers()
    return memoryview(data), np.frombuffer(offsets, np.int32).astype(np.int64), parts.timestamp


def _encode_headers(column: pa.Array) -> pa.Array:
    """Encode each row's headers as in a record. Raises ValueError for a null name and for other
    types."""
    pairs = _cast(column, HEADERS_FIELD.type, "headers").fill_null([])
    flat = pairs.flatten()
    names, values = flat.field("key").cast(pa.binary()), flat.field("value")
    if flat.null_count or names.null_count:
        raise ValueError("a header without a name")
    lengths = [_varint_column(_zigzag(_lengths(column))) for column in (names, values)]
    entries = _join(lengths[0], names, lengths[1], values)
    counts = _compute.list_value_length(pairs).to_numpy().astype(np.int64)
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
    joined = _compute.binary_join(pa.ListArray.from_arrays(offsets, entries), b"")
    return _join(_varint_column(2 * counts), joined)


def _join(*columns: pa.Array) -> pa.Array:
    """Concatenate the bytes of each row's elements. Nulls are skipped."""
    return _compute.binary_join_element_wise(
        *columns, b"", null_handling="replace", null_replacement=b""
    )


def _cast(column: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return pc.cast(column, wanted, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise ValueError(f"column {name} is {column.type}, not {wanted}: {e}") from None


def _lengths(column: pa.Array) -> Ints:
    """Return the length of each element, -1 for null."""
    return pc.fill_null(_compute.binary_length(column), -1).to_numpy().astype(np.int64)


def _zigzag(values: Ints) -> Ints:
    """Compute the zigzag codes of signed numbers. All 64 bits are used."""
    return (values << 1) ^ (values >> 63)


def _widths(codes: Ints) -> Ints:
    """Compute the size in bytes of the varint of each code."""
    rest, width = codes.view(np.uint64) >> np.uint64(7), np.ones_like(codes)
    while rest.any():
        width += rest > 0
        rest >>= np.uint64(7)
    return width


def _varint_column(*columns: Ints) -> pa.Array:
    """Make a binary array with an element for each row, the varints of its codes one after
    another."""
    widths = [_widths(codes) for codes in columns]
    offsets = np.concatenate(([0], np.cumsum(sum(widths))))
    out = np.empty(offsets[-1], np.uint8)
    at = offsets[:-1].copy()
    for codes, width in zip(columns, widths, strict=True):
        rest = codes.view(np.uint64)
        which: Any = slice(None)
        for index in range(int(width.max(initial=0))):
            if index:
                which = np.flatnonzero(width > index)
            more = (width[which] > index + 1).astype(np.uint8) << 7
            byte = (rest[which] >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
            out[at[which] + index] = byte | more
        at += width
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), len(at), buffers)
