"""Options of the commands of `pk users tokens`."""

from dataclasses import dataclass
from typing import Annotated

from pk.cli.options.parameters import Argument, Option
from pk.cli.options.values import span
from pk.core.durations import Duration

TokenId = Annotated[
    str, Argument("TOKEN", help="The token's id, as `pk users tokens list` shows it.")
]


@dataclass(frozen=True, kw_only=True)
class ListTokens:
    """Options of `pk users tokens list`."""

    owner: Annotated[
        tuple[str, ...],
        Option(
            "--owner",
            "--owner-principal",
            value="USER",
            help="Only tokens that this user owns or may renew; repeatable.",
        ),
    ] = ()
    hmac: Annotated[
        bool,
        Option("--hmac", help="Show the HMACs too: anyone who has one can log in with it."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class CreateToken:
    """Options of `pk users tokens create`."""

    owner: Annotated[
        str | None,
        Option(
            "--owner", "--owner-principal", value="USER", help="Whose login it is (default: yours)."
        ),
    ] = None
    renewer: Annotated[
        tuple[str, ...],
        Option(
            "--renewer",
            "--renewer-principal",
            value="USER",
            help="Who may renew and expire it besides its owner; repeatable.",
        ),
    ] = ()
    max_lifetime: Annotated[
        Duration | None,
        Option(
            "--max-lifetime",
            value="DURATION",
            parser=span,
            help=(
                "When it ends for good, such as 12h or 7d (default: as late as the brokers let it)."
            ),
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RenewToken:
    """Options of `pk users tokens renew`."""

    token: TokenId
    period: Annotated[
        Duration | None,
        Option(
            "--for",
            value="DURATION",
            parser=span,
            help="How long from now it lasts (default: as long as the brokers let it).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExpireToken:
    """Options of `pk users tokens expire`."""

    token: TokenId
    after: Annotated[
        Duration | None,
        Option(
            "--after", value="DURATION", parser=span, help="End it then, not at once, such as 10m."
        ),
    ] = None
