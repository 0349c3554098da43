"""The commands of `pk spark-export`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.spark_export.options import SparkExport
from pk.cli.nouns.spark_export.rows import ExportPlanRow, ExportRow
from pk.cli.options.option_sets import Change, Listing, Untraced

SPARK_EXPORT = Noun("spark-export")


SPARK_EXPORT.command(
    help="Write topics to parquet files or tables with Spark.",
    worker="spark_export:export",
    options=SparkExport,
    takes=(Change, Listing, Untraced),
    examples=(
        "pk spark-export orders --to out/orders --value json",
        "pk spark-export orders --to out/orders --resume",
        "pk spark-export orders payments --to out --to-format delta --partition-by date --follow",
    ),
    shows={"": ExportRow, "dry_run": ExportPlanRow},
    blocking=True,
)
