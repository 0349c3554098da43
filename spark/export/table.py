"""Makes an export's directory or URL a Delta or Iceberg table, from its manifest.

The manifest is written first and lists the files of each run. Then the runs that the table lacks
are added to it, one after the other: the writer's name is the export's id, and the batch number is
the run's number. A run that is killed between the two steps leaves a table without its last files,
and the next run begins by adding them.

An Iceberg table needs a catalog. If no other catalog is given, it is a SQLite file in the
directory. Readers that open a table by its path read the newest file in `metadata/`.
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
    """Files could not be added to the table; the export itself is complete, and the next run adds
    them."""


def check_table(kind: str | None, name: str | None) -> None:
    """Check that a table of this kind can be written. Raises OptionError; SparkMissing if its
    library is not installed."""
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
    """Add the runs of the manifest that the table lacks. `footers` has the footers of the last
    run's files; the footers of other files are read. Raises SparkMissing, TableRefused,
    TableFailed."""
    check_table(manifest.table, manifest.table_name)
    files = _Files(store, footers or {})
    try:
        if manifest.table == "delta":
            _settle_delta(store, manifest, files)
        elif manifest.table == "iceberg":
            _settle_iceberg(store, manifest, files)
    except SparkError:
        raise
    except Exception as e:  # deltalake and pyiceberg have errors of their own
        raise TableFailed(
            f"the export in {_place(store)} is complete, but its {manifest.table} table could not "
            f"be updated: {e}; --resume tries again"
        ) from e


@dataclass(frozen=True)
class _Files:
    """The files of runs, in the form in which they are added to a table."""

    store: Store
    footers: Mapping[str, bytes]

    def of(self, run: Run) -> list[LakeFile]:
        """The files of a run. Raises OSError."""
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
    """The Arrow schema of an export's files, from Spark's `columns`. For an Iceberg table, this
    adds the missing columns to the table, and the schema has the table's field ids; `export_id` is
    the id of the resumed export. Raises TableFailed."""
    found = arrow_columns(columns)
    if table != "iceberg":
        return found
    if export_id is None and name is None:
        # The table's own catalog would be a file that is in the directory before the first
        # manifest: if this run were killed, the next one would refuse the directory.
        return with_field_ids(found, None)
    try:
        catalog, known = _catalog(store, name)
        there = catalog.load_table(known) if catalog.table_exists(known) else None
        if there is not None and (export_id is None or iceberg_last(there, export_id) < 0):
            there = None  # the new export replaces that table
        if there is not None:
            with there.update_schema() as update:
                update.union_by_name(found)
            there = catalog.load_table(known)
        return with_field_ids(found, there)
    except Exception as e:  # pyiceberg and its catalogs have errors of their own
        raise TableFailed(f"the iceberg table of {_place(store)} cannot be prepared: {e}") from e


def _check_is_ours(table: Any, store: Store, name: str) -> None:
    """Raise TableRefused if the table is in another place: then an earlier export did not make
    it."""
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
