"""Adds parquet files that tasks wrote to Delta and Iceberg tables, each batch once.

The commit that adds files also stores the writer and its batch number in the table. So adding a
batch again after a crash changes nothing. Exports and the sinks of pipelines use this. The files
are already in the table's directory, and the table needs nothing but their footers: files are not
read otherwise, and no directory is listed.
"""

import io
import json
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, Final

from pk.spark.errors import SparkMissing, TargetRefused
from pk.spark.files.store import Store
from pk.spark.tables.lake import INSTALL
from pk.spark.tables.layout import values_of

BATCH: Final = "pk.batch"
SINK: Final = "pk.sink"
_LAST: Final = "pk.last-batch."
"""The prefix of the properties in which an Iceberg table keeps a writer's last batch, since
snapshots may expire."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A parquet file in a table's directory."""

    name: str
    """The path relative to the table."""

    size: int
    footer: bytes
    """A parquet file that contains only this file's footer."""

    @property
    def metadata(self) -> Any:
        """pyarrow's FileMetaData."""
        from pyarrow import parquet

        return parquet.read_metadata(io.BytesIO(self.footer))


def read_footer(store: Store, name: str) -> bytes:
    """Read the footer of a file, and nothing else of it. Raises OSError."""
    from pyarrow import parquet

    with store.open(name) as file:
        metadata = parquet.read_metadata(file)
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    return sink.getvalue()


def missing(package: str) -> SparkMissing:
    """The error for a library that is not installed."""
    return SparkMissing(f"{package} is not installed; {INSTALL} installs it.")


def delta_table_of(store: Store) -> Any:
    """The table, opened with deltalake; None if it does not exist. Raises SparkMissing, DeltaError,
    OSError."""
    try:
        from deltalake import DeltaTable
    except ImportError as e:
        raise missing("deltalake") from e
    options = store.storage_options
    place = _delta_place(store)
    if not DeltaTable.is_deltatable(place, storage_options=options):
        return None
    return DeltaTable(place, storage_options=options)


def _delta_place(store: Store) -> str:
    return store.url.removeprefix("file://")


def delta_last(store: Store, writer: str) -> int:
    """The number of a writer's last batch in the table; -1 if there is no batch or no table. Raises
    SparkMissing, DeltaError, OSError."""
    table = delta_table_of(store)
    found = None if table is None else table.transaction_version(writer)
    return -1 if found is None else found


def delta_files(store: Store) -> list[str]:
    """The names of the table's files. Raises SparkMissing, DeltaError, OSError."""
    table = delta_table_of(store)
    return [] if table is None else [_relative(store, each) for each in table.file_uris()]


def iceberg_files(table: Any, store: Store) -> list[str]:
    """The names of the files of a table opened with pyiceberg."""
    return [_relative(store, each.file.file_path) for each in table.scan().plan_files()]


def _relative(store: Store, url: str) -> str:
    return url.removeprefix("file://").removeprefix(f"{_delta_place(store)}/")


def delta_columns(store: Store, schema: str) -> tuple[str, ...] | None:
    """The columns that a table is partitioned by; None if it does not exist. `schema` is Spark's,
    as JSON. Raises SparkMissing, DeltaError, OSError; TargetRefused if a column of the table cannot
    hold the values of `schema`."""
    table = delta_table_of(store)
    if table is None:
        return None
    from deltalake import Schema

    _check_types(table.schema(), Schema.from_json(_nullable(schema)))
    return tuple(table.metadata().partition_columns)


def delta_add(
    store: Store,
    files: Sequence[LakeFile],
    schema: str,
    writer: str,
    batch: int,
    *,
    partition_by: Sequence[str] = (),
    replace: bool = False,
) -> bool:
    """Add the files of a batch to the table in `store`, which is created if missing. Returns False
    if the table has the batch already.

    `schema` is Spark's, as JSON; missing columns are added to the table. The directories in the
    names of the files have the values of `partition_by`. With `replace`, the files replace all
    other files of the table. Raises SparkMissing, DeltaError, OSError; SparkFailed if a column of
    the table cannot hold the values of the files, since readers would then fail or get wrong
    values.
    """
    if delta_last(store, writer) >= batch:
        return False
    from deltalake import CommitProperties, Schema, Transaction
    from deltalake.transaction import AddAction

    from pk.spark.tables.statistics import delta_statistics

    wanted = Schema.from_json(_nullable(schema))
    table = _delta_with(store, wanted, partition_by, keep=not replace)
    columns = list(partition_by)
    described = frozenset(field.name for field in wanted.fields) - frozenset(columns)
    actions: list[Any] = [
        AddAction(
            file.name,
            file.size,
            dict(values_of(file.name.split("/")[:-1])),
            int(time.time() * 1000),
            True,
            delta_statistics(file.metadata, described),
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
    return True


def delta_merge(
    store: Store,
    rows: Any,
    schema: str,
    key: Sequence[str],
    deleted: str,
    writer: str,
    batch: int,
    *,
    partition_by: Sequence[str] = (),
) -> None:
    """Apply the changes of a batch to the table in `store`, which is created if missing. Does
    nothing if the table has the batch already.

    `rows` is an Arrow table of the changes, with one row for each `key`: it replaces the table's
    row with the same key, or deletes it if the column `deleted` is true. `schema` is Spark's, as
    JSON, without that column. Raises as `delta_add`.
    """
    if delta_last(store, writer) >= batch:
        return
    from deltalake import CommitProperties, Schema, Transaction

    table = _delta_with(store, Schema.from_json(_nullable(schema)), partition_by, keep=True)
    names = [name for name in rows.schema.names if name != deleted]
    same = " AND ".join(f"t.{_delta_name(name)} = s.{_delta_name(name)}" for name in key)
    gone = f"s.{_delta_name(deleted)}"
    sets = {_delta_name(name): f"s.{_delta_name(name)}" for name in names}
    merge = table.merge(
        rows,
        same,
        source_alias="s",
        target_alias="t",
        # deltalake then reads only files whose statistics allow the keys of the changes.
        streamed_exec=False,
        commit_properties=CommitProperties(app_transactions=[Transaction(writer, batch)]),
    )
    merge = merge.when_matched_delete(gone).when_matched_update(sets, f"NOT {gone}")
    merge.when_not_matched_insert(sets, f"NOT {gone}").execute()


def _delta_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _nullable(schema: str) -> str:
    return re.sub(r'"nullable":\s*false', '"nullable":true', schema)


def _delta_with(store: Store, wanted: Any, partition_by: Sequence[str], *, keep: bool) -> Any:
    """Open the table in `store` with deltalake, and create it if missing. With `keep`, missing
    columns are added to it, also inside structs. Raises as `delta_add`."""
    import pyarrow as pa
    from deltalake import DeltaTable, Schema, write_deltalake

    place, options = _delta_place(store), store.storage_options
    table = delta_table_of(store)
    if table is None:
        columns = list(partition_by)
        return DeltaTable.create(place, wanted, partition_by=columns, storage_options=options)
    if not keep:
        return table
    has, given = _check_types(table.schema(), wanted)
    wider = _with_fields(has, given)
    if wider == has:
        return table
    nothing = pa.schema(Schema.from_json(json.dumps(wider)).to_arrow()).empty_table()
    write_deltalake(table, nothing, mode="append", schema_mode="merge")
    return DeltaTable(place, storage_options=options)


def _with_fields(has: Any, given: Any) -> Any:
    """Add to the type `has` the fields that only `given` has, also inside structs. Types are in
    Delta's JSON."""
    if not (isinstance(has, dict) and isinstance(given, dict) and has["type"] == given["type"]):
        return has
    if has["type"] == "struct":
        others = {field["name"]: field for field in given["fields"]}
        fields = [
            {**field, "type": _with_fields(field["type"], others.pop(field["name"])["type"])}
            if field["name"] in others
            else field
            for field in has["fields"]
        ]
        return {**has, "fields": [*fields, *others.values()]}
    inner = [name for name in ("elementType", "keyType", "valueType") if name in has]
    return {**has, **{name: _with_fields(has[name], given[name]) for name in inner}}


_WIDER: Final = (("byte", "short", "integer", "long"), ("float", "double"))
"""Orders of types; each type holds all values of the types before it."""


def _check_types(has: Any, given: Any) -> tuple[Any, Any]:
    """Convert two deltalake schemas to Delta's JSON. Raises TargetRefused if a column of the first
    cannot hold all values of the same column of the second."""
    first, second = json.loads(has.to_json()), json.loads(given.to_json())
    known = {field["name"]: field["type"] for field in first["fields"]}
    for field in second["fields"]:
        if field["name"] in known:
            _check_type(field["name"], known[field["name"]], field["type"])
    return first, second


def _check_type(column: str, has: Any, given: Any) -> None:
    """Raise TargetRefused if a column of the type `has` cannot hold all values of the type `given`.
    Types are in Delta's JSON. Fields that only one of two structs has are not compared."""
    if isinstance(has, dict) and isinstance(given, dict) and has["type"] == given["type"]:
        known = {field["name"]: field["type"] for field in has.get("fields", ())}
        for field in given.get("fields", ()):
            if field["name"] in known:
                _check_type(f"{column}.{field['name']}", known[field["name"]], field["type"])
        for inner in ("elementType", "keyType", "valueType"):
            if inner in has:
                _check_type(f"{column}.{inner}", has[inner], given[inner])
        return
    if has == given or any(
        has in order and given in order and order.index(given) < order.index(has)
        for order in _WIDER
    ):
        return
    raise TargetRefused(
        f"the table's column {column} is {_type_name(has)}, but the new values are"
        f" {_type_name(given)}; write them to another table, or cast them"
    )


def _type_name(kind: Any) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind)


def check_iceberg(table: Any, columns: Any) -> None:
    """Raise TargetRefused if a column of the table can neither hold the values of the Arrow
    `columns` nor be widened for them. `table` is pyiceberg's."""
    from pyiceberg.exceptions import ValidationError

    try:
        table.update_schema().union_by_name(columns)  # a check only: the update is not committed
    except (ValidationError, ValueError) as e:
        raise TargetRefused(f"the table cannot take the rows: {e}") from e


def iceberg_last(table: Any, writer: str) -> int:
    """The number of a writer's last batch in a table opened with pyiceberg; -1 if there is none."""
    snapshots = (
        int(snapshot.summary[BATCH])
        for snapshot in table.metadata.snapshots
        if snapshot.summary is not None and snapshot.summary.get(SINK) == writer
    )
    return max(int(table.properties.get(f"{_LAST}{writer}", -1)), max(snapshots, default=-1))


def iceberg_add(
    table: Any, store: Store, files: Sequence[LakeFile], writer: str, batch: int
) -> None:
    """Add the files of a batch, which are in `store`, to a table opened with pyiceberg. Raises
    pyiceberg's errors."""
    from pyiceberg.io.pyarrow import parquet_files_to_data_files
    from pyiceberg.table import TableProperties

    footers = _footers({store.url_of(file.name): file for file in files})
    with table.transaction() as transaction:
        more = {f"{_LAST}{writer}": str(batch)}
        if transaction.table_metadata.name_mapping() is None:
            # Needed for files without field ids, which earlier versions of pk wrote.
            mapping = transaction.table_metadata.schema().name_mapping
            more[TableProperties.DEFAULT_NAME_MAPPING] = mapping.model_dump_json()
        transaction.set_properties(more)
        own = {SINK: writer, BATCH: str(batch)}
        with transaction.update_snapshot(snapshot_properties=own).fast_append() as append:
            known = parquet_files_to_data_files(
                footers, transaction.table_metadata, iter(footers.files)
            )
            for data_file in known:
                append.append_data_file(data_file)


def iceberg_merge(
    table: Any, rows: Any, key: Sequence[str], deleted: str, writer: str, batch: int
) -> None:
    """Apply the changes of a batch to a table opened with pyiceberg. `rows` is an Arrow table of
    the changes, with one row for each `key`: it replaces the table's row with the same key, or
    deletes it if the column `deleted` is true. Raises pyiceberg's errors."""
    import pyarrow.compute as pc

    own = {SINK: writer, BATCH: str(batch)}
    kept = rows.filter(pc.invert(rows[deleted])).drop_columns([deleted])
    with table.transaction() as transaction, warnings.catch_warnings():
        # pyiceberg warns if no row has one of the keys, and about a kind of delete that it does not
        # support.
        warnings.simplefilter("ignore")
        transaction.set_properties({f"{_LAST}{writer}": str(batch)})
        if rows.num_rows:
            transaction.delete(_with_keys(rows.select(list(key))), own)
        if kept.num_rows:
            transaction.append(kept, own)


def _with_keys(keys: Any) -> Any:
    """The pyiceberg expression that a row has one of the keys."""
    import pyarrow.compute as pc
    from pyiceberg import expressions

    e: Any = expressions
    bounds: list[Any] = []
    for name in keys.schema.names:
        # Iceberg prunes files by bounds, but not by a long list of values.
        found = pc.min_max(keys[name])
        bounds.append(e.GreaterThanOrEqual(name, found["min"].as_py()))
        bounds.append(e.LessThanOrEqual(name, found["max"].as_py()))
    names = keys.schema.names
    if len(names) == 1:
        return _all(e.And, [*bounds, e.In(names[0], keys[names[0]].to_pylist())])
    same = [_all(e.And, [e.EqualTo(n, v) for n, v in row.items()]) for row in keys.to_pylist()]
    return _all(e.And, [*bounds, _all(e.Or, same)])


def _all(join: Any, parts: list[Any]) -> Any:
    return join(*parts) if len(parts) > 1 else parts[0]


def _footers(files: Mapping[str, LakeFile]) -> Any:
    """A pyiceberg FileIO that reads the footers of these files from memory."""
    from pyiceberg.io import FileIO, InputFile

    class Footer(InputFile):
        def __init__(self, location: str) -> None:
            super().__init__(location)
            self._file = files[location]

        def __len__(self) -> int:
            return self._file.size

        def exists(self) -> bool:
            return True

        def open(self, seekable: bool = True) -> Any:
            return io.BytesIO(self._file.footer)

    class Footers(FileIO):
        def new_input(self, location: str) -> InputFile:
            return Footer(location)

        def new_output(self, location: str) -> Any:
            raise NotImplementedError

        def delete(self, location: Any) -> None:
            raise NotImplementedError

    found: Any = Footers()
    found.files = tuple(files)
    return found


def with_field_ids(schema: Any, table: Any | None) -> Any:
    """The Arrow schema with the columns' field ids in `table`, or in a table that would be created
    with this schema. Raises pyiceberg's errors."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    if table is not None:
        known = schema_to_pyarrow(table.schema().select(*schema.names))
        return pa.schema([_only(known.field(each.name), each) for each in schema])
    from pyiceberg.catalog.memory import InMemoryCatalog

    with TemporaryDirectory(prefix="pk-ids-") as folder:
        catalog = InMemoryCatalog("ids", warehouse=f"file://{folder}")
        catalog.create_namespace("ids")
        return schema_to_pyarrow(catalog.create_table("ids.rows", schema).schema())


def _only(known: Any, field: Any) -> Any:
    """The field of a table, with its structs reduced to the fields that `field` has."""
    import pyarrow as pa

    if not (pa.types.is_struct(known.type) and pa.types.is_struct(field.type)):
        return known
    inner = [_only(known.type.field(each.name), each) for each in field.type]
    return known.with_type(pa.struct(inner))
