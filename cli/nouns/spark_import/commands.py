"""The commands of `pk spark-import`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.spark_import.options import SparkImport
from pk.cli.nouns.spark_import.rows import ImportPlanRow, ImportRow
from pk.cli.options.option_sets import Change, Listing, Untraced

SPARK_IMPORT = Noun("spark-import")


SPARK_IMPORT.command(
    help="Write rows of files and tables to a topic with Spark, each exactly once.",
    worker="spark_import:import_rows",
    options=SparkImport,
    takes=(Change, Listing, Untraced),
    examples=(
        "pk spark-import orders --from orders.csv --key id --timestamp created_at -y",
        "pk spark-import orders --from out/rows --key id --header source=\"'files'\" --dry-run",
        (
            "pk spark-import orders --from jdbc:postgresql://db/shop --table orders --order-by id "
            "--jars postgresql.jar --option-file db.conf -y"
        ),
    ),
    notes=(
        "Each row is in the topic once for readers of committed records, even if the import is "
        "killed and started again: the same command continues. An import is known by its topic "
        "and its source, or by --id; a later run imports the files that were added, and refuses "
        "those that were changed. EXPR is an expression of Spark's SQL over the columns; numbers "
        "become text, structs become JSON. Data is imported unchanged, or the import fails with "
        "file, line and reason. CSV is that of RFC 4180: an empty field without quotes is null, "
        "one in quotes an empty text, as `pk consume -f csv` writes them. A JSON line becomes "
        "the value unchanged, unless --value is given; an expression that consists only of a "
        "field's name copies the field's JSON unchanged."
    ),
    shows={"": ImportRow, "dry_run": ImportPlanRow},
    blocking=True,
)
