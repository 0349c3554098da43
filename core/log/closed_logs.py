"""Notes that a clean shutdown writes about the logs it closed: `.pk_closed`, CBOR, next to the
checkpoints.

Without the note, a clean start spends most of its time listing each log's directory and reading its
two small text files, which takes seconds with 50,000 logs. The note has a document with these
contents for each log. The start then only asks the file system whether the log is unchanged: the
time at which names in the directory last changed, and the size and time of each `.log`. If an
operator or another program changed a log, its directory is listed and its files are read. Indexes
are checked at first use, as always.

The note is optional: it is written after the marker of the clean shutdown, and a start without it
only takes longer. It leaves out logs with an index of aborted transactions, because that index is
checked for completeness (txnindex_sizes.py), logs without a file of leader epochs, which are then
read from the batches, and logs marked as damaged (damaged.py).

body        [CRC-32C of the documents, the documents: CBOR of {"<topic>-<partition>": document}]
document    CBOR of [topic id, time of the directory, end offset, segments, snapshots,
            leader epochs, names of files that the next start removes]
segment     [base offset, time of its log, modified (ms), sizes of its .log, .index and .timeindex,
            each -1 if it does not exist]
snapshot    [offset, bytes]
epoch       [leader epoch, start offset]

Times are `Stamp.time`, whose meaning depends on the disk.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from pk.core import cbor
from pk.core.cbor import CborError
from pk.core.log import recovery
from pk.core.log.epochs import EpochStart, LeaderEpochs
from pk.core.log.files import Disk, Stamp
from pk.core.log.segment import INDEX, LOG, TIME_INDEX, file_name
from pk.core.record.batch import crc_of
from pk.core.values import Uuid

NOTE: Final = ".pk_closed"
KIND: Final = "pk.closed"
VERSION: Final = 0

_SUFFIXES: Final = (LOG, INDEX, TIME_INDEX)
_MISSING: Final = -1


class ClosedLog(NamedTuple):
    """The state of a log when it was closed."""

    document: bytes
    topic_id: Uuid
    stamp: Stamp
    """The stamp of the log's directory."""
    log_stamps: list[tuple[int, Stamp]]
    """The base offset and the stamp of each segment's `.log`."""
    contents: recovery.Contents


def document_of(
    disk: Disk, directory: str, topic_id: Uuid, end_offset: int, opened_by: bytes | None
) -> bytes | None:
    """Make the document of a log that was just closed and ends at `end_offset`. Returns None for a
    log that the note leaves out (see the top of this file). `opened_by` is the document with which
    the log was opened, if any. Raises OSError, ValueError."""
    if opened_by is not None:
        closed = closed_log(disk, directory, topic_id, opened_by)
        if closed is not None and closed.contents.end_offset == end_offset:
            return opened_by
    stamp = disk.stamp(directory)
    found = recovery.find(disk, directory)
    if found.swaps or found.is_marked or not found.segments:
        return None
    if not found.has_epochs and any(sizes[LOG] for sizes in found.segments.values()):
        return None
    if any(not sizes.keys() <= set(_SUFFIXES) for sizes in found.segments.values()):
        return None
    epochs = recovery.epochs_on_disk(disk, directory) if found.has_epochs else LeaderEpochs()
    segments = [
        [
            base,
            disk.stamp(f"{directory}/{file_name(base, LOG)}").time,
            found.modified_ms[base],
            *(sizes.get(suffix, _MISSING) for suffix in _SUFFIXES),
        ]
        for base, sizes in found.segments.items()
    ]
    snapshots = [[offset, found.snapshot_bytes[offset]] for offset in found.snapshots]
    return cbor.dumps_plain(
        [
            topic_id,
            stamp.time,
            end_offset,
            segments,
            snapshots,
            epochs.entries,
            found.leftovers,
        ]
    )


def closed_before(
    disk: Disk, directory: str, topic_id: Uuid, document: bytes
) -> recovery.Contents | None:
    """Return the contents in `document` if the log's records have changed since; None if they have
    not, or if the document belongs to another topic. Raises OSError, CborError."""
    closed = _parse(document)
    if closed.topic_id != topic_id or _has_records(disk, directory, closed):
        return None
    return closed.contents


def closed_log(disk: Disk, directory: str, topic_id: Uuid, document: bytes) -> ClosedLog | None:
    """Return the state in `document` if the log in `directory` has not changed since; None if it
    has, or if the document belongs to another topic. Raises OSError, CborError."""
    closed = _parse(document)
    if closed.topic_id != topic_id or not _is_unchanged(disk, directory, closed):
        return None
    return closed


def _is_unchanged(disk: Disk, directory: str, closed: ClosedLog) -> bool:
    try:
        return disk.stamp(directory) == closed.stamp and _has_records(disk, directory, closed)
    except FileNotFoundError:
        return False


def _has_records(disk: Disk, directory: str, closed: ClosedLog) -> bool:
    try:
        for base, stamp in closed.log_stamps:
            if disk.stamp(f"{directory}/{file_name(base, LOG)}") != stamp:
                return False
    except FileNotFoundError:
        return False
    return True


def _parse(document: bytes) -> ClosedLog:
    """Raises CborError."""
    body: Any = cbor.loads_plain(document)
    try:
        topic_id, time, end_offset, segments, snapshots, epochs, leftovers = body
        found, log_stamps = recovery.LogFiles(has_epochs=bool(epochs)), list[tuple[int, Stamp]]()
        for base, log_time, modified_ms, log_size, index_size, time_index_size in segments:
            sizes = found.segments[base] = {LOG: log_size}
            if index_size != _MISSING:
                sizes[INDEX] = index_size
            if time_index_size != _MISSING:
                sizes[TIME_INDEX] = time_index_size
            found.modified_ms[base] = modified_ms
            log_stamps.append((base, Stamp(log_size, log_time)))
        for offset, size in snapshots:
            found.snapshots.append(offset)
            found.snapshot_bytes[offset] = size
        found.leftovers += leftovers
        entries = [EpochStart(epoch, start_offset) for epoch, start_offset in epochs]
    except (TypeError, ValueError) as e:
        raise CborError(str(e)) from None
    contents = recovery.Contents(found, end_offset, LeaderEpochs(entries))
    return ClosedLog(document, topic_id, Stamp(0, time), log_stamps, contents)


def format_note(documents: Mapping[str, bytes]) -> bytes:
    """Encode the note from the documents, by the names of the logs' directories."""
    content = cbor.dumps_plain(documents)
    return cbor.dumps(KIND, VERSION, [crc_of(content), content])


def parse_note(content: bytes) -> dict[str, bytes]:
    """Decode the documents in the note, by the names of the logs' directories. Raises CborError."""
    _, body = cbor.loads(KIND, content, VERSION)
    try:
        crc, documents = cast(list[Any], body)
        if crc != crc_of(documents):
            raise CborError(f"{KIND}: damaged")
        return dict(cbor.loads_plain(documents))
    except (TypeError, ValueError) as e:
        raise CborError(f"{KIND}: {e}") from None
