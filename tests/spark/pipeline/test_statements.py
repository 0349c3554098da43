"""The SQL for databases. SQLite runs the statements of its own dialect."""

from __future__ import annotations

import sqlite3

import pytest

from pk.spark.pipeline.jdbc_changes import later
from pk.spark.pipeline.jdbc_sink import create_table, delete, upsert


def test_a_table_has_its_key_from_the_start() -> None:
    database = sqlite3.connect(":memory:")
    database.execute(create_table("sqlite", "t", '"id" INTEGER, "n" INTEGER', ["id"]))
    database.execute("CREATE TABLE s (id INTEGER, n INTEGER)")
    for n in range(2):
        database.execute("DELETE FROM s")
        database.execute("INSERT INTO s VALUES (1, ?)", (n,))
        database.execute(upsert("sqlite", "t", "s", ["id", "n"], ["id"]))
    assert database.execute("SELECT * FROM t").fetchall() == [(1, 1)]
    assert create_table("mysql", "t", "`a b` INT", ["a b"]).endswith("INT, UNIQUE (`a b`))")
    assert create_table("postgresql", "t", "id INT", []) == "CREATE TABLE t (id INT)"
    assert create_table("db2", "t", "id INT", ["id"]) == "CREATE TABLE t (id INT)"


def test_an_upsert_of_sqlite_inserts_and_updates() -> None:
    database = sqlite3.connect(":memory:")
    database.execute('CREATE TABLE t ("id" INTEGER, "the name" TEXT)')
    database.execute("CREATE UNIQUE INDEX k ON t (id)")
    database.execute('CREATE TABLE s ("the name" TEXT, "id" INTEGER)')
    database.execute("INSERT INTO t VALUES (1, 'old'), (2, 'kept')")
    database.execute("INSERT INTO s VALUES ('new', 1), ('added', 3)")
    for _ in range(2):
        database.execute(upsert("sqlite", "t", "s", ["the name", "id"], ["id"]))
    rows = database.execute("SELECT * FROM t ORDER BY id").fetchall()
    assert rows == [(1, "new"), (2, "kept"), (3, "added")]
    database.execute(upsert("sqlite", "t", "s", ["id"], ["id"]))
    assert database.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_deletes_and_updates_of_sqlite() -> None:
    database = sqlite3.connect(":memory:")
    database.execute('CREATE TABLE t (id INTEGER, "the name" TEXT)')
    database.execute("CREATE UNIQUE INDEX k ON t (id)")
    database.execute('CREATE TABLE s (id INTEGER, "the name" TEXT, gone INTEGER)')
    database.execute("INSERT INTO t VALUES (1, 'old'), (2, 'kept'), (3, 'gone')")
    database.execute("INSERT INTO s VALUES (1, 'new', 0), (3, NULL, 1), (4, NULL, 1), (5, 'x', 0)")
    for _ in range(2):
        database.execute(delete("sqlite", "t", "s", ["id"], "gone"))
        database.execute(upsert("sqlite", "t", "s", ["id", "the name"], ["id"], "gone"))
        rows = database.execute("SELECT * FROM t ORDER BY id").fetchall()
        assert rows == [(1, "new"), (2, "kept"), (5, "x")]


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        ("postgresql", 'ON CONFLICT ("id") DO UPDATE SET "n" = excluded."n"'),
        ("mysql", "ON DUPLICATE KEY UPDATE `n` = VALUES(`n`)"),
        ("derby", 'ON t."id" = s."id" WHEN MATCHED THEN UPDATE SET t."n" = s."n"'),
        ("sqlserver", 'VALUES (s."id", s."n");'),
    ],
)
def test_an_upsert_in_the_words_of_a_database(dialect: str, said: str) -> None:
    assert said in upsert(dialect, "t", "s", ["id", "n"], ["id"])


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        ("postgresql", 'FROM s WHERE "gone" = 0 ON CONFLICT'),
        ("mysql", "FROM s WHERE `gone` = 0 ON DUPLICATE KEY"),
        ("derby", 'USING (SELECT "id", "n" FROM s WHERE "gone" = 0) s ON'),
    ],
)
def test_an_upsert_leaves_deletes_out(dialect: str, said: str) -> None:
    assert said in upsert(dialect, "t", "s", ["id", "n"], ["id"], "gone")


def test_later_rows_are_those_that_are_greater_column_by_column() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (at TEXT, id INTEGER)")
    rows = [("b", 1), ("a", 9), ("b", 3), ("it's", 1), ("b", 2)]
    database.executemany("INSERT INTO t VALUES (?, ?)", rows)
    condition = later("sqlite", ("at", "id"), (("b", "string"), ("2", "long")))
    found = database.execute(f"SELECT * FROM t WHERE {condition} ORDER BY at, id").fetchall()
    assert found == [("b", 3), ("it's", 1)]
    condition = later("sqlite", ("at",), (("it's", "string"),))
    assert database.execute(f"SELECT * FROM t WHERE {condition}").fetchall() == []


def test_times_in_the_words_of_a_database() -> None:
    last = (("2026-01-01 00:00:00", "timestamp"),)
    assert later("postgresql", ("at",), last) == "(at > TIMESTAMP '2026-01-01 00:00:00')"
    assert later("sqlite", ("at",), last) == "(at > '2026-01-01 00:00:00')"
