"""The commands of `pk brokers`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.cluster.broker_rows import BrokerRow
from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Connection, Listing, Watch
from pk.cli.command_line.parameters import Argument, Option
from pk.cli.nouns.brokers.rows import DescribedBroker, LogDirRow, ReplicaRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

BROKERS = Noun("brokers")

BrokerIds = Annotated[
    tuple[str, ...], Argument("ID", help="The brokers (default: all).", complete="broker")
]


@BROKERS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=("pk brokers list", "pk brokers list -f wide --sort -log_bytes"),
    shows=BrokerRow,
)
def list_brokers(context: "Context") -> Running:
    """List brokers: what they hold, and which one is the controller."""
    from pk.cli.nouns.brokers.brokers import list_brokers

    return list_brokers(context)


@BROKERS.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=("pk brokers describe 2",),
    shows=DescribedBroker,
    rows=BrokerRow,
)
def describe(context: "Context", id: BrokerIds = ()) -> Running:
    """Show address, rack, features, log directories and own configs of brokers."""
    from pk.cli.nouns.brokers.brokers import describe

    return describe(context, id)


@BROKERS.command(
    "logdirs",
    "log-dirs",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk brokers logdirs",
        "pk brokers logdirs 1 --replicas --sort -bytes --limit 20",
        "pk brokers logdirs -t orders",
    ),
    shows={"": LogDirRow, "replicas": ReplicaRow, "topics": ReplicaRow},
)
def logdirs(
    context: "Context",
    id: BrokerIds = (),
    topics: Annotated[
        tuple[str, ...],
        Option(
            "-t",
            "--topic",
            "--topic-list",
            value="TOPIC",
            separated=True,
            help="Only replicas of these topics, each on a row.",
            complete="topic",
        ),
    ] = (),
    replicas: Annotated[
        bool, Option("--replicas", help="Show each replica instead of totals.")
    ] = False,
) -> Running:
    """Show log directories: their disk space, and what they contain."""
    from pk.cli.nouns.brokers.brokers import logdirs

    return logdirs(context, id, topics, replicas=replicas)
