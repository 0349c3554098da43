"""Writes sealed batches to files in the file system of the checkpoint.

Partitions are divided into lanes, always in the same way, and a file contains batches of one lane
only. So the files of a lane, in order, contain all records for its partitions, and lanes can be
published in parallel. File names are unique, also between attempts and runs.
"""

import json
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pk.spark.files.store import Store
from pk.spark.sink.messages import SealedMessage, Section, StagingFailed
from pk.spark.sink.seal import Sealed

LANES: Final = 8
FILE_BYTES: Final = 32 << 20
"""The size in bytes at which a file ends. A file is published in one transaction, so this limits
how long the transaction is open."""


def lane_of(topic: str, partition: int) -> int:
    """The lane of a partition; neighboring partitions have different lanes."""
    return (zlib.crc32(topic.encode()) + partition) % LANES


class SealedFile(NamedTuple):
    """A file of sealed batches."""

    name: str
    """The path relative to the store."""

    lane: int
    size: int
    sections: list[Section]

    @property
    def records(self) -> int:
        return sum(section.records for section in self.sections)


class Part(NamedTuple):
    """A part of a task's sealed batches: a file, or bytes that the task returns."""

    task: int
    number: int
    """The position among the task's parts."""

    sections: list[Section]
    file: SealedFile | None
    data: bytes

    @property
    def size(self) -> int:
        return sum(section.size for section in self.sections)

    @property
    def records(self) -> int:
        return sum(section.records for section in self.sections)


@dataclass
class _FileMessage(SealedMessage):
    """A message whose sections are read from a file one at a time."""

    store: Store

    def _staged(self, section: Section) -> bytes:
        assert self.staged is not None
        url = self.store.url_of(self.staged)
        try:
            raw = self.store.read_part(self.staged, section.position, section.size)
        except OSError as e:
            raise StagingFailed(_unreadable(url, e)) from e
        if len(raw) != section.size:
            raise StagingFailed(f"{url} is shorter than when the task had written it")
        return raw


def message_of(store: Store, part: Part) -> SealedMessage:
    """The message for publishing a part."""
    if part.file is None:
        return SealedMessage(part.sections, part.data, None, "", None)
    return _FileMessage(part.sections, None, part.file.name, "", None, store)


def loaded(store: Store, file: SealedFile) -> SealedMessage:
    """The message for publishing a file, which is read at once. Raises StagingFailed."""
    url = store.url_of(file.name)
    try:
        data = store.read(file.name)
    except OSError as e:
        raise StagingFailed(_unreadable(url, e)) from e
    if len(data) != file.size:
        raise StagingFailed(f"{url} has {len(data)} bytes; the task had written {file.size}")
    return SealedMessage(file.sections, data, None, "", None)


def _unreadable(url: str, error: OSError) -> str:
    return (
        f"the sealed records in {url} cannot be read ({error}); the driver and the executors must "
        "share the checkpoint"
    )


class FileWriter:
    """A writer of sealed batches to files, with one open file for each lane."""

    def __init__(self, store: Store, folder: str, task: int) -> None:
        self._store = store
        self._prefix = folder
        self._task = task
        self._attempt = uuid.uuid4().hex
        self._open: dict[int, tuple[Any, SealedFile]] = {}
        self._count = 0
        self.files: list[SealedFile] = []
        """The complete files; the files of a lane are in order."""

    def add(self, sealed: Sealed) -> None:
        """Write batches to the file of their lane. Raises OSError."""
        lane = lane_of(sealed.topic, sealed.partition)
        if lane not in self._open:
            name = f"{self._prefix}/{lane}-{self._task:05d}-{self._count:05d}-{self._attempt}"
            self._count += 1
            self._open[lane] = self._store.create(name), SealedFile(name, lane, 0, [])
        stream, file = self._open[lane]
        stream.write(sealed.data)
        size = len(sealed.data)
        file.sections.append(
            Section(sealed.topic, sealed.partition, sealed.records, file.size, size)
        )
        file = file._replace(size=file.size + size)
        self._open[lane] = stream, file
        if file.size >= FILE_BYTES:
            self.close(lane)

    def close(self, lane: int) -> None:
        """Complete the open file of a lane, if there is one. Raises OSError."""
        found = self._open.pop(lane, None)
        if found is not None:
            stream, file = found
            stream.close()
            self._store.sync([file.name])
            self.files.append(file)

    def end(self) -> list[SealedFile]:
        """Complete all files. Raises OSError."""
        for lane in sorted(self._open):
            self.close(lane)
        return self.files


def keep(
    sealed: Iterable[Sealed], *, store: Store, folder: str, task: int, limit: int
) -> Iterator[Part]:
    """Yield a task's parts: a single part without a file, or files if there are more than `limit`
    bytes. Raises StagingFailed."""
    held: list[Sealed] = []
    size = 0
    writer: FileWriter | None = None
    try:
        for each in sealed:
            if writer is not None:
                writer.add(each)
                continue
            held.append(each)
            size += len(each.data)
            if size > limit:
                writer = FileWriter(store, folder, task)
                for one in held:
                    writer.add(one)
                held.clear()
        if writer is not None:
            for number, file in enumerate(writer.end()):
                yield Part(task, number, file.sections, file, b"")
    except OSError as e:
        url = store.url_of(folder)
        raise StagingFailed(f"the sealed records cannot be kept in {url}: {e}") from e
    if held:
        yield _inline(task, held)


def _inline(task: int, held: Sequence[Sealed]) -> Part:
    sections: list[Section] = []
    position = 0
    for topic, partition, records, data in held:
        sections.append(Section(topic, partition, records, position, len(data)))
        position += len(data)
    return Part(task, 0, sections, None, b"".join(each.data for each in held))


def all_in_files(store: Store, folder: str, parts: Sequence[Part]) -> list[SealedFile]:
    """Write the parts without a file to files, and return the files of all parts. The files of a
    lane are in the order in which they are published. Raises OSError."""
    files: list[SealedFile] = []
    writer = FileWriter(store, folder, 0)
    for part in parts:
        if part.file is not None:
            writer.close(part.file.lane)
            files += writer.files
            writer.files.clear()
            files.append(part.file)
            continue
        view = memoryview(part.data)
        for topic, partition, records, position, size in part.sections:
            data = bytearray(view[position : position + size])
            writer.add(Sealed(topic, partition, records, data))
    return [*files, *writer.end()]


@dataclass(frozen=True)
class SealedList:
    """The list of a batch's files. Once it is stored, it defines the batch, even if the batch is
    computed again."""

    query_id: str
    batch_id: int
    topic_id: str
    """The id of the marker topic."""

    partition: int
    position: int
    """The first offset in that partition that may have the marker of a file."""

    files: tuple[SealedFile, ...]

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)

    @property
    def lanes(self) -> Mapping[int, Sequence[SealedFile]]:
        """The files of each lane, in order."""
        found: dict[int, list[SealedFile]] = {}
        for file in self.files:
            found.setdefault(file.lane, []).append(file)
        return found

    def encode(self) -> bytes:
        return json.dumps(
            {
                "version": 1,
                "query": self.query_id,
                "batch": self.batch_id,
                "marker_topic_id": self.topic_id,
                "marker_partition": self.partition,
                "marker_position": self.position,
                "files": [
                    [name, lane, size, [list(section) for section in sections]]
                    for name, lane, size, sections in self.files
                ],
            }
        ).encode()

    @classmethod
    def decode(cls, data: bytes) -> "SealedList":
        """Parse a list. Raises ValueError."""
        known: Any = json.loads(data)
        if known["version"] != 1:
            raise ValueError(f"version {known['version']} was written by a newer pk")
        files = tuple(
            SealedFile(name, lane, size, [Section(*each) for each in sections])
            for name, lane, size, sections in known["files"]
        )
        return cls(
            query_id=known["query"],
            batch_id=known["batch"],
            topic_id=known["marker_topic_id"],
            partition=known["marker_partition"],
            position=known["marker_position"],
            files=files,
        )
