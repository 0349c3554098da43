"""Compares a pipeline's file with the file of the last run, before Spark starts.

Spark identifies the sources of a query by their order, and pk identifies the sinks by their names.
The comparison reports changes that Spark would refuse in the first batch, and changes with which
the rows would not be the ones that the file seems to describe, each with its position in the file
and the remedy. It does not compare steps, since Spark itself checks whether their state still fits.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypedDict, cast

from pk.spark.files.object_path import write_json
from pk.spark.pipeline.checkpoints import has_begun
from pk.spark.pipeline.definition import (
    DeltaSink,
    FileSource,
    IcebergSink,
    JdbcSink,
    JdbcSource,
    ParquetSink,
    Path,
    Pipeline,
    Relation,
    Sink,
    Step,
    TopicSink,
    TopicSource,
    WrongPipeline,
    show_problem,
)
from pk.spark.pipeline.document import Problem
from pk.spark.pipeline.places import Places

_NEW_CHECKPOINT = "give the pipeline a new checkpoint, with which it begins at the start"


class _Source(TypedDict):
    """The properties of a source that are compared."""

    kind: str
    place: str
    key: str
    value: str


class _SinkShape(TypedDict):
    """The properties of a sink that are compared."""

    kind: str
    place: str
    mode: str
    key: list[str]
    sources: list[str]
    """The sources that its rows come from."""


class Shape(TypedDict):
    """The parts of a pipeline's file that its checkpoint depends on."""

    group: str
    schema: Literal["evolve", "fixed"]
    sources: dict[str, _Source]
    sinks: dict[str, _SinkShape]


class Change(NamedTuple):
    """A difference between a file and its checkpoint."""

    problem: Problem
    refused: bool
    """Whether the pipeline cannot continue from the checkpoint."""


def shape_of(pipeline: Pipeline) -> Shape:
    """The parts of the file that its checkpoint depends on, without secrets."""
    uses = uses_of(pipeline)
    streams = {source.name for source in pipeline.sources}
    return {
        "group": pipeline.group,
        "schema": pipeline.schema,
        "sources": {source.name: _source(source) for source in pipeline.sources},
        "sinks": {
            sink.name: _sink(sink, sorted(uses.get(sink.source, frozenset()) & streams))
            for sink in pipeline.sinks
        },
    }


def uses_of(pipeline: Pipeline) -> dict[str, frozenset[str]]:
    """Relation → the sources and tables that its rows come from."""
    found: dict[str, frozenset[str]] = {}
    for relation in (*pipeline.sources, *pipeline.tables, *pipeline.steps):
        found[relation.name] = sources_of(relation, found)
    return found


def sources_of(relation: Relation, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The sources and tables that a relation's rows come from; `known` has those of the earlier
    relations."""
    if not isinstance(relation, Step):
        return frozenset((relation.name,))
    names = relation.inputs
    if relation.sql is not None:
        words = set(re.findall(r"\w+", relation.sql.lower()))
        names = tuple(name for name in known if name.lower() in words)
    return frozenset().union(*(known[name] for name in names if name in known))


def _source(source: Relation) -> _Source:
    if isinstance(source, TopicSource):
        return {"kind": "topic", "place": source.topic, "key": source.key, "value": source.value}
    if isinstance(source, FileSource):
        return {"kind": "files", "place": source.files, "key": "", "value": source.format}
    assert isinstance(source, JdbcSource)
    place = f"{source.table} of {_without_secrets(source.jdbc)}"
    return {"kind": "jdbc", "place": place, "key": "", "value": ""}


def _sink(sink: Sink, sources: list[str]) -> _SinkShape:
    kind, place, key = "", "", list[str]()
    if isinstance(sink, TopicSink):
        kind, place, key = "topic", sink.topic, [] if sink.key is None else [sink.key]
    elif isinstance(sink, ParquetSink):
        kind, place = "parquet", sink.parquet
    elif isinstance(sink, DeltaSink):
        kind, place, key = "delta", sink.delta, list(sink.key)
    elif isinstance(sink, IcebergSink):
        kind, place, key = "iceberg", sink.iceberg, list(sink.key)
    elif isinstance(sink, JdbcSink):
        kind, key = "jdbc", list(sink.key)
        place = f"{sink.table} of {_without_secrets(sink.jdbc)}"
    return {"kind": kind, "place": place, "mode": sink.mode, "key": key, "sources": sources}


def target_of(sink: Sink) -> str:
    """A sink's kind and destination, without secrets."""
    shape = _sink(sink, [])
    return f"{shape['kind']} {shape['place']}"


def _without_secrets(url: str) -> str:
    """A JDBC URL without its properties, which may include a password."""
    return re.split(r"[?;]", url, maxsplit=1)[0]


def remember(pipeline: Pipeline, places: Places) -> None:
    """Store the shape of the file with which the queries have started. Raises OSError."""
    shape = shape_of(pipeline)
    if _remembered(places) != shape:
        write_json(places.shape, shape)


def _remembered(places: Places) -> Shape | None:
    try:
        found: Any = json.loads(places.shape.read_text())
    except FileNotFoundError:  # no run yet, or only with an earlier version of pk
        return None
    return cast(Shape, found)


def changes(pipeline: Pipeline, places: Places) -> list[Change]:
    """The differences between a file and its checkpoint, in the order of the file; none before the
    first batch. Raises OSError."""
    before = _remembered(places)
    if before is None:
        return []
    names = {*before["sinks"], *(sink.name for sink in pipeline.sinks)}
    begun = {name for name in names if has_begun(places.query(name))}
    if not begun:
        return []
    found = _Comparison(pipeline, before, shape_of(pipeline), begun).run()
    return sorted(found)


def check_changes(pipeline: Pipeline, places: Places) -> list[str]:
    """The changes with which the pipeline can continue, each as a sentence with its line and
    column. Raises WrongPipeline if there are other changes, OSError."""
    found = changes(pipeline, places)
    refused = [each.problem for each in found if each.refused]
    if refused:
        raise WrongPipeline(pipeline.file, refused)
    return [show_problem(pipeline.file, each.problem) for each in found]


class _Comparison:
    """A comparison of two shapes."""

    def __init__(self, pipeline: Pipeline, before: Shape, now: Shape, begun: set[str]) -> None:
        self._pipeline = pipeline
        self._before = before
        self._now = now
        self._begun = begun
        self._found: list[Change] = []

    def _add(self, path: Path, message: str, *, refused: bool = False) -> None:
        problem = Problem(self._pipeline.document.at(path), message)
        self._found.append(Change(problem, refused))

    def run(self) -> list[Change]:
        known = self._begun & set(self._before["sinks"])
        used = {name for sink in known for name in self._before["sinks"][sink]["sources"]}
        for source in self._pipeline.sources:
            if source.name in used:
                self._source(source)
        for sink in self._pipeline.sinks:
            self._sink(sink)
        gone = sorted(known - set(self._now["sinks"]))
        if gone:
            self._add(
                (),
                f"the last run had the sink {' and '.join(gone)}, and this one does not: under a"
                " new name, a sink begins again at the start of its sources, even if nothing else"
                " changed",
            )
        if self._before["schema"] != self._now["schema"]:
            does = {
                "fixed": "new fields are now left out",
                "evolve": "new fields now become columns",
            }
            self._add(
                ("schema",), f"schema was {self._before['schema']}: {does[self._now['schema']]}"
            )
        if self._before["group"] != self._now["group"]:
            path = ("group",) if "group" in self._pipeline.document.values else ("name",)
            self._add(
                path,
                f"from now on the group {self._now['group']} gets the offsets; the group"
                f" {self._before['group']} keeps its own",
            )
        return self._found

    def _source(self, source: Relation) -> None:
        before, now = self._before["sources"].get(source.name), self._now["sources"][source.name]
        if before is None:
            return  # then its sinks have other sources, which is reported
        path = (*source.path, now["kind"])
        if (before["kind"], before["place"]) != (now["kind"], now["place"]):
            self._add(
                path,
                f"{source.name} has read {before['kind']} {before['place']} so far, and its"
                f" checkpoint cannot be used for {now['kind']} {now['place']}; {_NEW_CHECKPOINT}",
                refused=True,
            )
            return
        for name in ("key", "value"):
            if before[name] != now[name]:
                self._add(
                    (*source.path, "format" if now["kind"] == "files" else name),
                    f"{name} of {source.name} was {before[name]}: new records are read as"
                    f" {now[name]}, and Spark refuses steps whose state contains the columns",
                )

    def _sink(self, sink: Sink) -> None:
        before, now = self._before["sinks"].get(sink.name), self._now["sinks"][sink.name]
        if sink.name not in self._begun:
            if before is None:
                said = f"{sink.name} is a new sink, and begins at the start of its sources"
                self._add((*sink.path, "from"), said)
            return
        if before is None:
            return  # the sink is from an earlier run than the last one
        if before["sources"] != now["sources"]:
            self._add(
                (*sink.path, "from"),
                f"{sink.name} has read {' and '.join(before['sources'])} so far, and would now read"
                f" {' and '.join(now['sources'])}, which Spark does not support: give the sink a"
                f" new name, with which it begins at the start, or {_NEW_CHECKPOINT}",
                refused=True,
            )
            return
        if (before["kind"], before["place"]) != (now["kind"], now["place"]):
            self._add(
                (*sink.path, now["kind"]),
                f"{sink.name} has written to {before['kind']} {before['place']} so far, which"
                f" keeps its rows; {now['kind']} {now['place']} gets only new rows; with a new"
                " name the sink begins at the start",
            )
        elif before["key"] != now["key"]:
            was = ", ".join(before["key"]) or "missing"
            self._add(
                (*sink.path, "key"),
                f"key of {sink.name} was {was}: rows already written keep it",
            )
        if before["mode"] != now["mode"]:
            said = f"mode of {sink.name} was {before['mode']}: rows already written stay"
            self._add((*sink.path, "mode"), said)
