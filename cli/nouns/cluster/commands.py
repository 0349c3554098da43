"""The commands of `pk cluster`, with their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.cluster.broker_rows import BrokerOfCluster
from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
from pk.cli.command_line.parameters import Argument, Option
from pk.cli.nouns.cluster.rows import (
    CheckRow,
    DescribedCluster,
    FeatureChange,
    FeatureRow,
    HealthOfCluster,
    NodeRow,
    QuorumOfCluster,
)

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

CLUSTER = Noun("cluster")


@CLUSTER.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster describe",),
    shows=DescribedCluster,
    rows=BrokerOfCluster,
)
def describe(context: "Context") -> Running:
    """Show the cluster's id, brokers, controller, topics, partitions and health."""
    from pk.cli.nouns.cluster.cluster import describe

    return describe(context)


@CLUSTER.command(
    "health",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster health", "pk cluster health -f json || alert"),
    shows=HealthOfCluster,
    rows=CheckRow,
)
def health(context: "Context") -> Running:
    """Show what is wrong, and why; exit code 1 if anything is."""
    from pk.cli.nouns.cluster.health import health

    return health(context)


@CLUSTER.command(
    "quorum",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster quorum",),
    shows=QuorumOfCluster,
    rows=NodeRow,
)
def quorum(context: "Context") -> Running:
    """Show the active controller, and how far each node has replicated the metadata log."""
    from pk.cli.nouns.cluster.cluster import quorum

    return quorum(context)


@CLUSTER.command(
    "features",
    takes=(Change, Listing, Connection),
    examples=(
        "pk cluster features",
        "pk cluster features upgrade eligible.leader.replicas.version --dry-run",
        "pk cluster features list -f json",
    ),
    shows={"": FeatureRow, "action=upgrade|downgrade|disable": FeatureChange},
)
def features(
    context: "Context",
    action: Annotated[
        str | None,
        Argument(
            "ACTION",
            help="list (default), upgrade, downgrade or disable.",
            complete="feature-action",
        ),
    ] = None,
    feature: Annotated[
        tuple[str, ...],
        Argument(
            "FEATURE",
            help="NAME=LEVEL, or NAME for the highest level all brokers support.",
            complete="feature",
        ),
    ] = (),
    unsafe: Annotated[bool, Option("--unsafe", help="Downgrade even if metadata is lost.")] = False,
) -> Running:
    """List, upgrade and downgrade features."""
    from pk.cli.nouns.cluster.features import features

    return features(context, action, feature, unsafe=unsafe)
