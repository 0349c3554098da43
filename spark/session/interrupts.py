"""Defers Ctrl-C while py4j runs, and suppresses py4j's log messages.

A KeyboardInterrupt may be raised anywhere in the main thread: in a request to the JVM, which makes
py4j log a traceback, or in a finalizer, in which Python prints and ignores it. So while a block
runs, Ctrl-C is only recorded. `TerminatedAsInterrupted` makes SIGTERM act like Ctrl-C, even in a
background command of a script, which ignores Ctrl-C.
"""

import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Args = TypeVarTuple("Args")


class DeferredInterrupts:
    """A block during which Ctrl-C is only recorded, and SIGTERM too if it acts like Ctrl-C. `check`
    or the end of the block raises KeyboardInterrupt for a recorded signal.

    Has an effect only in the main thread. If the process ignores Ctrl-C, it continues to do so.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._noted = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal was recorded, once for each signal."""
        if self._noted:
            self._noted = False
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self._noted = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            if callable(before := signal.getsignal(signal.SIGINT)):
                self._before[signal.SIGINT] = before
            if _terminates_as_interrupted():
                self._before[signal.SIGTERM] = signal.getsignal(signal.SIGTERM)
            for number in self._before:
                signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if error is None:
            self.check()


class TerminatedAsInterrupted:
    """A block during which SIGTERM raises KeyboardInterrupt, as Ctrl-C does. Has an effect only in
    the main thread."""

    def __init__(self) -> None:
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)


def _terminates_as_interrupted() -> bool:
    return signal.getsignal(signal.SIGTERM) is signal.default_int_handler


def run_trio(main: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
    """Call `trio.run(main, *args)`, also while SIGTERM acts like Ctrl-C.

    trio handles Ctrl-C, but no other signal: a KeyboardInterrupt inside trio's own code could leave
    tasks incomplete or prevent the loop from ending. So from before trio starts until it has ended,
    SIGTERM is only recorded. It cancels `main`, and KeyboardInterrupt is raised once all tasks have
    ended.
    """
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or not _terminates_as_interrupted():
        return trio.run(main, *args)
    scope = trio.CancelScope()
    token: trio.lowlevel.TrioToken | None = None
    noted = False

    def note(*_: object) -> None:
        nonlocal noted
        noted = True
        if token is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(scope.cancel)

    async def terminable() -> T:
        nonlocal token
        token = trio.lowlevel.current_trio_token()
        if noted:
            scope.cancel()
        with scope:
            return await main(*args)
        raise KeyboardInterrupt  # reached only if the scope was cancelled

    before = signal.signal(signal.SIGTERM, note)
    try:
        return trio.run(terminable)
    finally:
        signal.signal(signal.SIGTERM, before)
        if noted:  # also if the signal arrived while trio started or ended
            raise KeyboardInterrupt


class QuietPy4j:
    """A block during which py4j logs nothing. Otherwise it logs the end of a JVM to the root
    logger, with tracebacks."""

    def __init__(self) -> None:
        self._handler: Final = logging.NullHandler()
        """Without a handler, the first log record would add one to the root logger that writes to
        standard error."""

    def __enter__(self) -> Self:
        logging.root.addHandler(self._handler)
        for logger in (logging.root, *_OWN_LOGGERS):
            logger.addFilter(_is_not_py4j)
        return self

    def __exit__(self, *_: object) -> None:
        for logger in (logging.root, *_OWN_LOGGERS):
            logger.removeFilter(_is_not_py4j)
        logging.root.removeHandler(self._handler)


_OWN_LOGGERS: Final = tuple(map(logging.getLogger, ("py4j.java_gateway", "py4j.clientserver")))


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname
