"""The commands of `pk users tokens`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.tokens.options import CreateToken, ExpireToken, ListTokens, RenewToken
from pk.cli.nouns.tokens.rows import ChangedTokenRow, TokenRow
from pk.cli.options.option_sets import Change, Connection, Listing, Watch

TOKENS = Noun("users tokens")

_LOGIN = "The brokers need delegation.token.secret.key, and you must log in, but not with a token."


TOKENS.command(
    "list",
    "ls",
    help="List the delegation tokens that you own, may renew, or may describe.",
    worker="tokens:list_tokens",
    options=ListTokens,
    takes=(Listing, Watch, Connection),
    examples=("pk users tokens list", "pk users tokens list --owner alice --hmac"),
    notes=_LOGIN,
    shows=TokenRow,
)


TOKENS.command(
    "create",
    help="Create a delegation token: a login that expires by itself.",
    worker="tokens:create",
    options=CreateToken,
    takes=(Change, Listing, Connection),
    examples=("pk users tokens create", "pk users tokens create --renewer bob --max-lifetime 12h"),
    notes=(
        "A client logs in by SCRAM with the token as its user, the HMAC as its password, and "
        f"tokenauth=true in sasl.jaas.config. {_LOGIN} `pk users tokens expire` revokes a token."
    ),
    shows=TokenRow,
)


TOKENS.command(
    "renew",
    help="Renew a delegation token, up to its maximum lifetime.",
    worker="tokens:renew",
    options=RenewToken,
    takes=(Change, Listing, Connection),
    examples=(
        "pk users tokens renew nE4oQOZOQmyUrrLZ9d3yWw",
        "pk users tokens renew nE4oQOZOQmyUrrLZ9d3yWw --for 1d",
    ),
    notes=_LOGIN,
    shows=ChangedTokenRow,
)


TOKENS.command(
    "expire",
    help="Expire a delegation token, now or later.",
    worker="tokens:expire",
    options=ExpireToken,
    takes=(Change, Listing, Connection),
    examples=(
        "pk users tokens expire nE4oQOZOQmyUrrLZ9d3yWw",
        "pk users tokens expire nE4oQOZOQmyUrrLZ9d3yWw --after 10m",
    ),
    notes=f"Open sessions continue until they log in again. {_LOGIN}",
    shows=ChangedTokenRow,
)
