"""Exports at a URL: what counts there, whatever happened to earlier runs. Without Spark; with it:
test_export_forms.py."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from exported_files import a_run, empty

from pk.spark.errors import DirectoryRefused, SparkMissing
from pk.spark.export.manifest import MANIFEST, Manifest
from pk.spark.export.url import NEW, ExportUrl, file_system, open_url

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def url(fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return f"memory://{fresh('bucket')}/orders"


def held(url: str) -> set[str]:
    fs, root = file_system(url)
    return {path.removeprefix(f"{root}/") for path in fs.find(root)}


def commit(url: str, before: Manifest, records: int) -> Manifest:
    with open_url(url, None, 1.0) as target, target.unfinished("00000000") as folder:
        after, written = a_run(before, folder, records)
        target.commit(after, written)
    return after


def test_what_is_copied_is_what_the_manifest_lists(url: str, tmp_path: Path) -> None:
    first = commit(url, empty(), 6)
    assert held(url) == {MANIFEST, *first.files} and len(first.files) == 3
    second = commit(url, first, 3)
    assert held(url) == {MANIFEST, *second.files} and first.files < second.files
    with open_url(url, None, 1.0) as target:
        assert target.manifest == second
    fs, root = file_system(url)
    name = min(first.files)
    with fs.open(f"{root}/{name}") as file:
        from pyarrow import parquet

        assert parquet.read_table(file).num_rows == 2
    assert commit(url, empty(), 1).files == held(url) - {MANIFEST}, "overwritten"
    assert not list((tmp_path / "tmp").iterdir())


def test_a_run_that_died_counts_for_nothing(url: str) -> None:
    first = commit(url, empty(), 6)
    fs, root = file_system(url)
    stray = min(first.files).replace("-00000000.parquet", "-0000000f.parquet")
    fs.pipe_file(f"{root}/{stray}", b"copied, but not in the manifest")
    fs.pipe_file(f"{root}/{NEW}", b"half a man")
    with open_url(url, None, 1.0) as target:
        assert target.manifest == first
        target.clean()
    assert held(url) == {MANIFEST, NEW, *first.files}


def test_a_manifest_that_was_being_replaced_is_the_new_one(url: str) -> None:
    first = commit(url, empty(), 6)
    fs, root = file_system(url)
    text = fs.cat_file(f"{root}/{MANIFEST}")
    fs.pipe_file(f"{root}/{NEW}", text)
    fs.pipe_file(f"{root}/{MANIFEST}", text[:40])
    with open_url(url, None, 1.0) as target:
        assert target.manifest == first
    fs.rm_file(f"{root}/{NEW}")
    with pytest.raises(DirectoryRefused, match="cannot be read"), open_url(url, None, 1.0):
        pass


def test_an_export_that_another_has_overtaken_is_refused(url: str) -> None:
    first = commit(url, empty(), 6)
    fs, root = file_system(url)
    with open_url(url, None, 1.0) as target, target.unfinished("00000001") as folder:
        after, written = a_run(first, folder, 3)
        other = json.loads(fs.cat_file(f"{root}/{MANIFEST}")) | {"cluster_id": "another's"}
        fs.pipe_file(f"{root}/{MANIFEST}", json.dumps(other).encode())
        with pytest.raises(DirectoryRefused, match="has finished meanwhile"):
            target.commit(after, written)
    assert json.loads(fs.cat_file(f"{root}/{MANIFEST}")) == other


def test_one_export_of_this_machine_at_a_time(url: str) -> None:
    with (
        open_url(url, None, 1.0),
        pytest.raises(DirectoryRefused, match="is running"),
        open_url(url, None, 0.0),
    ):
        pass


@pytest.mark.parametrize("name", ["mine.csv", "country=DE/mine.csv", "deep/mine.parquet"])
def test_strangers_are_refused_and_left_alone(url: str, name: str) -> None:
    fs, root = file_system(url)
    fs.pipe_file(f"{root}/{name}", b"mine")
    with pytest.raises(DirectoryRefused, match="mine"), open_url(url, None, 1.0):
        pass
    assert held(url) == {name}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DirectoryRefused, match="nowhere://x is not a place"):
        ExportUrl("nowhere://x", tmp_path)

    class Lacking(fsspec.AbstractFileSystem):
        protocol = "lacking"

        def __init__(self, *_: object, **__: object) -> None:
            raise ImportError("Install lackingfs to access it")

    fsspec.register_implementation("lacking", Lacking, clobber=True)
    with pytest.raises(SparkMissing, match="lacking:// needs .* Install lackingfs"):
        file_system("lacking://x/y")
    with pytest.raises(DirectoryRefused, match="a URL begins with s3://"):
        file_system("s3:/bucket/orders")  # fsspec takes it for a path of this machine
