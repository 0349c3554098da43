"""The object of a remote segment: its records as they were in the `.log` file, followed by a *tail*
with everything else that readers need.

    records     the bytes of the .log file, so that positions in the indexes hold in the object
    tail        CBOR of [start offset, end offset, max timestamp, size of the records, first bytes
                of the records, offset index, time index, aborted transactions, producer snapshot at
                the end, leader epochs up to the end, the topic]; the indexes and the snapshot in
                the formats of their files, the epochs as pairs. The topic, which version 0 lacks,
                is [number of partitions, replication factor, its own configs, time of the copy]
    footer      size of the tail uint32, CRC-32C of the tail uint32, "pkremote"

A segment is one object, because a store charges for every request, and every request takes time: a
copy is one upload (Apache Kafka's interface has six files for a segment), a first read is one
request for the whole tail and one for the records, and a deletion is one request. The tail comes
after the records, because its size is known only after they were read. The metadata of the segment
shows where it begins; a reader that has only the object finds it through the footer. A new cluster
needs the topic to restore it (core/log/remote/restoring.py); here it costs no extra request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from struct import Struct as Packing
from typing import Any, Final, cast

from msgspec import Struct, structs

from pk.core import cbor
from pk.core.cbor import CborError
from pk.core.log.checked_bytes import checked_batches
from pk.core.log.epochs import EpochStart
from pk.core.log.files import Data, File
from pk.core.log.remote.storage import DamagedObject, RemoteStorage
from pk.core.record.batch import HEADER_BYTES, CorruptBatch, crc_of

KIND: Final = "pk.remote-segment"
VERSION: Final = 1
FOOTER: Final = Packing(">II8s")
MAGIC: Final = b"pkremote"
READ_BYTES: Final = 8 << 20
"""The number of bytes of the segment's file to read at a time."""
HEAD_BYTES: Final = HEADER_BYTES
TAIL_BYTES_FIRST: Final = 1 << 16
"""The number of bytes at the end of an object to read first, to find its tail."""


class TopicState(Struct, frozen=True):
    """The state of a topic when a segment was copied."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    """The configs that the topic overrides."""
    copied_ms: int


class Tail(Struct, frozen=True):
    """The data after the records. Offsets are inclusive."""

    start_offset: int
    end_offset: int
    max_timestamp: int
    size: int
    head: bytes
    """The first bytes of the records, which show their format."""
    offset_index: bytes
    time_index: bytes
    txn_index: bytes
    snapshot: bytes
    epochs: tuple[EpochStart, ...]
    topic: TopicState | None = None
    """None in an object of version 0."""

    @property
    def index_bytes(self) -> int:
        """The approximate size of the indexes in memory."""
        return len(self.offset_index) + len(self.time_index) + len(self.txn_index)


def format_tail(tail: Tail) -> bytes:
    """Encode the tail, with the footer."""
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
        None if tail.topic is None else list(structs.astuple(tail.topic)),
    ]
    content = cbor.dumps(KIND, VERSION, body)
    return content + FOOTER.pack(len(content), crc_of(content), MAGIC)


def parse_tail(name: str, data: bytes) -> Tail:
    """Decode the tail in `data`, which is the end of the object `name`. Raises DamagedObject."""
    size = tail_size(name, data)
    content = data[-FOOTER.size - size : -FOOTER.size]
    _, crc, _ = FOOTER.unpack(data[-FOOTER.size :])
    if len(content) != size or crc_of(content) != crc:
        raise DamagedObject(f"{name} is damaged: its tail has another CRC")
    try:
        version, loaded = cbor.loads(KIND, content, VERSION)
        body = cast(list[Any], loaded)
        topic = body.pop() if version else None
        *values, epochs = body
        return Tail(
            *values,
            epochs=tuple(EpochStart(*entry) for entry in epochs),
            topic=None if topic is None else TopicState(*topic),
        )
    except (CborError, TypeError, ValueError) as e:
        raise DamagedObject(f"{name} is damaged: {e}") from e


def tail_size(name: str, data: bytes) -> int:
    """Read the size of the tail, without its footer, from `data`, which is the end of the object.
    Raises DamagedObject."""
    if len(data) < FOOTER.size or data[-len(MAGIC) :] != MAGIC:
        raise DamagedObject(f"{name} is not a complete segment")
    return FOOTER.unpack(data[-FOOTER.size :])[0]


def pieces(file: File, tail: Tail) -> Callable[[], Iterator[Data]]:
    """Return a function that yields the content of the object, for `put`: the records in a
    segment's file, and the tail. It checks every batch, because once a segment is copied, all
    replicas delete theirs. It raises OSError and CorruptBatch."""

    def content() -> Iterator[Data]:
        position, next_offset, wanted = 0, tail.start_offset, READ_BYTES
        while position < tail.size:
            piece = file.pread(min(wanted, tail.size - position), position)
            whole = 0
            end = position + len(piece)
            for at, header in checked_batches(file, position, end, piece):
                if header.base_offset < next_offset or header.last_offset > tail.end_offset:
                    raise CorruptBatch(
                        f"{file.path} at position {at}: offsets {header.base_offset} to"
                        f" {header.last_offset} do not belong there"
                    )
                whole, next_offset = at + header.size - position, header.next_offset
            if whole:
                yield memoryview(piece)[:whole]
                position, wanted = position + whole, READ_BYTES
            elif len(piece) < wanted:
                raise CorruptBatch(f"{file.path} ends within the batch at position {position}")
            else:  # the batch is larger
                wanted *= 2
        yield format_tail(tail)

    return content


def read_tail(storage: RemoteStorage, name: str, records_size: int) -> Tail:
    """Read the tail of an object that has `records_size` bytes of records. Raises
    RemoteStorageError, also DamagedObject."""
    return parse_tail(name, bytes(storage.get(name, records_size)))


def find_tail(storage: RemoteStorage, name: str, object_size: int) -> Tail:
    """Read the tail of an object of which only the name and the size are known. Raises
    RemoteStorageError, also DamagedObject."""
    start = max(object_size - TAIL_BYTES_FIRST, 0)
    data = bytes(storage.get(name, start))
    wanted = tail_size(name, data) + FOOTER.size
    if wanted > object_size:
        raise DamagedObject(f"{name} is not a complete segment")
    if wanted > len(data):
        data = bytes(storage.get(name, object_size - wanted))
    return parse_tail(name, data)
