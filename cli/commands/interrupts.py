"""Ctrl-C as something that happens, for commands that leave something behind and have to ask what is to become of it; and
SIGTERM as another Ctrl-C, for all of them."""

import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


class Relay:
    """Ctrl-C on its way from the shell, which has the main thread, to the command that listens to it there."""

    def __init__(self) -> None:
        self._listeners: list[trio.MemorySendChannel[int]] = []

    def passes_on(self) -> bool:
        """Hands a Ctrl-C to whoever began to listen last; False where nobody does. Called in the loop's thread."""
        if not self._listeners:
            return False
        try:
            self._listeners[-1].send_nowait(signal.SIGINT)
        except trio.WouldBlock:
            return False  # it has not even looked at the ones before
        return True

    @contextmanager
    def listening(self) -> Iterator[AsyncIterator[int]]:
        """The signals that come while the block runs."""
        send, receive = trio.open_memory_channel[int](2)
        self._listeners.append(send)
        try:
            yield aiter(receive)
        finally:
            self._listeners.remove(send)


RELAY: ContextVar[Relay | None] = ContextVar("RELAY", default=None)
"""Where a command that runs beside the main thread hears of Ctrl-C."""


@contextmanager
def listen_for_interrupts() -> Iterator[Interrupts]:
    """Makes SIGINT and SIGTERM wait to be asked for. In the shell, whose loop runs beside the main thread, Ctrl-C comes by
    the shell's relay."""
    if threading.current_thread() is not threading.main_thread():
        relay = RELAY.get()
        if relay is None:
            yield Interrupts(None)
            return
        with relay.listening() as signals:
            yield Interrupts(signals)
        return
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        yield Interrupts(aiter(signals))


@contextmanager
def signals_cancel(scope: trio.CancelScope) -> Iterator[None]:
    """Makes SIGTERM do what Ctrl-C does, so that what a command does last (a commit, a note) is done then, too; and
    neither meets a task of a client's, which the last words still need: in the middle of this task's own code they raise
    KeyboardInterrupt, elsewhere they cancel `scope`. The second SIGTERM ends the process; the second Ctrl-C is trio's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    token, here = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def end(number: int, frame: object) -> None:
        after = signal.SIG_DFL if number == signal.SIGTERM else before[signal.SIGINT]
        signal.signal(number, after)
        if _is_running(here) and not trio.lowlevel.currently_ki_protected():
            raise KeyboardInterrupt
        token.run_sync_soon(scope.cancel)

    signal.signal(signal.SIGTERM, end)
    if callable(before[signal.SIGINT]):  # a command in the background of a script ignores it
        signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_running(task: trio.lowlevel.Task) -> bool:
    try:
        return trio.lowlevel.current_task() is task
    except RuntimeError:
        return False
