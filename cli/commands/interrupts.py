"""Ctrl-C as something that happens, for commands that leave something behind and have to ask what is to become of it."""

import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio


class Interrupts:
    """The signals that came (SIGINT, SIGTERM) while they were listened to."""

    def __init__(self, signals: AsyncIterator[int] | None) -> None:
        self._signals = signals

    async def or_until(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Does `work` until its end or the next signal. True: it was interrupted."""
        if self._signals is None:
            await work()
            return False
        interrupted = False
        signals = self._signals

        async def listen(scope: trio.CancelScope) -> None:
            nonlocal interrupted
            await anext(signals)
            interrupted = True
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, nursery.cancel_scope)
            await work()
            nursery.cancel_scope.cancel()
        return interrupted


@contextmanager
def listen_for_interrupts() -> Iterator[Interrupts]:
    """Makes SIGINT and SIGTERM wait to be asked for. In the shell, whose loop runs beside the main thread, signals come as
    cancellation instead, and there is nothing to listen to."""
    if threading.current_thread() is not threading.main_thread():
        yield Interrupts(None)
        return
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        yield Interrupts(aiter(signals))
