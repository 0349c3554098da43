"""`pk spark pipeline status`: what the status files beside the checkpoints say."""

from typing import TYPE_CHECKING

from pk.cli.exits import CommandError
from pk.cli.nouns.pipeline.pipeline_file import read_pipeline
from pk.cli.nouns.pipeline.query_rows import query_rows, style
from pk.cli.nouns.pipeline.rows import QueryRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import read_status

if TYPE_CHECKING:
    from pk.cli.nouns.pipeline.options import Files


async def status(context: Context, options: "Files") -> None:
    """`pk spark pipeline status`."""
    rows: list[QueryRow] = []
    for file in options.files:
        pipeline = read_pipeline(context, file)
        found = read_status(Places(pipeline))
        if found is None:
            never = CommandError(f"it has never run here; `pk spark pipeline run {file}` runs it.")
            context.failed(never, file)
            continue
        rows += query_rows(found)
        if found["error"] is not None and context.output.format in ("table", "wide"):
            context.say(f"{found['pipeline']}: {found['error']}")
    context.show(listing(QueryRow, rows, style))
