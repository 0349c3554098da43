"""An export whose files are in object storage: s3://, gs://, az://, abfss://.

Tasks write each file under its final name; it counts once the manifest lists it. A run that dies
earlier leaves files that are not listed; the next run removes them.

An object is replaced only if it has not changed since it was read. A run claims the manifest before
it writes, so of two runs at the same time only the later one can commit: the earlier one fails, and
the export is unchanged. Therefore the later run may remove the files that the earlier one has
written so far. On one machine, exports to the same URL wait for each other by means of a lock.
"""

import hashlib
import json
import os
import posixpath
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from pk.spark.errors import DirectoryRefused
from pk.spark.export.manifest import (
    FILE,
    FORMAT,
    MANIFEST,
    UNFINISHED,
    Manifest,
    Target,
    Unfinished,
    is_ours,
    refuse_other_files,
    wait_for_lock,
)
from pk.spark.files.store import ObjectStore, Overtaken

_WRITER: Final = "writer"
"""The field of the manifest that names the run which last claimed it."""


class ExportUrl(Target):
    """An export in object storage that only this run may write to. Made by `open_url`."""

    def __init__(self, store: ObjectStore, token: str) -> None:
        self._store = store
        self._token = token
        self._version: Mapping[str, str] | None = None
        self._text: dict[str, Any] = {}
        self._claimed = False
        self._unlisted: set[str] = set()
        self.manifest = self._read()
        self._names = self.store.names() if self._is_parquet else []
        self._refuse_other_files()

    @property
    def store(self) -> ObjectStore:
        return self._store

    @property
    def _is_parquet(self) -> bool:
        return self.manifest is None or self.manifest.table is None

    def _read(self) -> Manifest | None:
        """Read the manifest. Raises DirectoryRefused."""
        try:
            data, self._version = self.store.read_version(MANIFEST)
        except FileNotFoundError:
            return None
        try:
            self._text = cast(dict[str, Any], json.loads(data))
            if self._text.keys() <= {"format", _WRITER}:
                return None  # a run claimed the manifest, but no run was committed yet
            return Manifest.load(data.decode())
        except ValueError as e:
            place = self.store.url_of(MANIFEST)
            raise DirectoryRefused(f"{place} cannot be read: {e}") from None

    def _refuse_other_files(self) -> None:
        if not self._is_parquet:
            return  # a table's engines write compacted files and logs
        refuse_other_files(
            self.store.url,
            [
                name
                for name in self._names
                if not name.startswith(UNFINISHED)
                and (
                    not all(map(is_ours, name.split("/")))
                    or ("/" in name and not FILE.fullmatch(posixpath.basename(name)))
                )
            ],
        )

    def clean(self) -> None:
        """Remove unlisted files. The first call also claims the manifest. Raises DirectoryRefused,
        OSError."""
        if self._claimed:
            self.store.remove(self._unlisted)
            self._unlisted = set()
            return
        self._replace({"format": FORMAT} | self._text)
        self._claimed = True
        listed = self.manifest.files if self.manifest is not None else set[str]()
        names = set(self._names or self.store.names())
        left = {n for n in names - listed if FILE.fullmatch(posixpath.basename(n))}
        self.store.remove(left | {n for n in names if n.startswith(UNFINISHED)})

    def _replace(self, manifest: Mapping[str, Any]) -> None:
        text = {**manifest, _WRITER: self._token}
        data = (json.dumps(text, indent=1) + "\n").encode()
        try:
            self._version = self.store.replace(MANIFEST, data, self._version)
        except Overtaken:
            raise DirectoryRefused(
                f"another export to {self.store.url} has begun or finished in the meantime"
            ) from None
        self._text = text

    @contextmanager
    def unfinished(self, run_id: str) -> Iterator[Unfinished]:
        states = self.store.child(f"{UNFINISHED}{run_id}")
        try:
            yield _UnfinishedUrl(self, states)
        finally:
            states.remove(states.names())

    def commit(self, manifest: Manifest) -> None:
        """Replace the manifest. Raises OSError; DirectoryRefused if another run has claimed it."""
        if self.manifest is not None:
            self._unlisted |= self.manifest.files - manifest.files
        self._replace(json.loads(manifest.dump()))
        self.manifest = manifest
        if manifest.table is None:  # a table needs its old files until it has the new ones
            self.clean()


class _UnfinishedUrl(Unfinished):
    def __init__(self, target: ExportUrl, states: ObjectStore) -> None:
        self._target = target
        self.files = target.store
        self.states = states

    def commit(self, manifest: Manifest, files: Mapping[str, int]) -> None:
        self._target.commit(manifest)


@contextmanager
def open_url(store: ObjectStore, token: str, lock_wait_s: float) -> Iterator[ExportUrl]:
    """Lock the URL during the block, so that other exports on this machine wait. `token` identifies
    this run. Raises DirectoryRefused, SparkMissing, OSError."""
    known = hashlib.sha256(store.url.encode()).hexdigest()[:16]
    lock = Path(tempfile.gettempdir()) / f"pk-export-{os.getuid()}-{known}.lock"
    with lock.open("a") as file:
        wait_for_lock(file.fileno(), store.url, lock_wait_s)
        yield ExportUrl(store, token)
