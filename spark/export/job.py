"""The Spark job of an export: its tasks read the ranges, turn JSON into columns, and write the
files.

Without `partition_by`, a task reads and writes in one Python function, so the records never enter
the JVM. With it, Spark computes the columns of the directories between reading and writing.
"""

import json
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pk.spark.connect import JobSpark, cancel, struct_of
from pk.spark.errors import OptionError, SparkFailed
from pk.spark.export.options import CODECS, ExportOptions, Progress
from pk.spark.files.store import LocalStore, Store
from pk.spark.read.ranges import OffsetRange, total_offsets
from pk.spark.reasons import reason, sentence, silence_query_log
from pk.spark.schemas.kinds import KINDS
from pk.spark.session.background import in_background
from pk.spark.tables.layout import parse_layout, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pk.spark.export.schemas import Decoding
    from pk.spark.export.task import ReadRanges, States, TaskState
    from pk.spark.export.unknown_fields import UnknownFields
    from pk.spark.files.writer import WrittenFile


class Job:
    """The Spark job that exports ranges. Its tasks write to `files` and report their progress in
    `states`. `columns_of` returns the Arrow schema of the files for Spark's columns; `names` are
    the prefixes of the file names of each range. `known` is the schema of earlier runs, empty if
    there are none. The user wrote the schemas of the columns `chosen`, so fields that these lack
    are not reported."""

    def __init__(
        self,
        options: ExportOptions,
        ranges: Sequence[OffsetRange],
        known: dict[str, Any],
        chosen: Collection[str],
        files: Store,
        states: Store,
        names: Sequence[str],
        columns_of: Callable[["StructType"], Any],
    ) -> None:
        self.options = options
        self.chosen = frozenset(chosen)
        self.ranges = tuple(ranges)
        self.known = known
        self.files = files
        self.states = states
        self.names = tuple(names)
        self._columns_of = columns_of
        self.layout = parse_layout(options.partition_by)
        self.decoding: Decoding | None = None
        """How keys and values with schemas are decoded; None if there are none."""

        self.writing = False
        """Whether Spark has started to write the files."""

        self.written: tuple[WrittenFile, ...] = ()
        """The written files, once the job has ended."""

        self._said: States | None = None

    def run(
        self,
        own: JobSpark | None,
        spark: "SparkSession | None",
        progress: Callable[[Progress], None],
    ) -> dict[str, Any]:
        """Run the job in `spark`, or in `own` once that has started; return the columns as Spark's
        JSON.

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
        self, own: JobSpark | None, spark: "SparkSession | None", samples: dict[str, list[bytes]]
    ) -> dict[str, Any]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        import pk.spark.files.writer  # noqa: F401 (here, while the JVM starts)

        if spark is None:
            assert own is not None
            spark = own.session()
        silence_query_log()
        try:
            frame, task = self._frame(spark, samples)
            self.writing = True
            return self._write(frame, task)
        except (PySparkException, Py4JError) as e:
            # Format the error now, while its JVM is running: a Java exception's text is still
            # there.
            failures = [*self._states.errors(), SparkFailed(f"Spark failed: {reason(e)}")]
            raise failures[0] from e

    def _write(self, frame: "DataFrame", task: "ReadRanges") -> dict[str, Any]:
        from pk.spark.files.writer import RESULT, WriteFiles, WrittenFile, write_rows

        options = self.options
        rows = with_columns(frame, self.layout) if self.layout else frame
        columns: dict[str, Any] = json.loads(rows.schema.json())
        # The files of an Iceberg table must have all columns; other readers take the values from
        # the directory names.
        whole = options.table == "iceberg"
        kept = rows.schema if whole or not self.layout else self._inside(rows)
        writing = WriteFiles(
            self.files,
            self._columns_of(kept),
            "",
            self.names,
            CODECS[options.codec],
            options.rolling,
            {f"by_{c.name}" if whole else c.name: f"_by_{c.name}" for c in self.layout},
        )
        if self.layout:
            texts = {f"_by_{c.name}": rows[c.name].cast("string") for c in self.layout}
            self.written = tuple(write_rows(rows.withColumns(texts), writing))
        else:
            spark = frame.sparkSession
            numbers = self._numbers(spark).mapInArrow(lambda given: writing(task(given)), RESULT)
            self.written = tuple(WrittenFile(*row) for row in numbers.collect())
        return columns

    def _inside(self, rows: "DataFrame") -> "StructType":
        from pyspark.sql.types import StructType

        names = {column.name for column in self.layout}
        return StructType([each for each in rows.schema.fields if each.name not in names])

    def _numbers(self, spark: "SparkSession") -> "DataFrame":
        count = len(self.ranges)
        return spark.range(0, count, 1, count)

    def _frame(
        self, spark: "SparkSession", samples: dict[str, list[bytes]]
    ) -> "tuple[DataFrame, ReadRanges]":
        """Create the frame of records, and the function with which tasks read them."""
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
        return self._numbers(spark).mapInArrow(lambda rows: task(rows), schema), task

    def _decoding(self) -> "Decoding | None":
        if not {self.options.key, self.options.value} & KINDS.keys():
            return None
        from pk.spark.export.schemas import decoding

        return decoding(self.options, self.known)

    def _samples(self) -> dict[str, list[bytes]]:
        """Sample the JSON keys and values whose schema is unknown."""
        wanted = [
            name
            for name, kind, schema in (
                ("key", self.options.key, self.options.key_schema),
                ("value", self.options.value, self.options.value_schema),
            )
            if kind == "json" and schema is None and (not self.known or self._evolves(name))
        ]
        if not wanted:
            return {}
        from pk.spark.read.sample import sample

        return sample(self.ranges, self.options.read, wanted, self.options.sample)

    def _evolves(self, name: str) -> bool:
        """Whether new fields are added to a column."""
        return self.options.evolve and name not in self.chosen

    def _json_schema(
        self,
        spark: "SparkSession",
        name: str,
        given: str | None,
        samples: dict[str, list[bytes]],
    ) -> Any:
        from pyspark.sql.types import StringType, StructField, StructType

        from pk.spark.export.task import CORRUPT

        before: Any = None
        if self.known:
            before = StructType.fromJson(self.known)[name].dataType
            if not samples.get(name):
                return before
        if given is not None:
            fields = _parse_schema(spark, name, given)
        else:
            from pk.spark.read.sample import infer, infer_remotely

            if isinstance(self.states, LocalStore):
                fields = infer(spark, samples[name], self.states.path)
            else:
                fields = infer_remotely(spark, samples[name])
        if before is not None:
            from pk.spark.schemas.growth import widened

            fields = widened(before, fields)
        kept = [f for f in fields.fields if f.name != CORRUPT]
        if not kept:
            raise OptionError(
                f"none of the {len(samples.get(name, ())):,} sampled {name}s is a JSON object;"
                f" give a schema, or export the {name}s as string"
            )
        return StructType([*kept, StructField(CORRUPT, StringType())])

    @property
    def _states(self) -> "States":
        from pk.spark.export.task import States

        if self._said is None:
            self._said = States(self.states)
        return self._said

    def done(self) -> "dict[int, TaskState]":
        """The states of finished tasks, by the index of their range."""
        return {index: state for index, state in self._states.now().items() if state.done}

    @staticmethod
    def unknown_fields(done: "dict[int, TaskState]") -> dict[str, "UnknownFields"]:
        """Column → the records with fields that the column lacks."""
        from pk.spark.export.task import unknown_fields

        return unknown_fields(done.values())

    @staticmethod
    def unparsed(done: "dict[int, TaskState]") -> dict[str, int]:
        """Column → the number of keys or values that do not fit its fields."""
        from pk.spark.export.task import unparsed

        return unparsed(done.values())

    def state(self, stage: Literal["exporting", "finishing"]) -> Progress:
        """The progress of the tasks."""
        now = self._states.recent() if stage == "exporting" else self._states.now()
        records = sum(s.records for s in now.values())
        return Progress(stage, records, total_offsets(self.ranges), self.options.topic)


def _parse_schema(spark: "SparkSession", name: str, text: str) -> "StructType":
    from pyspark.errors import PySparkException

    try:
        return struct_of(spark, text)
    except PySparkException as e:
        raise OptionError(f"Spark cannot parse the schema of the {name}: {sentence(e)}") from e
    except ValueError as e:
        raise OptionError(f"the schema of the {name} must name columns: {e}") from e
