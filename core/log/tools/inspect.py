"""Reads a log without opening it: for tools that dump, check or copy it.

Nothing here writes, repairs or trusts the files. A broker may be using the same files, so the data
read may be older than the file, the last batch of a growing file may be half written, and a file
may be gone when its turn comes:

- the size of a file is determined before it is read, and later data is ignored;
- indexes are read before their log, so that the batches to which they refer have been written;
- an incomplete batch at the end is read again (`again`) before it is reported as torn.

If bytes are not a valid batch, its length, which leads to the next batch, cannot be trusted either.
`Scan` then continues at the next position where a batch begins according to an index, so that one
flipped bit does not hide the batches after it.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from pk.core.errors import KafkaError
from pk.core.log.checkpoints import CLEAN_SHUTDOWN, META_PROPERTIES, PARTITION_METADATA
from pk.core.log.files import Disk, Entry, File
from pk.core.log.index import OFFSET_ENTRY, TIME_ENTRY
from pk.core.log.log_dir import LOG_NAME
from pk.core.log.recovery import EPOCHS_FILE
from pk.core.log.segment import DELETED, INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX
from pk.core.log.txnindex import ENTRY as TXN_ENTRY
from pk.core.log.txnindex import AbortedTxn
from pk.core.record import legacy
from pk.core.record.batch import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    Record,
    check_crc,
    read_header,
    records,
)
from pk.core.values import TopicPartition

READ_BYTES: Final = 1 << 20
LOOKS_MAX: Final = 20
"""The number of times that an incomplete batch is read before it is reported as torn."""

_PEEK: Final = Struct(">qiib")
"""Base offset, length, leader epoch (in old formats, the CRC) and magic."""

Again = Callable[[], None]
"""Called before unfinished data is read again. A caller with a clock waits a little."""


class Finding(NamedTuple):
    """A problem, with the file, the byte position, and the offset in the log (-1 if there is
    none)."""

    file: str
    position: int
    offset: int
    what: str


class Kind(Enum):
    """The kind of a file in a data directory."""

    LOG = "log"
    INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    SNAPSHOT = "snapshot"
    EPOCHS = "epochs"
    OFFSETS = "checkpoint"
    PARTITION_METADATA = "partition.metadata"
    META_PROPERTIES = "meta.properties"
    CLEAN_SHUTDOWN = "clean-shutdown"
    IMAGE = "image"
    CONTROLLER = "controller"


_NAMES: Final = {
    EPOCHS_FILE: Kind.EPOCHS,
    PARTITION_METADATA: Kind.PARTITION_METADATA,
    META_PROPERTIES: Kind.META_PROPERTIES,
    CLEAN_SHUTDOWN: Kind.CLEAN_SHUTDOWN,
    "controller": Kind.CONTROLLER,
}
_SUFFIXES: Final = {
    LOG: Kind.LOG,
    INDEX: Kind.INDEX,
    TIME_INDEX: Kind.TIME_INDEX,
    TXN_INDEX: Kind.TXN_INDEX,
    SNAPSHOT: Kind.SNAPSHOT,
    ".checkpoint": Kind.LOG,  # a snapshot of Apache's metadata, which has record batches
    ".image": Kind.IMAGE,
    "-offset-checkpoint": Kind.OFFSETS,
}
_PASSING: Final = (DELETED, ".cleaned", ".swap")
"""Suffixes of files of a segment that is being replaced or that is due to be removed."""


def kind_of(name: str) -> Kind | None:
    """Return the kind of the file with this name; None if unknown."""
    for suffix in _PASSING:
        name = name.removesuffix(suffix)
    if name in _NAMES:
        return _NAMES[name]
    return next((kind for suffix, kind in _SUFFIXES.items() if name.endswith(suffix)), None)


def partition_of(directory: str) -> TopicPartition | None:
    """Return the partition that a directory is named for, even if it was renamed for removal."""
    name = directory.rstrip("/").rpartition("/")[2]
    stem, dot, why = name.rpartition(".")
    if dot and why.endswith(("-delete", "-stray", "-future")):
        name = stem
    found = LOG_NAME.fullmatch(name)
    return TopicPartition(found[1], int(found[2])) if found else None


def base_of(name: str) -> int:
    """Return the base offset in the name of a segment's file. Raises ValueError."""
    stem = name.partition(".")[0].partition("-")[0]
    if len(stem) != 20 or not stem.isdecimal():
        raise ValueError(f"{name} does not begin with the twenty digits of a base offset")
    return int(stem)


# --- batches ---


class Batch(NamedTuple):
    """A batch with its position. A message of format v0 or v1 becomes a batch whose unknown header
    fields are -1. A compressed wrapper that cannot be decompressed counts as one record."""

    position: int
    header: BatchHeader
    data: bytes

    @property
    def crc_error(self) -> str | None:
        """A description of the wrong CRC; None if the CRC is right."""
        try:
            if self.header.magic == MAGIC:
                check_crc(self.data, 0, self.header)
            else:
                legacy.check_message(self.data, 0, legacy.read_message(self.data))
        except CorruptBatch as e:
            return e.message
        return None

    def records(self) -> list[Record]:
        """Return the records of the batch. Raises KafkaError."""
        if self.header.magic == MAGIC:
            return list(records(self.data, self.header))
        return legacy.message_records(self.data)


def _old_batch(position: int, data: bytes) -> Batch:
    message = legacy.read_message(data)
    try:
        rows = legacy.message_records(data)
    except KafkaError:
        rows = []
    first = rows[0].offset if rows else message.offset
    header = BatchHeader(
        first,
        message.size,
        -1,
        message.magic,
        message.crc,
        message.attributes,
        message.offset - first,
        rows[0].timestamp if rows else message.timestamp,
        max((row.timestamp for row in rows), default=message.timestamp),
        -1,
        -1,
        -1,
        max(len(rows), 1),
    )
    return Batch(position, header, data)


class Scan:
    """The batches of one segment's file, in order. After the iteration, `problems` has the
    positions at which there is no valid batch, and `end_position` is the end of the last valid one.

    `size` is how much of the file to read (default: all of it, including data added while it is
    read). `anchors` are the positions of batches according to an index, in order. CRCs and contents
    are not checked. Raises OSError.
    """

    def __init__(
        self,
        file: File,
        *,
        position: int = 0,
        size: int | None = None,
        anchors: Sequence[int] = (),
        again: Again | None = None,
    ) -> None:
        self._file = file
        self._size = file.size() if size is None else size
        self._grows = size is None
        self._anchors = anchors
        self._again = again
        self._chunk = b""
        self._chunk_at = 0
        self.problems: list[Finding] = []
        self.end_position = position

    def __iter__(self) -> Iterator[Batch]:
        position = self.end_position
        while True:
            if position >= self._size and not self._has_grown():
                return
            batch = self._batch_at(position)
            if isinstance(batch, str):
                following = next((a for a in self._anchors if position < a < self._size), None)
                self._note(position, batch, following)
                if following is None:
                    return
                position = following
            else:
                position += batch.header.size
                self.end_position = position
                yield batch

    def _note(self, position: int, what: str, following: int | None) -> None:
        skipped = f"; continuing at {following}, where the index has a batch" if following else ""
        self.problems.append(Finding(self._file.path, position, -1, what + skipped))

    def _has_grown(self) -> bool:
        before = self._size
        if self._grows:
            self._size = max(self._file.size(), before)
        return self._size > before

    def _read(self, position: int, length: int) -> bytes:
        at = position - self._chunk_at
        if at < 0 or at + length > len(self._chunk):
            wanted = min(max(length, READ_BYTES), self._size - position)
            self._chunk, self._chunk_at, at = self._file.pread(wanted, position), position, 0
        return self._chunk[at : at + length]

    def _batch_at(self, position: int) -> Batch | str:
        """Read the batch that begins at `position`. Returns a description of the problem if there
        is none."""
        for look in range(LOOKS_MAX):
            found = self._look(position)
            if not isinstance(found, _Torn):
                return found
            if not self._has_grown():
                if not self._grows or self._again is None or look + 1 == LOOKS_MAX:
                    return found.what
                self._again()
                self._has_grown()
            self._chunk = b""
        return self._torn(position)

    def _look(self, position: int) -> "Batch | str | _Torn":
        left = self._size - position
        head = self._read(position, min(_PEEK.size, left))
        if len(head) < _PEEK.size:
            return _Torn(self._torn(position))
        _, length, _, magic = _PEEK.unpack(head)
        size = length + LENGTH_END
        least = HEADER_BYTES if magic == MAGIC else 26
        if magic not in (0, 1, MAGIC) or size < least or (not any(head)):
            return self._not_a_batch(position, head, magic, size)
        if size > left:
            return _Torn(f"cut off: a batch claims {size} bytes, {left} are there")
        data = self._read(position, size)
        if len(data) < size:
            return _Torn(f"cut off: a batch claims {size} bytes, {len(data)} are there")
        try:
            if magic == MAGIC:
                return Batch(position, read_header(data), data)
            return _old_batch(position, data)
        except CorruptBatch as e:
            return f"no batch: {e.message}"

    def _torn(self, position: int) -> str:
        return f"cut off: {self._size - position} bytes are too few for a batch header"

    def _not_a_batch(self, position: int, head: bytes, magic: int, size: int) -> str:
        if not any(head) and self._only_zeros(position):
            return f"{self._size - position} zero bytes at the end"
        if magic not in (0, 1, MAGIC):
            return f"no batch: there is no message format v{magic}"
        return f"no batch: a batch cannot have {size} bytes"

    def _only_zeros(self, position: int) -> bool:
        while position < self._size:
            data = self._file.pread(min(READ_BYTES, self._size - position), position)
            if not _zeros(data):
                return False
            if not data:
                break
            position += len(data)
        return True


def _zeros(data: bytes) -> bool:
    """Return whether all bytes are zero. This is fast, because Kafka's indexes end with ten
    megabytes of zeros."""
    return data == bytes(len(data))


class _Torn(NamedTuple):
    what: str


# --- index files of a segment ---


class OffsetEntry(NamedTuple):
    """An entry of an offset index: the last offset of a batch, and the batch's position."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """An entry of a time index: no record up to that offset has a later timestamp."""

    timestamp: int
    offset: int


def offset_entries(path: str, data: bytes, base: int) -> tuple[list[OffsetEntry], list[Finding]]:
    """Parse the entries of an offset index. Returns them and the problems within it. Zeros at the
    end of an index that Kafka has open are not entries."""
    raw, findings = _entries(path, data, OFFSET_ENTRY, lambda entry: entry[0] == 0)
    found = [OffsetEntry(base + offset, position) for offset, position in raw]
    for i in range(1, len(found)):
        one, other = found[i - 1], found[i]
        if other.offset <= one.offset or other.position <= one.position:
            what = (
                f"entry {i} ({other.offset} at {other.position}) is not after the previous entry "
                f"({one.offset} at {one.position})"
            )
            findings.append(Finding(path, i * OFFSET_ENTRY.size, other.offset, what))
    if found and (found[0].offset < base or found[0].position < 0):
        what = f"entry 0 ({found[0].offset} at {found[0].position}) lies before the segment"
        findings.append(Finding(path, 0, found[0].offset, what))
    return found, findings


def time_entries(path: str, data: bytes, base: int) -> tuple[list[TimeEntry], list[Finding]]:
    """Parse the entries of a time index. Returns them and the problems within it."""
    raw, findings = _entries(path, data, TIME_ENTRY, lambda entry: entry[1] == 0)
    found = [TimeEntry(timestamp, base + offset) for timestamp, offset in raw]
    for i in range(1, len(found)):
        one, other = found[i - 1], found[i]
        if other.timestamp <= one.timestamp or other.offset <= one.offset:
            what = (
                f"entry {i} ({other.timestamp} at {other.offset}) is not after the previous entry "
                f"({one.timestamp} at {one.offset})"
            )
            findings.append(Finding(path, i * TIME_ENTRY.size, other.offset, what))
    if found and found[0].offset < base:
        what = f"entry 0 ({found[0].timestamp} at {found[0].offset}) lies before the segment"
        findings.append(Finding(path, 0, found[0].offset, what))
    return found, findings


def _entries(
    path: str, data: bytes, entry: Struct, is_empty: Callable[[tuple[int, int]], bool]
) -> tuple[list[tuple[int, int]], list[Finding]]:
    """Parse the entries up to the first empty one, other than the very first. Only zeros may follow
    it."""
    findings: list[Finding] = []
    rest = len(data) % entry.size
    if rest:
        what = f"{len(data)} bytes are not a multiple of the entry size, {entry.size}"
        findings.append(Finding(path, len(data) - rest, -1, what))
    found: list[tuple[int, int]] = []
    for i, (one, other) in enumerate(entry.iter_unpack(data[: len(data) - rest])):
        if is_empty((one, other)) and (i or not (one or other)):
            if not _zeros(data[i * entry.size :]):
                what = f"entry {i} is empty, but something follows"
                findings.append(Finding(path, i * entry.size, -1, what))
            break
        found.append((one, other))
    return found, findings


def txn_entries(path: str, data: bytes) -> tuple[list[AbortedTxn], list[Finding]]:
    """Parse the entries of an index of aborted transactions. Returns them and the problems within
    it."""
    findings: list[Finding] = []
    rest = len(data) % TXN_ENTRY.size
    if rest:
        what = f"{len(data)} bytes are not a multiple of the entry size, {TXN_ENTRY.size}"
        findings.append(Finding(path, len(data) - rest, -1, what))
    found: list[AbortedTxn] = []
    for i, (version, *fields) in enumerate(TXN_ENTRY.iter_unpack(data[: len(data) - rest])):
        one = AbortedTxn(*fields)
        at = i * TXN_ENTRY.size
        if version:
            findings.append(Finding(path, at, one.last_offset, f"entry {i} has version {version}"))
        if not 0 <= one.first_offset <= one.last_offset:
            what = f"entry {i} goes from {one.first_offset} to {one.last_offset}"
            findings.append(Finding(path, at, one.last_offset, what))
        elif found and one.last_offset <= found[-1].last_offset:
            what = (
                f"entry {i} ends at {one.last_offset}, not after the one before "
                f"({found[-1].last_offset})"
            )
            findings.append(Finding(path, at, one.last_offset, what))
        found.append(one)
    return found, findings


# --- directories ---


class Directory(NamedTuple):
    """The contents of a path: partitions, and files that do not belong to a partition."""

    partitions: list[str]
    files: list[str]


def survey(disk: Disk, path: str) -> Directory:
    """List the partitions and the files at a path. A partition's directory is itself the partition.
    A data directory has partitions (except those that wait to be removed), small files, and pk's
    metadata. A directory of data directories, as `pk up` creates for several brokers, has all that
    they have. Raises OSError."""
    names = disk.list(path)
    if any(n.endswith(LOG) and n[:20].isdecimal() for n in names):
        return Directory([path], [])
    # A data directory may be named like a partition: those of `pk up` are broker-1 and broker-2.
    whole = any(e.is_directory or name == META_PROPERTIES for name, e in names.items())
    if partition_of(path) is not None and not whole:
        return Directory([path], [])
    found = Directory([], [])
    for name, entry in names.items():
        inner = f"{path}/{name}"
        if not entry.is_directory:
            if kind_of(name) is not None:
                found.files.append(inner)
        elif name == "pk-metadata" or _is_data_directory(disk, inner):
            below = survey(disk, inner)
            found.partitions.extend(below.partitions)
            found.files.extend(below.files)
        elif partition_of(name) is not None and not name.endswith("-delete"):
            found.partitions.append(inner)
    return found


def _is_data_directory(disk: Disk, path: str) -> bool:
    try:
        return META_PROPERTIES in disk.list(path)
    except OSError:  # removed in the meantime, or not readable (lost+found)
        return False


class SegmentFiles(NamedTuple):
    """The existing files of one segment, by suffix."""

    base_offset: int
    files: dict[str, Entry]


class Partition:
    """A partition's directory, as it was when it was listed. Raises OSError."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.tp = partition_of(directory)
        found: dict[int, dict[str, Entry]] = {}
        self.snapshots: list[int] = []
        self.names = disk.list(directory)
        for name, entry in self.names.items():
            stem, dot, rest = name.partition(".")
            if len(stem) != 20 or not stem.isdecimal():
                continue
            suffix = dot + rest
            if suffix == SNAPSHOT:
                self.snapshots.append(int(stem))
            elif suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                found.setdefault(int(stem), {})[suffix] = entry
        every = [SegmentFiles(base, files) for base, files in sorted(found.items())]
        self.segments = [s for s in every if LOG in s.files]
        self.orphans = [s for s in every if LOG not in s.files]
        """Indexes whose log is missing."""

    def path(self, name: str) -> str:
        """Return the path of a file in this directory."""
        return f"{self.directory}/{name}"

    def segment_path(self, base_offset: int, suffix: str) -> str:
        """Return the path of a segment's file."""
        return f"{self.directory}/{base_offset:020d}{suffix}"

    def read(self, path: str) -> bytes | None:
        """Read a small file. Returns None if it is gone."""
        try:
            return self.disk.read(path)
        except FileNotFoundError:
            return None

    def scan(
        self,
        base_offset: int,
        *,
        position: int = 0,
        anchors: Sequence[int] = (),
        again: Again | None = None,
    ) -> Scan:
        """Scan the batches of a segment from `position` on."""
        file = self.disk.open(self.segment_path(base_offset, LOG))
        return Scan(file, position=position, anchors=anchors, again=again)

    def index(self, base_offset: int) -> list[OffsetEntry]:
        """Read the offset index of a segment, as far as possible."""
        path = self.segment_path(base_offset, INDEX)
        return offset_entries(path, self.read(path) or b"", base_offset)[0]

    def position_of(self, segment: SegmentFiles, offset: int) -> int:
        """Return the position in its segment at which to begin the search for `offset`: the one in
        the index, if a batch begins there; otherwise 0."""
        at = 0
        for entry in self.index(segment.base_offset):
            if entry.offset > offset:
                break
            at = entry.position
        if at:
            found = next(iter(self.scan(segment.base_offset, position=at)), None)
            if found is None or not segment.base_offset <= found.header.base_offset <= offset:
                return 0
        return at

    def batches(self, offset: int = 0, again: Again | None = None) -> Iterator[Batch]:
        """Yield the batches of all segments, from the one that contains `offset` on. Raises
        CorruptBatch at invalid data before the end of a file."""
        for i, segment in enumerate(self.segments):
            last = i + 1 == len(self.segments)
            if not last and self.segments[i + 1].base_offset <= offset:
                continue
            at = self.position_of(segment, offset) if offset > segment.base_offset else 0
            scan = self.scan(segment.base_offset, position=at, again=again if last else None)
            for batch in scan:
                if batch.header.last_offset >= offset:
                    yield batch
            if scan.problems:
                problem = scan.problems[0]
                raise CorruptBatch(f"{problem.file}, position {problem.position}: {problem.what}")
