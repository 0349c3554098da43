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
            "--owner",
            "--owner-principal",
            value="USER",
            help="The user that the token logs in as (default: you).",
        ),
    ] = None
    renewer: Annotated[
        tuple[str, ...],
        Option(
            "--renewer",
            "--renewer-principal",
            value="USER",
            help="A user who may renew and expire it, besides its owner; repeatable.",
        ),
    ] = ()
    max_lifetime: Annotated[
        Duration | None,
        Option(
            "--max-lifetime",
            value="DURATION",
            parser=span,
            help=("The maximum lifetime, such as 12h or 7d (default: the brokers' maximum)."),
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
            help="How long it is valid from now (default: the brokers' maximum).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExpireToken:
    """Options of `pk users tokens expire`."""

    token: TokenId
    after: Annotated[
        Duration | None,
        Option(
            "--after",
            value="DURATION",
            parser=span,
            help="Expire it after this long, such as 10m, not now.",
        ),
    ] = None
