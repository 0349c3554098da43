"""Options of `pk spark-import`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.on_spark import OnSpark
from pk.cli.options.option_sets import TOPIC_BY_OPTION
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, count


@dataclass(frozen=True, kw_only=True)
class SparkImport(OnSpark):
    """Options of `pk spark-import`."""

    topic: Annotated[
        str,
        Argument("TOPIC", help="The topic to write to.", complete="topic", named=TOPIC_BY_OPTION),
    ]
    source: Annotated[
        str | None,
        Option(
            "--from",
            value="SOURCE",
            help="A file, a directory, a URL, iceberg:CATALOG.NAME, or a database's jdbc: URL.",
            complete="file",
        ),
    ] = None
    source_format: Annotated[
        Literal["parquet", "csv", "json", "delta", "iceberg", "jdbc"] | None,
        Option(
            "--source-format",
            value="FORMAT",
            help=(
                "The format of SOURCE: parquet, csv, json (lines), delta, iceberg or jdbc "
                "(default: by its name)."
            ),
        ),
    ] = None
    key: Annotated[
        str | None,
        Option("-k", "--key", value="EXPR", help="The record's key (default: none)."),
    ] = None
    value: Annotated[
        str | None,
        Option(
            "--value",
            value="EXPR",
            help="The record's value (default: a JSON object of all columns).",
        ),
    ] = None
    timestamp: Annotated[
        str | None,
        Option(
            "--timestamp",
            value="EXPR",
            help="The record's time: a timestamp, or milliseconds since 1970 (default: now).",
        ),
    ] = None
    partition: Annotated[
        str | None,
        Option(
            "--partition",
            value="EXPR",
            help="The number of the partition (default: by key, as Java's producer).",
        ),
    ] = None
    header: Annotated[
        tuple[Pair, ...],
        Option("-H", "--header", value="NAME=EXPR", help="A header of the record; repeatable."),
    ] = ()
    id: Annotated[
        str | None,
        Option(
            "--id",
            value="ID",
            help="The import's id, by which a later run continues it (default: made of topic and "
            "SOURCE).",
        ),
    ] = None
    schema: Annotated[
        str | None,
        Option(
            "--schema",
            value="DDL",
            help="The columns of csv and json, such as 'id BIGINT, name STRING'.",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        Option(
            "--delimiter",
            value="CHARACTER",
            help="The field separator of csv (default: a comma; in .tsv a tab).",
        ),
    ] = None
    option: Annotated[
        tuple[Pair, ...],
        Option(
            "--option",
            value="NAME=VALUE",
            help="An option of the format, such as header=false or encoding=cp1252; repeatable.",
        ),
    ] = ()
    option_file: Annotated[
        str | None,
        Option(
            "--option-file",
            value="FILE",
            help="A file of such options, one NAME=VALUE per line; use it for passwords.",
            complete="file",
        ),
    ] = None
    table: Annotated[str | None, Option("--table", value="NAME", help="The database's table.")] = (
        None
    )
    order_by: Annotated[
        str | None,
        Option(
            "--order-by",
            value="COLUMN",
            help="The table's unique whole-number column: a later run imports the rows above.",
        ),
    ] = None
    jars: Annotated[
        tuple[str, ...],
        Option(
            "--jars",
            value="FILE",
            help="A jar with the database's JDBC driver; repeatable.",
            complete="file",
        ),
    ] = ()
    cores: Annotated[
        int | None,
        Option(
            "--cores",
            value="N",
            parser=count,
            help="The number of parallel tasks (default: the cores this process may use).",
        ),
    ] = None
