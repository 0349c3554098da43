"""The commands of `pk spark`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun
from pk.cli.command_line.option_sets import Debug, Listing
from pk.cli.nouns.spark.options import Package, WarmUp
from pk.cli.nouns.spark.rows import FileRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

SPARK = Noun("spark")


@SPARK.command(
    "package",
    takes=(Listing, Debug),
    examples=("pk spark package --to package",),
    notes=(
        "pk.zip has pk, for --py-files; pk-deps.tar.gz the libraries that its tasks import, for "
        "--archives. The workers need Python of the same version, on the same platform; what is "
        "compiled is packed as it is installed here. Commands that take --master send pk.zip by "
        "themselves."
    ),
    shows=FileRow,
    blocking=True,
)
def package(context: "Context", options: Package) -> int | None:
    """Write what the workers of a cluster need to run pk's tasks."""
    from pk.cli.nouns.spark.package import package

    return package(context, options)


@SPARK.command(
    "warm-up",
    takes=(Listing, Debug),
    examples=("pk spark warm-up",),
    notes=(
        "Once is enough, until Java or pyspark is another version: it takes about a minute, and "
        "200 MB in your cache directory ($XDG_CACHE_HOME/pk/spark). Delete the file to undo it. In "
        "an image, run it while the image is built."
    ),
    shows=FileRow,
    blocking=True,
)
def warm_up(context: "Context", options: WarmUp) -> int | None:
    """Store what Java makes of Spark's classes, so that Spark starts in half the time."""
    from pk.cli.nouns.spark.warm_up import warm_up

    return warm_up(context, options)
