"""Kills the end of an export's run at each step that it takes in the file system, and lets the next
run begin: `python killed_exports.py FORM DIRECTORY` prints how many steps there were.

Each case is a fork, so that the libraries are loaded once. Without Spark: the files are there.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.dataset  # noqa: F401 (before the forks)
from exported_files import a_run, empty, wanted
from fsspec.implementations.local import LocalFileSystem
from pyarrow import parquet

from pk.spark.export.manifest import FILE, Manifest, open_directory
from pk.spark.export.table import check_table, settle
from pk.spark.export.url import open_url

_STEPS = (
    "open",
    "os.rename",
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "shutil.copyfile",
    "os.truncate",
)


class Kept(LocalFileSystem):
    """A file system of fsspec that outlives a process, and that is no directory to pk."""

    protocol = "kept"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).removeprefix("kept://"))


def opened(form: str, out: Path) -> AbstractContextManager[Any]:
    if form == "url":
        return open_url(f"kept://{out}", out.parent, 0.0)
    return open_directory(out)


def export(form: str, out: Path, records: int) -> None:
    """One run, from the manifest that is there."""
    with opened(form, out) as target:
        before = target.manifest or empty(form if form in ("delta", "iceberg") else None)
        if before.table is not None:
            settle(out, before)
        target.clean()
        with target.unfinished("00000000") as folder:
            after, written = a_run(before, folder, records)
            target.commit(after, written)
        if after.table is not None:
            settle(out, after)
            target.clean()


def rows(form: str, out: Path, manifest: Manifest) -> list[dict[str, Any]]:
    """The records that readers find."""
    if form == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(out).to_pyarrow_table()
    elif form == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("pk", uri=f"sqlite:///{out}/_pk_catalog.db")
        found = catalog.load_table("pk.export").scan().to_arrow()
    else:
        values = [
            v for f in manifest.files for v in parquet.ParquetFile(out / f).read().to_pylist()
        ]
        return sorted(values, key=lambda row: row["offset"])
    return found.select(["value", "offset", "country"]).sort_by("offset").to_pylist()


def check(form: str, out: Path) -> None:
    """After the next run, of no records, there is all or nothing of the killed one, once."""
    export(form, out, 0)
    with opened(form, out) as target:
        manifest = target.manifest
    offsets = range(manifest.partitions[0][1])
    assert len(offsets) in (6, 9), offsets
    expected = wanted(offsets)
    if form in ("parquet", "url"):  # whose readers know the country from the directory
        expected = [{"value": row["value"], "offset": row["offset"]} for row in expected]
    assert rows(form, out, manifest) == expected
    kept = {str(p.relative_to(out)) for p in out.rglob("*.parquet") if FILE.fullmatch(p.name)}
    assert kept == manifest.files, kept ^ manifest.files


def forked(work: Any, *args: Any) -> int:
    """What became of a process that does `work`."""
    child = os.fork()
    if child == 0:
        try:
            work(*args)
            os._exit(0)
        finally:  # after an error, which is printed
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at(form: str, out: Path, step: int) -> None:
    """A run that is killed at its step of this number."""
    left = step

    def audit(event: str, args: Any) -> None:
        nonlocal left
        if event in _STEPS and str(out.parent) in str(args[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)
    export(form, out, 3)


def main(form: str, directory: Path) -> None:
    fsspec.register_implementation("kept", Kept, clobber=True)
    if form == "iceberg":
        from pyiceberg.io import FSSPEC_FILE_IO, SCHEMA_TO_FILE_IO

        # Arrow's own files are opened in C++, which no audit hook sees.
        SCHEMA_TO_FILE_IO["file"] = [FSSPEC_FILE_IO]
    check_table(form if form in ("delta", "iceberg") else None, None)
    for step in itertools.count(1):
        out = directory / str(step) / "out"
        out.parent.mkdir()
        assert forked(export, form, out, 6) == 0
        died = forked(die_at, form, out, step)
        assert died in (0, -signal.SIGKILL), died
        assert forked(check, form, out) == 0, f"killed at step {step}"
        if died == 0:
            print(step - 1)
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
