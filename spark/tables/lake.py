"""Reads Delta and Iceberg tables without a jar: deltalake and pyiceberg list their files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pk.spark.errors import OptionError, SparkError, SparkMissing

INSTALL: Final = "pip install 'pk-broker[lake]'"


class TableRefused(SparkError):
    """The table has a feature that can only be read by an engine for its format."""


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One version of a table."""

    version: str
    schema: str
    """Spark's schema as JSON."""

    files: Sequence[str]


def _missing(name: str) -> SparkMissing:
    return SparkMissing(f"{name} is not installed; {INSTALL} installs it.")


def delta_table(place: str, version: str | None) -> LakeTable:
    """Read the current version or `version` of a Delta table. Raises SparkMissing, OptionError,
    TableRefused."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ModuleNotFoundError:
        raise _missing("deltalake") from None
    try:
        table = DeltaTable(place, version=None if version is None else int(version))
    except (DeltaError, OSError) as e:
        raise OptionError(f"{place} is not a Delta table that can be read: {e}") from e
    features = sorted(table.protocol().reader_features or ())
    unread = [
        f for f in features if f not in ("timestampNtz", "v2Checkpoint", "vacuumProtocolCheck")
    ]
    if unread:
        raise TableRefused(
            f"the table {place} has {', '.join(unread)}, which its parquet files alone do not "
            "show; export it with an engine that supports this"
        )
    schema = table.schema().to_json()
    return LakeTable(str(table.version()), schema, tuple(table.file_uris()))


def iceberg_table(place: str, version: str | None) -> LakeTable:
    """Read the current snapshot or the snapshot `version` of an Iceberg table. `place` is its
    directory, a metadata file, or `iceberg:CATALOG.NAME`.

    Raises SparkMissing, OptionError, TableRefused.
    """
    table = open_iceberg(place)
    schemas = [schema for schema in table.metadata.schemas]
    for field in table.schema().fields:
        names = {s.find_field(field.field_id).name for s in schemas if _has(s, field.field_id)}
        if len(names) > 1:
            raise TableRefused(
                f"the column {field.name} of {place} had other names ({', '.join(sorted(names))}):"
                " its older files cannot be read without an engine that supports this"
            )
    snapshot = table.current_snapshot() if version is None else table.snapshot_by_id(int(version))
    schema = _spark_schema(table.schema().as_arrow())
    if snapshot is None:
        if version not in (None, "0"):
            raise OptionError(f"{place} no longer has the snapshot {version}")
        return LakeTable("0", schema, ())
    files: list[str] = []
    for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
        if task.delete_files:
            raise TableRefused(
                f"the table {place} has delete files, so its data files also have deleted rows; "
                "compact it"
            )
        files.append(task.file.file_path)
    return LakeTable(str(snapshot.snapshot_id), schema, tuple(sorted(files)))


def _has(schema: Any, field_id: int) -> bool:
    return field_id in {field.field_id for field in schema.fields}


def open_iceberg(place: str) -> Any:
    """Open a table with pyiceberg. Raises SparkMissing, OptionError."""
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.table import StaticTable
    except ModuleNotFoundError:
        raise _missing("pyiceberg") from None
    if place.startswith("iceberg:"):
        catalog, _, name = place.removeprefix("iceberg:").partition(".")
        try:
            return load_catalog(catalog).load_table(name)
        except (NoSuchTableError, ValueError) as e:
            raise OptionError(f"{place} is not a table of the catalog {catalog}: {e}") from e
    if not place.endswith(".json"):
        place = _newest_metadata(place)
    return StaticTable.from_metadata(place)


def _newest_metadata(place: str) -> str:
    folder = Path(place) / "metadata"
    found = sorted(
        folder.glob("*.metadata.json"), key=lambda path: (path.stat().st_mtime, path.name)
    )
    if not found:
        raise OptionError(
            f"{place} is not the directory of an Iceberg table; name the table as "
            "iceberg:CATALOG.NAME"
        )
    return str(found[-1])


def _spark_schema(schema: Any) -> str:
    from pyspark.sql.pandas.types import from_arrow_schema

    return json.dumps(from_arrow_schema(schema).jsonValue())
