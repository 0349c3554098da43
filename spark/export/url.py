"""An export whose files are at a URL, in a file system that fsspec knows: s3://, gs://, memory://.

Spark writes into a directory of this machine, as it does for an export to one. The files are then
copied to the URL, and the manifest after them; so each byte passes this machine, and Spark needs no
jar for the file system. A run that dies before the manifest leaves files that are not listed; the
next run removes them.

Not every such file system can replace a file in one step. So the new manifest is first written in
whole beside the old one: one of the two can always be read.

A lock keeps out other exports of this machine alone. An export that finds another manifest than it
began with, before it writes its own, is refused.
"""

import hashlib
import os
import posixpath
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pk.spark.errors import DirectoryRefused, SparkMissing
from pk.spark.export.manifest import (
    FILE,
    MANIFEST,
    Manifest,
    is_ours,
    refuse_strangers,
    wait_for_lock,
)

NEW: Final = MANIFEST + ".new"
INSTALL: Final = "pip install 'pk-broker[urls]'"


def file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it. Raises SparkMissing, DirectoryRefused."""
    try:
        import fsspec
    except ImportError:
        raise SparkMissing(f"fsspec is not installed; {INSTALL} installs it.") from None
    scheme, slashes, _ = url.partition("://")
    try:
        if not slashes:
            raise ValueError(f"a URL begins with {url.partition(':')[0]}://")
        return fsspec.core.url_to_fs(url)
    except ImportError as e:
        raise SparkMissing(f"{scheme}:// needs a library that is not installed: {e}") from None
    except ValueError as e:
        raise DirectoryRefused(f"{url} is not a place for an export: {e}") from None


class ExportUrl:
    """A URL that only this run of this machine may write to. Made by `open_url`."""

    lock: Final = -1
    """No lock for Spark to keep: it writes only into the directory of this machine."""

    def __init__(self, url: str, staging: Path) -> None:
        self.url = url
        self._staging = staging
        self._fs, path = file_system(url)
        self._root = path.rstrip("/")
        self.manifest = self._read()
        self._refuse_strangers()

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _text(self, name: str) -> str | None:
        self._fs.invalidate_cache()
        try:
            return self._fs.cat_file(self._at(name)).decode()
        except FileNotFoundError:
            return None

    def _read(self) -> Manifest | None:
        """The manifest, or the new one if the old was being replaced. Raises
        DirectoryRefused."""
        text = self._text(MANIFEST)
        if text is None:
            return None
        try:
            return Manifest.load(text)
        except ValueError as e:
            new = self._text(NEW)
            try:
                return Manifest.load(new or "")
            except ValueError:
                raise DirectoryRefused(f"{self._at(MANIFEST)} cannot be read: {e}") from None

    def _names(self) -> list[str]:
        """All files, relative to the URL."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(self._root)
        except FileNotFoundError:
            return []
        # Some file systems put a file for a directory; its name ends with a slash.
        names = [posixpath.relpath(path, self._root) for path in found if not path.endswith("/")]
        return [name for name in names if name != "."]

    def _refuse_strangers(self) -> None:
        refuse_strangers(
            self.url,
            [
                name
                for name in self._names()
                if not all(map(is_ours, name.split("/")))
                or ("/" in name and not FILE.fullmatch(posixpath.basename(name)))
            ],
        )

    def _remove_unlisted(self) -> None:
        listed = self.manifest.files if self.manifest is not None else set[str]()
        for name in self._names():
            if FILE.fullmatch(posixpath.basename(name)) and name not in listed:
                self._fs.rm_file(self._at(name))

    def clean(self) -> None:
        """Removes the files of unfinished runs."""
        for path in self._staging.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        self._remove_unlisted()

    @contextmanager
    def unfinished(self, run_id: str) -> Iterator[Path]:
        """A folder of this machine for a run's work; removed at the end."""
        folder = self._staging / run_id
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(self, manifest: Manifest, written: Mapping[str, Path]) -> None:
        """Copies the files `written` (name → path here), and replaces the manifest by `manifest`.

        Then removes all files that it does not list. Raises OSError, DirectoryRefused; the old
        manifest is then still valid.
        """
        for name, source in written.items():
            self._fs.makedirs(posixpath.dirname(self._at(name)), exist_ok=True)
            self._fs.put_file(str(source), self._at(name))
        self._fs.invalidate_cache()
        for name, source in written.items():
            there, here = self._fs.info(self._at(name))["size"], source.stat().st_size
            if there != here:
                raise OSError(f"{self._at(name)} has {there} bytes, not {here}: the copy failed")
        if self._read() != self.manifest:
            raise DirectoryRefused(f"another export to {self.url} has finished meanwhile")
        data = manifest.dump().encode()
        self._fs.makedirs(self._root, exist_ok=True)
        self._fs.pipe_file(self._at(NEW), data)
        self._fs.pipe_file(self._at(MANIFEST), data)
        self._fs.rm_file(self._at(NEW))
        self.manifest = manifest
        self._remove_unlisted()


@contextmanager
def open_url(url: str, staging: Path | None, lock_wait_s: float) -> Iterator[ExportUrl]:
    """Locks the URL for this machine's exports during the block. Files wait in a directory of their
    own in `staging`, or in the one for temporary files.

    Raises DirectoryRefused, SparkMissing; OSError and what the file system raises.
    """
    url = url.rstrip("/")
    file_system(url)  # reports missing libraries before anything is created
    known = hashlib.sha256(url.encode()).hexdigest()[:16]
    parent = staging or Path(tempfile.gettempdir())
    # A fixed name, so that the next run removes the files of a killed one.
    folder = parent.absolute() / f"pk-export-{os.getuid()}-{known}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = folder / "lock"
    with lock.open("a") as file:
        wait_for_lock(file.fileno(), url, lock_wait_s)
        # Another run may have ended and removed it; then this lock has no holder.
        if not lock.exists() or os.fstat(file.fileno()).st_ino != lock.stat().st_ino:
            raise DirectoryRefused(f"another export to {url} has just ended; start again")
        try:
            yield ExportUrl(url, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
