"""The commands of `pk spark pipeline`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.pipeline.options import (
    ExportPipeline,
    Files,
    InitPipeline,
    OneFile,
    RunPipeline,
    StopPipeline,
)
from pk.cli.nouns.pipeline.rows import CheckedRow, PartitionRow, QueryRow
from pk.cli.options.option_sets import Debug, Listing, Untraced, Watch

PIPELINE = Noun("spark pipeline")


PIPELINE.command(
    "init",
    help="Write a commented pipeline file, with the fields of a topic's records.",
    worker="init:init",
    options=InitPipeline,
    takes=(Untraced,),
    examples=("pk spark pipeline init orders.toml --topic orders",),
    notes=(
        "The file counts the topic's records by minute and writes the counts to another topic. "
        "Its comments name the other kinds of sources, steps and sinks. Fields of JSON values "
        "come from a sample of the topic."
    ),
    blocking=True,
)


PIPELINE.command(
    "check",
    help="Check a pipeline without running it, and show the columns of each step.",
    worker="check:check",
    options=OneFile,
    takes=(Listing, Untraced),
    examples=("pk spark pipeline check orders.toml",),
    notes=(
        "Spark plans every step with the existing fields and tables, and runs nothing. Each "
        "problem is shown as FILE:LINE:COLUMN; the exit code is then 1."
    ),
    shows=CheckedRow,
    blocking=True,
)


PIPELINE.command(
    "run",
    help="Run a pipeline until it is stopped, or with --once to the current end.",
    worker="run:run",
    options=RunPipeline,
    takes=(Listing, Untraced),
    examples=(
        "pk spark pipeline run orders.toml --once",
        "pk spark pipeline run orders.toml --restart",
    ),
    notes=(
        "Ctrl-C or `pk spark pipeline stop` ends it after the running batch; a second Ctrl-C ends "
        "it at once, and the next run repeats that batch. The next run continues where this one "
        "ended. The exit code is 78 if it failed and would fail again: --restart starts it again "
        "after other failures, with pauses of up to a minute."
    ),
    shows=QueryRow,
    blocking=True,
    screen="streams",
)


PIPELINE.command(
    "status",
    help="Show state, rate, lag, batch time and dead letters of pipelines.",
    worker="status:status",
    options=Files,
    takes=(Listing, Watch, Debug),
    examples=(
        "pk spark pipeline status orders.toml",
        "pk spark pipeline status orders.toml --partitions --where 'lag > 0'",
        "pk spark pipeline status *.toml -f json",
    ),
    notes=(
        "ROWS/S is the rate of the last minute, LAG the lag at the end of the last batch. -f wide "
        "also shows how many files of a table are below 32 MB, how often --restart has started "
        "Spark again, and the last failure."
    ),
    shows={"": QueryRow, "partitions": PartitionRow},
)


PIPELINE.command(
    "stop",
    help="Stop a running pipeline after its batch, and wait for its end.",
    worker="stop:stop",
    options=StopPipeline,
    takes=(Debug,),
    examples=("pk spark pipeline stop orders.toml",),
)


PIPELINE.command(
    "export",
    help="Write a pipeline as a project for Spark's declarative pipelines.",
    worker="export:export",
    options=ExportPipeline,
    takes=(Untraced,),
    examples=("pk spark pipeline export orders.toml --declarative --to project",),
    notes=(
        "`spark-pipelines run` in DIR runs the project; pip install 'pk-broker[declarative]' "
        "installs it. Sinks that update, dead letters, JDBC, Delta and Iceberg have no "
        "counterpart there and are refused."
    ),
    blocking=True,
)
