"""The options, progress and summary of an export."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.results import IsolationLevel
from pk.spark.errors import OptionError
from pk.spark.export.manifest import ExportedRange
from pk.spark.export.table import check_table
from pk.spark.files.store import store_at
from pk.spark.locations import is_remote
from pk.spark.read.read_options import ReadOptions
from pk.spark.schemas.kinds import KINDS
from pk.spark.session.local import HERE, Where
from pk.spark.tables.layout import parse_layout

if TYPE_CHECKING:
    from pk.spark.export.unknown_fields import UnknownFields
    from pk.spark.files.writer import Rolling

Kind = Literal["bytes", "string", "json", "avro", "json-schema", "protobuf"]
Mode = Literal["new", "resume", "overwrite"]
Resolve = Callable[
    [Admin, Sequence[TopicPartition], IsolationLevel],
    Awaitable[Mapping[TopicPartition, tuple[int, int | None]]],
]
"""A function that returns the offsets (begin, end) of each partition to export, as a reader with
this isolation level sees them. An end of None means the partition's current end."""

CODECS: Final = {
    "none": "NONE",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "lz4": "LZ4",  # called LZ4_RAW in the files
    "zstd": "ZSTD",
}
"""The compression codecs of the files, with Arrow's names for them."""

SAMPLE: Final = 20_000
"""The number of records that are sampled for the fields of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The settings of an export.

    `client` has consumer configs under Kafka's names. Without `isolation.level`, only committed
    records are exported, and a resumed export keeps its isolation level. Without `resolve`, the
    whole topic is exported. `json` makes keys or values a struct column of the objects' fields:
    those of `key_schema` or `value_schema` (DDL), or those found in `sample` records. Text that
    does not fit is kept in the field `_corrupt_record`.
    """

    bootstrap: str
    topic: str
    directory: Path | str
    """A directory, or a URL of object storage: `s3://`, `gs://`, `az://`, `abfss://`."""

    client: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = "new"
    key: Kind | None = None
    value: Kind | None = None
    """The types of keys and values; None means the type of the resumed export, or bytes in a new
    one."""

    key_schema: str | None = None
    value_schema: str | None = None
    schemas: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The options of the data source for the schemas of `avro`, `json-schema` and `protobuf`, such
    as `schema.registry.url` and `value.schema.subject`."""

    evolve: bool = False
    """Whether a resumed export adds the fields that JSON or a registry's schema has gained since.
    Otherwise it keeps its fields."""

    sample: int = SAMPLE
    codec: str = "snappy"
    partition_by: tuple[str, ...] = ()
    """The columns whose values name the directories of files (pk.spark.tables.layout). Empty means
    the columns of the resumed export, or none in a new one."""

    table: str | None = None
    """`delta` or `iceberg` makes the directory such a table; `parquet` means files without a table.
    None means the format of the resumed export, or `parquet` in a new one."""

    table_name: str | None = None
    """The name of an Iceberg table, CATALOG.NAMESPACE.NAME; None means a table with its own catalog
    in the directory."""

    max_file_bytes: int | None = None
    """The size at which a file ends and the next begins; None means 512 MiB."""

    max_file_rows: int | None = None
    """The largest number of records in a file; None means no limit."""

    cores: int | None = None
    """The number of parallel tasks; None means as many as the cores that this process may use."""

    where: Where = HERE
    """The Spark that runs the tasks. On a cluster, the tasks and this process must share the
    directory, unless it is a URL."""

    compact_s: float | None = None
    """The time in seconds between compactions of a Delta table's small files, with `follow`; None
    means never."""

    fail_on_data_loss: bool = True
    resolve: Resolve | None = None

    @property
    def read(self) -> ReadOptions:
        """How tasks read the topic."""
        return ReadOptions(
            self.bootstrap,
            self.client,
            headers=True,
            fail_on_data_loss=self.fail_on_data_loss,
        )

    @property
    def rolling(self) -> "Rolling":
        """When a file ends and the next begins."""
        from pk.spark.files.writer import MAX_FILE_BYTES, Rolling

        return Rolling(self.max_file_bytes or MAX_FILE_BYTES, self.max_file_rows)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The columns whose schema the user gave."""
        given = (("key", self.key_schema), ("value", self.value_schema))
        return tuple(name for name, schema in given if schema is not None)

    def check(self) -> None:
        """Raise OptionError for invalid values and combinations."""
        if self.codec not in CODECS:
            raise OptionError(f"the codec must be one of {', '.join(CODECS)}, not {self.codec!r}")
        for what, kind, schema in (
            ("key", self.key, self.key_schema),
            ("value", self.value, self.value_schema),
        ):
            if kind not in (None, "bytes", "string", "json", *KINDS):
                kinds = f"bytes, string, json, {', '.join(KINDS)}"
                raise OptionError(f"{what} must be one of {kinds}, not {kind!r}")
            if schema is not None and kind != "json" and self.mode != "resume":
                raise OptionError(f"a schema of the {what} needs the type json")
        parse_layout(self.partition_by)
        if self.table is not None or self.mode != "resume":
            check_table(self.table, self.table_name)
        if any(most is not None and most < 1 for most in (self.max_file_bytes, self.max_file_rows)):
            raise OptionError("the limits of a file must be at least one byte and one record")
        store_at(self.directory)
        if self.table == "iceberg" and self.table_name is None and is_remote(self.directory):
            raise OptionError(
                f"an Iceberg table at {self.directory} needs a catalog: --table "
                "CATALOG.NAMESPACE.NAME, with a catalog of pyiceberg's configuration"
            )


@dataclass(frozen=True, slots=True)
class Progress:
    """An export's progress. Offsets are not records: compacted and aborted records leave gaps."""

    stage: Literal["planning", "starting", "exporting", "finishing"]
    records: int = 0
    offsets: int = 0
    """The number of offsets to read."""

    topic: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of an export."""

    topic: str
    topic_id: str
    directory: Path | str
    records: int
    bytes: int
    files: int
    ranges: tuple[ExportedRange, ...]
    records_before: int
    """The number of records of earlier runs in the same directory that are still part of the
    export."""

    elapsed_ms: int
    unknown_fields: Mapping[str, "UnknownFields"] = field(default_factory=dict)
    """For `key` and `value`, the records of this run with JSON fields that the column lacks. Those
    fields were dropped. Not counted for a column whose schema was given."""

    unparsed: Mapping[str, int] = field(default_factory=dict)
    """For each JSON column, the number of keys or values of this run that are not JSON objects or
    do not fit the column's fields. Their texts are in the column's field `_corrupt_record`."""
