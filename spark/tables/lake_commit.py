"""Adds parquet files that are already written to tables of Delta and Iceberg, each batch once.

A table notes, in the step that adds the files, which writer added which batch. So a batch that is
added again, after a crash, changes nothing. Exports and the sinks of pipelines use this; the files
lie in the table's directory before.
"""

import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pk.spark.errors import SparkMissing
from pk.spark.tables.lake import INSTALL
from pk.spark.tables.layout import values_of

BATCH: Final = "pk.batch"
SINK: Final = "pk.sink"
_LAST: Final = "pk.last-batch."
"""The property of an Iceberg table that has a writer's last batch; snapshots may be expired."""


def missing(package: str) -> SparkMissing:
    """The error for a library of tables that is not installed."""
    return SparkMissing(f"{package} is not installed; {INSTALL} installs it.")


def rows_of(file: Path) -> int:
    """The number of rows of a parquet file; 0 for an empty file."""
    import pyarrow.parquet as pq

    if os.path.getsize(file) == 0:
        return 0
    return pq.read_metadata(file).num_rows


def delta_last(root: Path, writer: str) -> int:
    """The last batch of a writer that the table has; -1 without one or without a table. Raises
    SparkMissing, DeltaError."""
    try:
        from deltalake import DeltaTable
    except ImportError as e:
        raise missing("deltalake") from e
    if not DeltaTable.is_deltatable(str(root)):
        return -1
    found = DeltaTable(str(root)).transaction_version(writer)
    return -1 if found is None else found


def delta_columns(root: Path) -> tuple[str, ...] | None:
    """The columns that a table is partitioned by; None if there is no table yet. Raises
    SparkMissing, DeltaError."""
    try:
        from deltalake import DeltaTable
    except ImportError as e:
        raise missing("deltalake") from e
    if not DeltaTable.is_deltatable(str(root)):
        return None
    return tuple(DeltaTable(str(root)).metadata().partition_columns)


def delta_add(
    root: Path,
    files: Sequence[Path],
    schema: str,
    writer: str,
    batch: int,
    *,
    within: Path | None = None,
    partition_by: Sequence[str] = (),
    replace: bool = False,
) -> None:
    """Adds the files of a batch to the table at `root`, created if missing.

    `schema` is Spark's, as JSON; the table gets the columns that it lacks. The directories between
    `within` (or `root`) and a file are named by the values of `partition_by`. With `replace` the
    files are all that the table then has. Raises SparkMissing, DeltaError.
    """
    try:
        from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
        from deltalake.transaction import AddAction
    except ImportError as e:
        raise missing("deltalake") from e
    where = str(root)
    wanted = Schema.from_json(re.sub(r'"nullable":\s*false', '"nullable":true', schema))
    columns = list(partition_by)
    if DeltaTable.is_deltatable(where):
        table = DeltaTable(where)
        known = {field.name for field in table.schema().fields}
        more: list[Field] = [field for field in wanted.fields if field.name not in known]
        if more and not replace:
            table.alter.add_columns(more)
            table = DeltaTable(where)
    else:
        table = DeltaTable.create(where, wanted, partition_by=columns)
    base = within or root
    actions: list[Any] = [
        AddAction(
            str(file.relative_to(root)),
            file.stat().st_size,
            dict(values_of(file.relative_to(base).parts[:-1])),
            int(time.time() * 1000),
            True,
            json.dumps({"numRecords": rows_of(file)}),
        )
        for file in files
    ]
    table.create_write_transaction(
        actions,
        "overwrite" if replace else "append",
        wanted if replace else table.schema(),
        partition_by=columns or None,
        commit_properties=CommitProperties(app_transactions=[Transaction(writer, batch)]),
    )


def iceberg_last(table: Any, writer: str) -> int:
    """The last batch of a writer that pyiceberg's table has; -1 without one."""
    snapshots = (
        int(snapshot.summary[BATCH])
        for snapshot in table.metadata.snapshots
        if snapshot.summary is not None and snapshot.summary.get(SINK) == writer
    )
    return max(int(table.properties.get(f"{_LAST}{writer}", -1)), max(snapshots, default=-1))


def iceberg_add(table: Any, files: Sequence[str], writer: str, batch: int) -> None:
    """Adds the files of a batch, which are URLs, to pyiceberg's table."""
    with table.transaction() as transaction:
        transaction.set_properties({f"{_LAST}{writer}": str(batch)})
        transaction.add_files(list(files), snapshot_properties={SINK: writer, BATCH: str(batch)})
