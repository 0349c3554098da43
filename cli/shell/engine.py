"""The shell's engine: a thread that runs trio as long as the shell runs, with the open clients.

The terminal belongs to the main thread (prompt_toolkit). It passes commands to the engine and waits
for them. Signals reach only the main thread, so it handles Ctrl-C. The engine decides what that
does to a running command: a command that listens (`pk.cli.terminal.signals`) receives the signal;
the scope of any other is cancelled. At the third Ctrl-C, the shell abandons a command that reacts
to neither: it stays cancelled in the engine, and the prompt returns.
"""

import contextlib
import threading
from collections.abc import Awaitable, Callable
from queue import Empty
from typing import Self, cast

import trio

from pk.cli.cluster.leftover_throttles import warn_of_leftover_throttles
from pk.cli.exits import Exit
from pk.cli.run import report
from pk.cli.runtime.connect import run_loop
from pk.cli.runtime.context import Context, Handler
from pk.cli.runtime.failures import leaf
from pk.cli.runtime.session import Session, open_session
from pk.cli.terminal.signals import RELAY, Relay
from pk.net.client.errors import ConnectFailed, Disconnected, NoBrokers

Background = Callable[[Session], Awaitable[None]]

_RETRY_FOR_S = 60.0
_RETRY_S = 0.5
_PATIENCE = 3
"""After this many Ctrl-C, the shell stops waiting for a command."""


class Job:
    """A command in the engine."""

    def __init__(self, handler: Handler, context: Context, *, retried: bool) -> None:
        self.handler = handler
        self.context = context
        self.retried = retried
        self.scope = trio.CancelScope()
        self.relay = Relay()
        self.lost = False
        self.abandoned = False
        """Whether the shell has stopped waiting for the command."""

        self.done = threading.Event()
        self.code: int = Exit.OK

    async def run(self, session: Session) -> None:
        """Run the command in the engine's thread. Always sets `done` at the end."""
        self.context.session = session
        RELAY.set(self.relay)
        try:
            with self.scope:
                self.code = await self._attempts()
                await warn_of_leftover_throttles(self.context)
            if self.scope.cancelled_caught:
                self.code = Exit.INTERRUPTED
        except BaseException as error:
            if isinstance(leaf(error), trio.Cancelled):  # the shell itself exits
                self.code = Exit.INTERRUPTED
                raise
            self.code = reported(self.context, error)  # the shell continues
        finally:
            self.done.set()
            self.relay.for_main_thread.put(_nothing)

    def serve(self, seconds: float) -> bool:
        """Make the calls that the command needs from the main thread, for at most `seconds`.
        Returns whether the command has ended. Call it in the main thread."""
        with contextlib.suppress(Empty):
            self.relay.for_main_thread.get(timeout=seconds)()
        return self.done.is_set()

    async def _attempts(self) -> int:
        """Run the command, and repeat it if the connection was lost and repeating it does no
        harm."""
        until = trio.current_time() + _RETRY_FOR_S
        while True:
            try:
                return int(await self.handler(self.context) or self.context.exit)
            except BaseException as error:
                if not self.retried or not _is_lost(error) or trio.current_time() > until:
                    raise
                self.say_lost(broken=isinstance(leaf(error), Disconnected))
            self.context.failures.clear()
            await trio.sleep(_RETRY_S)

    def say_lost(self, *, broken: bool = False) -> None:
        """Say, once, that the command keeps trying to connect. `broken` means that a connection was
        open before."""
        if self.lost:
            return
        self.lost = True
        settings, session = self.context.settings, self.context.session
        admin = session.opened(settings) if session else None
        # A connection that never worked cannot be lost.
        answered = broken or (admin is not None and admin.cluster.reached_once)
        name = settings.cluster_name
        what = f"The connection to {name} is lost" if answered else f"{name} does not answer"
        self.context.say(f"{what}; trying again. Ctrl-C stops it.")

    def interrupt(self) -> None:
        """Deliver a Ctrl-C. Called in the engine's thread."""
        if self.relay.arrived >= _PATIENCE or not self.relay.passes_on():
            self.scope.cancel()


def _nothing() -> None:
    """Do nothing: the call wakes the main thread."""


def reported(context: Context, error: BaseException) -> int:
    """Report why a command ended. Returns its exit code. A closed pipe is not an error here."""
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
    """Runs commands in its own thread. As a context manager, it closes all clients at the end."""

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
        """Pass a command to the engine; `job.done` is set at its end. A waiting caller must check
        `job.abandoned` too."""
        nursery, session = self._nursery, self._session
        assert self._token is not None and nursery is not None and session is not None
        self._token.run_sync_soon(nursery.start_soon, job.run, session)

    def interrupt(self, job: Job) -> None:
        """Deliver a Ctrl-C to a command. May be called by a signal handler."""
        job.relay.arrived += 1
        self.soon(job.interrupt)
        # Sets no event: the handler may have interrupted code, in this same thread, that holds the
        # event's lock.
        job.abandoned = job.relay.arrived >= _PATIENCE

    def soon(self, function: Callable[[], None]) -> None:
        """Call `function` in the engine's thread. May be called by a signal handler."""
        if self._token is None:
            return
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return
