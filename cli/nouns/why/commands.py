"""`pk why`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated, Literal

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import (
    GROUP_BY_OPTION,
    Connection,
    Listing,
    PartitionsOfTopics,
    Watch,
)

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

WHY = Noun("why")


@WHY.command(
    "partition",
    "partitions",
    takes=(Listing, Watch, Connection),
    examples=("pk why partition orders/0", "pk why partition orders -f json"),
    shows="partition state verdict evidence:[{about what}] next:[str]",
    rows="partition state verdict next:[str]",
)
def partition(
    context: "Context",
    partition: Annotated[
        tuple[str, ...],
        Argument(
            "PARTITION",
            help="Partitions such as orders/0, or topics: those of its partitions that ail.",
            complete="partition",
        ),
    ],
) -> Running:
    """Why a partition is under-replicated, offline or below min.insync.replicas."""
    from pk.cli.nouns.why.partition import why_partition

    return why_partition(context, partition)


@WHY.command(
    "lag",
    "group",
    takes=(Listing, Watch, Connection),
    examples=("pk why lag billing", "pk why lag billing -t orders:3 --for 10"),
    shows="group state verdict lag:int evidence:[{about what}] next:[str]",
    rows="group state verdict next:[str]",
)
def lag(
    context: "Context",
    group: Annotated[
        str, Argument("GROUP", help="The group.", complete="group", named=GROUP_BY_OPTION)
    ],
    topics: PartitionsOfTopics = (),
    seconds: Annotated[
        float,
        Option(
            "--for",
            value="SECONDS",
            help="How long to look at what moves and what does not (default: 6; 0 for one look).",
        ),
    ] = 6.0,
) -> Running:
    """Why a group lags: stopped, stuck, rebalancing, idle members, skew, no commits."""
    from pk.cli.nouns.why.lag import why_lag

    return why_lag(context, group, topics, seconds)


@WHY.command(
    "config",
    "configs",
    takes=(Listing, Watch, Connection),
    examples=(
        "pk why config orders retention.ms",
        "pk why config --type broker 1 log.retention.ms",
    ),
    shows=(
        "resource state verdict key value source layers:[{layer key value wins:bool}] "
        "evidence:[{about what}] next:[str]"
    ),
    rows="resource state verdict next:[str]",
)
def config(
    context: "Context",
    name: Annotated[
        str,
        Argument("NAME", help="A topic; with --type, a broker's id or a group.", complete="topic"),
    ],
    key: Annotated[str, Argument("KEY", help="The config's key.", complete="config-key")],
    type: Annotated[
        Literal["topic", "broker", "group"],
        Option("--type", value="TYPE", help="What NAME is: topic (default), broker or group."),
    ] = "topic",
) -> Running:
    """Why a config has the value it has: the layer that won, and those beneath."""
    from pk.cli.nouns.why.config import why_config

    return why_config(context, type, name, key)
