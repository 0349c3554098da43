"""The directory of an export, and its manifest, which lists exactly the exported offsets.

Only files that `_pk_export.json` lists are part of the export. In a local directory, a run writes
to its own folder. The names of the folder and of the manifest begin with `_`, so readers skip both.
After all files are written and synced, they are moved next to the files of earlier runs, and then
the manifest is replaced atomically. In object storage the files have their final names from the
start, and a conditional put replaces the manifest. A run that crashes earlier leaves files that are
not listed; the next run removes them.

An export with `--partition-by` puts its files into directories named as in Hive, such as
`date=2026-01-01`. One range of offsets may then be in several files; each file has an entry with
its own first and last offset.

An export to a Delta or Iceberg table is such a directory too. The manifest is replaced first, and
then the missing runs are added to the table (pk.spark.export.table). So if a run is killed between
the two steps, the next run completes it. The table's engines may put files of their own into such a
directory.

Format 3: topic, topic_id, the types of keys and values, columns (Spark's schema as JSON),
partitions (the exported offsets of each, from begin up to but not including end), runs (each with
its ranges: offsets, records, file, bytes), chosen (the columns whose schema was given), isolation
(read_committed or read_uncommitted), cluster_id, leader_epochs (by partition, an epoch in which the
log held all that was exported), export_id (by which a table knows the export), partition_by (what
was asked for), table (delta or iceberg; null for files alone), table_name (of an Iceberg table in a
catalog). Formats 1 and 2 are still read: format 2 lacks the last four, format 1 also the three
before.
"""

import fcntl
import json
import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pk.spark.errors import DirectoryRefused, SparkFailed
from pk.spark.files.store import LocalStore, Store

MANIFEST: Final = "_pk_export.json"
LOCK: Final = "_pk_export.lock"
UNFINISHED: Final = "_pk_export.unfinished-"
FORMAT: Final = 3
_OLDEST: Final = 1

FILE: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}-\d+-\d{20}-\d{20}-[0-9a-f]{8}(-\d+-\d+)?\.parquet")
"""The name of an exported file: topic, partition, the offsets of the task's range, run, attempt of
the task, and number within the attempt. Earlier versions of pk omitted the last two."""

_FOLDER: Final = re.compile(r"[^_.=/][^=/]*=[^/]*")
"""The name of a directory for one value of a column of `partition_by`."""

_NAMED_MAX: Final = 3
_LOCK_POLL_S: Final = 0.05
LOCK_WAIT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class ExportedRange:
    """A range of offsets of one partition, and its number of records. `file` is None if it has no
    records."""

    partition: int
    begin: int
    end: int
    records: int
    file: str | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """The ranges that one run added to the export."""

    id: str
    finished_ms: int
    ranges: tuple[ExportedRange, ...]

    @property
    def records(self) -> int:
        return sum(r.records for r in self.ranges)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of an export."""

    topic: str
    topic_id: str
    key: str
    value: str
    columns: dict[str, Any]
    partitions: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition → (begin, end) of its exported offsets."""

    runs: tuple[Run, ...] = ()
    chosen: tuple[str, ...] = ()
    """The columns whose schema the user gave; the schemas of other columns come from a sample."""

    isolation: str | None = None
    """The isolation level; None if unknown, in a manifest of format 1."""

    cluster_id: str | None = None
    leader_epochs: Mapping[int, int] = field(default_factory=dict)
    """Partition → a leader epoch in which the log held all that was exported."""

    export_id: str = ""
    """The id by which a table knows the export; empty in a manifest of format 1 or 2."""

    partition_by: tuple[str, ...] = ()
    """The columns whose values name the directories, as the user gave them."""

    table: str | None = None
    """`delta`, `iceberg`, or None for files alone."""

    table_name: str | None = None
    """The Iceberg table, CATALOG.NAMESPACE.NAME; None for a table with its own catalog in the
    directory."""

    @property
    def records(self) -> int:
        return sum(run.records for run in self.runs)

    @property
    def files(self) -> set[str]:
        return {r.file for run in self.runs for r in run.ranges if r.file is not None}

    def dump(self) -> str:
        """The text of the manifest's file."""
        partitions = {
            str(p): {"begin": begin, "end": end}
            for p, (begin, end) in sorted(self.partitions.items())
        }
        epochs = {str(p): epoch for p, epoch in sorted(self.leader_epochs.items())}
        data = {
            "format": FORMAT,
            **asdict(self),
            "partitions": partitions,
            "leader_epochs": epochs,
            "records": self.records,
        }
        return json.dumps(data, indent=1) + "\n"

    @classmethod
    def load(cls, text: str) -> "Manifest":
        """Parse the file. Raises ValueError."""
        try:
            data = json.loads(text)
            if not _OLDEST <= data["format"] <= FORMAT:
                raise ValueError(
                    f"it has format {data['format']}; this version reads {_OLDEST} to {FORMAT}"
                )
            runs = tuple(
                Run(r["id"], r["finished_ms"], tuple(ExportedRange(**x) for x in r["ranges"]))
                for r in data["runs"]
            )
            partitions = {int(p): (b["begin"], b["end"]) for p, b in data["partitions"].items()}
            return cls(
                topic=data["topic"],
                topic_id=data["topic_id"],
                key=data["key"],
                value=data["value"],
                columns=data["columns"],
                partitions=partitions,
                runs=runs,
                chosen=tuple(data.get("chosen", ())),
                isolation=data.get("isolation"),
                cluster_id=data.get("cluster_id"),
                leader_epochs={int(p): e for p, e in data.get("leader_epochs", {}).items()},
                export_id=data.get("export_id", ""),
                partition_by=tuple(data.get("partition_by", ())),
                table=data.get("table"),
                table_name=data.get("table_name"),
            )
        except (KeyError, TypeError, AttributeError) as e:
            raise ValueError(f"{e!r} is invalid") from None


def name_of_range(topic: str, partition: int, begin: int, end: int, run_id: str) -> str:
    """The prefix of the names of a range's files."""
    return f"{topic}-{partition}-{begin:020d}-{end:020d}-{run_id}"


class Unfinished(ABC):
    """A run of an export that has not been committed yet."""

    files: Store
    """The store of the files, which have their final names."""

    states: Store
    """The store of the states that running tasks report."""

    @abstractmethod
    def commit(self, manifest: Manifest, files: Mapping[str, int]) -> None:
        """Make files (name → bytes) part of the export, and replace the manifest with `manifest`.
        Raises OSError, DirectoryRefused, SparkFailed; the old manifest is then still valid."""


class Target(ABC):
    """The destination of an export, locked so that only this run may write to it."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store of the export's directory."""

    lock: int = -1
    """The descriptor of a lock. A process that inherits it keeps the lock even if this one ends."""

    manifest: Manifest | None

    @abstractmethod
    def clean(self) -> None:
        """Remove the files of unfinished runs, and those that the manifest no longer lists."""

    @abstractmethod
    def unfinished(self, run_id: str) -> AbstractContextManager[Unfinished]:
        """Start a run for the block; its leftover files are removed at the end."""


class _UnfinishedFolder(Unfinished):
    def __init__(self, directory: "ExportDirectory", folder: Path) -> None:
        self._directory = directory
        self._data = folder / "data"
        self.files = LocalStore(self._data)
        self.states = LocalStore(folder / "states")
        (folder / "states").mkdir()

    def commit(self, manifest: Manifest, files: Mapping[str, int]) -> None:
        written = {name: self._data / name for name in files}
        for name, size in files.items():
            there = written[name].stat().st_size
            if there != size:
                raise SparkFailed(
                    f"{written[name]} has {there} bytes, but the task wrote {size}; nothing was "
                    "exported"
                )
        self._directory.commit(manifest, written)


class ExportDirectory(Target):
    """An export's directory, locked so that only this run may write to it. Made by
    `open_directory`.

    Tasks write to a folder of the run, which readers skip. `commit` then moves the files to their
    final names.
    """

    def __init__(self, path: Path, lock: int = -1) -> None:
        self.path = path
        self.lock = lock
        self._cleaned = False
        self._unlisted: set[str] = set()
        """Files that an earlier manifest listed and the current one does not."""

        self.manifest = self._read()
        self._refuse_other_files()

    @property
    def store(self) -> Store:
        return LocalStore(self.path)

    def _read(self) -> Manifest | None:
        try:
            return Manifest.load((self.path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as e:
            raise DirectoryRefused(f"{self.path / MANIFEST} cannot be read: {e}") from None

    def _refuse_other_files(self) -> None:
        """Raise DirectoryRefused if the directory contains files that are not part of an export."""
        if self.manifest is not None and self.manifest.table is not None:
            return  # a table's engines write compacted files and logs
        names = [name for name in os.listdir(self.path) if not self._is_ours(name)]
        names += [name for name in self._in_folders() if not FILE.fullmatch(os.path.basename(name))]
        refuse_other_files(str(self.path), names)

    @staticmethod
    def _is_ours(name: str) -> bool:
        return is_ours(name) or name.startswith(UNFINISHED) or name == LOCK

    def _in_folders(self) -> Iterator[str]:
        """The files in the directories of `partition_by`, relative to the export's directory."""
        for name in os.listdir(self.path):
            folder = self.path / name
            if _FOLDER.fullmatch(name) and folder.is_dir():
                for path in folder.rglob("*"):
                    if not path.is_dir():
                        yield str(path.relative_to(self.path))

    def _remove(self, names: Iterable[str]) -> None:
        """Remove files, and directories that are empty without them."""
        for name in names:
            path = self.path / name
            path.unlink(missing_ok=True)
            for folder in path.parents:
                if folder == self.path:
                    break
                if folder.is_dir():  # the table's engines may have removed it already
                    if os.listdir(folder):
                        break
                    folder.rmdir()

    def clean(self) -> None:
        if self._cleaned:  # since the first call, only this run has written
            self._remove(self._unlisted)
            self._unlisted = set()
            return
        for name in os.listdir(self.path):
            if name.startswith(UNFINISHED):
                shutil.rmtree(self.path / name)
        listed = self.manifest.files if self.manifest is not None else set[str]()
        names = {*os.listdir(self.path), *self._in_folders()}
        self._remove(n for n in names - listed if FILE.fullmatch(os.path.basename(n)))
        self._cleaned = True

    @contextmanager
    def unfinished(self, run_id: str) -> Iterator[Unfinished]:
        folder = self.path / f"{UNFINISHED}{run_id}"
        folder.mkdir()
        try:
            yield _UnfinishedFolder(self, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(self, manifest: Manifest, written: dict[str, Path]) -> None:
        """Move the files `written` (name → current path) into the directory, and replace the
        manifest with `manifest`.

        Then remove the files that the manifest does not list, unless the export is a table. Raises
        OSError; the old manifest is then still valid.
        """
        for source in written.values():
            _sync(source)
        changed = {self.path}
        for name, source in written.items():
            place = self.path / name
            for folder in _made(place.parent):
                changed |= {folder, folder.parent}
            changed.add(place.parent)
            source.replace(place)
        for folder in changed:
            _sync(folder)
        new = self.path / (MANIFEST + ".new")
        with new.open("w", encoding="utf-8") as file:
            file.write(manifest.dump())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / MANIFEST)
        _sync(self.path)
        if self.manifest is not None:
            self._unlisted |= self.manifest.files - manifest.files
        self.manifest = manifest
        if manifest.table is None:  # a table needs its old files until it has the new ones
            self.clean()


def is_ours(name: str) -> bool:
    """Whether an export may have created a file or directory of this name in its directory."""
    return name in (MANIFEST, MANIFEST + ".new") or (
        _FOLDER.fullmatch(name) is not None or FILE.fullmatch(name) is not None
    )


def refuse_other_files(place: str, names: Iterable[str]) -> None:
    """Raise DirectoryRefused if there are any `names`, which are those of other programs' files."""
    strangers = sorted(names)
    if strangers:
        more = len(strangers) - _NAMED_MAX
        said = ", ".join(strangers[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        raise DirectoryRefused(
            f"{place} contains files that are not part of an export ({said});"
            " give the export a directory of its own"
        )


def _made(folder: Path) -> list[Path]:
    """Create a directory and its missing parents, and return those that were missing."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_directory(path: Path, lock_wait_s: float = LOCK_WAIT_S) -> Iterator[ExportDirectory]:
    """Lock the directory for the block, and create it if it is missing. A created directory is
    removed if the block fails and leaves it empty.

    The Spark of a killed run keeps the lock until it ends; this waits for it at most `lock_wait_s`.
    Raises DirectoryRefused if the directory holds files of other programs or an unreadable
    manifest, or if another run keeps the lock.
    """
    made = [p for p in (path, *path.parents) if not p.exists()]
    if path.exists() and not path.is_dir():
        raise DirectoryRefused(f"{path} is a file, not a directory")
    path.mkdir(parents=True, exist_ok=True)
    lock = path / LOCK
    fresh = not lock.exists()
    finished = False
    if fresh and not _may_lock(path):
        ExportDirectory(path)  # raises the error before anything is created in the directory
    with lock.open("a") as file:
        wait_for_lock(file.fileno(), path, lock_wait_s)
        try:
            yield ExportDirectory(path, file.fileno())
            finished = True
        finally:
            if not finished and set(os.listdir(path)) == {LOCK}:
                lock.unlink()
                for folder in made:
                    if os.listdir(folder):
                        break
                    folder.rmdir()


def wait_for_lock(descriptor: int, path: Path | str, wait_s: float) -> None:
    """Lock an open file. Raises DirectoryRefused if another process keeps the lock for `wait_s`."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise DirectoryRefused(f"another export to {path} is running") from None
        time.sleep(_LOCK_POLL_S)


def _may_lock(path: Path) -> bool:
    return all(ExportDirectory._is_ours(name) for name in os.listdir(path))
