"""`pk spark pipeline status`: shows the status files beside the checkpoints."""

from typing import TYPE_CHECKING

from pk.cli.exits import CommandError
from pk.cli.nouns.pipeline.pipeline_file import read_pipeline
from pk.cli.nouns.pipeline.query_rows import partition_rows, query_rows, style
from pk.cli.nouns.pipeline.rows import PartitionRow, QueryRow
from pk.cli.output.rows import listing
from pk.cli.positions.times import show_time
from pk.cli.runtime.context import Context
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import read_status

if TYPE_CHECKING:
    from pk.cli.nouns.pipeline.options import Files
    from pk.spark.pipeline.status import Status


async def status(context: Context, options: "Files") -> None:
    """Run `pk spark pipeline status`."""
    rows: list[QueryRow] = []
    partitions: list[PartitionRow] = []
    for file in options.files:
        pipeline = read_pipeline(context, file)
        found = read_status(Places(pipeline))
        if found is None:
            never = CommandError(
                f"it has never run on this machine; `pk spark pipeline run {file}` runs it."
            )
            context.failed(never, file)
            continue
        rows += query_rows(found)
        partitions += partition_rows(found)
        if context.output.format in ("table", "wide"):
            _say_failure(context, found)
    if options.partitions:
        context.show(listing(PartitionRow, partitions))
    else:
        context.show(listing(QueryRow, rows, style))


def _say_failure(context: Context, status: "Status") -> None:
    name, last = status["pipeline"], status["last_error"]
    if status["error"] is not None:
        context.say(f"{name}: {status['error']}")
    elif last is not None:
        context.say(f"{name}: the last failure, {show_time(last['at_ms'])}: {last['message']}")
