"""The fields of JSON values: declared in the file, remembered beside the checkpoint, or found in a
sample of the topic."""

import json
from collections.abc import Mapping
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
from pk.spark.text.json_reader import load
from pk.spark.text.new_fields import as_text, names_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE: Final = 20_000


class Fields:
    """The schemas of a pipeline's JSON sources. `kafka` has the options of its topics."""

    def __init__(self, pipeline: Pipeline, places: Places, kafka: Mapping[str, str]) -> None:
        self._pipeline = pipeline
        self._places = places
        self._kafka = kafka

    def known(self, spark: "SparkSession") -> dict[str, StructType]:
        """The schema of each JSON source; samples topics for fields neither declared nor
        remembered.

        Raises WrongPipeline, KafkaError, ClientError.
        """
        remembered = self._remembered()
        found: dict[str, StructType] = {}
        for source in self._pipeline.topics:
            if source.value != "json":
                continue
            before = remembered.get(source.name)
            if source.fields is not None:
                declared = parse_fields(self._pipeline, source, source.fields)
                evolves = self._pipeline.schema == "evolve" and before is not None
                found[source.name] = widened(declared, before) if evolves and before else declared
            else:
                found[source.name] = before or self._sampled(spark, source)
        return found

    def remember(self, schemas: Mapping[str, StructType]) -> None:
        """Keeps the schemas for the next start. Raises OSError."""
        value = {name: schema.jsonValue() for name, schema in schemas.items()}
        write_json(self._places.schemas, value)

    def widen(
        self, spark: "SparkSession", known: StructType, source: TopicSource, seen: bytes
    ) -> StructType:
        """`known` with the fields of the records of the batch that failed; `seen` is an object of
        some. One whose type is not found becomes text.

        Raises KafkaError, ClientError, DataLost.
        """
        options = self._options(source)
        ranges = self._failed_ranges(source)
        texts = sample(ranges, options.read, ["value"], SAMPLE)["value"] if ranges else []
        wider = widened(known, infer(spark, [*texts, seen]))
        return widened(wider, as_text(load(seen), names_of(known)))

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
                f"the topic {source.topic} has no JSON object to take the fields from; give them:"
                " fields = 'id BIGINT, name STRING'",
            )
        return schema

    def _failed_ranges(self, source: TopicSource) -> list[OffsetRange]:
        """The offsets of the newest batches of the pipeline's queries that were planned."""
        found: dict[TopicPartition, OffsetRange] = {}
        for query in query_names(self._places.checkpoint):
            sink = self._places.query(query)
            for each in planned(sink, source.topic):
                tp = TopicPartition(each.topic, each.partition)
                if tp not in found or each.end > found[tp].end:
                    found[tp] = each
        return list(found.values())
