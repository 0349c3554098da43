"""Checks the objects in remote storage without a broker and without other data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from pk.core.log.checked_bytes import checked_batches
from pk.core.log.remote.reading import remote_file
from pk.core.log.remote.segment_object import Tail, find_tail
from pk.core.log.remote.storage import (
    DamagedObject,
    RemoteObjectMissing,
    RemoteStorage,
    SegmentName,
    StoredObject,
)
from pk.core.record.batch import CorruptBatch


class CheckedObject(Struct, frozen=True):
    """An object that was checked."""

    stored: StoredObject
    segment: SegmentName | None
    """The parts of its name; None if the object is not a segment."""
    tail: Tail | None
    """The segment's tail; None if the object is not whole."""
    problem: str
    """A description of the problem; "" if none was found."""


def checked_objects(
    storage: RemoteStorage,
    topics: Iterable[str] = (),
    *,
    records: bool,
    prefix: str = "",
    at_once: int = 1,
) -> Iterator[CheckedObject]:
    """Check the objects in the folder `prefix`, or only those of `topics`, and yield them in the
    order of their names. With `records`, every batch is read and its CRC is checked. `at_once`
    objects are read at the same time. Raises RemoteStorageError if the store fails."""
    wanted = frozenset(topics)

    def check(stored: StoredObject) -> CheckedObject | None:
        try:
            segment = SegmentName.parse(stored.name)
        except ValueError:
            return None if wanted else CheckedObject(stored, None, None, "not a segment")
        if wanted and segment.partition.topic not in wanted:
            return None
        return _check(storage, stored, segment, records=records)

    found = sorted(storage.list(prefix))
    if at_once == 1:
        yield from filter(None, map(check, found))
        return
    with ThreadPoolExecutor(at_once, "check-objects") as pool:
        # A few at a time: tails are large, and the caller may keep only a part of each.
        for start in range(0, len(found), 4 * at_once):
            yield from filter(None, pool.map(check, found[start : start + 4 * at_once]))


def _check(
    storage: RemoteStorage, stored: StoredObject, segment: SegmentName, *, records: bool
) -> CheckedObject:
    try:
        tail = find_tail(storage, stored.name, stored.size)
    except (DamagedObject, RemoteObjectMissing) as e:
        return CheckedObject(stored, segment, None, str(e))
    problem = ""
    if tail.start_offset != segment.start_offset:
        problem = f"it begins at offset {tail.start_offset}, not where its name says"
    elif records:
        try:
            problem = _check_records(storage, stored.name, tail)
        except (CorruptBatch, DamagedObject, RemoteObjectMissing) as e:
            problem = str(e)
    return CheckedObject(stored, segment, tail, problem)


def _check_records(storage: RemoteStorage, name: str, tail: Tail) -> str:
    position, next_offset = 0, tail.start_offset
    for at, header in checked_batches(remote_file(storage, name, tail), 0, tail.size):
        if header.base_offset < next_offset or header.last_offset > tail.end_offset:
            return f"offsets {header.base_offset} to {header.last_offset} do not belong here"
        position, next_offset = at + header.size, header.next_offset
    return "" if position == tail.size else f"its records end at byte {position} of {tail.size}"
