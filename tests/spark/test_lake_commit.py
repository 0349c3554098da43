"""Files that are added to a table of Delta: its columns hold their values, or they are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from pyarrow import parquet

from pk.spark.errors import SparkFailed, TargetRefused
from pk.spark.files.store import LocalStore
from pk.spark.tables.lake_commit import LakeFile, delta_add, delta_columns, read_footer

ARROW = {
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
}


def add(folder: Path, batch: int, kind: str, value: Any, nested: bool = False) -> None:
    """Adds a file with one value of one column."""
    store = LocalStore(folder)
    name, arrow, spark = f"{batch}.parquet", ARROW[kind], kind
    if nested:
        arrow, value = pa.struct([("in", arrow)]), {"in": value}
        field = {"name": "in", "type": kind, "nullable": True, "metadata": {}}
        spark = {"type": "struct", "fields": [field]}
    folder.mkdir(exist_ok=True)
    parquet.write_table(pa.table({"n": pa.array([value], arrow)}), folder / name)
    column = {"name": "n", "type": spark, "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    file = LakeFile(name, (folder / name).stat().st_size, read_footer(store, name))
    assert delta_add(store, [file], schema, "w", batch)


def values(folder: Path) -> list[Any]:
    return sorted(deltalake.DeltaTable(folder).to_pyarrow_table()["n"].to_pylist())


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("has", "first", "given", "value"),
    [
        ("integer", 1, "long", 2**40),
        ("long", 1, "double", 1.5),
        ("float", 1.0, "double", 1e300),
        ("long", 1, "string", "x"),
    ],
)
def test_values_that_a_column_cannot_hold_are_refused(
    tmp_path: Path, has: str, first: Any, given: str, value: Any, nested: bool
) -> None:
    add(tmp_path / "t", 0, has, first, nested)
    column = "n.in" if nested else "n"
    with pytest.raises(SparkFailed, match=f"column {column} is {has}, .* are {given}"):
        add(tmp_path / "t", 1, given, value, nested)
    table = deltalake.DeltaTable(tmp_path / "t")
    assert table.to_pyarrow_table().num_rows == 1
    assert table.transaction_version("w") == 0


def test_values_of_a_narrower_type_are_added(tmp_path: Path) -> None:
    add(tmp_path / "t", 0, "long", 2**40)
    add(tmp_path / "t", 1, "integer", 7)
    assert values(tmp_path / "t") == [7, 2**40]


def test_a_field_that_is_new_inside_a_struct_is_added(tmp_path: Path) -> None:
    add(tmp_path / "t", 0, "long", 1, nested=True)
    store = LocalStore(tmp_path / "t")
    arrow = pa.struct([("more", pa.string())])
    parquet.write_table(pa.table({"n": pa.array([{"more": "x"}], arrow)}), tmp_path / "t" / "1.p")
    field = {"name": "more", "type": "string", "nullable": True, "metadata": {}}
    column = {"name": "n", "nullable": True, "metadata": {}}
    column["type"] = {"type": "struct", "fields": [field]}
    size = (tmp_path / "t" / "1.p").stat().st_size
    file = LakeFile("1.p", size, read_footer(store, "1.p"))
    schema = json.dumps({"type": "struct", "fields": [column]})
    assert delta_add(store, [file], schema, "w", 1)
    rows = deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table()["n"].to_pylist()
    assert sorted(rows, key=str) == [{"in": 1, "more": None}, {"in": None, "more": "x"}]
    version = deltalake.DeltaTable(tmp_path / "t").version()
    assert not delta_add(store, [file], schema, "w", 1)
    assert deltalake.DeltaTable(tmp_path / "t").version() == version


def test_columns_are_compared_before_anything_is_written(tmp_path: Path) -> None:
    def schema(kind: str) -> str:
        column = {"name": "n", "type": kind, "nullable": True, "metadata": {}}
        return json.dumps({"type": "struct", "fields": [column]})

    store = LocalStore(tmp_path / "t")
    assert delta_columns(store, schema("double")) is None
    add(tmp_path / "t", 0, "long", 1)
    assert delta_columns(store, schema("integer")) == ()
    with pytest.raises(TargetRefused, match="column n is long, but the new values are double"):
        delta_columns(store, schema("double"))
    assert deltalake.DeltaTable(tmp_path / "t").schema().fields[0].type.type == "long"
