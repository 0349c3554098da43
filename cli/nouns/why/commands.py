"""The commands of `pk why`, with their options."""

from typing import TYPE_CHECKING, Annotated, Literal

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import (
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
from pk.cli.command_line.parameters import Argument, Option
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
from pk.core.durations import Duration

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

WHY = Noun("why")


@WHY.command(
    "partition",
    "partitions",
    takes=(Listing, Watch, Connection),
    examples=("pk why partition orders/0", "pk why partition orders -f json"),
    shows=ExplainedPartition,
    rows=PartitionVerdict,
)
def partition(
    context: "Context",
    partition: Annotated[
        tuple[str, ...],
        Argument(
            "PARTITION",
            help="Partitions such as orders/0, or topics: their unhealthy partitions.",
            complete="partition",
        ),
    ],
) -> Running:
    """Explain why a partition is under-replicated, offline or below min.insync.replicas."""
    from pk.cli.nouns.why.partition import why_partition

    return why_partition(context, partition)


@WHY.command(
    "lag",
    "group",
    takes=(Listing, Watch, Connection),
    examples=("pk why lag billing", "pk why lag billing -t orders:3 --for 10s"),
    shows=ExplainedLag,
    rows=GroupVerdict,
    from_use=True,
)
def lag(
    context: "Context",
    group: GroupName,
    topics: PartitionsOfTopics = (),
    period: Annotated[
        Duration,
        Option(
            "--for",
            value="DURATION",
            help="How long to watch offsets move (default: 6s; 0: measure once).",
        ),
    ] = Duration(6000),
) -> Running:
    """Explain why a group lags: stopped, stuck, rebalancing, idle members, skew, no commits."""
    from pk.cli.nouns.why.lag import why_lag

    return why_lag(context, group, topics, period.s)


@WHY.command(
    "config",
    "configs",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk why config orders retention.ms",
        "pk why config --type broker 1 log.retention.ms",
    ),
    shows=ExplainedConfig,
    rows=ConfigVerdict,
)
def config(
    context: "Context",
    name: Annotated[
        str,
        Argument("NAME", help="A topic; with --type, a broker's id or a group.", complete="topic"),
    ],
    key: Annotated[str, Argument("KEY", help="The config key.", complete="config-key")],
    type: Annotated[
        Literal["topic", "broker", "group"],
        Option("--type", value="TYPE", help="What NAME is: topic (default), broker or group."),
    ] = "topic",
) -> Running:
    """Explain where a config's value comes from: the layer that wins, and those it overrides."""
    from pk.cli.nouns.why.config import why_config

    return why_config(context, type, name, key)


@WHY.command(
    "denied",
    "allowed",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk why denied User:alice write topic:orders",
        "pk why denied alice read group:billing --host 192.0.2.7",
    ),
    notes=(
        "Exits with 0 if it is allowed, with 1 if not. Super users and "
        "allow.everyone.if.no.acl.found are known to the brokers only."
    ),
    shows=ExplainedDenied,
    rows=DeniedVerdict,
)
def denied(
    context: "Context",
    principal: AskingPrincipal,
    operation: AskedOperation,
    resource: AskedResource,
    host: AskingHost = None,
) -> Running:
    """Explain which ACL allows or denies something, or which is missing, and how to add it."""
    from pk.cli.nouns.why.denied import why_denied

    return why_denied(context, principal, operation, resource, host)
