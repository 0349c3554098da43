"""The daemon that forks Spark's Python workers, with everything imported that a task needs.

Spark's own daemon imports nothing, so each worker imports pyspark, pyarrow, numpy, trio and pk by
itself: 0.7 s of CPU. Set as `spark.python.daemon.module` in sessions of our own on Linux; on macOS
the system's libraries do not survive a fork.
"""

import gc

import pyspark.worker  # noqa: F401 (imported for the workers)
from pyspark.daemon import manager

import pk.spark.read.batch_reader
import pk.spark.sink.writer
import pk.spark.stream.reader  # noqa: F401 (imported for the workers)

if __name__ == "__main__":
    gc.freeze()  # a collection in a worker would copy the pages that it shares with the others
    manager()
