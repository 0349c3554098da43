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
    RestoredRow,
)
from pk.cli.options.option_sets import (
    Change,
    Connection,
    Listing,
    Watch,
    replication_factor_option,
)
from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import Pair, config_pair

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


@dataclass(frozen=True, kw_only=True)
class Restore:
    """Options of `pk cluster restore`."""

    source: Annotated[
        str | None,
        Option(
            "--from",
            value="URL",
            help="The store, which must be the brokers' pk.remote.url (default: that one).",
        ),
    ] = None
    topics: Annotated[
        tuple[str, ...],
        Option("-t", "--topic", value="TOPIC", help="Only these topics; repeatable."),
    ] = ()
    cluster_ids: Annotated[
        tuple[str, ...],
        Option(
            "--cluster-id",
            value="ID",
            help="Only topics of this lost cluster, if the store has several; repeatable.",
        ),
    ] = ()
    replication_factor: Annotated[
        int | None,
        replication_factor_option("The number of replicas (default: as in the lost cluster)."),
    ] = None
    config: Annotated[
        tuple[Pair, ...],
        Option(
            "-c",
            "--config",
            value="KEY=VALUE",
            parser=config_pair,
            help="A topic config, overriding that of the lost cluster; repeatable.",
        ),
    ] = ()
    verify: Annotated[
        bool, Option("--verify", help="Read every record first, and leave out damaged segments.")
    ] = False
    remote_configs: Annotated[
        tuple[Pair, ...],
        Option(
            "--remote-config",
            value="KEY=VALUE",
            parser=config_pair,
            help="A config pk.remote.*, if the environment variables of the store are not enough; "
            "repeatable.",
        ),
    ] = ()


CLUSTER.command(
    "restore",
    help="Take over the topics of a lost cluster from remote storage.",
    worker="restore:restore",
    options=Restore,
    takes=(Change, Listing, Connection),
    examples=(
        "pk cluster restore --from s3://my-bucket/kafka --dry-run",
        "pk cluster restore -t orders -c retention.ms=-1 -y",
    ),
    notes=(
        "Shows the first and last offset of each partition in the store. Reads the store from "
        "here; the brokers must "
        "use the same one."
    ),
    shows=RestoredRow,
)
