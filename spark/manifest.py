"""The directory of an export, and its manifest, which says exactly what was exported.

Only files that `_pk_export.json` lists are part of the export. A run writes into a folder of its own; its name begins with
`_`, like the manifest's, so readers skip both. Once everything is written and synced, the files move beside the others, and
then the manifest is replaced in one step. A run that crashes before that leaves files that are not listed; the next run
removes them.

Format 1: topic, topic_id, the types of keys and values, columns (Spark's schema as JSON), partitions (the exported offsets
of each, from begin up to but not including end), runs (each with its ranges: offsets, records, file, bytes), chosen (the
columns whose schema was given; missing in files of earlier versions).
"""

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pk.spark.errors import DirectoryRefused

MANIFEST: Final = "_pk_export.json"
LOCK: Final = "_pk_export.lock"
UNFINISHED: Final = "_pk_export.unfinished-"
FORMAT: Final = 1

_FILE: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}-\d+-\d{20}-\d{20}-[0-9a-f]{8}\.parquet")
_NAMED_MAX: Final = 3
_LOCK_POLL_S: Final = 0.05
LOCK_WAIT_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class ExportedRange:
    """Offsets of one partition, and the number of records found there. `file` is None if there were none."""

    partition: int
    begin: int
    end: int
    records: int
    file: str | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """What one run added to the export."""

    id: str
    finished_ms: int
    ranges: tuple[ExportedRange, ...]

    @property
    def records(self) -> int:
        return sum(r.records for r in self.ranges)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a directory holds."""

    topic: str
    topic_id: str
    key: str
    value: str
    columns: dict[str, Any]
    partitions: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Partition → (begin, end) of its exported offsets."""

    runs: tuple[Run, ...] = ()
    chosen: tuple[str, ...] = ()
    """The columns whose schema the user gave; those of the others come from a sample."""

    @property
    def records(self) -> int:
        return sum(run.records for run in self.runs)

    @property
    def files(self) -> set[str]:
        return {r.file for run in self.runs for r in run.ranges if r.file is not None}

    def dump(self) -> str:
        """The manifest as written to the file."""
        partitions = {
            str(p): {"begin": begin, "end": end}
            for p, (begin, end) in sorted(self.partitions.items())
        }
        data = {"format": FORMAT, **asdict(self), "partitions": partitions, "records": self.records}
        return json.dumps(data, indent=1) + "\n"

    @classmethod
    def load(cls, text: str) -> "Manifest":
        """Parses the file. Raises ValueError."""
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"it has format {data['format']}; this version reads {FORMAT}")
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
            )
        except (KeyError, TypeError, AttributeError) as e:
            raise ValueError(f"{e!r} is invalid") from None


def file_name(topic: str, partition: int, begin: int, end: int, run_id: str) -> str:
    """The name of a range's file."""
    return f"{topic}-{partition}-{begin:020d}-{end:020d}-{run_id}.parquet"


class ExportDirectory:
    """A directory that only this run may write to. Made by `open_directory`."""

    def __init__(self, path: Path, lock: int = -1) -> None:
        self.path = path
        self.lock = lock
        """The descriptor of the lock. A process that inherits it keeps the lock even if this one ends."""

        self.manifest = self._read()
        self._refuse_strangers()

    def _read(self) -> Manifest | None:
        try:
            return Manifest.load((self.path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as e:
            raise DirectoryRefused(f"{self.path / MANIFEST} cannot be read: {e}") from None

    def _refuse_strangers(self) -> None:
        """Raises DirectoryRefused if the directory holds anything that is not from an export."""
        strangers = sorted(name for name in os.listdir(self.path) if not self._is_ours(name))
        if strangers:
            more = len(strangers) - _NAMED_MAX
            names = ", ".join(strangers[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
            raise DirectoryRefused(
                f"{self.path} contains files that are not part of an export ({names});"
                " give the export a directory of its own"
            )

    @staticmethod
    def _is_ours(name: str) -> bool:
        return name in (MANIFEST, LOCK, MANIFEST + ".new") or (
            name.startswith(UNFINISHED) or _FILE.fullmatch(name) is not None
        )

    def clean(self) -> None:
        """Removes the files of unfinished runs."""
        listed = self.manifest.files if self.manifest is not None else set()
        for name in os.listdir(self.path):
            if name.startswith(UNFINISHED):
                shutil.rmtree(self.path / name)
            elif _FILE.fullmatch(name) and name not in listed:
                (self.path / name).unlink()

    @contextmanager
    def unfinished(self, run_id: str) -> Iterator[Path]:
        """A folder for a run's work, on the same disk; removed at the end."""
        folder = self.path / f"{UNFINISHED}{run_id}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(self, manifest: Manifest, written: dict[str, Path]) -> None:
        """Moves the files `written` (name → current path) into the directory, and replaces the manifest by `manifest`.

        Then removes all files that it does not list. Raises OSError; the old manifest is then still valid.
        """
        for source in written.values():
            _sync(source)
        for name, source in written.items():
            source.replace(self.path / name)
        _sync(self.path)
        new = self.path / (MANIFEST + ".new")
        with new.open("w", encoding="utf-8") as file:
            file.write(manifest.dump())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / MANIFEST)
        _sync(self.path)
        self.manifest = manifest
        for name in os.listdir(self.path):
            if _FILE.fullmatch(name) and name not in manifest.files:
                (self.path / name).unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_directory(path: Path, lock_wait_s: float = LOCK_WAIT_S) -> Iterator[ExportDirectory]:
    """Locks the directory for the block, and creates it if needed. If it was created and stays empty, it is removed.

    A killed run's lock lasts until its Spark has noticed; waits for that at most `lock_wait_s`. Raises DirectoryRefused if
    the directory holds other files, an unreadable manifest, or another run's lock.
    """
    made = [p for p in (path, *path.parents) if not p.exists()]
    if path.exists() and not path.is_dir():
        raise DirectoryRefused(f"{path} is a file, not a directory")
    path.mkdir(parents=True, exist_ok=True)
    lock = path / LOCK
    fresh = not lock.exists()
    finished = False
    if fresh and not _may_lock(path):
        ExportDirectory(path)  # words the refusal, before anything is put there
    with lock.open("a") as file:
        _wait_for_lock(file.fileno(), path, lock_wait_s)
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


def _wait_for_lock(descriptor: int, path: Path, wait_s: float) -> None:
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
