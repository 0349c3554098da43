"""The Spark job of an export: reads the ranges, turns JSON into columns, writes the files."""

import json
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from pk.spark.errors import OptionError, SparkFailed
from pk.spark.export_options import CODECS, ExportOptions, Progress
from pk.spark.interrupts import DeferredInterrupts
from pk.spark.ranges import OffsetRange, total_offsets
from pk.spark.session import OwnSpark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pk.spark.unknown_fields import UnknownFields

CORRUPT: Final = "_corrupt_record"
"""The field for what is not a JSON object."""

_POLL_S: Final = 0.1


class Job:
    """An export's ranges and its working folder. `known` is the schema of earlier runs, empty without any. The columns
    `chosen` have a schema that the user wrote, so the fields that it leaves out are not reported."""

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
        self.writing = False
        """Whether Spark has started to write the files."""

        self.states.mkdir()

    def run(
        self,
        own: OwnSpark | None,
        spark: "SparkSession | None",
        progress: Callable[[Progress], None],
    ) -> dict[str, Any]:
        """Runs the job in `spark`, or in `own` once that has started; returns the columns as Spark's JSON.

        Everything that calls Spark runs in a thread of its own, and Ctrl-C is handled between two progress checks: a
        KeyboardInterrupt inside py4j leaves tracebacks and may be lost.

        Raises OptionError, SparkFailed, KeyboardInterrupt, and a task's own error: KafkaError, DataLost.
        """
        samples = self._samples()
        columns: dict[str, Any] = {}
        failure: list[BaseException] = []

        def work() -> None:
            try:
                columns.update(self._work(own, spark, samples))
            except BaseException as e:  # noqa: BLE001 (raised again below)
                failure.append(e)

        thread = threading.Thread(target=work, name="pk spark-export", daemon=True)
        with DeferredInterrupts() as interrupts:
            thread.start()
            try:
                while thread.is_alive():
                    thread.join(_POLL_S)
                    interrupts.check()
                    if self.writing:
                        progress(self.state("exporting"))
            except BaseException:
                if own is not None:
                    own.kill()
                else:
                    assert spark is not None
                    spark.sparkContext.cancelAllJobs()
                thread.join()
                raise
        if failure:
            raise failure[0]
        return columns

    def _work(
        self, own: OwnSpark | None, spark: "SparkSession | None", samples: dict[str, list[bytes]]
    ) -> dict[str, Any]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        import pk.spark.footers  # noqa: F401 (here, while the JVM starts)
        from pk.spark.task import errors

        if spark is None:
            assert own is not None
            spark = own.session()
        try:
            frame = self._frame(spark, samples)
            columns: dict[str, Any] = json.loads(frame.schema.json())
            self.writing = True
            codec = CODECS[self.options.codec]
            frame.write.option("compression", codec).parquet(f"file://{self.data}")
        except (PySparkException, Py4JError) as e:
            # Format it now: a Java exception's text is still in its JVM.
            failures = [*errors(self.states), SparkFailed(f"Spark failed: {e}")]
            raise failures[0] from e
        return columns

    def _frame(self, spark: "SparkSession", samples: dict[str, list[bytes]]) -> "DataFrame":
        from pyspark.sql import functions

        from pk.spark.task import SCHEMA, ReadRanges
        from pk.spark.unknown_fields import known_fields

        options = self.options
        key_text, value_text = options.key != "bytes", options.value != "bytes"
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
        task = ReadRanges(self.ranges, options.read, key_text, value_text, self.states, counted)
        types = {True: "string", False: "binary"}
        schema = SCHEMA.format(key=types[key_text], value=types[value_text])
        count = len(self.ranges)
        frame = spark.range(0, count, 1, count).mapInArrow(lambda rows: task(rows), schema)
        for name, fields in schemas.items():
            how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
            frame = frame.withColumn(name, functions.from_json(name, fields, how))
        return frame

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
        from pk.spark.sample import sample

        return sample(self.ranges, self.options.read, wanted, self.options.sample)

    def _json_schema(
        self,
        spark: "SparkSession",
        name: str,
        given: str | None,
        samples: dict[str, list[bytes]],
    ) -> Any:
        from pyspark.sql.types import StringType, StructField, StructType

        if self.known:
            return StructType.fromJson(self.known)[name].dataType
        if given is not None:
            fields = _parse_schema(name, given)
        else:
            from pk.spark.sample import infer

            fields = infer(spark, samples[name])
        kept = [f for f in fields.fields if f.name != CORRUPT]
        if not kept:
            raise OptionError(
                f"no {name} among {len(samples.get(name, ())):,} looked at is a JSON object; give a"
                f" schema, or export the {name}s as string"
            )
        return StructType([*kept, StructField(CORRUPT, StringType())])

    def records_read(self) -> dict[int, int]:
        """The number of records that each finished task has read, by the index of its range."""
        from pk.spark.task import states

        return {index: s.records for index, s in states(self.states).items() if s.done}

    def unknown_fields(self) -> dict[str, "UnknownFields"]:
        """By column, the records with fields that the column lacks."""
        from pk.spark.task import unknown_fields

        return unknown_fields(self.states)

    def state(self, stage: Literal["exporting", "finishing"]) -> Progress:
        """The progress of the tasks."""
        from pk.spark.task import states

        found = states(self.states).values()
        return Progress(
            stage,
            sum(s.records for s in found),
            total_offsets(self.ranges),
            len(self.ranges),
            sum(s.done for s in found),
        )


def _parse_schema(name: str, text: str) -> "StructType":
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        found = StructType.fromDDL(text)
    except PySparkException as e:
        raise OptionError(f"the schema of the {name} is not one that Spark reads: {e}") from e
    if not isinstance(found, StructType):
        raise OptionError(f"the schema of the {name} must name columns, is {text!r}")
    return found
