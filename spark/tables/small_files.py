"""Counts the small files of a table; many of them make it slow to read."""

from typing import Any, Final

from pk.spark.files.store import Store
from pk.spark.tables.lake_commit import delta_table_of

SMALL_BYTES: Final = 32_000_000


def delta_small_files(store: Store) -> int:
    """The number of files below `SMALL_BYTES` in a Delta table; 0 if there is no table. Raises
    SparkMissing, DeltaError, OSError."""
    table = delta_table_of(store)
    if table is None:
        return 0
    import pyarrow as pa

    sizes: Any = pa.table(table.get_add_actions())["size_bytes"]
    return sum(size < SMALL_BYTES for size in sizes.to_pylist())


def iceberg_small_files(table: Any) -> int:
    """The number of files below `SMALL_BYTES` in a table opened with pyiceberg. Raises pyiceberg's
    errors."""
    return sum(each.file.file_size_in_bytes < SMALL_BYTES for each in table.scan().plan_files())
