"""A task's message to the driver: its sealed batches, in the message itself or in a file.

Spark collects the messages of all tasks on the driver, and fails a job whose results together
exceed `spark.driver.maxResultSize`; no task knows how many other tasks there are. So the first
tasks have high limits and later tasks have lower and lower ones, so that all messages together stay
below half of that size, regardless of the number of tasks. The rest is staged.
"""

import re
import socket
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyarrow import fs
from pyspark.sql.datasource import WriterCommitMessage

from pk.core.record.batch import check_crc, iter_headers
from pk.spark.errors import SparkError
from pk.spark.sink.seal import Sealed

INLINE_BYTES: Final = 32 << 20
"""The largest size of a message in bytes; more is staged."""

_RESULTS_BYTES: Final = 1 << 30
"""Spark's default of spark.driver.maxResultSize."""

_SIZE: Final = re.compile(r"\s*(\d+)\s*([kmgtp]?)b?\s*", re.IGNORECASE)
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


class StagingFailed(SparkError):
    """A staged file cannot be written, read or removed."""


class Section(NamedTuple):
    """The record batches of one partition among the batches of a task."""

    topic: str
    partition: int
    records: int
    position: int
    size: int


@dataclass
class SealedMessage(WriterCommitMessage):
    """A task's commit message: its batches, or the name of the file that contains them."""

    sections: list[Section]
    data: bytes | None
    staged: str | None
    host: str
    query_id: str | None
    """The id of the streaming query; None for a batch job."""

    @classmethod
    def of(cls, sealed: Sealed | None, query_id: str | None = None) -> "SealedMessage":
        """A message with one section, or with none."""
        sections: list[Section] = []
        if sealed is not None:
            size = len(sealed.data)
            sections.append(Section(sealed.topic, sealed.partition, sealed.records, 0, size))
        data = b"" if sealed is None else bytes(sealed.data)
        return cls(sections, data, None, socket.gethostname(), query_id)

    @property
    def records(self) -> int:
        return sum(section.records for section in self.sections)

    def batches(self, section: Section) -> Iterator[bytearray]:
        """Yield copies of the record batches of a section. Raises StagingFailed, CorruptBatch."""
        if self.data is not None:
            raw = self.data[section.position : section.position + section.size]
        else:
            raw = self._staged(section)
        view = memoryview(raw)
        for position, header in iter_headers(view):
            check_crc(view, position, header)
            yield bytearray(view[position : position + header.size])

    def _staged(self, section: Section) -> bytes:
        assert self.staged is not None
        try:
            system, path = _file_system(self.staged)
            with system.open_input_file(path) as file:
                raw = file.read_at(section.size, section.position)
        except OSError as e:
            raise StagingFailed(
                f"a task on {self.host} staged its records in {self.staged}, which the driver "
                f"cannot read ({e}); stagingLocation must name a place that driver and executors "
                "share"
            ) from e
        if len(raw) != section.size:
            raise StagingFailed(f"{self.staged} is shorter than when the task had written it")
        return raw


def inline_limit(task: int, results_bytes: str | None, all_bytes: int | None = None) -> int:
    """The number of bytes that task number `task` may put in its message. `results_bytes` is
    spark.driver.maxResultSize, `all_bytes` the limit for all messages together."""
    match = _SIZE.fullmatch(results_bytes or "")
    total = int(match[1]) << _SHIFTS[match[2].lower()] if match else 0
    most = min(INLINE_BYTES, (total or _RESULTS_BYTES) // 32)
    if all_bytes is not None:
        most = min(most, all_bytes // 16)
    # Eight tasks have the full limit, and later limits fall with the square of the number: together
    # less than sixteen times the full limit.
    return most if task < 8 else most * 64 // (task * task)


def collect(
    sealed: Iterable[Sealed],
    *,
    limit: int,
    place: str | None,
    name: str,
    query_id: str | None,
) -> SealedMessage:
    """Collect the batches of a task in a message. If they have more than `limit` bytes, they are
    written to a file `name` in `place`. Raises StagingFailed."""
    sections: list[Section] = []
    parts: list[bytearray] = []
    position = 0
    file: Any = None
    staged: str | None = None
    try:
        for topic, partition, records, data in sealed:
            sections.append(Section(topic, partition, records, position, len(data)))
            position += len(data)
            parts.append(data)
            if file is None and position > limit:
                place = place or f"{tempfile.gettempdir()}/pk-staging"
                staged = f"{place}/{name}"
                file = _create(staged)
            if file is not None:
                for part in parts:
                    file.write(part)
                parts.clear()
        if file is not None:
            file.close()
    except OSError as e:
        raise StagingFailed(f"the records cannot be staged in {staged}: {e}") from e
    data = None if staged is not None else b"".join(parts)
    return SealedMessage(sections, data, staged, socket.gethostname(), query_id)


def _create(staged: str) -> Any:
    system, path = _file_system(staged)
    system.create_dir(path.rpartition("/")[0], recursive=True)
    return system.open_output_stream(path)


def remove_staged(
    messages: Iterable[SealedMessage | None], folder: str | None, batch_id: int | None = None
) -> None:
    """Remove the staged files of a write's tasks, and those that failed attempts left in `folder`.

    `batch_id` limits this to that batch and earlier ones. Raises StagingFailed.
    """
    folders = {m.staged.rsplit("/", 2)[0] for m in messages if m is not None and m.staged}
    if folder is not None:
        folders.add(folder)
    for each in folders:
        system, path = _file_system(each)
        try:
            if system.get_file_info(path).type == fs.FileType.NotFound:
                continue
            if batch_id is None:
                system.delete_dir(path)
                continue
            for found in system.get_file_info(fs.FileSelector(path)):
                if found.base_name.isdecimal() and int(found.base_name) <= batch_id:
                    system.delete_dir(found.path)
        except OSError as e:
            raise StagingFailed(f"the staged records in {each} cannot be removed: {e}") from e


def _file_system(place: str) -> tuple[Any, str]:
    """The file system for a path or URL, and the path in it. Raises StagingFailed."""
    if "://" not in place and not place.startswith("file:"):
        return fs.LocalFileSystem(), place
    uri = re.sub(r"^s3[an]:", "s3:", re.sub(r"^file:/+", "file:///", place))
    try:
        return fs.FileSystem.from_uri(uri)
    except (ValueError, OSError) as e:
        raise StagingFailed(
            f"{place} cannot be used to stage records ({e}); give stagingLocation"
        ) from e
