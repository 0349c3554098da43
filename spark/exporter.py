"""Exports a topic to parquet files with Spark: `pk spark-export`.

The export is planned first, as ranges of offsets. Each range is one Spark task and one file, or several files if the
caller's session limits the records of a file. The task reads its range from the partition's leader (pk.spark.reader, which
the `pk` data source uses too) and hands Arrow batches to Spark; Spark parses JSON if asked to, and writes. The ranges are
known before Spark has started, so the job does not need the data source's planning, which would start Python three times:
3.5 s of CPU.

The counts come from the files themselves: each file's footer has its records, and its first and last offset. The tasks
count what they read, and an export fails if the two counts differ. So the manifest states exactly what the files hold
(pk.spark.manifest).
"""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import trio

from pk.core.values import TopicPartition, uuid_text
from pk.net.client.admin import open_admin
from pk.spark.errors import DataLost, DirectoryRefused, OptionError, SparkFailed
from pk.spark.export_options import ExportOptions, Kind, Progress, Summary
from pk.spark.interrupts import QuietPy4j
from pk.spark.java import require_pyspark
from pk.spark.job import Job
from pk.spark.manifest import (
    MANIFEST,
    ExportDirectory,
    ExportedRange,
    Manifest,
    Run,
    file_name,
    open_directory,
)
from pk.spark.plan import describe, ids_of, whole, within
from pk.spark.ranges import OffsetRange, split, total_offsets
from pk.spark.session import OwnSpark, launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pk.spark.footers import Footer
    from pk.spark.unknown_fields import UnknownFields

__all__ = ["ExportOptions", "Progress", "Summary", "export", "exported_files"]

OFFSETS_A_FILE: Final = 2_000_000
OFFSETS_WORTH_A_TASK: Final = 100_000
"""Partitions are split to keep every core busy, but not into pieces smaller than this."""

LONG_OFFSETS: Final = 3_000_000
"""From this many offsets on, the optimising compiler is worth its cost (pk.spark.session)."""

_PART: Final = re.compile(r"part-(\d+)-.*\.parquet")
"""A task's file. In a session with `spark.sql.files.maxRecordsPerFile` a task writes several."""


def export(
    options: ExportOptions,
    progress: Callable[[Progress], None] = lambda _: None,
    spark: "SparkSession | None" = None,
) -> Summary:
    """Export a topic. Blocks; calls `progress` from this thread a few times a second.

    Uses the session `spark`, which must be local; without it, starts a session of its own as quickly as possible and ends
    it. Raises DirectoryRefused, OptionError, DataLost, SparkMissing, SparkFailed, KafkaError and ClientError; the directory
    is then unchanged.
    """
    started = time.monotonic()
    options.check()
    require_pyspark()
    with open_directory(options.directory.absolute()) as directory, contextlib.ExitStack() as stack:
        before = _before(options, directory)
        options = _settled(options, before)
        own: OwnSpark | None = None
        lock = (directory.lock,)  # Spark may outlive us for a moment and still write
        cores = options.cores or _cores()
        if spark is None:
            stack.enter_context(QuietPy4j())
            own = stack.enter_context(launch(cores=cores, inherited=lock))
        progress(Progress("planning"))
        found = trio.run(_resolve, options, before)
        enough = min(cores, total_offsets(found.ranges) // OFFSETS_WORTH_A_TASK)
        ranges = split(found.ranges, min_ranges=max(enough, 1), offsets_max=OFFSETS_A_FILE)
        if own is not None and ranges and total_offsets(ranges) >= LONG_OFFSETS:
            own.kill()
            own = stack.enter_context(launch(cores=cores, long=True, inherited=lock))
        directory.clean()
        run_id = secrets.token_hex(4)
        columns = before.columns if before is not None else {}
        chosen = before.chosen if before is not None else options.chosen
        unknown: Mapping[str, UnknownFields] = {}
        done: list[ExportedRange] = []
        written: dict[str, Path] = {}
        with directory.unfinished(run_id) as folder:
            if ranges:
                progress(Progress("starting", 0, total_offsets(ranges), len(ranges)))
                job = Job(options, ranges, columns, chosen, folder)
                columns = job.run(own, spark, progress)
                progress(job.state("finishing"))
                done, written = _collect(ranges, job, run_id)
                unknown = job.unknown_fields()
            run = Run(run_id, time.time_ns() // 1_000_000, tuple(done))
            manifest = _manifest(options, found, before, run, columns, chosen)
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
        unknown_fields=unknown,
    )


def _cores() -> int:
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _before(options: ExportOptions, directory: ExportDirectory) -> Manifest | None:
    """The export to resume; None for a new one. Raises DirectoryRefused, OptionError."""
    before = directory.manifest
    if before is None or options.mode == "overwrite":
        return None
    if options.mode == "new":
        raise DirectoryRefused(
            f"the directory {options.directory} holds an export of {before.topic} with {before.records:,} records;"
            " resume it, or overwrite it"
        )
    if before.topic != options.topic:
        raise DirectoryRefused(
            f"the directory {options.directory} holds an export of {before.topic}, not of {options.topic}"
        )
    for what, is_now, was in (
        ("keys", options.key, before.key),
        ("values", options.value, before.value),
    ):
        if is_now not in (None, was):
            raise OptionError(
                f"the export in {options.directory} has {what} as {was}, not {is_now}"
            )
    if options.key_schema or options.value_schema:
        raise OptionError("a resumed export keeps its schema")
    return before


def _settled(options: ExportOptions, before: Manifest | None) -> ExportOptions:
    """The options with the types of keys and values filled in: those of `before`, or bytes in a new export."""
    key, value = ("bytes", "bytes") if before is None else (before.key, before.value)
    settled = replace(
        options, key=options.key or cast(Kind, key), value=options.value or cast(Kind, value)
    )
    settled.check()
    return settled


@dataclass(frozen=True, slots=True)
class _Found:
    """What to read: a range for each partition to export, even if it is empty."""

    topic_id: str
    ranges: tuple[OffsetRange, ...]


async def _resolve(options: ExportOptions, before: Manifest | None) -> _Found:
    read = options.read
    async with open_admin(options.bootstrap, read.admin_config) as admin:
        topic = (await describe(admin, [options.topic]))[options.topic]
        topic_id = uuid_text(topic.topic_id)
        if before is not None and before.topic_id != topic_id:
            raise DirectoryRefused(
                f"the topic {options.topic} was deleted and created again since the export in"
                f" {options.directory} (id {before.topic_id} then, {topic_id} now); export to another"
                " directory, or overwrite this one"
            )
        ids = ids_of([topic])
        held = await whole(admin, ids, read.isolation)
        wanted: Mapping[TopicPartition, tuple[int, int | None]] = {
            tp: (span.begin, span.end) for tp, span in held.items()
        }
        if options.resolve is not None:
            wanted = await options.resolve(admin, sorted(ids))
    ranges: list[OffsetRange] = []
    for tp in sorted(wanted):
        begin, end = wanted[tp]
        if before is not None and tp.partition in before.partitions:
            begin = before.partitions[tp.partition][1]
            if begin > held[tp].end:
                raise DataLost(
                    f"{tp} ends at {held[tp].end}, but was exported up to {begin}: records were"
                    " lost; export to another directory, or overwrite this one"
                )
        end = held[tp].end if end is None else end
        ranges.append(within(held[tp], begin, max(begin, end), options.fail_on_data_loss))
    return _Found(topic_id, tuple(ranges))


def _collect(
    ranges: Sequence[OffsetRange], job: Job, run_id: str
) -> tuple[list[ExportedRange], dict[str, Path]]:
    """What was written for each range, and the files by their final names.

    A range in several files becomes as many ranges. Raises SparkFailed if a file holds other offsets than its range's, or
    the files hold fewer or more records than the tasks read.
    """
    parts: dict[int, list[Path]] = {}
    for path in job.data.iterdir():
        if match := _PART.fullmatch(path.name):
            parts.setdefault(int(match[1]), []).append(path)
    done: list[ExportedRange] = []
    written: dict[str, Path] = {}
    read = job.records_read()
    for index, r in enumerate(ranges):
        files = _in_order(r, parts.pop(index, []))
        found = sum(file.records for file, _ in files)
        if found != read.get(index):
            told = f"{read[index]:,}" if index in read else "an unknown number of"
            raise SparkFailed(
                f"the files of {r.topic_partition} from offset {r.begin} to {r.end} hold"
                f" {found:,} records, but the task read {told}; nothing was exported"
            )
        begin = r.begin
        for file, path in files:
            end = r.end if path == files[-1][1] else file.last + 1
            name = file_name(r.topic, r.partition, begin, end, run_id)
            written[name] = path
            size = path.stat().st_size
            done.append(ExportedRange(r.partition, begin, end, file.records, name, size))
            begin = end
        if not files:
            done.append(ExportedRange(r.partition, r.begin, r.end, 0, None, 0))
    if parts:
        raise SparkFailed(f"Spark wrote files that belong to no range of offsets: {sorted(parts)}")
    return done, written


def _in_order(r: OffsetRange, paths: Sequence[Path]) -> list[tuple["Footer", Path]]:
    """A range's files that hold records, by offset. Raises SparkFailed if they overlap or leave the range."""
    from pk.spark.footers import footer

    files = [(found, path) for path in paths if (found := footer(path)).records]
    files.sort(key=lambda file: file[0].first)
    at = r.begin
    for found, path in files:
        if not at <= found.first <= found.last < r.end:
            raise SparkFailed(
                f"{path} must hold offsets {at} to {r.end} of {r.topic_partition}, but"
                f" has {found.first} to {found.last}"
            )
        at = found.last + 1
    return files


def _manifest(
    options: ExportOptions,
    found: _Found,
    before: Manifest | None,
    run: Run,
    columns: dict[str, Any],
    chosen: tuple[str, ...],
) -> Manifest:
    """The manifest with this run in it."""
    partitions = dict(before.partitions) if before is not None else {}
    for r in found.ranges:
        begin = partitions.get(r.partition, (r.begin, r.begin))[0]
        partitions[r.partition] = (begin, r.end)
    runs = before.runs if before is not None else ()
    return Manifest(
        topic=options.topic,
        topic_id=found.topic_id,
        key=options.key or "bytes",
        value=options.value or "bytes",
        columns=columns,
        chosen=chosen,
        partitions=partitions,
        runs=(*runs, run) if run.ranges else runs,
    )


def exported_files(directory: Path) -> Iterator[Path]:
    """The files that are part of the export in a directory. Raises DirectoryRefused, FileNotFoundError."""
    with open(directory / MANIFEST, encoding="utf-8") as file:
        try:
            manifest = Manifest.load(file.read())
        except ValueError as e:
            raise DirectoryRefused(f"{directory}: {e}") from None
    yield from (directory / name for name in sorted(manifest.files))
