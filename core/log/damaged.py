"""Marks logs that lost more than the torn tail that a crash may leave, and keeps the truncated
data.

A crash loses data that was not synced, so the last batches may be missing or torn: that is not
damage. A log is damaged if whole batches follow an incomplete one, if a file is missing, if the log
ends below an offset once committed on this disk, or if the log is missing although the broker had
one. Such a replica must not be preferred to an intact one (core/meta/unclean_recovery.py), not even
after the next restart, when the log is valid again because it was truncated. So the log is marked
before anything is truncated, and the mark stays until the replica is in sync again.

The truncated data is kept as long as the mark: the end of a segment is copied, whole segments are
renamed. These files are in the partition's directory, with names that end in `.damaged`; no tool of
pk or Kafka reads them. Committed records that a follower truncates because its leader lacks them
(core/meta/stopped_followers.py) are kept in the same way, but pk never removes them:
`<offset>.log.cut.damaged` has the batches in the format of a segment.

.pk_damaged    CBOR of [damage, log end after truncation, log end before it if known, checkpointed
               high watermark, leader epoch of the last remaining batch]
"""

import contextlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from pk.core import cbor
from pk.core.cbor import CborError
from pk.core.log.checked_bytes import READ_BYTES, has_its_crc, header_of
from pk.core.log.files import Disk, File
from pk.core.log.segment import LOG, Segment, file_name
from pk.core.record.batch import HEADER_BYTES, MAGIC, MAGIC_AT
from pk.core.values import NO_EPOCH, NO_OFFSET

MARK: Final = ".pk_damaged"
KIND: Final = "pk.damaged"
VERSION: Final = 0
KEPT: Final = ".damaged"
"""The suffix of files with truncated data."""
CUT: Final = f".cut{KEPT}"
"""The suffix of files with committed records that no other replica has."""
_OFFSETS_MAX: Final = 1 << 32
"""A larger jump of offsets means that the batch does not belong to the same log."""


class Damage(IntEnum):
    """The damage of a log. The numbers never change, because reports contain them."""

    NONE = 0
    CORRUPT = 1
    """A batch is incomplete, and whole batches follow it."""
    MISSING_FILE = 2
    SHORT = 3
    """The log ends below its own high watermark, or below its end when it was closed."""
    MISSING = 4
    """The log was created again although the broker had one."""
    FOREIGN = 5
    """The directory had the log of another topic."""
    UNREADABLE = 6
    CUT = 7
    """The log was truncated below committed records that its leader's log does not have, as the
    controller ordered (core/meta/stopped_followers.py)."""

    @property
    def description(self) -> str:
        """A description for people."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    Damage.NONE: "sound",
    Damage.CORRUPT: "a batch before its end is damaged",
    Damage.MISSING_FILE: "a file is missing",
    Damage.SHORT: "it ends below a committed offset",
    Damage.MISSING: "its files are gone",
    Damage.FOREIGN: "its directory belongs to another topic",
    Damage.UNREADABLE: "it cannot be opened",
    Damage.CUT: "it had committed records that its leader does not have",
}


class Mark(NamedTuple):
    """A note that a log was found damaged."""

    damage: Damage
    end_offset: int
    """The log end after truncation."""
    lost_offset: int
    """The log end before truncation, if known."""
    high_watermark: int = NO_OFFSET
    """The last checkpointed high watermark."""
    last_epoch: int = NO_EPOCH
    """The leader epoch of the last remaining batch."""


def read_mark(disk: Disk, directory: str) -> Mark | None:
    """Read the mark of a log. Returns None if it has none. An unreadable mark counts as damage.
    Raises OSError."""
    try:
        content = disk.read(f"{directory}/{MARK}")
    except FileNotFoundError:
        return None
    try:
        body: Any = cbor.loads(KIND, content, VERSION)[1]
        damage, end, lost, high_watermark, epoch = body
        return Mark(Damage(damage), end, lost, high_watermark, epoch)
    except (CborError, TypeError, ValueError):
        return Mark(Damage.CORRUPT, 0, 0)


def write_mark(disk: Disk, directory: str, mark: Mark) -> None:
    """Mark a log, durably. Raises OSError."""
    disk.write(f"{directory}/{MARK}", cbor.dumps(KIND, VERSION, [int(mark.damage), *mark[1:]]))
    disk.sync_dir(directory)


def kept_files(disk: Disk, directory: str) -> dict[str, int]:
    """Return the files with truncated data, and their sizes. Raises OSError."""
    found = disk.list(directory).items()
    return {f"{directory}/{name}": e.size for name, e in found if name.endswith(KEPT)}


def unmark(disk: Disk, directory: str, *, keep: bool) -> None:
    """Remove the mark after the replica is in sync again. Unless `keep` is set, the kept data is
    removed first, except committed records that the leader lacked. Raises OSError."""
    kept = [] if keep else [p for p in kept_files(disk, directory) if not p.endswith(CUT)]
    for path in [*kept, f"{directory}/{MARK}"]:
        with contextlib.suppress(FileNotFoundError):
            disk.remove(path)


def copy_damage(disk: Disk, directory: str, old_disk: Disk, old_directory: str) -> None:
    """Copy the mark and the truncated data of the log in `old_directory` to `directory`, which has
    a copy of that log. Raises OSError."""
    wanted = {path.rpartition("/")[2]: path for path in kept_files(old_disk, old_directory)}
    for path in kept_files(disk, directory):
        if path.rpartition("/")[2] not in wanted:
            disk.remove(path)
    for name, path in wanted.items():
        _copy_file(disk, f"{directory}/{name}", old_disk, path)
    mark = read_mark(old_disk, old_directory)
    if mark is not None:
        write_mark(disk, directory, mark)
    else:
        unmark(disk, directory, keep=True)


def _copy_file(disk: Disk, path: str, old_disk: Disk, old_path: str) -> None:
    old, new, at = old_disk.open(old_path), disk.open(path), 0
    try:
        while piece := old.pread(READ_BYTES, at):
            new.pwrite(piece, at)
            at += len(piece)
        new.truncate(at)
        new.sync()
    finally:
        old.close()
        new.close()


class Keeper:
    """Marks a damaged log and keeps the data that recovery truncates."""

    def __init__(self, disk: Disk, directory: str, high_watermark: int) -> None:
        self.disk = disk
        self._directory = directory
        self._high_watermark = high_watermark
        self.mark: Mark | None = None
        """The damage found, if any."""
        self.kept_bytes = 0

    def mark_damaged(
        self, damage: Damage, end_offset: int, lost_offset: int, last_epoch: int = NO_EPOCH
    ) -> None:
        """Mark the log as damaged, before anything is truncated. `end_offset` is its new end.
        Raises OSError."""
        before = read_mark(self.disk, self._directory)
        if before is not None:
            if damage is Damage.SHORT:
                damage = before.damage  # the cause of the truncation
            lost_offset = max(lost_offset, before.lost_offset)
            self._high_watermark = max(self._high_watermark, before.high_watermark)
        lost_offset = max(lost_offset, self._high_watermark)
        self.mark = Mark(damage, end_offset, lost_offset, self._high_watermark, last_epoch)
        write_mark(self.disk, self._directory, self.mark)

    def prepare_truncation(
        self, segment: Segment, position: int, offset: int, following: list[Segment]
    ) -> None:
        """Prepare to truncate a segment at `position`, before the batch at `offset`, and to drop
        the `following` segments: if whole batches come after it, mark the log as damaged and copy
        the end of the segment. Raises OSError."""
        rest = [one for one in following if one.size]
        if rest or has_batch_after(segment.file, position, segment.size, offset):
            lost = rest[-1].base_offset if rest else offset
            self.mark_damaged(Damage.CORRUPT, offset, lost)
            self._copy(segment, position)

    def drop(self, segment: Segment) -> list[str]:
        """Rename the files of a segment that is dropped. Returns the paths of the files to delete.
        Raises OSError."""
        if self.mark is not None and segment.size:
            self.kept_bytes += segment.size
            return segment.rename(self._directory, KEPT)[1:]
        return segment.rename(self._directory, ".deleted")

    def _copy(self, segment: Segment, position: int) -> None:
        """Copy the end of a segment from `position` on, as far as the disk has room."""
        copy = self.disk.open(f"{self._directory}/{file_name(segment.base_offset, LOG)}{KEPT}")
        try:
            with contextlib.suppress(OSError):  # no room: opening the log is more important
                self.kept_bytes += _append(copy, 0, segment, position)
                copy.sync()
        finally:
            copy.close()

    def keep(self, segments: Sequence[Segment], offset: int) -> None:
        """Copy the batches from the one that contains `offset` on to a separate file. The file
        stays until an operator removes it, since no other replica has these batches. Raises
        OSError."""
        places = [(s, place) for s in segments if s.size and (place := s.locate(offset))]
        copy = self.disk.open(f"{self._directory}/{file_name(offset, LOG)}{CUT}")
        try:
            at = 0
            for segment, place in places:
                at = _append(copy, at, segment, place.position)
            if at:
                copy.truncate(at)  # the file may be from an earlier truncation at this offset
                copy.sync()
        finally:
            copy.close()
        self.kept_bytes += at


def _append(copy: File, at: int, segment: Segment, position: int) -> int:
    """Copy a segment from `position` on into `copy`, at `at`. Returns the end of the copied data.
    Raises OSError."""
    while piece := segment.file.pread(min(READ_BYTES, segment.size - position), position):
        copy.pwrite(piece, at)
        position, at = position + len(piece), at + len(piece)
    return at


def has_batch_after(file: File, position: int, size: int, offset: int) -> bool:
    """Return whether a whole batch with a later offset begins anywhere after `position`. Raises
    OSError."""
    magic, at = bytes((MAGIC,)), position
    while size - at >= HEADER_BYTES:
        chunk = file.pread(min(READ_BYTES, size - at), at)
        found = chunk.find(magic, MAGIC_AT)
        while found >= 0 and len(chunk) - (begin := found - MAGIC_AT) >= HEADER_BYTES:
            header = header_of(chunk, begin)
            if (
                offset < header.base_offset < offset + _OFFSETS_MAX
                and HEADER_BYTES <= header.size <= size - at - begin
                and header.last_offset_delta >= 0
                and has_its_crc(file, at + begin, header, chunk, begin)
            ):
                return True
            found = chunk.find(magic, found + 1)
        at += max(len(chunk) - HEADER_BYTES + 1, 1)
    return False
