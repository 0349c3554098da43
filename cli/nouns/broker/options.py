"""What the commands of `pk broker` take: the options of those that have many."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Argument, Option
from pk.cli.command_line.values import Pair, config_pair

NodeOrNone = Annotated[
    int | None,
    Argument(
        "NODE",
        help="A node of a running cluster of `pk up --brokers N`; 0 is its controller.",
        complete="node",
    ),
]

PropertiesFile = Annotated[
    str | None,
    Option("--config-file", value="FILE", help="Kafka's server.properties.", complete="file"),
]

BrokerProperties = Annotated[
    tuple[Pair, ...],
    Option(
        "-X",
        value="KEY=VALUE",
        parser=config_pair,
        help="A config key of the broker, by Kafka's name; may be given again.",
        complete="broker-config",
    ),
]

DataDirectory = Annotated[
    str | None, Option("--data", value="DIR", help="Where the data lies.", complete="directory")
]

TimeoutSeconds = Annotated[
    float, Option("--timeout-s", value="S", help="How long to wait until it is done (default: 60).")
]


@dataclass(frozen=True, kw_only=True)
class StartBroker:
    """What `pk broker start` takes."""

    node: NodeOrNone = None
    config_file: PropertiesFile = None
    properties: BrokerProperties = ()
    data: DataDirectory = None
    timeout_s: TimeoutSeconds = 60.0
    port: Annotated[
        int | None, Option("--port", value="PORT", help="The port to listen on; 0 is any free one.")
    ] = None
    detach: Annotated[
        bool, Option("--detach", help="Go on in the background; writes DIR/pk.pid and DIR/pk.log.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class StopBroker:
    """What `pk broker stop` takes."""

    node: NodeOrNone = None
    config_file: PropertiesFile = None
    properties: BrokerProperties = ()
    data: DataDirectory = None
    timeout_s: Annotated[
        float, Option("--timeout-s", value="S", help="How long to wait for its end (default: 30).")
    ] = 30.0
