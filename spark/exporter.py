"""A topic to parquet files, by Spark: `pk spark-export`.

What is exported is decided first, as ranges of offsets; each range is one task of Spark and one file. The task reads its
range from the partition's leader (pk.spark.reader, which is also what the `pk` data source reads with) and hands Spark
Arrow batches; Spark parses JSON where that is wanted, and writes. The ranges are known before Spark has started, so the
job does without the data source's planning, which would start Python three times to be told them: 3.5 s of CPU.

The counts come from the files themselves: from each file's footer its records and the offsets between which they lie.
What the manifest says is therefore what is there (pk.spark.manifest).
"""

import contextlib
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from pk.core.values import TopicPartition, uuid_text
from pk.net.client.admin import Admin, open_admin
from pk.spark.errors import DataLost, DirectoryRefused, OptionError, SparkFailed
from pk.spark.java import require_pyspark
from pk.spark.manifest import (
    ExportDirectory,
    ExportedRange,
    Manifest,
    Run,
    file_name,
    open_directory,
)
from pk.spark.ranges import OffsetRange, split, total_offsets
from pk.spark.read_options import ReadOptions
from pk.spark.session import OwnSpark, launch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Kind = Literal["bytes", "string", "json"]
Mode = Literal["new", "resume", "overwrite"]
Resolve = Callable[
    [Admin, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, tuple[int, int | None]]]
]
"""Offsets (begin, end) of each partition that is meant; end None: up to the partition's end as it is now."""

CODECS: Final = {
    "none": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4_raw",  # Spark's plain lz4 is Hadoop's framing, which few others read
    "zstd": "zstd",
}
"""The compressions of the files, with Spark's names for them."""

OFFSETS_A_FILE: Final = 2_000_000
OFFSETS_WORTH_A_TASK: Final = 100_000
"""A partition is not cut into smaller pieces than this only to keep every core busy."""

LONG_OFFSETS: Final = 12_000_000
"""From so many offsets on the optimising compiler earns its keep (pk.spark.session)."""

SAMPLE: Final = 20_000
CORRUPT: Final = "_corrupt_record"
_POLL_S: Final = 0.1
_PART: Final = re.compile(r"part-(\d+)-.*\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What to export, and how.

    `client` has Kafka's keys of a consumer (`isolation.level`, …). `resolve` None is all that the topic holds. With
    `json`, keys or values become a struct column of the objects' fields: those of `key_schema` or `value_schema` (DDL), or
    else of a sample of `sample` records; text that does not fit is kept in the field `_corrupt_record`.
    """

    bootstrap: str
    topic: str
    directory: Path
    client: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = "new"
    key: Kind = "bytes"
    value: Kind = "bytes"
    key_schema: str | None = None
    value_schema: str | None = None
    sample: int = SAMPLE
    codec: str = "snappy"
    cores: int | None = None
    """How many tasks at once; None: as many as this process may use."""

    fail_on_data_loss: bool = True
    resolve: Resolve | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an export is. Offsets are not records: compaction and transactions leave holes."""

    stage: Literal["planning", "starting", "exporting", "finishing"]
    records: int = 0
    offsets: int = 0
    """How many offsets are to be read."""

    ranges: int = 0
    ranges_done: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """What an export has done."""

    topic: str
    topic_id: str
    directory: Path
    records: int
    bytes: int
    files: int
    ranges: tuple[ExportedRange, ...]
    records_before: int
    """Records that earlier runs had exported to the same directory, and that are still part of it."""

    elapsed_ms: int


def export(
    options: ExportOptions,
    progress: Callable[[Progress], None] = lambda _: None,
    spark: "SparkSession | None" = None,
) -> Summary:
    """Export a topic. Blocks; `progress` is called from this thread, a few times a second.

    With `spark` that session does the work (it must be local), else one of its own, made as quickly as may be and ended
    with the call. Raises DirectoryRefused, OptionError, DataLost, SparkMissing, SparkFailed, KafkaError and ClientError; the
    directory then holds what it held before.
    """
    started = time.monotonic()
    _check(options)
    require_pyspark()
    with open_directory(options.directory.absolute()) as directory, contextlib.ExitStack() as stack:
        before = _before(options, directory)
        own: OwnSpark | None = None
        cores = options.cores or _cores()
        if spark is None:
            own = stack.enter_context(launch(cores=cores))
        progress(Progress("planning"))
        found = trio.run(_resolve, options, before)
        enough = min(cores, total_offsets(found.ranges) // OFFSETS_WORTH_A_TASK)
        ranges = split(found.ranges, min_ranges=max(enough, 1), offsets_max=OFFSETS_A_FILE)
        if own is not None and ranges and total_offsets(ranges) >= LONG_OFFSETS:
            own.kill()
            own = stack.enter_context(launch(cores=cores, long=True))
        work = _Work(options, found, ranges, before, secrets.token_hex(4))
        directory.clean()
        written: dict[str, Path] = {}
        with directory.unfinished(work.run_id) as folder:
            done: list[ExportedRange] = []
            columns = work.known
            if ranges:
                progress(Progress("starting", 0, total_offsets(ranges), len(ranges)))
                columns = work.write(folder, own, spark, progress)
                progress(work.state(folder, "finishing"))
                done, written = work.collect(folder)
            manifest = work.manifest(done, columns)
            directory.commit(manifest, written)
    return Summary(
        topic=options.topic,
        topic_id=manifest.topic_id,
        directory=options.directory,
        records=sum(r.records for r in done),
        bytes=sum(r.bytes for r in done),
        files=len(written),
        ranges=tuple(done),
        records_before=manifest.records - sum(r.records for r in done),
        elapsed_ms=round((time.monotonic() - started) * 1000),
    )


def _cores() -> int:
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check(options: ExportOptions) -> None:
    if options.codec not in CODECS:
        raise OptionError(f"the codec must be one of {', '.join(CODECS)}, is {options.codec!r}")
    for what, kind in (("key", options.key), ("value", options.value)):
        if kind not in ("bytes", "string", "json"):
            raise OptionError(f"{what} must be bytes, string or json, is {kind!r}")
    for what, schema, kind in (
        ("key", options.key_schema, options.key),
        ("value", options.value_schema, options.value),
    ):
        if schema is not None and kind != "json":
            raise OptionError(f"a schema of the {what} is only for json")


def _before(options: ExportOptions, directory: ExportDirectory) -> Manifest | None:
    """The export to go on with, None for a new one. Raises DirectoryRefused, OptionError."""
    before = directory.manifest
    if before is None or options.mode == "overwrite":
        return None
    if options.mode == "new":
        raise DirectoryRefused(
            f"{options.directory} holds an export of {before.topic} with {before.records:,} records;"
            " resume it, or overwrite it"
        )
    if before.topic != options.topic:
        raise DirectoryRefused(
            f"{options.directory} holds an export of the topic {before.topic}, not of {options.topic}"
        )
    for what, is_now, was in (
        ("keys", options.key, before.key),
        ("values", options.value, before.value),
    ):
        if is_now != was:
            raise OptionError(
                f"the export in {options.directory} has {what} as {was}, not {is_now}"
            )
    if options.key_schema or options.value_schema:
        raise OptionError("an export that is resumed keeps its schema")
    return before


@dataclass(frozen=True, slots=True)
class _Found:
    """What is to be read. `partitions` are those that `resolve` meant, whether or not anything is in them."""

    topic_id: str
    ranges: tuple[OffsetRange, ...]


async def _resolve(options: ExportOptions, before: Manifest | None) -> _Found:
    from pk.spark.plan import describe, ids_of, whole, within

    read = ReadOptions(options.bootstrap, options.client)
    async with open_admin(options.bootstrap, read.admin_config) as admin:
        topic = (await describe(admin, [options.topic]))[options.topic]
        topic_id = uuid_text(topic.topic_id)
        if before is not None and before.topic_id != topic_id:
            raise DirectoryRefused(
                f"the topic {options.topic} was deleted and made again since the export in"
                f" {options.directory} (id {before.topic_id} then, {topic_id} now); export to another"
                " directory, or overwrite this one"
            )
        ids = ids_of([topic])
        places = await whole(admin, ids, read.isolation)
        wanted: Mapping[TopicPartition, tuple[int, int | None]] = {
            tp: (place.begin, place.end) for tp, place in places.items()
        }
        if options.resolve is not None:
            wanted = await options.resolve(admin, sorted(ids))
    ranges: list[OffsetRange] = []
    for tp in sorted(wanted):
        begin, end = wanted[tp]
        if before is not None and tp.partition in before.partitions:
            begin = before.partitions[tp.partition][1]
            if begin > places[tp].end:
                raise DataLost(
                    f"{tp} ends at {places[tp].end}, but was exported up to {begin}: records were"
                    " lost; export to another directory, or overwrite this one"
                )
        end = places[tp].end if end is None else end
        ranges.append(within(places[tp], begin, max(begin, end), options.fail_on_data_loss))
    return _Found(topic_id, tuple(ranges))


class _Work:
    """One run: its ranges, the job that writes them, what came of it."""

    def __init__(
        self,
        options: ExportOptions,
        found: _Found,
        ranges: Sequence[OffsetRange],
        before: Manifest | None,
        run_id: str,
    ) -> None:
        self.options = options
        self.found = found
        self.ranges = tuple(ranges)
        self.before = before
        self.run_id = run_id
        self.known = before.columns if before is not None else {}
        """The columns of the runs before; none where those found no records."""

    def write(
        self,
        folder: Path,
        own: OwnSpark | None,
        spark: "SparkSession | None",
        progress: Callable[[Progress], None],
    ) -> dict[str, Any]:
        """Have Spark write the files; the columns, as Spark's JSON has them."""
        from pyspark.errors import PySparkException

        import pk.spark.footers  # noqa: F401 (here, while the JVM starts)

        states = folder / "states"
        states.mkdir()
        samples = self._samples()
        if spark is None:
            assert own is not None
            spark = own.session()
        try:
            frame = self._frame(spark, states, samples)
            columns: dict[str, Any] = json.loads(frame.schema.json())
            self._run(spark, own, frame, folder, progress)
        except PySparkException as e:
            from pk.spark.task import errors

            failures = errors(states)
            if failures:
                raise failures[0] from e
            raise SparkFailed(f"Spark failed: {e}") from e
        return columns

    def _frame(
        self, spark: "SparkSession", states: Path, samples: dict[str, list[bytes]]
    ) -> "DataFrame":
        from pyspark.sql import functions

        from pk.spark.task import SCHEMA, ReadRanges

        options = self.options
        read = ReadOptions(
            options.bootstrap,
            options.client,
            headers=True,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        key_text, value_text = options.key != "bytes", options.value != "bytes"
        task = ReadRanges(self.ranges, read, key_text, value_text, states)
        types = {True: "string", False: "binary"}
        schema = SCHEMA.format(key=types[key_text], value=types[value_text])
        count = len(self.ranges)
        frame = spark.range(0, count, 1, count).mapInArrow(lambda rows: task(rows), schema)
        for name, given in (("key", options.key_schema), ("value", options.value_schema)):
            if getattr(options, name) == "json":
                fields = self._json_schema(spark, name, given, samples)
                how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
                frame = frame.withColumn(name, functions.from_json(name, fields, how))
        return frame

    def _samples(self) -> dict[str, list[bytes]]:
        """Some keys and values of those that are JSON, where their schema is not known."""
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

        read = ReadOptions(
            self.options.bootstrap,
            self.options.client,
            fail_on_data_loss=self.options.fail_on_data_loss,
        )
        return sample(self.ranges, read, wanted, self.options.sample)

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

    def _run(
        self,
        spark: "SparkSession",
        own: OwnSpark | None,
        frame: "DataFrame",
        folder: Path,
        progress: Callable[[Progress], None],
    ) -> None:
        failure: list[Exception] = []

        def write() -> None:
            try:
                codec = CODECS[self.options.codec]
                frame.write.option("compression", codec).parquet(f"file://{folder / 'data'}")
            except Exception as e:  # noqa: BLE001 (raised again below)
                failure.append(e)

        thread = threading.Thread(target=write, name="pk spark-export", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_POLL_S)
                progress(self.state(folder, "exporting"))
        except BaseException:
            if own is not None:
                own.kill()
            else:
                spark.sparkContext.cancelAllJobs()
            thread.join()
            raise
        if failure:
            raise failure[0]

    def state(self, folder: Path, stage: Literal["exporting", "finishing"]) -> Progress:
        """How far the tasks are."""
        from pk.spark.task import states

        found = states(folder / "states")
        return Progress(
            stage,
            sum(s.records for s in found),
            total_offsets(self.ranges),
            len(self.ranges),
            sum(s.done for s in found),
        )

    def collect(self, folder: Path) -> tuple[list[ExportedRange], dict[str, Path]]:
        """What was written for each range, and the files by the names that they are to have.

        Raises SparkFailed where a file holds other than its range's offsets.
        """
        from pk.spark.footers import footer

        parts = {
            int(m[1]): p for p in (folder / "data").iterdir() if (m := _PART.fullmatch(p.name))
        }
        done: list[ExportedRange] = []
        written: dict[str, Path] = {}
        for index, r in enumerate(self.ranges):
            exported = ExportedRange(r.partition, r.begin, r.end, 0, None, 0)
            path = parts.get(index)
            if path is not None:
                found = footer(path)
                if found.records and not r.begin <= found.first <= found.last < r.end:
                    raise SparkFailed(
                        f"{path} was to hold offsets {r.begin} to {r.end} of {r.topic_partition},"
                        f" but has {found.first} to {found.last}"
                    )
                if found.records:
                    name = file_name(r.topic, r.partition, r.begin, r.end, self.run_id)
                    written[name] = path
                    size = path.stat().st_size
                    exported = replace(exported, records=found.records, file=name, bytes=size)
            done.append(exported)
        return done, written

    def manifest(self, done: list[ExportedRange], columns: dict[str, Any]) -> Manifest:
        """The manifest with this run in it."""
        before = self.before
        partitions = dict(before.partitions) if before is not None else {}
        for r in self.found.ranges:
            begin = partitions.get(r.partition, (r.begin, r.begin))[0]
            partitions[r.partition] = (begin, r.end)
        runs = before.runs if before is not None else ()
        if done:
            runs = (*runs, Run(self.run_id, time.time_ns() // 1_000_000, tuple(done)))
        return Manifest(
            topic=self.options.topic,
            topic_id=self.found.topic_id,
            key=self.options.key,
            value=self.options.value,
            columns=columns,
            partitions=partitions,
            runs=runs,
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


def exported_files(directory: Path) -> Iterator[Path]:
    """The files that count in an export's directory. Raises DirectoryRefused, FileNotFoundError."""
    with open(directory / "_pk_export.json", encoding="utf-8") as file:
        try:
            manifest = Manifest.load(file.read())
        except ValueError as e:
            raise DirectoryRefused(f"{directory}: {e}") from None
    yield from (directory / name for name in sorted(manifest.files))
