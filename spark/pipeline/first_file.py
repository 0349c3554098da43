"""The file that `pk spark pipeline init` writes: a working pipeline, with comments that name the
other features."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pk.spark.text.new_fields import in_one_case

_NAME: Final = re.compile(r"[^A-Za-z0-9_]+")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def first_file(name: str, topic: str, bootstrap: str, values: Sequence[bytes]) -> str:
    """The text of a pipeline's file for a topic with these values; `name` is the pipeline's
    name."""
    fields = fields_of(values)
    mixed = "".join(f"# {each}.\n" for each in mixed_fields(values))
    return _FILE.format(
        name=_pipeline_name(name),
        topic=topic,
        bootstrap=bootstrap,
        source=relation_name(topic),
        value=_BYTES if fields is None else mixed + _declared(fields),
        columns=_columns(fields or {}),
        errors=_NO_ERRORS.format(topic=topic) if fields is None else _ERRORS.format(topic=topic),
    )


def _declared(fields: Mapping[str, str]) -> str:
    listed = ",\n  ".join(f"{quoted(name)} {kind}" for name, kind in fields.items())
    return _JSON.format(listed=listed)


def _columns(fields: Mapping[str, str]) -> str:
    """The columns that the first step selects: the record's time as `at`, and the fields."""
    times = [name for name, kind in fields.items() if kind == "TIMESTAMP"]
    if times and (times[0] == "at" or "at" not in fields):
        return "value.*" if times[0] == "at" else f"value.{quoted(times[0])} AS at, value.*"
    return "timestamp AS at, value.*" if fields and "at" not in fields else "timestamp AS at"


def relation_name(topic: str) -> str:
    """A relation name for a topic that is valid in SQL."""
    found = _NAME.sub("_", topic).strip("_") or "records"
    return found if found[0].isalpha() else f"t_{found}"


def _pipeline_name(name: str) -> str:
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")
    return found or "pipeline"


def quoted(name: str) -> str:
    """A name, quoted for Spark's SQL if necessary."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def fields_of(values: Iterable[bytes]) -> dict[str, str] | None:
    """Infer the fields of the JSON objects among the values, with their types in DDL. None if there
    are no objects. If names differ only in case, only the first one is a field."""
    kinds: dict[str, str | None] = {}
    seen = False
    for text in in_one_case(values):
        seen = True
        for name, inner in cast(dict[str, Any], json.loads(text)).items():
            kinds[name] = _both(kinds.get(name), _kind(inner))
    if not seen or not kinds:
        return None
    return {name: kind or "STRING" for name, kind in kinds.items()}


def mixed_fields(values: Iterable[bytes]) -> list[str]:
    """Messages about fields that are strings only because their values have different types."""
    kinds: dict[str, Counter[str]] = {}
    for text in in_one_case(values):
        for name, inner in cast(dict[str, Any], json.loads(text)).items():
            kind = _kind(inner)
            if kind is not None:
                kinds.setdefault(name, Counter())[kind] += 1
    said: list[str] = []
    for name, counts in kinds.items():
        joined: str | None = None
        for kind in counts:
            joined = _both(joined, kind)
        (most, number), *others = counts.most_common()
        if joined == "STRING" and most != "STRING":
            shown = name if _PLAIN.fullmatch(name) else json.dumps(name)
            rest = " and ".join(f"{count:,} {kind}" for kind, count in others[:3])
            said.append(
                f"{shown} is STRING: of {counts.total():,} values {number:,} are {most}, {rest}"
            )
    return said


def _kind(value: object) -> str | None:
    """The type of a JSON value; None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -(2**63) <= value < 2**63 else "DOUBLE"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, str):
        if _TIME.fullmatch(value):
            return "TIMESTAMP"
        return "DATE" if _DATE.fullmatch(value) else "STRING"
    if isinstance(value, list):
        inner: str | None = None
        for each in cast(list[Any], value):
            inner = _both(inner, _kind(each))
        return f"ARRAY<{inner or 'STRING'}>"
    fields = cast(dict[str, Any], value)
    if not fields:
        return "MAP<STRING, STRING>"
    listed = ", ".join(f"{quoted(k)}: {_kind(v) or 'STRING'}" for k, v in fields.items())
    return f"STRUCT<{listed}>"


def _both(one: str | None, other: str | None) -> str | None:
    """A type that holds the values of both types."""
    if one is None or other is None or one == other:
        return one or other
    if {one, other} == {"BIGINT", "DOUBLE"}:
        return "DOUBLE"
    if one.startswith("STRUCT") and other.startswith("STRUCT"):
        return max(one, other, key=len)
    return "STRING"


_BYTES: Final = """\
# The values are not JSON objects, so they are bytes here; value = "string" reads them as strings.
value = "bytes"\
"""
_JSON: Final = '''\
value = "json"
# From a sample. Without `fields`, pk takes them from the topic at the first run.
fields = """
  {listed}"""\
'''
_ERRORS: Final = """\
on_error = "dlq"
dead_letters = "{topic}-dead-letters"\
"""
_NO_ERRORS: Final = """\
# on_error = "dlq"
# dead_letters = "{topic}-dead-letters"\
"""

_FILE: Final = '''\
# A pipeline of pk. `pk spark pipeline check` checks it, `pk spark pipeline run` runs it; docs/pipelines.md explains every key.
# Paths are relative to this file.

name = "{name}"
# The directory that stores the progress: the next run continues from it. Without it the pipeline begins again.
checkpoint = "{name}.checkpoint"
# What to do with records that do not parse, or with which a step fails: stop, skip, or dlq, which writes them to
# a topic of dead letters.
{errors}
# New fields in JSON values: evolve adds columns for them, fixed leaves them out.
schema = "evolve"
# The group that gets the offsets, for tools that show lag (default: the pipeline's name).
# group = "{name}"
# The minimum time from one batch to the next (default: a batch begins when the previous one ends).
# every = "10 seconds"

[kafka]  # configs of Kafka's clients
"bootstrap.servers" = "{bootstrap}"

# [schema_registry]  # for keys and values in avro, json-schema or protobuf
# url = "http://localhost:8081"

# [spark]  # settings of Spark, and jars such as a database's JDBC driver
# jars = ["sqlite-jdbc.jar"]
# "spark.sql.shuffle.partitions" = 4

# A source is a stream; SQL knows it by its name. Its columns: key, value, topic, partition, offset, timestamp.
[[source]]
name = "{source}"
topic = "{topic}"
key = "string"
{value}
start = "earliest"  # or latest: where a new pipeline begins
# Other sources:
#   topic = "payments", value = "avro" (json-schema, protobuf), with the schemas of [schema_registry]
#   files = "incoming", format = "csv" (json, parquet, text, orc), fields = "id BIGINT, name STRING"
#   jdbc = "jdbc:sqlite:shop.db", table = "customers", changes = ["updated_at", "id"]

# [[table]]  # each batch reads it completely: for enrichment
# name = "customers"
# files = "customers.csv"
# format = "csv"
# options = {{ header = true }}

# A step computes rows from rows, with SQL or with a function in a Python file.
[[step]]
name = "clean"
sql = """
SELECT {columns}
FROM {source}
"""
watermark = {{ column = "at", delay = "10 minutes" }}  # rows that come later than this are left out

[[step]]
name = "per_minute"
sql = """
SELECT window.start AS minute, count(*) AS records
FROM clean
GROUP BY window(at, '1 minute')
"""

# A Python step: the function is def alerts(spark, clean), and returns a data frame.
# [[step]]
# name = "alerts"
# python = "alerts.py:alerts"
# inputs = ["clean"]

# A sink takes the rows of a source or step. A topic gets them exactly once.
[[sink]]
from = "per_minute"
topic = "{topic}-per-minute"
key = "cast(minute AS string)"
# mode = "update"  # writes each change at once; append (the default) writes a window when it is complete
# Other sinks:
#   parquet = "out/orders", partition_by = ["day"]
#   delta = "out/orders"
#   iceberg = "shop.orders", catalog = {{ type = "sql", uri = "sqlite:///catalog.db", warehouse = "tables" }}
#   jdbc = "jdbc:sqlite:shop.db", table = "totals", key = ["minute"], mode = "update"
'''
