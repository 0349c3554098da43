"""`pk schema-registry start`: runs one instance of the registry, in the foreground."""

import signal
import time

import trio

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.nouns.schema_registry.options import StartRegistry
from pk.cli.runtime.context import Context
from pk.cli.up.logs import log_to_stderr
from pk.cli.up.node import exit_of_server
from pk.cli.up.schema_registry import require_registry


def _connection(context: Context) -> dict[str, object]:
    """The configs that all clients have, such as those for security. Raises Unusable for others
    given with -X."""
    from pk.net.client.config import ClientConfig, keys

    known, settings = set(keys(ClientConfig)), context.settings
    foreign = [each for each in settings.given if each not in known]
    if foreign:
        raise Unusable(f"-X {foreign[0]}: a schema registry takes only configs of connections.")
    return {k: v for k, v in {**settings.properties, **settings.given}.items() if k in known}


async def start(context: Context, options: StartRegistry) -> Exit:
    """Run `pk schema-registry start`."""
    started = time.monotonic()
    require_registry()
    from pk.net.schemas.log import LogError
    from pk.net.schemas.registry import Settings
    from pk.net.schemas.serve import Listening, serve_registry
    from pk.net.schemas.users import authenticator
    from pk.net.tls.contexts import (
        TlsError,
        certificate_date_problem,
        client_context,
        server_context,
    )
    from pk.net.tls.settings import TlsSettings

    if not 0 <= options.port <= 65535:
        raise Unusable(f"--port must be from 0 to 65535, not {options.port}.")
    log_to_stderr()
    try:
        users = authenticator(options.users) if options.users is not None else None
        tls = None
        if options.tls_key is not None:
            own = TlsSettings(keystore_type="PEM", keystore_location=options.tls_key)
            tls = server_context(own)
            if (said := certificate_date_problem(own, "--tls-key")) is not None:
                context.say(f"Warning: {said}; clients that verify it cannot connect")
        trust = (
            client_context(
                TlsSettings(truststore_type="PEM", truststore_location=options.tls_trust)
            )
            if options.tls_trust is not None
            else None
        )
    except (OSError, ValueError, TlsError) as e:
        raise Unusable(f"{str(e).rstrip('.')}.") from None
    listening = Listening(options.host, options.port, options.advertised_host, tls, trust, users)
    settings = Settings(
        context.settings.bootstrap,
        _connection(context),
        options.topic,
        options.group,
        options.replication_factor,
        not options.follower,
    )
    try:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with trio.open_nursery() as nursery:
                url = await nursery.start(serve_registry, settings, listening)
                spent = (time.monotonic() - started) * 1000
                context.write(f"Schema registry is ready after {spent:.0f} ms, at {url}\n".encode())
                async for number in signals:
                    nursery.cancel_scope.cancel()
                    return exit_of_server(number)
    except* (LogError, OSError) as group:
        error = group.exceptions[0]
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise CommandError(f"The schema registry cannot start: {error}.") from None
    return Exit.OK
