"""Samples records, and infers the fields of their JSON with Spark."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pk.spark.read.ranges import OffsetRange
from pk.spark.read.read_options import ReadOptions
from pk.spark.read.reader import read
from pk.spark.text.new_fields import in_one_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_OPTIONS: Final = {"columnNameOfCorruptRecord": "\0"}
"""A field may have the default name of this column."""


def sample(
    ranges: Sequence[OffsetRange], options: ReadOptions, columns: Sequence[str], count: int
) -> dict[str, list[bytes]]:
    """About `count` keys or values that are not null, from the start and the end of each range."""
    found: dict[str, list[bytes]] = {name: [] for name in columns}
    share = max(count // max(2 * len(ranges), 1), 1)
    for r in ranges:
        for piece in _ends(r, share):
            for rows in read(piece, options):
                for name in columns:
                    found[name] += [v for v in rows.column(name).to_pylist() if v is not None]
    return found


def _ends(whole: OffsetRange, share: int) -> list[OffsetRange]:
    def piece(begin: int, end: int) -> OffsetRange:
        return OffsetRange(whole.topic, whole.partition, begin, end, whole.topic_id)

    if whole.offsets <= 2 * share:
        return [whole]
    return [piece(whole.begin, whole.begin + share), piece(whole.end - share, whole.end)]


def infer(
    spark: "SparkSession", texts: Sequence[bytes], folder: Path | None = None
) -> "StructType":
    """Infer with Spark the fields of the JSON objects among `texts`; empty if there are no objects.
    Spark reads the objects from a file in `folder`, by default in the directory for temporary
    files."""
    with tempfile.NamedTemporaryFile(prefix="pk-sample-", suffix=".json", dir=folder) as file:
        os.chmod(file.name, 0o644)  # a Spark Connect server may run as another user
        # Spark would fail at names that differ only in case, and at texts that are not objects.
        file.write(b"\n".join(in_one_case(texts)))
        file.flush()
        return spark.read.options(**_OPTIONS).json(f"file://{file.name}").schema


def infer_remotely(spark: "SparkSession", texts: Sequence[bytes]) -> "StructType":
    """Do the same with a Spark that shares no directory with this process."""
    import pyarrow as pa

    objects = [text.decode(errors="replace") for text in in_one_case(texts)]
    rows: Any = spark.createDataFrame(pa.table({"value": pa.array(objects, pa.string())}))
    return spark.read.options(**_OPTIONS).json(rows).schema
