"""`pk version`: shows the versions of pk, Python, the platform, and the libraries that pk uses."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun
from pk.cli.options.option_sets import Debug, Listing
from pk.cli.runtime.versions import VersionRow, versions

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

VERSION = Noun("version")


VERSION.command(
    help="Show the versions of pk, Python, the platform, and the libraries that pk uses.",
    worker=":show_versions",
    takes=(Listing, Debug),
    examples=("pk version", "pk version -f json"),
    notes="`pk --version` shows the first three on one line.",
    shows=VersionRow,
    blocking=True,
)


def show_versions(context: "Context") -> None:
    """Run `pk version`."""
    from pk.cli.output.rows import listing

    context.show(listing(VersionRow, versions()))
