"""Writes a pipeline as a project for Spark's declarative pipelines (`spark-pipelines run`).

Sources and steps become temporary views, topics become sinks of the data source `pk`, and tables
become streaming tables in Spark's catalog. Features without a counterpart there are refused: sinks
that update, dead letters, JDBC, Delta and Iceberg, and fields that are not declared.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pk.spark.errors import DirectoryRefused
from pk.spark.pipeline.definition import (
    FileSource,
    ParquetSink,
    Pipeline,
    Relation,
    Sink,
    Step,
    TopicSink,
    TopicSource,
    WrongPipeline,
)
from pk.spark.pipeline.document import Path as Place
from pk.spark.pipeline.document import Problem
from pk.spark.pipeline.places import Places
from pk.spark.text.text_options import text_options

_SPEC: Final = """\
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
{configuration}"""

_NO_REGISTRY: Final = (
    "a declarative pipeline cannot use a schema registry: its code would contain the login"
)

_HEAD: Final = '''\
"""{name}, written by `pk spark pipeline export --declarative` from {file}."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pk.spark.pipeline.text_files import file_parser
from pk.spark.text.json_columns import json_parser
from pk.spark.text.json_writing import MICROSECONDS

KAFKA = {kafka!r}


def spark():
    return SparkSession.active()
'''


def write_project(pipeline: Pipeline, directory: Path, kafka: Mapping[str, str]) -> list[Path]:
    """Write the project, and return its files. Raises WrongPipeline, DirectoryRefused, OSError."""
    if directory.exists() and any(directory.iterdir()):
        raise DirectoryRefused(
            f"{directory} is not empty; the project needs a directory of its own"
        )
    _refuse(pipeline)
    places = Places(pipeline)
    spec = directory / "spark-pipeline.yml"
    code = directory / "transformations" / "pipeline.py"
    code.parent.mkdir(parents=True)
    settings = {
        "spark.sql.shuffle.partitions": "4",
        # Steps name streams in the same way as tables, without the keyword STREAM.
        "pipelines.incompatibleViewCheck.enabled": "false",
        **pipeline.spark,
    }
    lines = "".join(f'  {key}: "{value}"\n' for key, value in settings.items())
    storage = f"file://{(directory / 'storage').absolute()}"
    spec.write_text(_SPEC.format(name=pipeline.name, storage=storage, configuration=lines))
    parts = [_HEAD.format(name=pipeline.name, file=Path(pipeline.file).name, kafka=dict(kafka))]
    for relation in (*pipeline.sources, *pipeline.tables, *pipeline.steps):
        parts.append(_relation(pipeline, places, relation))
    parts += [_sink(pipeline, sink) for sink in pipeline.sinks]
    code.write_text("\n\n".join(parts))
    files = [spec, code]
    for step in pipeline.steps:
        if step.python is not None:
            file = places.path(step.python.rpartition(":")[0])
            files.append(Path(shutil.copy(file, directory / file.name)))
    return files


def _refuse(pipeline: Pipeline) -> None:
    problems: list[Problem] = []

    def wrong(path: Place, message: str) -> None:
        problems.append(Problem(pipeline.document.at(path), message))

    if pipeline.on_error == "dlq":
        wrong(
            ("on_error",),
            "a flow has only one target, so it cannot write dead letters; use skip or stop",
        )
    for relation in (*pipeline.sources, *pipeline.tables):
        if not isinstance(relation, TopicSource | FileSource):
            wrong((*relation.path, "jdbc"), "a declarative pipeline cannot read changes by JDBC")
        elif isinstance(relation, TopicSource) and relation.formats:
            wrong((*relation.path, *list(relation.formats)[-1:]), _NO_REGISTRY)
        elif relation.fields is None and (
            isinstance(relation, FileSource) or relation.value == "json"
        ):
            wrong(relation.path, "fields is missing: a declarative pipeline does not sample")
    for sink in pipeline.sinks:
        if sink.mode != "append":
            wrong((*sink.path, "mode"), "the flows of a declarative pipeline only append")
        if isinstance(sink, TopicSink) and sink.formats:
            at = "key_format" if sink.format is None else "format"
            wrong((*sink.path, at), _NO_REGISTRY)
        if not isinstance(sink, TopicSink | ParquetSink):
            wrong(sink.path, "a declarative pipeline writes only topics and parquet tables")
        elif isinstance(sink, ParquetSink) and not sink.name.isidentifier():
            wrong(
                (*sink.path, "name"), "the name of a table must consist of letters, digits and '_'"
            )
    if problems:
        raise WrongPipeline(pipeline.file, problems)


def _relation(pipeline: Pipeline, places: Places, relation: Relation) -> str:
    lines = _parser(relation)
    lines += [f"@dp.temporary_view(name={relation.name!r})", f"def view_{relation.name}():"]
    if isinstance(relation, TopicSource):
        lines += _topic(pipeline, relation)
    elif isinstance(relation, FileSource):
        lines += _files(pipeline, places, relation)
    else:
        assert isinstance(relation, Step)
        lines += _step(relation)
    if relation.watermark is not None:
        mark = relation.watermark
        lines.append(f"    rows = rows.withWatermark({mark.column!r}, {mark.delay!r})")
    return "\n".join([*lines, "    return rows"]) + "\n"


def _parser(source: Relation) -> list[str]:
    """The code that creates the parser of values or files. It is outside the view, whose code must
    not call Spark."""
    if isinstance(source, TopicSource) and source.value == "json":
        made = f"json_parser(spark(), {' '.join((source.fields or '').split())!r})"
    elif isinstance(source, FileSource) and source.format in ("csv", "json"):
        fields, options = " ".join((source.fields or "").split()), dict(source.options)
        made = f"file_parser(spark(), {source.format!r}, {fields!r}, {options!r})"
    else:
        return []
    return [f"parse_{source.name} = {made}", "", ""]


def _topic(pipeline: Pipeline, source: TopicSource) -> list[str]:
    """The code of a topic's view; for JSON, only the rows whose value parses."""
    options = {**source.options, "startingOffsets": source.start, "subscribe": source.topic}
    lines = [
        '    rows = spark().readStream.format("pk").options(**KAFKA)',
        f"    rows = rows.options(**{options!r}).load()",
    ]
    if source.value == "json":
        lines.append(f'    rows = rows.withColumn("json", parse_{source.name}("value"))')
    if source.key == "string":
        lines.append('    rows = rows.withColumn("key", f.col("key").cast("string"))')
    if source.value == "string":
        lines.append('    rows = rows.withColumn("value", f.col("value").cast("string"))')
    if source.value != "json":
        return lines
    lines.append('    error = f.col("json.error")')
    if pipeline.on_error == "skip":
        lines.append("    rows = rows.where(error.isNull())")
    else:
        lines += [
            '    said = f.lit("does not parse:")',
            '    said = f.concat_ws(" ", "topic", "partition", "offset", said, error)',
            '    failed = f.raise_error(said).cast("boolean")',
            "    rows = rows.where(f.when(error.isNull(), True).otherwise(failed))",
        ]
    return [*lines, '    rows = rows.withColumn("value", f.col("json.value")).drop("json")']


def _files(pipeline: Pipeline, places: Places, source: FileSource) -> list[str]:
    reader = "readStream" if source in pipeline.sources else "read"
    fields = " ".join((source.fields or "").split())
    if source.format in ("csv", "json"):
        options = {"wholetext": "true", **text_options(source.format, source.options)[0]}
        return [
            f"    rows = spark().{reader}.format('text').options(**{options!r})",
            f"    rows = rows.load({places.url(source.files)!r})",
            "    rows = rows.withColumnRenamed('value', '_pk_content')",
            "    path, content = f.col('_metadata.file_path'), f.col('_pk_content').cast('binary')",
            f"    rows = rows.select(f.inline(parse_{source.name}(path, content)), '*')",
            "    rows = rows.drop('_pk_content')  # what is left names directories",
        ]
    return [
        f"    rows = spark().{reader}.format({source.format!r}).schema({fields!r})",
        f"    rows = rows.options(**{dict(source.options)!r}).load({places.url(source.files)!r})",
    ]


def _step(step: Step) -> list[str]:
    if step.sql is not None:
        return [f"    rows = spark().sql({step.sql.strip().removesuffix(';')!r})"]
    file, _, name = (step.python or "").rpartition(":")
    inputs = ", ".join(f"spark().readStream.table({each!r})" for each in step.inputs)
    return [
        "    import sys",
        "    from pathlib import Path",
        "    sys.path.insert(0, str(Path(__file__).parent.parent))",
        f"    from {Path(file).stem} import {name}",
        f"    rows = {name}(spark(), {inputs})",
    ]


def _sink(pipeline: Pipeline, sink: Sink) -> str:
    if isinstance(sink, ParquetSink):
        columns = list(sink.partition_by) or None
        relations = (*pipeline.sources, *pipeline.tables, *pipeline.steps)
        # A table and a view cannot have the same name.
        taken = sink.name in {relation.name for relation in relations}
        table = f"{sink.name}_table" if taken else sink.name
        return (
            f"@dp.table(name={table!r}, format='parquet', partition_cols={columns!r})\n"
            f"def {table}():\n"
            f"    return spark().readStream.table({sink.source!r})\n"
        )
    assert isinstance(sink, TopicSink)
    key = [] if sink.key is None else [f"f.expr({sink.key!r}).cast('string').alias('key')"]
    whole = "f.to_json(f.struct('*'), MICROSECONDS)"
    value = whole if sink.value is None else f"f.expr({sink.value!r})"
    columns = ", ".join([*key, f"{value}.alias('value')"])
    name = sink.name.replace("-", "_").replace(".", "_")
    options = {**sink.options, "topic": sink.topic}
    return (
        f"dp.create_sink('sink_{name}', 'pk', {{**KAFKA, **{options!r}}})\n\n\n"
        f"@dp.append_flow(target='sink_{name}', name='flow_{name}')\n"
        f"def flow_{name}():\n"
        f"    return spark().readStream.table({sink.source!r}).select({columns})\n"
    )
