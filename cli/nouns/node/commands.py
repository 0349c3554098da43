"""The commands of `pk node`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.node.options import (
    TIMEOUT,
    DataDirectory,
    StartNode,
    StopNode,
    StopTimeout,
)
from pk.cli.nouns.node.rows import DetachedBrokerRow, NodeRow
from pk.cli.options.option_sets import Debug, Format, Yes
from pk.cli.options.parameters import Argument, Option
from pk.cli.up.options import BrokerProperties, PropertiesFile

NODE = Noun("node")


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


NODE.command(
    "start",
    help="Start a broker, in the foreground unless --detach is given.",
    worker="node:start",
    options=StartNode,
    takes=(Debug,),
    shell_needs="detach",
    examples=(
        "pk node start --config-file server.properties",
        "pk node start --data /var/lib/pk -X node.id=1 --detach",
        "pk node start 2",
    ),
    blocking=True,
)


NODE.command(
    "stop",
    help="Drain and stop a detached broker, or a node of a local cluster.",
    worker="node:stop",
    options=StopNode,
    takes=(Yes, Debug),
    examples=("pk node stop --data /var/lib/pk", "pk node stop 2"),
    blocking=True,
)


@dataclass(frozen=True, kw_only=True)
class NodeStatus:
    """Arguments of `pk node status`."""

    config_file: PropertiesFile = None
    properties: BrokerProperties = ()
    data: DataDirectory = None


NODE.command(
    "status",
    help="Show whether a detached broker runs; without options, the nodes of the running cluster.",
    worker="node:status",
    arguments=NodeStatus,
    takes=(Format, Debug),
    examples=("pk node status --data /var/lib/pk", "pk node status"),
    shows=(DetachedBrokerRow, NodeRow),
    blocking=True,
    repeatable=True,
)


@dataclass(frozen=True, kw_only=True)
class KillNode:
    """Arguments of `pk node kill`."""

    node: NodeNumber
    data: ClusterDirectory = None
    timeout: StopTimeout = TIMEOUT


NODE.command(
    "kill",
    help="Kill a node of a local cluster (SIGKILL).",
    worker="node:kill",
    arguments=KillNode,
    takes=(Yes, Debug),
    examples=("pk node kill 2",),
    blocking=True,
)


@dataclass(frozen=True, kw_only=True)
class RestartNode:
    """Arguments of `pk node restart`."""

    node: NodeNumber
    data: ClusterDirectory = None
    timeout: StopTimeout = TIMEOUT


NODE.command(
    "restart",
    help="Restart a node of a local cluster, or start it if it does not run.",
    worker="node:restart",
    arguments=RestartNode,
    takes=(Yes, Debug),
    examples=("pk node restart 2",),
    blocking=True,
)


@dataclass(frozen=True, kw_only=True)
class PauseNode:
    """Arguments of `pk node pause`."""

    node: NodeNumber
    data: ClusterDirectory = None
    timeout: StopTimeout = TIMEOUT


NODE.command(
    "pause",
    help="Pause a node of a local cluster (SIGSTOP): it stays connected but does not respond.",
    worker="node:pause",
    arguments=PauseNode,
    takes=(Yes, Debug),
    examples=("pk node pause 2",),
    blocking=True,
)


@dataclass(frozen=True, kw_only=True)
class ResumeNode:
    """Arguments of `pk node resume`."""

    node: NodeNumber
    data: ClusterDirectory = None
    timeout: StopTimeout = TIMEOUT


NODE.command(
    "resume",
    help="Resume a paused node.",
    worker="node:resume",
    arguments=ResumeNode,
    takes=(Yes, Debug),
    examples=("pk node resume 2",),
    blocking=True,
)
