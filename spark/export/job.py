"""The Spark job of an export: reads the ranges, turns JSON into columns, writes the files."""

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pk.spark.connect import SparkOfOurs, cancel, struct_of
from pk.spark.errors import OptionError, SparkFailed
from pk.spark.export.options import CODECS, ExportOptions, Progress
from pk.spark.read.ranges import OffsetRange, total_offsets
from pk.spark.reasons import reason, sentence, silence_query_log
from pk.spark.schemas.kinds import KINDS
from pk.spark.session.background import in_background
from pk.spark.tables.layout import parse_layout, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pk.spark.export.schemas import Decoding
    from pk.spark.export.unknown_fields import UnknownFields


class Job:
    """An export's ranges and its working folder. `known` is the schema of earlier runs, empty
    without any. The columns `chosen` have a schema that the user wrote, so the fields that it
    leaves out are not reported."""

    def __init__(
        self,
        options: ExportOptions,
        ranges: Sequence[OffsetRange],
        known: dict[str, Any],
        chosen: Collection[str],
        folder: Path,
    ) -> None:
        self.options = options
        self.chosen = frozenset(chosen)
        self.ranges = tuple(ranges)
        self.known = known
        self.states = folder / "states"
        self.data = folder / "data"
        self.layout = parse_layout(options.partition_by)
        self.decoding: Decoding | None = None
        """How keys and values with schemas become columns."""

        self.writing = False
        """Whether Spark has started to write the files."""

        self.states.mkdir()

    def run(
        self,
        own: SparkOfOurs | None,
        spark: "SparkSession | None",
        progress: Callable[[Progress], None],
    ) -> dict[str, Any]:
        """Runs the job in `spark`, or in `own` once that has started; returns the columns as
        Spark's JSON.

        Raises OptionError, SparkFailed, KeyboardInterrupt, and a task's own error: KafkaError,
        DataLost.
        """
        samples = self._samples()
        self.decoding = self._decoding()

        def stop() -> None:
            if own is not None:
                own.kill()
            else:
                assert spark is not None
                cancel(spark)

        def tick() -> None:
            if self.writing:
                progress(self.state("exporting"))

        return in_background(
            lambda: self._work(own, spark, samples), tick=tick, stop=stop, name="pk spark-export"
        )

    def _work(
        self, own: SparkOfOurs | None, spark: "SparkSession | None", samples: dict[str, list[bytes]]
    ) -> dict[str, Any]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        import pk.spark.export.footers  # noqa: F401 (here, while the JVM starts)
        from pk.spark.export.task import errors

        if spark is None:
            assert own is not None
            spark = own.session()
        silence_query_log()
        try:
            frame = self._frame(spark, samples)
            columns: dict[str, Any] = json.loads(frame.schema.json())
            self.writing = True
            codec = CODECS[self.options.codec]
            writer = frame.write.option("compression", codec)
            if self.layout:
                # Under other names if the values must also stay in the files.
                copies = {self._folder_column(c.name): frame[c.name] for c in self.layout}
                writer = frame.withColumns(copies).write.option("compression", codec)
                writer = writer.partitionBy(*copies)
            writer.parquet(f"file://{self.data}")
        except (PySparkException, Py4JError) as e:
            # Format it now: a Java exception's text is still in its JVM.
            failures = [*errors(self.states), SparkFailed(f"Spark failed: {reason(e)}")]
            raise failures[0] from e
        return columns

    def _frame(self, spark: "SparkSession", samples: dict[str, list[bytes]]) -> "DataFrame":
        from pyspark.sql.types import StringType, StructField, StructType

        from pk.spark.export.task import RECORD, JsonTexts, ReadRanges
        from pk.spark.export.unknown_fields import known_fields

        options = self.options
        schemas = {
            name: self._json_schema(spark, name, given, samples)
            for name, given in (("key", options.key_schema), ("value", options.value_schema))
            if getattr(options, name) == "json"
        }
        counted = {
            name: known
            for name, schema in schemas.items()
            if name not in self.chosen and (known := known_fields(schema.jsonValue()))
        }
        given = RECORD if self.decoding is None else self.decoding.schema
        types = {
            name: StringType() if kind == "string" else schemas.get(name)
            for name, kind in (("key", options.key), ("value", options.value))
        }
        schema = StructType(
            [StructField(each.name, types.get(each.name) or each.dataType) for each in given.fields]
        )
        task = ReadRanges(
            self.ranges,
            options.read,
            frozenset(name for name, kind in types.items() if isinstance(kind, StringType)),
            JsonTexts(schemas, spark.conf.get("spark.sql.session.timeZone") or "UTC"),
            self.states,
            counted,
            self.decoding,
        )
        count = len(self.ranges)
        frame = spark.range(0, count, 1, count).mapInArrow(lambda rows: task(rows), schema)
        return with_columns(frame, self.layout) if self.layout else frame

    def _decoding(self) -> "Decoding | None":
        if not {self.options.key, self.options.value} & KINDS.keys():
            return None
        from pk.spark.export.schemas import decoding

        return decoding(self.options, self.known)

    def _folder_column(self, name: str) -> str:
        """An Iceberg table's files must have all columns, so copies of them name directories."""
        return f"by_{name}" if self.options.table == "iceberg" else name

    def _samples(self) -> dict[str, list[bytes]]:
        """A sample of the JSON keys and values whose schema is not known."""
        wanted = [
            name
            for name, kind, schema in (
                ("key", self.options.key, self.options.key_schema),
                ("value", self.options.value, self.options.value_schema),
            )
            if kind == "json" and schema is None and not self.known
        ]
        if not wanted:
            return {}
        from pk.spark.read.sample import sample

        return sample(self.ranges, self.options.read, wanted, self.options.sample)

    def _json_schema(
        self,
        spark: "SparkSession",
        name: str,
        given: str | None,
        samples: dict[str, list[bytes]],
    ) -> Any:
        from pyspark.sql.types import StringType, StructField, StructType

        from pk.spark.export.task import CORRUPT

        if self.known:
            return StructType.fromJson(self.known)[name].dataType
        if given is not None:
            fields = _parse_schema(spark, name, given)
        else:
            from pk.spark.read.sample import infer

            fields = infer(spark, samples[name], self.states.parent)
        kept = [f for f in fields.fields if f.name != CORRUPT]
        if not kept:
            raise OptionError(
                f"no {name} among {len(samples.get(name, ())):,} looked at is a JSON object; give a"
                f" schema, or export the {name}s as string"
            )
        return StructType([*kept, StructField(CORRUPT, StringType())])

    def records_read(self) -> dict[int, int]:
        """The number of records that each finished task has read, by the index of its range."""
        from pk.spark.export.task import states

        return {index: s.records for index, s in states(self.states).items() if s.done}

    def unknown_fields(self) -> dict[str, "UnknownFields"]:
        """Column → the records with fields that the column lacks."""
        from pk.spark.export.task import unknown_fields

        return unknown_fields(self.states)

    def unparsed(self) -> dict[str, int]:
        """Column → the number of keys or values that do not fit its fields."""
        from pk.spark.export.task import unparsed

        return unparsed(self.states)

    def state(self, stage: Literal["exporting", "finishing"]) -> Progress:
        """The progress of the tasks."""
        from pk.spark.export.task import states

        records = sum(s.records for s in states(self.states).values())
        return Progress(stage, records, total_offsets(self.ranges), self.options.topic)


def _parse_schema(spark: "SparkSession", name: str, text: str) -> "StructType":
    from pyspark.errors import PySparkException

    try:
        return struct_of(spark, text)
    except PySparkException as e:
        raise OptionError(
            f"the schema of the {name} is not one that Spark reads: {sentence(e)}"
        ) from e
    except ValueError as e:
        raise OptionError(f"the schema of the {name} must name columns: {e}") from e
