"""Writes batches to parquet directories, Delta tables and Iceberg tables: a repeated batch changes
nothing.

To append a batch, Spark's tasks write files to the table's directory, and the driver commits them
to the table. A commit to a Delta or Iceberg table also stores the sink's identity and the number of
the batch, and a batch that the table has already is skipped. Each batch has its own folder of
files, so the files of earlier attempts can be found without listing the whole table. A directory of
parquet files has no commits. So the files of a batch get their final names at its end, and these
names are stored next to the checkpoint: an attempt begins by removing the files of an earlier
attempt.

With mode = "upsert" the rows of a batch are changes by key. deltalake and pyiceberg apply them in
this process, in one commit that also stores the number of the batch: they rewrite the files that
have rows with these keys.
"""

import contextlib
import json
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from pk.spark.errors import SparkMissing
from pk.spark.files.columns import arrow_columns
from pk.spark.files.object_path import Place, write_json
from pk.spark.files.store import LocalStore, Store, is_object_url, store_at
from pk.spark.pipeline.definition import DeltaSink, IcebergSink, KeyedSink, ParquetSink, Sink
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.row_changes import DELETED, changes, key_names, table_rows
from pk.spark.tables.lake_commit import (
    LakeFile,
    delta_add,
    delta_files,
    delta_last,
    delta_merge,
    iceberg_add,
    iceberg_files,
    iceberg_last,
    iceberg_merge,
    missing,
    with_field_ids,
)
from pk.spark.tables.small_files import delta_small_files, iceberg_small_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from pk.spark.files.writer import WrittenFile

_STAGED: Final = "_pk_staged"
"""Readers skip names that begin with `_`."""

_DATA: Final = "data/"
"""The directory of data files in Iceberg tables."""


def write_parquet(
    sink: ParquetSink, places: Places, identity: str, frame: "DataFrame", batch: int
) -> None:
    """Write a batch, in place of the files of an earlier attempt. Raises OSError,
    PySparkException."""
    root = places.path(sink.parquet)
    staged = root / _STAGED / identity
    shutil.rmtree(staged, ignore_errors=True)
    remembered = places.own / "parquet" / f"{identity}.json"
    prefix = f"{identity}-{batch:010d}-"
    for name in _earlier(root, remembered, prefix, batch):
        (root / name).unlink(missing_ok=True)
    files = _write(LocalStore(staged), frame, "", sink.partition_by)
    names = {
        file.name: f"{file.name.rpartition('/')[0]}/{prefix}{number:05d}.parquet".lstrip("/")
        for number, file in enumerate(files)
    }
    write_json(remembered, {"batch": batch, "files": list(names.values())})
    for source, name in names.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (staged / source).rename(place)
    shutil.rmtree(staged, ignore_errors=True)
    if (root / _STAGED).exists() and not any((root / _STAGED).iterdir()):
        (root / _STAGED).rmdir()


def _earlier(root: Path, remembered: Place, prefix: str, batch: int) -> list[str]:
    """The files of a batch that an earlier attempt moved to their final names."""
    try:
        known: Any = json.loads(remembered.read_text())
    except FileNotFoundError:  # an earlier version wrote the checkpoint
        return [str(path.relative_to(root)) for path in root.rglob(f"{prefix}*.parquet")]
    return cast(list[str], known["files"]) if known["batch"] == batch else []


def _write(
    store: Store,
    frame: "DataFrame",
    prefix: str,
    partition_by: tuple[str, ...] = (),
    schema: Any = None,
) -> "list[WrittenFile]":
    """Write the rows of a batch to files. Raises PySparkException."""
    from pk.spark.files.writer import WriteFiles, write_rows

    # Spark ignores case in names, but directories are named with the columns' own spelling.
    columns = {name.lower(): name for name in frame.columns}
    names = [columns[name.lower()] for name in partition_by]
    folders = {name: f"_pk_by_{name}" for name in names}
    texts = {text: frame[f"`{name}`"].cast("string") for name, text in folders.items()}
    inside = arrow_columns(_without(frame.schema, names)) if schema is None else schema
    rows = frame.withColumns(texts) if texts else frame
    return write_rows(rows, WriteFiles(store, inside, prefix, folders=folders))


def _without(columns: "StructType", names: list[str]) -> "StructType":
    from pyspark.sql.types import StructType

    return StructType([each for each in columns.fields if each.name not in names])


def write_delta(
    sink: DeltaSink, places: Places, identity: str, frame: "DataFrame", batch: int
) -> None:
    """Add a batch to a Delta table, which is created with the first batch. Raises SparkMissing,
    PySparkException, DeltaError, OSError."""
    store = places.store(sink.delta)
    if sink.mode == "upsert":
        if delta_last(store, identity) < batch:
            rows, columns = _changes(sink, frame)
            key, by = key_names(sink, frame), sink.partition_by
            given = (store, rows, columns.json(), key, DELETED, identity, batch)
            delta_merge(*given, partition_by=by)
        return
    attempt = _Attempt(store, identity, batch)
    if delta_last(store, identity) >= batch:
        if attempt.left:
            attempt.remove_other_attempts(delta_files(store))
        return
    files = attempt.write(frame, sink.partition_by)
    attempt.end(
        delta_add(
            store,
            files,
            frame.schema.json(),
            identity,
            batch,
            partition_by=sink.partition_by,
        )
    )


class _Attempt:
    """The files of one attempt to write a batch, in the batch's folder."""

    def __init__(self, store: Store, identity: str, batch: int, within: str = "") -> None:
        self._folder = f"{within}pk-{identity}-{batch:010d}"
        self._store = store.child(self._folder)
        self.left = self._store.names()
        """The files that earlier attempts wrote."""

        self._own: list[str] = []

    def write(
        self, frame: "DataFrame", partition_by: tuple[str, ...] = (), schema: Any = None
    ) -> list[LakeFile]:
        """Write the rows of the batch to files. Raises PySparkException."""
        prefix = f"{secrets.token_hex(4)}-"
        written = _write(self._store, frame, prefix, partition_by, schema)
        self._own = [file.name for file in written]
        return [LakeFile(f"{self._folder}/{f.name}", f.size, f.footer) for f in written]

    def end(self, added: bool) -> None:
        """Remove the files that are not part of the table: the files of earlier attempts, or this
        attempt's if an earlier attempt has added the batch in the meantime. Raises OSError."""
        self._store.remove(self.left if added else self._own)

    def remove_other_attempts(self, known: Iterable[str]) -> None:
        """Remove the files of all attempts except the one whose files are in the table. `known` are
        the names of the table's files. Raises OSError."""
        within = f"{self._folder}/"
        tokens = {_token(name) for name in known if name.startswith(within)}
        if len(tokens) == 1:  # otherwise the table was compacted, and its former files are unknown
            self._store.remove(name for name in self.left if _token(name) not in tokens)


def _token(name: str) -> str:
    """The attempt that wrote a file."""
    return name.rpartition("/")[2].partition("-")[0]


def write_iceberg(
    sink: IcebergSink, places: Places, identity: str, frame: "DataFrame", batch: int
) -> None:
    """Add a batch to an Iceberg table, which is created with the first batch. Raises SparkMissing,
    OptionError, PySparkException, OSError."""
    catalog = catalog_of(sink, places)
    assert catalog is not None
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    namespace = sink.iceberg.rpartition(".")[0]
    schema = arrow_columns(table_rows(sink, frame).schema)
    if catalog.table_exists(sink.iceberg):
        table = catalog.load_table(sink.iceberg)
        if iceberg_last(table, identity) >= batch:
            store = table_store(table)
            attempt = _Attempt(store, identity, batch, _DATA)
            if attempt.left:
                attempt.remove_other_attempts(iceberg_files(table, store))
            return
        with table.update_schema() as update:
            update.union_by_name(schema)
    else:
        with contextlib.suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)
        table = catalog.create_table(sink.iceberg, schema)
    if sink.mode == "upsert":
        rows = _changes(sink, frame)[0]
        iceberg_merge(table, rows, key_names(sink, frame), DELETED, identity, batch)
        return
    store = table_store(table)
    attempt = _Attempt(store, identity, batch, _DATA)
    files = attempt.write(frame, schema=with_field_ids(schema, table))
    if files:
        iceberg_add(table, store, files, identity, batch)
    attempt.end(True)


def _changes(sink: KeyedSink, frame: "DataFrame") -> "tuple[pa.Table, StructType]":
    """Collect a batch's changes in this process, for deltalake or pyiceberg, and return them with
    the columns of the table. Raises PySparkException."""
    found = changes(sink, frame)
    return found.toArrow().cast(arrow_columns(found.schema)), found.drop(DELETED).schema


def small_files(sink: Sink, places: Places) -> int | None:
    """The number of small files in a sink's table; None if it has no table or the table cannot be
    read now."""
    with contextlib.suppress(Exception):  # of deltalake, or of pyiceberg and its catalogs
        if isinstance(sink, DeltaSink):
            return delta_small_files(places.store(sink.delta))
        if isinstance(sink, IcebergSink):
            return iceberg_small_files(catalog_of(sink, places).load_table(sink.iceberg))
    return None


def table_store(table: Any) -> Store:
    """The store of a table opened with pyiceberg. Raises OptionError, SparkMissing."""
    return store_at(table.location(), table.io.properties)


def check_iceberg_columns(columns: "StructType") -> None:
    """Check that an Iceberg table can have these columns. Raises ValueError if it cannot, and
    PySparkTypeError for a type that Arrow lacks."""
    with_field_ids(arrow_columns(columns), None)


def catalog_of(sink: IcebergSink, places: Places, *, make: bool = True) -> Any:
    """The catalog of a sink's table; without `make`, None if its SQLite file does not exist yet.
    Raises SparkMissing, and pyiceberg's errors."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as e:
        raise missing("pyiceberg") from e
    properties = catalog_properties(sink, places)
    file = properties.get("uri", "").removeprefix("sqlite:///")
    if not make and properties.get("uri", "").startswith("sqlite:///") and not Path(file).exists():
        if not Path(file).parent.is_dir():
            raise SparkMissing(f"the directory {Path(file).parent} for the catalog does not exist")
        return None
    return load_catalog(properties.pop("name", "default"), **properties)


def catalog_properties(sink: IcebergSink, places: Places) -> dict[str, str]:
    """The catalog's properties; the paths of a warehouse and of a SQLite file are relative to the
    pipeline's file."""
    found = dict(sink.catalog)
    found.setdefault("type", "sql")
    if "warehouse" in found:
        if is_object_url(found["warehouse"]):
            found = store_at(found["warehouse"]).iceberg_properties | found
        found["warehouse"] = places.url(found["warehouse"])
    uri = found.get("uri", "")
    if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////"):
        found["uri"] = f"sqlite:///{places.path(uri.removeprefix('sqlite:///'))}"
    return found
