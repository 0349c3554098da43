"""Parquet directories, Delta and Iceberg tables as sinks: a batch that comes again leaves them as
they are.

Spark's tasks write the files; the driver makes them part of the table in one step. Delta and
Iceberg keep, in that step, the number of the batch, by the identity of the sink: a batch that is
there is left out. A directory of parquet files has no such place, so the files of a batch have
names of their own and are replaced.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pk.spark.errors import OptionError, SparkMissing
from pk.spark.locations import local_path
from pk.spark.pipeline.definition import DeltaSink, IcebergSink, ParquetSink
from pk.spark.pipeline.places import Places
from pk.spark.tables.lake_commit import (
    delta_add,
    delta_last,
    iceberg_add,
    iceberg_last,
    missing,
    rows_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STAGED: Final = "_pk_staged"
"""Readers skip names that begin with `_`."""


def write_parquet(
    sink: ParquetSink, places: Places, identity: str, frame: "DataFrame", batch: int
) -> None:
    """Puts a batch's files in place, instead of those of an earlier attempt. Raises OSError,
    PySparkException."""
    root = places.path(sink.parquet)
    staged = root / _STAGED / identity
    shutil.rmtree(staged, ignore_errors=True)
    frame.write.partitionBy(*sink.partition_by).parquet(f"file://{staged}")
    prefix = f"{identity}-{batch:010d}-"
    for old in root.rglob(f"{prefix}*.parquet"):
        old.unlink()
    for number, file in enumerate(sorted(staged.rglob("*.parquet"))):
        if rows_of(file) == 0:
            continue
        place = root / file.relative_to(staged).parent / f"{prefix}{number:05d}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        file.rename(place)
    shutil.rmtree(staged)
    if not any((root / _STAGED).iterdir()):
        (root / _STAGED).rmdir()


def write_delta(
    sink: DeltaSink, places: Places, identity: str, frame: "DataFrame", batch: int
) -> None:
    """Appends a batch to a Delta table, which is made at the first. Raises SparkMissing,
    PySparkException, DeltaError."""
    path = places.path(sink.delta)
    if delta_last(path, identity) >= batch:
        return
    folder = path / f"pk-{identity}-{batch:010d}"
    shutil.rmtree(folder, ignore_errors=True)
    frame.write.partitionBy(*sink.partition_by).parquet(f"file://{folder}")
    files = [file for file in sorted(folder.rglob("*.parquet")) if rows_of(file)]
    if not files and (path / "_delta_log").exists():
        shutil.rmtree(folder)
        return
    delta_add(
        path,
        files,
        frame.schema.json(),
        identity,
        batch,
        within=folder,
        partition_by=sink.partition_by,
    )


def write_iceberg(
    sink: IcebergSink, places: Places, identity: str, frame: "DataFrame", batch: int
) -> None:
    """Appends a batch to an Iceberg table, which is made at the first. Raises SparkMissing,
    OptionError, PySparkException."""
    catalog = catalog_of(sink, places)
    assert catalog is not None
    from pyiceberg.exceptions import NamespaceAlreadyExistsError

    namespace = sink.iceberg.rpartition(".")[0]
    exists = catalog.table_exists(sink.iceberg)
    if exists and iceberg_last(catalog.load_table(sink.iceberg), identity) >= batch:
        return
    root = places.own / "staged" / identity
    if exists:
        root = local_location(catalog.load_table(sink.iceberg)) / "data"
    folder = root / f"pk-{identity}-{batch:010d}"
    shutil.rmtree(folder, ignore_errors=True)
    frame.write.parquet(f"file://{folder}")
    schema = _arrow_schema(folder)
    if not exists:
        try:
            catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            pass
        table = catalog.create_table(sink.iceberg, schema)
        moved = local_location(table) / "data" / folder.name
        moved.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, moved)
        folder = moved
    else:
        table = catalog.load_table(sink.iceberg)
        with table.update_schema() as update:
            update.union_by_name(schema)
    files = [f"file://{file}" for file in sorted(folder.glob("*.parquet")) if rows_of(file)]
    if not files:
        shutil.rmtree(folder)
        return
    iceberg_add(table, files, identity, batch)


def _arrow_schema(folder: Path) -> Any:
    """The columns of the files that Spark wrote."""
    import pyarrow.parquet as pq

    return pq.read_schema(next(iter(sorted(folder.glob("*.parquet"))))).remove_metadata()


def check_iceberg_columns(folder: Path) -> None:
    """Raises ValueError if a table cannot have the columns of the files in a directory."""
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("check", warehouse=f"file://{folder}")
    catalog.create_namespace("check")
    catalog.create_table("check.rows", _arrow_schema(folder))


def catalog_of(sink: IcebergSink, places: Places, *, make: bool = True) -> Any:
    """The catalog of a sink's table; without `make`, None if its SQLite file has still to be made.
    Raises SparkMissing and what pyiceberg raises."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as e:
        raise missing("pyiceberg") from e
    properties = catalog_properties(sink, places)
    file = properties.get("uri", "").removeprefix("sqlite:///")
    if not make and properties.get("uri", "").startswith("sqlite:///") and not Path(file).exists():
        if not Path(file).parent.is_dir():
            raise SparkMissing(f"there is no directory {Path(file).parent} for the catalog")
        return None
    return load_catalog(properties.pop("name", "default"), **properties)


def catalog_properties(sink: IcebergSink, places: Places) -> dict[str, str]:
    """The catalog's properties; a warehouse and a SQLite file are relative to the pipeline's
    file."""
    found = dict(sink.catalog)
    found.setdefault("type", "sql")
    if "warehouse" in found:
        found["warehouse"] = places.url(found["warehouse"])
    uri = found.get("uri", "")
    if uri.startswith("sqlite:///") and not uri.startswith("sqlite:////"):
        found["uri"] = f"sqlite:///{places.path(uri.removeprefix('sqlite:///'))}"
    return found


def local_location(table: Any) -> Path:
    """The directory of pyiceberg's table. Raises OptionError if it is not on this machine."""
    location = table.location()
    try:
        return local_path(location)
    except OptionError:
        message = f"the table is at {location}; a pipeline writes only to tables in directories"
        raise OptionError(message) from None
