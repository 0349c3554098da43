"""Calls Spark from a background thread, while the main thread reports progress and handles Ctrl-C.

A KeyboardInterrupt inside py4j leaves tracebacks and may be lost. So while the thread runs, Ctrl-C
is only recorded, and the main thread handles it between two checks of the thread.
"""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from pk.spark.session.interrupts import DeferredInterrupts

T = TypeVar("T")

_POLL_S: Final = 0.1


def in_background(
    work: Callable[[], T], *, tick: Callable[[], None], stop: Callable[[], None], name: str
) -> T:
    """Run `work` in a thread named `name` and return its result; call `tick` ten times a second.

    If `tick` or Ctrl-C raises, calls `stop`, which must make `work` end, and waits for it. Raises
    the exceptions of `work` and `tick`, and KeyboardInterrupt.
    """
    results: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as e:  # noqa: BLE001 (raised again below)
            failure.append(e)

    thread = threading.Thread(target=run, name=name, daemon=True)
    with DeferredInterrupts() as interrupts:
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_POLL_S)
                interrupts.check()
                tick()
        except BaseException:
            stop()
            thread.join()
            raise
    if failure:
        raise failure[0]
    return results[0]
