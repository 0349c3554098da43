"""The commands of `pk brokers`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.cluster.broker_rows import BrokerRow
from pk.cli.command_line.declare import Noun
from pk.cli.nouns.brokers.rows import DescribedBroker, LogDirRow, ReplicaRow
from pk.cli.options.option_sets import Connection, Listing, Watch
from pk.cli.options.parameters import Argument, Option

BROKERS = Noun("brokers")

BrokerIds = Annotated[
    tuple[str, ...], Argument("ID", help="The brokers (default: all).", complete="broker")
]


BROKERS.command(
    "list",
    "ls",
    help="List brokers: what they hold, and which one is the controller.",
    worker="brokers:list_brokers",
    takes=(Listing, Watch, Connection),
    examples=("pk brokers list", "pk brokers list -f wide --sort -log_bytes"),
    shows=BrokerRow,
)


@dataclass(frozen=True, kw_only=True)
class DescribeBrokers:
    """Arguments of `pk brokers describe`."""

    ids: BrokerIds = ()


BROKERS.command(
    "describe",
    help="Show the address, rack, features, log directories and configs of brokers.",
    worker="brokers:describe",
    arguments=DescribeBrokers,
    takes=(Listing, Watch, Connection),
    examples=("pk brokers describe 2",),
    shows=DescribedBroker,
    rows=BrokerRow,
)


@dataclass(frozen=True, kw_only=True)
class LogDirs:
    """Arguments of `pk brokers logdirs`."""

    ids: BrokerIds = ()
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
    ] = ()
    replicas: Annotated[bool, Option("--replicas", help="Show each replica instead of totals.")] = (
        False
    )


BROKERS.command(
    "logdirs",
    "log-dirs",
    help="Show log directories: their disk space, and what they contain.",
    worker="brokers:logdirs",
    arguments=LogDirs,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk brokers logdirs",
        "pk brokers logdirs 1 --replicas --sort -bytes --limit 20",
        "pk brokers logdirs -t orders",
    ),
    shows={"": LogDirRow, "replicas": ReplicaRow, "topics": ReplicaRow},
)
