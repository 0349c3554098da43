"""The object of a remote segment: its records as they were in the `.log` file, and behind them a
*tail* with everything else that readers need.

    records     the bytes of the .log file, so that positions in the indexes hold in the object
    tail        CBOR of [start offset, end offset, max timestamp, size of the records, first bytes
                of the records, offset index, time index, aborted transactions, producer snapshot at
                the end, leader epochs up to the end]; the indexes and the snapshot in the formats
                of their files, the epochs as pairs
    footer      size of the tail uint32, CRC-32C of the tail uint32, "pkremote"

One object, because a store charges for requests, and each takes its latency: a copy is one upload
(Apache Kafka's interface has six files for a segment), a first read is one request for the whole
tail and one for the records, and a deletion is one request. The tail is behind the records since
its size is known only when they were read; the metadata of the segment has its position. A reader
with only the object finds it by the footer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct as Packing
from typing import Any, Final, cast

from msgspec import Struct

from pk.core import cbor
from pk.core.cbor import CborError
from pk.core.log.epochs import EpochStart
from pk.core.log.files import Data, File
from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError
from pk.core.record.batch import HEADER_BYTES, crc_of

KIND: Final = "pk.remote-segment"
VERSION: Final = 0
FOOTER: Final = Packing(">II8s")
MAGIC: Final = b"pkremote"
READ_BYTES: Final = 1 << 20
"""How much of the segment's file is read at a time."""
HEAD_BYTES: Final = HEADER_BYTES
TAIL_BYTES_FIRST: Final = 1 << 16
"""How much of an object's end is read to find its tail."""


class Tail(Struct, frozen=True):
    """The data after the records. Offsets are inclusive."""

    start_offset: int
    end_offset: int
    max_timestamp: int
    size: int
    head: bytes
    """The first bytes of the records, which say in which format they are."""
    offset_index: bytes
    time_index: bytes
    txn_index: bytes
    snapshot: bytes
    epochs: tuple[EpochStart, ...]

    @property
    def index_bytes(self) -> int:
        """Its approximate size in memory."""
        return len(self.offset_index) + len(self.time_index) + len(self.txn_index)


def format_tail(tail: Tail) -> bytes:
    """The bytes behind the records, with the footer."""
    body: list[Any] = [
        tail.start_offset,
        tail.end_offset,
        tail.max_timestamp,
        tail.size,
        tail.head,
        tail.offset_index,
        tail.time_index,
        tail.txn_index,
        tail.snapshot,
        [list(entry) for entry in tail.epochs],
    ]
    content = cbor.dumps(KIND, VERSION, body)
    return content + FOOTER.pack(len(content), crc_of(content), MAGIC)


def parse_tail(name: str, data: bytes) -> Tail:
    """The tail at the end of `data`, which is the end of the object `name`. Raises
    RemoteStorageError if it is damaged."""
    size = tail_size(name, data)
    content = data[-FOOTER.size - size : -FOOTER.size]
    _, crc, _ = FOOTER.unpack(data[-FOOTER.size :])
    if len(content) != size or crc_of(content) != crc:
        raise RemoteStorageError(f"{name} is damaged: its tail has another CRC")
    try:
        body = cast(list[Any], cbor.loads(KIND, content, VERSION)[1])
        *values, epochs = body
        return Tail(*values, epochs=tuple(EpochStart(*entry) for entry in epochs))
    except (CborError, TypeError, ValueError) as e:
        raise RemoteStorageError(f"{name} is damaged: {e}") from e


def tail_size(name: str, data: bytes) -> int:
    """The size of the tail without its footer, which is the end of `data`. Raises
    RemoteStorageError."""
    if len(data) < FOOTER.size or data[-len(MAGIC) :] != MAGIC:
        raise RemoteStorageError(f"{name} is no whole segment")
    return FOOTER.unpack(data[-FOOTER.size :])[0]


def pieces(file: File, size: int, tail: bytes) -> Callable[[], Iterator[Data]]:
    """The content of the object for `put`: `size` bytes of a segment's file, and the tail. The file
    is read while the object is written. Raises OSError while it is read."""

    def content() -> Iterator[Data]:
        position = 0
        while position < size:
            piece = file.pread(min(READ_BYTES, size - position), position)
            if not piece:
                raise OSError(f"{file.path} ends at {position}, not at {size}")
            position += len(piece)
            yield piece
        yield tail

    return content


def read_tail(storage: RemoteStorage, name: str, records_size: int) -> Tail:
    """The tail of an object with `records_size` bytes of records. Raises RemoteStorageError."""
    return parse_tail(name, storage.get(name, records_size))


def find_tail(storage: RemoteStorage, name: str, object_size: int) -> Tail:
    """The tail of an object of which only the name and the size are known. Raises
    RemoteStorageError."""
    start = max(object_size - TAIL_BYTES_FIRST, 0)
    data = storage.get(name, start)
    wanted = tail_size(name, data) + FOOTER.size
    if wanted > object_size:
        raise RemoteStorageError(f"{name} is no whole segment")
    if wanted > len(data):
        data = storage.get(name, object_size - wanted)
    return parse_tail(name, data)
