"""The contents allowed in a pipeline's file, and the errors for anything else."""

from __future__ import annotations

import pytest
from each import for_each

from pk.spark.pipeline.definition import (
    DeltaSink,
    IcebergSink,
    JdbcSource,
    Pipeline,
    TopicSink,
    TopicSource,
    Watermark,
    WrongPipeline,
    parse_pipeline,
)

GOOD = """\
name = "orders"
checkpoint = "cp"
on_error = "dlq"
dead_letters = "dead"

[kafka]
bootstrap.servers = "a:1"
"isolation.level" = "read_committed"

[[source]]
name = "orders"
topic = "orders"
value = "json"
watermark = { column = "timestamp", delay = "1 minute" }
options = { maxOffsetsPerTrigger = 100, failOnDataLoss = false }

[[source]]
name = "customers"
jdbc = "jdbc:sqlite:x.db"
table = "customers"
changes = ["at", "id"]

[[table]]
name = "cities"
files = "cities.csv"
format = "csv"

[[step]]
name = "joined"
sql = "SELECT 1"

[[step]]
name = "alerts"
python = "alerts.py:alerts"
inputs = ["joined"]

[[sink]]
from = "joined"
topic = "out"
key = "id"

[[sink]]
from = "alerts"
iceberg = "a.b"
catalog = { type = "sql", uri = "sqlite:///c.db" }
"""


def parsed(text: str) -> Pipeline:
    return parse_pipeline(text, "p.toml")


def test_a_file_becomes_a_pipeline() -> None:
    pipeline = parsed(GOOD)
    orders, customers = pipeline.sources
    assert isinstance(orders, TopicSource) and isinstance(customers, JdbcSource)
    assert orders.watermark == Watermark(column="timestamp", delay="1 minute")
    assert orders.options == {"maxOffsetsPerTrigger": "100", "failOnDataLoss": "false"}
    assert customers.changes == ("at", "id")
    assert pipeline.kafka == {"bootstrap.servers": "a:1", "isolation.level": "read_committed"}
    assert (pipeline.group, pipeline.schema, pipeline.every) == ("orders", "evolve", None)
    out, table = pipeline.sinks
    assert isinstance(out, TopicSink) and (out.key, out.mode, out.name) == (
        "id",
        "append",
        "joined",
    )
    assert isinstance(table, IcebergSink) and table.catalog["type"] == "sql"


@for_each(
    ("old", "new", "said"),
    [
        ('name = "orders"\nch', "ch", "1:1: name is missing: it names the pipeline"),
        ('"cp"', '"s3://a/b"', "2:1: a jdbc source needs a checkpoint in a directory"),
        ('"cp"', '"s3:/a/b"', "2:1: checkpoint must be a URL such as s3://… or a directory on this machine, not 's3:/a/b'"),
        ('"cp"', '"file://host/b"', "2:1: checkpoint must be a URL such as s3://… or a directory on this machine, not 'file:"),
        ('iceberg = "a.b"', 'delta = "s3:/a/b"', "44:1: delta must be a URL such as s3://… or a directory on this machine, not 's3:/a/b'"),
        ('"sqlite:///c.db"', '"sqlite:///c.db", warehouse = "odd://a"', "45:51: warehouse must be a URL such as s3://… or a directory on this machine, not 'odd://a'"),
        ("[[source]]", '[spark]\njars = ["a.jar", "s3://b.jar"]\n[[source]]', "11:18: a jar must be a file on this machine, not 's3://b.jar'"),
        ('"dead"', '"file:///dead"', "4:1: 'file:///dead' is not a valid topic name"),
        ('table = "customers"', 'table = "customers"\nevery = "soon"', "21:1: every must look like 500ms, 10s or 5m, not 'soon'"),
        ('"dlq"', '"dql"', "3:1: on_error must be stop or skip or dlq, not 'dql'; did you mean dlq?"),
        ('"dlq"', '"stop"', '4:1: dead_letters has no effect without on_error = "dlq"'),
        ('dead_letters = "dead"', "", "3:1: dead_letters is missing"),
        ('"dead"', '"de ad"', "4:1: 'de ad' is not a valid topic name"),
        ('topic = "orders"', 'topik = "orders"', "10:1: a [[source]] needs one of topic, files or jdbc"),
        ('value = "json"', 'valu = "json"', "13:1: valu is not a key of a [[source]] of this kind; did you mean value?"),
        ('column = "timestamp", ', "", "14:1: column is missing: the column with the time"),
        ("maxOffsetsPerTrigger = 100", "max = [1]", "15:13: max must be a string, a number, true or false, not an array"),
        ('changes = ["at", "id"]', "", "17:1: changes is missing: columns that grow"),
        ('"jdbc:sqlite:x.db"', '"sqlite:x.db"', "19:1: a JDBC URL begins with jdbc:"),
        ('files = "cities.csv"', 'topic = "cities"', "23:1: a [[table]] needs one of files or jdbc; none"),
        ('"csv"', '"cvs"', "26:1: format must be parquet or json or csv or text or orc, not 'cvs'"),
        ('name = "joined"\n', 'name = "jo ined"\n', "29:1: name must consist of letters, digits and '_'"),
        ('"SELECT 1"', '"SELECT 1"\npython = "a.py:b"', "31:1: a [[step]] needs one of sql or python; sql and python are given"),
        ('"alerts.py:alerts"', '"alerts"', "34:1: python must be FILE.py:FUNCTION"),
        ('inputs = ["joined"]', 'inputs = ["joind"]', "35:11: no source, table or step before this is named 'joind'; did you mean joined?"),
        ('name = "alerts"', 'name = "Orders"', "33:1: the name Orders is used twice"),
        ('from = "joined"', 'from = "jined"', "38:1: no source, table or step before this is named 'jined'"),
        ('key = "id"', 'key = "id"\nmode = "replace"', "41:1: mode must be append or update or complete"),
        ('iceberg = "a.b"', 'iceberg = "b"', "44:1: iceberg must be NAMESPACE.TABLE, not 'b'"),
        ('type = "sql"', 'type = "sqll"', "45:1: a catalog's type must be"),
        ('from = "alerts"', 'from = "joined"', "two sinks have the name joined"),
        ('[[sink]]\nfrom = "joined"', '[[sinks]]\nfrom = "joined"', "37:1: sinks is not a key of a pipeline; did you mean sink?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(WrongPipeline) as raised:
        parsed(GOOD.replace(old, new, 1))
    assert said in str(raised.value), str(raised.value)


UPSERT = """\
name = "p"
checkpoint = "cp"
[[source]]
name = "changes"
topic = "changes"
[[sink]]
from = "changes"
delta = "d"
mode = "upsert"
key = "id"
delete = "op = 'd'"
leave_out = ["op"]
"""


@for_each(
    ("old", "new", "said"),
    [
        ('key = "id"', "", '9:1: mode = "upsert" needs a key: the columns that identify a row'),
        ('"upsert"', '"append"', '10:1: key has no effect without mode = "upsert"'),
        ('"upsert"', '"append"', '11:1: delete has no effect without mode = "upsert"'),
        ('"upsert"', '"append"', '12:1: leave_out has no effect without mode = "upsert"'),
        ('["op"]', '["op", "id"]', "12:1: id cannot be left out, because it is in the key"),
        ('"upsert"', '"update"', "9:1: a delta sink only appends or upserts"),
        ("delta", "parquet", "9:1: a parquet sink cannot upsert; delta, iceberg and jdbc sinks"),
        ("delta", "topic", "9:1: a topic sink cannot upsert; delta, iceberg and jdbc sinks can"),
        ('delta = "d"', 'jdbc = "jdbc:x:y"\ntable = "t"\norder_by = "a"', None),
    ],
)  # fmt: skip
def test_an_upsert(old: str, new: str, said: str | None) -> None:
    [sink] = parsed(UPSERT).sinks
    assert isinstance(sink, DeltaSink) and (sink.key, sink.delete) == (("id",), "op = 'd'")
    assert sink.output_mode == "update"
    if said is None:
        parsed(UPSERT.replace(old, new))
        return
    with pytest.raises(WrongPipeline) as raised:
        parsed(UPSERT.replace(old, new))
    assert said in str(raised.value), str(raised.value)


def test_everything_that_is_wrong_is_said_in_order() -> None:
    with pytest.raises(WrongPipeline) as raised:
        parsed('checkpoint = 3\n[[sink]]\nfrom = "x"\ndelta = "d"\nmode = "update"\n')
    lines = str(raised.value).splitlines()
    assert [line.split(": ", 1)[1] for line in lines] == [
        "a pipeline needs at least one [[source]]",
        "checkpoint must be a string, not 3",
        "name is missing: it names the pipeline",
        "no source, table or step before this is named 'x'",
        "a delta sink only appends or upserts; a jdbc sink with a key can update",
    ]


def test_options_may_name_variables_of_the_environment() -> None:
    text = GOOD.replace("maxOffsetsPerTrigger = 100", 'a = "x${env:PASSWORD}y"')
    source = parse_pipeline(text, "p.toml", {"PASSWORD": "s"}).topics[0]
    assert source.options["a"] == "xsy"
    with pytest.raises(WrongPipeline, match="15:13: the environment variable PASSWORD is not set"):
        parse_pipeline(text, "p.toml", {})


def test_what_is_not_toml_is_said_with_its_place() -> None:
    with pytest.raises(WrongPipeline, match=r"^p\.toml:2:5: "):
        parsed("a = 1\nb = = 2\n")


def test_keys_with_schemas() -> None:
    text = GOOD.replace('value = "json"', 'key = "avro"').replace(
        'topic = "out"', 'topic = "out"\nkey_format = "json-schema"'
    )
    pipeline = parsed(f"{text}[schema_registry]\nurl = 'http://r'")
    [orders] = pipeline.topics
    assert orders.formats == {"key": "avro"} and orders.may_fail
    out = pipeline.sinks[0]
    assert isinstance(out, TopicSink) and out.formats == {"key": "json-schema"}
    with pytest.raises(WrongPipeline, match="key must be bytes or string or avro or json-schema"):
        parsed(text.replace('key = "avro"', 'key = "json"'))
    with pytest.raises(WrongPipeline, match="key_format must be avro or json-schema or protobuf"):
        parsed(text.replace('"json-schema"', '"json"'))


def test_values_with_schemas() -> None:
    text = GOOD.replace('value = "json"', 'value = "avro"').replace(
        'topic = "out"', 'topic = "out"\nformat = "protobuf"'
    )
    pipeline = parse_pipeline(
        f"{text}[schema_registry]\nurl = 'http://r'\n'basic.auth.user.info' = '${{env:LOGIN}}'",
        "p.toml",
        {"LOGIN": "a:s3cret"},
    )
    [orders] = pipeline.topics
    assert orders.format == "avro" and orders.may_fail
    assert isinstance(pipeline.sinks[0], TopicSink) and pipeline.sinks[0].format == "protobuf"
    assert pipeline.registry["basic.auth.user.info"] == "a:s3cret"
    assert "s3cret" not in repr(pipeline.registry and pipeline)
    with pytest.raises(WrongPipeline, match="no source or sink has keys or values in avro, json-"):
        parsed(f"{GOOD}[schema_registry]\nurl = 'http://r'")
