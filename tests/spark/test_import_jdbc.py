"""Imports of databases by JDBC: every row once, and those that are added later."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from clients import topics
from clients.fixtures import Kafka
from clients.jdbc_driver import postgres_driver, sqlite_driver
from clients.postgres import postgres, programs

from pk.spark.errors import OptionError
from pk.spark.importer.importer import import_rows
from pk.spark.importer.options import ImportOptions
from pk.spark.session.local import launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
Fresh = Callable[[str], str]
WAIT_S = 60


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    jars = [str(sqlite_driver()), str(postgres_driver())]
    with launch(cores=2, jars=jars) as own:
        yield own.session()


def committed(kafka: Kafka, topic: str) -> dict[bytes, Any]:
    """The committed records of the one partition by key, each of which must be there once."""
    found: dict[bytes, Any] = {}
    for message in topics.committed_messages(kafka, topic):
        key = message.key()
        assert isinstance(key, bytes) and key not in found
        found[key] = json.loads(message.value() or b"null")
    return found


def test_a_table_of_sqlite(
    pk_kafka: Kafka,
    fresh: Fresh,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    topic = topics.create_topic(pk_kafka, fresh("jdbc"), 1)
    database = sqlite3.connect(tmp_path / "shop.db")
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT, amount REAL)")

    def add(*numbers: int) -> None:
        rows = [(n, f"name-{n}", n / 4) for n in numbers]
        database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
        database.commit()

    given = ImportOptions(
        bootstrap=pk_kafka.bootstrap,
        topic=topic,
        source="jdbc:sqlite:shop.db",
        table="orders",
        order_by="id",
        key="id",
        cores=2,
    )
    assert import_rows(given, spark=spark).records == 0, "an empty table"
    add(*range(1, 2_001), 9_000)
    done = import_rows(given, spark=spark)
    assert (done.records, done.records_before) == (2_001, 0)
    assert import_rows(given, spark=spark).records == 0
    add(9_001, 9_500)
    again = import_rows(given, spark=spark)
    assert (again.records, again.records_before) == (2, 2_001)
    found = committed(pk_kafka, topic)
    assert set(found) == {b"%d" % n for n in (*range(1, 2_001), 9_000, 9_001, 9_500)}
    assert found[b"7"] == {"id": 7, "name": "name-7", "amount": 1.75}


@pytest.mark.skipif(programs() is None, reason="needs PostgreSQL")
def test_a_table_of_postgresql(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("jdbc"), 1)
    with postgres() as server:
        server.run(
            'CREATE TABLE sales ("Id" BIGINT PRIMARY KEY, name TEXT, price NUMERIC(8,2), '
            "at TIMESTAMPTZ, tags TEXT[]);"
            "INSERT INTO sales SELECT n, 'name-' || n, n / 4.0, "
            "to_timestamp(1700000000 + n), ARRAY['a', 'b'] FROM generate_series(1, 120000) n;"
        )
        given = ImportOptions(
            bootstrap=pk_kafka.bootstrap,
            topic=topic,
            source=server.url,
            table="sales",
            order_by="Id",
            key="Id",
            timestamp="at",
            read={"user": "postgres", "password": "s3cr3t-of-sales"},
            cores=2,
        )
        done = import_rows(given, spark=spark)
        assert (done.records, len(done.files)) == (120_000, 1)
        assert done.files[0].portions == 3, "ranges of keys"
        server.run("INSERT INTO sales VALUES (120001, 'new', 1, now(), NULL);")
        assert import_rows(given, spark=spark).records == 1
        with pytest.raises(OptionError, match="sales has no column id; it has Id, name"):
            wrong = ImportOptions(
                bootstrap=pk_kafka.bootstrap,
                topic=topic,
                source=server.url,
                table="sales",
                order_by="id",
                import_id=fresh("id"),
                read=given.read,
            )
            import_rows(wrong, spark=spark)
        with pytest.raises(OptionError, match='nowhere cannot be read: .*"nowhere" does not exist'):
            missing = ImportOptions(
                bootstrap=pk_kafka.bootstrap,
                topic=topic,
                source=server.url,
                table="nowhere",
                order_by="id",
                import_id=fresh("id"),
                read=given.read,
            )
            import_rows(missing, spark=spark)
    found = committed(pk_kafka, topic)
    assert set(found) == {b"%d" % n for n in range(1, 120_002)}
    assert found[b"5"]["price"] == 1.25 and found[b"5"]["tags"] == ["a", "b"]


def test_a_database_without_its_driver_says_how_to_name_one(
    pk_kafka: Kafka, fresh: Fresh, spark: SparkSession
) -> None:
    topic = topics.create_topic(pk_kafka, fresh("jdbc"), 1)
    given = ImportOptions(
        bootstrap=pk_kafka.bootstrap,
        topic=topic,
        source="jdbc:nothing://db/shop",
        table="orders",
        order_by="id",
    )
    with pytest.raises(OptionError, match="no driver for this database; .* by --jars"):
        import_rows(given, spark=spark)
