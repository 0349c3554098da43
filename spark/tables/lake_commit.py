"""Adds parquet files that tasks have written to tables of Delta and Iceberg, each batch once.

A table notes, in the step that adds the files, which writer added which batch. So a batch that is
added again, after a crash, changes nothing. Exports and the sinks of pipelines use this; the files
are already in the table's directory, and their footers contain everything that the table must know
about them: nothing is read but footers, and no directory is listed.
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
"""The property of an Iceberg table that has a writer's last batch; snapshots may be expired."""


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A parquet file in a table's place."""

    name: str
    """Relative to the table."""

    size: int
    footer: bytes
    """A parquet file that consists only of this file's footer."""

    @property
    def metadata(self) -> Any:
        """pyarrow's FileMetaData."""
        from pyarrow import parquet

        return parquet.read_metadata(io.BytesIO(self.footer))


def read_footer(store: Store, name: str) -> bytes:
    """The footer of a file, which is all that is read of it. Raises OSError."""
    from pyarrow import parquet

    with store.open(name) as file:
        metadata = parquet.read_metadata(file)
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    return sink.getvalue()


def missing(package: str) -> SparkMissing:
    """The error for a library of tables that is not installed."""
    return SparkMissing(f"{package} is not installed; {INSTALL} installs it.")


def delta_table_of(store: Store) -> Any:
    """deltalake's table; None if there is none yet. Raises SparkMissing, DeltaError, OSError."""
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
    """The last batch of a writer that the table has; -1 without one or without a table. Raises
    SparkMissing, DeltaError, OSError."""
    table = delta_table_of(store)
    found = None if table is None else table.transaction_version(writer)
    return -1 if found is None else found


def delta_files(store: Store) -> list[str]:
    """The names of the files that the table has. Raises SparkMissing, DeltaError, OSError."""
    table = delta_table_of(store)
    return [] if table is None else [_relative(store, each) for each in table.file_uris()]


def iceberg_files(table: Any, store: Store) -> list[str]:
    """The names of the files that pyiceberg's table has."""
    return [_relative(store, each.file.file_path) for each in table.scan().plan_files()]


def _relative(store: Store, url: str) -> str:
    return url.removeprefix("file://").removeprefix(f"{_delta_place(store)}/")


def delta_columns(store: Store, schema: str) -> tuple[str, ...] | None:
    """The columns that a table is partitioned by; None if there is no table yet. Raises
    SparkMissing, DeltaError, OSError; TargetRefused if a column of the table cannot hold the values
    of `schema`, Spark's as JSON."""
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
    """Adds the files of a batch to the table in `store`, created if missing; False if the table has
    the batch already.

    `schema` is Spark's, as JSON; the table gets the columns that it lacks. Directories in the names
    of the files have the values of `partition_by`. If `replace`, the table then has only these
    files. Raises SparkMissing, DeltaError, OSError; SparkFailed if a column of the table cannot
    hold the values of the files: readers would fail, or get other values.
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
    """Applies the changes of a batch to the table in `store`, created if missing; nothing if the
    table has the batch already.

    `rows` is Arrow's table of the changes, one for each `key`: a row replaces that of its key, or
    deletes it if it is true in the column `deleted`. `schema` is Spark's, as JSON, without that
    column. Raises as `delta_add`.
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
        # deltalake then looks only at files whose statistics admit the keys of the changes.
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
    """deltalake's table in `store`, created if missing. With `keep`, its columns stay, and it gains
    those that it lacks, also inside structs. Raises as `delta_add`."""
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
    """The type `has` with the fields that only `given` has, also inside structs: types as Delta's
    JSON has them."""
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
"""Types of which each holds all values of those before it."""


def _check_types(has: Any, given: Any) -> tuple[Any, Any]:
    """Two schemas of deltalake as Delta's JSON. Raises TargetRefused if a column of the first
    cannot hold all values of the second's."""
    first, second = json.loads(has.to_json()), json.loads(given.to_json())
    known = {field["name"]: field["type"] for field in first["fields"]}
    for field in second["fields"]:
        if field["name"] in known:
            _check_type(field["name"], known[field["name"]], field["type"])
    return first, second


def _check_type(column: str, has: Any, given: Any) -> None:
    """Whether a column of the type `has` holds all values of the type `given`: types as Delta's
    JSON has them. Fields that only one of two structs has are not compared.

    Raises TargetRefused."""
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
        f"the table's column {column} is {_type_name(has)}, and its new values are"
        f" {_type_name(given)}; write them to another table, or cast them"
    )


def _type_name(kind: Any) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind)


def check_iceberg(table: Any, columns: Any) -> None:
    """Raises TargetRefused if pyiceberg's table has a column that neither holds the values of
    Arrow's `columns` nor can widen for them."""
    from pyiceberg.exceptions import ValidationError

    try:
        table.update_schema().union_by_name(columns)  # a check: it is not committed
    except (ValidationError, ValueError) as e:
        raise TargetRefused(f"the table cannot take the rows: {e}") from e


def iceberg_last(table: Any, writer: str) -> int:
    """The last batch of a writer that pyiceberg's table has; -1 without one."""
    snapshots = (
        int(snapshot.summary[BATCH])
        for snapshot in table.metadata.snapshots
        if snapshot.summary is not None and snapshot.summary.get(SINK) == writer
    )
    return max(int(table.properties.get(f"{_LAST}{writer}", -1)), max(snapshots, default=-1))


def iceberg_add(
    table: Any, store: Store, files: Sequence[LakeFile], writer: str, batch: int
) -> None:
    """Adds the files of a batch, which are in `store`, to pyiceberg's table. Raises what pyiceberg
    raises."""
    from pyiceberg.io.pyarrow import parquet_files_to_data_files
    from pyiceberg.table import TableProperties

    footers = _footers({store.url_of(file.name): file for file in files})
    with table.transaction() as transaction:
        more = {f"{_LAST}{writer}": str(batch)}
        if transaction.table_metadata.name_mapping() is None:
            # Needed for files without field ids, which earlier versions wrote.
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
    """Applies the changes of a batch to pyiceberg's table. `rows` is Arrow's table of the changes,
    one for each `key`: a row replaces that of its key, or deletes it if it is true in the column
    `deleted`. Raises what pyiceberg raises."""
    import pyarrow.compute as pc

    own = {SINK: writer, BATCH: str(batch)}
    kept = rows.filter(pc.invert(rows[deleted])).drop_columns([deleted])
    with table.transaction() as transaction, warnings.catch_warnings():
        # It warns if no row has one of the keys, and of a way to delete that it lacks.
        warnings.simplefilter("ignore")
        transaction.set_properties({f"{_LAST}{writer}": str(batch)})
        if rows.num_rows:
            transaction.delete(_with_keys(rows.select(list(key))), own)
        if kept.num_rows:
            transaction.append(kept, own)


def _with_keys(keys: Any) -> Any:
    """The condition of pyiceberg's that a row has one of the keys."""
    import pyarrow.compute as pc
    from pyiceberg import expressions

    e: Any = expressions
    bounds: list[Any] = []
    for name in keys.schema.names:
        # Iceberg finds files by bounds, and not by a long list of values.
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
    """An input of pyiceberg's that has footers for files."""
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
    """Arrow's columns with the field ids that they have in pyiceberg's table, or will have in the
    table that is made of them. Raises what pyiceberg raises."""
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
    """A table's field with only those fields of its structs that `field` has."""
    import pyarrow as pa

    if not (pa.types.is_struct(known.type) and pa.types.is_struct(field.type)):
        return known
    inner = [_only(known.type.field(each.name), each) for each in field.type]
    return known.with_type(pa.struct(inner))
