"""Imports files and tables into a topic with Spark: `pk spark-import`.

Spark reads the source and computes the records, and its tasks seal them. The driver publishes the
sealed records together with markers that identify their rows (pk.spark.importer.ledger). Spark
processes a few portions of the source at a time (pk.spark.importer.portions), while the driver
publishes the previous ones. So neither memory nor transactions grow with the size of the source,
and a run that is killed loses at most the open transaction, which the next run aborts.
"""

import contextlib
import json
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pk.core.values import uuid_text
from pk.net.client.admin import Admin
from pk.net.client.config import AdminConfig, parse
from pk.spark.connections import connections
from pk.spark.errors import SparkFailed
from pk.spark.importer.expressions import records_of
from pk.spark.importer.file_portions import Portion
from pk.spark.importer.ledger import Ledger, Mark, Piece
from pk.spark.importer.options import (
    FilePlan,
    ImportOptions,
    ImportProgress,
    ImportRefused,
    ImportSummary,
)
from pk.spark.importer.portions import Source, open_source, portions_of
from pk.spark.java import require_pyspark
from pk.spark.read.plan import describe
from pk.spark.reasons import reason, silence_query_log
from pk.spark.session.background import in_background
from pk.spark.session.cores import cores
from pk.spark.session.interrupts import QuietPy4j
from pk.spark.session.local import OwnSpark, launch
from pk.spark.sink.messages import remove_staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pk.spark.importer.task import SealedRows

__all__ = ["ImportOptions", "ImportProgress", "ImportSummary", "import_rows"]

TRANSACTION_BYTES: Final = 64 << 20
"""The size in bytes at which a transaction is committed."""

_BLOCKS_A_CORE: Final = 2
"""The number of whole blocks per core that Spark seals before the driver has published the previous
ones."""

_PORTIONS_MAX: Final = 64
"""The largest number of portions in one Spark job: small files are sealed together."""


def import_rows(
    options: ImportOptions,
    progress: Callable[[ImportProgress], None] = lambda _: None,
    spark: "SparkSession | None" = None,
    *,
    dry_run: bool = False,
) -> ImportSummary:
    """Import the rows that earlier runs of the same import have not published. Blocks; calls
    `progress` from this thread.

    Uses the session `spark`; without it, starts a session of its own and ends it. `dry_run` only
    reports the rows that are left. Raises OptionError, ImportRefused, ImportOvertaken,
    MarkerUnreadable, SparkMissing, SparkFailed, RowRefused, KafkaError, ClientError, ConfigError.
    Records that were published before an error remain, and the next run continues after them.
    """
    options.check()
    require_pyspark()
    with contextlib.ExitStack() as stack:
        topic_id = connections().run(_topic_id, options)
        own: OwnSpark | None = None
        if spark is None:
            stack.enter_context(QuietPy4j())
            own = stack.enter_context(_launched(options))
        progress(ImportProgress("starting"))
        run = _Run(options, topic_id, own, spark, dry_run)
        return in_background(
            run, tick=lambda: progress(run.state), stop=run.stop, name="pk spark-import"
        )


def _launched(options: ImportOptions) -> OwnSpark:
    jars = [str(Path(jar).absolute()) for jar in options.jars]
    # The driver has the jars on its class path; a cluster's executors must be sent them.
    conf = {"spark.jars": ",".join(jars)} if jars and options.where.on_cluster else {}
    return launch(cores=options.cores or cores(), conf=conf, jars=jars, where=options.where)


async def _topic_id(options: ImportOptions) -> str:
    sink = options.sink
    cluster = await connections().cluster(sink.bootstrap, sink.config)
    admin = Admin(cluster, parse(AdminConfig, sink.admin_config))
    topic = (await describe(admin, [options.topic]))[options.topic]
    return uuid_text(topic.topic_id)


class _Run:
    """One run of an import, which calls Spark from a background thread."""

    def __init__(
        self,
        options: ImportOptions,
        topic_id: str,
        own: OwnSpark | None,
        spark: "SparkSession | None",
        dry_run: bool,
    ) -> None:
        self.state = ImportProgress("starting")
        self._options = options
        self._topic_id = topic_id
        self._id = options.id(topic_id)
        self._own = own
        self._spark = spark
        self._dry_run = dry_run
        self._started = time.monotonic()
        self._stopped = False
        self._records = 0

    def stop(self) -> None:
        """Stop the run soon: end its Spark, or cancel its jobs."""
        self._stopped = True
        if self._own is not None:
            self._own.kill()
        elif self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()

    def __call__(self) -> ImportSummary:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        ledger = connections().run(Ledger.of, self._options.sink, self._id)
        connections().run(ledger.look if self._dry_run else ledger.take_over)
        self._check_same(ledger.about)
        if self._spark is None:
            assert self._own is not None
            self._spark = self._own.session()
        self.state = replace(self.state, stage="planning")
        try:
            return self._import(self._spark, ledger)
        except (PySparkException, Py4JError) as e:
            raise SparkFailed(f"Spark failed: {reason(e)}") from e

    def _about(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "topic": self._options.topic,
            "topic_id": self._topic_id,
            "meaning": self._options.meaning(),
            "facts": dict(facts),
        }

    def _check_same(self, about: Mapping[str, Any] | None) -> None:
        """Raise ImportRefused if the first run of the import had another source or other
        settings."""
        if about is None:
            return
        if about["topic_id"] != self._topic_id:
            raise ImportRefused(
                f"the import {self._id} writes to another topic, {about['topic']}, or to one that"
                " has been deleted since; give another id"
            )
        was, now = about["meaning"], json.loads(json.dumps(self._options.meaning()))
        for name in now:
            if was.get(name) != now[name]:
                raise ImportRefused(
                    f"the import {self._id} has {name.replace('_', ' ')} {_shown(was.get(name))}, "
                    f"not {_shown(now[name])}: continue with the same settings, or give another id"
                )

    def _import(self, spark: "SparkSession", ledger: Ledger) -> ImportSummary:
        from pyspark.errors import PySparkException

        from pk.spark.importer.task import SCHEMA, SealPortions

        silence_query_log()

        options = self._options
        facts = ledger.about["facts"] if ledger.about is not None else None

        def is_done(portion: Portion) -> bool:
            mark = ledger.marks.get(portion.name)
            return mark is not None and mark.done

        source = open_source(spark, options, facts, is_done)
        records = records_of(source.frame, source.options)
        portions = portions_of(source, records)
        _check_unchanged(portions, ledger)
        before = sum(mark.records for mark in ledger.marks.values())
        if not self._dry_run:
            marks = [ledger.marks.get(portion.name) for portion in portions]
            skip = {n: mark.rows for n, mark in enumerate(marks) if mark is not None}
            todo = [n for n, mark in enumerate(marks) if mark is None or not mark.done]
            blocks = _BLOCKS_A_CORE * spark.sparkContext.defaultParallelism
            waves = _cut(portions, todo, blocks * options.block_bytes)
            task = SealPortions(
                options.sink,
                self._id,
                skip,
                options.kind == "jdbc",
                "timestamp" in records.columns,
                max(map(len, waves), default=1),
            )
            sealed = records.mapInArrow(lambda batches: task(batches), SCHEMA)
            try:
                self._publish(ledger, sealed, portions, waves, self._about(source.facts))
            except PySparkException as e:
                raise _bad_line(e, source, portions) or e from e
        return ImportSummary(
            import_id=self._id,
            topic=options.topic,
            topic_id=self._topic_id,
            records=self._records,
            records_before=before,
            files=_files(portions, ledger.marks),
            elapsed_ms=round((time.monotonic() - self._started) * 1000),
        )

    def _publish(
        self,
        ledger: Ledger,
        sealed: "DataFrame",
        portions: Sequence[Portion],
        waves: Sequence[Sequence[int]],
        about: Mapping[str, Any],
    ) -> None:
        total = sum(portions[n].bytes for wave in waves for n in wave)
        self.state = ImportProgress("importing", 0, 0, total)
        done = 0
        for wave in self._sealed(sealed, waves):
            waiting: list[Piece] = []
            size = 0
            for rows in wave:
                portion = portions[rows.portion]
                mark = self._mark(ledger, waiting, portion, rows)
                waiting.append(Piece(portion.name, mark, rows.message))
                size += sum(section.size for section in rows.message.sections)
                if size >= TRANSACTION_BYTES:
                    self._commit(ledger, waiting, about)
                    waiting, size = [], 0
                done += portion.bytes if rows.last else 0
                self.state = replace(self.state, records=self._records, bytes=done)
            self._commit(ledger, waiting, about)
            self.state = replace(self.state, records=self._records, bytes=done)
        self.state = replace(self.state, stage="finishing")

    def _mark(
        self, ledger: Ledger, waiting: Sequence[Piece], portion: Portion, rows: "SealedRows"
    ) -> Mark:
        last = next((p.mark for p in reversed(waiting) if p.portion == portion.name), None)
        before = last or ledger.marks.get(portion.name)
        records = before.records if before is not None else 0
        return Mark(rows.end, records + rows.message.records, rows.last, portion.stamp)

    def _commit(self, ledger: Ledger, pieces: Sequence[Piece], about: Mapping[str, Any]) -> None:
        connections().run(ledger.publish, pieces, about)
        messages = [piece.message for piece in pieces]
        self._records += sum(message.records for message in messages)
        remove_staged([message for message in messages if message.staged], None)

    def _sealed(
        self, sealed: "DataFrame", waves: Sequence[Sequence[int]]
    ) -> Iterator[Iterable["SealedRows"]]:
        """Yield the rows that tasks have sealed, one wave at a time; the next wave is sealed while
        this one is published."""
        from concurrent.futures import ThreadPoolExecutor

        rdd = sealed.rdd
        context = sealed.sparkSession.sparkContext

        def run(wave: Sequence[int]) -> list[Any]:
            return context.runJob(rdd, list, list(wave))

        with ThreadPoolExecutor(1, thread_name_prefix="pk spark-import job") as pool:
            ahead = pool.submit(run, waves[0]) if waves else None
            for following in [*waves[1:], None]:
                if ahead is None:
                    return
                rows = ahead.result()
                ahead = pool.submit(run, following) if following is not None else None
                yield (pickle.loads(row[0]) for row in rows)


def _cut(portions: Sequence[Portion], todo: Sequence[int], bytes_max: int) -> list[list[int]]:
    """Divide the portions `todo` into waves of at most `bytes_max` bytes; a larger portion is a
    wave of its own."""
    waves: list[list[int]] = []
    size = 0
    for number in todo:
        size += portions[number].bytes
        if not waves or size > bytes_max or len(waves[-1]) == _PORTIONS_MAX:
            waves.append([])
            size = portions[number].bytes
        waves[-1].append(number)
    return waves


def _check_unchanged(portions: Iterable[Portion], ledger: Ledger) -> None:
    """Raise ImportRefused if a partly or fully imported file has changed."""
    for portion in portions:
        mark = ledger.marks.get(portion.name)
        if mark is not None and mark.stamp != portion.stamp:
            raise ImportRefused(
                f"{portion.file} has changed since some of its rows were imported: it had "
                f"{mark.stamp}, and now has {portion.stamp}; give another id to import all of it"
                " again"
            )


def _files(portions: Sequence[Portion], marks: Mapping[str, Mark]) -> tuple[FilePlan, ...]:
    found: dict[str, list[Portion]] = {}
    for portion in portions:
        found.setdefault(portion.file, []).append(portion)
    plans: list[FilePlan] = []
    for name, parts in sorted(found.items()):
        known = [marks[p.name] for p in parts if p.name in marks]
        plans.append(
            FilePlan(
                name,
                sum(p.bytes for p in parts),
                len(parts),
                sum(mark.done for mark in known),
                sum(mark.records for mark in known),
            )
        )
    return tuple(plans)


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def _bad_line(error: Exception, source: Source, portions: Sequence[Portion]) -> SparkFailed | None:
    """The error that names the file and the line that a task could not read; None if the job failed
    for another reason."""
    from pk.spark.importer.read_lines import parse_bad_line

    said = parse_bad_line(str(error))
    if said is None:
        return None
    number, line, why = said
    return SparkFailed(f"{portions[number].file}, line {source.lines_before(number) + line}: {why}")
