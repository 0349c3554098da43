"""Options of `pk spark pipeline`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.on_spark import OnCluster
from pk.cli.options.option_sets import TOPIC_BY_OPTION, stop_timeout_option
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count
from pk.core.durations import Duration

_File = Annotated[str, Argument("FILE", help="The pipeline's file.", complete="file")]
_Cores = Annotated[
    int | None,
    Option(
        "--cores",
        value="N",
        parser=count,
        help="The number of parallel tasks (default: the cores this process may use).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class OneFile:
    """Options of `pk spark pipeline check`."""

    file: _File
    cores: _Cores = None


@dataclass(frozen=True, kw_only=True)
class RunPipeline(OnCluster):
    """Options of `pk spark pipeline run`."""

    file: _File
    once: Annotated[bool, Option("--once", help="Stop at the current end of the sources.")] = False
    restart: Annotated[
        bool,
        Option(
            "--restart", help="Start again after failures that may pass, such as a lost broker."
        ),
    ] = False
    cores: _Cores = None
    metrics_listener: Annotated[
        str | None,
        Option(
            "--metrics-listener",
            value="HOST:PORT",
            help="Serve metrics for Prometheus, and whether the pipeline runs.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InitPipeline:
    """Options of `pk spark pipeline init`."""

    file: _File
    topic: Annotated[str | None, TOPIC_BY_OPTION] = None
    overwrite: Annotated[bool, Option("--overwrite", help="Replace FILE if it exists.")] = False


@dataclass(frozen=True, kw_only=True)
class ExportPipeline:
    """Options of `pk spark pipeline export`."""

    file: _File
    declarative: Annotated[
        bool, Option("--declarative", help="Write a project for Spark's declarative pipelines.")
    ] = False
    to: Annotated[
        str | None,
        Option("--to", value="DIR", help="The project's directory.", complete="directory"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Files:
    """Options of `pk spark pipeline status`."""

    files: Annotated[
        tuple[str, ...], Argument("FILE", help="The pipelines' files.", complete="file")
    ]
    partitions: Annotated[
        bool, Option("--partitions", help="Show offset and lag of each partition instead.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class StopPipeline:
    """Options of `pk spark pipeline stop`."""

    file: _File
    timeout: Annotated[Duration, stop_timeout_option("5m")] = Duration(5 * 60_000)
