"""Compresses and decompresses records, in the framings that Kafka's Java client reads and writes.

- gzip: one member (several are read).
- snappy: xerial's stream, a 16-byte head and then blocks of `int32 length, raw snappy`. Some
  clients send one raw snappy block instead, so a body without that head is read as one.
- lz4: the frame format with independent blocks of 64 kB, since Java refuses dependent ones.
- zstd: a frame.

Compressed bytes may expand a thousandfold, so nothing is decompressed into a buffer that grows by
itself. The output has a fixed size, at first in proportion to the bytes received. If that is too
small, the work is repeated with four times the space, up to the caller's limit. The size that a
frame declares is believed only within that proportion.
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, Final, Self

import cramjam

from pk.core.errors import ErrorCode, KafkaError

Buffer = bytes | bytearray | memoryview

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_INT32: Final = Struct(">i")

_FIRST_RATIO: Final = 8
_DECLARED_RATIO_MAX: Final = 64
_FIRST_BYTES_MIN: Final = 4096
_GROWTH: Final = 4

_NO_ROOM: Final = "failed to write whole buffer"
"""The message of cramjam, for every codec, if the output does not fit."""


class Codec(IntEnum):
    """The compression of the records of a batch: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_name(cls, name: str) -> Self:
        """Return the codec that `compression.type` calls `name` (`uncompressed` is NONE too).
        Raises ValueError."""
        try:
            return cls["NONE" if name == "uncompressed" else name.upper()]
        except KeyError:
            raise ValueError(f"not a compression: {name!r}") from None

    @classmethod
    def from_attributes(cls, attributes: int) -> Self:
        """Return the codec in a batch's attributes. Raises KafkaError(UNSUPPORTED_COMPRESSION_TYPE)
        for one that Kafka does not have."""
        code = attributes & 7
        if code > cls.ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression {code} is unknown"
            )
        return cls(code)


LEVELS: Final[dict[Codec, range]] = {
    Codec.GZIP: range(1, 10),
    Codec.LZ4: range(1, 18),
    Codec.ZSTD: range(-131072, 23),
}
"""The levels that `compression.<codec>.level` may take (KIP-390)."""


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`, in the framing of `codec`. A `level` of None is the codec's default. Raises
    ValueError for a level that the codec does not have."""
    if level is not None and level not in LEVELS.get(codec, ()):
        raise ValueError(f"{codec.name.lower()} has no compression level {level}")
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, 6 if level is None else level))
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, 3 if level is None else level))
    if codec == Codec.LZ4:
        stream = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        stream.compress(bytes(data))
        return bytes(stream.finish())
    return _xerial_compress(data)


def decompress(codec: Codec, data: Buffer, bytes_max: int) -> Buffer:
    """Decompress what `compress` has returned. NONE returns `data` itself.

    Raises KafkaError: INVALID_RECORD for bytes that are not valid for the codec, MESSAGE_TOO_LARGE
    beyond `bytes_max`.
    """
    if codec == Codec.NONE:
        return data
    if codec == Codec.SNAPPY:
        return _snappy_decompress(data, bytes_max)
    module = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}[codec]
    size = _first_size(codec, data, bytes_max)
    while True:
        out = bytearray(size)
        try:
            written = module.decompress_into(data, out)
        except cramjam.DecompressionError as e:
            del out  # free the memory before more is allocated, or an error refers to it
            if _NO_ROOM not in str(e):
                raise _corrupt(codec, str(e)) from None
        else:
            del out[written:]
            return out
        if size >= bytes_max:
            raise _too_large(bytes_max)
        size = min(size * _GROWTH, bytes_max)


def _first_size(codec: Codec, data: Buffer, bytes_max: int) -> int:
    """Return the size of output to try first: the declared size if it is plausible, otherwise a
    multiple of the input's size."""
    declared = None
    if codec == Codec.GZIP and len(data) >= 18:
        declared = int.from_bytes(data[-4:], "little")
    elif codec == Codec.ZSTD:
        declared = _zstd_declared(data)
    if declared is None:
        size = len(data) * _FIRST_RATIO
    else:
        size = min(declared, len(data) * _DECLARED_RATIO_MAX)
    return min(max(size, _FIRST_BYTES_MIN), bytes_max)


def _zstd_declared(data: Buffer) -> int | None:
    """Read the content size in a zstd frame's header (RFC 8878, 3.1.1), if it has one."""
    if len(data) < 6:
        return None
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    if not width:
        return None
    at = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    return int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)


def _xerial_compress(data: Buffer) -> bytes:
    out = [_XERIAL_HEAD]
    view = memoryview(data)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        out += (_INT32.pack(len(block)), block)
    return b"".join(out)


def _snappy_decompress(data: Buffer, bytes_max: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _snappy_block(view, bytes_max, bytes_max)
    position, room = len(_XERIAL_HEAD), bytes_max
    out: list[bytes] = []
    if len(view) < position:
        raise _corrupt(Codec.SNAPPY, "the stream's head is cut off")
    while position < len(view):
        if position + 4 > len(view):
            raise _corrupt(Codec.SNAPPY, "a block's length is cut off")
        size = _INT32.unpack_from(view, position)[0]
        position += 4
        if not 0 <= size <= len(view) - position:
            raise _corrupt(Codec.SNAPPY, f"a block claims {size} bytes")
        block = _snappy_block(view[position : position + size], room, bytes_max)
        out.append(block)
        room -= len(block)
        position += size
    return b"".join(out)


def _snappy_block(block: memoryview, room: int, bytes_max: int) -> bytes:
    """Decompress one raw block. The size that it declares is checked against the maximum to which
    its bytes can expand: a copy of 2 or 3 bytes makes 64."""
    read: Callable[[Any], int] = cramjam.snappy.decompress_raw_len
    try:
        size = read(block)
        if size > len(block) * _DECLARED_RATIO_MAX:
            raise _corrupt(Codec.SNAPPY, f"a block of {len(block)} bytes claims to hold {size}")
        if size > room:
            raise _too_large(bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as e:
        raise _corrupt(Codec.SNAPPY, str(e)) from None


def _corrupt(codec: Codec, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"not {codec.name.lower()}: {why}")


def _too_large(bytes_max: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"the records expand beyond {bytes_max} bytes")
