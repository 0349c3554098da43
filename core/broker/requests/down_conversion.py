"""Conversion for consumers of 0.10 and before, which read messages instead of record batches.

The kernel cannot send these from the file: every record is read and rewritten
(core/record/convert.py). A small amount is converted on the event loop, and more in a thread.
"""

from typing import Final

from pk.core.broker.offload import offload
from pk.core.log.failures import storage_errors
from pk.core.log.file_slices import BytesSlice, FileSlice, Slice
from pk.core.log.log import Log
from pk.core.record.batch import CODEC_BITS
from pk.core.record.convert import DownConverted, down_convert

INLINE_BYTES: Final = 16 * 1024
"""The number of bytes that are converted on the event loop: about a millisecond for the smallest
records."""
INLINE_COMPRESSED_BYTES: Final = 512
"""Like `INLINE_BYTES`, for compressed bytes, which may expand to a thousand times as much."""
SEARCH_BYTES: Final = 64 * 1024
"""The number of bytes read at a time in search of a record, if the request's limit is smaller."""

_ATTRIBUTES_AT: Final = 22


async def lower_slice(
    log: Log, found: Slice, magic: int, offset: int, bytes_max: int, offset_end: int
) -> bytes:
    """Return the records of `log` from `offset` on as messages (see `convert.lower`). `found` has
    the batches there. If they are only control batches, later ones are read, since a client with an
    empty response would repeat its request. The result is empty only if there is no record before
    `offset_end`. Raises KafkaError."""
    while True:
        lowered = await _down_convert(log, found, magic, offset, bytes_max)
        if lowered.data or not offset < lowered.next_offset < offset_end:
            return lowered.data
        offset = lowered.next_offset
        wanted, directory = max(bytes_max, SEARCH_BYTES), log.log_dir.path
        found = (
            await offload(log.reader.read, offset, wanted, offset_end, directory=directory)
        ).slice
        if not found.length:
            return b""


async def _down_convert(
    log: Log, found: Slice, magic: int, offset: int, bytes_max: int
) -> DownConverted:
    if isinstance(found, BytesSlice):
        if _is_small(found.data):
            return down_convert(found.data, magic, offset, bytes_max)
        return await offload(down_convert, found.data, magic, offset, bytes_max)
    with storage_errors(log.state.directory, "read"):
        found.pin()
    try:
        if found.length <= INLINE_BYTES and _is_resident(log, found):
            data = _read(log, found)
            if _is_small(data):
                return down_convert(data, magic, offset, bytes_max)
        return await offload(
            _read_and_down_convert, log, found, magic, offset, bytes_max, directory=log.log_dir.path
        )
    finally:
        found.unpin()


def _is_small(data: bytes | memoryview) -> bool:
    compressed = len(data) > _ATTRIBUTES_AT and data[_ATTRIBUTES_AT] & CODEC_BITS
    return len(data) <= (INLINE_COMPRESSED_BYTES if compressed else INLINE_BYTES)


def _is_resident(log: Log, found: FileSlice) -> bool:
    with storage_errors(log.state.directory, "read"):
        return found.resident()


def _read(log: Log, found: FileSlice) -> bytes:
    with storage_errors(log.state.directory, "read"):
        return found.read()


def _read_and_down_convert(
    log: Log, found: FileSlice, magic: int, offset: int, bytes_max: int
) -> DownConverted:
    return down_convert(_read(log, found), magic, offset, bytes_max)
