"""`pk spark warm-up`: makes the archive of classes with which Spark starts faster.
`pk.spark.session.warm_up` does the work."""

from typing import TYPE_CHECKING

from pk.cli.exits import CommandError
from pk.cli.nouns.spark.rows import FileRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.spark_errors import as_sentence, spark_is_missing

if TYPE_CHECKING:
    from pk.cli.nouns.spark.options import WarmUp


def warm_up(context: Context, options: "WarmUp") -> None:
    """Run `pk spark warm-up`."""
    del options
    context.show_status("Spark runs a short job of each kind, and Java saves the loaded classes…")
    try:
        from pk.spark.errors import SparkError
        from pk.spark.session.warm_up import warm_up
    except ModuleNotFoundError as e:
        raise spark_is_missing(e) from None
    try:
        path = warm_up()
    except SparkError as e:
        raise CommandError(as_sentence(e)) from e
    except OSError as e:
        raise CommandError(f"{e.filename or 'The archive'}: {e.strerror or e}.") from e
    finally:
        context.clear_status()
    rows: list[FileRow] = [{"file": str(path), "bytes": path.stat().st_size}]
    context.show(listing(FileRow, rows))
