"""A progress bar on standard error for work that takes more than a second. Before that, nothing is
imported or drawn."""

import time
from types import TracebackType
from typing import Any, Self

from pk.cli.runtime.context import Context
from pk.cli.terminal.suspend import cursor_back

_QUIET_S = 1.0
_EVERY_S = 0.1


class Progress:
    """Shows progress, on a terminal only, after the first second.

    If standard output is a terminal too, there is no bar, unless the code that writes to it hides
    the bar first (`hide`): `over_output`.
    """

    def __init__(
        self,
        context: Context,
        what: str,
        total: int,
        *,
        unit: str = "records",
        over_output: bool = False,
    ) -> None:
        streams = context.streams
        shares = streams.out_terminal and not over_output
        self._shows = streams.err_redraws and not shares
        self._what = what
        self._total = total
        self._unit = unit
        self._since = time.monotonic()
        self._last = 0.0
        self._bar: Any = None
        self._task: Any = None
        self._drawn = False
        self._held = cursor_back(streams.err)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.hide()

    def hide(self) -> None:
        """Removes the bar from the terminal until the next update."""
        if self._drawn:
            self._drawn = False
            self._bar.stop()
            self._held.close()

    def update(
        self,
        done: int,
        note: str = "",
        *,
        total: int | None = None,
        bytes_done: int | None = None,
    ) -> None:
        """Sets how much of the total is done; shows the rate of bytes read or written."""
        if not self._shows:
            return
        now = time.monotonic()
        if now - self._since < _QUIET_S or now - self._last < _EVERY_S:
            return
        self._last = now
        self._total = total if total is not None else self._total
        if self._bar is None:
            self._bar, self._task = self._make(now - self._since)
        if not self._drawn:
            self._drawn = True
            self._bar.start()
            self._held.open()
        rate = ""
        if bytes_done is not None:
            rate = f"{bytes_done / 1e6 / (now - self._since):,.1f} MB/s"
        whole = f"{done:,} of {self._total:,}" if self._total else f"{done:,}"
        self._bar.update(
            self._task,
            completed=done,
            total=self._total or None,
            whole=f"{whole} {self._unit}",
            rate=rate,
            note=note,
        )
        self._bar.refresh()

    def _make(self, passed_s: float) -> tuple[Any, Any]:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TaskProgressColumn(),
            TextColumn("{task.fields[whole]}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            # The estimate counts from the start, including the time before the bar appeared.
            speed_estimate_period=max(30.0, passed_s),
        )
        task = bar.add_task(self._what, total=self._total or None, whole="", rate="", note="")
        return bar, task
