"""A bar on standard error for what takes more than a second. Nothing is imported or drawn before that."""

import time
from types import TracebackType
from typing import Any, Self

from pk.cli.context import Context

_QUIET_S = 1.0
_EVERY_S = 0.1


class Progress:
    """Shows how far something is, on a terminal only, once a second has passed."""

    def __init__(self, context: Context, what: str, total: int, *, unit: str = "records") -> None:
        # A bar among the records on the same terminal would only be in the way.
        self._shows = context.streams.err_colour and not context.streams.out_terminal
        self._what = what
        self._total = total
        self._unit = unit
        self._since = time.monotonic()
        self._last = 0.0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, note: str = "", *, total: int | None = None) -> None:
        """Says that `done` of the total is done."""
        if not self._shows:
            return
        now = time.monotonic()
        if now - self._since < _QUIET_S or now - self._last < _EVERY_S:
            return
        self._last = now
        if self._bar is None:
            self._bar = self._start()
        self._total = total if total is not None else self._total
        self._bar.update(self._task, completed=done, note=note, total=self._total or None)

    def _start(self) -> Any:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import (
            Progress as RichProgress,
        )

        bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TextColumn(self._unit),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = bar.add_task(self._what, total=self._total or None, note="")
        bar.start()
        return bar
