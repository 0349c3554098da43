"""`pk spark-export`."""

from pk.cli.grammar import Argument, Command, Option
from pk.cli.specs.common import CHANGE, COMMITS_OF, LISTING, TOPIC, UNTRACED

SPARK_EXPORT = Command(
    "spark-export",
    help="Write a topic to parquet files with Spark.",
    handler="pk.cli.nouns.spark_export.spark_export:export",
    shows={
        "": (
            "topic directory records:int files:int bytes:int records_before:int "
            "elapsed_ms:num topic_id?"
        ),
        "dry_run": "topic partition:int begin:int end:int offsets:int",
    },
    blocking=True,
    arguments=(Argument("TOPIC", help="The topic.", complete="topic"),),
    options=(
        TOPIC,
        Option(
            "--to",
            value="DIR",
            help="The directory for the files; it may hold an earlier export of this topic.",
            complete="directory",
        ),
        Option(
            "-o",
            "--offset",
            value="POSITION",
            help="What to export: a range A..B, or where to begin (default: start..end).",
            complete="position",
        ),
        COMMITS_OF,
        Option(
            "--value",
            value="TYPE",
            choices=("bytes", "string", "json"),
            help="What values become: bytes (the default), string, or json (columns of the objects' fields); an export that is resumed keeps what it has.",
        ),
        Option(
            "--key",
            value="TYPE",
            choices=("bytes", "string", "json"),
            help="The same for keys.",
        ),
        Option(
            "--value-schema",
            value="DDL",
            help="The fields of json values, such as 'amount DOUBLE, user STRING' (default: found in a sample).",
        ),
        Option("--key-schema", value="DDL", help="The fields of json keys."),
        Option("--resume", help="Go on where the export in DIR ended."),
        Option("--overwrite", help="Replace what is in DIR."),
        Option(
            "-z",
            "--compression",
            "--codec",
            value="CODEC",
            choices=("snappy", "zstd", "gzip", "lz4", "none"),
            default="snappy",
            help="The compression of the files (default: snappy).",
        ),
        Option(
            "--cores",
            value="N",
            kind="count",
            help="How many tasks at once (default: as many as this process may use).",
        ),
        Option("--allow-data-loss", help="Records that were deleted meanwhile are no failure."),
        *LISTING,
        *CHANGE,
        *UNTRACED,
    ),
    examples=(
        "pk spark-export orders --to out/orders --value json",
        "pk spark-export orders --to out/orders --resume",
    ),
)
