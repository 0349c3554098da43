"""Runs a prompt-toolkit application in a thread of its own, beside trio's loop."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import trio

if TYPE_CHECKING:
    from prompt_toolkit.application import Application

T = TypeVar("T")


class AppThread:
    """Runs an application, and calls functions in its thread."""

    def __init__(self) -> None:
        self.app: Application[Any] | None = None
        """The application, set by the code that makes it."""

        self.leaving = False
        """Whether the application must end, with EOFError."""

    async def run(self, function: Callable[[], T]) -> T:
        """Call `function`, which runs the application, in the thread. If the call is cancelled, the
        application ends and restores the terminal."""
        # Reset here and not in the thread, since a Ctrl-C may come before the thread starts.
        self.leaving = False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._leave_when_cancelled)
            # A thread that has started is waited for, even after a cancellation.
            found = await trio.to_thread.run_sync(function)
            nursery.cancel_scope.cancel()
            return found

    async def _leave_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.leaving = True
            self.call(_leave)

    def begin(self) -> None:
        """End the application if it must already end; for `pre_run`."""
        if self.leaving and self.app is not None:
            self.app.exit(exception=EOFError)

    def call(self, function: "Callable[[Application[Any]], object]") -> bool:
        """Call `function` in the application's thread. Returns False if the application does not
        run."""
        app = self.app
        loop = app.loop if app is not None else None
        if app is None or loop is None or not app.is_running:
            return False
        try:
            loop.call_soon_threadsafe(function, app)
        except RuntimeError:
            return False  # the application has just ended
        return True


def _leave(app: "Application[Any]") -> None:
    if app.is_running and not app.is_done:
        app.exit(exception=EOFError)
