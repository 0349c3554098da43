"""The options of `pk up`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Option
from pk.cli.command_line.values import Pair, config_pair


@dataclass(frozen=True, kw_only=True)
class Up:
    """What `pk up` takes."""

    brokers: Annotated[
        int | None,
        Option(
            "--brokers",
            value="N",
            help=(
                "How many brokers, a process and a directory each (default: 1, or as many as --data "
                "has)."
            ),
        ),
    ] = None
    data: Annotated[
        str | None,
        Option(
            "--data",
            value="DIR",
            help="Where the data lies (default: a temporary directory, removed at the end).",
            complete="directory",
        ),
    ] = None
    port: Annotated[
        int | None,
        Option(
            "--port",
            value="PORT",
            help=(
                "The port to listen on, of several brokers the first one's; 0 is any free one "
                "(default: 9092)."
            ),
        ),
    ] = None
    memory: Annotated[
        bool, Option("--memory", help="Keep everything in memory, nothing on disk.")
    ] = False
    store: Annotated[
        str | None,
        Option(
            "--store",
            value="STORE",
            help=(
                "Where the metadata lies: embedded, or zookeeper://HOST:PORT,.../PATH (default: "
                "embedded)."
            ),
        ),
    ] = None
    config_file: Annotated[
        str | None,
        Option("--config-file", value="FILE", help="Kafka's server.properties.", complete="file"),
    ] = None
    properties: Annotated[
        tuple[Pair, ...],
        Option(
            "-X",
            value="KEY=VALUE",
            parser=config_pair,
            help="A config key of the broker, by Kafka's name; may be given again.",
            complete="broker-config",
        ),
    ] = ()
