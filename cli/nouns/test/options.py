"""The options of `pk test`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import count
from pk.cli.up.options import BrokerProperties


@dataclass(frozen=True, kw_only=True)
class Test:
    """Options of `pk test`."""

    command: Annotated[
        tuple[str, ...], Argument("COMMAND", help="The command and its arguments, after --.")
    ]
    brokers: Annotated[
        int,
        Option(
            "--brokers",
            value="N",
            parser=count,
            help="The number of brokers; several run as separate processes.",
        ),
    ] = 1
    properties: BrokerProperties = ()
