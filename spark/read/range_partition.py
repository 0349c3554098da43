"""The range of offsets that Spark hands a task of a batch read or of a stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from pk.spark.read.ranges import OffsetRange


@dataclass
class RangePartition(InputPartition):
    """One task's range. None if there is nothing to read, since Spark needs at least one partition
    of a batch read."""

    wanted: OffsetRange | None
    schemas: Mapping[Any, Any] | None = None
    """The schemas that its records may name (pk.spark.schemas.reading.Written); None if keys and
    values are bytes."""
