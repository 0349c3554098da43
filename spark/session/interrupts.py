"""Defers Ctrl-C while py4j runs until nothing is half done, and suppresses py4j's log messages.

A KeyboardInterrupt may come between any two steps of the main thread: in a request to the JVM,
which makes py4j log a traceback, or in a finalizer, where Python prints and ignores it. So while a
block runs, Ctrl-C is only recorded.
"""

import logging
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self


class DeferredInterrupts:
    """Records Ctrl-C during the block; `check` or the end of the block raises KeyboardInterrupt for
    it.

    Has an effect only in the main thread, and only if Ctrl-C is not ignored.
    """

    def __init__(self) -> None:
        self._before: Any = None
        self._noted = False

    def check(self) -> None:
        """Raises KeyboardInterrupt, once, if Ctrl-C was pressed."""
        if self._noted:
            self._noted = False
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self._noted = True

    def __enter__(self) -> Self:
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self._before = before
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if error is None:
            self.check()


class TerminatedAsInterrupted:
    """During the block SIGTERM does what Ctrl-C does. Has an effect only in the main thread."""

    def __init__(self) -> None:
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    @staticmethod
    def _interrupt(_: int, frame: FrameType | None) -> None:
        # Called and not raised: a shell's background jobs ignore SIGINT.
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)


class QuietPy4j:
    """Drops py4j's log messages during the block: it logs the end of a JVM to the root logger, with
    tracebacks."""

    def __init__(self) -> None:
        self._handler: Final = logging.NullHandler()
        """Without a handler, the first log record would give the root logger one that writes to
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
