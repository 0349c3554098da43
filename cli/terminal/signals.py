"""Ctrl-C as something that happens, for commands that leave something behind and have to ask what is to become of it; and
SIGTERM and SIGHUP as another Ctrl-C, for all of them."""

import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

import trio

from pk.cli.runtime.interruption import note_signal
from pk.net.endings import drop_dead_terminal, ending_signals


class Interrupts:
    """The signals that came (SIGINT, SIGTERM, SIGHUP) while they were listened to."""

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
            number = await anext(signals)
            note_signal(number)
            if number == signal.SIGHUP:
                drop_dead_terminal()
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
    def listening(self) -> Generator[AsyncIterator[int]]:
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
def listen_for_interrupts() -> Generator[Interrupts]:
    """Makes SIGINT, SIGTERM and SIGHUP wait to be asked for. In the shell, whose loop runs beside the main thread, Ctrl-C comes by
    the shell's relay."""
    if threading.current_thread() is not threading.main_thread():
        relay = RELAY.get()
        if relay is None:
            yield Interrupts(None)
            return
        with relay.listening() as signals:
            yield Interrupts(signals)
        return
    with trio.open_signal_receiver(*ending_signals()) as signals:
        yield Interrupts(aiter(signals))


_SOON_S = 0.2
_LATE_S = 2.0
"""How long the loop may take to hear of a signal: in the command's own code, and in that of its other tasks."""

_AGAIN_S = 0.05


class _Ending:
    """Ends the command that this task runs, at the next point where it waits for something.

    KeyboardInterrupt in the middle of anything would break what it meets: a nursery that is just being opened, a client
    that other tasks use and the last words still need. Only where the loop does not get to hear of the signal, since
    the command computes for long or a write blocks, is it raised right there; never inside of trio or of a context
    manager's beginning and end.
    """

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self._token = trio.lowlevel.current_trio_token()
        self._here = trio.lowlevel.current_task()
        self._heard = True
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (*ending_signals(), signal.SIGALRM):
            self._before[number] = signal.getsignal(number)
        for number in self._before.keys() - {signal.SIGINT, signal.SIGALRM}:
            signal.signal(number, self._end)
        # A command in the background of a script ignores it.
        if callable(self._before[signal.SIGINT]):
            signal.signal(signal.SIGINT, self._end)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        note_signal(number)
        if number == signal.SIGHUP:
            signal.signal(
                number, signal.SIG_IGN
            )  # a shell that goes with its terminal may tell of it twice
            drop_dead_terminal()
        elif number == signal.SIGINT:
            signal.signal(number, self._before[number])
        else:
            signal.signal(number, signal.SIG_DFL)
        self._heard, self._since = False, time.monotonic()
        self._token.run_sync_soon(self._hear)
        signal.signal(signal.SIGALRM, self._unheard)
        signal.setitimer(signal.ITIMER_REAL, _SOON_S)

    def _hear(self) -> None:
        self._heard = True
        self._scope.cancel()

    def _unheard(self, number: int, frame: FrameType | None) -> None:
        if self._heard:
            return
        late = time.monotonic() - self._since > _LATE_S
        task = _running_task()
        if task is not None and (task is self._here or late) and not _is_delicate(frame, task):
            self._heard = True
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


@contextmanager
def signals_cancel(scope: trio.CancelScope) -> Generator[None]:
    """Makes SIGINT, SIGTERM and SIGHUP cancel `scope`, so that what a command does last (a commit, a note) is done whichever
    comes. The second SIGTERM ends the process; the second Ctrl-C is trio's. Where the command hangs in code that does not wait
    for the loop, it gets a KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _Ending(scope):
        yield


def _running_task() -> trio.lowlevel.Task | None:
    try:
        return trio.lowlevel.current_task()
    except RuntimeError:
        return None


def _is_delicate(frame: FrameType | None, task: trio.lowlevel.Task) -> bool:
    """Whether an exception there would break what others rely on."""
    if trio.lowlevel.currently_ki_protected():
        return True
    while frame is not None and frame is not task.coro.cr_frame:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in ("trio", "contextlib", "importlib"):
            return True
        frame = frame.f_back
    return False
