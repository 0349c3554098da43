"""The daemon that forks Spark's Python workers, with the modules of tasks already imported.

Spark's own daemon imports nothing, so each worker imports pyspark, pyarrow, numpy, trio and pk by
itself, which takes 0.7 s of CPU. pk's own sessions on Linux set it as `spark.python.daemon.module`;
on macOS the system's libraries do not survive a fork.
"""

import gc

import pyspark.worker  # noqa: F401 (imported for the workers)
from pyspark.daemon import manager

import pk.spark.read.batch_reader
import pk.spark.sink.writer
import pk.spark.stream.reader  # noqa: F401 (imported for the workers)

if __name__ == "__main__":
    gc.freeze()  # a collection in a worker would copy the pages that it shares with others
    manager()
