"""Exports that are tables: a table has each run of the manifest once, wherever the last one died.
Without Spark; with it: test_export_forms.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from exported_files import a_run, empty, wanted

from pk.spark.errors import OptionError
from pk.spark.export.manifest import Manifest, open_directory
from pk.spark.export.table import TableFailed, TableRefused, check_table, file_schema, settle
from pk.spark.files.store import LocalStore

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

KINDS = ("delta", "iceberg")


def rows(directory: Path, kind: str) -> list[dict[str, Any]]:
    """The table's rows, as its own library reads them."""
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(directory).to_pyarrow_table()
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("pk", uri=f"sqlite:///{directory}/_pk_catalog.db")
        found = catalog.load_table("pk.export").scan().to_arrow()
    return found.select(["value", "offset", "country"]).sort_by("offset").to_pylist()


def commit(directory: Path, manifest: Manifest, records: int) -> Manifest:
    """A run without its table."""
    with open_directory(directory) as target, target.unfinished("00000000") as run:
        after, written = a_run(manifest, run.files, records)
        run.commit(after, written)
    return after


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_export_puts_nothing_beside_its_files_before_the_manifest(
    tmp_path: Path, kind: str
) -> None:
    """Or the run after a killed one would refuse the directory."""
    from pyspark.sql.types import LongType, StructType

    columns = StructType().add("offset", LongType())
    assert file_schema(LocalStore(tmp_path), columns, kind, None, None).names == ["offset"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_gets_the_runs_that_it_lacks_once(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    first = commit(out, empty(kind), 6)
    settle(LocalStore(out), first)
    settle(LocalStore(out), first)
    assert rows(out, kind) == wanted(range(6))
    second = commit(out, first, 3)
    third = commit(out, second, 6)  # as if two runs had died before their tables
    settle(LocalStore(out), third)
    assert rows(out, kind) == wanted(range(15))
    settle(LocalStore(out), third)
    assert rows(out, kind) == wanted(range(15))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_an_overwritten_table_has_the_new_export_alone(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    settle(LocalStore(out), commit(out, empty(kind), 6))
    again = commit(out, empty(kind, export_id="pk-2"), 3)
    assert rows(out, kind) == wanted(range(6)), "the old files stay until the table lets go of them"
    settle(LocalStore(out), again)
    assert rows(out, kind) == wanted(range(3))
    with open_directory(out) as target:
        target.clean()
    assert len(list(out.glob("*country=*/*.parquet"))) == 3
    assert rows(out, kind) == wanted(range(3))


def test_a_delta_table_that_was_compacted_goes_on(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    out = tmp_path / "out"
    first = commit(out, empty("delta"), 6)
    settle(LocalStore(out), first)
    second = commit(out, first, 6)
    settle(LocalStore(out), second)
    DeltaTable(out).optimize.compact()
    DeltaTable(out).vacuum(0, dry_run=False, enforce_retention_duration=False)
    third = commit(out, second, 3)
    settle(LocalStore(out), third)
    assert rows(out, "delta") == wanted(range(15))


def test_an_iceberg_table_whose_snapshots_expired_goes_on(tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    out = tmp_path / "out"
    first = commit(out, empty("iceberg"), 6)
    settle(LocalStore(out), first)
    table = SqlCatalog("pk", uri=f"sqlite:///{out}/_pk_catalog.db").load_table("pk.export")
    table.append(table.scan().to_arrow().slice(0, 1))  # another's snapshot is the current one
    table.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in table.snapshots()[:-1]])
    settle(LocalStore(out), first)
    assert len(rows(out, "iceberg")) == 7


@pytest.mark.thorough
def test_a_table_of_others_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/lake"
    for name, value in (("TYPE", "sql"), ("URI", uri), ("WAREHOUSE", warehouse)):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__SHOP__{name}", value)
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # reads the environment now
    named = replace(empty("iceberg"), table_name="shop.sales.orders")
    out = tmp_path / "out"
    first = commit(out, named, 6)
    settle(LocalStore(out), first)
    assert load_catalog("shop").load_table("sales.orders").scan().to_arrow().num_rows == 6
    other = commit(tmp_path / "other", named, 3)
    with pytest.raises(TableRefused, match="the table sales.orders exists, at .*/out"):
        settle(LocalStore(tmp_path / "other"), replace(other, export_id="pk-9"))
    assert load_catalog("shop").load_table("sales.orders").scan().to_arrow().num_rows == 6


def test_a_table_that_cannot_be_written_says_that_the_export_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = commit(out, empty("delta"), 3)
    (out / "_delta_log").touch()
    with pytest.raises(TableFailed, match="is complete, but its delta table"):
        settle(LocalStore(out), first)
    (out / "_delta_log").unlink()
    settle(LocalStore(out), first)
    assert rows(out, "delta") == wanted(range(3))


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("hudi", None, "parquet, delta, iceberg, not 'hudi'"),
        ("delta", "a.b.c", "--to-format iceberg"),
        ("iceberg", "orders", "CATALOG.NAMESPACE.NAME"),
    ],
)
def test_what_is_no_table_is_refused(kind: str, name: str | None, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        check_table(kind, name)
