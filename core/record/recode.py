"""Changes the codec of a batch: the effect of a topic's `compression.type` on batches with a
different one."""

import struct

from pk.core.record.batch import (
    CODEC_BITS,
    HEADER_BYTES,
    LOGGED_BYTES_MAX,
    BatchHeader,
    body,
    write_crc,
)
from pk.core.record.compress import Codec, compress

Buffer = bytes | bytearray | memoryview

_LENGTH_AT = 8
_ATTRIBUTES_AT = 21


def recode(batch: Buffer, header: BatchHeader, codec: Codec, level: int | None = None) -> bytearray:
    """Copy the batch at the start of `batch`, with its records compressed by `codec` and everything
    else unchanged.

    Raises what `body` raises. The only limit of size is that of logs: the caller has checked the
    batch. The CRC of `batch` is not checked, so check it first; the copy gets a new one.
    """
    records = body(batch, header, LOGGED_BYTES_MAX)
    packed = records if codec == Codec.NONE else compress(codec, records, level)
    result = bytearray(HEADER_BYTES + len(packed))
    with memoryview(batch) as view:
        result[:HEADER_BYTES] = view[:HEADER_BYTES]
    result[HEADER_BYTES:] = packed
    struct.pack_into(">i", result, _LENGTH_AT, len(result) - 12)
    attributes = header.attributes & ~CODEC_BITS | codec
    struct.pack_into(">h", result, _ATTRIBUTES_AT, attributes)
    write_crc(result)
    return result
