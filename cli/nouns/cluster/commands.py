"""`pk cluster`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

CLUSTER = Noun("cluster")


@CLUSTER.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster describe",),
    shows=(
        "cluster_id? controller_id:int? topics:int partitions:int under_replicated:int "
        "offline:int brokers:[{broker:int host? port:int? rack? controller:bool state "
        "leaders:int replicas:int fenced:bool?}]"
    ),
    rows=(
        "broker:int host? port:int? rack? controller:bool state leaders:int replicas:int "
        "fenced:bool?"
    ),
)
def describe(context: "Context") -> Running:
    """Its id, brokers, controller, topics, partitions and their health."""
    from pk.cli.nouns.cluster.cluster import describe

    return describe(context)


@CLUSTER.command(
    "health",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster health", "pk cluster health -f json || alert"),
    shows="healthy:bool problems:int warnings:int checks:[{check state what next?}]",
    rows="check state what next?",
)
def health(context: "Context") -> Running:
    """What is wrong, and why; exit code 1 when something is."""
    from pk.cli.nouns.cluster.health import health

    return health(context)


@CLUSTER.command(
    "quorum",
    takes=(Listing, Watch, Connection),
    examples=("pk cluster quorum",),
    shows=(
        "cluster_id? leader_id:int leader_epoch:int high_watermark:int lag_max:int? "
        "snapshot_offset:int? snapshot_age_ms:int? nodes:[{node:int role log_end_offset:int? "
        "lag:int? caught_up_ms:int? fetched_ms:int? applied_offset:int? endpoints:[str] "
        "directory_id?}]"
    ),
    rows=(
        "node:int role log_end_offset:int? lag:int? caught_up_ms:int? fetched_ms:int? "
        "applied_offset:int? endpoints:[str] directory_id?"
    ),
)
def quorum(context: "Context") -> Running:
    """Who is controller, and how far each node has followed the metadata log."""
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
    shows={
        "": "feature level:int name? min_supported:int? max_supported:int? epoch:int? note?",
        "action=upgrade|downgrade|disable": "feature from:int to:int result error?",
    },
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
            help="NAME=LEVEL, or NAME for the highest level that all brokers support.",
            complete="feature",
        ),
    ] = (),
    unsafe: Annotated[
        bool, Option("--unsafe", help="Downgrade even where metadata is lost by it.")
    ] = False,
) -> Running:
    """Features: list, upgrade, downgrade."""
    from pk.cli.nouns.cluster.features import features

    return features(context, action, feature, unsafe=unsafe)
