"""Parses a pipeline's file (sources, tables, steps and sinks) and checks it as far as possible
without Spark or a broker.

    name = "orders-per-minute"
    checkpoint = "checkpoints/orders-per-minute"

    [[source]]
    name = "orders"
    topic = "orders"
    value = "json"
    fields = "user STRING, amount DOUBLE"

    [[step]]
    name = "per_minute"
    sql = "SELECT …"

    [[sink]]
    from = "per_minute"
    topic = "orders-per-minute"

All problems are reported, not only the first, each with its line and column.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict, cast

from pk.core.durations import duration_ms
from pk.core.nearest import did_you_mean_key
from pk.spark.errors import OptionError, SparkError
from pk.spark.files.store import is_object_url
from pk.spark.locations import local_path
from pk.spark.pipeline.document import (
    Document,
    NotToml,
    Path,
    Problem,
    read_document,
)
from pk.spark.schemas.kinds import KINDS
from pk.spark.sink import DRIVER_BYTES
from pk.spark.tables.compaction import NOT_COMPACTED

OnError = Literal["stop", "skip", "dlq"]
Schema = Literal["evolve", "fixed"]
Mode = Literal["append", "update", "complete", "upsert"]
Encoding = Literal["bytes", "string", "json", "avro", "json-schema", "protobuf"]
Column = Literal["key", "value"]

ON_ERROR: Final = ("stop", "skip", "dlq")
SCHEMA: Final = ("evolve", "fixed")
MODES: Final = ("append", "update", "complete", "upsert")
ENCODINGS: Final = ("bytes", "string", "json", *KINDS)
KEY_ENCODINGS: Final = ("bytes", "string", *KINDS)
FILE_FORMATS: Final = ("parquet", "json", "csv", "text", "orc")
ICEBERG_CATALOGS: Final = ("sql", "rest", "hive", "glue")

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_VARIABLE: Final = re.compile(r"\$\{env:(\w+)\}")
_PYTHON: Final = re.compile(r"[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*")


class WrongPipeline(SparkError):
    """The pipeline has problems. The message lists all of them, each as FILE:LINE:COLUMN."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = sorted(problems)
        super().__init__("\n".join(show_problem(file, each) for each in self.problems))

    @property
    def lasting(self) -> bool:
        """Whether the failure would recur until something is changed."""
        return not all(each.passing for each in self.problems)


def show_problem(file: str, problem: Problem) -> str:
    """A problem in the format of compilers."""
    return f"{file}:{problem.position.line}:{problem.position.column}: {problem.message}"


def _formats(key: str | None, value: str | None) -> dict[Column, str]:
    given: tuple[tuple[Column, str | None], ...] = (("key", key), ("value", value))
    return {column: word for column, word in given if word is not None}


@dataclass(frozen=True, kw_only=True)
class Watermark:
    """How late a row may be, by the time in a column."""

    column: str
    delay: str


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A named set of rows that SQL can use. `path` is its path in the file."""

    name: str
    path: Path
    watermark: Watermark | None = None


@dataclass(frozen=True, kw_only=True)
class TopicSource(Relation):
    """A topic, read as a stream."""

    topic: str
    key: Encoding = "bytes"
    value: Encoding = "bytes"
    fields: str | None = None
    """The fields of JSON values in Spark's DDL; None means that they are inferred from a sample."""

    start: Literal["earliest", "latest"] = "earliest"
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def format(self) -> str | None:
        """The format of values that name their schemas; None for other values."""
        return self.value if self.value in KINDS else None

    @property
    def key_format(self) -> str | None:
        """The format of keys that name their schemas; None for other keys."""
        return self.key if self.key in KINDS else None

    @property
    def formats(self) -> Mapping[Column, str]:
        """The formats of the columns that name their schemas."""
        return _formats(self.key_format, self.format)

    @property
    def may_fail(self) -> bool:
        """Whether a record can fail to parse."""
        return self.value == "json" or bool(self.formats)


@dataclass(frozen=True, kw_only=True)
class FileSource(Relation):
    """A directory, read as a stream of the files that are added to it, or as a table."""

    files: str
    format: str
    fields: str | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class JdbcSource(Relation):
    """A database's table, read as a stream of its new and changed rows, or as a table."""

    jdbc: str
    table: str
    changes: tuple[str, ...] = ()
    """Columns whose values grow with every insert and update; a row with greater values is
    later."""

    every_s: float = 10.0
    """The time in seconds between two queries for changes."""

    options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Step(Relation):
    """Rows computed from other rows: by SQL, or by a Python function that takes and returns data
    frames."""

    sql: str | None = None
    python: str | None = None
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sink:
    """The destination of a relation's rows. `path` is its path in the file."""

    name: str
    source: str
    path: Path
    mode: Mode = "append"

    @property
    def output_mode(self) -> str:
        """The output mode of Spark's query."""
        return "update" if self.mode == "upsert" else self.mode


@dataclass(frozen=True, kw_only=True)
class KeyedSink(Sink):
    """A sink to a table whose rows may have a key, so that rows can replace and delete others."""

    key: tuple[str, ...] = ()
    delete: str | None = None
    """An SQL condition. A change for which it is true deletes the row with its key."""

    order_by: tuple[str, ...] = ()
    """Columns that order the changes of a key: only the change with the greatest values is
    applied."""

    leave_out: tuple[str, ...] = ()
    """Columns of the rows that are not written to the table."""


@dataclass(frozen=True, kw_only=True)
class TopicSink(Sink):
    """A sink that writes rows as records of a topic, exactly once."""

    topic: str
    key: str | None = None
    """An SQL expression for the key."""

    value: str | None = None
    """An SQL expression for the value. None means the column `value` if it is text or binary,
    otherwise all columns as JSON."""

    format: str | None = None
    """The format of values that are written with a schema; None means no schema."""

    key_format: str | None = None
    """The format of keys that are written with a schema; None means no schema."""

    atomic: bool = False
    """Whether each batch is a single transaction, which the driver publishes."""

    driver_bytes: int = DRIVER_BYTES
    """The size in bytes above which executors publish a batch."""

    options: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def formats(self) -> Mapping[Column, str]:
        """The formats of the columns that are written with schemas."""
        return _formats(self.key_format, self.format)


@dataclass(frozen=True, kw_only=True)
class ParquetSink(Sink):
    """A sink that writes rows as parquet files to a directory or URL."""

    parquet: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeltaSink(KeyedSink):
    """A sink that appends rows to a Delta table, or changes its rows by key."""

    delta: str
    partition_by: tuple[str, ...] = ()
    compact_s: float | None = None
    """The time in seconds between compactions of small files; None means never."""


@dataclass(frozen=True, kw_only=True)
class IcebergSink(KeyedSink):
    """A sink that appends rows to an Iceberg table, or changes its rows by key."""

    iceberg: str
    catalog: Mapping[str, str]
    """The catalog's properties, under pyiceberg's names."""


@dataclass(frozen=True, kw_only=True)
class JdbcSink(KeyedSink):
    """A sink that inserts rows into a database's table, or changes its rows by key."""

    jdbc: str
    table: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The contents of a pipeline's file."""

    file: str
    document: Document
    name: str
    checkpoint: str
    group: str
    on_error: OnError = "stop"
    dead_letters: str | None = None
    """The topic for records that fail, if on_error is "dlq"."""

    schema: Schema = "evolve"
    every: str | None = None
    """The interval at which batches start; None means as soon as there are new rows."""

    kafka: Mapping[str, str] = field(default_factory=dict[str, str])
    registry: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The schema registry: its `url`, and the credentials."""

    spark: Mapping[str, str] = field(default_factory=dict[str, str])
    jars: tuple[str, ...] = ()
    sources: tuple[Relation, ...] = ()
    """The streams: TopicSource, FileSource and JdbcSource."""

    tables: tuple[Relation, ...] = ()
    """The tables: FileSource and JdbcSource, which each batch reads as a whole."""

    steps: tuple[Step, ...] = ()
    sinks: tuple[Sink, ...] = ()

    def problem(self, path: Path, message: str, *, passing: bool = False) -> WrongPipeline:
        """An error at a path of the file. `passing` means that it may go away without a change."""
        return WrongPipeline(self.file, [Problem(self.document.at(path), message, passing)])

    @property
    def topics(self) -> tuple[TopicSource, ...]:
        """The sources that are topics."""
        return tuple(s for s in self.sources if isinstance(s, TopicSource))


def parse_pipeline(text: str, file: str, environ: Mapping[str, str] | None = None) -> Pipeline:
    """Parse the text of a pipeline's file; `file` is the file's name in messages. Raises
    WrongPipeline.

    Tables of options may use `${env:NAME}` for a variable of `environ`, so that secrets can be kept
    out of the file.
    """
    try:
        document = read_document(text)
    except NotToml as e:
        raise WrongPipeline(file, [e.problem]) from None
    problems: list[Problem] = []
    pipeline = _pipeline(_Table(document, (), document.values, problems, environ or {}), file)
    if problems:
        raise WrongPipeline(file, problems)
    return pipeline


class _Table:
    """One TOML table of the file. Its methods record the keys that they read; `end` reports all
    other keys as unknown."""

    def __init__(
        self,
        document: Document,
        path: Path,
        values: Mapping[str, Any],
        problems: list[Problem],
        environ: Mapping[str, str],
    ) -> None:
        self.document = document
        self.path = path
        self.values = values
        self.problems = problems
        self.environ = environ
        self.known: set[str] = set()

    def wrong(self, name: str | None, message: str) -> None:
        path = self.path if name is None else (*self.path, name)
        self.problems.append(Problem(self.document.at(path), message))

    def has(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, default: str = "", *, needed: str | None = None) -> str:
        """The text of a key. `needed` completes the error for a missing key."""
        self.known.add(name)
        if name not in self.values:
            if needed is not None:
                self.wrong(None, f"{name} is missing: {needed}")
            return default
        value = self.values[name]
        if not isinstance(value, str) or not value.strip():
            self.wrong(name, f"{name} must be a string, not {_shown(value)}")
            return default
        return value

    def directory(self, name: str, default: str = "", *, needed: str | None = None) -> str:
        """A local directory: a path, or a `file:` URL."""
        place = self.text(name, default, needed=needed)
        self.check_local((name,), f"{name} must be a directory", place)
        return place

    def place(self, name: str, default: str = "", *, needed: str | None = None) -> str:
        """A local directory, or a URL of object storage."""
        place = self.text(name, default, needed=needed)
        self.check_location((name,), name, place)
        return place

    def check_location(self, path: Path, name: str, place: str) -> None:
        """Report a location that is neither local nor in object storage; `path` is its path in this
        table."""
        if not is_object_url(place):
            self.check_local(path, f"{name} must be a URL such as s3://… or a directory", place)

    def check_local(self, path: Path, what: str, place: str) -> None:
        """Report a location that is not local; `path` is its path in this table."""
        try:
            local_path(place)
        except OptionError:
            at = self.document.at((*self.path, *path))
            self.problems.append(Problem(at, f"{what} on this machine, not {place!r}"))

    def optional(self, name: str) -> str | None:
        return self.text(name) or None

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        value = self.text(name, default)
        if value not in known:
            self.wrong(
                name,
                f"{name} must be {' or '.join(known)}, not {value!r}"
                + did_you_mean_key(value, known),
            )
            return default
        return value

    def flag(self, name: str) -> bool:
        self.known.add(name)
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            self.wrong(name, f"{name} must be true or false, not {_shown(value)}")
            return False
        return value

    def count(self, name: str, default: int) -> int:
        """A whole number that is not negative."""
        self.known.add(name)
        value = self.values.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            self.wrong(name, f"{name} must be a whole number, not {_shown(value)}")
            return default
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A text, or an array of texts."""
        self.known.add(name)
        value = self.values.get(name, [])
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(
            isinstance(each, str) and each for each in cast(list[Any], value)
        ):
            self.wrong(name, f"{name} must be a string or an array of strings, not {_shown(value)}")
            return ()
        return tuple(cast(list[str], value))

    def mapping(self, name: str, *, but: Sequence[str] = ()) -> dict[str, str]:
        """A table of texts, numbers and booleans; the values are returned as text."""
        self.known.add(name)
        value = self.values.get(name, {})
        if not isinstance(value, dict):
            self.wrong(name, f"{name} must be a table, not {_shown(value)}")
            return {}
        found: dict[str, str] = {}
        for key, each in _flat(cast(dict[str, Any], value)):
            if key in but:
                continue
            if isinstance(each, bool):
                found[key] = str(each).lower()
            elif isinstance(each, str | int | float):
                found[key] = self._filled((name, key), str(each))
            else:
                self.problems.append(
                    Problem(
                        self.document.at((*self.path, name, key)),
                        f"{key} must be a string, a number, true or false, not {_shown(each)}",
                    )
                )
        return found

    def _filled(self, name: Path, text: str) -> str:
        """A text, with its `${env:NAME}` replaced by the variables."""

        def value(match: re.Match[str]) -> str:
            if match[1] not in self.environ:
                at = self.document.at((*self.path, *name))
                self.problems.append(Problem(at, f"the environment variable {match[1]} is not set"))
            return self.environ.get(match[1], "")

        return _VARIABLE.sub(value, text)

    def tables(self, name: str) -> list["_Table"]:
        """The tables of `[[name]]`."""
        self.known.add(name)
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(each, dict) for each in cast(list[Any], value)
        ):
            self.wrong(name, f"{name} must be written as [[{name}]]")
            return []
        return [
            _Table(self.document, (*self.path, name, number), each, self.problems, self.environ)
            for number, each in enumerate(cast(list[dict[str, Any]], value))
        ]

    def table(self, name: str) -> "_Table | None":
        """A table; None if it is missing."""
        self.known.add(name)
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.wrong(name, f"{name} must be a table, not {_shown(value)}")
            return None
        found = cast(dict[str, Any], value)
        return _Table(self.document, (*self.path, name), found, self.problems, self.environ)

    def end(self, what: str) -> None:
        """Report the keys that were not read."""
        for name in self.values:
            if name not in self.known:
                self.wrong(
                    name,
                    f"{name} is not a key of {what}{did_you_mean_key(name, sorted(self.known))}",
                )


def _flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Join the names of nested tables: TOML reads an unquoted `bootstrap.servers` as a table in a
    table, but here it is one name."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            found += _flat(cast(dict[str, Any], value), f"{before}{key}.")
        else:
            found.append((f"{before}{key}", value))
    return found


def _shown(value: object) -> str:
    kinds = {dict: "a table", list: "an array"}
    return kinds.get(type(value), repr(value))


def _pipeline(table: _Table, file: str) -> Pipeline:
    name = table.text("name", "pipeline", needed="it names the pipeline")
    if not _PIPELINE_NAME.fullmatch(name):
        table.wrong(
            "name", f"name may contain only letters, digits, '.', '_' and '-', not {name!r}"
        )
    checkpoint = table.place(
        "checkpoint", "checkpoint", needed="the directory that stores the progress"
    )
    on_error = cast(OnError, table.choice("on_error", ON_ERROR, "stop"))
    dead_letters = table.optional("dead_letters")
    if on_error == "dlq" and dead_letters is None:
        at = "on_error" if table.has("on_error") else None
        table.wrong(at, 'dead_letters is missing: with on_error = "dlq" it names a topic')
    if on_error != "dlq" and dead_letters is not None:
        table.wrong("dead_letters", 'dead_letters has no effect without on_error = "dlq"')
    _check_topic(table, "dead_letters", dead_letters)
    spark = table.table("spark")
    jars = spark.texts("jars") if spark is not None else ()
    for number, jar in enumerate(jars):
        table.check_local(("spark", "jars", number), "a jar must be a file", jar)
    pipeline = Pipeline(
        file=file,
        document=table.document,
        name=name,
        checkpoint=checkpoint,
        group=table.text("group", name),
        on_error=on_error,
        dead_letters=dead_letters,
        schema=cast(Schema, table.choice("schema", SCHEMA, "evolve")),
        every=table.optional("every"),
        kafka=table.mapping("kafka"),
        registry=table.mapping("schema_registry"),
        spark=table.mapping("spark", but=("jars",)),
        jars=jars,
        sources=tuple(_source(each, stream=True) for each in table.tables("source")),
        tables=tuple(_source(each, stream=False) for each in table.tables("table")),
        steps=tuple(_step(each) for each in table.tables("step")),
        sinks=_sinks(table),
    )
    table.end("a pipeline")
    if is_object_url(checkpoint) and any(isinstance(s, JdbcSource) for s in pipeline.sources):
        table.wrong("checkpoint", "a jdbc source needs a checkpoint in a directory")
    for what, found in (("[[source]]", pipeline.sources), ("[[sink]]", pipeline.sinks)):
        if not found:
            table.wrong(None, f"a pipeline needs at least one {what}")
    _check_names(table, pipeline)
    if on_error != "stop" and not pipeline.topics:
        table.wrong("on_error", "on_error has no effect without a source that is a topic")
    sinks = (s for s in pipeline.sinks if isinstance(s, TopicSink))
    if pipeline.registry and not any(each.formats for each in (*pipeline.topics, *sinks)):
        said = f"no source or sink has keys or values in {_FORMATS}"
        table.wrong("schema_registry", f"schema_registry has no effect: {said}")
    return pipeline


_FORMATS: Final = f"{', '.join(list(KINDS)[:-1])} or {list(KINDS)[-1]}"


def _check_topic(table: _Table, name: str, topic: str | None) -> None:
    if topic is not None and (not _TOPIC.fullmatch(topic) or topic in (".", "..")):
        table.wrong(
            name,
            f"{topic!r} is not a valid topic name, which has letters, digits, '.', '_' and '-'",
        )


def _check_names(table: _Table, pipeline: Pipeline) -> None:
    """Report relations with the same name, and relations that are used before they are defined."""
    document, problems = table.document, table.problems
    seen: dict[str, Path] = {}
    for relation in (*pipeline.sources, *pipeline.tables, *pipeline.steps):
        if isinstance(relation, Step):
            for number, name in enumerate(relation.inputs):
                if name not in seen:
                    at = document.at((*relation.path, "inputs", number))
                    problems.append(Problem(at, _no_relation(name, seen)))
        if relation.name.lower() in {name.lower() for name in seen}:
            at = document.at((*relation.path, "name"))
            problems.append(Problem(at, f"the name {relation.name} is used twice"))
        seen[relation.name] = relation.path
    names: set[str] = set()
    for sink in pipeline.sinks:
        if sink.source and sink.source not in seen:
            at = document.at((*sink.path, "from"))
            problems.append(Problem(at, _no_relation(sink.source, seen)))
        if sink.name in names:
            at = document.at((*sink.path, "name"))
            message = f"two sinks have the name {sink.name}; give each a name of its own"
            problems.append(Problem(at, message))
        names.add(sink.name)


def _no_relation(name: str, known: Mapping[str, Path]) -> str:
    near = did_you_mean_key(name, list(known))
    return f"no source, table or step before this is named {name!r}{near}"


def _name(table: _Table) -> str:
    name = table.text("name", "unnamed", needed="SQL steps use it")
    if not _NAME.fullmatch(name):
        table.wrong(
            "name", f"name must consist of letters, digits and '_', as in SQL, not {name!r}"
        )
    return name


def _watermark(table: _Table) -> Watermark | None:
    inner = table.table("watermark")
    if inner is None:
        return None
    found = Watermark(
        column=inner.text("column", needed="the column with the time"),
        delay=inner.text("delay", needed="how late rows may come, such as '10 minutes'"),
    )
    inner.end("a watermark")
    return found


def _kind(table: _Table, kinds: Sequence[str], what: str) -> str | None:
    """The key that determines the kind of a table; exactly one of `kinds` must be present."""
    found = [kind for kind in kinds if table.has(kind)]
    if len(found) == 1:
        return found[0]
    wanted = f"{', '.join(kinds[:-1])} or {kinds[-1]}"
    said = f"{' and '.join(found)} are given" if found else "none is given"
    table.wrong(found[1] if found else None, f"{what} needs one of {wanted}; {said}")
    return None


def _source(table: _Table, *, stream: bool) -> Relation:
    name, watermark = _name(table), _watermark(table)
    what = "a [[source]]" if stream else "a [[table]]"
    kinds = ("topic", "files", "jdbc") if stream else ("files", "jdbc")
    kind = _kind(table, kinds, what)
    if watermark is not None and not stream:
        table.wrong("watermark", "each batch reads a [[table]] completely, so it has no watermark")
    if kind is None:
        return Relation(name=name, path=table.path)
    if kind == "topic":
        found: Relation = _topic_source(table, name, watermark)
    elif kind == "files":
        found = FileSource(
            name=name,
            path=table.path,
            watermark=watermark,
            files=table.text("files"),
            format=table.choice("format", FILE_FORMATS, "parquet"),
            fields=table.optional("fields"),
            options=table.mapping("options"),
        )
    else:
        found = _jdbc_source(table, name, watermark, stream)
    table.end(f"{what} of this kind")
    return found


def _topic_source(table: _Table, name: str, watermark: Watermark | None) -> TopicSource:
    topic = table.text("topic")
    _check_topic(table, "topic", topic or None)
    value = cast(Encoding, table.choice("value", ENCODINGS, "bytes"))
    fields = table.optional("fields")
    if fields is not None and value != "json":
        table.wrong("fields", 'fields has no effect without value = "json"')
    key = cast(Encoding, table.choice("key", KEY_ENCODINGS, "bytes"))
    start = cast(
        Literal["earliest", "latest"], table.choice("start", ("earliest", "latest"), "earliest")
    )
    return TopicSource(
        name=name,
        path=table.path,
        watermark=watermark,
        topic=topic,
        key=key,
        value=value,
        fields=fields,
        start=start,
        options=table.mapping("options"),
    )


def _jdbc_source(table: _Table, name: str, watermark: Watermark | None, stream: bool) -> JdbcSource:
    if stream and not table.has("changes"):
        table.wrong(
            None,
            "changes is missing: columns that grow with every insert and update, such as"
            " ['updated_at', 'id']; a [[table]] is read completely and needs none",
        )
    if not stream and table.has("changes"):
        table.wrong("changes", "a [[table]] is read completely; only a [[source]] has changes")
    return JdbcSource(
        name=name,
        path=table.path,
        watermark=watermark,
        jdbc=_jdbc_url(table),
        table=table.text("table", needed="the database's table"),
        changes=table.texts("changes"),
        every_s=(_seconds(table, "every") if stream else None) or 10.0,
        options=table.mapping("options"),
    )


def _seconds(table: _Table, name: str) -> float | None:
    """A duration such as 10s, in seconds; None if it is missing."""
    text = table.text(name)
    if not text:
        return None
    try:
        found = duration_ms(text) / 1000
    except ValueError:
        found = 0.0
    if found <= 0:
        table.wrong(name, f"{name} must look like 500ms, 10s or 5m, not {text!r}")
        return None
    return found


def _jdbc_url(table: _Table) -> str:
    url = table.text("jdbc")
    if url and not url.startswith("jdbc:"):
        table.wrong("jdbc", f"a JDBC URL begins with jdbc:, this is {url!r}")
    return url


def _step(table: _Table) -> Step:
    kind = _kind(table, ("sql", "python"), "a [[step]]")
    found = Step(
        name=_name(table),
        path=table.path,
        watermark=_watermark(table),
        sql=table.optional("sql"),
        python=table.optional("python"),
        inputs=table.texts("inputs"),
    )
    if found.python is not None and not _PYTHON.fullmatch(found.python):
        table.wrong("python", f"python must be FILE.py:FUNCTION, not {found.python!r}")
    if kind == "sql" and found.inputs:
        table.wrong("inputs", "inputs is for python steps; SQL names its relations itself")
    if kind == "python" and not found.inputs:
        table.wrong(None, "inputs is missing: the names of the relations that the function gets")
    table.end("a [[step]]")
    return found


_SINKS: Final = ("topic", "parquet", "delta", "iceberg", "jdbc")


def _sinks(table: _Table) -> tuple[Sink, ...]:
    tables = table.tables("sink")
    return tuple(_sink(each) for each in tables)


def _sink(table: _Table) -> Sink:
    kind = _kind(table, _SINKS, "a [[sink]]")
    source = table.text("from", needed="the source or step whose rows it takes")
    name = table.text("name", source or "unnamed")
    if not _PIPELINE_NAME.fullmatch(name):
        table.wrong(
            "name", f"name may contain only letters, digits, '.', '_' and '-', not {name!r}"
        )
    mode = cast(Mode, table.choice("mode", MODES, "append"))
    path = table.path
    found = Sink(name=name, source=source, path=path, mode=mode)
    if kind == "topic":
        topic = table.text("topic")
        _check_topic(table, "topic", topic or None)
        found = TopicSink(
            name=name,
            source=source,
            path=path,
            mode=mode,
            topic=topic,
            key=table.optional("key"),
            value=table.optional("value"),
            format=_format(table, "format"),
            key_format=_format(table, "key_format"),
            atomic=table.flag("atomic"),
            driver_bytes=table.count("driver_bytes", DRIVER_BYTES),
            options=table.mapping("options"),
        )
        if found.atomic and table.has("driver_bytes"):
            table.wrong("driver_bytes", "driver_bytes has no effect with atomic = true")
    elif kind == "parquet":
        found = ParquetSink(
            name=name,
            source=source,
            path=path,
            mode=mode,
            parquet=table.text("parquet"),
            partition_by=table.texts("partition_by"),
        )
    elif kind == "delta":
        found = DeltaSink(
            name=name,
            source=source,
            path=path,
            mode=mode,
            delta=table.place("delta"),
            partition_by=table.texts("partition_by"),
            compact_s=_seconds(table, "compact"),
            **_keyed(table, mode),
        )
    elif kind == "iceberg":
        found = _iceberg_sink(table, found)
    elif kind == "jdbc":
        found = JdbcSink(
            name=name,
            source=source,
            path=path,
            mode=mode,
            jdbc=_jdbc_url(table),
            table=table.text("table", needed="the database's table"),
            options=table.mapping("options"),
            **_keyed(table, mode),
        )
        if mode in ("update", "complete") and not found.key:
            table.wrong("mode", f'mode = "{mode}" needs a key: the columns that identify a row')
    if kind in ("parquet", "topic") and mode == "upsert":
        table.wrong("mode", f"a {kind} sink cannot upsert; delta, iceberg and jdbc sinks can")
    elif kind in ("parquet", "delta", "iceberg") and mode not in ("append", "upsert"):
        does = "appends" if kind == "parquet" else "appends or upserts"
        table.wrong("mode", f"a {kind} sink only {does}; a jdbc sink with a key can update")
    if isinstance(found, DeltaSink | IcebergSink) and found.key and mode != "upsert":
        table.wrong("key", 'key has no effect without mode = "upsert"')
    if kind in NOT_COMPACTED and table.has("compact"):
        table.known.add("compact")
        table.wrong("compact", f"compact is for delta sinks: {NOT_COMPACTED[kind]}")
    if kind is not None:
        table.end(f"a {kind} sink")
    return found


class _Keyed(TypedDict):
    """The arguments that every KeyedSink has."""

    key: tuple[str, ...]
    delete: str | None
    order_by: tuple[str, ...]
    leave_out: tuple[str, ...]


def _keyed(table: _Table, mode: Mode) -> _Keyed:
    found = _Keyed(
        key=table.texts("key"),
        delete=table.optional("delete"),
        order_by=table.texts("order_by"),
        leave_out=table.texts("leave_out"),
    )
    if mode == "upsert" and not found["key"]:
        table.wrong("mode", 'mode = "upsert" needs a key: the columns that identify a row')
    if mode != "upsert":
        for name in ("delete", "order_by", "leave_out"):
            if table.has(name):
                table.wrong(name, f'{name} has no effect without mode = "upsert"')
    for name in found["leave_out"]:
        if name in found["key"]:
            table.wrong("leave_out", f"{name} cannot be left out, because it is in the key")
    return found


def _format(table: _Table, name: str) -> str | None:
    return table.choice(name, tuple(KINDS), "avro") if table.has(name) else None


def _iceberg_sink(table: _Table, sink: Sink) -> IcebergSink:
    name = table.text("iceberg")
    if "." not in name.strip("."):
        table.wrong("iceberg", f"iceberg must be NAMESPACE.TABLE, not {name!r}")
    catalog = table.mapping("catalog")
    if not catalog:
        table.wrong(
            None,
            "catalog is missing: pyiceberg's properties, such as"
            ' { type = "sql", uri = "sqlite:///catalog.db", warehouse = "tables" }',
        )
    elif catalog.get("type", "sql") not in ICEBERG_CATALOGS:
        table.wrong("catalog", f"a catalog's type must be {' or '.join(ICEBERG_CATALOGS)}")
    where = catalog.get("warehouse", "")
    table.check_location(("catalog", "warehouse"), "warehouse", where)
    return IcebergSink(
        name=sink.name,
        source=sink.source,
        path=sink.path,
        mode=sink.mode,
        iceberg=name,
        catalog=catalog,
        **_keyed(table, sink.mode),
    )
