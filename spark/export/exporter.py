"""Exports topics to parquet files with Spark: `pk spark-export`.

The export is planned first, as ranges of offsets. Each range is one Spark task, which writes one or
more files. The task reads its range from the partition's leader (pk.spark.read.reader, which the
`pk` data source uses too), parses JSON if requested, and writes to the location of the export. The
ranges are known before Spark has started, so the job does not need the data source's planning,
which would start Python three times (3.5 s of CPU).

The record counts come from the files: the task returns each file's footer, which has the number of
records and the first and last offset. The tasks also count the records that they read, and an
export fails if the two counts differ. So the manifest matches the contents of the files exactly
(pk.spark.export.manifest).
"""

import contextlib
import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import trio

from pk.core.values import TopicPartition
from pk.net.client.cluster import in_nursery, open_cluster
from pk.net.client.config import AdminConfig, parse
from pk.spark.connect import JobSpark, connect
from pk.spark.errors import DirectoryRefused, OptionError, SparkFailed
from pk.spark.export.job import Job
from pk.spark.export.manifest import (
    LOCK_WAIT_S,
    MANIFEST,
    ExportedRange,
    Manifest,
    Run,
    Target,
    name_of_range,
    open_directory,
)
from pk.spark.export.options import ExportOptions, Kind, Progress, Summary
from pk.spark.export.plan import Found, plan_export
from pk.spark.export.table import CATALOG_FILE, FILES, file_schema, settle
from pk.spark.export.url import open_url
from pk.spark.files.object_path import ObjectPath
from pk.spark.files.store import ObjectStore, store_at
from pk.spark.java import require_pyspark
from pk.spark.locations import local_path
from pk.spark.read.options import SourceOptions
from pk.spark.read.ranges import OffsetRange, split, total_offsets
from pk.spark.session.cores import cores as default_cores
from pk.spark.session.interrupts import QuietPy4j, TerminatedAsInterrupted, run_trio
from pk.spark.session.local import launch
from pk.spark.stream.arrivals import Arrivals
from pk.spark.tables.compaction import NOT_COMPACTED, Compaction
from pk.spark.tables.layout import check_layout, parse_layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pk.spark.export.footers import Footer
    from pk.spark.export.unknown_fields import UnknownFields
    from pk.spark.files.writer import WrittenFile

__all__ = [
    "ExportOptions",
    "Progress",
    "Summary",
    "export",
    "export_topics",
    "exported_files",
    "follow",
]

OFFSETS_A_FILE: Final = 2_000_000
OFFSETS_WORTH_A_TASK: Final = 100_000
"""Partitions are split to keep every core busy, but not into pieces with fewer offsets than
this."""

FOLLOW_EVERY_S: Final = 10.0
"""How long `follow` waits between runs by default, in seconds. Each run creates files, so shorter
waits create smaller ones."""

COMPACTED: Final = "_pk_compacted.json"
"""The file in a table's directory that stores the time of the last compaction."""

LONG_OFFSETS: Final = 3_000_000
"""The number of offsets from which the optimizing compiler pays off (pk.spark.session.local)."""


def export(
    options: ExportOptions,
    progress: Callable[[Progress], None] = lambda _: None,
    spark: "SparkSession | None" = None,
) -> Summary:
    """Export a topic. Blocks; calls `progress` from this thread a few times a second.

    Uses the session `spark`, which must be local or a Spark Connect session; without it, starts a
    session of its own as quickly as possible and ends it. Raises DirectoryRefused, OptionError,
    DataLost, SparkMissing, SparkFailed, TableFailed, KafkaError and ClientError; the export is then
    unchanged, except after TableFailed.
    """
    [summary] = export_topics([options], progress, spark)
    return summary


def export_topics(
    topics: Sequence[ExportOptions],
    progress: Callable[[Progress], None] = lambda _: None,
    spark: "SparkSession | None" = None,
) -> list[Summary]:
    """Export several topics, one after the other, in one session of Spark. Each has a directory and
    a manifest of its own, and the completed exports remain if a later one fails. Raises as
    `export`."""
    with _opened(topics, progress, spark, long=False) as exports:
        return [each.run() for each in exports]


def follow(
    topics: Sequence[ExportOptions],
    done: Callable[[Summary], None],
    progress: Callable[[Progress], None] = lambda _: None,
    spark: "SparkSession | None" = None,
    *,
    every_s: float = FOLLOW_EVERY_S,
    say: Callable[[str], None] = lambda _: None,
) -> NoReturn:
    """Export topics continuously: first their existing records, then new ones, with at most one run
    every `every_s` seconds.

    Calls `done` after each run that exported something, and after the first run of each topic, and
    `say` with a sentence about each compaction. Ends only by an exception: KeyboardInterrupt, at
    Ctrl-C or SIGTERM, and those of `export`. A run that it interrupts changes nothing, and the next
    export with the mode `resume` continues after the last complete one.
    """
    try:
        with TerminatedAsInterrupted():
            _follow(topics, done, progress, spark, every_s, say)
    except BaseExceptionGroup as e:
        # This makes trio raise a Ctrl-C that arrives while it closes connections.
        if e.subgroup(KeyboardInterrupt) is not None:
            raise KeyboardInterrupt from e
        raise
    raise AssertionError("the loop does not end")


def _follow(
    topics: Sequence[ExportOptions],
    done: Callable[[Summary], None],
    progress: Callable[[Progress], None],
    spark: "SparkSession | None",
    every_s: float,
    say: Callable[[str], None],
) -> None:
    with _opened(topics, progress, spark, long=True) as exports:
        compactions = [each.compaction(say) for each in exports]
        ignored: set[TopicPartition] = set()
        for number in itertools.count():
            began = time.monotonic()
            for each, compaction in zip(exports, compactions, strict=True):
                each.plan()
                if number == 0 or each.has_news:
                    done(each.run())
                    if compaction is not None:
                        compaction.after_batch()
            known = {tp: end for each in exports for tp, end in each.ends.items()}
            run_trio(_wait, topics, known, ignored, began + every_s)


async def _wait(
    topics: Sequence[ExportOptions],
    known: Mapping[TopicPartition, int],
    ignored: set[TopicPartition],
    at: float,
) -> None:
    """Wait until the time `at`, and then for a record after the offsets `known` or for a new
    partition. New partitions are added to `ignored`, so that only the first wait ends for them."""
    await trio.sleep(max(at - time.monotonic(), 0))
    read = topics[0].read
    wanted = SourceOptions(read, topics=tuple(options.topic for options in topics))
    admin = parse(AdminConfig, read.admin_config)
    async with open_cluster(read.bootstrap, admin) as cluster, in_nursery() as nursery:
        arrivals = Arrivals(cluster, nursery, wanted)
        await arrivals.look()
        while True:
            ends = arrivals.ends
            new = ends.keys() - known.keys() - ignored
            if new or not known.keys() <= ends.keys():
                ignored |= new
                break
            if any(ends[tp] > end for tp, end in known.items()):
                break
            await arrivals.wait()


@contextlib.contextmanager
def _opened(
    topics: Sequence[ExportOptions],
    progress: Callable[[Progress], None],
    spark: "SparkSession | None",
    *,
    long: bool,
) -> Iterator[list["_Export"]]:
    """Open exports for the block: planned, with locked directories, and with a Spark that is
    starting."""
    for options in topics:
        options.check()
    require_pyspark()
    with contextlib.ExitStack() as stack:
        exports: list[_Export] = []
        for options in topics:
            target = stack.enter_context(_open(options))
            before = _before(options, target.manifest)
            exports.append(_Export(settled(options, before), target, before, progress))
        own: JobSpark | None = None
        cores = topics[0].cores or default_cores()
        where = topics[0].where
        # Spark may outlive this process for a moment and still write.
        locks = [each.target.lock for each in exports if each.target.lock >= 0]

        def start(long: bool) -> JobSpark:
            if where.remote is not None:
                return stack.enter_context(connect(where))
            return stack.enter_context(launch(cores=cores, long=long, inherited=locks, where=where))

        if spark is None:
            stack.enter_context(QuietPy4j())
            own = start(long)
        for each in exports:
            progress(Progress("planning", topic=each.options.topic))
            each.plan()
        offsets = sum(each.offsets for each in exports)
        here = not where.on_cluster
        if own is not None and here and not long and offsets >= LONG_OFFSETS:
            own.kill()
            own = start(long=True)
        for each in exports:
            each.own, each.spark, each.cores = own, spark, cores
        yield exports


def _open(options: ExportOptions) -> "contextlib.AbstractContextManager[Target]":
    store = store_at(options.directory)
    if isinstance(store, ObjectStore):
        return open_url(store, secrets.token_hex(8), LOCK_WAIT_S)
    return open_directory(local_path(options.directory))


class _Export:
    """The export of one topic. Each of its runs adds to the manifest."""

    def __init__(
        self,
        options: ExportOptions,
        target: Target,
        before: Manifest | None,
        progress: Callable[[Progress], None],
    ) -> None:
        self.options = options
        self.target = target
        self.before = before
        self.own: JobSpark | None = None
        self.spark: SparkSession | None = None
        self.cores = 1
        self._progress = progress
        self._found: Found | None = None
        self._started = time.monotonic()

    def plan(self) -> None:
        """Determine the offsets that the next run reads. Raises as `plan_export`."""
        self._started = time.monotonic()
        self._found = run_trio(plan_export, self.options, self.before)

    @property
    def offsets(self) -> int:
        """The number of offsets that the next run reads."""
        return total_offsets(self._planned.ranges)

    @property
    def has_news(self) -> bool:
        """Whether there is something to read, or a partition that is not in the manifest yet."""
        known = self.before.partitions if self.before is not None else {}
        return self.offsets > 0 or any(r.partition not in known for r in self._planned.ranges)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The end offset of each exported partition."""
        known = self.before.partitions if self.before is not None else {}
        return {TopicPartition(self.options.topic, p): end for p, (_, end) in known.items()}

    @property
    def _planned(self) -> Found:
        assert self._found is not None
        return self._found

    def compaction(self, say: Callable[[str], None]) -> Compaction | None:
        """The compaction of the table, if it was requested. Raises OSError."""
        options, store = self.options, self.target.store
        if options.compact_s is None:
            return None
        is_remote = isinstance(store, ObjectStore)
        place = ObjectPath(store) if is_remote else local_path(options.directory)
        return Compaction(options.topic, store, place / COMPACTED, options.compact_s, say)

    def run(self) -> Summary:
        """Export the planned ranges. Raises as `export`."""
        options, target, before, found = self.options, self.target, self.before, self._planned
        enough = min(self.cores, self.offsets // OFFSETS_WORTH_A_TASK)
        ranges = split(found.ranges, min_ranges=max(enough, 1), offsets_max=OFFSETS_A_FILE)
        self._settle()
        target.clean()
        run_id = secrets.token_hex(4)
        columns = before.columns if before is not None else {}
        chosen = before.chosen if before is not None else options.chosen
        unknown: Mapping[str, UnknownFields] = {}
        unparsed: Mapping[str, int] = {}
        done: list[ExportedRange] = []
        written: Sequence[WrittenFile] = ()
        with target.unfinished(run_id) as unfinished:
            if ranges:
                topic, offsets = options.topic, total_offsets(ranges)
                self._progress(Progress("starting", 0, offsets, topic))
                names = [name_of_range(topic, r.partition, r.begin, r.end, run_id) for r in ranges]
                into = (unfinished.files, unfinished.states, names, self._columns_of)
                job = Job(options, ranges, columns, chosen, *into)
                columns = job.run(self.own, self.spark, self._progress)
                self._progress(job.state("finishing"))
                read, written = job.done(), job.written
                counts = {index: state.records for index, state in read.items()}
                done = _collect(ranges, written, counts, apart=not job.layout)
                unknown = job.unknown_fields(read)
                unparsed = job.unparsed(read)
            run = Run(run_id, time.time_ns() // 1_000_000, tuple(done))
            manifest = _manifest(options, found, before, run, columns, chosen)
            unfinished.commit(manifest, {each.name: each.size for each in written})
        self.before = manifest
        self._settle({each.name: each.footer for each in written})
        return Summary(
            topic=options.topic,
            topic_id=manifest.topic_id,
            directory=options.directory,
            records=sum(r.records for r in done),
            bytes=sum(r.bytes for r in done),
            files=len(written),
            ranges=tuple(done),
            records_before=manifest.records - sum(r.records for r in done),
            elapsed_ms=round((time.monotonic() - self._started) * 1000),
            unknown_fields=unknown,
            unparsed=unparsed,
        )

    def _columns_of(self, columns: Any) -> Any:
        """The Arrow schema of the files, from Spark's columns."""
        options, before = self.options, self.before
        known = before.export_id if before is not None else None
        return file_schema(self.target.store, columns, options.table, options.table_name, known)

    def _settle(self, footers: Mapping[str, bytes] | None = None) -> None:
        """Add the runs of the manifest to the table, and then remove the files that are no longer
        listed."""
        if self.before is None or self.before.table is None:
            return
        settle(self.target.store, self.before, footers)
        self.target.clean()


def _before(options: ExportOptions, before: Manifest | None) -> Manifest | None:
    """The manifest of the export to resume; None for a new export. Raises DirectoryRefused,
    OptionError."""
    if before is None:
        return None
    if options.mode == "overwrite":
        _check_same_table(options, before)
        return None
    if options.mode == "new":
        raise DirectoryRefused(
            f"the directory {options.directory} holds an export of {before.topic} with "
            f"{before.records:,} records; resume it, or overwrite it (--resume, --overwrite)"
        )
    if before.topic != options.topic:
        raise DirectoryRefused(
            f"the directory {options.directory} holds an export of {before.topic}, not of "
            f"{options.topic}"
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
    for what, is_now, was in (
        ("the layout", ", ".join(options.partition_by), ", ".join(before.partition_by)),
        ("the format", options.table or "", before.table or FILES),
        ("the table", options.table_name or "", before.table_name or f"{CATALOG_FILE}"),
    ):
        if is_now not in ("", was):
            raise OptionError(
                f"the export in {options.directory} has {what} {was or 'without --partition-by'}, "
                f"not {is_now}"
            )
    return before


def _check_same_table(options: ExportOptions, before: Manifest) -> None:
    """Raise DirectoryRefused if the directory is a table that the new export would abandon or would
    have to change."""
    table = None if options.table == FILES else options.table
    if before.table is not None and (table, options.table_name, options.partition_by) != (
        before.table,
        before.table_name,
        before.partition_by,
    ):
        raise DirectoryRefused(
            f"the directory {options.directory} is a {before.table} table, which can only be "
            "overwritten with the same format, name and layout; give another directory"
        )


def settled(options: ExportOptions, before: Manifest | None) -> ExportOptions:
    """The options, completed with those that a resumed export keeps from `before`. In a new export
    keys and values are bytes by default."""
    key, value = ("bytes", "bytes") if before is None else (before.key, before.value)
    settled = replace(
        options, key=options.key or cast(Kind, key), value=options.value or cast(Kind, value)
    )
    if settled.table == FILES:
        settled = replace(settled, table=None)
    if before is not None:
        # A manifest of format 1 does not have the level; the default was read_uncommitted then.
        kept = {"isolation.level": before.isolation or "read_uncommitted"}
        settled = replace(
            settled,
            client={**kept, **options.client},
            partition_by=before.partition_by,
            table=before.table,
            table_name=before.table_name,
        )
    settled.check()
    kind = settled.table or FILES
    if settled.compact_s is not None and kind in NOT_COMPACTED:
        raise OptionError(f"--compact is for delta tables: {NOT_COMPACTED[kind]}")
    if before is None:
        check_layout(parse_layout(settled.partition_by))
    return settled


def _collect(
    ranges: Sequence[OffsetRange],
    written: Sequence["WrittenFile"],
    read: Mapping[int, int],
    *,
    apart: bool,
) -> list[ExportedRange]:
    """Compare the written files with the ranges, and return the exported ranges. `read` has the
    number of records that the task of each range read.

    A range with several files becomes one range for each file; these do not overlap if the files
    are `apart`. Raises SparkFailed if a file has offsets outside its range, or if the files and the
    tasks disagree about the number of records.
    """
    parts: dict[int, list[WrittenFile]] = {}
    for file in written:
        parts.setdefault(file.task, []).append(file)
    done: list[ExportedRange] = []
    for index, r in enumerate(ranges):
        files = _in_order(r, parts.get(index, []), apart=apart)
        found = sum(footer.records for footer, _ in files)
        if found != read.get(index):
            reported = f"{read[index]:,}" if index in read else "an unknown number of"
            raise SparkFailed(
                f"the files of {r.topic_partition} from offset {r.begin} to {r.end} hold"
                f" {found:,} records, but the task read {reported}; nothing was exported"
            )
        at = r.begin
        for number, (footer, file) in enumerate(files, 1):
            begin, end = (at, footer.last + 1) if apart else (footer.first, footer.last + 1)
            if apart and number == len(files):
                end = r.end
            done.append(
                ExportedRange(r.partition, begin, end, footer.records, file.name, file.size)
            )
            at = end
        if not files:
            done.append(ExportedRange(r.partition, r.begin, r.end, 0, None, 0))
    return done


def _in_order(
    r: OffsetRange, files: Sequence["WrittenFile"], *, apart: bool
) -> list[tuple["Footer", "WrittenFile"]]:
    """The files of a range, sorted by offset. Raises SparkFailed if they leave the range, or if
    they overlap although they must be `apart`."""
    from pk.spark.export.footers import footer

    found = sorted(((footer(file), file) for file in files), key=lambda each: each[0].first)
    at = r.begin
    for known, file in found:
        if not at <= known.first <= known.last < r.end:
            raise SparkFailed(
                f"{file.name} must hold offsets {at} to {r.end} of {r.topic_partition}, but"
                f" has {known.first} to {known.last}"
            )
        at = known.last + 1 if apart else r.begin
    return found


def _manifest(
    options: ExportOptions,
    found: Found,
    before: Manifest | None,
    run: Run,
    columns: dict[str, Any],
    chosen: tuple[str, ...],
) -> Manifest:
    """The manifest, with this run added."""
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
        isolation=options.read.isolation.name.lower(),
        cluster_id=found.cluster_id,
        leader_epochs={
            **(before.leader_epochs if before is not None else {}),
            **found.leader_epochs,
        },
        export_id=(before.export_id if before is not None else "") or f"pk-{secrets.token_hex(8)}",
        partition_by=options.partition_by,
        table=options.table,
        table_name=options.table_name,
    )


def exported_files(directory: Path) -> Iterator[Path]:
    """The files that are part of the export in a directory. Raises DirectoryRefused,
    FileNotFoundError."""
    with open(directory / MANIFEST, encoding="utf-8") as file:
        try:
            manifest = Manifest.load(file.read())
        except ValueError as e:
            raise DirectoryRefused(f"{directory}: {e}") from None
    yield from (directory / name for name in sorted(manifest.files))
