"""The commands of `pk spark`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.spark.options import Package, WarmUp
from pk.cli.nouns.spark.rows import FileRow
from pk.cli.options.option_sets import Debug, Listing

SPARK = Noun("spark", nouns_first=True)


SPARK.command(
    "package",
    help="Write what the workers of a cluster need to run pk's tasks.",
    worker="package:package",
    options=Package,
    takes=(Listing, Debug),
    examples=("pk spark package --to package",),
    notes=(
        "pk.zip has pk, for --py-files; pk-deps.tar.gz the libraries that its tasks import, for "
        "--archives. The workers need Python of the same version, on the same platform; compiled "
        "libraries are packed as they are installed here. Commands that take --master send pk.zip "
        "by "
        "themselves."
    ),
    shows=FileRow,
    blocking=True,
)


SPARK.command(
    "warm-up",
    help="Cache Spark's loaded Java classes, so that Spark starts in half the time.",
    worker="warm_up:warm_up",
    options=WarmUp,
    takes=(Listing, Debug),
    examples=("pk spark warm-up",),
    notes=(
        "Run it once for each version of Java and pyspark: it takes about a minute, and 200 MB "
        "in your cache directory ($XDG_CACHE_HOME/pk/spark). Delete the file to undo it. In an "
        "image, run it while the image is built."
    ),
    shows=FileRow,
    blocking=True,
)
