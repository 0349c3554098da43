"""The options of `pk test faults add`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count, signed
from pk.core.durations import Duration

Kind = Literal[
    "fail", "delay", "drop", "drop-answer", "disconnect", "move-leader", "rebalance", "set-clock"
]


@dataclass(frozen=True, kw_only=True)
class AddFault:
    """Options of `pk test faults add`."""

    kind: Annotated[Kind, Argument("KIND", help="What happens; see below.")]
    target: Annotated[
        str | None,
        Argument(
            "TARGET",
            help="A request (Produce), TOPIC:PARTITION for move-leader, a group for rebalance.",
        ),
    ] = None
    error: Annotated[
        str | None,
        Option("--error", value="NAME", help="The error of `fail`, by Kafka's name."),
    ] = None
    duration: Annotated[
        Duration | None,
        Option(
            "--duration",
            "--seconds",
            value="DURATION",
            parser=signed,
            help="How long `delay` delays, or how far `set-clock` sets the clock ahead.",
        ),
    ] = None
    times: Annotated[
        int | None,
        Option(
            "--times",
            value="N",
            parser=count,
            help="How many requests the fault affects (default: all until it is cleared).",
        ),
    ] = None
    client_id: Annotated[
        str | None,
        Option("--client-id", value="ID", help="Only requests or connections of this client."),
    ] = None
