"""Options of the larger commands of `pk spark-export`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.on_spark import OnSpark
from pk.cli.options.option_sets import CommitsOf, SchemaRegistryUrl, Topics, offset_option
from pk.cli.options.parameters import Option
from pk.cli.options.values import count, size, span
from pk.core.durations import Duration

_Kind = Literal["bytes", "string", "json", "avro", "json-schema", "protobuf"]


@dataclass(frozen=True, kw_only=True)
class SparkExport(OnSpark):
    """Options of `pk spark-export`."""

    topics: Topics
    to: Annotated[
        str | None,
        Option(
            "--to",
            value="DIR",
            help=(
                "The directory or URL for the files; may contain an earlier export of this topic. "
                "Each of several topics gets a directory of its own in it."
            ),
            complete="directory",
        ),
    ] = None
    to_format: Annotated[
        Literal["parquet", "delta", "iceberg"] | None,
        Option(
            "--to-format",
            value="FORMAT",
            help="What to write in DIR: plain parquet files (default), or a delta or iceberg "
            "table.",
        ),
    ] = None
    table: Annotated[
        str | None,
        Option(
            "--table",
            value="NAME",
            help=(
                "The Iceberg table, as CATALOG.NAMESPACE.NAME of pyiceberg's catalogs (default: "
                "a catalog of its own in DIR)."
            ),
        ),
    ] = None
    partition_by: Annotated[
        tuple[str, ...],
        Option(
            "--partition-by",
            value="COLUMNS",
            help=(
                "Columns whose values name directories: date, hour, topic, partition, a field of "
                "json, or NAME=EXPR of Spark's SQL; with commas, or repeatable."
            ),
        ),
    ] = ()
    offset: Annotated[
        str | None,
        offset_option("What to export: a range A..B, or where to start (default: start..end)."),
    ] = None
    group: CommitsOf = None
    value: Annotated[
        _Kind | None,
        Option(
            "--value",
            value="TYPE",
            help=(
                "The type of values: bytes (default), string, json (a column for each field), or, "
                "with schemas of a registry, avro, json-schema, protobuf; a resumed export keeps "
                "its type."
            ),
        ),
    ] = None
    key: Annotated[
        _Kind | None,
        Option("--key", value="TYPE", help="The type of keys, as --value."),
    ] = None
    schema_registry: SchemaRegistryUrl = None
    value_schema: Annotated[
        str | None,
        Option(
            "--value-schema",
            value="DDL",
            help=(
                "The fields of json values, such as 'amount DOUBLE, user STRING' (default: "
                "inferred from a sample)."
            ),
        ),
    ] = None
    key_schema: Annotated[
        str | None, Option("--key-schema", value="DDL", help="The fields of json keys.")
    ] = None
    schema: Annotated[
        Literal["fixed", "evolve"],
        Option(
            "--schema",
            value="WORD",
            help=(
                "With --resume or --follow: evolve adds columns for fields that JSON or the "
                "registry's schema has gained since; fixed (default) drops these fields."
            ),
        ),
    ] = "fixed"
    follow: Annotated[
        bool,
        Option(
            "--follow",
            help=("Continue with new records until Ctrl-C or SIGTERM; --resume continues later."),
        ),
    ] = False
    interval: Annotated[
        Duration,
        Option(
            "--interval",
            value="DURATION",
            parser=span,
            help="With --follow: the minimum time between two runs, each of which writes files "
            "(default: 10s).",
        ),
    ] = Duration(10_000)
    compact: Annotated[
        Duration | None,
        Option(
            "--compact",
            value="DURATION",
            parser=span,
            help="With --follow and a delta table: compact its small files this often, such as "
            "1h (default: never).",
        ),
    ] = None
    max_file_size: Annotated[
        int | None,
        Option(
            "--max-file-size",
            value="SIZE",
            parser=size,
            help="Start a new file at about this size, such as 64MB (default: 512MiB).",
        ),
    ] = None
    max_file_rows: Annotated[
        int | None,
        Option(
            "--max-file-rows",
            value="N",
            parser=count,
            help="The maximum number of records in a file (default: no limit).",
        ),
    ] = None
    resume: Annotated[bool, Option("--resume", help="Resume the export in DIR.")] = False
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the contents of DIR.")] = False
    compression: Annotated[
        Literal["snappy", "zstd", "gzip", "lz4", "none"],
        Option(
            "-z",
            "--compression",
            "--codec",
            value="CODEC",
            help="The compression of the files (default: snappy).",
        ),
    ] = "snappy"
    cores: Annotated[
        int | None,
        Option(
            "--cores",
            value="N",
            parser=count,
            help="The number of parallel tasks (default: the cores this process may use).",
        ),
    ] = None
    allow_data_loss: Annotated[
        bool,
        Option(
            "--allow-data-loss", help="Do not fail when records were deleted during the export."
        ),
    ] = False
