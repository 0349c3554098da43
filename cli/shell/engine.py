"""The shell's engine: one thread that runs trio for as long as the shell lives, with the open clients in it.

The terminal belongs to the main thread (prompt_toolkit). A command is handed over, and the main thread waits for its end;
Ctrl-C reaches the main thread, which cancels the command's scope and nothing else.
"""

import threading
from collections.abc import Awaitable, Callable
from typing import Self

import trio

from pk.cli.connect import run_loop
from pk.cli.context import Context
from pk.cli.exits import Exit
from pk.cli.run import report
from pk.cli.session import Session, open_session
from pk.net.client.errors import Disconnected, NoBrokers

Handler = Callable[[Context], Awaitable[int | None]]
Background = Callable[[Session], Awaitable[None]]

_RETRIES = 5
_RETRY_S = 1.0


class _Job:
    """A command on its way through the engine."""

    def __init__(self, handler: Handler, context: Context, *, retried: bool) -> None:
        self.handler = handler
        self.context = context
        self.retried = retried
        self.scope = trio.CancelScope()
        self.done = threading.Event()
        self.code: int = Exit.OK

    async def run(self, session: Session) -> None:
        self.context.session = session
        try:
            with self.scope:
                self.code = await self._attempts()
            if self.scope.cancelled_caught:
                self.code = Exit.INTERRUPTED
        except trio.Cancelled:
            self.code = Exit.INTERRUPTED
            raise
        except BaseException as error:  # noqa: BLE001 - told, and the shell goes on
            self.code = report(self.context, error)
        finally:
            self.done.set()

    async def _attempts(self) -> int:
        """Runs the command, again where the connection was lost and doing it twice does no harm."""
        left = _RETRIES if self.retried else 0
        while True:
            try:
                return int(await self.handler(self.context) or self.context.exit)
            except BaseException as error:
                if left == 0 or not _is_lost(error):
                    raise
                self.context.say("The connection is lost; trying again. Ctrl-C ends it.")
            left -= 1
            self.context.failures.clear()
            await trio.sleep(_RETRY_S)


def _is_lost(error: BaseException) -> bool:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return isinstance(error, (Disconnected, NoBrokers))


class Engine:
    """Runs commands in its own thread. Use as a context manager; leaving it closes all clients."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="pk-shell", daemon=True)
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._session: Session | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        nursery, token = self._nursery, self._token
        if nursery is not None and token is not None:
            try:
                token.run_sync_soon(nursery.cancel_scope.cancel)
            except trio.RunFinishedError:
                return
        self._thread.join(timeout=5)

    def _main(self) -> None:
        try:
            run_loop(self._serve)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        async with open_session() as session, trio.open_nursery() as nursery:
            self._token = trio.lowlevel.current_trio_token()
            self._nursery = nursery
            self._session = session
            nursery.start_soon(self._background, session)
            self._ready.set()
            await trio.sleep_forever()

    def run(self, handler: Handler, context: Context, *, retried: bool) -> int:
        """Runs a command to its end, or to the Ctrl-C that cancels it; its exit code."""
        token, nursery, session = self._token, self._nursery, self._session
        assert token is not None and nursery is not None and session is not None
        job = _Job(handler, context, retried=retried)
        token.run_sync_soon(nursery.start_soon, job.run, session)
        while not job.done.is_set():
            try:
                job.done.wait()
            except KeyboardInterrupt:
                context.say()  # the prompt is not to overwrite what stands on the line
                token.run_sync_soon(job.scope.cancel)
        return job.code

    def soon(self, function: Callable[[], None]) -> None:
        """Calls `function` in the engine's thread."""
        assert self._token is not None
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return
