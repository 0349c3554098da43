"""Creates Spark's data frames for a pipeline's sources, tables and steps, each also as a view that
SQL steps can use.

No query is started: Spark's analyzer checks each step, and its errors are reported with their
position in the file.
"""

import importlib.util
import operator
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from pk.net.client.errors import ConfigError
from pk.spark.errors import OptionError
from pk.spark.files.object_path import spark_url
from pk.spark.pipeline import json_values
from pk.spark.pipeline.dead_letters import letters, size_limit
from pk.spark.pipeline.definition import (
    FileSource,
    JdbcSource,
    Pipeline,
    Relation,
    Step,
    TopicSource,
    WrongPipeline,
)
from pk.spark.pipeline.document import Problem
from pk.spark.pipeline.failed_records import FailedRecord
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.registry_sources import has_bytes, source_options
from pk.spark.pipeline.row_filters import is_one_of
from pk.spark.pipeline.status import READ
from pk.spark.pipeline.text_files import text_files
from pk.spark.pipeline.upgrade import sources_of
from pk.spark.read.options import parse_options
from pk.spark.reasons import has_no_driver, jdbc_sentence, sentence, silence_query_log
from pk.spark.schemas.options import split_options
from pk.spark.text.json_columns import JsonFields, json_parser

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_POSITION: Final = re.compile(r"line (\d+),? pos (\d+)")
_NO_VIEW: Final = "TABLE_OR_VIEW_NOT_FOUND"
_JSON: Final = "_pk_json"
_RECORD: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


@dataclass
class Relations:
    """The data frames of a pipeline."""

    frames: dict[str, "DataFrame"] = field(default_factory=dict[str, "DataFrame"])
    dead_letters: dict[str, "DataFrame"] = field(default_factory=dict[str, "DataFrame"])
    """Source → its records that do not parse, as dead letters."""

    uses: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Relation → the sources that its rows come from."""


class _Bad(NamedTuple):
    """A condition for records that do not parse, and the reason."""

    where: "Column"
    why: "Column"


class Builder:
    """A builder of a pipeline's relations in a session."""

    def __init__(
        self,
        spark: "SparkSession",
        pipeline: Pipeline,
        places: Places,
        kafka: Mapping[str, str],
        fields: Mapping[str, JsonFields],
        versions: Mapping[str, Mapping[str, str]] | None = None,
        *,
        without: Sequence[FailedRecord] = (),
        records: "Mapping[str, DataFrame] | None" = None,
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._places = places
        self._kafka = kafka
        """The data source's options of the topics: broker addresses and client configs."""

        self._fields = fields
        """Source → the fields of its JSON values."""

        self._versions = versions or {}
        """Source → the options that set the schema versions for reading."""

        self._without = without
        """Records that are skipped, because a step fails with them."""

        self._records = records or {}
        """Source → the records of a batch, which replace the stream."""

        self._built = Relations()

    def build(self) -> Relations:
        """Build all relations. Raises WrongPipeline with the problems of all steps."""
        silence_query_log()
        problems: list[Problem] = []
        missing: set[str] = set()
        pipeline = self._pipeline
        for relation in (*pipeline.sources, *pipeline.tables, *pipeline.steps):
            try:
                frame = self._frame(relation)
                if relation.watermark is not None:
                    frame = self._with_watermark(relation, frame)
            except WrongPipeline as e:
                # A step that uses a wrong step is not reported too.
                if not _uses(relation, e.__cause__, missing):
                    problems += e.problems
                missing.add(relation.name)
                continue
            frame.createOrReplaceTempView(relation.name)
            self._built.frames[relation.name] = frame
            self._built.uses[relation.name] = sources_of(relation, self._built.uses)
        if problems:
            raise WrongPipeline(pipeline.file, problems)
        return self._built

    def _frame(self, relation: Relation) -> "DataFrame":
        if isinstance(relation, TopicSource):
            return self._topic(relation)
        if isinstance(relation, Step):
            return self._sql(relation) if relation.sql is not None else self._python(relation)
        stream = relation in self._pipeline.sources
        if isinstance(relation, FileSource):
            return self._files(relation, stream)
        assert isinstance(relation, JdbcSource)
        return self._changes(relation) if stream else self._table(relation)

    def _with_watermark(self, relation: Relation, frame: "DataFrame") -> "DataFrame":
        watermark = relation.watermark
        assert watermark is not None
        if watermark.column not in frame.columns:
            known = ", ".join(frame.columns)
            path = (*relation.path, "watermark", "column")
            message = f"{relation.name} has no column {watermark.column!r}; it has {known}"
            raise self._pipeline.problem(path, message)
        try:
            marked = frame.withWatermark(watermark.column, watermark.delay)
            _ = marked.schema
            return marked
        except PySparkException as e:
            raise self._pipeline.problem((*relation.path, "watermark"), sentence(e)) from e

    def _topic(self, source: TopicSource) -> "DataFrame":
        given = source_options(self._pipeline, source, self._kafka)
        given |= self._versions.get(source.name, {})
        try:
            # Spark creates the source only when the query starts.
            parse_options(split_options(given)[0], stream=True)
        except (OptionError, ConfigError) as e:
            raise self._pipeline.problem((*source.path, "options"), str(e)) from e
        options = {name.lower(): value for name, value in source.options.items()}
        headers = options.get("includeheaders", "false") == "true"
        dead = self._pipeline.on_error == "dlq" and source.may_fail
        if source.name in self._records:
            raw = self._records[source.name]
        else:
            reader = self._spark.readStream.format("pk").options(**given)
            reader = reader.option("startingOffsets", source.start)
            raw = reader.option("includeHeaders", str(headers or dead).lower()).load()
            # The offsets would also count transaction markers and records that were compacted away.
            raw = raw.observe(f"{READ}{source.name}", f.count(f.lit(1)).alias("records"))
        left_out = [each for each in self._without if each.topic == source.topic]
        if left_out:
            raw = raw.where(~is_one_of(left_out))
        columns = {name: f.col(name) for name in _RECORD}
        if headers:
            columns["headers"] = f.col("headers")
        if source.key == "string":
            columns["key"] = f.col("key").cast("string")
        bad: list[_Bad] = []
        if source.key_format is not None:
            error = f.col("key_error")
            bad.append(_Bad(error.isNotNull(), f.concat(f.lit("key: "), error["message"])))
        if source.format is not None:
            error = f.col("value_error")
            bad.append(_Bad(error.isNotNull(), error["message"]))
        elif source.value == "string":
            columns["value"] = f.col("value").cast("string")
        elif source.value == "json":
            raw = self._json(source, raw)
            columns["value"] = f.col(_JSON)["value"]
            error = f.col(_JSON)["error"]
            bad.append(_Bad(error.isNotNull(), error))
        if bad:
            raw = self._good(source, raw, bad)
        return raw.select(*_named(columns))

    def _json(self, source: TopicSource, raw: "DataFrame") -> "DataFrame":
        """Add the parsed JSON value as a struct, or the reason why it does not parse. If the schema
        evolves, a record with an unknown field makes the batch fail."""
        evolves = self._pipeline.schema == "evolve"
        try:
            parse = json_parser(self._spark, self._fields[source.name], evolves=evolves)
        except OptionError as e:
            raise self._pipeline.problem((*source.path, "fields"), str(e)) from e
        raw = raw.withColumn(_JSON, parse("value"))
        if not evolves:
            return raw
        new = f.col(_JSON)["new"]
        raised = json_values.raise_new_fields(source.name, new)
        return raw.where(f.when(new.isNull(), f.lit(True)).otherwise(raised))

    def _good(self, source: TopicSource, raw: "DataFrame", found: "Sequence[_Bad]") -> "DataFrame":
        """The records that parse. The others are handled as `on_error` says."""
        bad = reduce(operator.or_, (each.where for each in found))
        why = found[0].why
        if len(found) > 1:
            why = f.concat_ws("; ", *(f.when(each.where, each.why) for each in found))
        if self._pipeline.on_error == "stop":
            raised = json_values.raise_bad_record(why)
            return raw.where(f.when(bad, raised).otherwise(f.lit(True)))
        if self._pipeline.on_error == "dlq":
            found_bad = self._letters(source, raw.where(bad), why)
            self._built.dead_letters[source.name] = found_bad.observe(
                f"dead_letters_{source.name}", f.count(f.lit(1)).alias("records")
            )
            return raw.where(~bad)
        marked = raw.withColumn("_pk_bad", bad)
        count = f.count_if(f.col("_pk_bad")).alias("records")
        return marked.observe(f"skipped_{source.name}", count).where(~f.col("_pk_bad"))

    def _letters(self, source: TopicSource, raw: "DataFrame", why: "Column") -> "DataFrame":
        """The dead letters of records that do not parse, with the original bytes."""
        key, value = f.col("key"), f.col("value")
        if has_bytes(self._pipeline, source):
            key = f.col("key_bytes")
        if source.format is not None:
            kept = has_bytes(self._pipeline, source)
            value = f.col("value_bytes") if kept else f.col("value_error")["bytes"]
        says = {"pipeline": f.lit(self._pipeline.name), "message": why}
        return letters(raw, self._pipeline.dead_letters, key, value, says, size_limit(self._kafka))

    def _files(self, source: FileSource, stream: bool) -> "DataFrame":
        where = spark_url(self._places.url(source.files))
        spark, fields = self._spark, source.fields
        try:
            if source.format in ("csv", "json"):
                schema = None if fields is None else parse_fields(self._pipeline, source, fields)
                return text_files(
                    spark, source.format, where, source.options, schema, stream=stream
                )
            if fields is None and stream:
                found = spark.read.format(source.format).options(**source.options).load(where)
                schema = found.schema
            else:
                schema = None if fields is None else parse_fields(self._pipeline, source, fields)
            reader = spark.readStream if stream else spark.read
            reader = reader.format(source.format).options(**source.options)
            return (reader if schema is None else reader.schema(schema)).load(where)
        except OptionError as e:
            raise self._pipeline.problem((*source.path, "files"), str(e)) from e
        except PySparkException as e:
            raise self._pipeline.problem((*source.path, "files"), sentence(e)) from e

    def _table(self, source: JdbcSource) -> "DataFrame":
        reader = self._spark.read.format("jdbc").options(**source.options)
        try:
            return (
                reader.option("url", self._places.jdbc(source.jdbc))
                .option("dbtable", source.table)
                .load()
            )
        except Exception as e:
            path, passing = (*source.path, "jdbc"), not has_no_driver(e)
            raise self._pipeline.problem(path, jdbc_sentence(e), passing=passing) from e

    def _changes(self, source: JdbcSource) -> "DataFrame":
        """The stream of the spool, which the run fills with changes from the database
        (`jdbc_changes`)."""
        like = self._table(source)
        lacking = [name for name in source.changes if name not in like.columns]
        if lacking:
            known = ", ".join(like.columns)
            message = f"{source.table} has no column {lacking[0]!r}; it has {known}"
            raise self._pipeline.problem((*source.path, "changes"), message)
        spool = self._places.spool(source.name)
        spool.mkdir(parents=True, exist_ok=True)
        schema = StructType([_nullable(each) for each in like.schema.fields])
        return self._spark.readStream.schema(schema).parquet(f"file://{spool}/*")

    def _sql(self, step: Step) -> "DataFrame":
        assert step.sql is not None
        path = (*step.path, "sql")
        try:
            frame = self._spark.sql(step.sql.rstrip().removesuffix(";"))
            _ = frame.schema
            return frame
        except PySparkException as e:
            index = sql_index(e, step.sql)
            document = self._pipeline.document
            at = document.at(path) if index is None else document.inside(path, index)
            raise WrongPipeline(self._pipeline.file, [Problem(at, sentence(e))]) from e

    def _python(self, step: Step) -> "DataFrame":
        assert step.python is not None
        path = (*step.path, "python")
        lacking = [name for name in step.inputs if name not in self._built.frames]
        if lacking:
            raise self._pipeline.problem(path, f"{lacking[0]} cannot be read")
        inputs = [self._built.frames[name] for name in step.inputs]
        try:
            found: Any = load_function(step.python, self._places)(self._spark, *inputs)
        except Exception as e:
            said = sentence(e) if isinstance(e, PySparkException) else f"{type(e).__name__}: {e}"
            raise self._pipeline.problem(path, said) from e
        if not hasattr(found, "createOrReplaceTempView"):
            message = f"{step.python} must return a data frame, not {found!r}"
            raise self._pipeline.problem(path, message)
        return found


def _uses(relation: Relation, error: BaseException | None, missing: set[str]) -> bool:
    """Whether a relation is wrong only because it uses one of the `missing` relations."""
    if isinstance(relation, Step) and not missing.isdisjoint(relation.inputs):
        return True
    if not isinstance(error, PySparkException) or error.getCondition() != _NO_VIEW:
        return False
    name = (error.getMessageParameters() or {}).get("relationName", "")
    return name.strip("`").lower() in {each.lower() for each in missing}


def _named(columns: Mapping[str, "Column"]) -> list["Column"]:
    return [column.alias(name) for name, column in columns.items()]


def _nullable(field: Any) -> Any:
    return type(field)(field.name, field.dataType, True)


def load_function(where: str, places: Places) -> Any:
    """Load the function FILE.py:NAME. Raises OSError, SyntaxError, AttributeError, and what the
    file raises."""
    file, _, name = where.rpartition(":")
    path = places.path(file)
    # The file's functions are pickled under this module name, by which Spark's workers import the
    # file.
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return getattr(module, name)


def parse_fields(pipeline: Pipeline, source: Relation, text: str) -> StructType:
    """Parse the fields that a source declares in Spark's DDL. Raises WrongPipeline."""
    path = (*source.path, "fields")
    try:
        found = StructType.fromDDL(text)
    except PySparkException as e:
        raise pipeline.problem(path, sentence(e)) from e
    if not isinstance(found, StructType):
        raise pipeline.problem(path, f"fields must be like 'id BIGINT, name STRING', not {text!r}")
    return found


def sql_index(error: PySparkException, sql: str) -> int | None:
    """The index of the character of a statement that Spark's error is about; None if the error
    names none."""
    for context in _contexts(error):
        if 0 <= context < len(sql):
            return context
    match = _POSITION.search(str(error))
    if match is None:
        return None
    line, column = int(match[1]), int(match[2])
    lines = sql.split("\n")
    if not 1 <= line <= len(lines):
        return None
    return sum(len(each) + 1 for each in lines[: line - 1]) + column


def _contexts(error: PySparkException) -> list[int]:
    try:
        return [c.startIndex() for c in error.getQueryContext() if c.fragment()]
    except (AttributeError, NotImplementedError, PySparkException):
        return []
