"""`pk spark pipeline run`: runs a pipeline in this process, and shows its progress."""

from dataclasses import replace
from typing import TYPE_CHECKING

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.nouns.pipeline.pipeline_file import explained, read_pipeline, run_options
from pk.cli.nouns.pipeline.query_rows import query_rows, style
from pk.cli.nouns.pipeline.rows import QueryRow
from pk.cli.output.rows import listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.cli.runtime.spark_place import spark_place

if TYPE_CHECKING:
    from pk.cli.nouns.pipeline.options import RunPipeline
    from pk.spark.pipeline.status import Status


def run(context: Context, options: "RunPipeline") -> None:
    """Run `pk spark pipeline run`."""
    try:
        _run(context, options)
    except CommandError as e:
        raise _lasting(e) from e.__cause__


def _run(context: Context, options: "RunPipeline") -> None:
    pipeline = read_pipeline(context, options.file)
    context.allow()
    run_with = run_options(context, pipeline, options.cores)

    def show_progress(status: "Status") -> None:
        context.show_status(_progress(status))

    run_with = replace(
        run_with,
        once=options.once,
        restart=options.restart,
        metrics=_address(options.metrics_listener),
        where=spark_place(options),
        progress=show_progress,
        say=context.say,
    )
    context.show_status("Spark is starting…")

    def work() -> "Status":
        from pk.spark.pipeline.run import run_pipeline

        return run_pipeline(pipeline, run_with).status

    try:
        status = explained(context, work)
    finally:
        context.clear_status()
    context.show(listing(QueryRow, query_rows(status), style))


def _address(text: str | None) -> tuple[str, int] | None:
    """Parse the host and port of --metrics-listener. Raises Unusable."""
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise Unusable(f"--metrics-listener must be HOST:PORT, is {text!r}.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _lasting(error: CommandError) -> CommandError:
    """The error, with the exit code for a failure that recurs until something is changed."""
    from pk.spark.pipeline.lasting import is_lasting

    cause = error.__cause__
    if error.code == Exit.FAILED and cause is not None and is_lasting(cause):
        return CommandError(str(error), Exit.LASTING)
    return error


def _progress(status: "Status") -> str:
    queries = status["queries"]
    if not queries:
        return "The first batch is running; Ctrl-C stops after it."
    rows = sum(query["rows"] for query in queries)
    lags = [query["lag"] for query in queries if query["lag"] is not None]
    said = f"{count(rows, 'row')} in {count(len(queries), 'query', 'queries')}"
    if lags:
        said += f", lag {sum(lags):,}"
    if status["dead_letters"]:
        said += f", {count(status['dead_letters'], 'record')} left out"
    return f"{said}; Ctrl-C stops."
