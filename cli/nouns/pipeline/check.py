"""`pk spark pipeline check`: plans a pipeline, and shows the columns of each step."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pk.cli.nouns.pipeline.pipeline_file import explained, read_pipeline, run_options
from pk.cli.nouns.pipeline.rows import CheckedRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context

if TYPE_CHECKING:
    from pk.cli.nouns.pipeline.options import OneFile


def check(context: Context, options: "OneFile") -> None:
    """Run `pk spark pipeline check`."""
    pipeline = read_pipeline(context, options.file)
    run_with = replace(run_options(context, pipeline, options.cores), say=context.say)
    context.show_status("Spark is planning the pipeline…")

    def work() -> list[CheckedRow]:
        from pk.spark.pipeline.check import check_pipeline

        return [
            {"kind": each.kind, "name": each.name, "line": each.line, "columns": each.columns}
            for each in check_pipeline(pipeline, run_with)
        ]

    try:
        rows = explained(context, work)
    finally:
        context.clear_status()
    context.show(listing(CheckedRow, rows))
