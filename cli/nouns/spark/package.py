"""`pk spark package`: writes the files that the workers of a cluster need.
`pk.spark.session.package` does the work."""

from typing import TYPE_CHECKING

from pk.cli.exits import CommandError
from pk.cli.nouns.spark.rows import FileRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.spark_errors import as_sentence, here

if TYPE_CHECKING:
    from pk.cli.nouns.spark.options import Package


def package(context: Context, options: "Package") -> None:
    """Run `pk spark package`."""
    from pk.spark.errors import SparkError
    from pk.spark.session.package import DEPENDENCIES, ZIP, write_dependencies, write_zip

    folder = here(options.to)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = [write_zip(folder / ZIP), write_dependencies(folder / DEPENDENCIES)]
    except SparkError as e:
        raise CommandError(as_sentence(e)) from e
    except OSError as e:
        raise CommandError(f"{folder} cannot be written: {e.strerror or e}.") from e
    rows: list[FileRow] = [{"file": str(path), "bytes": path.stat().st_size} for path in files]
    context.show(listing(FileRow, rows))
