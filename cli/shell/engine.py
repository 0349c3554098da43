"""The shell's engine: one thread that runs trio for as long as the shell lives, with the open clients in it.

The terminal belongs to the main thread (prompt_toolkit). A command is handed over, and the main thread waits for its end.
Signals reach the main thread alone, so Ctrl-C is its business; here is what it may do to a command that runs: the command
hears of it where it listens (`pk.cli.terminal.signals`), and else its scope is cancelled. The third one gives up on a
command that does neither: it is left behind, cancelled, and the prompt comes back.
"""

import threading
from collections.abc import Awaitable, Callable
from typing import Self, cast

import trio

from pk.cli.cluster.leftover_throttles import tell_left_throttles
from pk.cli.run import report
from pk.cli.runtime.connect import run_loop
from pk.cli.runtime.context import Context, Handler
from pk.cli.runtime.exits import Exit
from pk.cli.runtime.failures import leaf
from pk.cli.runtime.session import Session, open_session
from pk.cli.terminal.signals import RELAY, Relay
from pk.net.client.errors import ConnectFailed, Disconnected, NoBrokers

Background = Callable[[Session], Awaitable[None]]

_RETRY_FOR_S = 60.0
_RETRY_S = 0.5
_PATIENCE = 3
"""So many Ctrl-C, and the shell waits no longer for a command's end."""


class Job:
    """A command on its way through the engine."""

    def __init__(self, handler: Handler, context: Context, *, retried: bool) -> None:
        self.handler = handler
        self.context = context
        self.retried = retried
        self.scope = trio.CancelScope()
        self.relay = Relay()
        self.interrupts = 0
        self.lost = False
        self.abandoned = False
        """Whether nobody waits for its end any more."""

        self.done = threading.Event()
        self.code: int = Exit.OK

    async def run(self, session: Session) -> None:
        """Runs it in the engine's thread; whatever becomes of it, `done` is set."""
        self.context.session = session
        RELAY.set(self.relay)
        try:
            with self.scope:
                self.code = await self._attempts()
                await tell_left_throttles(self.context)
            if self.scope.cancelled_caught:
                self.code = Exit.INTERRUPTED
        except BaseException as error:
            if isinstance(leaf(error), trio.Cancelled):  # the shell itself ends
                self.code = Exit.INTERRUPTED
                raise
            self.code = told(self.context, error)  # and the shell goes on
        finally:
            self.done.set()

    async def _attempts(self) -> int:
        """Runs the command, again where the connection was lost and doing it twice does no harm."""
        until = trio.current_time() + _RETRY_FOR_S
        while True:
            try:
                return int(await self.handler(self.context) or self.context.exit)
            except BaseException as error:
                if not self.retried or not _is_lost(error) or trio.current_time() > until:
                    raise
                self.tell_lost(broken=isinstance(leaf(error), Disconnected))
            self.context.failures.clear()
            await trio.sleep(_RETRY_S)

    def tell_lost(self, *, broken: bool = False) -> None:
        """Says, once, that the command keeps trying to connect. `broken`: a connection was open until now."""
        if self.lost:
            return
        self.lost = True
        settings, session = self.context.settings, self.context.session
        admin = session.opened(settings) if session else None
        # What never answered cannot be lost.
        answered = broken or (admin is not None and admin.cluster.reached_once)
        name = settings.cluster_name
        what = f"The connection to {name} is lost" if answered else f"{name} does not answer"
        self.context.say(f"{what}; trying again. Ctrl-C ends it.")

    def interrupt(self) -> None:
        """Passes a Ctrl-C on; called in the engine's thread."""
        if self.interrupts >= _PATIENCE or not self.relay.passes_on():
            self.scope.cancel()


def told(context: Context, error: BaseException) -> int:
    """Says what ended a command; its exit code. That a pipe's reader has gone is no error, and its own affair."""
    return Exit.OK if isinstance(leaf(error), BrokenPipeError) else report(context, error)


def _is_lost(error: BaseException) -> bool:
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        first, *more = group.exceptions
        if more:
            break
        error = first
    return isinstance(error, (Disconnected, NoBrokers, ConnectFailed))


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
        if self._nursery is not None:
            self.soon(self._nursery.cancel_scope.cancel)
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

    def start(self, job: Job) -> None:
        """Hands a command over; `job.done` is set at its end. Whoever waits looks at `job.abandoned` meanwhile."""
        nursery, session = self._nursery, self._session
        assert self._token is not None and nursery is not None and session is not None
        self._token.run_sync_soon(nursery.start_soon, job.run, session)

    def interrupt(self, job: Job) -> None:
        """Passes a Ctrl-C on to a command. May be called by a signal's handler."""
        job.interrupts += 1
        self.soon(job.interrupt)
        # No event is set here: the handler may have interrupted whoever holds the event's lock, in this very thread.
        job.abandoned = job.interrupts >= _PATIENCE

    def soon(self, function: Callable[[], None]) -> None:
        """Calls `function` in the engine's thread. May be called by a signal's handler."""
        if self._token is None:
            return
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return
