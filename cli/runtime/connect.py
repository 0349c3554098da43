"""The only module that runs trio."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from pk.cli.runtime.context import Context, Handler
from pk.cli.runtime.session import open_session
from pk.cli.terminal.signals import signals_cancel

T = TypeVar("T")


async def _main(handler: Handler, context: Context) -> int:
    scope = trio.CancelScope()
    with signals_cancel(scope):
        async with open_session() as session:
            context.session = session
            code = 0
            with scope:
                code = int(await handler(context) or 0)
            if scope.cancelled_caught:
                raise KeyboardInterrupt
            return code


def run_loop(main: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run `main` to its end, in the calling thread, since the shell's loop has a thread of its
    own."""
    return trio.run(main, *args, restrict_keyboard_interrupt_to_checkpoints=True)


def run(handler: Handler, context: Context) -> int:
    """Run a command to its end and return its exit code. Raises what the command raises."""
    return run_loop(_main, handler, context)
