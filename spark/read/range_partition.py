"""The range of offsets that Spark gives to a task of a batch read or a stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from pk.spark.read.ranges import OffsetRange


@dataclass
class RangePartition(InputPartition):
    """The range of a task. None if there is nothing to read, since a batch read in Spark needs at
    least one partition."""

    wanted: OffsetRange | None
    schemas: Mapping[Any, Any] | None = None
    """The schemas that its records may name (pk.spark.schemas.reading.Written); None if keys and
    values are not decoded."""
