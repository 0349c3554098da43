"""Exports at a URL: the files that count there, regardless of earlier runs. Without Spark; with it:
test_export_forms.py."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exported_files import a_run, empty
from pyarrow import parquet
from s3_server import s3_server

from pk.spark.errors import DirectoryRefused, OptionError
from pk.spark.export.manifest import MANIFEST, UNFINISHED, Manifest
from pk.spark.export.url import open_url
from pk.spark.files.store import ObjectStore, Overtaken, store_at

pytest.importorskip("obstore")


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    with s3_server() as server:
        server.bucket("orders")
        yield server.environ


@pytest.fixture
def store(
    environ: dict[str, str], fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ObjectStore:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = store_at(f"s3a://orders/{fresh('export')}/")
    assert isinstance(found, ObjectStore)
    return found


def commit(store: ObjectStore, before: Manifest, records: int, token: str = "a") -> Manifest:
    with open_url(store, token, 1.0) as target:
        target.clean()
        with target.unfinished("00000000") as run:
            after, written = a_run(before, run.files, records)
            run.commit(after, written)
    return after


def test_what_is_there_is_what_the_manifest_lists(store: ObjectStore) -> None:
    first = commit(store, empty(), 6)
    assert set(store.names()) == {MANIFEST, *first.files} and len(first.files) == 3
    second = commit(store, first, 3)
    assert set(store.names()) == {MANIFEST, *second.files} and first.files < second.files
    with open_url(store, "b", 1.0) as target:
        assert target.manifest == second
    with store.open(min(first.files)) as file:
        assert parquet.read_table(file).num_rows == 2
    assert commit(store, empty(), 1).files == set(store.names()) - {MANIFEST}, "overwritten"


def test_a_run_that_died_counts_for_nothing(store: ObjectStore) -> None:
    first = commit(store, empty(), 6)
    store.write(min(first.files).replace("-00000000-", "-0000000f-"), b"not in the manifest")
    store.write(f"{UNFINISHED}0000000f/0-1", b"{}")
    with open_url(store, "b", 1.0) as target:
        assert target.manifest == first
        target.clean()
    assert set(store.names()) == {MANIFEST, *first.files}


def test_a_claim_alone_is_no_export(store: ObjectStore) -> None:
    with open_url(store, "a", 1.0) as target:
        target.clean()
    assert store.names() == [MANIFEST]
    with open_url(store, "b", 1.0) as target:
        assert target.manifest is None
    first = commit(store, empty(), 3)
    with open_url(store, "c", 1.0) as target:
        assert target.manifest == first


@pytest.mark.parametrize("runs", [0, 1])
def test_a_run_that_another_has_overtaken_changes_nothing(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    before = commit(store, empty(), 6) if runs else empty()
    with open_url(store, "a", 1.0) as slow:
        slow.clean()
        with slow.unfinished("00000001") as run:
            after, written = a_run(before, run.files, 3)
            (tmp_path / "other").mkdir()  # another machine has other locks
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "other"))
            with open_url(store, "b", 1.0) as fast:
                fast.clean()
                with pytest.raises(DirectoryRefused, match="has begun or finished in the meantime"):
                    run.commit(after, written)
                with fast.unfinished("00000002") as faster:
                    last, files = a_run(before, faster.files, 9)
                    faster.commit(last, files)
    assert set(store.names()) == {MANIFEST, *last.files}
    with open_url(store, "c", 1.0) as target:
        assert target.manifest == last


def test_one_export_of_this_machine_at_a_time(store: ObjectStore) -> None:
    with (
        open_url(store, "a", 1.0),
        pytest.raises(DirectoryRefused, match="is running"),
        open_url(store, "b", 0.0),
    ):
        pass


@pytest.mark.parametrize("name", ["mine.csv", "country=DE/mine.csv", "deep/mine.parquet"])
def test_strangers_are_refused_and_left_alone(store: ObjectStore, name: str) -> None:
    store.write(name, b"mine")
    with pytest.raises(DirectoryRefused, match="mine"), open_url(store, "a", 1.0):
        pass
    assert store.names() == [name]


def test_a_manifest_that_cannot_be_read_is_refused(store: ObjectStore) -> None:
    store.write(MANIFEST, b"{")
    with pytest.raises(DirectoryRefused, match="cannot be read"), open_url(store, "a", 1.0):
        pass


def test_an_object_is_replaced_only_as_it_was_read(store: ObjectStore) -> None:
    store.replace("x", b"1", None)
    with pytest.raises(Overtaken):
        store.replace("x", b"2", None)
    _, version = store.read_version("x")
    store.replace("x", b"2", version)
    with pytest.raises(Overtaken):
        store.replace("x", b"3", version)
    store.replace("x", b"2", version)  # a reply that was lost
    assert store.read("x") == b"2"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nowhere://x/y", "nowhere://x/y is not a location for files"),
        ("s3:/bucket/orders", "a URL begins with s3://"),
    ],
)
def test_a_url_of_something_else_is_refused(place: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        store_at(place)
