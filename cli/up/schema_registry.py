"""The schema registry that `pk up --schema-registry` serves beside its brokers."""

from collections.abc import Callable
from importlib import import_module

import trio

from pk.cli.exits import CommandError, Unusable
from pk.cli.up.node import HOST
from pk.cli.up.options import Up


def registry_port(options: Up) -> int | None:
    """The port for a schema registry; None if none is requested."""
    return options.schema_registry_port if options.schema_registry else None


def check_registry(port: int | None, *, secure: bool) -> None:
    """Raise Unusable for an invalid port, or if the registry would need to log in to the brokers,
    and CommandError if a library is missing: brokers that are ready would have to end again."""
    if port is None:
        return
    if not 0 <= port <= 65535:
        raise Unusable(f"--schema-registry-port must be a port from 0 to 65535, not {port}.")
    if secure:
        raise Unusable(
            "--schema-registry cannot log in to brokers: with --secure, run `pk schema-registry "
            "start` with the profile."
        )
    require_registry()


def require_registry() -> None:
    """Raise CommandError if a library that a registry needs is missing."""
    try:
        import_module("pk.net.schemas.serve")
        from pk.net.schemas.libraries import require_libraries

        require_libraries()
    except ImportError as e:
        named = f"{e.name} is missing" if e.name else str(e).partition(":")[0]
        raise CommandError(
            f"{named}: a schema registry needs `pip install 'pk-broker[schemas]'`."
        ) from None


async def serve_beside(
    bootstrap: str,
    port: int,
    write: Callable[[bytes], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `started` is set, and the URL is written, once the registry answers.
    Raises CommandError."""
    from pk.net.schemas.log import LogError
    from pk.net.schemas.registry import Settings
    from pk.net.schemas.serve import Listening, serve_registry

    try:
        async with trio.open_nursery() as nursery:
            url = await nursery.start(serve_registry, Settings(bootstrap), Listening(HOST, port))
            write(f"Schema registry is ready at {url}\n".encode())
            task_status.started()
    except* (LogError, OSError) as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise CommandError(f"The schema registry cannot start: {error}.") from None
