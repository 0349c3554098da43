"""Pipelines by a real Spark, in one session. tests/spark/pipeline has the tests that need no
session."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from clients import apache_kafka
from clients.jdbc_driver import sqlite_driver
from clients.pk_broker import PkBroker, pk_command, pk_environment
from confluent_kafka import Consumer, TopicPartition
from pipeline_examples import (
    EXAMPLES,
    counts_of,
    data,
    duckdb,
    good_orders,
)
from pipeline_world import World
from pyspark.sql import DataFrameWriter
from s3_server import s3_server

from pk.spark.files.store import store_at
from pk.spark.pipeline.definition import Pipeline, WrongPipeline, parse_pipeline
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.run import PipelineFailed, RunOptions, run_pipeline, settings
from pk.spark.pipeline.shared_variables import complete_shared_variables, shared_variables
from pk.spark.pipeline.status import Status, read_status
from pk.spark.session.local import launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

WAIT_S = 300
ROOT = Path(__file__).resolve().parents[2]
EMPTY = """
name = "p"
checkpoint = "cp"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
topic = "out"
"""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = settings(parse_pipeline(EMPTY, "p.toml")) | {"spark.sql.shuffle.partitions": "2"}
    with launch(cores=2, conf=conf, jars=[str(sqlite_driver())]) as own:
        yield own.session()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    with PkBroker() as broker:
        yield World(broker.bootstrap, spark, tmp_path)


def test_sinks_that_start_at_once_do_not_disturb_each_other(world: World) -> None:
    values = [str(number) for number in range(100)]
    world.topic("orders", values)
    names = [f"out{number}" for number in range(3)]
    for name in names:
        world.topic(name)
    sink = '[[sink]]\nfrom = "orders"\nname = "{0}"\ntopic = "{0}"\n'
    text = EMPTY.partition("[[sink]]")[0] + "".join(map(sink.format, names))
    complete_shared_variables(world.spark)
    before = set(shared_variables(world.spark))
    said: list[str] = []
    options = RunOptions({"kafka.bootstrap.servers": world.bootstrap}, once=True, say=said.append)
    run_pipeline(world.pipeline(text), options, world.spark)
    assert said == []
    for name in names:
        found = [value for _, value, _ in world.committed(name)]
        assert sorted(value.decode() for value in found if value is not None) == sorted(values)
    # Starting them put in nothing that was not there.
    assert set(shared_variables(world.spark)) == before


def test_the_example_windowed_count_and_its_dead_letters_driven_back(world: World) -> None:
    world.topic("orders", data("orders"))
    world.topic("orders-per-minute")
    world.topic("orders-dead-letters")
    counting = world.example("windowed-count")
    status = world.run(counting)
    assert (status["state"], status["dead_letters"]) == ("finished", 6)
    good = good_orders()
    assert counts_of(world.bootstrap) == Counter((o["at"][:16], o["customer"]) for o in good)
    letters = world.committed("orders-dead-letters")
    assert len(letters) + len(good) == 300
    reasons = Counter(h["__pk.errors.message"].decode().partition(":")[0] for _, _, h in letters)
    assert reasons == {"amount is not DOUBLE": 4, "the value is not JSON": 2}

    mended = world.run(world.example("dead-letters"))
    assert mended["queries"][0]["rows"] == 6, "without the ends of transactions"
    assert world.run(counting)["dead_letters"] == 0
    assert sum(counts_of(world.bootstrap).values()) == 298
    back = [headers for _, _, headers in world.committed("orders")]
    assert all(not headers for headers in back)


def test_a_kill_in_the_write_of_the_first_offsets_does_not_end_a_pipeline(world: World) -> None:
    """By default Spark always refuses a checkpoint with such a partial file."""
    world.topic("orders", data("orders"))
    world.topic("orders-per-minute")
    world.topic("orders-dead-letters")
    counting = world.example("windowed-count")
    offsets = Places(counting).query(counting.sinks[0].name) / "offsets"
    assert isinstance(offsets, Path)
    offsets.mkdir(parents=True)
    (offsets / ".0.c6760dcc.tmp").write_bytes(b"v1")
    assert world.run(counting)["state"] == "finished"
    wanted = Counter((order["at"][:16], order["customer"]) for order in good_orders())
    assert counts_of(world.bootstrap) == wanted


def test_the_example_stream_join(world: World) -> None:
    world.topic("orders", data("orders"))
    world.topic("payments", data("payments"))
    world.topic("paid-orders")
    world.run(world.example("stream-join"))
    payments = {p["order_id"]: p for p in map(json.loads, data("payments"))}
    wanted = sorted(
        (o["id"], o["customer"], payments[o["id"]]["method"])
        for o in good_orders()
        if o["id"] in payments
    )
    assert wanted == sorted(
        (r["id"], r["customer"], r["method"]) for r in world.rows("paid-orders")
    )


def test_the_example_enrichment(world: World) -> None:
    world.topic("orders", data("orders"))
    world.run(world.example("enrichment"))
    files = world.directory / "out" / "orders"
    found = duckdb(
        f"SELECT id, city FROM read_parquet('{files}/**/*.parquet', hive_partitioning=true)"
    )
    cities = {"ada": "London", "ben": "Lyon", "cleo": "Cairo", "dan": "Oslo", "eve": "unknown"}
    assert sorted(found) == sorted((o["id"], cities[o["customer"]]) for o in good_orders())


def test_the_example_change_capture(world: World) -> None:
    world.topic("products")
    pipeline = world.example("change-capture")
    shutil.copy(sqlite_driver(), world.directory)
    shop = sqlite3.connect(world.directory / "shop.db")
    shop.executescript((EXAMPLES / "data" / "shop.sql").read_text())
    world.run(pipeline)
    assert {(r["id"], r["price"]) for r in world.rows("products")} == {(1, 2.5), (2, 7.0), (3, 4.2)}
    with shop:
        shop.execute(
            "UPDATE products SET price = 3, updated_at = '2026-01-05 10:00:00' WHERE id = 1"
        )
        shop.execute("INSERT INTO products VALUES (4, 'glue', 1, '2026-01-05 10:00:00')")
        shop.execute("INSERT INTO products VALUES (5, 'late', 1, '2026-01-01 00:00:00')")
    world.run(pipeline)
    world.run(pipeline)
    shop.close()
    names = [
        (key, json.loads(value or b"")["price"]) for key, value, _ in world.committed("products")
    ]
    assert sorted(names)[:2] == [(b"1", 2.5), (b"1", 3.0)] and len(names) == 5
    prices = sqlite3.connect(world.directory / "prices.db")
    assert prices.execute("SELECT id, price FROM prices ORDER BY id").fetchall() == [
        (1, 3.0),
        (2, 7.0),
        (3, 4.2),
        (4, 1.0),
    ]
    prices.close()


def iceberg_rows(world: World) -> list[tuple[Any, ...]]:
    """The table as DuckDB reads the files that pyiceberg plans for it."""
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(
        "default", type="sql", uri=f"sqlite:///{world.directory}/out/catalog.db", warehouse="unused"
    )
    files = [t.file.file_path for t in catalog.load_table("shop.orders").scan().plan_files()]
    listed = ", ".join(f"'{file.removeprefix('file://')}'" for file in files)
    return duckdb(f"SELECT * FROM read_parquet([{listed}], union_by_name=true) ORDER BY id")


def test_the_example_topic_to_iceberg_with_a_field_that_is_new(world: World) -> None:
    world.topic("orders", data("orders"))
    (world.directory / "out").mkdir()
    pipeline = world.example("topic-to-iceberg")
    world.run(pipeline)
    assert [row[0] for row in iceberg_rows(world)] == [o["id"] for o in good_orders()]
    world.topic("orders", ['{"id": 1000, "coupon": "x"}', '{"id": "no number", "coupon": "y"}'])
    world.run(pipeline)
    rows = iceberg_rows(world)
    assert len(rows) == len(good_orders()) + 1
    assert "x" in rows[-1] and rows[-1][0] == 1000
    again(pipeline, "rows")
    world.run(pipeline)
    assert iceberg_rows(world) == rows, "the last batch came again and changed nothing"


def test_the_example_changes_to_iceberg(world: World) -> None:
    from pyiceberg.catalog import load_catalog

    changes = [json.loads(line) for line in data("product-changes")]
    (world.directory / "out").mkdir()
    pipeline = world.example("changes-to-iceberg")
    wanted: dict[int, dict[str, Any]] = {}
    for part in (changes[:1], changes[1:6], changes[6:]):
        world.changes("product-changes", part)
        world.run(pipeline)
        for change in part:
            wanted.pop((change["before"] or change["after"])["id"], None)
            if change["after"] is not None:
                wanted[change["after"]["id"]] = change["after"]
        catalog = load_catalog(
            "default", type="sql", uri=f"sqlite:///{world.directory}/out/catalog.db", warehouse="x"
        )
        for _ in range(2):
            found = catalog.load_table("shop.products").scan().to_arrow().sort_by("id").to_pylist()
            assert found == [wanted[id] for id in sorted(wanted)]
            again(pipeline, "products")
            world.run(pipeline)


def test_the_example_topic_to_delta(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltalake import DeltaTable

    world.topic("orders", data("orders"))
    world.topic("orders-dead-letters")
    with s3_server() as server:
        server.bucket("lake")
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        pipeline = world.example("topic-to-delta")
        assert world.run(pipeline)["dead_letters"] == 6
        world.topic("orders", ['{"id": 1000, "at": "2026-01-09T00:00:00Z", "coupon": "x"}'])
        world.run(pipeline)
        again(pipeline, "rows")
        world.run(pipeline)
        store = store_at("s3://lake/orders")
        table = DeltaTable(store.url, storage_options=store.storage_options)
        rows = table.to_pyarrow_table().sort_by("id").to_pylist()
        assert [row["id"] for row in rows] == [*(o["id"] for o in good_orders()), 1000]
        assert (rows[0]["coupon"], rows[-1]["coupon"]) == (None, "x")
        assert table.metadata().partition_columns == ["day"]


UPSERT = """
name = "p"
checkpoint = "cp"
on_error = "dlq"
dead_letters = "dead"
[spark]
jars = ["sqlite-jdbc-3.46.1.3.jar"]
[[source]]
name = "changes"
topic = "changes"
value = "json"
fields = "op STRING, before STRUCT<id INT, n INT>, after STRUCT<id INT, n INT>"
options = {{ maxOffsetsPerTrigger = 30 }}
[[step]]
name = "rows"
sql = "SELECT coalesce(value.after, value.before).id AS Id, value.after.n, value.op, {position} FROM changes"
[[sink]]
from = "rows"
{sink}
mode = "upsert"
key = ["id"]
delete = "op = 'd'"
leave_out = ["op", "offset"]
{more}
"""
DATABASE = 'jdbc = "jdbc:sqlite:t.db"\ntable = "t"'


def rows_of_upsert(world: World, sink: str) -> list[tuple[Any, ...]]:
    if sink == DATABASE:
        database = sqlite3.connect(world.directory / "t.db")
        found = database.execute("SELECT * FROM t ORDER BY id").fetchall()
        database.close()
        return found
    from deltalake import DeltaTable

    table = DeltaTable(str(world.directory / "t")).to_pyarrow_table().sort_by("Id")
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("sink", ['delta = "t"', DATABASE])
def test_changes_by_key_are_applied_once_and_one_without_key_is_a_dead_letter(
    world: World, sink: str
) -> None:
    shutil.copy(sqlite_driver(), world.directory)
    world.topic("dead")
    pipeline = world.pipeline(UPSERT.format(sink=sink, position="offset", more=""))
    random = Random(5)
    wanted: dict[int, int] = {}
    for _ in range(2):
        changes: list[dict[str, Any]] = []
        for n in range(50):
            id = random.randrange(12)
            old = {"id": id, "n": wanted[id]} if id in wanted else None
            if old is not None and random.random() < 0.4:
                del wanted[id]
                changes.append({"op": "d", "before": old, "after": None})
            else:
                wanted[id] = n
                changes.append({"op": "u", "before": old, "after": {"id": id, "n": n}})
        world.changes("changes", changes)
        world.run(pipeline)
        assert rows_of_upsert(world, sink) == sorted(wanted.items())
        again(pipeline, "rows")
        world.run(pipeline)
        assert rows_of_upsert(world, sink) == sorted(wanted.items())
    world.changes("changes", [{"op": "u", "after": {"n": 1}}, {"op": "u", "after": {"id": 99}}])
    assert world.run(pipeline)["dead_letters"] == 1
    assert rows_of_upsert(world, sink) == [*sorted(wanted.items()), (99, None)]
    [(_, _, headers)] = world.committed("dead")
    assert headers["__pk.errors.message"] == b"a change has no key: id must not be null"


def test_two_changes_of_a_key_need_an_order(world: World) -> None:
    shutil.copy(sqlite_driver(), world.directory)
    world.topic("dead")
    world.changes("changes", [{"op": "u", "after": {"id": 1, "n": n}} for n in (3, 4)])
    text = UPSERT.format(sink='delta = "t"', position="1 AS one", more="")
    text = text.replace('["op", "offset"]', '["op", "one"]')
    with pytest.raises(PipelineFailed, match="a batch has two changes of a key, and order_by"):
        world.run(world.pipeline(text))
    world.run(world.pipeline(text + 'order_by = ["n"]\n'))
    assert rows_of_upsert(world, 'delta = "t"') == [(1, 4)]


def test_check_refuses_an_upsert_of_columns_that_are_not_there(world: World) -> None:
    shutil.copy(sqlite_driver(), world.directory)
    world.topic("dead")
    world.topic("changes")
    text = UPSERT.format(sink='delta = "t"', position="offset", more='order_by = ["n"]')
    for old, new, said in (
        ('["id"]', '["ix"]', "21:1: rows has no column 'ix'; it has Id, n, op, offset"),
        ('["n"]', '["ix"]', "24:1: rows has no column 'ix'"),
        ('["op", "offset"]', '["ix"]', "23:1: rows has no column 'ix'"),
        ("op = 'd'", "op", "22:1: delete must be a condition"),
        ("op = 'd'", "no = 'd'", "22:1: A column, variable, or function parameter"),
        ("value.after.n,", "value.after AS n,", None),
    ):
        pipeline = world.pipeline(text.replace(old, new))
        if said is None:
            world.check(pipeline)
            continue
        with pytest.raises(WrongPipeline) as raised:
            world.check(pipeline)
        assert said in str(raised.value), str(raised.value)


def again(pipeline: Pipeline, sink: str) -> None:
    """Restore the state of a driver that died after the sink wrote the last batch and before Spark
    committed it."""
    commits = Places(pipeline).query(sink) / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


JSON_TO = """
name = "p"
checkpoint = "cp"
on_error = "{on_error}"
{more}
[[source]]
name = "orders"
topic = "orders"
value = "json"
fields = "id BIGINT, amount DOUBLE"
[[step]]
name = "rows"
sql = "SELECT value.*, offset FROM orders"
[[sink]]
from = "rows"
{sink}
"""
DLQ = 'dead_letters = "dead"'


def test_good_records_and_dead_letters_are_the_input_in_the_same_transactions(world: World) -> None:
    values = [
        "{broken" if n % 100 == 7 else json.dumps({"id": n, "amount": n / 2}) for n in range(2000)
    ]
    world.topic("orders", values, 3)
    for name in ("good", "dead"):
        world.topic(name)
    pipeline = world.pipeline(JSON_TO.format(on_error="dlq", more=DLQ, sink='topic = "good"'))
    status = world.run(pipeline)
    assert status["dead_letters"] == 20
    assert sorted(r["id"] for r in world.rows("good")) == [n for n in range(2000) if n % 100 != 7]
    letters = world.committed("dead")
    assert {key for key, _, _ in letters} == {b"key-%d" % n for n in range(7, 2000, 100)}
    key, value, headers = letters[0]
    assert value == b"{broken"
    assert headers["__pk.errors.pipeline"] == b"p" and headers["__pk.errors.topic"] == b"orders"
    assert headers["__pk.errors.message"].startswith(b"the value is not JSON: ")
    at = TopicPartition(
        "orders", int(headers["__pk.errors.partition"]), int(headers["__pk.errors.offset"])
    )
    consumer = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "x", "log_level": 0})
    consumer.assign([at])
    message = consumer.poll(WAIT_S)
    assert message is not None and (message.key(), message.value()) == (key, value)
    consumer.close()
    # One query wrote both: each batch is in both topics, or in neither.
    assert [query["name"] for query in status["queries"]] == ["rows"]


def test_what_passes_is_exact_and_what_cannot_be_is_a_dead_letter(world: World) -> None:
    good = (
        '{"id": 1, "price": 1.10, "at": "2026-01-01T00:00:00.123456Z", "any": {"b": 1.0, "a": []}}'
    )
    bad = [
        '{"id": 2} trailing',
        '{"id": 3, "price": 1.005}',
        '{"id": 4, "id": 5}',
        '{"id": 6, "at": "2026-01-01T00:00:00.1234567Z"}',
        "",
        '[{"id": 7}]',
    ]
    world.topic("orders", [good, *bad])
    for name in ("good", "dead"):
        world.topic(name)
    text = JSON_TO.format(on_error="dlq", more=DLQ, sink='topic = "good"')
    fields = 'fields = "id BIGINT, price DECIMAL(12,2), at TIMESTAMP, any STRING"'
    text = re.sub("^fields = .*", fields, text, flags=re.MULTILINE)
    pipeline = world.pipeline(text.replace("value.*, offset", "value.*, struct(value.at) AS deep"))
    assert world.run(pipeline)["dead_letters"] == len(bad)
    [(_, value, _)] = world.committed("good")
    at = '"at":"2026-01-01T00:00:00.123456Z"'
    wanted = f'{{"id":1,"price":1.10,{at},"any":"{{\\"b\\":1.0,\\"a\\":[]}}","deep":{{{at}}}}}'
    assert value == wanted.encode()
    assert sorted(v.decode() for _, v, _ in world.committed("dead") if v is not None) == sorted(bad)


def test_a_delta_table_is_compacted_between_batches_that_stay_exact(world: World) -> None:
    deltalake = pytest.importorskip("deltalake")
    from pk.spark.files.store import LocalStore
    from pk.spark.tables.small_files import delta_small_files

    sink = 'delta = "table"\ncompact = "1ms"'
    pipeline = world.pipeline(JSON_TO.format(on_error="stop", more="", sink=sink))
    for number in range(3):
        world.topic("orders", [json.dumps({"id": n}) for n in range(number * 10, number * 10 + 10)])
        status = world.run(pipeline)
        assert [query["small_files"] for query in status["queries"]] == [1]
        again(pipeline, "rows")
    world.run(pipeline)
    table = world.directory / "table"
    assert delta_small_files(LocalStore(table)) == 1
    rows = deltalake.DeltaTable(table).to_pyarrow_table()["id"].to_pylist()
    assert sorted(rows) == list(range(30))


def test_a_task_that_is_run_again_after_its_commit_adds_no_row_to_a_database(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(sqlite_driver(), world.directory)
    pipeline = world.pipeline(JSON_TO.format(on_error="stop", more="", sink=DATABASE))
    world.topic("orders", [json.dumps({"id": n}) for n in range(10)])
    save = DataFrameWriter.save

    def run_again(self: DataFrameWriter) -> None:
        save(self)
        save(self)

    with monkeypatch.context() as patch:
        patch.setattr(DataFrameWriter, "save", run_again)
        with pytest.raises(PipelineFailed, match="pk_staged_row"):
            world.run(pipeline)
    world.run(pipeline)
    database = sqlite3.connect(world.directory / "t.db")
    assert database.execute("SELECT id FROM t ORDER BY id").fetchall() == [(n,) for n in range(10)]
    database.close()


FILES = {
    "csv": (
        'id,text,price\n1,"said ""hi"",\n twice",1.10\n2,"",\n',
        "id,text,price\n3,three,1.00\n4,four,1.005\n",
        r"b\.csv, line 3: price is not DECIMAL\(12,2\): 1.005",
    ),
    "json": (
        '{"id": 1, "text": "said \\"hi\\",\\n twice", "price": 1.10}\r\n\n{"id": 2, "text": ""}',
        '{"id": 3, "price": 1.00}\n{"id": 4, "price": 1.005}\n',
        r"b\.json, line 2: price is not DECIMAL\(12,2\): 1.005",
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_arrive_as_they_are_or_stop_the_pipeline(world: World, kind: str) -> None:
    good, bad, said = FILES[kind]
    folder = world.directory / "in" / "hour=05"
    folder.mkdir(parents=True)
    (folder / f"a.{kind}").write_bytes(good.encode())
    world.topic("good")
    text = f"""
        name = "p"
        checkpoint = "cp"
        [[source]]
        name = "rows"
        files = "in"
        format = "{kind}"
        fields = "id BIGINT, text STRING, price DECIMAL(12,2)"
        [[sink]]
        from = "rows"
        name = "out"
        topic = "good"
    """
    pipeline = world.pipeline(text)
    world.run(pipeline)
    rows = sorted(world.rows("good"), key=lambda row: row["id"])
    assert [(r["id"], r["text"], r.get("price")) for r in rows] == [
        (1, 'said "hi",\n twice', 1.1),
        (2, "", None),
    ]
    assert all("hour" in row for row in rows)
    (folder / f"b.{kind}").write_text(bad)
    with pytest.raises(PipelineFailed, match=said):
        world.run(pipeline)
    assert len(world.rows("good")) == 2
    for option in ('escape = "x"', *(["multiLine = true"] if kind == "json" else [])):
        wrong = text.replace(f'"{kind}"', f'"{kind}"\noptions = {{ {option} }}')
        with pytest.raises(WrongPipeline, match=f"{kind} has no option"):
            world.check(world.pipeline(wrong))
    if kind == "json":
        (folder / f"b.{kind}").unlink()
        found = world.check(world.pipeline(re.sub("fields = .*", "", text)))
        assert found["rows"] == "id bigint, price double, text string, hour int"


def test_a_new_field_appears_in_a_delta_table_and_a_wrong_one_follows_on_error(
    world: World,
) -> None:
    from deltalake import DeltaTable

    world.topic("orders", ['{"id": 1, "amount": 1.5}'])
    world.topic("dead")
    pipeline = world.pipeline(JSON_TO.format(on_error="dlq", more=DLQ, sink='delta = "table"'))
    world.run(pipeline)
    more = [
        '{"id": 2, "amount": 2, "who": {"name": "ada"}}',
        '{"id": 3, "amount": "x", "note": null}',
    ]
    world.topic("orders", [*more, '{"id": 4, "amount": null, "who": {"name": "ben", "age": 3}}'])
    status = world.run(pipeline)
    table = DeltaTable(str(world.directory / "table")).to_pyarrow_table().sort_by("id").to_pylist()
    assert [(r["id"], r["amount"], r["who"]) for r in table] == [
        (1, 1.5, None),
        (2, 2.0, {"name": "ada", "age": None}),
        (4, None, {"name": "ben", "age": 3}),
    ]
    assert [value for _, value, _ in world.committed("dead")] == [more[1].encode()]
    assert {q["name"] for q in status["queries"]} == {"rows", "dead-letters"}
    before = DeltaTable(str(world.directory / "table")).version()
    again(pipeline, "rows")
    world.run(pipeline)
    assert DeltaTable(str(world.directory / "table")).version() == before


def test_fields_that_are_fixed_stay_and_a_batch_again_replaces_its_files(world: World) -> None:
    world.topic("orders", ['{"id": 1, "amount": 1, "more": 1}', "[1]"])
    pipeline = world.pipeline(
        JSON_TO.format(on_error="skip", more='schema = "fixed"', sink='parquet = "rows"')
    )
    assert world.run(pipeline)["dead_letters"] == 1
    world.topic("orders", ['{"id": 2}'])
    world.run(pipeline)
    again(pipeline, "rows")
    world.run(pipeline)
    files = f"'{world.directory}/rows/*.parquet'"
    assert duckdb(f"SELECT id, amount FROM {files} ORDER BY id") == [(1, 1.0), (2, None)]


NASTY = (
    b'{"id": 51, "ID": 9}',
    b'{"ID": 9}',
    b'{"id": 1, "id": 2}',
    b'{"who": {"name": "ada", "NAME": "ben"}, "WHO": 1}',
    b'{"id": "\\ud800"}',
    b'{"\\ud800": 1}',
    b'{"": 1}',
    b'{"id": 1} and more',
    b"\xff\xfe",
    b"",
)
ODD = (
    (b'{"id": 5, "x": {}}', 5),
    (b'{"id": 6, "_corrupt_record": 1}', 6),
    (b'{"id": 7, "deep": ' + b"[" * 200 + b"]" * 200 + b"}", 7),
    (b'{"id": 8, "mixed": [{"a": 1, "A": 2}, 1]}', 8),
    (b'{"id": 9, "long": "' + b"x" * 150_000 + b'", "odd `,;{}name": 1}', 9),
)
"""Objects with fields for which a type is hard to find."""


@pytest.mark.parametrize("sampled", [True, False])
def test_no_record_stops_a_pipeline_with_dead_letters(world: World, sampled: bool) -> None:
    """Whether the fields are found among such records, or these come later."""
    good = b'{"id": 1, "who": {"name": "ada"}}'
    text = JSON_TO.format(on_error="dlq", more=DLQ, sink='parquet = "rows"')
    pipeline = world.pipeline(re.sub("fields = .*", "", text))
    world.topic("dead")
    world.topic("orders", [good, *NASTY] if sampled else [good], 1)
    for _ in range(2):  # the second time the schema is remembered
        world.run(pipeline)
    world.topic("orders", () if sampled else NASTY)
    for value, _ in ODD:
        world.topic("orders", [value])
        world.run(pipeline)
    world.topic("orders", [good])
    world.run(pipeline)
    files = f"read_parquet('{world.directory}/rows/*.parquet', union_by_name=true)"
    ids = [*([1] * 2), *(number for _, number in ODD)]
    assert duckdb(f"SELECT CAST(id AS BIGINT) FROM {files} ORDER BY 1") == [
        (number,) for number in ids
    ]
    letters = world.committed("dead")
    assert sorted(value or b"" for _, value, _ in letters) == sorted(NASTY)
    assert all(headers["__pk.errors.message"] for _, _, headers in letters)


def test_a_bad_name_stops_a_pipeline_that_says_so_with_its_place(world: World) -> None:
    world.topic("orders", ['{"id": 1}', '{"id": 51, "ID": 9}'], 1)
    pipeline = world.pipeline(JSON_TO.format(on_error="stop", more="", sink='parquet = "rows"'))
    said = "orders, partition 0, offset 1: the value has the field ID, which differs from id in"
    with pytest.raises(PipelineFailed, match=re.escape(said)):
        world.run(pipeline)


def test_a_bad_record_stops_a_pipeline_that_says_so(world: World) -> None:
    world.topic("orders", ['{"id": 1}', '{"id": "x"}'], 1)
    pipeline = world.pipeline(JSON_TO.format(on_error="stop", more="", sink='parquet = "rows"'))
    said = "a record does not parse: orders, partition 0, offset 1: id is not BIGINT: x"
    with pytest.raises(PipelineFailed, match=re.escape(said)):
        world.run(pipeline)
    status = read_status(Places(pipeline))
    assert status is not None and status["state"] == "failed" and said in (status["error"] or "")


STEPS = """
from pyspark.sql.types import StructType
from pyspark.sql.streaming import StatefulProcessor


def totals(spark, rows):
    class Total(StatefulProcessor):
        def init(self, handle):
            self.total = handle.getValueState("total", "total double")

        def handleInputRows(self, key, rows, timers):
            import pandas

            total = self.total.get()[0] if self.total.exists() else 0.0
            total += sum(frame["amount"].sum() for frame in rows)
            self.total.update((total,))
            yield pandas.DataFrame({"id": [int(key[0])], "total": [float(total)]})

        def close(self):
            pass

    return rows.groupBy("id").transformWithStateInPandas(
        Total(), "id BIGINT, total DOUBLE", "Update", "None"
    )
"""


def test_a_python_step_with_state(world: World) -> None:
    (world.directory / "steps.py").write_text(STEPS)
    world.topic("orders", [json.dumps({"id": n % 2, "amount": n}) for n in range(10)])
    world.topic("totals")
    text = JSON_TO.format(on_error="stop", more="", sink='topic = "totals"\nmode = "update"')
    step = '[[step]]\nname = "totals"\npython = "steps.py:totals"\ninputs = ["rows"]\n[[sink]]'
    pipeline = world.pipeline(
        text.replace("[[sink]]", step).replace('from = "rows"', 'from = "totals"')
    )
    assert world.check(pipeline)["totals"] in ("id bigint, total double", "topic totals")
    world.run(pipeline)
    world.topic("orders", ['{"id": 1, "amount": 100}'])
    world.run(pipeline)
    assert sorted((r["id"], r["total"]) for r in world.rows("totals")) == [
        (0, 20),
        (1, 25),
        (1, 125),
    ]


def group_of(world: World, name: str) -> Mapping[str, Any]:
    words = ("groups", "lag", name, "-b", world.bootstrap, "-f", "json")
    ran = subprocess.run(
        pk_command(*words), capture_output=True, text=True, env=pk_environment(), check=False
    )
    rows = json.loads(ran.stdout)
    return {f"{row['topic']}/{row['partition']}": row["lag"] for row in rows}


def test_the_group_of_a_pipeline_has_no_lag_at_its_end(world: World) -> None:
    world.topic("orders", [json.dumps({"id": n}) for n in range(100)], 3)
    world.topic("out")
    text = JSON_TO.format(on_error="stop", more='group = "my-group"', sink='topic = "out"')
    pipeline = world.pipeline(
        text.replace('value = "json"', 'value = "json"\noptions = { maxOffsetsPerTrigger = 30 }')
    )
    world.run(pipeline)
    assert group_of(world, "my-group") == {f"orders/{n}": 0 for n in range(3)}
    world.topic("orders", ['{"id": 100}'])
    assert sum(group_of(world, "my-group").values()) == 1
    world.run(pipeline)
    assert sum(group_of(world, "my-group").values()) == 0
    if apache_kafka.available() is None:
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        ran = apache_kafka.run_tool(
            tool, "--bootstrap-server", world.bootstrap, "--describe", "--group", "my-group"
        )
        lags = re.findall(r"(?m)^my-group\s+orders\s+\d+\s+\d+\s+\d+\s+(\d+)", ran.stdout)
        assert lags == ["0", "0", "0"], ran.stdout


def test_a_pipeline_that_goes_on_is_stopped_after_its_batch(world: World) -> None:
    world.topic("orders", [json.dumps({"id": n}) for n in range(50)])
    pipeline = world.pipeline(JSON_TO.format(on_error="stop", more="", sink='parquet = "rows"'))
    places = Places(pipeline)
    seen = threading.Event()
    outcome: list[Any] = []

    def progress(status: Status) -> None:
        if any(query["rows"] >= 50 for query in status["queries"]):
            seen.set()

    options = RunOptions({"kafka.bootstrap.servers": world.bootstrap}, progress=progress)
    thread = threading.Thread(
        target=lambda: outcome.append(run_pipeline(pipeline, options, world.spark))
    )
    thread.start()
    assert seen.wait(WAIT_S)
    places.stop.touch()
    thread.join(WAIT_S)
    assert not thread.is_alive() and outcome[0].stopped
    status = read_status(places)
    assert status is not None and status["state"] == "stopped"
    assert duckdb(f"SELECT count(*) FROM '{world.directory}/rows/*.parquet'") == [(50,)]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("SELECT value.*", "SELEC value.*", "p.toml:13:8: "),
        ("value.*, offset FROM orders", "valu.id FROM orders", "p.toml:13:15: A column, variable, or function parameter with name `valu`"),
        ("FROM orders", "FROM order_s", "p.toml:13:36: The table or view `order_s` cannot be found"),
        ('sql = "SELECT value.*, offset FROM orders"', 'sql = """\nSELECT value.id,\n  nothing\nFROM orders"""', "p.toml:15:3: A column"),
        ("id BIGINT", "id BIGGINT", 'p.toml:10:1: '),
        ('parquet = "rows"', 'topic = "out"\nkey = "nothing"', "p.toml:17:1: "),
        ('parquet = "rows"', 'topic = "out"\nkey = "no  + thing"\nvalue = "\'x\'"', "p.toml:17:1: "),
        ('parquet = "rows"', 'topic = "out"\nkey = "\'id\'"\nvalue = "id + no"', "p.toml:18:1: "),
        ('parquet = "rows"', 'topic = "out"\noptions = { stagingLocaton = "x" }', "p.toml:17:1: staginglocaton is not an option of the sink"),
        ('parquet = "rows"', 'topic = "out"\nmode = "complete"', "p.toml:17:1: Invalid streaming output mode: complete"),
        ('name = "rows"\n', 'name = "rows"\nwatermark = { column = "at", delay = "1 minute" }\n', "p.toml:13:15: rows has no column 'at'; it has id, amount, offset"),
        ('[[sink]]', '[[step]]\nname = "py"\npython = "none.py:f"\ninputs = ["rows"]\n[[sink]]', "p.toml:16:1: FileNotFoundError"),
        ('topic = "orders"', 'topic = "orders"\noptions = { startingOfsets = "x" }', (
                "p.toml:9:1: startingofsets is not an option of the source; did you mean "
                "startingOffsets?"
            )),
    ],
)  # fmt: skip
def test_check_names_the_place(world: World, old: str, new: str, said: str) -> None:
    world.topic("orders")
    text = JSON_TO.format(on_error="stop", more="", sink='parquet = "rows"')
    assert old in text
    pipeline = world.pipeline(text.replace(old, new, 1))
    with pytest.raises(WrongPipeline) as raised:
        world.check(pipeline)
    assert said in str(raised.value), str(raised.value)


def test_a_step_that_uses_a_wrong_one_is_not_wrong_itself(world: World) -> None:
    world.topic("orders")
    text = JSON_TO.format(on_error="stop", more="", sink='parquet = "rows"')
    steps = """\
[[step]]
name = "user"
sql = "SELECT * FROM Rows"
[[step]]
name = "caller"
python = "none.py:f"
inputs = ["user"]
[[step]]
name = "wrong"
sql = "SELECT rows FROM orders"
[[sink]]"""
    text = text.replace("SELECT value.*", "SELECT nothing.*").replace("[[sink]]", steps, 1)
    with pytest.raises(WrongPipeline) as raised:
        world.check(world.pipeline(text))
    found = [problem.message for problem in raised.value.problems]
    assert [re.findall(r"`(\w+)`", each)[0] for each in found] == ["nothing", "rows"], found


_DATABASE = 'jdbc = "jdbc:sqlite:shop.db"\ntable = "orders"'
_CATALOG = 'iceberg = "a.b"\ncatalog = {{ type = "sql", uri = "{}" }}'


_REFUSED = (
    ('parquet = "s3://bucket/rows"', 'Spark cannot write to s3://bucket/rows: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found'),
    ('parquet = "p.toml/rows"', "p.toml is not a directory"),
    ('parquet = "rows"\npartition_by = ["day"]', "rows has no column 'day'; it has id, amount, offset"),
    ('delta = "p.toml"', "p.toml is not a directory"),
    ('delta = "table"\npartition_by = ["id"]', "the table in table is partitioned by other columns: none"),
    (_CATALOG.format("sqlite:///none/catalog.db"), "for the catalog does not exist"),
    (_CATALOG.format("sqlite:///p.toml"), "the catalog cannot be used: "),
    (_CATALOG.format("nothing://host"), "the catalog cannot be used: "),
    ('jdbc = "jdbc:nothing:x"\ntable = "t"', "no driver for this database"),
    ('jdbc = "jdbc:sqlite:none/x.db"\ntable = "t"', "none does not exist"),
    ('jdbc = "jdbc:sqlite:p.toml"\ntable = "t"', "file is not a database"),
    (_DATABASE, "the table orders has no column 'amount'; it has id, total"),
    (_DATABASE + '\nkey = ["nothing"]', "rows has no column 'nothing'; it has id, amount, offset"),
    ('parquet = "rows"\n[[sink]]\nname = "x"\nfrom = "orders"\n' + _DATABASE.replace('"orders"', '"t"'), "the database cannot create a table with these columns: "),
)  # fmt: skip


def test_check_and_run_refuse_the_same_targets(world: World) -> None:
    from deltalake import DeltaTable, Field, Schema
    from deltalake.schema import PrimitiveType

    world.topic("orders", ['{"id": 1}'])
    DeltaTable.create(str(world.directory / "table"), Schema([Field("id", PrimitiveType("long"))]))
    shop = sqlite3.connect(world.directory / "shop.db")
    shop.executescript("CREATE TABLE orders (id BIGINT, total DOUBLE)")
    shop.close()
    for sink, said in _REFUSED:
        shutil.rmtree(world.directory / "cp", ignore_errors=True)
        pipeline = world.pipeline(JSON_TO.format(on_error="stop", more="", sink=sink))
        before = sorted(world.directory.rglob("*"))
        with pytest.raises(WrongPipeline) as checked:
            world.check(pipeline)
        assert re.match(r".*p\.toml:\d+:1: ", str(checked.value)) and said in str(checked.value)
        assert sorted(world.directory.rglob("*")) == before, "it wrote nothing"
        with pytest.raises(WrongPipeline) as run:
            world.run(pipeline)
        assert str(run.value) == str(checked.value)


@pytest.mark.parametrize(
    ("sink", "step", "said"),
    [
        ('parquet = "rows"', "SELECT value.id, offset AS ID FROM orders", "already exists"),
        ('delta = "rows"', "SELECT value.id, offset AS ID FROM orders", "already exists"),
        (_CATALOG.format("sqlite:///c.db"), "SELECT value.id, NULL AS x FROM orders", "Null type"),
    ],
)
def test_check_finds_rows_that_no_file_can_have(
    world: World, sink: str, step: str, said: str
) -> None:
    world.topic("orders", ['{"id": 1}'])
    text = JSON_TO.format(on_error="stop", more="", sink=sink)
    pipeline = world.pipeline(text.replace("SELECT value.*, offset FROM orders", step))
    with pytest.raises(WrongPipeline, match=said):
        world.check(pipeline)


@pytest.mark.parametrize("every", ["soon", "-1 seconds"])
def test_check_and_run_refuse_the_same_pause(world: World, every: str) -> None:
    world.topic("orders", ['{"id": 1}'])
    more = f'every = "{every}"'
    text = JSON_TO.format(on_error="stop", more=more, sink='parquet = "rows"')
    for work in (world.check, world.run):
        with pytest.raises(WrongPipeline, match=f"every must look like '10 seconds'.*{every}"):
            work(world.pipeline(text))


@pytest.mark.parametrize("sink", ["parquet", "delta"])
def test_a_file_url_is_a_directory_of_this_machine(world: World, sink: str) -> None:
    world.topic("orders", ['{"id": 1}'])
    for number, form in enumerate(("file://{}", "file:{}")):
        place = form.format(world.directory / f"rows{number}")
        text = JSON_TO.format(on_error="stop", more="", sink=f'{sink} = "{place}"')
        text = text.replace('"cp"', f'"file://{world.directory}/cp{number}"')
        world.run(world.pipeline(text))
        files = f"'{world.directory}/rows{number}/**/*.parquet'"
        assert duckdb(f"SELECT id FROM read_parquet({files})") == [(1,)]
        assert (world.directory / f"cp{number}" / "pk").is_dir()
    assert not (world.directory / "file:").exists()


def test_check_shows_the_columns_and_samples_what_is_not_declared(world: World) -> None:
    world.topic("orders", ['{"id": 1, "who": {"name": "ada"}}', '{"more": [1.5]}'])
    text = JSON_TO.format(on_error="stop", more="", sink='parquet = "rows"')
    found = world.check(world.pipeline(re.sub("fields = .*", "", text)))
    assert found["rows"] == "parquet rows"
    assert "value struct<id:bigint,more:array<double>,who:struct<name:string>>" in found["orders"]
    assert not (world.directory / "cp").exists(), "it wrote nothing"


def test_the_files_of_the_page_run(world: World) -> None:
    """Runs each file of docs/pipelines.md with its inputs."""
    page = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    bucket = world.directory / "bucket"
    files = {
        str(re.findall(r'name = "(.*?)"', text)[0]): text.replace("/tmp/pk-bucket", str(bucket))
        for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    }

    def run(name: str) -> None:
        world.run(world.pipeline(files.pop(name), f"{name}.toml"))

    for topic in ("lines", "products", "word-count", "orders-per-minute", "orders-dead-letters"):
        world.topic(topic)
    world.topic("orders", data("orders"))
    run("orders-per-minute")
    # In mode "append" the last minute is still open.
    assert 0 < sum(row["orders"] for row in world.rows("orders-per-minute")) <= len(good_orders())

    incoming = world.directory / "incoming"
    incoming.mkdir()
    (incoming / "one.txt").write_text("to be\nor not to be\n")
    run("lines-to-topic")
    lines = sorted(value or b"" for _, value, _ in world.committed("lines"))
    assert lines == [b"or not to be", b"to be"]
    run("topic-to-files")
    files_of = f"'{world.directory}/out/lines/*.parquet'"
    assert duckdb(f"SELECT value FROM {files_of} ORDER BY value") == [("or not to be",), ("to be",)]
    run("word-count")
    counts = {key: value for key, value, _ in world.committed("word-count")}
    assert counts == {b"to": b"2", b"be": b"2", b"or": b"1", b"not": b"1"}

    shutil.copy(sqlite_driver(), world.directory)
    shop = sqlite3.connect(world.directory / "shop.db")
    shop.executescript((EXAMPLES / "data" / "shop.sql").read_text())
    shop.close()
    run("products-to-topic")
    world.topic("products", ['{"id": 3, "name": "paper", "price": 9.9}'])
    run("topic-to-database")
    copy = sqlite3.connect(world.directory / "copy.db")
    rows = copy.execute("SELECT id, name, price FROM products ORDER BY id").fetchall()
    assert [row[:2] for row in rows] == [(1, "pen"), (2, "ink"), (3, "paper")]
    copy.close()

    run("orders-to-bucket")
    found = world.spark.read.parquet(f"{bucket}/orders").select("id").collect()
    assert sorted(row["id"] for row in found) == [o["id"] for o in good_orders()]
    assert not files


def test_the_commands_of_the_page_run(world: World) -> None:
    """docs/pipelines.md, one command after the other. The file that the first makes has dead
    letters, which the page says that the last refuses."""
    page = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    world.topic("orders", data("orders"))
    environ = pk_environment() | {"PK_BOOTSTRAP_SERVER": world.bootstrap}
    file = world.directory / "orders.toml"
    for line in re.findall(r"(?m)^pk spark pipeline .*$", page):
        if "--declarative" in line:
            text = re.sub(r"(?m)^dead_letters = .*$", "", file.read_text())
            file.write_text(text.replace('on_error = "dlq"', 'on_error = "skip"'))
        done = subprocess.run(
            pk_command(*line.split()[1:]),
            cwd=world.directory,
            env=environ,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert (world.directory / "project" / "spark-pipeline.yml").exists()


def test_a_declarative_project_runs(world: World, tmp_path: Path) -> None:
    """`spark-pipelines run`, in a process of its own, as PySpark installs it."""
    pytest.importorskip("grpc")
    from pk.spark.java import use_java
    from pk.spark.pipeline.declarative import write_project

    world.topic("orders", data("orders"))
    world.topic("cities")
    shutil.copytree(EXAMPLES / "data", world.directory / "data")
    text = (EXAMPLES / "enrichment.toml").read_text()
    more = '[[sink]]\nname = "to_topic"\nfrom = "with_city"\ntopic = "cities"\nkey = "city"\n'
    pipeline = world.pipeline(text.replace("partition_by", "# partition_by") + more)
    project = tmp_path / "project"
    write_project(pipeline, project, {"kafka.bootstrap.servers": world.bootstrap})
    environ = dict(os.environ)
    use_java(tmp_path, environ)
    ran = subprocess.run(
        [
            str(Path(sys.executable).with_name("spark-pipelines")),
            "run",
            "--spec",
            "spark-pipeline.yml",
        ],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-5000:]
    assert sorted(row["id"] for row in world.rows("cities")) == [o["id"] for o in good_orders()]
