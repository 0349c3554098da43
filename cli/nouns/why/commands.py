"""The commands of `pk why`, with their options."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.why.rows import (
    ConfigVerdict,
    DeniedVerdict,
    ExplainedConfig,
    ExplainedDenied,
    ExplainedLag,
    ExplainedPartition,
    GroupVerdict,
    PartitionVerdict,
)
from pk.cli.options.option_sets import (
    AskedOperation,
    AskedResource,
    AskingHost,
    AskingPrincipal,
    Connection,
    GroupName,
    Listing,
    PartitionsOfTopics,
    Watch,
)
from pk.cli.options.parameters import Argument, Option
from pk.core.durations import Duration

WHY = Noun("why")


@dataclass(frozen=True, kw_only=True)
class WhyPartition:
    """Arguments of `pk why partition`."""

    partition: Annotated[
        tuple[str, ...],
        Argument(
            "PARTITION",
            help="Partitions such as orders/0, or topics: their unhealthy partitions.",
            complete="partition",
        ),
    ]


WHY.command(
    "partition",
    "partitions",
    help="Explain why a partition is under-replicated, offline or below min.insync.replicas.",
    worker="partition:why_partition",
    arguments=WhyPartition,
    takes=(Listing, Watch, Connection),
    examples=("pk why partition orders/0", "pk why partition orders -f json"),
    shows=ExplainedPartition,
    rows=PartitionVerdict,
)


@dataclass(frozen=True, kw_only=True)
class WhyLag:
    """Arguments of `pk why lag`."""

    group: GroupName
    topics: PartitionsOfTopics = ()
    period: Annotated[
        Duration,
        Option(
            "--for",
            value="DURATION",
            help="How long to watch offsets move (default: 6s; 0: measure once).",
        ),
    ] = Duration(6000)


WHY.command(
    "lag",
    "group",
    help="Explain why a group lags: stopped, stuck, rebalancing, idle members, skew, no commits.",
    worker="lag:why_lag",
    arguments=WhyLag,
    takes=(Listing, Watch, Connection),
    examples=("pk why lag billing", "pk why lag billing -t orders:3 --for 10s"),
    shows=ExplainedLag,
    rows=GroupVerdict,
    from_use=True,
    instead_of_use=("topics",),
)


@dataclass(frozen=True, kw_only=True)
class WhyConfig:
    """Arguments of `pk why config`."""

    name: Annotated[
        str,
        Argument("NAME", help="A topic; with --type, a broker's id or a group.", complete="topic"),
    ]
    key: Annotated[str, Argument("KEY", help="The config key.", complete="config-key")]
    type: Annotated[
        Literal["topic", "broker", "group"],
        Option("--type", value="TYPE", help="What NAME is: topic (default), broker or group."),
    ] = "topic"


WHY.command(
    "config",
    "configs",
    help="Explain where a config's value comes from: the layer that wins, and those it overrides.",
    worker="config:why_config",
    arguments=WhyConfig,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk why config orders retention.ms",
        "pk why config --type broker 1 log.retention.ms",
    ),
    shows=ExplainedConfig,
    rows=ConfigVerdict,
)


@dataclass(frozen=True, kw_only=True)
class WhyDenied:
    """Arguments of `pk why denied`."""

    principal: AskingPrincipal
    operation: AskedOperation
    resource: AskedResource
    host: AskingHost = None


WHY.command(
    "denied",
    "allowed",
    help="Explain which ACL allows or denies something, or which is missing, and how to add it.",
    worker="denied:why_denied",
    arguments=WhyDenied,
    takes=(Listing, Watch, Connection),
    examples=(
        "pk why denied User:alice write topic:orders",
        "pk why denied alice read group:billing --host 192.0.2.7",
    ),
    notes=(
        "Exits with 0 if it is allowed, with 1 if not. Only the brokers know their super users "
        "and allow.everyone.if.no.acl.found."
    ),
    shows=ExplainedDenied,
    rows=DeniedVerdict,
)
