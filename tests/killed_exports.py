"""Kills the end of an export's run at each step that it takes in the file system, and lets the next
run begin: `python killed_exports.py FORM DIRECTORY` prints how many steps there were, or a few
more.

Each case is a fork, so that the libraries are loaded once. Without Spark: the files are there.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import traceback
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow.dataset  # noqa: F401 (before the forks)
from effort import STRIDE
from exported_files import a_run, empty, wanted
from pyarrow import parquet
from s3_server import s3_server

from pk.spark.export.manifest import FILE, Manifest, Target, open_directory
from pk.spark.export.table import check_table, settle
from pk.spark.export.url import open_url
from pk.spark.files.store import ObjectStore, Store, store_at

_STEPS = (
    "open",
    "os.rename",
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "shutil.copyfile",
    "os.truncate",
)


_CALLS = ("put", "delete", "open_writer", "get")
"""The calls of obstore that a run takes at a URL."""


def store_of(form: str, out: Path) -> Store:
    return store_at(f"s3://killed/{out.parent.name}" if form == "url" else out)


def opened(form: str, out: Path) -> AbstractContextManager[Target]:
    if form == "url":
        store = store_of(form, out)
        assert isinstance(store, ObjectStore)
        return open_url(store, str(os.getpid()), 0.0)
    return open_directory(out)


def export(form: str, out: Path, records: int) -> None:
    """One run, which continues from the existing manifest."""
    with opened(form, out) as target:
        before = target.manifest or empty(form if form in ("delta", "iceberg") else None)
        if before.table is not None:
            settle(target.store, before)
        target.clean()
        with target.unfinished("00000000") as run:
            after, written = a_run(before, run.files, records)
            run.commit(after, written)
        if after.table is not None:
            settle(target.store, after)
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
        values: list[dict[str, Any]] = []
        for name in manifest.files:
            with store_of(form, out).open(name) as file:
                values += parquet.ParquetFile(file).read().to_pylist()
        return sorted(values, key=lambda row: row["offset"])
    return found.select(["value", "offset", "country"]).sort_by("offset").to_pylist()


def check(form: str, out: Path) -> None:
    """After the next run, which has no records, readers find all records of the killed run once, or
    none."""
    export(form, out, 0)
    with opened(form, out) as target:
        manifest = target.manifest
    assert manifest is not None
    offsets = range(manifest.partitions[0][1])
    assert len(offsets) in (6, 9), offsets
    expected = wanted(offsets)
    if form in ("parquet", "url"):  # whose readers take the country from the directory
        expected = [{"value": row["value"], "offset": row["offset"]} for row in expected]
    assert rows(form, out, manifest) == expected
    names = store_of(form, out).names()
    kept = {name for name in names if FILE.fullmatch(name.rpartition("/")[2])}
    assert kept == manifest.files, kept ^ manifest.files


def forked(work: Any, *args: Any) -> int:
    """The exit status of a process that does `work`."""
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
    """A run that is killed at the step with this number."""
    left = step

    def take() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, args: Any) -> None:
        if event in _STEPS and str(out.parent) in str(args[0]):
            take()

    def counted(call: Any) -> Any:
        def counts(*args: Any, **given: Any) -> Any:
            take()
            return call(*args, **given)

        return counts

    if form == "url":
        import obstore

        for name in _CALLS:
            setattr(obstore, name, counted(getattr(obstore, name)))
    else:
        sys.addaudithook(audit)
    export(form, out, 3)


def main(form: str, directory: Path) -> None:
    if form == "iceberg":
        from pyiceberg.io import FSSPEC_FILE_IO, SCHEMA_TO_FILE_IO

        # Arrow's own files are opened in C++, which no audit hook sees.
        SCHEMA_TO_FILE_IO["file"] = [FSSPEC_FILE_IO]
    check_table(form if form in ("delta", "iceberg") else None, None)
    with s3_server() if form == "url" else nullcontext() as server:
        if server is not None:
            os.environ |= server.environ
            server.bucket("killed")
        kill_at_each_step(form, directory)


def kill_at_each_step(form: str, directory: Path) -> None:
    for step in itertools.count(1, STRIDE):
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
