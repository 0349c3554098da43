"""The schemas of a pipeline's sources and sinks whose keys or values have schemas in a registry.

A source's columns are those of the subject's latest version. With `schema = "evolve"` the query
ends before a batch that may have records of a newer version, and restarts with that version's
columns and the same offsets of the batch. A newer version that lacks a column, or has it with
another type, is not used: the source keeps the previous version, and a record that this version
cannot read is treated as one that does not parse (`on_error`). Wider number types are used if the
state of the steps and the sinks support them. `fixed` keeps the first run's version.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import DataType, StructType

from pk.core.schemas.registry.errors import RegistryError
from pk.core.schemas.schema import MissingLibrary, SchemaError
from pk.net.client.errors import ConfigError
from pk.net.schemas.answers import RegistryUnreachable
from pk.spark.errors import OptionError
from pk.spark.files.object_path import write_json
from pk.spark.pipeline.definition import Column, Pipeline, TopicSink, TopicSource
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.widening import widening_refusal
from pk.spark.schemas.growth import NUMBERS, is_wider
from pk.spark.schemas.kinds import KINDS
from pk.spark.schemas.options import split_options
from pk.spark.schemas.reading import NEW_VERSION
from pk.spark.schemas.source_columns import reading_of
from pk.spark.schemas.writing import encoders

if TYPE_CHECKING:
    from pk.spark.pipeline.query import Query

Plan = Callable[[Mapping[str, Mapping[str, str]]], "Sequence[Query]"]
"""A function that creates the queries, given options for each source. Raises WrongPipeline."""

_OURS: Final = (
    *("key.format", "value.format", "schema.on.error", "schema.on.new.version"),
    "schema.include.bytes",
)
"""Options of the data source that other keys of the file set."""

_REFUSALS: Final = (
    OptionError,
    ConfigError,
    RegistryError,
    RegistryUnreachable,
    SchemaError,
    MissingLibrary,
)


def registry_options(pipeline: Pipeline, formats: Mapping[Column, str]) -> dict[str, str]:
    """The data source's options for the columns that have schemas; empty if there are none."""
    if not formats:
        return {}
    where = {f"schema.registry.{name}": value for name, value in pipeline.registry.items()}
    return {**where, **{f"{column}.format": KINDS[word] for column, word in formats.items()}}


def source_options(
    pipeline: Pipeline, source: TopicSource, kafka: Mapping[str, str]
) -> dict[str, str]:
    """The options for reading a source. Raises WrongPipeline."""
    ours: dict[str, str] = {}
    if source.formats:
        for name in source.options:
            if name.lower() in _OURS:
                said = "key, value, on_error and schema"
                raise pipeline.problem(
                    (*source.path, "options"), f"in a pipeline, {said} set {name}"
                )
        ours["schema.on.error"] = "null"
        if has_bytes(pipeline, source):
            ours["schema.include.bytes"] = "true"
    return {
        **kafka,
        **registry_options(pipeline, source.formats),
        **ours,
        **source.options,
        "subscribe": source.topic,
    }


def has_bytes(pipeline: Pipeline, source: TopicSource) -> bool:
    """Whether a source has the columns `key_bytes` and `value_bytes`: if keys have schemas, dead
    letters need both, because either may fail to parse. If only values have schemas, `value_error`
    has the original bytes."""
    return pipeline.on_error == "dlq" and source.key_format is not None


def sink_options(pipeline: Pipeline, sink: TopicSink) -> dict[str, str]:
    """The options of a topic's sink: those for schemas, and its own."""
    topic = {"topic": sink.topic} if sink.formats else {}  # the topic determines the subject
    return {**registry_options(pipeline, sink.formats), **topic, **sink.options}


def check_encoders(
    pipeline: Pipeline,
    sink: TopicSink,
    options: Mapping[str, str],
    rows: StructType,
    *,
    register: bool = False,
) -> None:
    """Check that a sink's rows fit their schema. A sink that registers its schema is checked, and
    the schema registered, only with `register`. Raises WrongPipeline."""
    schemas = split_options(options, sink=True)[1]
    if schemas is None or (schemas.register and not register):
        return
    for column, given in schemas.columns.items():
        try:
            encoders(replace(schemas, columns={column: given}), rows, sink.topic)
        except _REFUSALS as e:
            at = "key_format" if column == "key" else "format"
            passing = isinstance(e, RegistryUnreachable)
            raise pipeline.problem((*sink.path, at), str(e), passing=passing) from e


def is_new_version(failure: str) -> bool:
    """Whether a query ended because the registry has a newer version."""
    return NEW_VERSION in failure


class RegistryVersions:
    """The schema versions that the sources are read with, stored next to the checkpoint."""

    def __init__(self, pipeline: Pipeline, places: Places, kafka: Mapping[str, str]) -> None:
        self._pipeline = pipeline
        self._places = places
        self._kafka = kafka
        self._chosen: dict[str, int] = {}

    def options(
        self, plan: Plan, say: Callable[[str], None] = lambda _: None
    ) -> dict[str, dict[str, str]]:
        """Choose the versions. Returns the options that set them, by source. A version with wider
        numbers is used if the queries that `plan` creates with it can continue from the checkpoint;
        otherwise `say` gets the reason. Raises WrongPipeline."""
        before = self._remembered()
        found: dict[str, dict[str, str]] = {}
        wider: list[tuple[TopicSource, Column, int]] = []
        for source in self._pipeline.topics:
            for column in source.formats:
                chosen = found.setdefault(source.name, {})
                name = _name(source, column)
                version, latest, grown = self._version(source, column, before.get(name))
                if version is not None and latest is not None:
                    chosen |= self._choose(source, column, version, latest)
                    if grown:
                        wider.append((source, column, latest))
        for source, column, latest in wider:
            given = found[source.name] | self._as_options(column, latest, latest)
            given.pop(f"{column}.schema.version", None)
            trial = {**found, source.name: given}
            why = widening_refusal(self._places, plan(found), partial(plan, trial))
            if why is None:
                found = trial
                self._chosen[_name(source, column)] = latest
            else:
                said = f"{source.name}: version {latest} of the {column}'s schema is not used"
                say(f"{said}, because it has wider numbers: {why}.")
        return found

    def remember(self) -> None:
        """Store the chosen versions for the next start. Raises OSError."""
        if self._chosen:
            write_json(self._places.versions, {**self._remembered(), **self._chosen})

    def _remembered(self) -> dict[str, int]:
        try:
            return json.loads(self._places.versions.read_text())
        except FileNotFoundError:
            return {}

    def _version(
        self, source: TopicSource, column: Column, before: int | None
    ) -> tuple[int | None, int | None, bool]:
        """The version to use, the latest version, and whether wider numbers are the only reason not
        to use the latest. The versions are None if the file names a version."""
        pinned = (f"{column}.schema.version", f"{column}.schema.id")
        found, latest = self._asked(source, column, None)
        if latest is None or any(name.lower() in pinned for name in source.options):
            return None, None, False
        if before is None or before == latest:
            return latest, latest, False
        if self._pipeline.schema == "fixed":
            return before, latest, False
        known = self._asked(source, column, before)[0]
        if is_wider(known, found):
            return latest, latest, False
        numbers = NUMBERS if source.formats[column] == "avro" else ()
        return before, latest, is_wider(known, found, numbers)

    def _choose(
        self, source: TopicSource, column: Column, version: int, latest: int
    ) -> dict[str, str]:
        self._chosen[_name(source, column)] = version
        return self._as_options(column, version, latest)

    def _as_options(self, column: Column, version: int, latest: int) -> dict[str, str]:
        if self._pipeline.schema == "evolve" and version == latest:
            return {"schema.on.new.version": "fail"}
        return {f"{column}.schema.version": str(version)}

    def _asked(
        self, source: TopicSource, column: Column, version: int | None
    ) -> tuple[DataType, int | None]:
        """The type of a column, and the version of the schema with that type."""
        other = "value." if column == "key" else "key."
        given = source_options(self._pipeline, source, self._kafka)
        given = {name: each for name, each in given.items() if not name.lower().startswith(other)}
        if version is not None:
            given[f"{column}.schema.version"] = str(version)
        try:
            reading = reading_of(given)
            return reading.choose()[column].dataType, reading.version(column)
        except _REFUSALS as e:
            path, passing = (*source.path, column), isinstance(e, RegistryUnreachable)
            raise self._pipeline.problem(path, str(e), passing=passing) from e


def _name(source: TopicSource, column: Column) -> str:
    """The name under which a column's version is stored. Names of sources contain no dots."""
    return source.name if column == "value" else f"{source.name}.key"
