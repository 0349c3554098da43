"""The options that select the Spark cluster for the tasks of a command."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.parameters import Option
from pk.cli.options.values import Pair


@dataclass(frozen=True, kw_only=True)
class OnCluster:
    """The Spark cluster that runs the tasks of a driver in this process."""

    master: Annotated[
        str | None,
        Option(
            "--master",
            value="URL",
            help=("The Spark to run on: spark://HOST:PORT, yarn, k8s://… (default: a local one)."),
        ),
    ] = None
    conf: Annotated[
        tuple[Pair, ...],
        Option(
            "--conf",
            value="KEY=VALUE",
            help="A Spark config, such as spark.executor.memory=4g; repeatable.",
        ),
    ] = ()
    archives: Annotated[
        tuple[str, ...],
        Option(
            "--archives",
            value="FILE[#DIR]",
            help=(
                "An archive for the cluster's workers, such as `pk spark package` makes; "
                "repeatable."
            ),
            complete="file",
        ),
    ] = ()


@dataclass(frozen=True, kw_only=True)
class OnSpark(OnCluster):
    """The Spark cluster that runs the tasks, and possibly the driver."""

    remote: Annotated[
        str | None,
        Option(
            "--remote",
            value="URL",
            help="The Spark Connect server to run on instead: sc://HOST:PORT.",
        ),
    ] = None
