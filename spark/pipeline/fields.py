"""The fields of JSON values: declared in the file, stored next to the checkpoint, or inferred from
a sample of the topic."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import StructType

from pk.core.values import TopicPartition
from pk.spark.connections import connections
from pk.spark.files.object_path import write_json
from pk.spark.pipeline.checkpoints import planned, query_names
from pk.spark.pipeline.definition import Pipeline, TopicSource
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.relations import parse_fields
from pk.spark.read.options import SourceOptions, parse_options
from pk.spark.read.plan import plan
from pk.spark.read.ranges import OffsetRange
from pk.spark.read.sample import infer, sample
from pk.spark.schemas.growth import widened
from pk.spark.text.json_columns import JsonFields
from pk.spark.text.json_reader import load
from pk.spark.text.new_fields import as_text, names_of
from pk.spark.text.wider_numbers import (
    Path,
    not_double,
    shown_path,
    whole_fields,
    wider_numbers,
    with_doubles,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE: Final = 20_000

Refusal = Callable[[JsonFields, JsonFields], str | None]
"""A function that returns why the pipeline cannot change from the first fields to the second; None
if it can."""


class Fields:
    """The fields of a pipeline's JSON sources. `kafka` has the options of its topics."""

    def __init__(self, pipeline: Pipeline, places: Places, kafka: Mapping[str, str]) -> None:
        self._pipeline = pipeline
        self._places = places
        self._kafka = kafka

    def known(self, spark: "SparkSession") -> dict[str, JsonFields]:
        """The fields of each JSON source. Topics are sampled if their fields are neither declared
        nor stored.

        Raises WrongPipeline, KafkaError, ClientError.
        """
        remembered = self._remembered()
        found: dict[str, JsonFields] = {}
        for source in self._pipeline.topics:
            if source.value != "json":
                continue
            before = remembered.get(source.name)
            if source.fields is not None:
                declared = parse_fields(self._pipeline, source, source.fields)
                evolves = self._pipeline.schema == "evolve" and before is not None
                schema = widened(declared, before) if evolves and before else declared
                stays = dict.fromkeys(whole_fields(declared), "is declared as BIGINT")
                found[source.name] = JsonFields(schema, stays)
            else:
                found[source.name] = JsonFields(before or self._sampled(spark, source))
        return found

    def remember(self, found: Mapping[str, JsonFields]) -> None:
        """Store the fields for the next start. Raises OSError."""
        value = {name: each.schema.jsonValue() for name, each in found.items()}
        write_json(self._places.schemas, value)

    def widen(
        self,
        spark: "SparkSession",
        known: JsonFields,
        source: TopicSource,
        seen: bytes,
        refusal: Refusal,
        say: Callable[[str], None],
    ) -> JsonFields:
        """Add the new fields of a failed batch to `known`; `seen` is an object with fields that
        require a change of the columns. A field whose type cannot be inferred becomes text. A
        BIGINT field whose number in `seen` has a fraction becomes DOUBLE, unless `refusal` returns
        a reason against it or other records have numbers that DOUBLE cannot hold.

        Raises KafkaError, ClientError, DataLost.
        """
        options = self._options(source)
        ranges = self._failed_ranges(source)
        texts = sample(ranges, options.read, ["value"], SAMPLE)["value"] if ranges else []
        wider = widened(known.schema, infer(spark, [*texts, seen]))
        found = load(seen)
        evolved = replace(known, schema=widened(wider, as_text(found, names_of(known.schema))))
        for path in wider_numbers(found, known.schema):
            with_double = replace(evolved, schema=with_doubles(evolved.schema, [path]))
            why = _rounded(texts, path) or refusal(evolved, with_double)
            named = f"{source.name}: {shown_path(path)}"
            if why is None:
                evolved = with_double
                say(f"{named} was BIGINT, and is DOUBLE from now on.")
            else:
                evolved = replace(evolved, stays={**evolved.stays, path: f"stays BIGINT: {why}"})
                say(f"{named} stays BIGINT: {why}.")
        return evolved

    def _remembered(self) -> dict[str, StructType]:
        try:
            value = json.loads(self._places.schemas.read_text())
        except FileNotFoundError:
            return {}
        return {name: StructType.fromJson(schema) for name, schema in value.items()}

    def _options(self, source: TopicSource) -> SourceOptions:
        options = {k: v for k, v in source.options.items() if k.lower().startswith("kafka.")}
        return parse_options({**self._kafka, **options, "subscribe": source.topic})

    def _sampled(self, spark: "SparkSession", source: TopicSource) -> StructType:
        options = self._options(source)
        ranges = connections().run(plan, options)
        texts = sample(ranges, options.read, ["value"], SAMPLE)["value"]
        schema = infer(spark, texts)
        if not schema.fields:
            raise self._pipeline.problem(
                (*source.path, "value"),
                f"the topic {source.topic} has no JSON object from which to infer the fields;"
                " give them: fields = 'id BIGINT, name STRING'",
            )
        return schema

    def _failed_ranges(self, source: TopicSource) -> list[OffsetRange]:
        """The ranges of a topic in the newest planned batches of the pipeline's queries."""
        found: dict[TopicPartition, OffsetRange] = {}
        for query in query_names(self._places.checkpoint):
            sink = self._places.query(query)
            for each in planned(sink, source.topic):
                tp = TopicPartition(each.topic, each.partition)
                if tp not in found or each.end > found[tp].end:
                    found[tp] = each
        return list(found.values())


def _rounded(texts: list[bytes], path: Path) -> str | None:
    """Why the values of other records prevent a field from becoming DOUBLE; None if they do not."""
    large = not_double(texts, path)
    return None if large is None else f"DOUBLE cannot hold {large}, a value of other records"
