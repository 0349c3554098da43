"""Reads the file of a pipeline, and runs Spark's work for it. Errors are in the words of the
command line."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.phrases import count
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.cli.runtime.spark_errors import as_sentence
from pk.net.client.config import ConsumerConfig
from pk.spark.errors import OptionError, SparkError
from pk.spark.pipeline.definition import Pipeline, WrongPipeline, parse_pipeline, show_problem

if TYPE_CHECKING:
    from pk.spark.pipeline.run import RunOptions

T = TypeVar("T")


def read_pipeline(context: Context, file: str) -> Pipeline:
    """Read the pipeline of a file. Raises CommandError after it has shown every problem."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as e:
        raise Unusable(f"{file} cannot be read: {e.strerror}.") from e
    except UnicodeDecodeError:
        raise Unusable(f"{file} is not UTF-8 text.") from None
    return explained(context, lambda: parse_pipeline(text, file, os.environ))


def explained(context: Context, work: Callable[[], T]) -> T:
    """Return the result of `work`. Its errors become CommandErrors; problems of the file are shown
    with their positions."""
    from pk.spark.pipeline.status import AlreadyRunning

    try:
        return work()
    except WrongPipeline as e:
        for problem in e.problems:
            context.say(show_problem(e.file, problem))
        raise CommandError(f"{e.file} has {count(len(e.problems), 'problem')}.") from e
    except AlreadyRunning as e:
        raise Refused(f"{as_sentence(e)} `pk spark pipeline stop FILE` stops it.") from e
    except OptionError as e:
        raise Unusable(as_sentence(e)) from e
    except SparkError as e:
        raise CommandError(as_sentence(e)) from e


def run_options(context: Context, pipeline: Pipeline, cores: int | None) -> "RunOptions":
    """The options with which a pipeline runs: -b and -X override its file, which overrides the
    profile."""
    from pk.spark.pipeline.run import RunOptions
    from pk.spark.session.cores import cores as usable_cores

    settings = context.settings
    given = client_config(ConsumerConfig, settings, {})
    client = {name: str(value) for name, value in given.items()}
    for name, value in pipeline.kafka.items():
        if name not in settings.given:
            client[name] = value
    in_file = client.pop("bootstrap.servers", None)
    bootstrap = settings.bootstrap
    if in_file is not None and not context.given("bootstrap_server"):
        bootstrap = in_file
    kafka = {f"kafka.{name}": value for name, value in client.items()}
    return RunOptions(
        {**kafka, "kafka.bootstrap.servers": bootstrap}, cores=cores or usable_cores()
    )
