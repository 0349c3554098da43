"""Message sets v0 and v1: the same bytes as kafka-python 2.0.6, conversion to batches and back, and
refusals."""

import json
import random
import struct
import zlib
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from clients.old_clients import OldClient
from each import for_each
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from record.strategies import stretches

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.batch import (
    HEADER_BYTES,
    check_crc,
    iter_headers,
    read_header,
    records,
    write_crc,
)
from pk.core.record.build import build_batch, end_transaction_batch
from pk.core.record.compress import Codec, compress
from pk.core.record.convert import UPGRADED_BATCH_BYTES, batch_of, down_convert, upgrade
from pk.core.record.legacy import (
    OVERHEAD,
    Row,
    broken_lz4,
    build_set,
    iter_messages,
    message_records,
    produced_rows,
    repaired_lz4,
)
from pk.core.record.validation import validate_records

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
ANY_SIZE = 1 << 30
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "message_sets.jsonl"
"""[magic, codec, the set in hex], all of ROWS, by kafka-python 2.0.6 (`python
tests/record/test_legacy.py` writes it)."""

ROWS: list[Row] = [
    (0, 1_700_000_000_000, b"key", b"value"),
    (1, 1_600_000_000_000, None, b"no key"),
    (2, 0, b"tombstone", None),
    (3, 1_700_000_000_001, b"", b""),
    (4, 1 << 45, bytes(range(256)), b"so that compression pays " * 40),
]

rows_of_keys_and_values = st.lists(
    st.tuples(
        st.integers(0, 1 << 45),
        st.one_of(st.none(), st.binary(max_size=70)),
        st.one_of(st.none(), st.binary(max_size=70)),
    ),
    min_size=1,
    max_size=30,
).map(lambda rows: [(n, *row) for n, row in enumerate(rows)])


def timed(rows: list[Row], magic: int) -> list[Row]:
    """The rows as format `magic` keeps them: v0 has no times."""
    return [(o, t if magic else -1, k, v) for o, t, k, v in rows]


@pytest.fixture(scope="module")
def old() -> Iterator[OldClient]:
    try:
        client = OldClient()
    except RuntimeError as e:
        pytest.skip(f"no kafka-python 2.0.6: {e}")
    with client:
        yield client


def in_log(data: bytes) -> list[Row]:
    """Every record of a piece of an old log."""
    return [r[:4] for at, h in iter_messages(data) for r in message_records(data, at, h)]


# --- as others write and read them ---


@pytest.mark.parametrize("line", [json.loads(line) for line in GOLDEN.read_text().splitlines()],
                         ids=lambda line: f"v{line[0]}-{Codec(line[1]).name.lower()}")  # fmt: skip
def test_golden_sets(line: tuple[int, int, str]) -> None:
    magic, codec, data = line[0], Codec(line[1]), bytes.fromhex(line[2])
    assert produced_rows(data, ANY_SIZE) == (timed(ROWS, magic), codec)
    if codec == Codec.NONE:
        assert build_set(timed(ROWS, magic), magic) == data


@pytest.mark.slow
@pytest.mark.parametrize("magic", [0, 1])
@given(rows=rows_of_keys_and_values)
@settings(max_examples=examples(100), deadline=None)
def test_the_old_client_writes_the_same_bytes(old: OldClient, magic: int, rows: list[Row]) -> None:
    assert old.call("build", magic, 0, rows) == build_set(timed(rows, magic), magic)


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("magic", [0, 1])
@given(rows=rows_of_keys_and_values)
@settings(max_examples=examples(50), deadline=None)
def test_each_reads_the_other(old: OldClient, magic: int, codec: Codec, rows: list[Row]) -> None:
    expected = timed(rows, magic)
    assert produced_rows(old.call("build", magic, int(codec), rows), ANY_SIZE) == (expected, codec)
    assert list(old.call("read", build_set(rows, magic, codec))) == expected


# --- there and back ---


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("magic", [0, 1])
@given(rows=rows_of_keys_and_values)
@settings(max_examples=examples(50), deadline=None)
def test_up_and_down_again(magic: int, codec: Codec, rows: list[Row]) -> None:
    found, found_codec = produced_rows(build_set(rows, magic, codec), ANY_SIZE)
    batch, timestamps = batch_of(found, found_codec)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.codec == codec
    assert validate_records(batch, header) == timestamps
    assert [r[:4] for r in records(batch)] == timed(rows, magic)
    lowered = down_convert(batch, magic, 0, ANY_SIZE)
    assert lowered.next_offset == len(rows)
    assert in_log(lowered.data) == timed(rows, magic)
    if codec == Codec.NONE:
        assert lowered.data == build_set(rows, magic)


# --- old logs ---


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_log_keeps_its_offsets_and_times(magic: int, codec: Codec) -> None:
    """Compaction left gaps, within and between; the last ones lie further apart than a batch can
    say."""
    pieces: list[list[Row]] = [
        [(7, 50, b"a", b"1"), (9, 40, b"b", b"2"), (400, 60, b"c", None)],
        [(401, 10, None, b"next")],
        [(1 << 33, 10, None, b"far")],
    ]
    sets = [build_set(rows, magic, codec) for rows in pieces]
    data = b"".join(sets)
    whole = [timed(rows, magic) for rows in pieces]
    assert in_log(data) == [row for rows in whole for row in rows]
    upgraded = list(upgrade(data + build_set(ROWS[:1], magic)[:-1]))
    batches = [[r[:4] for r in records(batch)] for _, batch in upgraded]
    if codec == Codec.NONE:
        whole, sets = [whole[0] + whole[1], whole[2]], [sets[0] + sets[1], sets[2]]
    assert batches == whole
    assert [end for end, _ in upgraded] == list(accumulate(map(len, sets)))
    for (_, batch), rows in zip(upgraded, whole, strict=True):
        header = read_header(batch)
        check_crc(batch, 0, header)
        assert (header.base_offset, header.last_offset, header.codec) == (
            rows[0][0],
            rows[-1][0],
            codec,
        )


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_log_append_time_is_kept_up_and_down(codec: Codec) -> None:
    stamped = [(n, 77, b"k", b"v%d" % n) for n in range(5)]
    data = build_set(stamped, 1, codec, log_append_time=True)
    [(_, batch)] = upgrade(data)
    header = read_header(batch)
    assert header.log_append_time
    assert [r[:4] for r in records(batch)] == stamped
    lowered = down_convert(batch, 1, 0, ANY_SIZE).data
    assert all(h.log_append_time for _, h in iter_messages(lowered))
    assert in_log(lowered) == stamped


def test_single_messages_are_gathered_and_what_is_sound_comes_before_the_error() -> None:
    rows = [(n, n, None, bytes(1000)) for n in range(600)]
    data = bytearray(build_set(rows, 1))
    data[-1] ^= 1
    found: list[tuple[int, bytearray]] = []
    with pytest.raises(KafkaError) as caught:
        for piece in upgrade(data):
            found.append(piece)  # noqa: PERF402 - what came before the error counts
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert [r[:4] for _, batch in found for r in records(batch)] == rows[:-1]
    assert all(len(batch) <= UPGRADED_BATCH_BYTES for _, batch in found)
    assert found[-1][0] == len(data) // 600 * 599


def test_a_log_that_became_modern_is_left_where_it_did() -> None:
    old_part = build_set(ROWS, 1)
    data = old_part + build_batch([(1, None, b"v2", ())], 5)
    assert [end for end, _ in upgrade(data)] == [len(old_part)]
    assert in_log(data) == ROWS
    assert list(iter_headers(data, len(old_part)))


def test_offsets_that_fall_back_are_corrupt() -> None:
    with pytest.raises(KafkaError) as caught:
        list(upgrade(build_set(ROWS, 1) + build_set(ROWS, 1)))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


# --- down ---


@given(
    rows=stretches(),
    codec=st.sampled_from(CODECS),
    at=st.integers(0, 1 << 40),
    stamped=st.booleans(),
)
@settings(max_examples=examples(200), deadline=None)
def test_records_of_every_shape_come_down(
    rows: list[Any], codec: Codec, at: int, stamped: bool
) -> None:
    """The quick walk knows only the usual ones, and must leave the others to the careful one."""
    time_ms = 123 if stamped else None
    batch = build_batch(rows, at, codec=codec, log_append_time_ms=time_ms)
    expected = [r[:4] for r in records(batch)]
    assert in_log(down_convert(batch, 1, at, ANY_SIZE).data) == expected
    middle = at + len(rows) // 2
    assert in_log(down_convert(batch, 1, middle, ANY_SIZE).data) == expected[len(rows) // 2 :]


def test_more_records_than_two_bytes_count_and_those_longer_than_two_bytes_say() -> None:
    rows = [(5, b"k%d" % n, b"v" * (n % 300), ()) for n in range(20_000)]
    for wanted in (rows, [*rows[:5], (5 + (1 << 33), None, bytes(9000), (("h", None),))]):
        batch = build_batch(wanted, 7)
        found = in_log(down_convert(batch, 1, 7, ANY_SIZE).data)
        assert found == [(7 + n, *row[:3]) for n, row in enumerate(wanted)]


@given(data=st.data())
@settings(max_examples=examples(200), deadline=None)
def test_records_that_lie_are_errors_however_they_are_walked(data: st.DataObject) -> None:
    """The CRC is good, as if a broken producer of another broker had written the records."""
    batch = build_batch([(5, b"key", b"value", (("h", b"v"),)), (9000, None, None, ())] * 4)
    at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255))
    write_crc(batch)
    try:
        expected = [r[:4] for r in records(batch)]
    except KafkaError as e:
        expected = e.code
    try:
        found = in_log(down_convert(batch, 1, 0, ANY_SIZE).data)
    except KafkaError as e:
        found = e.code
    if isinstance(expected, list) and isinstance(found, list):
        assert found == expected
    elif isinstance(found, list):  # only headers lie, of which nothing is sent
        assert len(found) == 8
    else:
        assert found == expected


def batches_of(*values: bytes, codec: Codec = Codec.NONE, start: int = 0) -> bytes:
    return b"".join(
        build_batch([(5, None, value, (("gone", b"h"),))], start + n, codec=codec)
        for n, value in enumerate(values)
    )


def test_the_first_message_is_whole_and_the_rest_keeps_to_the_limit() -> None:
    data = bytes(build_batch([(5, None, bytes(1000), ()) for _ in range(100)], 50))
    for limit in (0, 1, 900):
        assert len(down_convert(data, 1, 50, limit).data) == OVERHEAD[1] + 1000
    lowered = down_convert(data, 1, 60, 5000).data
    assert len(lowered) == 5000
    assert [row[0] for row in in_log(lowered)] == [60, 61, 62, 63]


def test_a_wrapper_that_does_not_fit_is_left_out_unless_it_is_the_first() -> None:
    data = batches_of(
        random.Random(1).randbytes(900), random.Random(2).randbytes(900), codec=Codec.GZIP
    )
    one = down_convert(data, 0, 0, 1).data
    assert [row[0] for row in in_log(one)] == [0]
    assert down_convert(data, 0, 0, len(one) + 500).data == one
    assert len(in_log(down_convert(data, 0, 0, 2 * len(one) + 100).data)) == 2


def test_control_batches_are_passed_over_and_headers_dropped() -> None:
    marker = bytes(end_transaction_batch(True, 0, 7, 0, 1, base_offset=1))
    data = batches_of(b"a") + marker + batches_of(b"b", start=2)
    assert in_log(down_convert(data, 1, 0, ANY_SIZE).data) == [
        (0, 5, None, b"a"),
        (2, 5, None, b"b"),
    ]
    assert down_convert(marker, 1, 1, ANY_SIZE) == (b"", 2)


def test_what_is_wrong_is_told_only_if_nothing_comes_before_it() -> None:
    zstd = batches_of(b"z", codec=Codec.ZSTD, start=1)
    with pytest.raises(KafkaError) as caught:
        down_convert(zstd, 1, 1, ANY_SIZE)
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert down_convert(batches_of(b"a") + zstd, 1, 0, ANY_SIZE).next_offset == 1
    damaged = bytearray(batches_of(b"damaged"))
    damaged[-2] ^= 1
    with pytest.raises(KafkaError) as caught:
        down_convert(damaged, 1, 0, ANY_SIZE)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE, "no fresh CRC for what is damaged"


def test_a_piece_that_ends_inside_a_batch() -> None:
    data = batches_of(b"a", b"b")
    assert down_convert(data[:-1], 0, 0, ANY_SIZE).next_offset == 1


# --- refusals ---


def refused(data: bytes, message_bytes_max: int = ANY_SIZE) -> int:
    with pytest.raises(KafkaError) as caught:
        produced_rows(data, message_bytes_max)
    return caught.value.code


def signed(data: bytes | bytearray) -> bytes:
    """The message with the CRC that its bytes have."""
    return bytes(data[:12]) + struct.pack(">I", zlib.crc32(data[16:])) + bytes(data[16:])


def changed(data: bytes, at: int, byte: int) -> bytes:
    return signed(data[:at] + bytes((byte,)) + data[at + 1 :])


ONE = build_set(ROWS[:1], 1)
REFUSED = {
    "nothing": (b"", ErrorCode.CORRUPT_MESSAGE),
    "wrong CRC": (ONE[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
    "cut off": (ONE + ONE[:-1], ErrorCode.CORRUPT_MESSAGE),
    "magic 3": (changed(ONE, 16, 3), ErrorCode.CORRUPT_MESSAGE),
    "a batch": (bytes(build_batch([(1, None, b"v", ())])), ErrorCode.INVALID_RECORD),
    "two formats": (ONE + build_set(ROWS[:1], 0), ErrorCode.INVALID_RECORD),
    "log append time": (changed(ONE, 17, 8), ErrorCode.INVALID_TIMESTAMP),
    "stamped wrapper": (
        build_set(ROWS, 1, Codec.GZIP, log_append_time=True), ErrorCode.INVALID_TIMESTAMP
    ),
    "zstd": (changed(ONE, 17, 4), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "codec 7": (changed(ONE, 17, 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "not gzip": (changed(ONE, 17, 1), ErrorCode.INVALID_RECORD),
    "not lz4 of v0": (changed(build_set(ROWS[:1], 0), 17, 3), ErrorCode.INVALID_RECORD),
    "two wrappers": (build_set(ROWS, 1, Codec.GZIP) * 2, ErrorCode.INVALID_RECORD),
    "a wrapper after a message": (ONE + build_set(ROWS, 1, Codec.GZIP), ErrorCode.INVALID_RECORD),
    "no value to unpack": (
        changed(build_set([(0, 1, None, None)], 1), 17, 1), ErrorCode.INVALID_RECORD
    ),
    "key of length -2": (
        changed(build_set([(0, 1, None, None)], 1), 29, 0xFE), ErrorCode.CORRUPT_MESSAGE
    ),
    "key beyond the end": (changed(ONE, 27, 0x7F), ErrorCode.CORRUPT_MESSAGE),
    "value too short": (changed(ONE, 36, 4), ErrorCode.CORRUPT_MESSAGE),
}  # fmt: skip


@for_each("name", REFUSED)
def test_refused(name: str) -> None:
    data, error = REFUSED[name]
    assert refused(data) == error


def wrapped(inner: bytes, magic: int = 1, codec: Codec = Codec.GZIP) -> bytes:
    """A wrapper message around `inner`, which may be any bytes."""
    message = bytearray(build_set([(0, 1, None, compress(codec, inner))], magic))
    message[17] = codec
    return signed(message)


def test_what_is_wrong_within_a_wrapper() -> None:
    assert produced_rows(wrapped(ONE), ANY_SIZE) == (ROWS[:1], Codec.GZIP)
    assert refused(wrapped(ONE[:-1] + b"!")) == ErrorCode.CORRUPT_MESSAGE
    assert refused(wrapped(build_set(ROWS, 0))) == ErrorCode.INVALID_RECORD
    assert refused(wrapped(wrapped(ONE))) == ErrorCode.INVALID_RECORD
    assert refused(wrapped(b"")) == ErrorCode.INVALID_RECORD
    assert refused(wrapped(ONE + b"more")) == ErrorCode.CORRUPT_MESSAGE
    assert refused(wrapped(ONE, codec=Codec.ZSTD)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_the_limit_is_on_each_message_and_on_the_wrapper_as_it_came() -> None:
    rows = [(n, 1, None, bytes(500)) for n in range(10)]
    size = OVERHEAD[1] + 500
    assert len(produced_rows(build_set(rows, 1), size)[0]) == 10
    assert refused(build_set(rows, 1), size - 1) == ErrorCode.MESSAGE_TOO_LARGE
    assert len(produced_rows(build_set(rows, 1, Codec.GZIP), size)[0]) == 10
    assert refused(build_set(rows, 1, Codec.GZIP), 50) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS[1:], ids=lambda codec: codec.name.lower())
def test_a_bomb_is_too_large_and_not_unpacked(codec: Codec) -> None:
    bomb = wrapped(bytes(4 << 20), codec=codec)
    with pytest.raises(KafkaError) as raised:
        produced_rows(bomb, 8 << 20, 1 << 20)
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
@pytest.mark.parametrize("magic", [0, 1])
def test_cut_at_every_byte_and_every_byte_flipped(magic: int, codec: Codec) -> None:
    """Bytes that are no longer a set raise KafkaError. The CRC catches every change except one to
    the offset, which it does not cover."""
    data = build_set(ROWS[:4], magic, codec)
    for end in range(len(data)):
        try:
            rows, _ = produced_rows(data[:end], ANY_SIZE)
        except KafkaError:
            continue
        assert codec == Codec.NONE and rows == timed(ROWS[: len(rows)], magic), end
    for at in range(8, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        try:
            rows, _ = produced_rows(bytes(damaged), ANY_SIZE)
        except KafkaError:
            continue
        assert [row[1:] for row in rows] == [row[1:] for row in timed(ROWS[:4], magic)], at


@given(data=st.binary(max_size=200), resign=st.booleans(), magic=st.integers(0, 3))
@settings(max_examples=examples(300), deadline=None)
def test_noise_is_an_error_of_ours(data: bytes, resign: bool, magic: int) -> None:
    if resign and len(data) > 20:
        data = (
            data[:8] + struct.pack(">i", len(data) - 12) + data[12:16] + bytes((magic,)) + data[17:]
        )
        data = signed(data)
    for use in (
        lambda: produced_rows(data, ANY_SIZE),
        lambda: in_log(data),
        lambda: list(upgrade(data)),
    ):
        try:
            use()
        except KafkaError as e:
            assert e.code in (
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.INVALID_RECORD,
                ErrorCode.INVALID_TIMESTAMP,
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            )


# --- lz4 in v0 (KAFKA-3160) ---


def test_lz4_of_v0_has_the_wrong_checksum_and_any_is_read() -> None:
    frame = compress(Codec.LZ4, b"data" * 100)
    broken = broken_lz4(frame)
    assert broken != frame and broken[:6] == frame[:6] and broken[7:] == frame[7:]
    assert bytes(repaired_lz4(broken)) == frame
    assert build_set(ROWS, 1, Codec.LZ4).count(frame[:7]) == 1
    assert build_set(ROWS, 0, Codec.LZ4).count(broken[:7]) == 1


def write_golden() -> None:
    """Write the golden file again."""
    with OldClient() as client, GOLDEN.open("w") as f:
        for magic in (0, 1):
            for codec in CODECS:
                data = client.call("build", magic, int(codec), ROWS)
                f.write(json.dumps([magic, int(codec), data.hex()]) + "\n")


if __name__ == "__main__":
    write_golden()
