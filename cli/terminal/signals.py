"""Delivers Ctrl-C as an event, for commands that leave something behind and must ask what to do
with it. For all commands, SIGTERM and SIGHUP are equivalent to Ctrl-C."""

import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from queue import SimpleQueue
from types import FrameType
from typing import Any

import trio

from pk.cli.terminal.interruption import note_signal
from pk.net.shutdown_signals import redirect_closed_terminal, shutdown_signals


class Interrupts:
    """The signals (SIGINT, SIGTERM, SIGHUP) that have arrived during a block that listens."""

    def __init__(self, signals: AsyncIterator[int] | None) -> None:
        self._signals = signals

    async def or_until(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run `work` to its end or until the next signal. Returns True if a signal interrupted
        it."""
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
                redirect_closed_terminal()
            interrupted = True
            scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, nursery.cancel_scope)
            await work()
            nursery.cancel_scope.cancel()
        return interrupted


class Relay:
    """Passes Ctrl-C from the shell, which has the main thread, to the command that listens for
    it."""

    def __init__(self) -> None:
        self._listeners: list[trio.MemorySendChannel[int]] = []
        self.arrived = 0
        """The number of Ctrl-C that the shell has received while the command ran."""

        self.for_main_thread: SimpleQueue[Callable[[], object]] = SimpleQueue()
        """Calls that the shell makes in the main thread while it waits for the command."""

    async def handled_by_main_thread(self) -> None:
        """Wait until the main thread has handled each signal that arrived before this call, so that
        `arrived` counts it."""
        handled = trio.Event()
        token = trio.lowlevel.current_trio_token()
        self.for_main_thread.put(lambda: token.run_sync_soon(handled.set))
        await handled.wait()

    def passes_on(self) -> bool:
        """Deliver a Ctrl-C to the latest listener. Returns False if there is none. Called in the
        loop's thread."""
        if not self._listeners:
            return False
        try:
            self._listeners[-1].send_nowait(signal.SIGINT)
        except trio.WouldBlock:
            return False  # it has not read the earlier ones yet
        return True

    @contextmanager
    def listening(self) -> Generator[AsyncIterator[int]]:
        """The signals that arrive during the block."""
        send, receive = trio.open_memory_channel[int](2)
        self._listeners.append(send)
        try:
            yield aiter(receive)
        finally:
            self._listeners.remove(send)


RELAY: ContextVar[Relay | None] = ContextVar("RELAY", default=None)
"""The relay of a command that runs outside the main thread; it delivers Ctrl-C."""


@contextmanager
def listen_for_interrupts() -> Generator[Interrupts]:
    """Receive SIGINT, SIGTERM and SIGHUP as events. The shell's loop is not in the main thread, so
    Ctrl-C arrives there through the shell's relay."""
    if threading.current_thread() is not threading.main_thread():
        relay = RELAY.get()
        if relay is None:
            yield Interrupts(None)
            return
        with relay.listening() as signals:
            yield Interrupts(signals)
        return
    with receive_signals(*shutdown_signals()) as signals:
        yield Interrupts(signals)


@contextmanager
def receive_signals(*numbers: int) -> Generator[AsyncIterator[int]]:
    """Receive the signals that arrive during the block, like `trio.open_signal_receiver`, and count
    those that end a command, for `TypedBeforeInterrupt`. Call it in the main thread."""
    with trio.open_signal_receiver(*numbers) as signals:
        for number in numbers:
            signal.signal(number, _counting(signal.getsignal(number)))
        yield aiter(signals)


def _counting(handler: Any) -> Callable[[int, FrameType | None], None]:
    def count(number: int, frame: FrameType | None) -> None:
        _note_arrival(number)
        handler(number, frame)

    return count


_arrived = 0
"""The number of signals that end a command that have arrived in the main thread."""


def _note_arrival(number: int) -> None:
    global _arrived
    _arrived += number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class TypedBeforeInterrupt:
    """Waits for input typed on the terminal `fd`, up to the next Ctrl-C. Later input does not
    belong to the command, even if the loop sees it before the signal: it stays in the terminal for
    the next program that reads, such as the shell."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        main = threading.current_thread() is threading.main_thread()
        self._relay = None if main else RELAY.get()
        self._before = self._count()

    def _count(self) -> int:
        return _arrived if self._relay is None else self._relay.arrived

    async def wait(self) -> None:
        """Wait for input. After Ctrl-C, this never returns, and the command is cancelled."""
        await trio.lowlevel.wait_readable(self._fd)
        if self._relay is not None:
            await self._relay.handled_by_main_thread()
        if self._count() != self._before:
            await trio.sleep_forever()


_SOON_S = 0.2
_LATE_S = 2.0
"""How long the loop may take to notice a signal, in the code of the command or of its other
tasks."""

_AGAIN_S = 0.05


class _Ending:
    """Ends the command that this task runs, at the next point at which it waits.

    A KeyboardInterrupt at an arbitrary point could break a nursery that is being opened, or a
    client that other tasks use and the final steps still need. It is raised immediately only if the
    loop does not notice the signal, since the command computes for long or a write blocks; and
    never inside trio, or while a context manager is entered or left.
    """

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self._token = trio.lowlevel.current_trio_token()
        self._here = trio.lowlevel.current_task()
        self._handled = True
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (*shutdown_signals(), signal.SIGALRM):
            self._before[number] = signal.getsignal(number)
        for number in self._before.keys() - {signal.SIGINT, signal.SIGALRM}:
            signal.signal(number, self._end)
        # A background command of a script ignores Ctrl-C.
        if callable(self._before[signal.SIGINT]):
            signal.signal(signal.SIGINT, self._end)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        note_signal(number)
        _note_arrival(number)
        if number == signal.SIGHUP:
            signal.signal(
                number, signal.SIG_IGN
            )  # a shell that closes with its terminal may send it twice
            redirect_closed_terminal()
        elif number == signal.SIGINT:
            signal.signal(number, self._before[number])
        else:
            signal.signal(number, signal.SIG_DFL)
        self._handled, self._since = False, time.monotonic()
        self._token.run_sync_soon(self._handle)
        signal.signal(signal.SIGALRM, self._raise_if_unhandled)
        signal.setitimer(signal.ITIMER_REAL, _SOON_S)

    def _handle(self) -> None:
        self._handled = True
        self._scope.cancel()

    def _raise_if_unhandled(self, number: int, frame: FrameType | None) -> None:
        if self._handled:
            return
        late = time.monotonic() - self._since > _LATE_S
        task = _running_task()
        if task is not None and (task is self._here or late) and not _is_delicate(frame, task):
            self._handled = True
            raise KeyboardInterrupt
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


@contextmanager
def signals_cancel(scope: trio.CancelScope) -> Generator[None]:
    """Make SIGINT, SIGTERM and SIGHUP cancel `scope`, so that the command's final steps (a commit,
    a state file) run whichever signal arrives. The second SIGTERM ends the process; the second
    Ctrl-C is trio's. A command that hangs in code that does not wait for the loop gets a
    KeyboardInterrupt."""
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
    """Whether an exception at this point would break what other code relies on."""
    if trio.lowlevel.currently_ki_protected():
        return True
    while frame is not None and frame is not task.coro.cr_frame:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in ("trio", "contextlib", "importlib"):
            return True
        frame = frame.f_back
    return False
