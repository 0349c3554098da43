"""Makes an export's directory or URL a table of Delta or Iceberg, from what its manifest says.

The manifest is written first and lists the files of each run. The table then gets the runs that it
lacks, one after the other; the number of a run is that of its batch, and the export's id is the
writer's name. A run that is killed between the two leaves a table without its last files, and the
next run begins with adding them.

An Iceberg table needs a catalog. Without another one it is a SQLite file in the directory; readers
that take the path of a table read the newest file in `metadata/`.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pk.spark.errors import OptionError, SparkError
from pk.spark.export.manifest import Manifest, Run
from pk.spark.files.columns import arrow_columns
from pk.spark.files.store import Store, store_at
from pk.spark.tables.lake_commit import (
    LakeFile,
    delta_add,
    delta_last,
    iceberg_add,
    iceberg_last,
    missing,
    read_footer,
    with_field_ids,
)
from pk.spark.tables.layout import parse_layout

FILES: Final = "parquet"
TABLES: Final = (FILES, "delta", "iceberg")
CATALOG_FILE: Final = "_pk_catalog.db"
_OWN_NAME: Final = "pk.export"


class TableRefused(SparkError):
    """The table belongs to another program; nothing was changed in it."""


class TableFailed(SparkError):
    """A library of tables could not add the files; the export itself is whole, and the next run
    adds them."""


def check_table(kind: str | None, name: str | None) -> None:
    """Raises OptionError, SparkMissing if there is no such kind of table here."""
    if name is not None and kind != "iceberg":
        raise OptionError("--table names an Iceberg table: --to-format iceberg")
    if name is not None and name.count(".") < 2:
        raise OptionError(f"--table must be CATALOG.NAMESPACE.NAME, not {name!r}")
    try:
        if kind == "delta":
            import deltalake  # noqa: F401
        elif kind == "iceberg":
            import pyiceberg.catalog  # noqa: F401
        elif kind not in (None, FILES):
            raise OptionError(f"the format must be one of {', '.join(TABLES)}, not {kind!r}")
    except ImportError as e:
        raise missing("deltalake" if kind == "delta" else "pyiceberg") from e


def settle(store: Store, manifest: Manifest, footers: Mapping[str, bytes] | None = None) -> None:
    """Adds to the table what the manifest has and the table lacks. `footers` has those of the files
    of the last run; others are read. Raises SparkMissing, TableRefused, TableFailed."""
    check_table(manifest.table, manifest.table_name)
    files = _Files(store, footers or {})
    try:
        if manifest.table == "delta":
            _settle_delta(store, manifest, files)
        elif manifest.table == "iceberg":
            _settle_iceberg(store, manifest, files)
    except SparkError:
        raise
    except Exception as e:  # each library has errors of its own
        raise TableFailed(
            f"the export in {_place(store)} is complete, but its {manifest.table} table could not "
            f"be updated: {e}; --resume tries again"
        ) from e


@dataclass(frozen=True)
class _Files:
    """The files of runs, for the libraries of tables."""

    store: Store
    footers: Mapping[str, bytes]

    def of(self, run: Run) -> list[LakeFile]:
        """Raises OSError."""
        return [
            LakeFile(r.file, r.bytes, self.footers.get(r.file) or read_footer(self.store, r.file))
            for r in run.ranges
            if r.file is not None
        ]


def _place(store: Store) -> str:
    return store.url.removeprefix("file://")


def _settle_delta(store: Store, manifest: Manifest, files: _Files) -> None:
    done = delta_last(store, manifest.export_id)
    layout = [column.name for column in parse_layout(manifest.partition_by)]
    for number, run in enumerate(manifest.runs):
        if number > done:
            delta_add(
                store,
                files.of(run),
                json.dumps(manifest.columns),
                manifest.export_id,
                number,
                partition_by=layout,
                replace=done < 0 and number == 0,
            )


def _settle_iceberg(store: Store, manifest: Manifest, files: _Files) -> None:
    runs = list(enumerate(manifest.runs))
    catalog, name = _catalog(store, manifest.table_name)
    table = catalog.load_table(name) if catalog.table_exists(name) else None
    done = -1 if table is None else iceberg_last(table, manifest.export_id)
    if not runs or done >= runs[-1][0]:
        return
    if done < 0:
        if table is not None:
            _check_is_ours(table, store, name)
            catalog.drop_table(name)
        table = _create(catalog, name, store, manifest)
    for number, run in runs[done + 1 :]:
        iceberg_add(table, store, files.of(run), manifest.export_id, number)


def file_schema(
    store: Store, columns: Any, table: str | None, name: str | None, export_id: str | None
) -> Any:
    """Arrow's columns of the files of an export, from Spark's `columns`. Those of an Iceberg table
    have its field ids, and it gets the columns that it lacks; `export_id` is that of the export
    which is resumed. Raises TableFailed."""
    found = arrow_columns(columns)
    if table != "iceberg":
        return found
    if export_id is None and name is None:
        # Its own catalog would be a file in the directory before the first manifest is: if this
        # run were killed, the next one would refuse the directory.
        return with_field_ids(found, None)
    try:
        catalog, known = _catalog(store, name)
        there = catalog.load_table(known) if catalog.table_exists(known) else None
        if there is not None and (export_id is None or iceberg_last(there, export_id) < 0):
            there = None  # which the new export's table replaces
        if there is not None:
            with there.update_schema() as update:
                update.union_by_name(found)
            there = catalog.load_table(known)
        return with_field_ids(found, there)
    except Exception as e:  # pyiceberg and its catalogs have errors of their own
        raise TableFailed(f"the iceberg table of {_place(store)} cannot be prepared: {e}") from e


def _check_is_ours(table: Any, store: Store, name: str) -> None:
    """Raises TableRefused if the table is somewhere else: then it is not an earlier export's."""
    place = table.location().rstrip("/")
    if store_at(place) != store:
        raise TableRefused(
            f"the table {name} exists, at {place}, and does not belong to the export in "
            f"{_place(store)}; give another name"
        )


def _catalog(store: Store, name: str | None) -> tuple[Any, str]:
    """The catalog, and the table's name in it."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.catalog.sql import SqlCatalog

    if name is not None:
        catalog, _, table = name.partition(".")
        return load_catalog(catalog, **store.iceberg_properties), table
    own = SqlCatalog(
        "pk", uri=f"sqlite:///{_place(store)}/{CATALOG_FILE}", warehouse=f"file://{_place(store)}"
    )
    return own, _OWN_NAME


def _create(catalog: Any, name: str, store: Store, manifest: Manifest) -> Any:
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    namespace = name.rpartition(".")[0]
    with contextlib.suppress(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    table = catalog.create_table(name, _schema(manifest), location=store.url)
    with table.update_spec() as spec:
        for column in parse_layout(manifest.partition_by):
            spec.add_identity(column.name)
    return table


def _schema(manifest: Manifest) -> Any:
    from pyspark.sql.types import StructType

    return arrow_columns(StructType.fromJson(manifest.columns))
