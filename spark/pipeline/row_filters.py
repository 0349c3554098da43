"""Conditions on rows of the data source, by topic, partition and offset."""

import operator
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from pk.spark.pipeline.failed_records import FailedRecord
from pk.spark.read.ranges import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import Column


def _none() -> "Column":
    """A condition that is false for all rows. Spark cannot know that, so it still plans and runs
    the reads of tables."""
    return f.col("offset") < 0


def is_one_of(records: Iterable[FailedRecord]) -> "Column":
    """A condition that is true for rows of the data source that are one of these records."""
    found: dict[tuple[str, int], list[int]] = {}
    for each in records:
        found.setdefault((each.topic, each.partition), []).append(each.offset)
    conditions = [
        (f.col("topic") == topic) & (f.col("partition") == partition) & f.col("offset").isin(given)
        for (topic, partition), given in found.items()
    ]
    return reduce(operator.or_, conditions, _none())


def is_in_ranges(ranges: Iterable[OffsetRange]) -> "Column":
    """A condition that is true for rows of the data source that are in one of these ranges."""
    conditions = [
        (f.col("topic") == each.topic)
        & (f.col("partition") == each.partition)
        & (f.col("offset") >= each.begin)
        & (f.col("offset") < each.end)
        for each in ranges
    ]
    return reduce(operator.or_, conditions, _none())
