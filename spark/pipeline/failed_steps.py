"""Finds the records that make a step fail, such as a failed cast or a division by zero.

Spark reports that a batch failed, but not with which record. So the records of the batch are read
again and run through the same steps in parts, until the records that fail by themselves are found.
This runs only after a failure.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.storagelevel import StorageLevel

from pk.spark.pipeline import json_values
from pk.spark.pipeline.checkpoints import planned
from pk.spark.pipeline.dead_letters import letters, size_limit
from pk.spark.pipeline.definition import Pipeline, TopicSink, TopicSource, WrongPipeline
from pk.spark.pipeline.failed_records import FailedRecord, FailedRecords
from pk.spark.pipeline.halving import failing
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.query import Query
from pk.spark.pipeline.registry_sources import source_options
from pk.spark.pipeline.relations import Builder
from pk.spark.pipeline.row_changes import marked
from pk.spark.pipeline.row_filters import is_in_ranges, is_one_of
from pk.spark.pipeline.sinks import records, topic_options
from pk.spark.read.ranges import OffsetRange
from pk.spark.reasons import reason
from pk.spark.schemas.options import split_options
from pk.spark.sink.foreach_batch import write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pk.spark.text.json_columns import JsonFields

MOST: Final = 1_000
"""The largest number of records of a batch that are skipped. If more fail, the step is wrong, not
the records."""

_OF_VALUES: Final = re.compile(
    # SQLSTATE classes for data, calls of functions, and errors that a query raises; Spark has
    # errors of formats among those of syntax.
    r"SQLSTATE: (?:2[0-9]|38|39|42|P0)"
    r"|PythonException|Traceback \(most recent call last\)"
    r"|java\.lang\.\w*(?:Arithmetic|Argument|NumberFormat|Bounds)Exception"
    r"|java\.time\.\w+\.?\w*Exception"
)
_NOT_OF_VALUES: Final = re.compile(
    r"\bpk\.(?:core|net|spark)\.[\w.]+: |OutOfMemoryError|MemoryError"  # errors of pk's own
    r"|OSError|No space left"
)
_OF_STREAMS: Final = frozenset(
    (
        *("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay"),
        *("subscribe", "includeheaders", "schema.on.new.version"),
    )
)
"""Options that determine which records a stream reads, and when; `read_ranges` replaces them."""

_ADAPTIVE: Final = "spark.sql.adaptive.enabled"


class Interrupted(Exception):
    """The pipeline was asked to stop during the search."""


class Unsearchable(Exception):
    """The records of the batch cannot be run separately; the message gives the reason."""


class Found(NamedTuple):
    """The result of a search."""

    batch: list[OffsetRange]
    records: list[FailedRecord]
    other: str | None = None
    """Why the batch fails before its steps run: a schema must be widened first."""


def is_of_values(failure: str) -> bool:
    """Whether a failure may be caused by a record's values, and not by a location that Spark reads
    or writes."""
    return _OF_VALUES.search(failure) is not None and _NOT_OF_VALUES.search(failure) is None


class Search:
    """A search for the failing records of a query's newest batch."""

    def __init__(
        self,
        spark: "SparkSession",
        pipeline: Pipeline,
        places: Places,
        kafka: Mapping[str, str],
        fields: "Mapping[str, JsonFields]",
        versions: Mapping[str, Mapping[str, str]],
        asked: Callable[[], bool],
    ) -> None:
        """`asked` returns whether the pipeline should stop."""
        self._spark = spark
        self._pipeline = pipeline
        self._places = places
        self._kafka = kafka
        self._fields = fields
        self._versions = versions
        self._asked = asked

    def find(self, query: Query, left_out: Sequence[FailedRecord], most: int) -> Found:
        """Find the failing records; none if records fail only together, or only together with those
        of earlier batches. Raises Interrupted, Unsearchable."""
        sources = [s for s in self._pipeline.topics if s.name in query.sources]
        if len(sources) < len([s for s in self._pipeline.sources if s.name in query.sources]):
            raise Unsearchable("the query also reads a stream of files or of a database")
        batch = self._batch(query, sources)
        kept: dict[str, DataFrame] = {}
        # An adaptive plan may omit steps that get no rows, and with them the failure.
        adaptive = self._spark.conf.get(_ADAPTIVE)
        self._spark.conf.set(_ADAPTIVE, "false")
        try:
            for source in sources:
                read = read_ranges(self._spark, self._options(source), _of(batch, source.topic))
                kept[source.name] = read.persist(StorageLevel.DISK_ONLY)
            return self._find(query, kept, batch, left_out, most)
        except (PySparkException, Py4JJavaError, WrongPipeline) as e:
            raise Unsearchable(reason(e)) from e
        finally:
            self._spark.conf.set(_ADAPTIVE, adaptive or "true")
            for frame in kept.values():
                frame.unpersist()

    def _find(
        self,
        query: Query,
        kept: "Mapping[str, DataFrame]",
        batch: list[OffsetRange],
        left_out: Sequence[FailedRecord],
        most: int,
    ) -> Found:
        def fails(part: Sequence[OffsetRange]) -> str | None:
            if self._asked():
                raise Interrupted
            chosen = {name: each.where(is_in_ranges(part)) for name, each in kept.items()}
            rows = self._rows(query, chosen, left_out)
            try:
                rows.write.format("noop").mode("overwrite").save()
            except (PySparkException, Py4JJavaError) as e:
                said = str(e)
                if json_values.parse_new_fields(said) or not is_of_values(said):
                    raise _Other(said) from e
                return json_values.parse_bad_record(said) or reason(said)
            return None

        try:
            said = fails(batch)
            # A failure that also occurs without records, such as that of a table, is not caused by
            # them.
            alone = said is not None and fails([]) is None
            found = failing(batch, said, fails, most) if said is not None and alone else []
        except _Other as e:
            return Found(batch, [], str(e))
        named = [FailedRecord(r.topic, r.partition, r.begin, why) for r, why in found]
        return Found(batch, named)

    def _rows(
        self, query: Query, chosen: "Mapping[str, DataFrame]", left_out: Sequence[FailedRecord]
    ) -> "DataFrame":
        """The rows that the query would write for the chosen records."""
        builder = Builder(
            self._spark,
            self._pipeline,
            self._places,
            self._kafka,
            self._fields,
            self._versions,
            without=left_out,
            records=chosen,
        )
        sink = query.sink
        assert sink is not None
        frame = builder.build().frames[sink.source]
        if isinstance(sink, TopicSink):
            return records(self._pipeline, sink, frame)
        return marked(sink, frame)

    def _batch(self, query: Query, sources: Sequence[TopicSource]) -> list[OffsetRange]:
        found: dict[tuple[str, int], OffsetRange] = {}
        for topic in {source.topic for source in sources}:
            for each in planned(self._places.query(query.name), topic):
                # A query that reads a topic twice may have two positions in it.
                other = found.get((topic, each.partition), each)
                begin, end = min(each.begin, other.begin), max(each.end, other.end)
                found[topic, each.partition] = OffsetRange(
                    topic, each.partition, begin, end, each.topic_id
                )
        return [found[place] for place in sorted(found)]

    def _options(self, source: TopicSource) -> dict[str, str]:
        given = source_options(self._pipeline, source, self._kafka)
        return {**given, **self._versions.get(source.name, {})}


class _Other(Exception):
    """The batch fails for a reason other than a record's values."""


def _of(ranges: Sequence[OffsetRange], topic: str) -> list[OffsetRange]:
    return [each for each in ranges if each.topic == topic]


def read_ranges(
    spark: "SparkSession", options: Mapping[str, str], ranges: Sequence[OffsetRange]
) -> "DataFrame":
    """Read ranges of a topic, with headers."""
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for each in ranges:
        begins.setdefault(each.topic, {})[str(each.partition)] = each.begin
        ends.setdefault(each.topic, {})[str(each.partition)] = each.end
    assigned = {topic: [int(partition) for partition in given] for topic, given in begins.items()}
    plain = {k: v for k, v in options.items() if k.lower() not in _OF_STREAMS}
    given = {
        **plain,
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(begins),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
    }
    return spark.read.format("pk").options(**given).load()


class StepLetters:
    """A writer of dead letters for the records with which steps fail."""

    def __init__(
        self,
        spark: "SparkSession",
        pipeline: Pipeline,
        places: Places,
        kafka: Mapping[str, str],
        identity: str,
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._places = places
        self._kafka = kafka
        self._identity = identity

    def write(self, query: Query, known: FailedRecords) -> None:
        """Write the dead letters of a query that may not be in the topic yet. Each is stored once,
        even if this process dies at any point. Raises PySparkException, OSError."""
        number, found = known.unwritten(query.name)
        if not found:
            return
        rows: DataFrame | None = None
        for source in {s.topic: s for s in self._pipeline.topics}.values():
            part = [each for each in found if each.topic == source.topic]
            if part:
                made = self._letters(query, source, part)
                rows = made if rows is None else rows.union(made)
        assert rows is not None, "a query's records are of its sources"
        write_batch(
            rows,
            number,
            topic_options(self._pipeline, self._kafka, None),
            checkpoint=str(self._places.own / "dead-letters"),
            query_id=f"{self._identity}-{query.name}-failed",
            atomic=True,
        )
        known.written(query.name)

    def _letters(
        self, query: Query, source: TopicSource, found: Sequence[FailedRecord]
    ) -> "DataFrame":
        given = source_options(self._pipeline, source, self._kafka)
        options = split_options(given)[0]  # a dead letter has the record's original bytes
        spans: dict[int, OffsetRange] = {}
        for each in found:
            span = spans.get(each.partition)
            begin = each.offset if span is None else min(span.begin, each.offset)
            end = each.offset + 1 if span is None else max(span.end, each.offset + 1)
            spans[each.partition] = OffsetRange(each.topic, each.partition, begin, end)
        raw = read_ranges(self._spark, options, list(spans.values())).where(is_one_of(found))
        reasons = self._spark.createDataFrame(
            [(each.partition, each.offset, each.why) for each in found],
            "partition INT, offset BIGINT, _pk_why STRING",
        )
        raw = raw.join(f.broadcast(reasons), ["partition", "offset"])
        says = {
            "pipeline": f.lit(self._pipeline.name),
            "sink": f.lit(query.name),
            "message": f.col("_pk_why"),
        }
        topic, limit = self._pipeline.dead_letters, size_limit(self._kafka)
        return letters(raw, topic, f.col("key"), f.col("value"), says, limit)
