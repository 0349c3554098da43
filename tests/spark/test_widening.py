"""Numbers that become wider than their columns: sink by sink, and what keeps a column as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from clients.pk_broker import PkBroker
from pipeline_examples import duckdb
from pipeline_world import World

from pk.core.schemas.schema import Resolved, Schema
from pk.core.schemas.serialization import Deserializer, encoder
from pk.net.schemas.blocking import Schemas
from pk.spark.errors import SparkFailed
from pk.spark.export.exporter import ExportOptions, export
from pk.spark.pipeline.definition import WrongPipeline, parse_pipeline
from pk.spark.pipeline.run import PipelineFailed, settings
from pk.spark.session.local import launch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

FILE = """
name = "p"
checkpoint = "cp"
on_error = "dlq"
dead_letters = "dead"
[[source]]
name = "orders"
topic = "orders"
value = "json"
[[step]]
name = "rows"
sql = "SELECT value.* FROM orders"
[[sink]]
from = "rows"
{sink}
"""
DERBY = "jdbc:derby:memory:{name};create=true"
LARGE = 2**53 + 1
"""The first whole number that no DOUBLE is."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = settings(parse_pipeline(FILE.format(sink='topic = "out"'), "p.toml"))
    with launch(cores=2, conf=conf | {"spark.sql.shuffle.partitions": "2"}) as own:
        yield own.session()


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    with PkBroker() as broker:
        world = World(broker.bootstrap, spark, tmp_path)
        world.topic("dead")
        yield world


def letters(world: World) -> dict[bytes, str]:
    """Dead letter → its reason."""
    return {
        value or b"": headers["__pk.errors.message"].decode()
        for _, value, headers in world.committed("dead")
    }


def derby(spark: SparkSession, name: str, statement: str) -> list[tuple[Any, ...]]:
    """Runs a statement in a database in the memory of Spark's Java; the rows of a query."""
    jvm: Any = spark._jvm
    connection = jvm.java.sql.DriverManager.getConnection(DERBY.format(name=name))
    made = connection.createStatement()
    found: list[tuple[Any, ...]] = []
    try:
        if made.execute(statement):
            rows = made.getResultSet()
            count = rows.getMetaData().getColumnCount()
            while rows.next():
                found.append(tuple(rows.getObject(n + 1) for n in range(count)))
    finally:
        connection.close()
    return found


def run_twice(world: World, sink: str, before: str = '{"id": 1, "n": 1}') -> None:
    """A run with whole numbers, and one in which `n` has a fraction."""
    world.topic("orders", [before], 1)
    pipeline = world.pipeline(FILE.format(sink=sink))
    world.run(pipeline)
    world.topic("orders", ['{"id": 2, "n": 1.5}', '{"id": 3, "n": 3}'])
    world.run(pipeline)


def test_a_topic_takes_doubles_and_a_number_that_none_is_becomes_a_dead_letter(
    world: World,
) -> None:
    world.topic("out", (), 1)
    run_twice(world, 'topic = "out"')
    assert world.rows("out") == [{"id": 1, "n": 1}, {"id": 2, "n": 1.5}, {"id": 3, "n": 3}]
    assert world.said == ["orders: n was BIGINT, and is DOUBLE from now on."]
    large = json.dumps({"id": 4, "n": LARGE}).encode()
    world.topic("orders", [large, json.dumps({"id": LARGE, "n": LARGE - 1})])
    world.run(world.pipeline(FILE.format(sink='topic = "out"')))
    assert world.rows("out")[3:] == [{"id": LARGE, "n": LARGE - 1}]
    assert letters(world) == {large: f"n is not DOUBLE: {LARGE}"}


STAYS = {
    "parquet": (
        'parquet = "rows"',
        "rows has files in which n is BIGINT, and Spark cannot read them together with files",
    ),
    "delta": ('delta = "rows"', "the table's column n is long, but the new values are double;"),
    "iceberg": (
        'iceberg = "a.b"\ncatalog = { uri = "sqlite:///c.db", warehouse = "w" }',
        "the table cannot take the rows: Cannot change column type: n: long -> double",
    ),
    "jdbc": (
        f'jdbc = "{DERBY.format(name="stays")}"\ntable = "t"',
        "the table's column n is BIGINT, which would round its values: they are DOUBLE; cast them",
    ),
}


def found(world: World, kind: str) -> list[tuple[int, int]]:
    if kind == "jdbc":
        return sorted(derby(world.spark, "stays", 'SELECT "id", "n" FROM t'))
    if kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{world.directory}/c.db")
        rows = catalog.load_table("a.b").scan().to_arrow().to_pylist()
        return sorted((row["id"], row["n"]) for row in rows)
    if kind == "delta":
        from deltalake import DeltaTable

        rows = DeltaTable(str(world.directory / "rows")).to_pyarrow_table().to_pylist()
        return sorted((row["id"], row["n"]) for row in rows)
    return duckdb(f"SELECT id, n FROM '{world.directory}/rows/*.parquet' ORDER BY id")


@pytest.mark.parametrize("kind", STAYS)
def test_a_column_that_its_sink_cannot_change_stays_and_the_letter_says_why(
    world: World, kind: str
) -> None:
    sink, why = STAYS[kind]
    run_twice(world, sink)
    assert found(world, kind) == [(1, 1), (3, 3)]
    [(value, said)] = letters(world).items()
    assert value == b'{"id": 2, "n": 1.5}'
    assert said.startswith(f"n is not BIGINT: 1.5; n stays BIGINT: {why}")
    assert [each.startswith(f"orders: n stays BIGINT: {why}") for each in world.said] == [True]
    world.run(world.pipeline(FILE.format(sink=sink)))  # and another start still has BIGINT
    assert found(world, kind) == [(1, 1), (3, 3)] and len(letters(world)) == 1


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_step_that_casts_keeps_the_sinks_column(world: World, kind: str) -> None:
    text = FILE.format(sink=STAYS[kind][0])
    text = text.replace("value.*", "value.id, cast(value.n AS DOUBLE) AS n")
    world.topic("orders", ['{"id": 1, "n": 1}'], 1)
    world.run(world.pipeline(text))
    world.topic("orders", ['{"id": 2, "n": 1.5}'])
    world.run(world.pipeline(text))
    assert found(world, kind) == [(1, 1), (2, 1.5)]
    assert letters(world) == {}


def test_a_database_whose_column_has_fractions_takes_them(world: World) -> None:
    derby(world.spark, "takes", 'CREATE TABLE t ("id" BIGINT, "n" DOUBLE)')
    run_twice(world, f'jdbc = "{DERBY.format(name="takes")}"\ntable = "t"')
    rows = derby(world.spark, "takes", 'SELECT "id", "n" FROM t ORDER BY 1')
    assert rows == [(1, 1.0), (2, 1.5), (3, 3.0)]
    assert letters(world) == {}


def test_rows_that_a_table_would_round_are_refused_before_the_first_batch(world: World) -> None:
    derby(world.spark, "rounds", 'CREATE TABLE t ("id" BIGINT, "n" DECIMAL(10, 0))')
    world.topic("orders", ['{"id": 1, "n": 1.5}'], 1)
    pipeline = world.pipeline(
        FILE.format(sink=f'jdbc = "{DERBY.format(name="rounds")}"\ntable = "t"')
    )
    for start in (world.check, world.run):
        with pytest.raises(WrongPipeline, match="column n is DECIMAL, which would round its val"):
            start(pipeline)


STATE = {
    "a sum": ("sql", "SELECT id, sum(n) AS s FROM rows GROUP BY id", "update"),
    "a join": ("sql", "SELECT a.id, b.n FROM rows a JOIN rows b ON a.id = b.id", "append"),
}


@pytest.mark.parametrize("kind", STATE)
def test_a_column_in_a_state_stays(world: World, kind: str) -> None:
    _, sql, mode = STATE[kind]
    world.topic("out", (), 1)
    step = f'[[step]]\nname = "state"\nsql = "{sql}"\n[[sink]]'
    text = FILE.format(sink=f'topic = "out"\nmode = "{mode}"').replace("[[sink]]", step)
    pipeline = world.pipeline(text.replace('from = "rows"', 'from = "state"'))
    world.topic("orders", ['{"id": 1, "n": 1}'], 1)
    world.run(pipeline)
    world.topic("orders", ['{"id": 1, "n": 1.5}', '{"id": 1, "n": 4}'])
    world.run(pipeline)
    assert letters(world) == {
        b'{"id": 1, "n": 1.5}': "n is not BIGINT: 1.5; n stays BIGINT: the state of a step of"
        " state contains it, and its types are fixed"
    }
    assert len(world.rows("out")) > 1


def test_a_state_without_the_column_goes_on(world: World) -> None:
    world.topic("out", (), 1)
    step = '[[step]]\nname = "state"\nsql = "SELECT id, count(*) AS c FROM rows GROUP BY id"'
    text = FILE.format(sink='topic = "out"\nmode = "update"')
    text = text.replace("[[sink]]", f"{step}\n[[sink]]").replace('from = "rows"', 'from = "state"')
    world.topic("orders", ['{"id": 1, "n": 1}'], 1)
    world.run(world.pipeline(text))
    world.topic("orders", ['{"id": 1, "n": 1.5}', '{"id": 1, "n": 4}'])
    world.run(world.pipeline(text))
    assert world.rows("out") == [{"id": 1, "c": 1}, {"id": 1, "c": 3}]
    assert letters(world) == {}


def test_deduplication_keeps_its_keys_alone(world: World) -> None:
    (world.directory / "steps.py").write_text(
        "def once(spark, rows):\n    return rows.dropDuplicates(['id'])\n"
    )
    step = '[[step]]\nname = "state"\npython = "steps.py:once"\ninputs = ["rows"]\n[[sink]]'
    world.topic("out", (), 1)
    text = FILE.format(sink='topic = "out"').replace("[[sink]]", step)
    text = text.replace('from = "rows"', 'from = "state"')
    world.topic("orders", ['{"id": 1, "n": 1}'], 1)
    world.run(world.pipeline(text))
    world.topic("orders", ['{"id": 1, "n": 1}', '{"id": 2, "n": 1.5}', '{"id": 3.5}'])
    world.run(world.pipeline(text))
    assert world.rows("out") == [{"id": 1, "n": 1}, {"id": 2, "n": 1.5}]
    assert [*letters(world)] == [b'{"id": 3.5}']


def test_large_numbers_keep_a_column_from_being_double(world: World) -> None:
    world.topic("out", (), 1)
    text = FILE.format(sink='topic = "out"')
    world.topic("orders", ['{"id": 1, "in": {"n": 1}}'], 1)
    world.run(world.pipeline(text))
    values = ['{"id": 2, "in": {"n": 1.5}}', json.dumps({"id": 3, "in": {"n": LARGE}})]
    world.topic("orders", values)
    world.run(world.pipeline(text))
    assert world.rows("out")[1:] == [{"id": 3, "in": {"n": LARGE}}]
    said = f"stays BIGINT: DOUBLE cannot hold {LARGE}, a value of other records"
    assert [each.partition("; ")[2] for each in letters(world).values()] == [f"in.n {said}"]


def test_a_declared_type_stays_and_a_pipeline_that_stops_says_why(world: World) -> None:
    world.topic("out", (), 1)
    world.topic("orders", ['{"id": 1, "n": 1}', '{"id": 2, "n": 1.5}'], 1)
    text = FILE.format(sink='topic = "out"').replace(
        '"json"', '"json"\nfields = "id BIGINT, n BIGINT"'
    )
    text = text.replace('"dlq"', '"stop"').replace('dead_letters = "dead"', "")
    with pytest.raises(
        PipelineFailed, match=r"offset 1: n is not BIGINT: 1\.5; n is declared as B"
    ):
        world.run(world.pipeline(text))
    world.run(world.pipeline(text.replace("n BIGINT", "n DOUBLE")))
    assert world.rows("out") == [{"id": 1, "n": 1}, {"id": 2, "n": 1.5}]


NEW = '{"id": 2, "n": 2, "more": "x"}'


@pytest.mark.parametrize("kind", ["topic", *STAYS])
def test_a_new_field_is_a_new_column_but_not_in_a_database(world: World, kind: str) -> None:
    sink = 'topic = "out"' if kind == "topic" else STAYS[kind][0].replace("stays", "new")
    world.topic("out", (), 1)
    world.topic("orders", ['{"id": 1, "n": 1}'], 1)
    pipeline = world.pipeline(FILE.format(sink=sink))
    world.run(pipeline)
    world.topic("orders", [NEW])
    if kind == "jdbc":
        with pytest.raises(WrongPipeline, match="the table t has no column 'more'; it has id, n"):
            world.run(pipeline)
        return
    world.run(pipeline)
    assert rows_of(world, kind)[1] == json.loads(NEW)


def rows_of(world: World, kind: str) -> list[dict[str, Any]]:
    """The rows of a sink by their ids."""
    if kind == "topic":
        rows = world.rows("out")
    elif kind == "parquet":
        files = f"read_parquet('{world.directory}/rows/*.parquet', union_by_name = true)"
        [rows] = duckdb(f"SELECT list(r) FROM {files} r")[0]
    elif kind == "delta":
        from deltalake import DeltaTable

        rows = DeltaTable(str(world.directory / "rows")).to_pyarrow_table().to_pylist()
    else:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("default", type="sql", uri=f"sqlite:///{world.directory}/c.db")
        rows = catalog.load_table("a.b").scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("kind", "registers", "why"),
    [
        ("avro", True, None),
        ("avro", False, "n is double, but the schema has long"),
        ("protobuf", True, "n is double, "),  # a message keeps its fields
    ],
)
def test_a_topic_with_schemas_takes_what_its_schema_can_be(
    world: World, kind: str, registers: bool, why: str | None
) -> None:
    (world.directory / "registry").mkdir()
    schemas = Schemas(str(world.directory / "registry"))
    if not registers:
        schemas.register("out-value", order(id="long", n="long"))
    world.topic("out", (), 1)
    options = f'{{ "auto.register.schemas" = {str(registers).lower()} }}'
    sink = f'topic = "out"\nformat = "{kind}"\noptions = {options}\n'
    run_twice(world, f'{sink}[schema_registry]\nurl = "{world.directory}/registry"')
    read = Deserializer(schemas.by_id)
    rows = [read.decode(value or b"") for _, value, _ in world.committed("out")]
    taken = [] if why else [{"id": 2, "n": 1.5}]
    assert [{"id": int(row["id"]), "n": float(row["n"])} for row in rows] == [
        {"id": 1, "n": 1},
        *taken,
        {"id": 3, "n": 3},
    ]
    assert [why in said if why else said for said in letters(world).values()] == [True] * bool(why)


def test_a_directory_without_files_takes_doubles(world: World) -> None:
    text = FILE.format(sink='parquet = "rows"').replace(
        "FROM orders", "FROM orders WHERE value.id > 1"
    )
    world.topic("orders", ['{"id": 1, "n": 1}'], 1)
    world.run(world.pipeline(text))
    world.topic("orders", ['{"id": 2, "n": 1.5}'])
    world.run(world.pipeline(text))
    assert found(world, "parquet") == [(2, 1.5)]
    assert letters(world) == {}


def order(**kinds: str) -> Schema:
    fields = [{"name": name, "type": kind, "default": 0} for name, kind in kinds.items()]
    return Schema(json.dumps({"type": "record", "name": "Order", "fields": fields}))


FIRST = order(id="long", i="int", f="float")
SECOND = order(id="long", i="long", f="double")
SMALL = {"id": 1, "i": 1, "f": 0.5}
WIDE = {"id": 2, "i": 2**40, "f": 1e300}


def produce(world: World, schema: Schema, value: dict[str, Any]) -> None:
    """Appends a value of a schema, which is registered in a directory."""
    registry = world.directory / "registry"
    registry.mkdir(exist_ok=True)
    write = encoder(Resolved(schema), Schemas(str(registry)).register("orders-value", schema))
    world.topic("orders", [write(value)], 1)


def run_versions(world: World, sink: str) -> None:
    """A run with the first version, and one with the second, whose numbers are wider."""
    text = FILE.replace('value = "json"', 'value = "avro"')
    registry = f'[schema_registry]\nurl = "{world.directory}/registry"\n[[source]]'
    pipeline = world.pipeline(text.format(sink=sink).replace("[[source]]", registry, 1))
    for schema, value in ((FIRST, SMALL), (SECOND, WIDE)):
        produce(world, schema, value)
        world.run(pipeline)


@pytest.mark.parametrize("kind", ["topic", "parquet", "iceberg"])
def test_a_version_with_wider_numbers_is_used(world: World, kind: str) -> None:
    world.topic("out", (), 1)
    run_versions(world, 'topic = "out"' if kind == "topic" else STAYS[kind][0])
    assert rows_of(world, kind) == [SMALL, WIDE]
    assert letters(world) == {} and world.said == []
    if kind == "parquet":
        read = world.spark.read.schema("id BIGINT, i BIGINT, f DOUBLE")
        rows = read.parquet(f"file://{world.directory}/rows").orderBy("id").collect()
        assert [row.asDict() for row in rows] == [SMALL, WIDE]


def test_a_delta_table_keeps_the_version_before(world: World) -> None:
    run_versions(world, 'delta = "rows"')
    assert rows_of(world, "delta") == [SMALL]
    [why] = letters(world).values()
    assert "long" in why
    assert world.said == [
        (
            "orders: version 2 of the value's schema is not used, because it has wider numbers: the"
            " table's column i is integer, but the new values are long; write them to another"
            " table, or cast them."
        )
    ]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ('"i" INTEGER, "f" DOUBLE', "column i is INTEGER, and cannot hold BIGINT"),
        ('"i" BIGINT, "f" REAL', "column f is REAL, and cannot hold DOUBLE"),
        ('"i" BIGINT, "f" DOUBLE', None),
    ],
)
def test_a_database_takes_wider_numbers_if_its_columns_hold_them(
    world: World, columns: str, said: str | None
) -> None:
    name = world.directory.name.replace("-", "_")
    derby(world.spark, name, f'CREATE TABLE t ("id" BIGINT, {columns})')
    run_versions(world, f'jdbc = "{DERBY.format(name=name)}"\ntable = "t"')
    rows = derby(world.spark, name, 'SELECT * FROM t ORDER BY "id"')
    assert rows == [tuple(SMALL.values()), *([tuple(WIDE.values())] if said is None else [])]
    assert len(letters(world)) == len(world.said) == (0 if said is None else 1)
    assert said is None or said in world.said[0]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_resumed_export_takes_wider_numbers_that_its_table_can_have(
    world: World, kind: str
) -> None:
    given = ExportOptions(
        bootstrap=world.bootstrap,
        topic="orders",
        directory=world.directory / "out",
        value="avro",
        table=None if kind == "parquet" else kind,
        schemas={"schema.registry.url": str(world.directory / "registry")},
    )
    produce(world, FIRST, SMALL)
    export(given, spark=world.spark)
    produce(world, SECOND, WIDE)
    again = replace(given, mode="resume", evolve=True)
    if kind == "delta":
        with pytest.raises(SparkFailed, match="offset 1 of orders-0 cannot be decoded: "):
            export(again, spark=world.spark)
        return
    assert export(again, spark=world.spark).records == 1
    if kind == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("pk", uri=f"sqlite:///{world.directory}/out/_pk_catalog.db")
        rows = catalog.load_table("pk.export").scan().to_arrow().sort_by("offset")
        assert rows.column("value").to_pylist() == [SMALL, WIDE]
        return
    files = f"read_parquet('{world.directory}/out/*.parquet', union_by_name = true)"
    assert duckdb(f'SELECT value FROM {files} ORDER BY "offset"') == [(SMALL,), (WIDE,)]
    read = world.spark.read.schema("value STRUCT<id: BIGINT, i: BIGINT, f: DOUBLE>, offset BIGINT")
    found = read.parquet(f"file://{world.directory}/out").orderBy("offset").collect()
    assert [row["value"].asDict() for row in found] == [SMALL, WIDE]
