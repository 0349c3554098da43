"""The one place where trio runs."""

from collections.abc import Awaitable, Callable

import trio

from pk.cli.context import Context
from pk.cli.session import open_session

Handler = Callable[[Context], Awaitable[int | None]]


async def _main(handler: Handler, context: Context) -> int:
    async with open_session() as session:
        context.session = session
        return int(await handler(context) or 0)


def run_loop(main: Callable[[], Awaitable[None]]) -> None:
    """Runs `main` to its end, in whichever thread this is: the shell has a loop of its own."""
    trio.run(main)


def run(handler: Handler, context: Context) -> int:
    """Runs a command to its end and returns its exit code. Raises what the command raises."""
    return trio.run(_main, handler, context)
