"""The commands of `pk pipeline`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Debug, Listing, Untraced, Watch
from pk.cli.nouns.pipeline.options import (
    ExportPipeline,
    Files,
    InitPipeline,
    OneFile,
    RunPipeline,
    StopPipeline,
)
from pk.cli.nouns.pipeline.rows import CheckedRow, QueryRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

PIPELINE = Noun("pipeline")


@PIPELINE.command(
    "init",
    takes=(Untraced,),
    examples=("pk pipeline init orders.toml --topic orders",),
    notes=(
        "The file counts the topic's records by minute and writes the counts to another topic. "
        "Its comments name the other kinds of sources, steps and sinks. Fields of JSON values "
        "come from a sample of the topic."
    ),
    blocking=True,
)
def init(context: "Context", options: InitPipeline) -> int | None:
    """Write a commented pipeline file, with the fields of a topic's records."""
    from pk.cli.nouns.pipeline.init import init

    return init(context, options)


@PIPELINE.command(
    "check",
    takes=(Listing, Untraced),
    examples=("pk pipeline check orders.toml",),
    notes=(
        "Spark plans every step, on the fields and tables that are there, and nothing runs. Each "
        "problem is shown as FILE:LINE:COLUMN; the exit code is then 1."
    ),
    shows=CheckedRow,
    blocking=True,
)
def check(context: "Context", options: OneFile) -> int | None:
    """Check a pipeline without running it, and show the columns of each step."""
    from pk.cli.nouns.pipeline.check import check

    return check(context, options)


@PIPELINE.command(
    "run",
    takes=(Listing, Untraced),
    examples=("pk pipeline run orders.toml --once", "pk pipeline run orders.toml"),
    notes=(
        "Ctrl-C or `pk pipeline stop` ends it after the running batch; a second Ctrl-C ends it at "
        "once, and the next run repeats that batch. The next run goes on where this one ended."
    ),
    shows=QueryRow,
    blocking=True,
    screen="streams",
)
def run(context: "Context", options: RunPipeline) -> int | None:
    """Run a pipeline until it is stopped, or --once through the records of now."""
    from pk.cli.nouns.pipeline.run import run

    return run(context, options)


@PIPELINE.command(
    "status",
    takes=(Listing, Watch, Debug),
    examples=("pk pipeline status orders.toml", "pk pipeline status *.toml -f json"),
    shows=QueryRow,
)
def status(context: "Context", options: Files) -> Running:
    """Show state, rate, lag, batch time and dead letters of pipelines on this machine."""
    from pk.cli.nouns.pipeline.status import status

    return status(context, options)


@PIPELINE.command(
    "stop",
    takes=(Debug,),
    examples=("pk pipeline stop orders.toml",),
)
def stop(context: "Context", options: StopPipeline) -> Running:
    """Stop a running pipeline after its batch, and wait for its end."""
    from pk.cli.nouns.pipeline.stop import stop

    return stop(context, options)


@PIPELINE.command(
    "export",
    takes=(Untraced,),
    examples=("pk pipeline export orders.toml --declarative --to project",),
    notes=(
        "`spark-pipelines run` in DIR runs the project; pip install 'pk-broker[declarative]' "
        "brings it. Sinks that update, dead letters, JDBC, Delta and Iceberg have no counterpart "
        "there and are refused."
    ),
    blocking=True,
)
def export(context: "Context", options: ExportPipeline) -> int | None:
    """Write a pipeline as a project for Spark's declarative pipelines."""
    from pk.cli.nouns.pipeline.export import export

    return export(context, options)
