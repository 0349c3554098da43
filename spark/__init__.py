"""The data source `pk` for Spark's tables and streams, and exports, imports and pipelines on
Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pk.spark.sink import DRIVER_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write_batch"]


def write_batch(
    frame: "DataFrame",
    batch_id: int,
    options: Mapping[str, str],
    *,
    checkpoint: str | Path,
    query_id: str | None = None,
    atomic: bool = False,
    driver_bytes: int = DRIVER_BYTES,
) -> None:
    """Write a micro-batch to topics exactly once, in a function for `foreachBatch`.

    `frame` and `batch_id` are the arguments of the function; a batch that was already written is
    skipped. `options` are those of `format("pk")` for rows: `kafka.bootstrap.servers`, `topic`, …
    `checkpoint` is the query's checkpointLocation, a directory or a URL of object storage that the
    driver and the executors share. The batches that tasks seal are kept there, or in the option
    `stagingLocation`. `query_id` names the query; by default it is the id that Spark has in the
    checkpoint. A query that calls this twice for a batch must give each call its own name: a second
    batch with the same name and number is skipped.

    Up to `driver_bytes` of sealed records are published by the driver, in one transaction. More are
    published by executors, in a transaction for each sealed file, so the batch becomes visible file
    by file. With `atomic` every batch is one transaction of the driver.

    Raises OptionError, ConfigError, CheckpointTooOld, MarkerUnreadable, StagingFailed, KafkaError,
    ClientError, PySparkException.
    """
    from pk.spark.sink.foreach_batch import write_batch as write

    write(
        frame,
        batch_id,
        options,
        checkpoint=checkpoint,
        query_id=query_id,
        atomic=atomic,
        driver_bytes=driver_bytes,
    )
