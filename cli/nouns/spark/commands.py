"""The commands of `pk spark`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun
from pk.cli.command_line.option_sets import Debug, Listing
from pk.cli.nouns.spark.options import Package
from pk.cli.nouns.spark.rows import PackageRow

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
    shows=PackageRow,
    blocking=True,
)
def package(context: "Context", options: Package) -> int | None:
    """Write what the workers of a cluster need to run pk's tasks."""
    from pk.cli.nouns.spark.package import package

    return package(context, options)
