"""Enforces the restrictions of a profile, for every command: it must not use a cluster other than
the profile's and, if the profile is read-only, must not send a request unless the request is known
to change nothing. Commands check and explain this themselves before they change anything; this
module stops a command that fails to."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from pk.cli.exits import Refused
from pk.cli.runtime.context import Context, Handler
from pk.cli.runtime.refusals import REFUSALS
from pk.cli.runtime.settings import Settings
from pk.net.client.connection import ANSWER_HOOK, REQUEST_GUARD

METADATA: Final = 3
_LOGIN: Final = re.compile(r'\busername="([^"\\]+)"')


def forbid_changes(context: Context) -> Callable[[Any], None]:
    """Make a check of each request before it is sent: it refuses requests that may change
    something, and lets none create a topic."""

    def check(request: Any) -> None:
        if request.API_KEY == METADATA:
            # A request for a missing topic would create it, if brokers auto-create topics.
            request.allow_auto_topic_creation = False
        if not request.changes_nothing():
            context.allow()

    return check


def guarded(handler: Handler) -> Handler:
    """Wrap `handler`, to apply the restrictions of the profile."""

    async def run(context: Context) -> int | None:
        async with applying_profile(context):
            return await handler(context)

    return run


def explained(handler: Handler) -> Handler:
    """Wrap `handler`: if no broker is found, the error says what listens at the address instead."""

    async def run(context: Context) -> int | None:
        try:
            return await handler(context)
        except Exception as error:
            from pk.cli.runtime.failures import explain

            found = await explain(error)
            if found is error:
                raise
            raise found from error

    return run


def _principal(settings: Settings) -> str | None:
    """The principal that brokers give the user by default; None if it cannot be known here."""
    keys = {**settings.properties, **settings.given}
    protocol = keys.get("security.protocol", "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return "User:ANONYMOUS"
    login = keys.get("sasl.jaas.config", "")
    found = _LOGIN.search(login) if "tokenauth" not in login else None
    user = keys.get("sasl.username") or (found[1] if found else None)
    return f"User:{user}" if user and protocol.startswith("SASL") else None


def _say_recalled(context: Context) -> None:
    """Say, once, if another broker than the given ones answered."""
    assert context.session is not None
    admin = context.session.opened(context.settings)
    node = admin.cluster.remembered_node if admin is not None else None
    if admin is None or node is None or node.address in context.session.reported:
        return
    context.session.reported.add(node.address)
    from pk.cli.runtime.cluster_files import silent_nodes

    why = silent_nodes(n.address for n in admin.cluster.bootstrap)
    context.say(
        f"{context.settings.bootstrap} does not answer; {node.address}, another broker of the "
        f"cluster, did{f' ({why})' if why else ''}."
    )


@asynccontextmanager
async def applying_profile(context: Context) -> AsyncGenerator[None]:
    """Apply the profile of `context` to the block, including tasks that it starts, and try brokers
    of earlier runs. Raises Refused."""
    from pk.cli.runtime.session import remember_brokers

    remember_brokers(context.settings)
    REFUSALS.begin(_principal(context.settings))
    ANSWER_HOOK.set(REFUSALS.answered)
    async with guarding(context):
        yield
    _say_recalled(context)


@asynccontextmanager
async def guarding(context: Context) -> AsyncGenerator[None]:
    """Apply the profile of `context` to the block, including tasks that it starts.

    Raises Refused.
    """
    settings = context.settings
    readonly = settings.profile is not None and settings.guard == "readonly"
    token = REQUEST_GUARD.set(forbid_changes(context) if readonly else None)
    try:
        if settings.profile is not None:
            await _check_cluster(context, settings)
        yield
    finally:
        REQUEST_GUARD.reset(token)


async def _check_cluster(context: Context, settings: Settings) -> None:
    """Raise Refused if the cluster is not the one that the profile expects."""
    assert settings.profile is not None and context.session is not None
    wanted = settings.profile.cluster_id
    if wanted is None or context.session.answered.get(settings.bootstrap) == wanted:
        return
    admin = await context.admin()
    found = (await admin.describe_cluster()).cluster_id
    if found != wanted:
        raise Refused(
            f"Profile {settings.profile.name} expects cluster {wanted}, but cluster {found} "
            f"answers at {settings.bootstrap}; nothing was done. `pk profile edit` changes its "
            "address or its cluster."
        )
    context.session.answered[settings.bootstrap] = wanted
