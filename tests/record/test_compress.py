import gzip
import struct

import cramjam
import pyarrow as pa
import pytest
from aiokafka import codec as aiokafka_codec
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as kafka_codec

from pk.core.errors import ErrorCode, KafkaError
from pk.core.record.compress import LEVELS, Codec, compress, decompress

MANY = 1 << 20
COMPRESSED = [codec for codec in Codec if codec != Codec.NONE]

bodies = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda part, times: part * times, st.binary(max_size=50), st.integers(0, 5000)),
)


@pytest.mark.parametrize("codec", Codec)
@given(data=bodies)
@settings(max_examples=examples(50))
def test_what_went_in_comes_out(codec: Codec, data: bytes) -> None:
    for buffer in (data, bytearray(data), memoryview(data)):
        packed = compress(codec, buffer)
        assert decompress(codec, packed, MANY) == data
        assert decompress(codec, memoryview(packed), MANY) == data


@pytest.mark.parametrize("other", [kafka_codec, aiokafka_codec])
@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("size", [1, 1000, 200_000])
def test_other_clients_read_ours_and_we_theirs(other: object, codec: Codec, size: int) -> None:
    data = b"".join(b"%d," % (i * i) for i in range(size))[:size]
    name = codec.name.lower()
    assert bytes(getattr(other, f"{name}_decode")(compress(codec, data))) == data
    assert decompress(codec, bytes(getattr(other, f"{name}_encode")(data)), MANY) == data


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_arrow_reads_ours_and_we_its(codec: Codec) -> None:
    data = b"".join(b"%d," % i for i in range(50_000))
    theirs = pa.Codec(codec.name.lower())
    assert theirs.decompress(compress(codec, data), len(data), asbytes=True) == data
    assert decompress(codec, theirs.compress(data, asbytes=True), MANY) == data


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    flags = compress(Codec.LZ4, b"x" * 200_000)[4]
    assert flags >> 6 == 1
    assert flags & 0x20


def test_snappy_in_the_framings_there_are() -> None:
    data = b"snappy" * 20_000
    packed = compress(Codec.SNAPPY, data)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    assert struct.unpack(">i", packed[16:20])[0] < len(packed) - 20
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), MANY) == data
    assert decompress(Codec.SNAPPY, packed[:16], MANY) == b""


def test_gzip_of_several_members_and_zstd_of_several_frames() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"a") + gzip.compress(b"b"), MANY) == b"ab"
    two = compress(Codec.ZSTD, b"a" * 9000) + compress(Codec.ZSTD, b"b" * 9000)
    assert decompress(Codec.ZSTD, two, MANY) == b"a" * 9000 + b"b" * 9000


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_bound_is_exact(codec: Codec) -> None:
    packed = compress(codec, bytes(300_000))
    assert len(decompress(codec, packed, 300_000)) == 300_000
    with pytest.raises(KafkaError) as caught:
        decompress(codec, packed, 299_999)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_makes_no_more_than_the_bound(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    """256 MB of zeros: every buffer that is asked for on the way is within the bound."""
    sizes: list[int] = []

    class Counted(bytearray):
        def __init__(self, size: int) -> None:
            sizes.append(size)
            super().__init__(size)

    packed = compress(codec, bytes(256 << 20))
    monkeypatch.setattr("pk.core.record.compress.bytearray", Counted, raising=False)
    with pytest.raises(KafkaError) as caught:
        decompress(codec, packed, 1 << 20)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert max(sizes, default=0) <= 1 << 20


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f"),  # 4 GB in five bytes
        (Codec.SNAPPY, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff\x00"),
        (Codec.SNAPPY, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff\x00"),
        (Codec.SNAPPY, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00"),
        (Codec.SNAPPY, b"\x82SNAPPY\x00\x00"),
        (Codec.GZIP, gzip.compress(b"abc", mtime=0)[:-4] + b"\xff\xff\xff\x7f"),
        (
            Codec.ZSTD,
            bytes.fromhex("28b52ffde0ffffffff0f000000") + b"\x01\x00\x00",
        ),  # 64 GB declared
    ],
)
def test_declared_sizes_are_not_believed(codec: Codec, data: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, 1 << 40)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_a_declared_size_too_small_is_not_believed_either() -> None:
    packed = gzip.compress(b"a") + gzip.compress(bytes(50_000)) + gzip.compress(b"b")
    assert len(decompress(Codec.GZIP, packed, MANY)) == 50_002


@pytest.mark.parametrize("codec", COMPRESSED)
@settings(max_examples=examples(200))
@given(data=st.data())
def test_nothing_but_kafka_errors_whatever_the_bytes(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, data.draw(bodies)))
    if data.draw(st.booleans()) and packed:
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    packed = packed[: data.draw(st.integers(0, len(packed)))] + data.draw(st.binary(max_size=8))
    try:
        decompress(codec, packed, MANY)
    except KafkaError as e:
        assert e.code in {ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE}


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_every_level(codec: Codec) -> None:
    data = b"".join(b"%d," % i for i in range(5000))
    levels = sorted({LEVELS[codec][0], *range(1, LEVELS[codec][-1] + 1)})
    sizes = []
    for level in levels:
        packed = compress(codec, data, level)
        sizes.append(len(packed))
        assert decompress(codec, packed, MANY) == data
    assert len(set(sizes)) > 1
    for level in (LEVELS[codec][0] - 1, LEVELS[codec][-1] + 1):
        with pytest.raises(ValueError, match="level"):
            compress(codec, data, level)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_a_level_where_there_is_none(codec: Codec) -> None:
    with pytest.raises(ValueError, match="level"):
        compress(codec, b"", 1)


def test_names() -> None:
    assert [Codec.from_name(n) for n in ("none", "gzip", "snappy", "lz4", "zstd")] == list(Codec)
    assert Codec.from_name("uncompressed") == Codec.NONE
    with pytest.raises(ValueError, match="brotli"):
        Codec.from_name("brotli")
    with pytest.raises(KafkaError) as caught:
        Codec.from_attributes(0x15)
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
