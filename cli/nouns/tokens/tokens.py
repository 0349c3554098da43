"""`pk users tokens`: manages delegation tokens, named by their ids. Brokers identify them by their
HMACs, which pk looks up."""

from base64 import b64encode

from pk.cli.cluster.acl_words import read_principal
from pk.cli.diagnosis.suggested_commands import cluster_words, with_words
from pk.cli.exits import CommandError
from pk.cli.nouns.tokens.options import CreateToken, ExpireToken, ListTokens, RenewToken
from pk.cli.nouns.tokens.rows import ChangedTokenRow, TokenRow
from pk.cli.output.rows import listing
from pk.cli.positions.times import show_span, show_time
from pk.cli.runtime.context import Context
from pk.core.auth.principal import KafkaPrincipal
from pk.core.durations import Duration
from pk.core.errors import KafkaError
from pk.net.client.admin import Admin
from pk.net.client.admin_operations.tokens import Token


async def list_tokens(context: Context, options: ListTokens) -> None:
    """Run `pk users tokens list`."""
    admin = await context.admin()
    owners = [_principal(text) for text in options.owner]
    found = await admin.describe_tokens(owners or None)
    tokens = sorted(found, key=lambda token: (str(token.owner), token.expiry_ms))
    context.show(listing(TokenRow, [_row(one, show_hmac=options.hmac) for one in tokens]))


async def create(context: Context, options: CreateToken) -> None:
    """Run `pk users tokens create`."""
    admin = await context.admin()
    owner = None if options.owner is None else _principal(options.owner)
    renewers = [_principal(text) for text in options.renewer]
    try:  # raises before the question if the brokers have no tokens
        await admin.describe_tokens([])
    except KafkaError as e:
        raise _while_doing("CreateDelegationToken", e) from None
    whose = f"as {owner}" if owner is not None else "as you do"
    context.say(
        f"This creates a token. Anyone who has its HMAC can log in {whose} until it expires."
    )
    if context.change.dry_run:
        context.show(listing(TokenRow, []))
        return
    await context.agree(f"Create it on {context.settings.cluster_name}?")
    made = await admin.create_token(
        owner=owner,
        renewers=renewers,
        max_lifetime_ms=_or_default(options.max_lifetime),
    )
    context.show(listing(TokenRow, [_row(made, show_hmac=True)]))
    ending = with_words(f"pk users tokens expire {made.token_id}", cluster_words(context))
    context.say(f"To end it: {ending}")


async def renew(context: Context, options: RenewToken) -> None:
    """Run `pk users tokens renew`."""
    admin = await context.admin()
    token = await _token(admin, options.token, "RenewDelegationToken")
    period = f"for {show_span(options.period.ms)} from now, or " if options.period else ""
    context.say(
        f"This renews a token of {token.owner}: it is valid {period}for as long as the brokers "
        "allow."
    )
    if context.change.dry_run:
        _show(context, token, None, "would be renewed")
        return
    await context.agree(f"Renew on {context.settings.cluster_name}?", name=token.token_id)
    _show(
        context,
        token,
        await admin.renew_token(token.hmac, _or_default(options.period)),
        "renewed",
    )


async def expire(context: Context, options: ExpireToken) -> None:
    """Run `pk users tokens expire`."""
    admin = await context.admin()
    token = await _token(admin, options.token, "ExpireDelegationToken")
    when = f"in {show_span(options.after.ms)}" if options.after else "at once"
    context.say(f"This ends a token of {token.owner} {when}. Logging in with it then fails.")
    if context.change.dry_run:
        _show(context, token, None, "would be ended")
        return
    await context.agree(f"End it on {context.settings.cluster_name}?", name=token.token_id)
    expiry_ms = await admin.expire_token(token.hmac, _or_default(options.after))
    _show(context, token, expiry_ms if options.after else None, "ended")


def _while_doing(api: str, error: KafkaError) -> KafkaError:
    """The error of a request that looked up a token for `api`: a refusal of DescribeDelegationToken
    becomes one of `api`; any other error, such as a failed login, stays."""
    asked = error.message == "DescribeDelegationToken"
    return KafkaError(error.code, api) if asked else error


async def _token(admin: Admin, token_id: str, doing: str) -> Token:
    """The token with this id. Raises CommandError if there is no such token that the user may see.
    A KafkaError names the API `doing`, which needs the token."""
    try:
        found = await admin.describe_tokens()
    except KafkaError as e:
        raise _while_doing(doing, e) from None
    for token in found:
        if token.token_id == token_id:
            return token
    raise CommandError(
        f"Token {token_id!r} does not exist, or you may not see it; `pk users tokens list` lists "
        "those that you may see."
    )


def _or_default(period: Duration | None) -> int:
    """The time in ms for a request; -1 leaves it to the brokers."""
    return -1 if period is None else period.ms


def _principal(text: str) -> KafkaPrincipal:
    return KafkaPrincipal.parse(read_principal(text))


def _row(token: Token, *, show_hmac: bool) -> TokenRow:
    return {
        "token": token.token_id,
        "owner": str(token.owner),
        "renewers": [str(one) for one in token.renewers],
        "expires": show_time(token.expiry_ms),
        "ends": show_time(token.max_ms),
        "requester": str(token.requester),
        "issued": show_time(token.issue_ms),
        "hmac": b64encode(token.hmac).decode() if show_hmac else None,
    }


def _show(context: Context, token: Token, expiry_ms: int | None, result: str) -> None:
    row: ChangedTokenRow = {
        "token": token.token_id,
        "owner": str(token.owner),
        "expires": None if expiry_ms is None else show_time(expiry_ms),
        "result": result,
    }
    context.show(listing(ChangedTokenRow, [row]))
