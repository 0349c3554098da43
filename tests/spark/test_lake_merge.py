"""Changes by key that are applied to tables of Delta and Iceberg, beside a dictionary."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from pk.spark.errors import SparkFailed, TargetRefused
from pk.spark.files.store import LocalStore
from pk.spark.tables.lake_commit import (
    check_iceberg,
    delta_last,
    delta_merge,
    iceberg_last,
    iceberg_merge,
)

DELETED = "_pk_deleted"
COLUMNS = pa.schema(
    [
        ("Id", pa.int64()),
        ("the `name`", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("deep", pa.struct([("a", pa.int32())])),
    ]
)
SPARK = {
    "Id": "long",
    "the `name`": "string",
    "price": "decimal(10,2)",
    "at": "timestamp",
    "deep": {
        "type": "struct",
        "fields": [{"name": "a", "type": "integer", "nullable": True, "metadata": {}}],
    },
    "more": "string",
}


def spark_schema(names: list[str]) -> str:
    fields = [{"name": n, "type": SPARK[n], "nullable": True, "metadata": {}} for n in names]
    return json.dumps({"type": "struct", "fields": fields})


def row(id: int, rng: random.Random) -> dict[str, Any]:
    return {
        "Id": id,
        "the `name`": rng.choice(["pen", "ink", "it's", None]),
        "price": Decimal(rng.randrange(10_000)) / 100,
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=rng.randrange(9)),
        "deep": rng.choice([None, {"a": rng.randrange(5)}]),
    }


def changes(rows: list[dict[str, Any]], deleted: list[int], schema: Any = COLUMNS) -> Any:
    """Rows that are put, and keys that are deleted."""
    marked = [{**each, DELETED: False} for each in rows]
    marked += [{"Id": id, DELETED: True} for id in deleted]
    return pa.Table.from_pylist(marked, schema.append(pa.field(DELETED, pa.bool_())))


class Delta:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = LocalStore(folder)

    def merge(self, rows: Any, key: list[str], batch: int) -> None:
        names = [name for name in rows.schema.names if name != DELETED]
        delta_merge(self.store, rows, spark_schema(names), key, DELETED, "w", batch)

    def last(self) -> int:
        return delta_last(self.store, "w")

    def files(self) -> list[str]:
        return list(deltalake.DeltaTable(self.folder).file_uris())

    def rows(self) -> Any:
        return deltalake.DeltaTable(self.folder).to_pyarrow_table()


class Iceberg:
    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        folder.mkdir()
        self.catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("a")

    def merge(self, rows: Any, key: list[str], batch: int) -> None:
        plain = rows.drop_columns([DELETED]).schema
        if not self.catalog.table_exists("a.t"):
            self.catalog.create_table("a.t", plain)
        table = self.catalog.load_table("a.t")
        with table.update_schema() as update:
            update.union_by_name(plain)
        if iceberg_last(table, "w") < batch:
            iceberg_merge(table, rows, key, DELETED, "w", batch)

    def last(self) -> int:
        return iceberg_last(self.catalog.load_table("a.t"), "w")

    def files(self) -> list[str]:
        table = self.catalog.load_table("a.t")
        return [task.file.file_path for task in table.scan().plan_files()]

    def rows(self) -> Any:
        return self.catalog.load_table("a.t").scan().to_arrow()


@pytest.fixture(params=[Delta, Iceberg])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path / "t")


def read(table: Any, columns: str = "*") -> list[tuple[Any, ...]]:
    """The rows of the table, by DuckDB."""
    import duckdb

    database = duckdb.connect()
    database.register("rows", table.rows())
    return database.execute(f"SELECT {columns} FROM rows ORDER BY ALL").fetchall()


def test_a_table_is_what_its_changes_say(table: Any) -> None:
    rng = random.Random(7)
    wanted: dict[int, dict[str, Any]] = {}
    for batch in range(8):
        ids = rng.sample(range(60), 25)
        puts, deleted = [row(id, rng) for id in ids[:17]], ids[17:]
        rows = changes(puts, deleted)
        wanted |= {each["Id"]: each for each in puts}
        for id in deleted:
            wanted.pop(id, None)
        for _ in range(2):  # as if the driver had died before Spark noted the batch
            table.merge(rows, ["Id"], batch)
        assert table.last() == batch
        columns = """Id, "the `name`", price, epoch_us("at"), deep"""
        found = {each[0]: each[1:] for each in read(table, columns)}
        assert found == {
            id: (
                each["the `name`"],
                each["price"],
                (each["at"] - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(0, 0, 1),
                each["deep"],
            )
            for id, each in wanted.items()
        }


@pytest.mark.thorough
def test_a_batch_without_effect_and_one_that_deletes_all(table: Any) -> None:
    rng = random.Random(1)
    table.merge(changes([row(1, rng)], []), ["Id"], 0)
    table.merge(changes([], [2, 3]), ["Id"], 1)
    table.merge(changes([], []), ["Id"], 2)
    assert [each[0] for each in read(table, "Id")] == [1]
    table.merge(changes([], [1]), ["Id"], 3)
    assert read(table, "Id") == []


@pytest.mark.thorough
def test_a_key_of_two_columns_and_a_column_that_is_new(table: Any) -> None:
    rng = random.Random(2)
    key = ["Id", "the `name`"]
    rows = [{**row(id, rng), "the `name`": name} for id in range(300) for name in ("a", "b")]
    table.merge(changes(rows, []), key, 0)
    more = COLUMNS.append(pa.field("more", pa.string()))
    put = {**row(5, rng), "the `name`": "b", "more": "x"}
    gone = {"Id": 5, "the `name`": "a", DELETED: True}
    marked = [{**put, DELETED: False}, gone]
    schema = more.append(pa.field(DELETED, pa.bool_()))
    table.merge(pa.Table.from_pylist(marked, schema), key, 1)
    found = read(table, 'Id, "the `name`", more')
    assert len(found) == 599
    assert [each for each in found if each[0] == 5 or each[2] is not None] == [(5, "b", "x")]


@pytest.mark.thorough
def test_many_keys_touch_only_the_files_that_have_them(table: Any) -> None:
    rng = random.Random(3)
    for batch in range(3):
        ids = range(batch * 1000, batch * 1000 + 500)
        table.merge(changes([row(id, rng) for id in ids], []), ["Id"], batch)
    before = set(table.files())
    table.merge(changes([], list(range(1000, 1400))), ["Id"], 3)
    after = set(table.files())
    assert len(before & after) == len(before) - 1
    assert len(read(table, "Id")) == 1100


def test_a_delta_column_that_cannot_hold_the_values_is_refused(tmp_path: Path) -> None:
    table = Delta(tmp_path / "t")
    table.merge(changes([row(1, random.Random(1))], []), ["Id"], 0)
    floats = pa.schema([("Id", pa.float64()), (DELETED, pa.bool_())])
    field = {"name": "Id", "type": "double", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [field]})
    rows = pa.Table.from_pylist([{"Id": 1.5, DELETED: False}], floats)
    with pytest.raises(SparkFailed, match="column Id is long, .* are double"):
        delta_merge(table.store, rows, schema, ["Id"], DELETED, "w", 1)


@pytest.mark.parametrize(
    ("has", "given", "value"), [("int32", "int64", 2**40), ("float", "double", 1e300)]
)
def test_an_iceberg_column_widens(tmp_path: Path, has: str, given: str, value: Any) -> None:
    table = Iceberg(tmp_path / "t")
    for batch, (kind, number) in enumerate(((has, 1), (given, value))):
        schema = pa.schema([("Id", pa.int64()), ("n", kind), (DELETED, pa.bool_())])
        rows = [{"Id": batch, "n": number, DELETED: False}]
        table.merge(pa.Table.from_pylist(rows, schema), ["Id"], batch)
    assert read(table, "n") == [(1,), (value,)]


@pytest.mark.parametrize(("has", "given"), [("int64", "double"), ("int64", "string")])
def test_an_iceberg_column_that_cannot_widen_is_refused(
    tmp_path: Path, has: str, given: str
) -> None:
    table = Iceberg(tmp_path / "t")
    rows = [pa.schema([("Id", pa.int64()), ("n", kind)]).empty_table() for kind in (has, given)]
    marked = [each.append_column(DELETED, pa.array([], pa.bool_())) for each in rows]
    table.merge(marked[0], ["Id"], 0)
    with pytest.raises(Exception, match="Cannot change column type: n") as raised:
        table.merge(marked[1], ["Id"], 1)
    with pytest.raises(TargetRefused, match="cannot take the rows: Cannot change column type: n"):
        check_iceberg(table.catalog.load_table("a.t"), rows[1].schema)
    check_iceberg(table.catalog.load_table("a.t"), rows[0].schema)
    assert has.replace("int64", "long") in str(raised.value) and given in str(raised.value)


TIMES = [dt.datetime(2026, 1, n, 1, 2, 3, 4, dt.UTC) for n in (1, 2, 3)]
KEYS = (
    (pa.date32(), "date", [time.date() for time in TIMES]),
    (pa.timestamp("us", "UTC"), "timestamp", TIMES),
    (pa.decimal128(10, 2), "decimal(10,2)", [Decimal("1.10"), Decimal("2.20"), Decimal("3.30")]),
    (pa.string(), "string", ["a", 'it\'s "b"', "ä"]),
    (pa.binary(), "binary", [b"a", b"\0\xff", b"c"]),
    (pa.bool_(), "boolean", [False, True]),
    (pa.int32(), "integer", [1, 2, 3]),
)


@pytest.mark.thorough
@pytest.mark.parametrize(("arrow", "spark", "keys"), KEYS, ids=[key[1] for key in KEYS])
def test_a_key_may_have_any_single_type(
    table: Any, monkeypatch: pytest.MonkeyPatch, arrow: Any, spark: str, keys: list[Any]
) -> None:
    monkeypatch.setitem(SPARK, "k", spark)
    schema = pa.schema([("k", arrow), ("more", pa.string()), (DELETED, pa.bool_())])
    first = [{"k": key, "more": "old", DELETED: False} for key in keys]
    changed = [{"k": keys[0], DELETED: True}, {"k": keys[1], "more": "new", DELETED: False}]
    for batch, rows in enumerate((first, changed)):
        table.merge(pa.Table.from_pylist(rows, schema), ["k"], batch)
    found = table.rows().sort_by("k").to_pylist()
    wanted = [{"k": keys[1], "more": "new"}, *({"k": key, "more": "old"} for key in keys[2:])]
    assert found == wanted
