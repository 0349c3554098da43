"""Spark: the data source `pk` for tables and streams, exports, imports and pipelines."""

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
    """Writes a micro-batch to topics exactly once, in a function for `foreachBatch`.

    `frame` and `batch_id` are what `foreachBatch` passes; a batch that was written is left out.
    `options` are those of `format("pk")` for rows: `kafka.bootstrap.servers`, `topic`, …
    `checkpoint` is the query's checkpointLocation, a directory or a URL of object storage that the
    driver and the executors share. The batches that tasks seal are kept there, or in the option
    `stagingLocation`. `query_id` names the query; by default it is the id that Spark has in the
    checkpoint. A query that calls this twice for a batch gives each call its own name: a second
    batch of the same name and number is left out.

    Up to `driver_bytes` of sealed records are published by the driver, in one transaction. More are
    published by executors, in a transaction for each sealed file, so the batch becomes visible bit
    by bit. With `atomic` every batch is one transaction of the driver.

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
