"""The commands of `pk broker`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Noun
from pk.cli.command_line.option_sets import Debug, Format, Yes
from pk.cli.command_line.parameters import Argument, Option
from pk.cli.nouns.broker.options import (
    TIMEOUT,
    DataDirectory,
    StartBroker,
    StopBroker,
    StopTimeout,
)
from pk.cli.nouns.broker.rows import DetachedBrokerRow, NodeRow
from pk.cli.up.options import BrokerProperties, PropertiesFile

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

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


@BROKER.command(
    "start",
    takes=(Debug,),
    examples=(
        "pk broker start --config-file server.properties",
        "pk broker start --data /var/lib/pk -X node.id=1 --detach",
        "pk broker start 2",
    ),
    blocking=True,
)
def start(context: "Context", options: StartBroker) -> int | None:
    """Start a broker, in the foreground unless --detach is given."""
    from pk.cli.nouns.broker.broker import start

    return start(context, options)


@BROKER.command(
    "stop",
    takes=(Yes, Debug),
    examples=("pk broker stop --data /var/lib/pk", "pk broker stop 2"),
    blocking=True,
)
def stop(context: "Context", options: StopBroker) -> int | None:
    """Drain and stop a detached broker, or a node of a local cluster."""
    from pk.cli.nouns.broker.broker import stop

    return stop(context, options)


@BROKER.command(
    "status",
    takes=(Format, Debug),
    examples=("pk broker status --data /var/lib/pk", "pk broker status"),
    shows=(DetachedBrokerRow, NodeRow),
    blocking=True,
    repeatable=True,
)
def status(
    context: "Context",
    config_file: PropertiesFile = None,
    properties: BrokerProperties = (),
    data: DataDirectory = None,
) -> int | None:
    """Show whether a detached broker runs; without options, the nodes of the running cluster."""
    from pk.cli.nouns.broker.broker import status

    return status(context, config_file, properties, data)


@BROKER.command("kill", takes=(Yes, Debug), examples=("pk broker kill 2",), blocking=True)
def kill(
    context: "Context",
    node: NodeNumber,
    data: ClusterDirectory = None,
    timeout: StopTimeout = TIMEOUT,
) -> int | None:
    """Kill a node of a local cluster (SIGKILL)."""
    from pk.cli.nouns.broker.broker import kill

    return kill(context, node, data, timeout.s)


@BROKER.command("restart", takes=(Yes, Debug), examples=("pk broker restart 2",), blocking=True)
def restart(
    context: "Context",
    node: NodeNumber,
    data: ClusterDirectory = None,
    timeout: StopTimeout = TIMEOUT,
) -> int | None:
    """Restart a node of a local cluster, or start it if it does not run."""
    from pk.cli.nouns.broker.broker import restart

    return restart(context, node, data, timeout.s)


@BROKER.command("pause", takes=(Yes, Debug), examples=("pk broker pause 2",), blocking=True)
def pause(
    context: "Context",
    node: NodeNumber,
    data: ClusterDirectory = None,
    timeout: StopTimeout = TIMEOUT,
) -> int | None:
    """Pause a node of a local cluster (SIGSTOP): it stays connected but does not respond."""
    from pk.cli.nouns.broker.broker import pause

    return pause(context, node, data, timeout.s)


@BROKER.command("resume", takes=(Yes, Debug), examples=("pk broker resume 2",), blocking=True)
def resume(
    context: "Context",
    node: NodeNumber,
    data: ClusterDirectory = None,
    timeout: StopTimeout = TIMEOUT,
) -> int | None:
    """Resume a paused node."""
    from pk.cli.nouns.broker.broker import resume

    return resume(context, node, data, timeout.s)
