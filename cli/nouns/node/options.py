"""Options of the larger commands of `pk node`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.option_sets import stop_timeout_option
from pk.cli.options.parameters import Argument, Option
from pk.cli.up.options import BrokerProperties, PropertiesFile
from pk.core.durations import Duration

NodeOrNone = Annotated[
    int | None,
    Argument(
        "NODE",
        help="A node of a cluster started by `pk up --brokers N`; 0 is its controller.",
        complete="node",
    ),
]

DataDirectory = Annotated[
    str | None, Option("--data", value="DIR", help="The data directory.", complete="directory")
]

StopTimeout = Annotated[Duration, stop_timeout_option("60s")]
TIMEOUT = Duration(60_000)


@dataclass(frozen=True, kw_only=True)
class StartNode:
    """Options of `pk node start`."""

    node: NodeOrNone = None
    config_file: PropertiesFile = None
    properties: BrokerProperties = ()
    data: DataDirectory = None
    timeout: StopTimeout = TIMEOUT
    port: Annotated[
        int | None,
        Option("--port", value="PORT", help="The port to listen on; 0 picks a free one."),
    ] = None
    detach: Annotated[
        bool, Option("--detach", help="Run in the background; writes DIR/pk.pid and DIR/pk.log.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class StopNode:
    """Options of `pk node stop`."""

    node: NodeOrNone = None
    config_file: PropertiesFile = None
    properties: BrokerProperties = ()
    data: DataDirectory = None
    timeout: Annotated[Duration, stop_timeout_option("30s")] = Duration(30_000)
