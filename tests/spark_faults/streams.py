"""The queries of a driver, from one topic to others, by `format("pk")` or by Spark's own connector.

Queries that fail are started again from their checkpoints, each time distributed otherwise. Once
the file `stop` exists, they run to the end of the input without faults.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from spark_faults.work import BATCH_OFFSETS, BATCH_OFFSETS_LAST, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

END_S = 600
POLL_S = 0.1
STARTS = 5

T = TypeVar("T")


@dataclass(frozen=True)
class Forms:
    """The data sources of a driver's queries."""

    source: str
    sink: str
    options: Callable[[Work], dict[str, str]] = field(default=lambda _: {})
    """The sink's options, beyond those common to both."""

    foreach: Callable[[Work, int], Callable[[DataFrame, int], None]] | None = None
    """Writes the batches of a query instead of the sink."""

    raises: bool = False
    """Whether rows raise by the work's chances; else the sink's tasks do it themselves."""


def settings(work: Work) -> dict[str, str]:
    """Spark's configs: adaptive execution, and copies of tasks where Spark makes them, which is
    where executors are processes."""
    return {
        "spark.master": f"local[{work.cores},8]",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.streaming.stateless.enabled": "true",
        "spark.sql.shuffle.partitions": str(random.randint(1, 6)),
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "50ms",
        "spark.sql.streaming.minBatchesToRetain": "1000000",
        # Else a query that is killed while it writes its first offsets never starts again.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
        **work.conf,
    }


def frame(spark: SparkSession, work: Work, query: int, forms: Forms, *, last: bool) -> DataFrame:
    """Rows whose value begins with the query, the partition and the offset that they came from."""
    source = (
        spark.readStream.format(forms.source)
        .option("kafka.bootstrap.servers", work.bootstrap)
        .option("subscribe", work.source)
        .option("startingOffsets", work.start)
        .option("maxOffsetsPerTrigger", BATCH_OFFSETS_LAST if last else BATCH_OFFSETS)
        .load()
    )
    value = f"concat_ws(':', '{work.label(query)}', partition, offset, rand())"
    if forms.raises and not last:
        value = f"if(rand() < {work.chances['after'] / 100}, raise_error('a row'), {value})"
    rows = source.selectExpr("key", f"{value} AS value", "cast(offset % 50 AS int) AS number")
    if query % 3 == 1:
        rows = rows.repartition(random.randint(1, 5))
    if query % 3 == 2:
        # After a join, adaptive execution chooses the number of tasks by the data.
        other = spark.range(50).selectExpr("cast(id AS int) AS number").hint("merge")
        rows = rows.join(other, "number")
    return rows.select("key", "value")


def start(spark: SparkSession, work: Work, query: int, forms: Forms, *, last: bool) -> Any:
    """The running query. If `last` is set, it has no faults and stops at the end of the input."""
    given = work.of(work.folder) if last else work
    rows = frame(spark, work, query, forms, last=last).writeStream
    if forms.foreach is not None:
        writer = rows.foreachBatch(forms.foreach(given, query)).queryName(work.label(query))
        writer = writer.option("checkpointLocation", str(work.checkpoint(query)))
        return (writer.trigger(availableNow=True) if last else writer).start()
    writer = (
        rows.format(forms.sink)
        .queryName(f"{work.label(query)}")
        .option("kafka.bootstrap.servers", work.bootstrap)
        .option("kafka.compression.type", random.choice(["none", "lz4", "zstd"]))
        .option("topic", work.topic(query))
        .option("checkpointLocation", str(work.checkpoint(query)))
        .options(**forms.options(given))
    )
    return (writer.trigger(availableNow=True) if last else writer).start()


def finish(spark: SparkSession, work: Work, query: int, forms: Forms) -> None:
    """Runs a query to the end of the input, from its checkpoint however often it fails. Raises
    TimeoutError."""
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        try:
            handle = start(spark, work, query, forms, last=True)
            if handle.awaitTermination(deadline - time.monotonic()):
                return
        except Exception as e:  # noqa: BLE001 (whatever a busy machine or a dead broker causes)
            _tell(query, e)
    raise TimeoutError(f"query {query} does not end")


def again(query: int, begin: Callable[[], T]) -> T:
    """Begins a query, as often as it takes: Spark gives a worker ten seconds to start, which a
    busy machine may not have. Raises what the last attempt raised."""
    for _ in range(STARTS - 1):
        try:
            return begin()
        except Exception as e:  # noqa: BLE001
            _tell(query, e)
    return begin()


def run(spark: SparkSession, work: Work, forms: Forms) -> None:
    """Finishes the queries of the former folder, and runs its own until `stop` exists."""
    if work.former:
        for query in range(work.queries):
            finish(spark, work.of(work.former), query, forms)
        print("finished", flush=True)

    def begin(query: int) -> Any:
        handle = again(query, lambda: start(spark, work, query, forms, last=False))
        # One after the other, since each starts a process that must answer soon.
        while handle.isActive and handle.status["message"].startswith("Initializing"):
            time.sleep(POLL_S)
        return handle

    print("starting", flush=True)
    running = [begin(query) for query in range(work.queries)]
    print("running", flush=True)
    while not work.stop.exists():
        time.sleep(POLL_S)
        for query, handle in enumerate(running):
            if not handle.isActive:
                _tell(query, handle.exception())
                running[query] = begin(query)
    for handle in running:
        handle.stop()
    for query in range(work.queries):
        finish(spark, work, query, forms)
    print("done", flush=True)


def _tell(query: int, error: object) -> None:
    print(f"query {query} failed: {str(error)[-600:]}", file=sys.stderr, flush=True)
