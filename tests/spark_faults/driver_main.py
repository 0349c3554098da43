"""A driver of Spark with several queries by `format("pk")`, started by spark_faults.run, which
kills it."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pk.spark.java import worker_environment
from pk.spark.session.fork_server import ForkServer
from pk.spark.session.local import OwnSpark, Where, launch
from spark_faults.faulty import CHANCES, NAME, NOTES, FaultySource
from spark_faults.large import writer
from spark_faults.streams import Forms, run, settings
from spark_faults.work import Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def faults(work: Work) -> dict[str, str]:
    return {CHANCES: json.dumps(work.chances), NOTES: work.notes}


def foreach(work: Work, query: int) -> Callable[[DataFrame, int], None]:
    """Writes the batches of a query by `write_batch`."""
    options = {
        "kafka.bootstrap.servers": work.bootstrap,
        "kafka.compression.type": random.choice(["none", "lz4", "zstd"]),
        "topic": work.topic(query),
    }
    return writer(options, str(work.checkpoint(query)), work.chances, work.notes)


@contextmanager
def forks(where: Where) -> Iterator[None]:
    """Has the Python workers of executors be forks, as a session of ours has those of its own
    process: a run under faults starts workers all the time, and Spark gives one ten seconds."""
    if where.in_one_process:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="pk-forks-") as folder:
        server = ForkServer(Path(folder), {**os.environ, **worker_environment(os.environ)})
        try:
            sys.executable = str(server.python)  # which is what Spark's workers are
            yield
        finally:
            server.close()


def main(work: Work) -> None:
    conf = dict(settings(work))
    where = Where(master=conf.pop("spark.master", None))
    with forks(where), launch(cores=work.cores, conf=conf, where=where) as own:
        _run(own, work)


def _run(own: OwnSpark, work: Work) -> None:
    try:
        spark = own.session()
        spark.dataSource.register(FaultySource)
        run(spark, work, Forms("pk", NAME, faults, foreach if work.publish else None))
    except Exception:
        print(own.log_tail(), file=sys.stderr, flush=True)
        raise


if __name__ == "__main__":
    main(Work.parse(sys.argv[1]))
