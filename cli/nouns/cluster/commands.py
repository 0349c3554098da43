"""The commands of `pk cluster`, with their options."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.cluster.broker_rows import BrokerOfCluster
from pk.cli.command_line.declare import Noun
from pk.cli.nouns.cluster.rows import (
    CheckRow,
    DescribedCluster,
    FeatureChange,
    FeatureRow,
    HealthOfCluster,
    NodeRow,
    QuorumOfCluster,
)
from pk.cli.options.option_sets import Change, Connection, Listing, Watch
from pk.cli.options.parameters import Argument, Option

CLUSTER = Noun("cluster")


CLUSTER.command(
    "describe",
    help="Show the cluster's id, brokers, controller, topics, partitions and health.",
    worker="cluster:describe",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster describe",),
    shows=DescribedCluster,
    rows=BrokerOfCluster,
)


CLUSTER.command(
    "health",
    help="Show what is wrong, and why; exit with 1 if anything is.",
    worker="health:health",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster health", "pk cluster health -f json || alert"),
    shows=HealthOfCluster,
    rows=CheckRow,
)


CLUSTER.command(
    "quorum",
    help="Show the active controller, and how far each node has replicated the metadata log.",
    worker="cluster:quorum",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster quorum",),
    shows=QuorumOfCluster,
    rows=NodeRow,
)


@dataclass(frozen=True, kw_only=True)
class Features:
    """Arguments of `pk cluster features`."""

    action: Annotated[
        str | None,
        Argument(
            "ACTION",
            help="list (default), upgrade, downgrade or disable.",
            complete="feature-action",
        ),
    ] = None
    words: Annotated[
        tuple[str, ...],
        Argument(
            "FEATURE",
            help="NAME=LEVEL, or NAME for the highest level all brokers support.",
            complete="feature",
        ),
    ] = ()
    unsafe: Annotated[bool, Option("--unsafe", help="Downgrade even if metadata is lost.")] = False


CLUSTER.command(
    "features",
    help="List, upgrade and downgrade features.",
    worker="features:features",
    arguments=Features,
    takes=(Change, Listing, Connection),
    examples=(
        "pk cluster features",
        "pk cluster features upgrade eligible.leader.replicas.version --dry-run",
        "pk cluster features list -f json",
    ),
    shows={"": FeatureRow, "action=upgrade|downgrade|disable": FeatureChange},
)
