"""What the commands of `pk spark-export` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.option_sets import TOPIC_BY_OPTION, CommitsOf
from pk.cli.command_line.values import count


@dataclass(frozen=True, kw_only=True)
class SparkExport:
    """What `pk spark-export` takes."""

    topic: Annotated[
        str, Argument("TOPIC", help="The topic.", complete="topic", named=TOPIC_BY_OPTION)
    ]
    to: Annotated[
        str | None,
        Option(
            "--to",
            value="DIR",
            help="The directory for the files; it may hold an earlier export of this topic.",
            complete="directory",
        ),
    ] = None
    offset: Annotated[
        str | None,
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="What to export: a range A..B, or where to begin (default: start..end).",
            complete="position",
        ),
    ] = None
    group: CommitsOf = None
    value: Annotated[
        Literal["bytes", "string", "json"] | None,
        Option(
            "--value",
            value="TYPE",
            help=(
                "What values become: bytes (the default), string, or json (columns of the objects' "
                "fields); an export that is resumed keeps what it has."
            ),
        ),
    ] = None
    key: Annotated[
        Literal["bytes", "string", "json"] | None,
        Option("--key", value="TYPE", help="The same for keys."),
    ] = None
    value_schema: Annotated[
        str | None,
        Option(
            "--value-schema",
            value="DDL",
            help=(
                "The fields of json values, such as 'amount DOUBLE, user STRING' (default: found in a "
                "sample)."
            ),
        ),
    ] = None
    key_schema: Annotated[
        str | None, Option("--key-schema", value="DDL", help="The fields of json keys.")
    ] = None
    resume: Annotated[bool, Option("--resume", help="Go on where the export in DIR ended.")] = False
    overwrite: Annotated[bool, Option("--overwrite", help="Replace what is in DIR.")] = False
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
            help="How many tasks at once (default: as many as this process may use).",
        ),
    ] = None
    allow_data_loss: Annotated[
        bool,
        Option("--allow-data-loss", help="Records that were deleted meanwhile are no failure."),
    ] = False
