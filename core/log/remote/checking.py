"""Checks the objects in remote storage from themselves alone, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from pk.core.log.checked_bytes import checked_batches
from pk.core.log.remote.reading import remote_file
from pk.core.log.remote.segment_object import Tail, find_tail
from pk.core.log.remote.storage import (
    RemoteStorage,
    RemoteStorageError,
    SegmentName,
    StoredObject,
)
from pk.core.record.batch import CorruptBatch


class CheckedObject(Struct, frozen=True):
    """An object, and its problem, if any."""

    stored: StoredObject
    segment: SegmentName | None
    """None for an object that is no segment."""
    tail: Tail | None
    """None if the object is not whole."""
    problem: str
    """The problem; "" if none was found."""


def checked_objects(
    storage: RemoteStorage, topics: Iterable[str] = (), *, records: bool
) -> Iterator[CheckedObject]:
    """All objects, in the order of their names, or those of `topics`; with `records` every batch is
    read and its CRC checked. Raises RemoteStorageError if the store cannot be listed."""
    wanted = frozenset(topics)
    for stored in sorted(storage.list("")):
        try:
            segment = SegmentName.parse(stored.name)
        except ValueError:
            if not wanted:
                yield CheckedObject(stored, None, None, "not a segment")
            continue
        if not wanted or segment.partition.topic in wanted:
            yield _check(storage, stored, segment, records=records)


def _check(
    storage: RemoteStorage, stored: StoredObject, segment: SegmentName, *, records: bool
) -> CheckedObject:
    try:
        tail = find_tail(storage, stored.name, stored.size)
    except RemoteStorageError as e:
        return CheckedObject(stored, segment, None, str(e))
    problem = ""
    if tail.start_offset != segment.start_offset:
        problem = f"it begins at offset {tail.start_offset}, not where its name says"
    elif records:
        try:
            problem = _check_records(storage, stored.name, tail)
        except (CorruptBatch, RemoteStorageError) as e:
            problem = str(e)
    return CheckedObject(stored, segment, tail, problem)


def _check_records(storage: RemoteStorage, name: str, tail: Tail) -> str:
    position, next_offset = 0, tail.start_offset
    for at, header in checked_batches(remote_file(storage, name, tail), 0, tail.size):
        if header.base_offset < next_offset or header.last_offset > tail.end_offset:
            return f"offsets {header.base_offset} to {header.last_offset} do not belong here"
        position, next_offset = at + header.size, header.next_offset
    return "" if position == tail.size else f"its records end at byte {position} of {tail.size}"
