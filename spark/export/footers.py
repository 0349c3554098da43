"""Reads the number of records and the offsets from a parquet file's footer."""

from typing import TYPE_CHECKING, NamedTuple

from pk.spark.errors import SparkFailed

if TYPE_CHECKING:
    from pk.spark.files.writer import WrittenFile


class Footer(NamedTuple):
    """The number of a file's records, and their lowest and highest offset."""

    records: int
    first: int
    last: int


def footer(file: "WrittenFile") -> Footer:
    """Read a file's footer. Raises SparkFailed if it has no statistics of offsets."""
    data = file.metadata
    first = last = -1
    for index in range(data.num_row_groups):
        group = data.row_group(index)
        at = next(i for i in range(group.num_columns) if group.column(i).path_in_schema == "offset")
        statistics = group.column(at).statistics
        if statistics is None or not statistics.has_min_max:
            raise SparkFailed(f"{file.name} does not say which offsets it holds")
        first = statistics.min if first < 0 else min(first, statistics.min)
        last = max(last, statistics.max)
    return Footer(data.num_rows, first, last)
