"""The commands of `pk broker`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.broker.options import (
    TIMEOUT,
    DataDirectory,
    StartBroker,
    StopBroker,
    StopTimeout,
)
from pk.cli.nouns.broker.rows import DetachedBrokerRow, NodeRow
from pk.cli.options.option_sets import Debug, Format, Yes
from pk.cli.options.parameters import Argument, Option
from pk.cli.up.options import BrokerProperties, PropertiesFile

BROKER = Noun("broker")


NodeNumber = Annotated[
    int,
    Argument("NODE", help="A node of a `pk up` cluster; 0 is its controller.", complete="node"),
]

ClusterDirectory = Annotated[
    str | None,
    Option(
        "--data",
        value="DIR",
        help="The cluster's directory (default: that of the only running cluster).",
        complete="directory",
    ),
]


BROKER.command(
    "start",
    help="Start a broker, in the foreground unless --detach is given.",
    worker="broker:start",
    options=StartBroker,
    takes=(Debug,),
    shell_needs="detach",
    examples=(
        "pk broker start --config-file server.properties",
        "pk broker start --data /var/lib/pk -X node.id=1 --detach",
        "pk broker start 2",
    ),
    blocking=True,
)


BROKER.command(
    "stop",
    help="Drain and stop a detached broker, or a node of a local cluster.",
    worker="broker:stop",
    options=StopBroker,
    takes=(Yes, Debug),
    examples=("pk broker stop --data /var/lib/pk", "pk broker stop 2"),
    blocking=True,
)


@dataclass(frozen=True, kw_only=True)
class BrokerStatus:
    """Arguments of `pk broker status`."""

    config_file: PropertiesFile = None
    properties: BrokerProperties = ()
    data: DataDirectory = None


BROKER.command(
    "status",
    help="Show whether a detached broker runs; without options, the nodes of the running cluster.",
    worker="broker:status",
    arguments=BrokerStatus,
    takes=(Format, Debug),
    examples=("pk broker status --data /var/lib/pk", "pk broker status"),
    shows=(DetachedBrokerRow, NodeRow),
    blocking=True,
    repeatable=True,
)


@dataclass(frozen=True, kw_only=True)
class KillNode:
    """Arguments of `pk broker kill`."""

    node: NodeNumber
    data: ClusterDirectory = None
    timeout: StopTimeout = TIMEOUT


BROKER.command(
    "kill",
    help="Kill a node of a local cluster (SIGKILL).",
    worker="broker:kill",
    arguments=KillNode,
    takes=(Yes, Debug),
    examples=("pk broker kill 2",),
    blocking=True,
)


@dataclass(frozen=True, kw_only=True)
class RestartNode:
    """Arguments of `pk broker restart`."""

    node: NodeNumber
    data: ClusterDirectory = None
    timeout: StopTimeout = TIMEOUT


BROKER.command(
    "restart",
    help="Restart a node of a local cluster, or start it if it does not run.",
    worker="broker:restart",
    arguments=RestartNode,
    takes=(Yes, Debug),
    examples=("pk broker restart 2",),
    blocking=True,
)


@dataclass(frozen=True, kw_only=True)
class PauseNode:
    """Arguments of `pk broker pause`."""

    node: NodeNumber
    data: ClusterDirectory = None
    timeout: StopTimeout = TIMEOUT


BROKER.command(
    "pause",
    help="Pause a node of a local cluster (SIGSTOP): it stays connected but does not respond.",
    worker="broker:pause",
    arguments=PauseNode,
    takes=(Yes, Debug),
    examples=("pk broker pause 2",),
    blocking=True,
)


@dataclass(frozen=True, kw_only=True)
class ResumeNode:
    """Arguments of `pk broker resume`."""

    node: NodeNumber
    data: ClusterDirectory = None
    timeout: StopTimeout = TIMEOUT


BROKER.command(
    "resume",
    help="Resume a paused node.",
    worker="broker:resume",
    arguments=ResumeNode,
    takes=(Yes, Debug),
    examples=("pk broker resume 2",),
    blocking=True,
)
