"""`pk spark pipeline export --declarative`: writes a pipeline as a project for another runner."""

from typing import TYPE_CHECKING

from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.pipeline.pipeline_file import explained, read_pipeline, run_options
from pk.cli.phrases import join
from pk.cli.runtime.context import Context
from pk.cli.runtime.spark_errors import here
from pk.spark.pipeline.declarative import write_project

if TYPE_CHECKING:
    from pk.cli.nouns.pipeline.options import ExportPipeline


def export(context: Context, options: "ExportPipeline") -> None:
    """Run `pk spark pipeline export`."""
    if not options.declarative:
        raise Unusable("Give the kind of project to write: --declarative.")
    if options.to is None:
        raise Unusable("Give the project's directory: --to DIR.")
    pipeline = read_pipeline(context, options.file)
    kafka = run_options(context, pipeline, None).kafka
    place = here(options.to)
    try:
        files = explained(context, lambda: write_project(pipeline, place, kafka))
    except OSError as e:
        raise CommandError(f"{options.to} cannot be written: {e.strerror}.") from e
    names = join([str(file.relative_to(place)) for file in files])
    context.say(f"Wrote {names} in {options.to}; `spark-pipelines run` runs it there.")
