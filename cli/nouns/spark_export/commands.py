"""`pk spark-export`: its commands and their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun
from pk.cli.command_line.option_sets import Change, Listing, Untraced
from pk.cli.nouns.spark_export.options import SparkExport

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

SPARK_EXPORT = Noun("spark-export")


@SPARK_EXPORT.command(
    takes=(Change, Listing, Untraced),
    examples=(
        "pk spark-export orders --to out/orders --value json",
        "pk spark-export orders --to out/orders --resume",
    ),
    shows={
        "": (
            "topic directory records:int files:int bytes:int records_before:int elapsed_ms:num "
            "topic_id?"
        ),
        "dry_run": "topic partition:int begin:int end:int offsets:int",
    },
    blocking=True,
)
def spark_export(context: "Context", options: SparkExport) -> int | None:
    """Write a topic to parquet files with Spark."""
    from pk.cli.nouns.spark_export.spark_export import export

    return export(context)
