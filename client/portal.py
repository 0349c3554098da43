"""A trio loop in a thread of its own, for programs that block.

The thread starts with the first client that is opened and ends with the last. Each call of a method
runs as a trio task there, while the calling thread waits.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

import trio

P = ParamSpec("P")
R = TypeVar("R")


class _BlockRaised(Exception):
    """Raised in a client's block on trio because the program's block has raised."""


class Portal:
    """Runs functions in a trio loop for other threads."""

    def __init__(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="pk client", daemon=True)
        self._started: Future[tuple[trio.lowlevel.TrioToken, trio.Nursery]] = Future()
        self._stop = trio.Event()
        self._thread.start()
        self._token, self._nursery = self._started.result()

    def _serve(self) -> None:
        async def main() -> None:
            async with trio.open_nursery() as nursery:
                self._started.set_result((trio.lowlevel.current_trio_token(), nursery))
                await self._stop.wait()

        trio.run(main)

    def stop(self) -> None:
        """End the loop, and wait for the thread."""
        self._token.run_sync_soon(self._stop.set)
        self._thread.join()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Schedule `function`, which must not raise, in the loop's thread. A call that is scheduled
        already counts for this one too."""
        self._token.run_sync_soon(function, idempotent=True)

    def spawn(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run a function as a trio task. It must not raise."""
        self._token.run_sync_soon(self._nursery.start_soon, function)

    def run_sync(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in the loop's thread, and return its result."""
        if self._is_inside():
            return function(*args, **kwargs)
        ended: Future[R] = Future()

        def call() -> None:
            try:
                ended.set_result(function(*args, **kwargs))
            except Exception as e:  # noqa: BLE001 - raised in the calling thread
                ended.set_exception(e)

        self._token.run_sync_soon(call)
        return ended.result()

    def run(
        self,
        function: Callable[P, Coroutine[Any, Any, R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Call a coroutine function as a trio task, and return its result. If the calling thread is
        interrupted (Ctrl-C), the task is cancelled and awaited."""
        if self._is_inside():
            raise RuntimeError("a client's callback must not wait for the client")
        ended: Future[R] = Future()
        scope = trio.CancelScope()

        async def run() -> None:
            try:
                with scope:
                    ended.set_result(await function(*args, **kwargs))
                if not ended.done():
                    ended.cancel()
            except Exception as e:  # noqa: BLE001 - raised in the calling thread
                ended.set_exception(e)

        self.spawn(run)
        try:
            return ended.result()
        except BaseException:
            if not ended.done():
                self._token.run_sync_soon(scope.cancel)
                with suppress(BaseException):
                    ended.result()
            raise

    def _is_inside(self) -> bool:
        return threading.current_thread() is self._thread

    @contextmanager
    def opened(self, manager: AbstractAsyncContextManager[R]) -> Generator[R]:
        """Hold `manager` open in a trio task while the block runs. If the block raises, the block
        on trio raises too, with an error of its own, and the block's own error is raised."""
        ready: Future[R] = Future()
        closed: Future[None] = Future()
        leave = trio.Event()
        raised = False

        async def hold() -> None:
            try:
                async with manager as value:
                    ready.set_result(value)
                    await leave.wait()
                    if raised:
                        raise _BlockRaised
            except _BlockRaised:
                pass
            except Exception as e:  # noqa: BLE001 - raised in the program's thread
                if not ready.done():
                    ready.set_exception(e)
                closed.set_exception(e)
                return
            closed.set_result(None)

        self.spawn(hold)
        try:
            value = ready.result()
            yield value
        except BaseException:
            raised = True
            raise
        finally:
            self._token.run_sync_soon(leave.set)
            if raised:
                closed.exception()  # the block's own error is raised
            else:
                closed.result()


_lock = threading.Lock()
_portal: Portal | None = None
_clients = 0


@contextmanager
def portal() -> Generator[Portal]:
    """Return the portal that the program's clients share. It exists while one of them is open."""
    global _portal, _clients
    with _lock:
        if _portal is None:
            _portal = Portal()
        shared = _portal
        _clients += 1
    try:
        yield shared
    finally:
        with _lock:
            _clients -= 1
            last = _clients == 0
            if last:
                _portal = None
        if last:
            shared.stop()
