"""The commands of `pk tokens`, with their options."""

from typing import TYPE_CHECKING

from pk.cli.command_line.declare import Noun, Running
from pk.cli.command_line.option_sets import Change, Connection, Listing, Watch
from pk.cli.nouns.tokens.options import CreateToken, ExpireToken, ListTokens, RenewToken
from pk.cli.nouns.tokens.rows import ChangedTokenRow, TokenRow

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

TOKENS = Noun("tokens")

_LOGIN = (
    "The brokers need delegation.token.secret.key, and the connection must have logged in, not "
    "by a token."
)


@TOKENS.command(
    "list",
    "ls",
    takes=(Listing, Watch, Connection),
    examples=("pk tokens list", "pk tokens list --owner alice --hmac"),
    notes=_LOGIN,
    shows=TokenRow,
)
def list_tokens(context: "Context", options: ListTokens) -> Running:
    """List the delegation tokens that you own, may renew, or may describe."""
    from pk.cli.nouns.tokens.tokens import list_tokens

    return list_tokens(context, options)


@TOKENS.command(
    "create",
    takes=(Change, Listing, Connection),
    examples=("pk tokens create", "pk tokens create --renewer bob --max-lifetime 12h"),
    notes=(
        "A client logs in by SCRAM with the token as its user, the HMAC as its password, and "
        f"tokenauth=true in sasl.jaas.config. {_LOGIN} `pk tokens expire` takes a token back."
    ),
    shows=TokenRow,
)
def create(context: "Context", options: CreateToken) -> Running:
    """Make a delegation token: a login of yours that ends by itself."""
    from pk.cli.nouns.tokens.tokens import create

    return create(context, options)


@TOKENS.command(
    "renew",
    takes=(Change, Listing, Connection),
    examples=(
        "pk tokens renew nE4oQOZOQmyUrrLZ9d3yWw",
        "pk tokens renew nE4oQOZOQmyUrrLZ9d3yWw --for 1d",
    ),
    notes=_LOGIN,
    shows=ChangedTokenRow,
)
def renew(context: "Context", options: RenewToken) -> Running:
    """Have a delegation token end later, but not after it ends for good."""
    from pk.cli.nouns.tokens.tokens import renew

    return renew(context, options)


@TOKENS.command(
    "expire",
    takes=(Change, Listing, Connection),
    examples=(
        "pk tokens expire nE4oQOZOQmyUrrLZ9d3yWw",
        "pk tokens expire nE4oQOZOQmyUrrLZ9d3yWw --after 10m",
    ),
    notes=f"Sessions that stand go on until they log in again. {_LOGIN}",
    shows=ChangedTokenRow,
)
def expire(context: "Context", options: ExpireToken) -> Running:
    """End a delegation token, at once or after a time."""
    from pk.cli.nouns.tokens.tokens import expire

    return expire(context, options)
