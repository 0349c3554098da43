"""Registers the data source `pk`: Spark looks for modules called `pyspark_…` that have a
`DefaultSource`.

This module is installed at the top level, next to the package `pk`.
"""

from pk.spark.source import KafkaSource as DefaultSource

__all__ = ["DefaultSource"]
