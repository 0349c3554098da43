"""`pk brokers`: its commands and their options."""

from typing import TYPE_CHECKING, Annotated

from pk.cli.command_line.declare import Argument, Noun, Option, Running
from pk.cli.command_line.option_sets import Connection, Listing, Watch

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
    shows=(
        "broker:int host? port:int? rack? controller:bool state leaders:int replicas:int "
        "log_bytes:int? fenced:bool? supports? metadata_offset:int? usable_bytes:int?"
    ),
)
def list_brokers(context: "Context") -> Running:
    """The brokers, what they hold, and which one is the controller."""
    from pk.cli.nouns.brokers.brokers import list_brokers

    return list_brokers(context)


@BROKERS.command(
    "describe",
    takes=(Listing, Watch, Connection),
    examples=("pk brokers describe 2",),
    shows=(
        "broker:int host? port:int? rack? controller:bool state leaders:int replicas:int "
        "log_bytes:int? fenced:bool? supports? metadata_offset:int? usable_bytes:int? "
        "features:[{feature finalized:int min_supported:int max_supported:int}] "
        "log_dirs:[{broker:int path state replicas:int bytes:int total_bytes:int? "
        "usable_bytes:int? used_percent:int? arriving:int}] configs:[{config value? source}]"
    ),
    rows=(
        "broker:int host? port:int? rack? controller:bool state leaders:int replicas:int "
        "log_bytes:int? fenced:bool? supports? metadata_offset:int? usable_bytes:int?"
    ),
)
def describe(context: "Context", id: BrokerIds = ()) -> Running:
    """Address, rack, features, log directories and own configs of brokers."""
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
    shows={
        "": (
            "broker:int path state replicas:int bytes:int total_bytes:int? usable_bytes:int? "
            "used_percent:int? arriving:int"
        ),
        "replicas": "broker:int path topic partition:int bytes:int offset_lag:int arriving:bool",
        "topics": "broker:int path topic partition:int bytes:int offset_lag:int arriving:bool",
    },
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
            help="Only replicas of these topics, one by one.",
            complete="topic",
        ),
    ] = (),
    replicas: Annotated[bool, Option("--replicas", help="Each replica instead of totals.")] = False,
) -> Running:
    """Log directories: room on their disks, and what lies in them."""
    from pk.cli.nouns.brokers.brokers import logdirs

    return logdirs(context, id, topics, replicas=replicas)
