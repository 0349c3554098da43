"""How Spark finds the data source `pk` by itself: it looks for modules called `pyspark_…` with a
`DefaultSource`.

Stands at the top of the import path, beside the package `pk`.
"""

from pk.spark.source import KafkaSource as DefaultSource

__all__ = ["DefaultSource"]
